/* cuBLAS's first API: the functions of cublas_api.h with a handle of the process. */
#include <cublas.h>

#include <ctype.h>

namespace
{

cublasHandle_t process;
cublasStatus_t last = CUBLAS_STATUS_SUCCESS;

/* Keeps the first error until it is asked for. */
void keep(cublasStatus_t status)
{
    if (last == CUBLAS_STATUS_SUCCESS)
        last = status;
}

/* The value that a letter names; letters without a meaning become one that the functions refuse. */
template <class T> T value_of(char letter, char first, T value, char second, T other)
{
    const int upper = toupper((unsigned char)letter);
    return upper == first ? value : upper == second ? other : (T)-1;
}
cublasOperation_t OP(char letter)
{
    return toupper((unsigned char)letter) == 'C' ? CUBLAS_OP_C : value_of(letter, 'N', CUBLAS_OP_N, 'T', CUBLAS_OP_T);
}
cublasFillMode_t FILL(char letter)
{
    return value_of(letter, 'L', CUBLAS_FILL_MODE_LOWER, 'U', CUBLAS_FILL_MODE_UPPER);
}
cublasSideMode_t SIDE(char letter)
{
    return value_of(letter, 'L', CUBLAS_SIDE_LEFT, 'R', CUBLAS_SIDE_RIGHT);
}
cublasDiagType_t DIAGONAL(char letter)
{
    return value_of(letter, 'N', CUBLAS_DIAG_NON_UNIT, 'U', CUBLAS_DIAG_UNIT);
}

} // namespace

