#include "widen.h"

#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace
{

constexpr int THREADS = 256;

struct lines {
    int64_t length, count, ld, jump; /* count: of a matrix */
};

} // namespace

__global__ void vgc_lt_widen(const __nv_fp8_storage_t *from, __half *to, lines all, __nv_fp8_interpretation_t kind)
{
    const int64_t element = (int64_t)blockIdx.x * THREADS + threadIdx.x, size = all.length * all.count;
    if (element >= size)
        return;
    const int64_t place = element / all.length * all.ld + element % all.length;
    to[blockIdx.y * size + element] = __half(__nv_cvt_fp8_to_halfraw(from[blockIdx.y * all.jump + place], kind));
}

cublasStatus_t lt::to_half(const void *from, const layout &of, cudaStream_t stream, wide &to)
{
    const bool by_rows = of.order == CUBLASLT_ORDER_ROW;
    const lines all{(int64_t)(by_rows ? of.columns : of.rows), (int64_t)(by_rows ? of.rows : of.columns), of.ld,
                    of.jump};
    const int64_t size = all.length * all.count;
    to.of = of;
    to.of.ld = all.length;
    to.of.jump = size;
    to.of.type = CUDA_R_16F;
    if (cudaError_t failed = cudaMallocAsync(&to.numbers, (size_t)(size * of.count) * sizeof(__half), stream))
        return blas::status_of(failed);
    const dim3 blocks((unsigned)((size + THREADS - 1) / THREADS), (unsigned)of.count);
    vgc_lt_widen<<<blocks, THREADS, 0, stream>>>((const __nv_fp8_storage_t *)from, (__half *)to.numbers, all,
                                                 of.type == CUDA_R_8F_E4M3 ? __NV_E4M3 : __NV_E5M2);
    return blas::launched();
}
