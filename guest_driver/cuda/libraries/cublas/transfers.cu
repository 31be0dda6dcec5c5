/* Copies of vectors and matrices between host and device. */
#include "context.h"

namespace
{

using blas::i64;

/* The order of the calling thread's default stream, and done when it returns, if `waits`. */
struct order {
    cudaStream_t stream;
    bool waits;
};

cublasStatus_t copied(cudaError_t error)
{
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

cublasStatus_t copy(i64 rows, i64 columns, i64 element, const void *from, i64 from_ld, void *to, i64 to_ld,
                    cudaMemcpyKind kind, order in)
{
    if (rows == 0 || columns == 0)
        return CUBLAS_STATUS_SUCCESS;
    const size_t from_pitch = (size_t)(from_ld * element), to_pitch = (size_t)(to_ld * element);
    const size_t width = (size_t)(rows * element);
    if (in.waits)
        return copied(cudaMemcpy2D(to, to_pitch, from, from_pitch, width, (size_t)columns, kind));
    return copied(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, (size_t)columns, kind, in.stream));
}
cublasStatus_t copy_matrix(i64 rows, i64 columns, i64 element, const void *from, i64 from_ld, void *to, i64 to_ld,
                           cudaMemcpyKind kind, order in)
{
    BLAS_CHECK(rows >= 0 && columns >= 0 && element > 0 && from_ld >= rows && to_ld >= rows && from_ld > 0 &&
               to_ld > 0);
    return copy(rows, columns, element, from, from_ld, to, to_ld, kind, in);
}
/* A vector is a matrix of one row. */
cublasStatus_t copy_vector(i64 n, i64 element, const void *from, i64 from_step, void *to, i64 to_step,
                           cudaMemcpyKind kind, order in)
{
    BLAS_CHECK(n >= 0 && element > 0 && from_step > 0 && to_step > 0);
    if (from_step == 1 && to_step == 1)
        return copy(n, 1, element, from, n, to, n, kind, in);
    return copy(1, n, element, from, from_step, to, to_step, kind, in);
}

} // namespace

#define BLAS_TRANSFERS(suffix, I)                                                                                      \
    cublasStatus_t cublasSetVector##suffix(I n, I element, const void *x, I incx, void *y, I incy)                     \
    {                                                                                                                  \
        return copy_vector(n, element, x, incx, y, incy, cudaMemcpyHostToDevice, {nullptr, true});                     \
    }                                                                                                                  \
    cublasStatus_t cublasGetVector##suffix(I n, I element, const void *x, I incx, void *y, I incy)                     \
    {                                                                                                                  \
        return copy_vector(n, element, x, incx, y, incy, cudaMemcpyDeviceToHost, {nullptr, true});                     \
    }                                                                                                                  \
    cublasStatus_t cublasSetMatrix##suffix(I rows, I columns, I element, const void *a, I lda, void *b, I ldb)         \
    {                                                                                                                  \
        return copy_matrix(rows, columns, element, a, lda, b, ldb, cudaMemcpyHostToDevice, {nullptr, true});           \
    }                                                                                                                  \
    cublasStatus_t cublasGetMatrix##suffix(I rows, I columns, I element, const void *a, I lda, void *b, I ldb)         \
    {                                                                                                                  \
        return copy_matrix(rows, columns, element, a, lda, b, ldb, cudaMemcpyDeviceToHost, {nullptr, true});           \
    }                                                                                                                  \
    cublasStatus_t cublasSetVectorAsync##suffix(I n, I element, const void *x, I incx, void *y, I incy,                \
                                                cudaStream_t stream)                                                   \
    {                                                                                                                  \
        return copy_vector(n, element, x, incx, y, incy, cudaMemcpyHostToDevice, {stream, false});                     \
    }                                                                                                                  \
    cublasStatus_t cublasGetVectorAsync##suffix(I n, I element, const void *x, I incx, void *y, I incy,                \
                                                cudaStream_t stream)                                                   \
    {                                                                                                                  \
        return copy_vector(n, element, x, incx, y, incy, cudaMemcpyDeviceToHost, {stream, false});                     \
    }                                                                                                                  \
    cublasStatus_t cublasSetMatrixAsync##suffix(I rows, I columns, I element, const void *a, I lda, void *b, I ldb,    \
                                                cudaStream_t stream)                                                   \
    {                                                                                                                  \
        return copy_matrix(rows, columns, element, a, lda, b, ldb, cudaMemcpyHostToDevice, {stream, false});           \
    }                                                                                                                  \
    cublasStatus_t cublasGetMatrixAsync##suffix(I rows, I columns, I element, const void *a, I lda, void *b, I ldb,    \
                                                cudaStream_t stream)                                                   \
    {                                                                                                                  \
        return copy_matrix(rows, columns, element, a, lda, b, ldb, cudaMemcpyDeviceToHost, {stream, false});           \
    }
BLAS_TRANSFERS(, int)
BLAS_TRANSFERS(_64, int64_t)
