/* Functions of the control system that hooks call on an NVIDIA GPU; compiler/hooks.py puts the hooks into every
 * program.
 *
 * They run in a thread of the guest's kernel, on the processing element (SM) that they report about. None of them is
 * inlined, so that an unwatched kernel needs no registers for them. They synchronise with no other
 * thread, so a hook may stand in divergent code.
 *
 * Several blocks share an SM, which is busy while it has at least one attended block (see VGC_CTL_ATTEND_BLOCKS): the
 * blocks' warps are counted in and out (vgc_ctl_pe.warps), and the first block in and the last one out account for it.
 */
#ifndef VGC_CUDA_HOOKS_H
#define VGC_CUDA_HOOKS_H

#include "control.h"
#include "vgc_format.h"

/* Defined by compiler/hooks.py for a program that may include <vgc.h>. */
#ifdef VGC_CUDA_API_WANTED
#include "vgc_device_api.h"
#endif

#define VGC_CUDA_HOOK extern "C" __device__ __noinline__ __attribute__((used))

extern "C" {
/* The driver's vprintf and __assertfail: compiler/hooks.py replaces these names. */
__device__ int __vgc_driver_vprintf(const char *format, void *arguments);
__device__ void __vgc_driver_assertfail(const char *what, const char *file, unsigned int line, const char *function,
                                        size_t character_bytes);
}

/* ---- blocks -------------------------------------------------------------------------------------------------- */

VGC_CTL_FN void vgc_cuda_enter_block(const struct vgc_cuda_unit *here, uint64_t now)
{
    struct vgc_ctl_pe *pe = here->unit.pe;
    uint64_t ended = vgc_ctl_load64(&pe->ended_ns);
    bool was_idle = atomicAdd(&pe->warps, here->warps()) == 0;
    if (was_idle)
        vgc_ctl_store64(&pe->busy_since_ns, now);
    if (atomicExch((unsigned long long *)&pe->launches_seen, here->unit.launch) != here->unit.launch)
        vgc_ctl_own_add64(&pe->launches, 1);
    else if (was_idle && ended != 0 && now > ended)
        vgc_ctl_own_add64(&pe->stall_ns, now - ended);
    vgc_ctl_store64(&pe->kernel, here->unit.kernel);
    vgc_ctl_store64(&pe->launch, here->unit.launch);
    vgc_ctl_store64(&pe->block, here->unit.block);
    vgc_ctl_store64(&pe->since_ns, now);
}

/* Counts a block out. busy_since_ns cannot change before: the SM is busy with this block. */
VGC_CTL_FN void vgc_cuda_leave_block(const struct vgc_cuda_unit *here, uint64_t now)
{
    struct vgc_ctl_pe *pe = here->unit.pe;
    uint64_t busy_since = vgc_ctl_load64(&pe->busy_since_ns);
    vgc_ctl_own_add64(&pe->blocks, 1);
    vgc_ctl_own_add64(&pe->warps_done, here->warps());
    if (atomicSub(&pe->warps, here->warps()) != here->warps())
        return;
    vgc_ctl_own_add64(&pe->busy_ns, now > busy_since ? now - busy_since : 0);
    vgc_ctl_store64(&pe->ended_ns, now);
    vgc_ctl_store64(&pe->kernel, 0);
}

struct vgc_cuda_block {
    uint64_t kernel;
    uint64_t launch;
    uint64_t last_word;

    __device__ void operator()(struct vgc_cuda_writer &to) const
    {
        to.word(kernel);
        to.word(launch);
        to.word(last_word);
    }
};

/* Makes a record of a block's begin or end, like vgc_ctl_perf_block. */
static __device__ __noinline__ void vgc_cuda_perf_record(uint32_t type, uint64_t kernel, uint64_t last_word)
{
    struct vgc_cuda_unit here(kernel);
    struct vgc_ctl_execution execution;
    struct vgc_cuda_block contents = {kernel, here.unit.launch, last_word};
    struct vgc_ctl_message message = {VGC_CTL_PERF, VGC_CTL_INFO, type, 0, 0, 0, false};
    if (here.unit.pe == 0 || !vgc_ctl_hold(&here.unit, VGC_CTL_PERF, &execution))
        return;
    if (vgc_ctl_is_sampled(&execution, here.unit.block))
        vgc_cuda_record(&here.unit, &execution, &message, contents);
    vgc_ctl_release(&here.unit);
}

