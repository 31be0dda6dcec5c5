/* cuBLAS's first API for guests: functions without a handle, for the process, with factors and results by value. Errors
 * are
 * kept for cublasGetError(). Letters name operations (N, T, C), triangles (U, L), sides (L, R) and diagonals (U, N). \
 * \
 * A function that is not declared here is not there. */
#pragma once
#define CUBLAS_H_
#ifdef CUBLAS_V2_H_
#error "cublas.h and cublas_v2.h cannot be used together"
#endif
#include "cublas_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef cublasStatus_t cublasStatus;

CUBLASAPI cublasStatus cublasInit(void);
CUBLASAPI cublasStatus cublasShutdown(void);
CUBLASAPI cublasStatus cublasGetError(void);
CUBLASAPI cublasStatus cublasGetVersion(int *version);
CUBLASAPI cublasStatus cublasAlloc(int n, int element, void **device);
CUBLASAPI cublasStatus cublasFree(void *device);
CUBLASAPI cublasStatus cublasSetKernelStream(cudaStream_t stream);

#define VGC_VECTORS(S, small, N, T, R)                                                                                 \
    CUBLASAPI void cublas##S##axpy(int n, T alpha, const T *x, int incx, T *y, int incy);                              \
    CUBLASAPI void cublas##S##scal(int n, T alpha, T *x, int incx);                                                    \
    CUBLASAPI void cublas##S##copy(int n, const T *x, int incx, T *y, int incy);                                       \
    CUBLASAPI void cublas##S##swap(int n, T *x, int incx, T *y, int incy);                                             \
    CUBLASAPI R cublas##N##nrm2(int n, const T *x, int incx);                                                          \
    CUBLASAPI R cublas##N##asum(int n, const T *x, int incx);                                                          \
    CUBLASAPI int cublas##I##small##amax(int n, const T *x, int incx);                                                 \
    CUBLASAPI int cublas##I##small##amin(int n, const T *x, int incx);                                                 \
    CUBLASAPI void cublas##S##rot(int n, T *x, int incx, T *y, int incy, R cosine, T sine);                            \
    CUBLASAPI void cublas##S##rotg(T *a, T *b, R *cosine, T *sine);
VGC_VECTORS(S, s, S, float, float)
VGC_VECTORS(D, d, D, double, double)
VGC_VECTORS(C, c, Sc, cuComplex, float)
VGC_VECTORS(Z, z, Dz, cuDoubleComplex, double)
#define VGC_DOT(name, T) CUBLASAPI T cublas##name(int n, const T *x, int incx, const T *y, int incy);
VGC_DOT(Sdot, float)
VGC_DOT(Ddot, double)
VGC_DOT(Cdotu, cuComplex)
VGC_DOT(Cdotc, cuComplex)
VGC_DOT(Zdotu, cuDoubleComplex)
VGC_DOT(Zdotc, cuDoubleComplex)
#define VGC_SCALE(name, rotation, T, R)                                                                                \
    CUBLASAPI void cublas##name(int n, R alpha, T *x, int incx);                                                       \
    CUBLASAPI void cublas##rotation(int n, T *x, int incx, T *y, int incy, R cosine, R sine);
VGC_SCALE(Csscal, Csrot, cuComplex, float)
VGC_SCALE(Zdscal, Zdrot, cuDoubleComplex, double)
#define VGC_MODIFIED(S, R)                                                                                             \
    CUBLASAPI void cublas##S##rotm(int n, R *x, int incx, R *y, int incy, const R *parameters);                        \
    CUBLASAPI void cublas##S##rotmg(R *d1, R *d2, R *x1, const R *y1, R *parameters);
