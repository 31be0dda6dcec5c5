/* For programs in C that test libcuda: checks, and a module of PTX. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "condition.h"
#include "cuda.h"

/* The call ends with this result. */
#define ENDS(expected, call)                                                                                           \
    do {                                                                                                               \
        const CUresult ended = (call);                                                                                 \
        if (ended != (expected)) {                                                                                     \
            printf("%s:%d: %d: %s\n", __FILE__, __LINE__, (int)ended, #call);                                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call) ENDS(CUDA_SUCCESS, call)

enum { COUNT = 100 };

/* scale(p, n): p[i] *= factor, for i < n. report(p): *p = blocks + threads of a block, with a dynamic shared array. */
static const char SCALE[] = ".version 7.0\n"
                            ".target sm_80\n"
                            ".address_size 64\n"
                            ".visible .global .align 4 .u32 factor = 3;\n"
                            ".extern .shared .align 4 .b8 dynamic[];\n"
                            ".visible .entry scale(.param .u64 .ptr .global .align 4 p, .param .u32 n)\n"
                            "{\n"
                            "  .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %a<2>;\n"
                            "  ld.param.u64 %a0, [p]; ld.param.u32 %r0, [n];\n"
                            "  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"
                            "  mad.lo.u32 %r4, %r2, %r3, %r1; setp.ge.u32 %q, %r4, %r0; @%q ret;\n"
                            "  cvta.to.global.u64 %a0, %a0; mul.wide.u32 %a1, %r4, 4; add.u64 %a1, %a0, %a1;\n"
                            "  ld.global.u32 %r5, [%a1]; ld.global.u32 %r6, [factor];\n"
                            "  mul.lo.u32 %r5, %r5, %r6; st.global.u32 [%a1], %r5; ret;\n"
                            "}\n"
                            ".visible .entry report(.param .u64 .ptr .global .align 4 p)\n"
                            "{\n"
                            "  .reg .b32 %r<4>; .reg .b64 %a;\n"
                            "  ld.param.u64 %a, [p]; mov.u32 %r0, %nctaid.x; mov.u32 %r1, %ntid.x;\n"
                            "  add.u32 %r0, %r0, %r1; st.shared.u32 [dynamic], %r0; ld.shared.u32 %r0, [dynamic];\n"
                            "  st.global.u32 [%a], %r0; ret;\n"
                            "}\n";

/* The first device, in a context of its own. */
static inline CUcontext begin(void)
{
    CUdevice device;
    CUcontext context;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate(&context, 0, device));
    return context;
}

static inline unsigned first_of(CUdeviceptr memory)
{
    unsigned value;
    OK(cuMemcpyDtoH(&value, memory, sizeof(value)));
    return value;
}
