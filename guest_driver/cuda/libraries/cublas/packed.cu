/* Triangles in packed form, column behind column, and in whole matrices: copies of one into the other. */
#include "matrices.h"

namespace
{

using namespace blas;

/* Where row i of column j of a triangle is in its packed form. */
__device__ inline i64 place(bool is_lower, i64 n, i64 i, i64 j)
{
    return is_lower ? i + j * (2 * n - j - 1) / 2 : i + j * (j + 1) / 2;
}
template <class T> __global__ void pack(bool is_lower, i64 n, const T *a, i64 lda, T *packed)
{
    for (i64 j = blockIdx.y; j < n; j += gridDim.y)
        BLAS_EACH_LINE(i, n)
        {
            if (is_lower ? i >= j : i <= j)
                packed[place(is_lower, n, i, j)] = a[i + j * lda];
        }
}
template <class T> __global__ void unpack(bool is_lower, i64 n, const T *packed, T *a, i64 lda)
{
    for (i64 j = blockIdx.y; j < n; j += gridDim.y)
        BLAS_EACH_LINE(i, n)
        {
            if (is_lower ? i >= j : i <= j)
                a[i + j * lda] = packed[place(is_lower, n, i, j)];
        }
}
bool is_right(cublasFillMode_t fill, int n, int lda)
{
    return (fill == CUBLAS_FILL_MODE_LOWER || fill == CUBLAS_FILL_MODE_UPPER) && n >= 0 && lda >= at_least_one(n);
}
template <class T>
cublasStatus_t do_pack(cublasHandle_t handle, cublasFillMode_t fill, int n, const T *a, int lda, T *packed)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(is_right(fill, n, lda));
    if (n == 0)
        return CUBLAS_STATUS_SUCCESS;
    pack<T><<<plane(n, n), LINE, 0, handle->stream>>>(fill == CUBLAS_FILL_MODE_LOWER, n, a, lda, packed);
    return launched();
}
template <class T>
cublasStatus_t do_unpack(cublasHandle_t handle, cublasFillMode_t fill, int n, const T *packed, T *a, int lda)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(is_right(fill, n, lda));
    if (n == 0)
        return CUBLAS_STATUS_SUCCESS;
    unpack<T><<<plane(n, n), LINE, 0, handle->stream>>>(fill == CUBLAS_FILL_MODE_LOWER, n, packed, a, lda);
    return launched();
}

} // namespace

#define BLAS_PACKED(S, T)                                                                                              \
    cublasStatus_t cublas##S##trttp(cublasHandle_t h, cublasFillMode_t fill, int n, const T *a, int lda, T *packed)    \
    {                                                                                                                  \
        return do_pack(h, fill, n, a, lda, packed);                                                                    \
    }                                                                                                                  \
    cublasStatus_t cublas##S##tpttr(cublasHandle_t h, cublasFillMode_t fill, int n, const T *packed, T *a, int lda)    \
    {                                                                                                                  \
        return do_unpack(h, fill, n, packed, a, lda);                                                                  \
    }
BLAS_PACKED(S, float)
BLAS_PACKED(D, double)
BLAS_PACKED(C, cuComplex)
BLAS_PACKED(Z, cuDoubleComplex)
