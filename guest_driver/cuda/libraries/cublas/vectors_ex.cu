/* Vectors whose types are told at run time. */
#include "vectors_ex.h"

namespace
{

using namespace blas;

/* The functions for half precision or bfloat16, or NULL. */
const vector_functions *narrow(cudaDataType type)
{
    return type == CUDA_R_16F ? &half_vectors() : type == CUDA_R_16BF ? &bfloat_vectors() : nullptr;
}
bool are(cudaDataType wanted, cudaDataType a, cudaDataType b, cudaDataType c)
{
    return a == wanted && b == wanted && c == wanted;
}

} // namespace

#define BLAS_EX_EACH(call)                                                                                             \
    call(CUDA_R_32F, S, float) call(CUDA_R_64F, D, double) call(CUDA_C_32F, C, cuComplex)                              \
        call(CUDA_C_64F, Z, cuDoubleComplex)

#define BLAS_AXPY_EX(type, S, T)                                                                                       \
    if (are(type, tx, ty, talpha) && execution == type)                                                                \
        return cublas##S##axpy_v2_64(h, n, (const T *)alpha, (const T *)x, incx, (T *)y, incy);
#define BLAS_SCAL_EX(type, S, T)                                                                                       \
    if (are(type, tx, talpha, execution))                                                                              \
        return cublas##S##scal_v2_64(h, n, (const T *)alpha, (T *)x, incx);
#define BLAS_DOT_EX(type, name, T)                                                                                     \
    if (are(type, tx, ty, result) && execution == type)                                                                \
        return cublas##name##_v2_64(h, n, (const T *)x, incx, (const T *)y, incy, (T *)to);
#define BLAS_NRM2_EX(type, name, T, real, R)                                                                           \
    if (tx == type && result == real && execution == real)                                                             \
        return cublas##name##nrm2_v2_64(h, n, (const T *)x, incx, (R *)to);
#define BLAS_ROT_EX(type, factors, name, T, R, F)                                                                      \
    if (are(type, tx, ty, execution) && tcs == factors)                                                                \
        return cublas##name##rot_v2_64(h, n, (T *)x, incx, (T *)y, incy, (const R *)c, (const F *)s);

