/* Calls of the host's cuBLAS. */
#include "host.h"

extern "C" cudaError_t __cudaVgcFunction(const char *name, const void **function);

namespace
{

using blas::i64;

constexpr i64 MOST = 2147483647; /* of a size; the host takes no more */
enum { UNKNOWN, ABSENT, PRESENT };

/* The host's function, which is looked for once for a handle. NULL: the host has no cuBLAS. */
const void *function_of(cublasHandle_t handle)
{
    if (handle->host == UNKNOWN)
        handle->host = __cudaVgcFunction("cublas.gemm", &handle->host_gemm) == cudaSuccess ? PRESENT : ABSENT;
    return handle->host == PRESENT ? handle->host_gemm : nullptr;
}

bool is_taken(const blas::host_product &p)
{
    for (i64 size : {p.m, p.n, p.k, p.count})
        if (size > MOST)
            return false;
    return p.in_type >= 0 && p.out_type >= 0 && p.op_a <= CUBLAS_OP_C && p.op_b <= CUBLAS_OP_C && p.stride_a >= 0 &&
           p.stride_b >= 0 && p.stride_c >= 0;
}

} // namespace

bool blas::host_computes(cublasHandle_t handle, host_product &p)
{
    const void *const function = function_of(handle);
    if (!function || !is_taken(p))
        return false;
    void *arguments[] = {&p.op_a,
                         &p.op_b,
                         &p.m,
                         &p.n,
                         &p.k,
                         &p.alpha,
                         &p.alpha_imaginary,
                         &p.a,
                         &p.lda,
                         &p.stride_a,
                         &p.b,
                         &p.ldb,
                         &p.stride_b,
                         &p.beta,
                         &p.beta_imaginary,
                         &p.c,
                         &p.ldc,
                         &p.stride_c,
                         &p.count,
                         &p.in_type,
                         &p.out_type,
                         &p.compute,
                         &p.math};
    p.math = handle->math_mode;
    return cudaLaunchKernel(function, dim3(1), dim3(1), arguments, 0, handle->stream) == cudaSuccess;
}
