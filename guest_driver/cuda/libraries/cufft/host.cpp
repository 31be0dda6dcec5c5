// Transforms by the host's cuFFT, where it has one: its function `cufft.transform`, called by name.
#include <cstdint>

#include "plan.h"

extern "C" cudaError_t __cudaVgcFunction(const char *name, const void **function);

namespace vgc_fft
{
namespace
{

// The parameters of one side, in the order of the host's function (vhost_backend/builtins/vgc_builtin_params.h).
struct Side {
    long long embed[3] = {}, stride = 1, distance = 0;
};

// A layout as cuFFT has it; false: it has none, or the host takes no such one.
bool describe(const Plan &plan, const Layout &layout, Side &side)
{
    const bool is_half = layout.kind != VGC_FFT_REAL && (plan.from_real() || plan.to_real());
    side.stride = layout.stride[plan.rank - 1];
    side.distance = layout.batch;
    side.embed[0] = plan.n[0];
    for (int d = plan.rank - 1; d > 0; d--) {
        const long long length = is_half ? plan.complex_count(d) : plan.n[d];
        side.embed[d] = layout.stride[d] > 0 ? layout.stride[d - 1] / layout.stride[d] : 0;
        if (side.embed[d] < length || side.embed[d] > 0x7fffffff)
            return false;
    }
    return side.stride >= 1 && side.stride <= 0x7fffffff && side.distance >= 0;
}

bool is_aligned(const Plan &plan, const void *data)
{
    return (uintptr_t)data % plan.pair_bytes() == 0;
}
} // namespace

const void *host_function(const Plan &plan)
{
    const void *function = nullptr;
    Side side;
    if (plan.is_narrow() ||
        (!plan.default_layout && (!describe(plan, plan.in, side) || !describe(plan, plan.out, side))))
        return nullptr;
    return __cudaVgcFunction("cufft.transform", &function) == cudaSuccess ? function : nullptr;
}

cufftResult run_on_host(const Plan &plan, const Layout &in, const Layout &out, int direction)
{
    Side from, to;
    if (!is_aligned(plan, in.data) || !is_aligned(plan, out.data) || !describe(plan, in, from) ||
        !describe(plan, out, to))
        return CUFFT_INVALID_VALUE;
    void *input = in.data, *output = out.data;
    long long batch = plan.batch, lengths[3] = {1, 1, 1}, rank = plan.rank;
    int type = plan.type, inverse = !plan.from_real() && !plan.to_real() && direction == CUFFT_INVERSE;
    for (int d = 0; d < plan.rank; d++)
        lengths[d] = plan.n[d];
    void *arguments[] = {&input,         &output,        &batch,         &lengths[0],    &lengths[1],
                         &lengths[2],    &from.embed[0], &from.embed[1], &from.embed[2], &from.stride,
                         &from.distance, &to.embed[0],   &to.embed[1],   &to.embed[2],   &to.stride,
                         &to.distance,   &rank,          &type,          &inverse};
    return cudaLaunchKernel(plan.host, dim3(1), dim3(1), arguments, 0, plan.stream) == cudaSuccess ? CUFFT_SUCCESS
                                                                                                   : CUFFT_EXEC_FAILED;
}

} // namespace vgc_fft
