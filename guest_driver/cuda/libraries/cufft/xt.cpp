// cuFFT's plans by the types of their numbers (cufftXt.h).
#include "handles.h"

namespace vgc_fft
{
namespace
{

bool take_types(Shape &shape, cudaDataType in, cudaDataType out, cudaDataType execution)
{
    const struct {
        cudaDataType real, pair;
        cufftType from_real, to_real, complex;
        Storage storage;
    } known[] = {
        {CUDA_R_16F, CUDA_C_16F, CUFFT_R2C, CUFFT_C2R, CUFFT_C2C, Storage::half},
        {CUDA_R_16BF, CUDA_C_16BF, CUFFT_R2C, CUFFT_C2R, CUFFT_C2C, Storage::bfloat},
        {CUDA_R_32F, CUDA_C_32F, CUFFT_R2C, CUFFT_C2R, CUFFT_C2C, Storage::same},
        {CUDA_R_64F, CUDA_C_64F, CUFFT_D2Z, CUFFT_Z2D, CUFFT_Z2Z, Storage::same},
    };
    for (const auto &row : known) {
        if (execution != row.pair || (in != row.pair && out != row.pair))
            continue;
        shape.type = in == row.real ? row.from_real : out == row.real ? row.to_real : row.complex;
        shape.storage = row.storage;
        return in == row.real || out == row.real || in == out;
    }
    return false;
}
} // namespace
} // namespace vgc_fft

using namespace vgc_fft;

API cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long *n, long long *inembed, long long istride,
                                    long long idist, cudaDataType in, long long *onembed, long long ostride,
                                    long long odist, cudaDataType out, long long batch, size_t *work_size,
                                    cudaDataType execution)
{
    Shape shape = {rank, n, inembed, onembed, istride, idist, ostride, odist, batch, CUFFT_C2C, Storage::same};
    return take_types(shape, in, out, execution) ? make(plan, shape, work_size) : CUFFT_NOT_SUPPORTED;
}
API cufftResult cufftXtGetSizeMany(cufftHandle plan, int rank, long long *n, long long *inembed, long long istride,
                                   long long idist, cudaDataType in, long long *onembed, long long ostride,
                                   long long odist, cudaDataType out, long long batch, size_t *work_size,
                                   cudaDataType execution)
{
    Shape shape = {rank, n, inembed, onembed, istride, idist, ostride, odist, batch, CUFFT_C2C, Storage::same};
    if (!take_types(shape, in, out, execution))
        return CUFFT_NOT_SUPPORTED;
    return plan_of(plan) ? estimate(shape, work_size) : CUFFT_INVALID_PLAN;
}
API cufftResult cufftXtExec(cufftHandle handle, void *input, void *output, int direction)
{
    const auto plan = plan_of(handle);
    if (!plan || !plan->made || plan->devices.size() > 1)
        return CUFFT_INVALID_PLAN;
    if (plan->from_real() || plan->to_real()) // the type says it
        direction = plan->from_real() ? CUFFT_FORWARD : CUFFT_INVERSE;
    return run(*plan, input, output, direction);
}
