// The library's interface.
#include "openblas.h"
#include "planners.h"
#include "vgc_cpu_builtins.h"

#include <cstring>

namespace vgc
{
namespace
{
struct Family {
    uint32_t first, last; /* of enum vgc_builtin_function */
    Planner (*planner)(uint32_t function, uint32_t type);
    bool needs_openblas;
};

constexpr Family FAMILIES[] = {
    {VGC_FN_AXPY, VGC_FN_GEMV, blas_planner, true},
    {VGC_FN_GEMM, VGC_FN_GEMM, gemm_planner, true},
    {VGC_FN_SUM, VGC_FN_ARGMAX, reduce_planner, false},
    {VGC_FN_SCAN_SUM, VGC_FN_SCAN_MAX, scan_planner, false},
    {VGC_FN_SORT_KEYS, VGC_FN_UNIQUE, sort_planner, false},
    {VGC_FN_HISTOGRAM, VGC_FN_BINCOUNT, count_planner, false},
    {VGC_FN_FFT_C2C, VGC_FN_FFT_C2R, fft_planner, false},
    {VGC_FN_CONV2D, VGC_FN_CONV2D, conv_planner, true},
    {VGC_FN_RANDOM_BITS, VGC_FN_RANDOM_NORMAL, random_planner, false},
    {VGC_FN_SPMV_I32, VGC_FN_SPMV_I64, sparse_planner, false},
    {VGC_FN_ADD, VGC_FN_WHERE, math_planner, false},
    {VGC_FN_NONZERO, VGC_FN_TAKE, select_planner, false},
    {VGC_FN_COMPLEX_ADD, VGC_FN_COMPLEX_JOIN, math_planner, false},
};

Planner planner_of(const vgc_builtin *builtin)
{
    for (const Family &family : FAMILIES)
        if (builtin->function >= family.first && builtin->function <= family.last)
            return family.needs_openblas && !has_openblas() ? nullptr
                                                            : family.planner(builtin->function, builtin->type);
    return nullptr;
}
} // namespace
} // namespace vgc

int vgc_cpu_builtins_open(const char *openblas_path, char *why)
{
    return vgc::open_openblas(openblas_path, why);
}

int vgc_cpu_builtin_usable(const vgc_builtin *builtin)
{
    return vgc::planner_of(builtin) != nullptr;
}

uint64_t vgc_cpu_builtin_workspace(const vgc_builtin *builtin, const void *params, uint32_t num_pes)
{
    vgc_cpu_step steps[VGC_CPU_STEPS];
    vgc::Plan plan(nullptr, num_pes, steps);
    vgc::planner_of(builtin)(plan, params);
    return plan.is_one_block() && plan.bytes() <= VGC_CPU_SMALL ? 0 : plan.bytes();
}

uint32_t vgc_cpu_builtin_plan(const vgc_builtin *builtin, const void *params, void *workspace, uint32_t num_pes,
                              vgc_cpu_step *steps)
{
    vgc::Plan plan(workspace, num_pes, steps);
    vgc::planner_of(builtin)(plan, params);
    return plan.finish();
}

const char *vgc_cpu_builtin_failed(const void *workspace)
{
    return static_cast<const vgc::Head *>(workspace)->failed.load(std::memory_order_relaxed);
}