VGC_MODIFIED(S, float)
VGC_MODIFIED(D, double)
#define VGC_MATRICES(S, T)                                                                                             \
    CUBLASAPI void cublas##S##gemv(char op, int m, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta,  \
                                   T *y, int incy);                                                                    \
    CUBLASAPI void cublas##S##gbmv(char op, int m, int n, int below, int above, T alpha, const T *a, int lda,          \
                                   const T *x, int incx, T beta, T *y, int incy);                                      \
    CUBLASAPI void cublas##S##trmv(char fill, char op, char diagonal, int n, const T *a, int lda, T *x, int incx);     \
    CUBLASAPI void cublas##S##trsv(char fill, char op, char diagonal, int n, const T *a, int lda, T *x, int incx);     \
    CUBLASAPI void cublas##S##tbmv(char fill, char op, char diagonal, int n, int k, const T *a, int lda, T *x,         \
                                   int incx);                                                                          \
    CUBLASAPI void cublas##S##tbsv(char fill, char op, char diagonal, int n, int k, const T *a, int lda, T *x,         \
                                   int incx);                                                                          \
    CUBLASAPI void cublas##S##tpmv(char fill, char op, char diagonal, int n, const T *packed, T *x, int incx);         \
    CUBLASAPI void cublas##S##tpsv(char fill, char op, char diagonal, int n, const T *packed, T *x, int incx);         \
    CUBLASAPI void cublas##S##gemm(char opa, char opb, int m, int n, int k, T alpha, const T *a, int lda, const T *b,  \
                                   int ldb, T beta, T *c, int ldc);                                                    \
    CUBLASAPI void cublas##S##symm(char side, char fill, int m, int n, T alpha, const T *a, int lda, const T *b,       \
                                   int ldb, T beta, T *c, int ldc);                                                    \
    CUBLASAPI void cublas##S##syrk(char fill, char op, int n, int k, T alpha, const T *a, int lda, T beta, T *c,       \
                                   int ldc);                                                                           \
    CUBLASAPI void cublas##S##syr2k(char fill, char op, int n, int k, T alpha, const T *a, int lda, const T *b,        \
                                    int ldb, T beta, T *c, int ldc);                                                   \
    CUBLASAPI void cublas##S##trsm(char side, char fill, char op, char diagonal, int m, int n, T alpha, const T *a,    \
                                   int lda, T *b, int ldb);                                                            \
    CUBLASAPI void cublas##S##trmm(char side, char fill, char op, char diagonal, int m, int n, T alpha, const T *a,    \
                                   int lda, T *b, int ldb);
VGC_MATRICES(S, float)
VGC_MATRICES(D, double)
VGC_MATRICES(C, cuComplex)
VGC_MATRICES(Z, cuDoubleComplex)
#define VGC_GER(name, T)                                                                                               \
    CUBLASAPI void cublas##name(int m, int n, T alpha, const T *x, int incx, const T *y, int incy, T *a, int lda);
VGC_GER(Sger, float)
VGC_GER(Dger, double)
VGC_GER(Cgeru, cuComplex)
VGC_GER(Cgerc, cuComplex)
VGC_GER(Zgeru, cuDoubleComplex)
VGC_GER(Zgerc, cuDoubleComplex)
#define VGC_MIRRORED(symv, sbmv, spmv, syr, syr2, spr, spr2, T, R)                                                     \
    CUBLASAPI void cublas##symv(char fill, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta, T *y,    \
                                int incy);                                                                             \
    CUBLASAPI void cublas##sbmv(char fill, int n, int k, T alpha, const T *a, int lda, const T *x, int incx, T beta,   \
                                T *y, int incy);                                                                       \
    CUBLASAPI void cublas##spmv(char fill, int n, T alpha, const T *packed, const T *x, int incx, T beta, T *y,        \
                                int incy);                                                                             \
    CUBLASAPI void cublas##syr(char fill, int n, R alpha, const T *x, int incx, T *a, int lda);                        \
    CUBLASAPI void cublas##syr2(char fill, int n, T alpha, const T *x, int incx, const T *y, int incy, T *a, int lda); \
    CUBLASAPI void cublas##spr(char fill, int n, R alpha, const T *x, int incx, T *packed);                            \
    CUBLASAPI void cublas##spr2(char fill, int n, T alpha, const T *x, int incx, const T *y, int incy, T *packed);
VGC_MIRRORED(Ssymv, Ssbmv, Sspmv, Ssyr, Ssyr2, Sspr, Sspr2, float, float)
VGC_MIRRORED(Dsymv, Dsbmv, Dspmv, Dsyr, Dsyr2, Dspr, Dspr2, double, double)
VGC_MIRRORED(Chemv, Chbmv, Chpmv, Cher, Cher2, Chpr, Chpr2, cuComplex, float)
VGC_MIRRORED(Zhemv, Zhbmv, Zhpmv, Zher, Zher2, Zhpr, Zhpr2, cuDoubleComplex, double)
#define VGC_HERMITIAN(S, T, R)                                                                                         \
    CUBLASAPI void cublas##S##hemm(char side, char fill, int m, int n, T alpha, const T *a, int lda, const T *b,       \
                                   int ldb, T beta, T *c, int ldc);                                                    \
    CUBLASAPI void cublas##S##herk(char fill, char op, int n, int k, R alpha, const T *a, int lda, R beta, T *c,       \
                                   int ldc);                                                                           \
    CUBLASAPI void cublas##S##her2k(char fill, char op, int n, int k, T alpha, const T *a, int lda, const T *b,        \
                                    int ldb, R beta, T *c, int ldc);
VGC_HERMITIAN(C, cuComplex, float)
VGC_HERMITIAN(Z, cuDoubleComplex, double)

#undef VGC_VECTORS
#undef VGC_DOT
#undef VGC_SCALE
#undef VGC_MODIFIED
#undef VGC_MATRICES
#undef VGC_GER
#undef VGC_MIRRORED
#undef VGC_HERMITIAN

#ifdef __cplusplus
}
#endif
