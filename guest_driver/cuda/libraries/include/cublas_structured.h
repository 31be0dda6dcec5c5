/* cuBLAS's functions of matrices that are stored in part: symmetric, Hermitian and triangular ones, whole, packed and
 * in bands. A part of cublas_api.h. */
#define VGC_SYMV(w, I, name, T)                                                                                        \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, I n, const T *alpha, const T *a,     \
                                    I lda, const T *x, I incx, const T *beta, T *y, I incy);
#define VGC_SBMV(w, I, name, T)                                                                                        \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, I n, I k, const T *alpha,            \
                                    const T *a, I lda, const T *x, I incx, const T *beta, T *y, I incy);
#define VGC_SPMV(w, I, name, T)                                                                                        \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, I n, const T *alpha,                 \
                                    const T *packed, const T *x, I incx, const T *beta, T *y, I incy);
#define VGC_SYR(w, I, name, T, F)                                                                                      \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, I n, const F *alpha, const T *x,     \
                                    I incx, T *a, I lda);
#define VGC_SPR(w, I, name, T, F)                                                                                      \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, I n, const F *alpha, const T *x,     \
                                    I incx, T *packed);
#define VGC_SYR2(w, I, name, T)                                                                                        \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, I n, const T *alpha, const T *x,     \
                                    I incx, const T *y, I incy, T *a, I lda);
#define VGC_SPR2(w, I, name, T)                                                                                        \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, I n, const T *alpha, const T *x,     \
                                    I incx, const T *y, I incy, T *packed);
VGC_WIDTHS(VGC_SYMV, Ssymv, float)
VGC_WIDTHS(VGC_SYR, Ssyr, float, float)
VGC_WIDTHS(VGC_SYR2, Ssyr2, float)
VGC_WIDTHS(VGC_SBMV, Ssbmv, float)
VGC_WIDTHS(VGC_SPMV, Sspmv, float)
VGC_WIDTHS(VGC_SPR, Sspr, float, float)
VGC_WIDTHS(VGC_SPR2, Sspr2, float)
VGC_WIDTHS(VGC_SYMV, Dsymv, double)
VGC_WIDTHS(VGC_SYR, Dsyr, double, double)
VGC_WIDTHS(VGC_SYR2, Dsyr2, double)
VGC_WIDTHS(VGC_SBMV, Dsbmv, double)
VGC_WIDTHS(VGC_SPMV, Dspmv, double)
VGC_WIDTHS(VGC_SPR, Dspr, double, double)
VGC_WIDTHS(VGC_SPR2, Dspr2, double)
VGC_WIDTHS(VGC_SYMV, Csymv, cuComplex)
VGC_WIDTHS(VGC_SYR, Csyr, cuComplex, cuComplex)
VGC_WIDTHS(VGC_SYR2, Csyr2, cuComplex)
VGC_WIDTHS(VGC_SYMV, Chemv, cuComplex)
VGC_WIDTHS(VGC_SBMV, Chbmv, cuComplex)
VGC_WIDTHS(VGC_SPMV, Chpmv, cuComplex)
VGC_WIDTHS(VGC_SYR, Cher, cuComplex, float)
VGC_WIDTHS(VGC_SPR, Chpr, cuComplex, float)
VGC_WIDTHS(VGC_SYR2, Cher2, cuComplex)
VGC_WIDTHS(VGC_SPR2, Chpr2, cuComplex)
VGC_WIDTHS(VGC_SYMV, Zsymv, cuDoubleComplex)
VGC_WIDTHS(VGC_SYR, Zsyr, cuDoubleComplex, cuDoubleComplex)
VGC_WIDTHS(VGC_SYR2, Zsyr2, cuDoubleComplex)
VGC_WIDTHS(VGC_SYMV, Zhemv, cuDoubleComplex)
VGC_WIDTHS(VGC_SBMV, Zhbmv, cuDoubleComplex)
VGC_WIDTHS(VGC_SPMV, Zhpmv, cuDoubleComplex)
VGC_WIDTHS(VGC_SYR, Zher, cuDoubleComplex, double)
VGC_WIDTHS(VGC_SPR, Zhpr, cuDoubleComplex, double)
VGC_WIDTHS(VGC_SYR2, Zher2, cuDoubleComplex)
VGC_WIDTHS(VGC_SPR2, Zhpr2, cuDoubleComplex)

