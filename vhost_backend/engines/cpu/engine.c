/* Life of the CPU engine, and what the data plane calls. */
#include "cpu_control.h"

#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int cpu_map_region(struct vgc_engine *engine, uint8_t *host, uint64_t size, uint64_t *address)
{
    struct cpu_engine *cpu = cpu_engine_of(engine);
    if (cpu->region != 0)
        cpu_bounds_remove(&cpu->bounds, cpu->region);
    cpu->region = (uintptr_t)host;
    if (host != NULL && !cpu_bounds_add(&cpu->bounds, cpu->region, size, false))
        return -ENOMEM;
    *address = (uint64_t)(uintptr_t)host;
    return 0;
}

static uint64_t cpu_launch_bytes(struct vgc_engine *engine, const struct vgc_op *op)
{
    return op->kernel->builtin != NULL ? cpu_builtin_bytes(cpu_engine_of(engine), op) : cpu_resident_bytes(op);
}

static void cpu_describe_op(struct vgc_engine *base, const struct vgc_op *op, char *text, uint32_t size)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    snprintf(text, size, "not started");
    for (uint32_t i = 0; i < engine->started_pes; i++) {
        struct cpu_pe *pe = &engine->pes[i];
        const struct cpu_launch *launch = atomic_load(&pe->launch);
        if (launch == NULL || launch->op != op)
            continue;
        /* Before its first region of the launch, a PE's position is that of an earlier one. */
        if (atomic_load(&pe->in_kernel))
            cpu_describe(pe, text, size);
        else if (pe->in_hook)
            snprintf(text, size, "a hook of loaded firmware, called between blocks of kernel '%s'",
                     launch->kernel->name);
        else
            continue;
        cpu_hook_fault(pe, VGC_CTL_FAULT_DEADLINE, text);
        return;
    }
}

static void free_engine(struct cpu_engine *engine)
{
    while (engine->free_launches != NULL) {
        struct cpu_launch *next = engine->free_launches->next;
        free(engine->free_launches);
        engine->free_launches = next;
    }
    cpu_firmware_stop(engine);
    cpu_control_detach(engine);
    cpu_granules_close(engine);
    cpu_builtins_free(engine);
    cpu_bounds_free(&engine->bounds);
    cpu_bounds_free(&engine->blocks);
    pthread_mutex_destroy(&engine->bounds.lock);
    pthread_mutex_destroy(&engine->blocks.lock);
    pthread_mutex_destroy(&engine->quarantine.lock);
    pthread_mutex_destroy(&engine->programs_lock);
    pthread_mutex_destroy(&engine->sampler.lock);
    pthread_cond_destroy(&engine->sampler.work);
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->work);
    for (uint32_t context = 0; context <= VGC_MAX_CONTEXTS; context++)
        free(engine->outputs[context].text);
    free(engine);
}

static void cpu_close(struct vgc_engine *base)
{
    cpu_pes_stop(cpu_engine_of(base));
    free_engine(cpu_engine_of(base));
}

void vgc_cpu_engine_close(struct vgc_engine *engine)
{
    cpu_close(engine);
}

static const struct vgc_engine_ops CPU_OPS = {
    .name = "cpu",
    .kind = VGC_ENGINE_KIND_CPU,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .map_region = cpu_map_region,
    .put_texture = cpu_put_texture,
    .submit = cpu_submit,
    .graphs = true,
    .builtin = cpu_find_builtin,
    .launch_bytes = cpu_launch_bytes,
    .poll = cpu_poll,
    .offer_pes = cpu_offer_pes,
    .describe = cpu_describe_op,
    .cancel = cpu_cancel,
    .take_output = cpu_take_output,
    .alloc_at = cpu_alloc_at,
    .save = cpu_save,
    .restore = cpu_restore,
    .put_output = cpu_put_output,
    .control_attach = cpu_control_attach,
    .control_kick = cpu_control_kick,
    .control_look = cpu_control_look,
    .control_text = cpu_control_text,
    .close = cpu_close,
};

