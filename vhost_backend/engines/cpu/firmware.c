/* Firmware slots: A and B hold control code, as tables of functions (kernels/control/modules.h). Each element runs the
 * code of one slot, and changes between two hooks. Both slots begin with the built-in code; further images are ELF
 * files that vgc-cpucc compiled from the same source. */
#include "cpu_control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

const struct vgc_ctl_modules cpu_built_in = VGC_CTL_MODULES;

static const uint64_t BUILT_IN_VERSION =
    (uint64_t)VGC_CTL_BUILT_IN_MAJOR << 32 | (uint64_t)VGC_CTL_BUILT_IN_MINOR << 16 | VGC_CTL_BUILT_IN_PATCH;

static void put_built_in(struct cpu_firmware *slot)
{
    *slot = (struct cpu_firmware){.modules = &cpu_built_in, .version = BUILT_IN_VERSION};
}

void cpu_firmware_start(struct cpu_engine *engine)
{
    for (uint32_t i = 0; i < CPU_FIRMWARE_SLOTS; i++)
        put_built_in(&engine->slots[i]);
}

/* ---- images ------------------------------------------------------------------------------------------------- */

static bool is_code(const struct cpu_elf *elf, const void *address)
{
    return (uintptr_t)address - (uintptr_t)elf->base < elf->mapped;
}

/* Reason why hooks cannot use the table, or NULL. Whether its functions work is found out by their self test. */
static const char *find_fault(const struct cpu_elf *elf, const struct vgc_ctl_modules *modules, uint64_t size)
{
    if ((uintptr_t)modules % _Alignof(struct vgc_ctl_modules) != 0)
        return "its table is not aligned";
    if (size != sizeof(*modules) || modules->abi != VGC_CTL_ABI || modules->bytes != sizeof(*modules))
        return "its table has another version of VGC_CTL_ABI";
    const void *const *functions = (const void *const *)&modules->block_begin;
    size_t count = (sizeof(*modules) - offsetof(struct vgc_ctl_modules, block_begin)) / sizeof(void *);
    for (size_t i = 0; i < count; i++)
        if (!is_code(elf, functions[i]))
            return "its table points out of the image";
    return NULL;
}

static const char *find_modules(struct cpu_firmware *slot, const struct vgc_cpu_image *image)
{
    for (uint32_t i = 0; i < image->num_globals; i++) {
        const struct vgc_cpu_global_desc *global = &image->globals[i];
        if (strcmp(global->name, "vgc_ctl_modules") != 0)
            continue;
        slot->modules = global->address;
        return find_fault(&slot->elf, slot->modules, global->size);
    }
    return "it has no table of control code (vgc_ctl_modules)";
}

static void unload(struct cpu_engine *engine, struct cpu_firmware *slot)
{
    if (slot->elf.file == NULL)
        return;
    if (slot->elf.base != NULL)
        cpu_elf_unload(engine, &slot->elf);
    munmap((void *)(uintptr_t)slot->elf.file, slot->elf.file_size);
}

void cpu_firmware_stop(struct cpu_engine *engine)
{
    for (uint32_t i = 0; i < CPU_FIRMWARE_SLOTS; i++)
        unload(engine, &engine->slots[i]);
}

/* Loads an image from `fd` into `slot`. */
static int load(struct cpu_engine *engine, int fd, uint64_t size, struct cpu_firmware *slot, char *why)
{
    const struct vgc_cpu_image *image = NULL;
    const uint8_t *file = size == 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED) {
        snprintf(why, VGC_CPU_WHY, "the firmware image of %lu bytes cannot be mapped", (unsigned long)size);
        return -1;
    }
    slot->elf = (struct cpu_elf){.file = file, .file_size = size, .outside = true};
    const char *fault = NULL;
    if (cpu_elf_load(engine, &slot->elf, 0, &image, why) != 0) {
        slot->elf.base = NULL;
    } else if ((fault = find_modules(slot, image)) == NULL) {
        return 0;
    } else {
        snprintf(why, VGC_CPU_WHY, "the firmware image cannot be used: %s", fault);
    }
    unload(engine, slot);
    return -1;
}

/* Lock held. */
static bool is_in_use(const struct cpu_engine *engine, uint32_t slot)
{
    for (uint32_t i = 0; i < engine->started_pes; i++)
        if (engine->pes[i].slot == slot || engine->pes[i].trying == (int)slot)
            return true;
    return false;
}

/* Puts `made` into a slot that no element runs. */
static int put(struct cpu_engine *engine, uint32_t number, const struct cpu_firmware *made, char *why)
{
    struct cpu_firmware before;
    pthread_mutex_lock(&engine->lock);
    bool used = is_in_use(engine, number);
    if (!used) {
        before = engine->slots[number];
        engine->slots[number] = *made;
    }
    pthread_mutex_unlock(&engine->lock);
    if (used) {
        snprintf(why, VGC_CPU_WHY, "processing elements run the code in slot %c; allowed: a slot that no element runs",
                 'A' + (int)number);
        return -1;
    }
    unload(engine, &before);
    return 0;
}

