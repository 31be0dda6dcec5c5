/* cuBLAS's functions of batches of matrices. A part of cublas_api.h. */
#define VGC_BATCHES(w, I, S, T)                                                                                        \
    VGC_STATUS cublas##S##gemvBatched##w(cublasHandle_t handle, cublasOperation_t op, I m, I n, const T *alpha,        \
                                         const T *const a[], I lda, const T *const x[], I incx, const T *beta,         \
                                         T *const y[], I incy, I count);                                               \
    VGC_STATUS cublas##S##gemvStridedBatched##w(                                                                       \
        cublasHandle_t handle, cublasOperation_t op, I m, I n, const T *alpha, const T *a, I lda, long long jump_a,    \
        const T *x, I incx, long long jump_x, const T *beta, T *y, I incy, long long jump_y, I count);                 \
    VGC_STATUS cublas##S##trsmBatched##w(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,          \
                                         cublasOperation_t op, cublasDiagType_t diagonal, I m, I n, const T *alpha,    \
                                         const T *const a[], I lda, T *const b[], I ldb, I count);
VGC_TYPES(VGC_BATCHES)

/* Batches whose matrices differ in their sizes from group to group: arrays of the host with an element for each group,
 * and tables of the device with one for each matrix, group after group. */
#define VGC_GROUPS(w, I)                                                                                               \
    VGC_STATUS cublasSgemmGroupedBatched##w(                                                                           \
        cublasHandle_t handle, const cublasOperation_t opa[], const cublasOperation_t opb[], const I m[], const I n[], \
        const I k[], const float alpha[], const float *const a[], const I lda[], const float *const b[],               \
        const I ldb[], const float beta[], float *const c[], const I ldc[], I groups, const I counts[]);               \
    VGC_STATUS cublasDgemmGroupedBatched##w(                                                                           \
        cublasHandle_t handle, const cublasOperation_t opa[], const cublasOperation_t opb[], const I m[], const I n[], \
        const I k[], const double alpha[], const double *const a[], const I lda[], const double *const b[],            \
        const I ldb[], const double beta[], double *const c[], const I ldc[], I groups, const I counts[]);             \
    VGC_STATUS cublasGemmGroupedBatchedEx##w(                                                                          \
        cublasHandle_t handle, const cublasOperation_t opa[], const cublasOperation_t opb[], const I m[], const I n[], \
        const I k[], const void *alpha, const void *const a[], cudaDataType ta, const I lda[], const void *const b[],  \
        cudaDataType tb, const I ldb[], const void *beta, void *const c[], cudaDataType tc, const I ldc[], I groups,   \
        const I counts[], cublasComputeType_t compute);
VGC_GROUPS(, int)
VGC_GROUPS(_64, int64_t)

/* Factors of matrices. `found` on the device, one per matrix: 0, or the column, counted from 1, whose diagonal element
 * is 0; `wrong` on the host: 0, or minus the number of the parameter that is wrong. */
#define VGC_FACTORS(S, T)                                                                                              \
    VGC_STATUS cublas##S##getrfBatched(cublasHandle_t handle, int n, T *const a[], int lda, int *pivots, int *found,   \
                                       int count);                                                                     \
    VGC_STATUS cublas##S##getrsBatched(cublasHandle_t handle, cublasOperation_t op, int n, int sides,                  \
                                       const T *const a[], int lda, const int *pivots, T *const b[], int ldb,          \
                                       int *wrong, int count);                                                         \
    VGC_STATUS cublas##S##getriBatched(cublasHandle_t handle, int n, const T *const a[], int lda, const int *pivots,   \
                                       T *const c[], int ldc, int *found, int count);                                  \
    VGC_STATUS cublas##S##matinvBatched(cublasHandle_t handle, int n, const T *const a[], int lda, T *const inverse[], \
                                        int ld, int *found, int count);                                                \
    VGC_STATUS cublas##S##geqrfBatched(cublasHandle_t handle, int m, int n, T *const a[], int lda, T *const tau[],     \
                                       int *wrong, int count);                                                         \
    VGC_STATUS cublas##S##gelsBatched(cublasHandle_t handle, cublasOperation_t op, int m, int n, int sides,            \
                                      T *const a[], int lda, T *const c[], int ldc, int *wrong, int *found,            \
                                      int count);
VGC_FACTORS(S, float)
VGC_FACTORS(D, double)
VGC_FACTORS(C, cuComplex)
VGC_FACTORS(Z, cuDoubleComplex)

#undef VGC_BATCHES
#undef VGC_GROUPS
#undef VGC_FACTORS