void vgc_cpu_brand(char *brand)
{
    enum { FIRST_LEAF = 0x80000002, LEAVES = 3 };
    uint32_t words[4 * LEAVES] = {0};
    if (__get_cpuid_max(0x80000000u, NULL) >= FIRST_LEAF + LEAVES - 1)
        for (uint32_t i = 0; i < LEAVES; i++)
            __cpuid(FIRST_LEAF + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    memcpy(brand, words, sizeof(words));
    brand[sizeof(words)] = '\0';
}

uint32_t vgc_cpu_level(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4"))
        return 4;
    if (__builtin_cpu_supports("x86-64-v3"))
        return 3;
    return __builtin_cpu_supports("x86-64-v2") ? 2 : 1;
}

/* Rate of the counter that clock() and clock64() of kernels read. */
static uint32_t counter_khz(void)
{
    struct vgc_ctl_clock clock;
    cpu_clock_start(&clock);
    uint64_t khz = clock.ns_per_tick == 0 ? 0 : (UINT64_C(1000000) << 32) / clock.ns_per_tick;
    return khz == 0 || khz > INT32_MAX ? 1000000 : (uint32_t)khz;
}

/* Properties for programs in guests, which choose the size of blocks and grids by them: those of compute
 * capability 8.0, as sources are compiled for it. A processing element runs one block after the other, in memory of its
 * own. */
static struct vgc_device_properties properties(void)
{
    long l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return (struct vgc_device_properties){
        .compute_capability = 80,
        .warp_threads = 32,
        .pe_threads = 2048,
        .pe_blocks = 32,
        .pe_registers = 65536,
        .pe_shared_bytes = 164 << 10,
        .block_registers = 65536,
        .block_shared_bytes = VGC_CPU_MAX_SHARED - CPU_ALIGN,
        .constant_bytes = 65536,
        .l2_bytes = l2_bytes > 0 && l2_bytes <= INT32_MAX ? (uint32_t)l2_bytes : 1 << 20,
        .clock_khz = counter_khz(),
        .memory_clock_khz = 1600000, /* of one DDR4-3200 channel: programs divide by it and by the width */
        .memory_bus_bits = 64,
        .copy_engines = 1,
        .double_ratio = 2,
    };
}

struct vgc_engine *vgc_cpu_engine_new(uint32_t num_pes, bool guard_pages, char *why)
{
    struct cpu_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL || cpu_faults_install() != 0) {
        snprintf(why, VGC_CPU_WHY, "no memory for the engine");
        free(engine);
        return NULL;
    }
    engine->base.ops = &CPU_OPS;
    engine->base.num_pes = num_pes;
    engine->base.max_shared_bytes = VGC_CPU_MAX_SHARED - CPU_ALIGN;
    engine->base.properties = properties();
    engine->base.alloc_granularity = CPU_ALLOC_ALIGN;
    engine->base.texture_bytes = sizeof(struct vgc_texture);
    engine->base.wake_fd = -1;
    engine->has_guard_pages = guard_pages;
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->programs_lock, NULL);
    pthread_mutex_init(&engine->sampler.lock, NULL);
    pthread_cond_init(&engine->sampler.work, NULL);
    pthread_mutex_init(&engine->bounds.lock, NULL);
    pthread_mutex_init(&engine->blocks.lock, NULL);
    pthread_mutex_init(&engine->quarantine.lock, NULL);
    cpu_firmware_start(engine);
    pthread_cond_init(&engine->work, NULL);
    return &engine->base;
}

int vgc_cpu_engine_start(struct vgc_engine *engine, char *why)
{
    return cpu_pes_start(cpu_engine_of(engine), why);
}

uint32_t vgc_cpu_run(struct vgc_engine *engine, struct vgc_op *op)
{
    if (engine->ops->submit(engine, op) == VGC_DONE)
        return op->status;
    while (atomic_load_explicit(&engine->finished, memory_order_acquire) == NULL)
        if (!engine->ops->poll(engine))
            __builtin_ia32_pause();
    atomic_store(&engine->finished, NULL);
    return op->status;
}
