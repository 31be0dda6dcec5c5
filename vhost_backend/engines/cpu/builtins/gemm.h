// Products of matrices, for functions that are made of them.
#ifndef VGC_CPU_GEMM_H
#define VGC_CPU_GEMM_H

#include "halves.h"
#include "openblas.h"
#include "plan.h"

struct vgc_gemm_params;

namespace vgc
{
template <class T> void plan_gemm(Plan &plan, const vgc_gemm_params &params);
} // namespace vgc

#endif
