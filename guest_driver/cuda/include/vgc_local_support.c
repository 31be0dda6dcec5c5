/* Part of each library of CPU versions: the primitives that CUDA's headers are made of (vgc_builtins.h). What is missing
 * here makes mynvcc refuse the kernels that need it. */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "vgc_local.h"

static __thread struct vgc_local_here *here;

void vgc_local_enter(struct vgc_local_here *now)
{
    here = now;
}

#define POSITION(name, value)                                                                                                   \
    unsigned __vgc_##name(void)                                                                                                 \
    {                                                                                                                           \
        return value;                                                                                                           \
    }
#define POSITIONS(name) POSITION(name##_x, here->name[0]) POSITION(name##_y, here->name[1]) POSITION(name##_z, here->name[2])
#define LANE (here->linear & 31)
POSITIONS(tid) POSITIONS(ntid) POSITIONS(ctaid) POSITIONS(nctaid)
POSITION(linear_tid, here->linear) POSITION(laneid, LANE) POSITION(warpid, here->linear >> 5)
POSITION(lanemask_eq, 1u << LANE) POSITION(lanemask_lt, (1u << LANE) - 1) POSITION(lanemask_le, (2u << LANE) - 1)
POSITION(lanemask_gt, ~((2u << LANE) - 1)) POSITION(lanemask_ge, ~((1u << LANE) - 1))

void __vgc_barrier(void)
{
    here->calls->barrier();
}

int __vgc_barrier_reduce(int kind, int predicate)
{
    return here->calls->reduce(kind, predicate);
}

unsigned __vgc_warp32(int kind, unsigned mask, unsigned value, unsigned arg)
{
    return (unsigned)here->calls->warp(kind, mask, value, arg);
}

unsigned long long __vgc_warp64(int kind, unsigned mask, unsigned long long value, unsigned arg)
{
    return here->calls->warp(kind, mask, value, arg);
}

void __vgc_yield(void)
{
    here->calls->yield();
}

void __vgc_trap(void)
{
    here->calls->fail(VGC_LOCAL_TRAP);
}

unsigned long long __vgc_globaltimer(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

int __vgc_printf(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int printed = vprintf(format, arguments);
    va_end(arguments);
    return printed;
}

void __vgc_assert_fail(const char *expression, const char *file, unsigned line, const char *function)
{
    fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file, line, function,
            here->ctaid[0], here->ctaid[1], here->ctaid[2], here->tid[0], here->tid[1], here->tid[2], expression);
    here->calls->fail(VGC_LOCAL_ASSERT);
}