static bool is_slot(uint32_t slot, char *why)
{
    if (slot < CPU_FIRMWARE_SLOTS)
        return true;
    snprintf(why, VGC_CPU_WHY, "there is no firmware slot %u; allowed: 0 (A), 1 (B)", slot);
    return false;
}

int vgc_cpu_firmware_load(struct vgc_engine *base, int fd, uint64_t size, uint32_t slot, uint64_t version, char *why)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    struct cpu_firmware made = {.version = version};
    if (!is_slot(slot, why) || load(engine, fd, size, &made, why) != 0)
        return -1;
    if (put(engine, slot, &made, why) == 0)
        return 0;
    unload(engine, &made);
    return -1;
}

int vgc_cpu_firmware_unload(struct vgc_engine *base, uint32_t slot, char *why)
{
    struct cpu_firmware made;
    put_built_in(&made);
    return is_slot(slot, why) ? put(cpu_engine_of(base), slot, &made, why) : -1;
}

/* ---- changing ----------------------------------------------------------------------------------------------- */

static void report(struct cpu_pe *pe, uint32_t tried, uint64_t version, enum vgc_ctl_firmware_state state,
                   uint64_t code)
{
    struct vgc_ctl_pe *row = pe->unit.pe;
    vgc_ctl_store64(&row->firmware_version, pe->engine->slots[pe->slot].version);
    vgc_ctl_store32(&row->firmware_slot, pe->slot);
    vgc_ctl_store64(&row->firmware_code, code);
    vgc_ctl_store32(&row->firmware_tried, tried);
    __atomic_store_n(&row->firmware_state, state, __ATOMIC_RELEASE);
    vgc_ctl_firmware_state(&pe->unit, version, tried, state, code);
}

/* Holds the slot for the PE, so that its code is not replaced; returns its table. */
static const struct vgc_ctl_modules *hold(struct cpu_pe *pe, uint32_t slot, uint64_t *version)
{
    struct cpu_engine *engine = pe->engine;
    pthread_mutex_lock(&engine->lock);
    pe->trying = (int)slot;
    const struct vgc_ctl_modules *modules = engine->slots[slot].modules;
    *version = engine->slots[slot].version;
    pthread_mutex_unlock(&engine->lock);
    return modules;
}

static void settle(struct cpu_pe *pe, uint32_t slot)
{
    pthread_mutex_lock(&pe->engine->lock);
    pe->slot = slot;
    pe->modules = pe->engine->slots[slot].modules;
    pe->trying = -1;
    pthread_mutex_unlock(&pe->engine->lock);
}

/* Runs an image's self test, which may fault. Returns its result, or 256 + the signal's number. */
static uint64_t try_out(struct cpu_pe *pe, const struct vgc_ctl_modules *modules)
{
    enum { DIED_OF = 256 };
    struct vgc_ctl_scratch scratch __attribute__((aligned(64)));
    memset(&scratch, 0, sizeof(scratch));
    int signal = _setjmp(pe->leave_hook);
    if (signal != 0) {
        pe->in_hook = false;
        return DIED_OF + (uint64_t)signal;
    }
    pe->in_hook = true;
    uint64_t code = modules->self_test(&pe->unit, &scratch);
    pe->in_hook = false;
    return code;
}

void cpu_firmware_change(struct cpu_pe *pe)
{
    uint32_t wanted = __atomic_exchange_n(&pe->unit.pe->firmware_wanted, 0, __ATOMIC_ACQ_REL);
    uint64_t version = 0;
    if (wanted == 0)
        return;
    uint32_t slot = wanted - 1;
    if (slot >= CPU_FIRMWARE_SLOTS) {
        report(pe, slot, 0, VGC_CTL_FW_ROLLED_BACK, EINVAL);
        return;
    }
    const struct vgc_ctl_modules *modules = hold(pe, slot, &version);
    uint64_t code = try_out(pe, modules);
    settle(pe, code == 0 ? slot : pe->slot);
    report(pe, slot, version, code == 0 ? VGC_CTL_FW_ACTIVE : VGC_CTL_FW_ROLLED_BACK, code);
}

void cpu_firmware_failed(struct cpu_pe *pe, int signal)
{
    struct cpu_engine *engine = pe->engine;
    uint32_t failed = pe->slot, other = (failed + 1) % CPU_FIRMWARE_SLOTS;
    uint64_t version;
    pe->in_hook = false;
    vgc_ctl_release(&pe->unit); /* the code may have faulted while it held a channel */
    (void)hold(pe, other, &version);
    version = engine->slots[failed].version;
    settle(pe, other);
    report(pe, failed, version, VGC_CTL_FW_ROLLED_BACK, 256 + (uint64_t)signal);
}
