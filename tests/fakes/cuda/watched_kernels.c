/* Kernels with the control system's hooks: the control code of kernels/control, compiled as C. Like a hooked program,
 * they find the control area through the module's variable. An SM runs its blocks one after the other. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "../../../kernels/control/control.h"
#include "../../../kernels/cuda/control/vgc_cuda_link.h"
#include "fake.h"

/* Parameters of a kernel. */
struct order {
    uint32_t sm;
    uint32_t blocks;
    uint64_t text; /* device address of a format without arguments, for each block to print; 0: none */
};

/* %globaltimer: has steps, and drifts by `timer_ppm` since the driver was loaded. */
static uint64_t now(void)
{
    static _Atomic int64_t began;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int64_t ns = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec, none = 0;
    atomic_compare_exchange_strong(&began, &none, ns);
    int64_t drift = (ns - began) / 1000000 * fake.settings.timer_ppm;
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    int64_t since_1970 = ((int64_t)real.tv_sec - time.tv_sec) * 1000000000 + (real.tv_nsec - time.tv_nsec);
    uint64_t timer = (uint64_t)(ns + since_1970 + drift + atomic_load(&fake_timer_offset_ns));
    return timer - timer % 32;
}
_Atomic int64_t fake_timer_offset_ns;

static const struct vgc_cuda_link *link_of(const struct fake_module *module)
{
    for (size_t i = 0; i < module->num_globals; i++)
        if (strcmp(module->globals[i].name, "__vgc_control") == 0)
            return (const struct vgc_cuda_link *)(const void *)module->globals[i].memory->host;
    return NULL;
}

static uint64_t name_of(const struct fake_module *module)
{
    for (size_t i = 0; i < module->num_globals; i++)
        if (strcmp(module->globals[i].name, "__vgc_kernels") == 0)
            return module->globals[i].memory->address;
    return 0;
}

/* The SM of a kernel. From `enter` to `leave` the control area is mapped at its device addresses; `enter` returns false
 * if there is no area. The kernel's parameter is an index; `fake_smid` has the number that hooks read from %smid. */
struct place {
    const struct vgc_cuda_link *link;
    struct fake_memory *area;
    struct fake_memory *urgent; /* links in host memory */
    struct vgc_ctl_unit unit;
};

static bool enter(struct place *place, const struct fake_launch *launch, uint32_t index)
{
    uint32_t sm = fake_smid(index);
    place->link = link_of(launch->module);
    if (place->link == NULL || sm >= place->link->num_pes)
        return false;
    place->area = fake_memory_show((CUdeviceptr)(uintptr_t)place->link->place.base);
    if (place->area == NULL)
        return false;
    place->urgent = place->link->place.urgent_size ? fake_memory_show(place->link->place.urgent) : NULL;
    place->unit = (struct vgc_ctl_unit){
        .place = &place->link->place,
        .pe = (struct vgc_ctl_pe *)(uintptr_t)place->link->pes + sm, // NOLINT(performance-no-int-to-ptr)
        .clock.now = now,
        .kernel = name_of(launch->module),
        .threads = launch->block[0] * launch->block[1] * launch->block[2],
        .number = sm,
    };
    return true;
}

static void leave(const struct place *place)
{
    fake_memory_hide(place->area);
    if (place->urgent != NULL)
        fake_memory_hide(place->urgent);
}

static void run_block(struct vgc_ctl_unit *unit, uint64_t text)
{
    bool attended = vgc_ctl_attention(unit) != 0;
    if (attended)
        vgc_ctl_block_begin(unit);
    if (text != 0)
        vgc_ctl_stdio_emit(unit, VGC_CTL_STDIO_FORMAT, (const uint8_t *)&text, sizeof(text));
    if (attended)
        vgc_ctl_block_end(unit);
}

static CUresult run_watched(struct fake_launch *launch)
{
    static _Atomic uint64_t launches;
    struct order order;
    struct place place;
    memcpy(&order, launch->params, sizeof order);
    if (!enter(&place, launch, order.sm))
        return CUDA_SUCCESS;
    place.unit.launch = ++launches;
    for (place.unit.block = 0; place.unit.block < order.blocks; place.unit.block++)
        run_block(&place.unit, order.text);
    leave(&place);
    return CUDA_SUCCESS;
}

/* Runs blocks that print and report a fault; then the kernel traps, which makes the context unusable. */
static CUresult run_traps(struct fake_launch *launch)
{
    const uint64_t words[2] = {VGC_CTL_FAULT_TRAP, 0x70617274 /* "trap" */};
    struct order order;
    struct place place;
    memcpy(&order, launch->params, sizeof order);
    if (!enter(&place, launch, order.sm))
        return CUDA_ERROR_LAUNCH_FAILED;
    for (place.unit.block = 0; place.unit.block < order.blocks; place.unit.block++)
        run_block(&place.unit, order.text);
    vgc_ctl_fault_emit(&place.unit, VGC_CTL_FAULT_TEXT, VGC_CTL_CRITICAL, (const uint8_t *)words, 12);
    leave(&place);
    return CUDA_ERROR_LAUNCH_FAILED;
}

static void interruptible(bool can)
{
    pthread_mutex_lock(&fake.lock);
    if (can)
        fake_turn_leave();
    else
        fake_turn_enter();
    pthread_mutex_unlock(&fake.lock);
}

/* Reads up to 64 bytes of standard input into the parameter's memory, after their count. */
static CUresult run_listens(struct fake_launch *launch)
{
    struct fake_memory *memory = NULL;
    struct place place;
    uint32_t sm;
    CUdeviceptr address;
    memcpy(&address, launch->params, sizeof address);
    memcpy(&sm, launch->params + sizeof address, sizeof sm);
    if (!enter(&place, launch, sm))
        return CUDA_SUCCESS;
    char *bytes = fake_memory_pin(address, 4 + 64, &memory);
    if (bytes != NULL) {
        interruptible(true); /* the host side takes turns, too */
        uint32_t took = vgc_ctl_stdio_read(&place.unit, (uint8_t *)bytes + sizeof took, 64);
        interruptible(false);
        memcpy(bytes, &took, sizeof took);
        fake_memory_unpin(memory);
    }
    leave(&place);
    return bytes == NULL ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

/* The kernel of compiler/hooks.py: writes the number of SM identifiers, then the timer. */
static CUresult run_clock(struct fake_launch *launch)
{
    struct fake_memory *memory = NULL;
    CUdeviceptr address;
    memcpy(&address, launch->params, sizeof address);
    if (fake.settings.timer_hangs)
        fake_kernel_hang(launch);
    char *answer = fake_memory_pin(address, 16, &memory);
    if (answer == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    uint64_t sm_ids = fake_smid((unsigned int)fake.settings.devices[launch->op.context->device].sms - 1) + 1;
    memcpy(answer + 8, &sm_ids, sizeof sm_ids);
    __atomic_store_n((uint64_t *)(void *)answer, now(), __ATOMIC_RELEASE);
    fake_memory_unpin(memory);
    return CUDA_SUCCESS;
}

const struct fake_kernel *fake_watched_kernel_find(const char *name)
{
    static const struct fake_kernel kernels[] = {
        {"watched", 16, run_watched},
        {"traps", 16, run_traps},
        {"listens", 12, run_listens},
        {"__vgc_clock", 8, run_clock},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}
