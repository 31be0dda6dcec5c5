/* cuBLAS's functions of vectors whose types are told at run time, and of rotations. A part of cublas_api.h. */
#define VGC_VECTORS_EX(w, I)                                                                                           \
    VGC_STATUS cublasAxpyEx##w(cublasHandle_t handle, I n, const void *alpha, cudaDataType talpha, const void *x,      \
                               cudaDataType tx, I incx, void *y, cudaDataType ty, I incy, cudaDataType execution);     \
    VGC_STATUS cublasScalEx##w(cublasHandle_t handle, I n, const void *alpha, cudaDataType talpha, void *x,            \
                               cudaDataType tx, I incx, cudaDataType execution);                                       \
    VGC_STATUS cublasDotEx##w(cublasHandle_t handle, I n, const void *x, cudaDataType tx, I incx, const void *y,       \
                              cudaDataType ty, I incy, void *to, cudaDataType result, cudaDataType execution);         \
    VGC_STATUS cublasDotcEx##w(cublasHandle_t handle, I n, const void *x, cudaDataType tx, I incx, const void *y,      \
                               cudaDataType ty, I incy, void *to, cudaDataType result, cudaDataType execution);        \
    VGC_STATUS cublasNrm2Ex##w(cublasHandle_t handle, I n, const void *x, cudaDataType tx, I incx, void *to,           \
                               cudaDataType result, cudaDataType execution);                                           \
    VGC_STATUS cublasRotEx##w(cublasHandle_t handle, I n, void *x, cudaDataType tx, I incx, void *y, cudaDataType ty,  \
                              I incy, const void *c, const void *s, cudaDataType tcs, cudaDataType execution);
VGC_VECTORS_EX(, int)
VGC_VECTORS_EX(_64, int64_t)

#define VGC_ROTM(w, I, S, R)                                                                                           \
    VGC_STATUS cublas##S##rotm_v2##w(cublasHandle_t handle, I n, R *x, I incx, R *y, I incy, const R *parameters);
VGC_WIDTHS(VGC_ROTM, S, float)
VGC_WIDTHS(VGC_ROTM, D, double)
VGC_STATUS cublasSrotmg_v2(cublasHandle_t handle, float *d1, float *d2, float *x1, const float *y1, float *parameters);
VGC_STATUS cublasDrotmg_v2(cublasHandle_t handle, double *d1, double *d2, double *x1, const double *y1,
                           double *parameters);
VGC_STATUS cublasSrotg_v2(cublasHandle_t handle, float *a, float *b, float *c, float *s);
VGC_STATUS cublasDrotg_v2(cublasHandle_t handle, double *a, double *b, double *c, double *s);
VGC_STATUS cublasCrotg_v2(cublasHandle_t handle, cuComplex *a, cuComplex *b, float *c, cuComplex *s);
VGC_STATUS cublasZrotg_v2(cublasHandle_t handle, cuDoubleComplex *a, cuDoubleComplex *b, double *c, cuDoubleComplex *s);

#undef VGC_VECTORS_EX
#undef VGC_ROTM