cublasStatus cublasInit(void)
{
    return process ? CUBLAS_STATUS_SUCCESS : cublasCreate_v2(&process);
}
cublasStatus cublasShutdown(void)
{
    if (!process)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const cublasStatus status = cublasDestroy_v2(process);
    process = nullptr;
    return status;
}
cublasStatus cublasGetError(void)
{
    const cublasStatus status = last;
    last = CUBLAS_STATUS_SUCCESS;
    return status;
}
cublasStatus cublasGetVersion(int *version)
{
    return cublasGetVersion_v2(process, version);
}
cublasStatus cublasAlloc(int n, int element, void **device)
{
    if (!process)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (n <= 0 || element <= 0 || !device)
        return CUBLAS_STATUS_INVALID_VALUE;
    return cudaMalloc(device, (size_t)n * (size_t)element) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                          : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus cublasFree(void *device)
{
    if (!process)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    return cudaFree(device) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}
cublasStatus cublasSetKernelStream(cudaStream_t stream)
{
    return cublasSetStream_v2(process, stream);
}

#define BLAS_VECTORS(S, small, N, T, R)                                                                                \
    void cublas##S##axpy(int n, T alpha, const T *x, int incx, T *y, int incy)                                         \
    {                                                                                                                  \
        keep(cublas##S##axpy##_v2(process, n, &alpha, x, incx, y, incy));                                              \
    }                                                                                                                  \
    void cublas##S##scal(int n, T alpha, T *x, int incx)                                                               \
    {                                                                                                                  \
        keep(cublas##S##scal##_v2(process, n, &alpha, x, incx));                                                       \
    }                                                                                                                  \
    void cublas##S##copy(int n, const T *x, int incx, T *y, int incy)                                                  \
    {                                                                                                                  \
        keep(cublas##S##copy##_v2(process, n, x, incx, y, incy));                                                      \
    }                                                                                                                  \
    void cublas##S##swap(int n, T *x, int incx, T *y, int incy)                                                        \
    {                                                                                                                  \
        keep(cublas##S##swap##_v2(process, n, x, incx, y, incy));                                                      \
    }                                                                                                                  \
    R cublas##N##nrm2(int n, const T *x, int incx)                                                                     \
    {                                                                                                                  \
        R result{};                                                                                                    \
        keep(cublas##N##nrm2##_v2(process, n, x, incx, &result));                                                      \
        return result;                                                                                                 \
    }                                                                                                                  \
    R cublas##N##asum(int n, const T *x, int incx)                                                                     \
    {                                                                                                                  \
        R result{};                                                                                                    \
        keep(cublas##N##asum##_v2(process, n, x, incx, &result));                                                      \
        return result;                                                                                                 \
    }                                                                                                                  \
    int cublas##I##small##amax(int n, const T *x, int incx)                                                            \
    {                                                                                                                  \
        int result{};                                                                                                  \
        keep(cublas##I##small##amax##_v2(process, n, x, incx, &result));                                               \
        return result;                                                                                                 \
    }                                                                                                                  \
    int cublas##I##small##amin(int n, const T *x, int incx)                                                            \
    {                                                                                                                  \
        int result{};                                                                                                  \
        keep(cublas##I##small##amin##_v2(process, n, x, incx, &result));                                               \
        return result;                                                                                                 \
    }                                                                                                                  \
    void cublas##S##rot(int n, T *x, int incx, T *y, int incy, R cosine, T sine)                                       \
    {                                                                                                                  \
        keep(cublas##S##rot##_v2(process, n, x, incx, y, incy, &cosine, &sine));                                       \
    }                                                                                                                  \
    void cublas##S##rotg(T *a, T *b, R *cosine, T *sine)                                                               \
    {                                                                                                                  \
        keep(cublas##S##rotg##_v2(process, a, b, cosine, sine));                                                       \
    }
BLAS_VECTORS(S, s, S, float, float)
BLAS_VECTORS(D, d, D, double, double)
BLAS_VECTORS(C, c, Sc, cuComplex, float)
BLAS_VECTORS(Z, z, Dz, cuDoubleComplex, double)
#define BLAS_DOT(name, T)                                                                                              \
    T cublas##name(int n, const T *x, int incx, const T *y, int incy)                                                  \
    {                                                                                                                  \
        T result{};                                                                                                    \
        keep(cublas##name##_v2(process, n, x, incx, y, incy, &result));                                                \
        return result;                                                                                                 \
    }
BLAS_DOT(Sdot, float)
BLAS_DOT(Ddot, double)
BLAS_DOT(Cdotu, cuComplex)
BLAS_DOT(Cdotc, cuComplex)
BLAS_DOT(Zdotu, cuDoubleComplex)
BLAS_DOT(Zdotc, cuDoubleComplex)
#define BLAS_SCALE(name, rotation, T, R)                                                                               \
    void cublas##name(int n, R alpha, T *x, int incx)                                                                  \
    {                                                                                                                  \
        keep(cublas##name##_v2(process, n, &alpha, x, incx));                                                          \
    }                                                                                                                  \
    void cublas##rotation(int n, T *x, int incx, T *y, int incy, R cosine, R sine)                                     \
    {                                                                                                                  \
        keep(cublas##rotation##_v2(process, n, x, incx, y, incy, &cosine, &sine));                                     \
    }
BLAS_SCALE(Csscal, Csrot, cuComplex, float)
BLAS_SCALE(Zdscal, Zdrot, cuDoubleComplex, double)
#define BLAS_MODIFIED(S, R)                                                                                            \
    void cublas##S##rotm(int n, R *x, int incx, R *y, int incy, const R *parameters)                                   \
    {                                                                                                                  \
        keep(cublas##S##rotm##_v2(process, n, x, incx, y, incy, parameters));                                          \
    }                                                                                                                  \
    void cublas##S##rotmg(R *d1, R *d2, R *x1, const R *y1, R *parameters)                                             \
    {                                                                                                                  \
        keep(cublas##S##rotmg##_v2(process, d1, d2, x1, y1, parameters));                                              \
    }
BLAS_MODIFIED(S, float)
BLAS_MODIFIED(D, double)
#define BLAS_MATRICES(S, T)                                                                                            \
    void cublas##S##gemv(char op, int m, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta, T *y,      \
                         int incy)                                                                                     \
    {                                                                                                                  \
        keep(cublas##S##gemv##_v2(process, OP(op), m, n, &alpha, a, lda, x, incx, &beta, y, incy));                    \
    }                                                                                                                  \
    void cublas##S##gbmv(char op, int m, int n, int below, int above, T alpha, const T *a, int lda, const T *x,        \
                         int incx, T beta, T *y, int incy)                                                             \
    {                                                                                                                  \
        keep(cublas##S##gbmv##_v2(process, OP(op), m, n, below, above, &alpha, a, lda, x, incx, &beta, y, incy));      \
    }                                                                                                                  \
    void cublas##S##trmv(char fill, char op, char diagonal, int n, const T *a, int lda, T *x, int incx)                \
    {                                                                                                                  \
        keep(cublas##S##trmv##_v2(process, FILL(fill), OP(op), DIAGONAL(diagonal), n, a, lda, x, incx));               \
    }                                                                                                                  \
    void cublas##S##trsv(char fill, char op, char diagonal, int n, const T *a, int lda, T *x, int incx)                \
    {                                                                                                                  \
        keep(cublas##S##trsv##_v2(process, FILL(fill), OP(op), DIAGONAL(diagonal), n, a, lda, x, incx));               \
    }                                                                                                                  \
    void cublas##S##tbmv(char fill, char op, char diagonal, int n, int k, const T *a, int lda, T *x, int incx)         \
    {                                                                                                                  \
        keep(cublas##S##tbmv##_v2(process, FILL(fill), OP(op), DIAGONAL(diagonal), n, k, a, lda, x, incx));            \
    }                                                                                                                  \
    void cublas##S##tbsv(char fill, char op, char diagonal, int n, int k, const T *a, int lda, T *x, int incx)         \
    {                                                                                                                  \
        keep(cublas##S##tbsv##_v2(process, FILL(fill), OP(op), DIAGONAL(diagonal), n, k, a, lda, x, incx));            \
    }                                                                                                                  \
    void cublas##S##tpmv(char fill, char op, char diagonal, int n, const T *packed, T *x, int incx)                    \
    {                                                                                                                  \
        keep(cublas##S##tpmv##_v2(process, FILL(fill), OP(op), DIAGONAL(diagonal), n, packed, x, incx));               \
    }                                                                                                                  \
    void cublas##S##tpsv(char fill, char op, char diagonal, int n, const T *packed, T *x, int incx)                    \
    {                                                                                                                  \
        keep(cublas##S##tpsv##_v2(process, FILL(fill), OP(op), DIAGONAL(diagonal), n, packed, x, incx));               \
    }                                                                                                                  \
    void cublas##S##gemm(char opa, char opb, int m, int n, int k, T alpha, const T *a, int lda, const T *b, int ldb,   \
                         T beta, T *c, int ldc)                                                                        \
    {                                                                                                                  \
        keep(cublas##S##gemm##_v2(process, OP(opa), OP(opb), m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc));         \
    }                                                                                                                  \
    void cublas##S##symm(char side, char fill, int m, int n, T alpha, const T *a, int lda, const T *b, int ldb,        \
                         T beta, T *c, int ldc)                                                                        \
    {                                                                                                                  \
        keep(cublas##S##symm##_v2(process, SIDE(side), FILL(fill), m, n, &alpha, a, lda, b, ldb, &beta, c, ldc));      \
    }                                                                                                                  \
    void cublas##S##syrk(char fill, char op, int n, int k, T alpha, const T *a, int lda, T beta, T *c, int ldc)        \
    {                                                                                                                  \
        keep(cublas##S##syrk##_v2(process, FILL(fill), OP(op), n, k, &alpha, a, lda, &beta, c, ldc));                  \
    }                                                                                                                  \
    void cublas##S##syr2k(char fill, char op, int n, int k, T alpha, const T *a, int lda, const T *b, int ldb, T beta, \
                          T *c, int ldc)                                                                               \
    {                                                                                                                  \
        keep(cublas##S##syr2k##_v2(process, FILL(fill), OP(op), n, k, &alpha, a, lda, b, ldb, &beta, c, ldc));         \
    }                                                                                                                  \
    void cublas##S##trsm(char side, char fill, char op, char diagonal, int m, int n, T alpha, const T *a, int lda,     \
                         T *b, int ldb)                                                                                \
    {                                                                                                                  \
        keep(cublas##S##trsm##_v2(process, SIDE(side), FILL(fill), OP(op), DIAGONAL(diagonal), m, n, &alpha, a, lda,   \
                                  b, ldb));                                                                            \
    }                                                                                                                  \
    void cublas##S##trmm(char side, char fill, char op, char diagonal, int m, int n, T alpha, const T *a, int lda,     \
                         T *b, int ldb)                                                                                \
    {                                                                                                                  \
        keep(cublas##S##trmm##_v2(process, SIDE(side), FILL(fill), OP(op), DIAGONAL(diagonal), m, n, &alpha, a, lda,   \
                                  b, ldb, b, ldb));                                                                    \
    }
BLAS_MATRICES(S, float)
BLAS_MATRICES(D, double)
BLAS_MATRICES(C, cuComplex)
BLAS_MATRICES(Z, cuDoubleComplex)
#define BLAS_GER(name, T)                                                                                              \
    void cublas##name(int m, int n, T alpha, const T *x, int incx, const T *y, int incy, T *a, int lda)                \
    {                                                                                                                  \
        keep(cublas##name##_v2(process, m, n, &alpha, x, incx, y, incy, a, lda));                                      \
    }
BLAS_GER(Sger, float)
BLAS_GER(Dger, double)
BLAS_GER(Cgeru, cuComplex)
BLAS_GER(Cgerc, cuComplex)
BLAS_GER(Zgeru, cuDoubleComplex)
BLAS_GER(Zgerc, cuDoubleComplex)
#define BLAS_MIRRORED(symv, sbmv, spmv, syr, syr2, spr, spr2, T, R)                                                    \
    void cublas##symv(char fill, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta, T *y, int incy)    \
    {                                                                                                                  \
        keep(cublas##symv##_v2(process, FILL(fill), n, &alpha, a, lda, x, incx, &beta, y, incy));                      \
    }                                                                                                                  \
    void cublas##sbmv(char fill, int n, int k, T alpha, const T *a, int lda, const T *x, int incx, T beta, T *y,       \
                      int incy)                                                                                        \
    {                                                                                                                  \
        keep(cublas##sbmv##_v2(process, FILL(fill), n, k, &alpha, a, lda, x, incx, &beta, y, incy));                   \
    }                                                                                                                  \
    void cublas##spmv(char fill, int n, T alpha, const T *packed, const T *x, int incx, T beta, T *y, int incy)        \
    {                                                                                                                  \
        keep(cublas##spmv##_v2(process, FILL(fill), n, &alpha, packed, x, incx, &beta, y, incy));                      \
    }                                                                                                                  \
    void cublas##syr(char fill, int n, R alpha, const T *x, int incx, T *a, int lda)                                   \
    {                                                                                                                  \
        keep(cublas##syr##_v2(process, FILL(fill), n, &alpha, x, incx, a, lda));                                       \
    }                                                                                                                  \
    void cublas##syr2(char fill, int n, T alpha, const T *x, int incx, const T *y, int incy, T *a, int lda)            \
    {                                                                                                                  \
        keep(cublas##syr2##_v2(process, FILL(fill), n, &alpha, x, incx, y, incy, a, lda));                             \
    }                                                                                                                  \
    void cublas##spr(char fill, int n, R alpha, const T *x, int incx, T *packed)                                       \
    {                                                                                                                  \
        keep(cublas##spr##_v2(process, FILL(fill), n, &alpha, x, incx, packed));                                       \
    }                                                                                                                  \
    void cublas##spr2(char fill, int n, T alpha, const T *x, int incx, const T *y, int incy, T *packed)                \
    {                                                                                                                  \
        keep(cublas##spr2##_v2(process, FILL(fill), n, &alpha, x, incx, y, incy, packed));                             \
    }
BLAS_MIRRORED(Ssymv, Ssbmv, Sspmv, Ssyr, Ssyr2, Sspr, Sspr2, float, float)
BLAS_MIRRORED(Dsymv, Dsbmv, Dspmv, Dsyr, Dsyr2, Dspr, Dspr2, double, double)
BLAS_MIRRORED(Chemv, Chbmv, Chpmv, Cher, Cher2, Chpr, Chpr2, cuComplex, float)
BLAS_MIRRORED(Zhemv, Zhbmv, Zhpmv, Zher, Zher2, Zhpr, Zhpr2, cuDoubleComplex, double)
#define BLAS_HERMITIAN(S, T, R)                                                                                        \
    void cublas##S##hemm(char side, char fill, int m, int n, T alpha, const T *a, int lda, const T *b, int ldb,        \
                         T beta, T *c, int ldc)                                                                        \
    {                                                                                                                  \
        keep(cublas##S##hemm##_v2(process, SIDE(side), FILL(fill), m, n, &alpha, a, lda, b, ldb, &beta, c, ldc));      \
    }                                                                                                                  \
    void cublas##S##herk(char fill, char op, int n, int k, R alpha, const T *a, int lda, R beta, T *c, int ldc)        \
    {                                                                                                                  \
        keep(cublas##S##herk##_v2(process, FILL(fill), OP(op), n, k, &alpha, a, lda, &beta, c, ldc));                  \
    }                                                                                                                  \
    void cublas##S##her2k(char fill, char op, int n, int k, T alpha, const T *a, int lda, const T *b, int ldb, R beta, \
                          T *c, int ldc)                                                                               \
    {                                                                                                                  \
        keep(cublas##S##her2k##_v2(process, FILL(fill), OP(op), n, k, &alpha, a, lda, b, ldb, &beta, c, ldc));         \
    }
BLAS_HERMITIAN(C, cuComplex, float)
BLAS_HERMITIAN(Z, cuDoubleComplex, double)