VGC_CTL_FN void vgc_cuda_perf_block(const struct vgc_cuda_unit *here, uint32_t type, uint64_t last_word, uint64_t now)
{
    if (vgc_ctl_bind_level(vgc_ctl_bound(&here->unit, VGC_CTL_PERF)) >= VGC_CTL_INFO)
        vgc_cuda_perf_record(type, here->unit.kernel, last_word);
}

/* Returns the time, which is passed to __vgc_block_end. `number`: of the element, already checked. */
VGC_CUDA_HOOK unsigned long long __vgc_block_begin(unsigned int number, unsigned long long kernel)
{
    struct vgc_cuda_unit here(kernel);
    here.unit.number = number;
    here.unit.pe = (struct vgc_ctl_pe *)__vgc_control.pes + number;
    uint64_t now = vgc_ctl_now(&here.unit);
    vgc_cuda_enter_block(&here, now);
    vgc_cuda_perf_block(&here, VGC_CTL_PERF_BLOCK_BEGIN, here.unit.threads, now);
    return now;
}

/* The element may differ from the one at the block's begin, as the driver may preempt a block and resume it elsewhere;
 * the block is counted out where it ends. */
VGC_CUDA_HOOK void __vgc_block_end(unsigned long long since)
{
    struct vgc_cuda_unit here(0);
    if (here.unit.pe == 0)
        return;
    uint64_t now = vgc_ctl_now(&here.unit);
    here.unit.kernel = vgc_ctl_load64(&here.unit.pe->kernel);
    vgc_cuda_leave_block(&here, now);
    vgc_cuda_perf_block(&here, VGC_CTL_PERF_BLOCK_END, now > since ? now - since : 0, now);
}

/* ---- printf, assert, trap: only in programs that use them (compiler/hooks.py) --------------------------------- */

#ifdef VGC_CUDA_PRINTS

VGC_CUDA_HOOK int __vgc_vprintf(const char *format, void *arguments)
{
    struct vgc_cuda_unit here(0);
    if (here.unit.pe != 0 && vgc_ctl_bound(&here.unit, VGC_CTL_STDIO) != 0) {
        struct vgc_cuda_print contents = {format, (const char *)arguments};
        struct vgc_ctl_message message = {VGC_CTL_STDIO, VGC_CTL_OFF, VGC_CTL_STDIO_FORMAT, 0, 0, 0, false};
        vgc_cuda_emit(&here.unit, &message, contents);
    }
    return __vgc_driver_vprintf(format, arguments);
}

#endif

#ifdef VGC_CUDA_FAILS

/* The driver's text of a failed assertion. */
struct vgc_cuda_assertion {
    const char *what;
    const char *file;
    const char *function;
    uint32_t line;

    __device__ void operator()(struct vgc_cuda_writer &to) const
    {
        to.word(VGC_CTL_FAULT_ASSERT);
        to.text(file);
        to.text(":");
        to.number(line);
        to.text(": ");
        to.text(function);
        to.text(": Assertion `");
        to.text(what);
        to.text("` failed.");
    }
};

struct vgc_cuda_trap {
    __device__ void operator()(struct vgc_cuda_writer &to) const
    {
        to.word(VGC_CTL_FAULT_TRAP);
        to.text("trap");
    }
};

template <class Contents> VGC_CTL_FN void vgc_cuda_fault(const Contents &contents)
{
    struct vgc_cuda_unit here(0);
    struct vgc_ctl_message message = {VGC_CTL_FAULT, VGC_CTL_CRITICAL, VGC_CTL_FAULT_TEXT, 0, 0, 0, true};
    if (here.unit.pe == 0)
        return;
    vgc_ctl_own_add64(&here.unit.pe->faults, 1);
    vgc_cuda_emit(&here.unit, &message, contents);
    __threadfence_system();
}

VGC_CUDA_HOOK void __vgc_assertfail(const char *what, const char *file, unsigned int line, const char *function,
                                    size_t character_bytes)
{
    struct vgc_cuda_assertion contents = {what, file, function, line};
    vgc_cuda_fault(contents);
    __vgc_driver_assertfail(what, file, line, function, character_bytes);
}

VGC_CUDA_HOOK void __vgc_trap(void)
{
    struct vgc_cuda_trap contents;
    vgc_cuda_fault(contents);
}

#endif

#endif