#define VGC_TRIANGULAR(w, I, S, T, kind)                                                                               \
    VGC_STATUS cublas##S##tr##kind##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op,         \
                                           cublasDiagType_t diagonal, I n, const T *a, I lda, T *x, I incx);           \
    VGC_STATUS cublas##S##tb##kind##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op,         \
                                           cublasDiagType_t diagonal, I n, I k, const T *a, I lda, T *x, I incx);      \
    VGC_STATUS cublas##S##tp##kind##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op,         \
                                           cublasDiagType_t diagonal, I n, const T *packed, T *x, I incx);
#define VGC_STRUCTURED(w, I, S, T)                                                                                     \
    VGC_TRIANGULAR(w, I, S, T, mv)                                                                                     \
    VGC_TRIANGULAR(w, I, S, T, sv)                                                                                     \
    VGC_STATUS cublas##S##gbmv_v2##w(cublasHandle_t handle, cublasOperation_t op, I m, I n, I below, I above,          \
                                     const T *alpha, const T *a, I lda, const T *x, I incx, const T *beta, T *y,       \
                                     I incy);
VGC_TYPES(VGC_STRUCTURED)

#define VGC_SYMM(w, I, name, T)                                                                                        \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, I m, I n,     \
                                    const T *alpha, const T *a, I lda, const T *b, I ldb, const T *beta, T *c, I ldc);
#define VGC_SYRK(w, I, name, T, F)                                                                                     \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op, I n, I k,      \
                                    const F *alpha, const T *a, I lda, const F *beta, T *c, I ldc);
#define VGC_SYR2K(w, I, name, T, G)                                                                                    \
    VGC_STATUS cublas##name##w(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op, I n, I k,           \
                               const T *alpha, const T *a, I lda, const T *b, I ldb, const G *beta, T *c, I ldc);
#define VGC_PRODUCTS(w, I, S, T)                                                                                       \
    VGC_SYMM(w, I, S##symm, T)                                                                                         \
    VGC_SYRK(w, I, S##syrk, T, T)                                                                                      \
    VGC_SYR2K(w, I, S##syr2k_v2, T, T)                                                                                 \
    VGC_SYR2K(w, I, S##syrkx, T, T)                                                                                    \
    VGC_STATUS cublas##S##trmm_v2##w(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,              \
                                     cublasOperation_t op, cublasDiagType_t diagonal, I m, I n, const T *alpha,        \
                                     const T *a, I lda, const T *b, I ldb, T *c, I ldc);
VGC_TYPES(VGC_PRODUCTS)
#define VGC_HERMITIAN_PRODUCTS(w, I, S, T, R)                                                                          \
    VGC_SYMM(w, I, S##hemm, T)                                                                                         \
    VGC_SYRK(w, I, S##herk, T, R)                                                                                      \
    VGC_SYR2K(w, I, S##her2k_v2, T, R)                                                                                 \
    VGC_SYR2K(w, I, S##herkx, T, R)
VGC_WIDTHS(VGC_HERMITIAN_PRODUCTS, C, cuComplex, float)
VGC_WIDTHS(VGC_HERMITIAN_PRODUCTS, Z, cuDoubleComplex, double)

#define VGC_PACKED(S, T)                                                                                               \
    VGC_STATUS cublas##S##trttp(cublasHandle_t handle, cublasFillMode_t fill, int n, const T *a, int lda, T *packed);  \
    VGC_STATUS cublas##S##tpttr(cublasHandle_t handle, cublasFillMode_t fill, int n, const T *packed, T *a, int lda);
VGC_PACKED(S, float)
VGC_PACKED(D, double)
VGC_PACKED(C, cuComplex)
VGC_PACKED(Z, cuDoubleComplex)

#undef VGC_PACKED
#undef VGC_SYMV
#undef VGC_SBMV
#undef VGC_SPMV
#undef VGC_SYR
#undef VGC_SPR
#undef VGC_SYR2
#undef VGC_SPR2
#undef VGC_TRIANGULAR
#undef VGC_STRUCTURED
#undef VGC_SYMM
#undef VGC_SYRK
#undef VGC_SYR2K
#undef VGC_PRODUCTS
#undef VGC_HERMITIAN_PRODUCTS
