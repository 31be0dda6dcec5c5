/* Hooks: calls of the processing element's control code, by the engine and by kernels. */
#include "cpu_control.h"

#include <string.h>

/* The PE's unit as records of the thread that called want it. Launches may last, and begin before anybody listens: so
 * the clock is looked after here too. */
static void prepare(struct cpu_pe *pe)
{
    pe->unit.warp = cpu_warp_of(pe);
    cpu_clock_anchor(&pe->unit, &pe->engine->clock);
}

/* ---- hooks of the engine ------------------------------------------------------------------------------------ */

void cpu_hook_join(struct cpu_pe *pe, const struct cpu_launch *launch)
{
    struct vgc_ctl_unit *unit = &pe->unit;
    unit->kernel = (uint64_t)(uintptr_t)launch->kernel->name;
    unit->launch = launch->number;
    unit->threads = launch->num_threads;
    unit->stop = (const volatile uint8_t *)&launch->stop;
    unit->warp = 0;
    if (vgc_ctl_attention(unit) != 0)
        cpu_clock_anchor(unit, &pe->engine->clock);
}

void cpu_hook_leave(struct cpu_pe *pe)
{
    if (pe->attended) /* the block was left before its end */
        cpu_hook_block_end(pe);
    pe->unit.kernel = 0;
    pe->unit.stop = NULL;
    pe->unit.threads = 0;
    if (vgc_ctl_attention(&pe->unit) != 0)
        CPU_HOOK(pe, pe->modules->idle(&pe->unit));
}

bool cpu_hook_block_begin(struct cpu_pe *pe)
{
    uint32_t attention = vgc_ctl_attention(&pe->unit);
    if ((attention & VGC_CTL_ATTEND_FIRMWARE) != 0)
        cpu_firmware_change(pe);
    if ((attention & VGC_CTL_ATTEND_BLOCKS) == 0)
        return false;
    pe->unit.warp = 0;
    cpu_clock_anchor(&pe->unit, &pe->engine->clock);
    CPU_HOOK(pe, pe->modules->block_begin(&pe->unit));
    return pe->attended = true;
}

void cpu_hook_block_end(struct cpu_pe *pe)
{
    pe->attended = false;
    pe->unit.warp = 0;
    CPU_HOOK(pe, pe->modules->block_end(&pe->unit));
}

void cpu_hook_idle(struct cpu_pe *pe)
{
    uint32_t attention = vgc_ctl_attention(&pe->unit);
    if ((attention & VGC_CTL_ATTEND_FIRMWARE) != 0)
        cpu_firmware_change(pe);
    if ((attention & VGC_CTL_ATTEND_BLOCKS) == 0)
        return;
    cpu_clock_anchor(&pe->unit, &pe->engine->clock);
    CPU_HOOK(pe, pe->modules->poll(&pe->unit));
}

void cpu_hook_print(struct cpu_pe *pe, const char *text, uint32_t length)
{
    if (vgc_ctl_bound(&pe->unit, VGC_CTL_STDIO) == 0)
        return;
    prepare(pe);
    CPU_HOOK(pe, pe->modules->text(&pe->unit, (const uint8_t *)text, length));
}

/* Uses the built-in code, as loaded code may be the cause of the fault. */
void cpu_hook_fault(struct cpu_pe *pe, enum vgc_ctl_fault code, const char *text)
{
    struct vgc_ctl_unit unit = pe->unit;
    unit.warp = cpu_warp_of(pe);
    unit.block += cpu_blocks_before(pe);
    cpu_clock_anchor(&unit, &pe->engine->clock);
    vgc_ctl_fault_text(&unit, code, (const uint8_t *)text, (uint32_t)strlen(text));
}

/* ---- calls of kernels ---------------------------------------------------------------------------------------- */

uint32_t __vgc_ctl_level(uint32_t function)
{
    const struct cpu_pe *pe = cpu_current_pe();
    uint64_t word = function < VGC_CTL_FUNCTIONS ? vgc_ctl_bound(&pe->unit, function) : 0;
    uint32_t level = vgc_ctl_bind_level(word);
    return word != 0 && level == 0 ? 1 : level;
}

/* Copies the payload before the hook: an unreadable one faults in the kernel, not in the hook. */
int __vgc_ctl_emit(uint32_t function, uint32_t type, uint32_t level, const void *payload, uint32_t length)
{
    struct cpu_pe *pe = cpu_current_pe();
    uint8_t copy[VGC_CTL_MAX_PAYLOAD];
    volatile bool made = false;
    uint32_t kept = length < sizeof(copy) ? length : (uint32_t)sizeof(copy);
    struct vgc_ctl_message message = {function, level, type, kept, copy, 0, false};
    if (function >= VGC_CTL_FUNCTIONS)
        return 0;
    memcpy(copy, payload, kept);
    prepare(pe);
    if (function == VGC_CTL_FAULT)
        CPU_HOOK(pe, made = pe->modules->fault(&pe->unit, type, level, copy, kept));
    else
        CPU_HOOK(pe, made = pe->modules->emit(&pe->unit, &message));
    return made;
}

void __vgc_ctl_count(const char *name, int64_t delta)
{
    struct cpu_pe *pe = cpu_current_pe();
    CPU_HOOK(pe, pe->modules->count(&pe->unit, (uint64_t)(uintptr_t)name, delta));
}

void __vgc_ctl_gauge(const char *name, double value)
{
    struct cpu_pe *pe = cpu_current_pe();
    prepare(pe);
    CPU_HOOK(pe, pe->modules->gauge(&pe->unit, (uint64_t)(uintptr_t)name, value));
}

uint32_t __vgc_ctl_read(void *to, uint32_t size)
{
    struct cpu_pe *pe = cpu_current_pe();
    uint8_t copy[VGC_CTL_MAX_PAYLOAD];
    volatile uint32_t took = 0;
    uint32_t wanted = size < sizeof(copy) ? size : (uint32_t)sizeof(copy);
    prepare(pe);
    CPU_HOOK(pe, took = pe->modules->read(&pe->unit, copy, wanted));
    took = took < wanted ? took : wanted;
    memcpy(to, copy, took);
    return took;
}

int __vgc_ctl_poll(void)
{
    struct cpu_pe *pe = cpu_current_pe();
    uint32_t attention = vgc_ctl_attention(&pe->unit);
    if ((attention & VGC_CTL_ATTEND_FIRMWARE) != 0)
        cpu_firmware_change(pe);
    if ((attention & VGC_CTL_ATTEND_BLOCKS) != 0) {
        prepare(pe);
        CPU_HOOK(pe, pe->modules->poll(&pe->unit));
    }
    return !vgc_ctl_is_stopped(&pe->unit);
}