#define BLAS_VECTORS_EX(w, I)                                                                                          \
    cublasStatus_t cublasAxpyEx##w(cublasHandle_t h, I n, const void *alpha, cudaDataType talpha, const void *x,       \
                                   cudaDataType tx, I incx, void *y, cudaDataType ty, I incy, cudaDataType execution)  \
    {                                                                                                                  \
        BLAS_CHECK_HANDLE(h);                                                                                          \
        BLAS_CHECK(alpha);                                                                                             \
        BLAS_EX_EACH(BLAS_AXPY_EX)                                                                                     \
        if (narrow(tx) && ty == tx && talpha == CUDA_R_32F && execution == CUDA_R_32F)                                 \
            return narrow(tx)->axpy(h, n, (const float *)alpha, x, incx, y, incy);                                     \
        return CUBLAS_STATUS_NOT_SUPPORTED;                                                                            \
    }                                                                                                                  \
    cublasStatus_t cublasScalEx##w(cublasHandle_t h, I n, const void *alpha, cudaDataType talpha, void *x,             \
                                   cudaDataType tx, I incx, cudaDataType execution)                                    \
    {                                                                                                                  \
        BLAS_CHECK_HANDLE(h);                                                                                          \
        BLAS_CHECK(alpha);                                                                                             \
        BLAS_EX_EACH(BLAS_SCAL_EX)                                                                                     \
        if (narrow(tx) && talpha == CUDA_R_32F && execution == CUDA_R_32F)                                             \
            return narrow(tx)->scal(h, n, (const float *)alpha, x, incx);                                              \
        return CUBLAS_STATUS_NOT_SUPPORTED;                                                                            \
    }                                                                                                                  \
    cublasStatus_t cublasDotEx##w(cublasHandle_t h, I n, const void *x, cudaDataType tx, I incx, const void *y,        \
                                  cudaDataType ty, I incy, void *to, cudaDataType result, cudaDataType execution)      \
    {                                                                                                                  \
        BLAS_CHECK_HANDLE(h);                                                                                          \
        BLAS_CHECK(to);                                                                                                \
        BLAS_DOT_EX(CUDA_R_32F, Sdot, float)                                                                           \
        BLAS_DOT_EX(CUDA_R_64F, Ddot, double)                                                                          \
        BLAS_DOT_EX(CUDA_C_32F, Cdotu, cuComplex)                                                                      \
        BLAS_DOT_EX(CUDA_C_64F, Zdotu, cuDoubleComplex)                                                                \
        if (narrow(tx) && ty == tx && result == tx && execution == CUDA_R_32F)                                         \
            return narrow(tx)->dot(h, n, x, incx, y, incy, to);                                                        \
        return CUBLAS_STATUS_NOT_SUPPORTED;                                                                            \
    }                                                                                                                  \
    cublasStatus_t cublasDotcEx##w(cublasHandle_t h, I n, const void *x, cudaDataType tx, I incx, const void *y,       \
                                   cudaDataType ty, I incy, void *to, cudaDataType result, cudaDataType execution)     \
    {                                                                                                                  \
        BLAS_CHECK_HANDLE(h);                                                                                          \
        BLAS_CHECK(to);                                                                                                \
        BLAS_DOT_EX(CUDA_C_32F, Cdotc, cuComplex)                                                                      \
        BLAS_DOT_EX(CUDA_C_64F, Zdotc, cuDoubleComplex)                                                                \
        return cublasDotEx##w(h, n, x, tx, incx, y, ty, incy, to, result, execution);                                  \
    }                                                                                                                  \
    cublasStatus_t cublasNrm2Ex##w(cublasHandle_t h, I n, const void *x, cudaDataType tx, I incx, void *to,            \
                                   cudaDataType result, cudaDataType execution)                                        \
    {                                                                                                                  \
        BLAS_CHECK_HANDLE(h);                                                                                          \
        BLAS_CHECK(to);                                                                                                \
        BLAS_NRM2_EX(CUDA_R_32F, S, float, CUDA_R_32F, float)                                                          \
        BLAS_NRM2_EX(CUDA_R_64F, D, double, CUDA_R_64F, double)                                                        \
        BLAS_NRM2_EX(CUDA_C_32F, Sc, cuComplex, CUDA_R_32F, float)                                                     \
        BLAS_NRM2_EX(CUDA_C_64F, Dz, cuDoubleComplex, CUDA_R_64F, double)                                              \
        if (narrow(tx) && result == tx && execution == CUDA_R_32F)                                                     \
            return narrow(tx)->nrm2(h, n, x, incx, to);                                                                \
        return CUBLAS_STATUS_NOT_SUPPORTED;                                                                            \
    }                                                                                                                  \
    cublasStatus_t cublasRotEx##w(cublasHandle_t h, I n, void *x, cudaDataType tx, I incx, void *y, cudaDataType ty,   \
                                  I incy, const void *c, const void *s, cudaDataType tcs, cudaDataType execution)      \
    {                                                                                                                  \
        BLAS_CHECK_HANDLE(h);                                                                                          \
        BLAS_CHECK(c &&s);                                                                                             \
        BLAS_ROT_EX(CUDA_R_32F, CUDA_R_32F, S, float, float, float)                                                    \
        BLAS_ROT_EX(CUDA_R_64F, CUDA_R_64F, D, double, double, double)                                                 \
        BLAS_ROT_EX(CUDA_C_32F, CUDA_R_32F, Cs, cuComplex, float, float)                                               \
        BLAS_ROT_EX(CUDA_C_64F, CUDA_R_64F, Zd, cuDoubleComplex, double, double)                                       \
        if (narrow(tx) && ty == tx && tcs == tx && execution == CUDA_R_32F)                                            \
            return narrow(tx)->rot(h, n, x, incx, y, incy, c, s);                                                      \
        return CUBLAS_STATUS_NOT_SUPPORTED;                                                                            \
    }
BLAS_VECTORS_EX(, int)
BLAS_VECTORS_EX(_64, int64_t)
