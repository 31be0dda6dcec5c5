/* cuSPARSE's functions for CSR, BSR and diagonals with indices of 32 bits; included by cusparse.h. */
#pragma once

typedef enum { CUSPARSE_CSR2CSC_ALG_DEFAULT = 1, CUSPARSE_CSR2CSC_ALG1 = 1 } cusparseCsr2CscAlg_t;

struct csrilu02Info;
struct csric02Info;
struct bsrilu02Info;
struct bsric02Info;
struct bsrsv2Info;
struct bsrsm2Info;
struct csru2csrInfo;
struct pruneInfo;
typedef struct csrilu02Info *csrilu02Info_t;
typedef struct csric02Info *csric02Info_t;
typedef struct bsrilu02Info *bsrilu02Info_t;
typedef struct bsric02Info *bsric02Info_t;
typedef struct bsrsv2Info *bsrsv2Info_t;
typedef struct bsrsm2Info *bsrsm2Info_t;
typedef struct csru2csrInfo *csru2csrInfo_t;
typedef struct pruneInfo *pruneInfo_t;

#ifdef __cplusplus
extern "C" {
#endif

/* Formats and sorting. */
cusparseStatus_t cusparseCreateIdentityPermutation(cusparseHandle_t handle, int n, int *p);
cusparseStatus_t cusparseXcoo2csr(cusparseHandle_t handle, const int *rows, int nnz, int m, int *offsets,
                                  cusparseIndexBase_t base);
cusparseStatus_t cusparseXcsr2coo(cusparseHandle_t handle, const int *offsets, int nnz, int m, int *rows,
                                  cusparseIndexBase_t base);
cusparseStatus_t cusparseXcoosort_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnz, const int *rows,
                                                const int *columns, size_t *size);
cusparseStatus_t cusparseXcoosortByRow(cusparseHandle_t handle, int m, int n, int nnz, int *rows, int *columns, int *p,
                                       void *buffer);
cusparseStatus_t cusparseXcoosortByColumn(cusparseHandle_t handle, int m, int n, int nnz, int *rows, int *columns,
                                          int *p, void *buffer);
cusparseStatus_t cusparseXcsrsort_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnz, const int *offsets,
                                                const int *columns, size_t *size);
cusparseStatus_t cusparseXcsrsort(cusparseHandle_t handle, int m, int n, int nnz, const cusparseMatDescr_t about,
                                  const int *offsets, int *columns, int *p, void *buffer);
cusparseStatus_t cusparseXcscsort_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnz, const int *offsets,
                                                const int *rows, size_t *size);
cusparseStatus_t cusparseXcscsort(cusparseHandle_t handle, int m, int n, int nnz, const cusparseMatDescr_t about,
                                  const int *offsets, int *rows, int *p, void *buffer);
cusparseStatus_t cusparseCsr2cscEx2_bufferSize(cusparseHandle_t handle, int m, int n, int nnz, const void *values,
                                               const int *offsets, const int *columns, void *csc_values,
                                               int *csc_offsets, int *csc_rows, cudaDataType type,
                                               cusparseAction_t action, cusparseIndexBase_t base,
                                               cusparseCsr2CscAlg_t algorithm, size_t *size);
cusparseStatus_t cusparseCsr2cscEx2(cusparseHandle_t handle, int m, int n, int nnz, const void *values,
                                    const int *offsets, const int *columns, void *csc_values, int *csc_offsets,
                                    int *csc_rows, cudaDataType type, cusparseAction_t action, cusparseIndexBase_t base,
                                    cusparseCsr2CscAlg_t algorithm, void *buffer);
cusparseStatus_t cusparseCreateCsru2csrInfo(csru2csrInfo_t *info);
cusparseStatus_t cusparseDestroyCsru2csrInfo(csru2csrInfo_t info);
cusparseStatus_t cusparseCreatePruneInfo(pruneInfo_t *info);
cusparseStatus_t cusparseDestroyPruneInfo(pruneInfo_t info);
cusparseStatus_t cusparseXcsr2bsrNnz(cusparseHandle_t handle, cusparseDirection_t direction, int m, int n,
                                     const cusparseMatDescr_t about_a, const int *offsets_a, const int *columns_a,
                                     int block, const cusparseMatDescr_t about_c, int *offsets_c, int *total);
cusparseStatus_t cusparseXcsr2gebsrNnz(cusparseHandle_t handle, cusparseDirection_t direction, int m, int n,
                                       const cusparseMatDescr_t about_a, const int *offsets_a, const int *columns_a,
                                       const cusparseMatDescr_t about_c, int *offsets_c, int row_block, int col_block,
                                       int *total, void *buffer);
cusparseStatus_t cusparseXgebsr2csr(cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nb,
                                    const cusparseMatDescr_t about_a, const int *offsets_a, const int *columns_a,
                                    int row_block, int col_block, const cusparseMatDescr_t about_c, int *offsets_c,
                                    int *columns_c);
cusparseStatus_t cusparseXcsrgeam2Nnz(cusparseHandle_t handle, int m, int n, const cusparseMatDescr_t about_a,
                                      int nnz_a, const int *offsets_a, const int *columns_a,
                                      const cusparseMatDescr_t about_b, int nnz_b, const int *offsets_b,
                                      const int *columns_b, const cusparseMatDescr_t about_c, int *offsets_c,
                                      int *total, void *buffer);

/* Analyses of incomplete factors and of solves; a zero pivot's position waits for the device. */
#define VGC_INFO(UPPER, NAME)                                                                                          \
    cusparseStatus_t cusparseCreate##UPPER##Info(NAME##Info_t *info);                                                  \
    cusparseStatus_t cusparseDestroy##UPPER##Info(NAME##Info_t info);                                                  \
    cusparseStatus_t cusparseX##NAME##_zeroPivot(cusparseHandle_t handle, NAME##Info_t info, int *position);
VGC_INFO(Csrilu02, csrilu02)
VGC_INFO(Csric02, csric02)
VGC_INFO(Bsrilu02, bsrilu02)
VGC_INFO(Bsric02, bsric02)
VGC_INFO(Bsrsv2, bsrsv2)
VGC_INFO(Bsrsm2, bsrsm2)
#undef VGC_INFO

#define VGC_CSR_FACTOR(S, T, NAME)                                                                                     \
    cusparseStatus_t cusparse##S##NAME##_bufferSize(cusparseHandle_t handle, int m, int nnz,                           \
                                                    const cusparseMatDescr_t about, T *values, const int *offsets,     \
                                                    const int *columns, NAME##Info_t info, int *size);                 \
    cusparseStatus_t cusparse##S##NAME##_bufferSizeExt(cusparseHandle_t handle, int m, int nnz,                        \
                                                       const cusparseMatDescr_t about, T *values, const int *offsets,  \
                                                       const int *columns, NAME##Info_t info, size_t *size);           \
    cusparseStatus_t cusparse##S##NAME##_analysis(                                                                     \
        cusparseHandle_t handle, int m, int nnz, const cusparseMatDescr_t about, const T *values, const int *offsets,  \
        const int *columns, NAME##Info_t info, cusparseSolvePolicy_t policy, void *buffer);                            \
    cusparseStatus_t cusparse##S##NAME(cusparseHandle_t handle, int m, int nnz, const cusparseMatDescr_t about,        \
                                       T *values, const int *offsets, const int *columns, NAME##Info_t info,           \
                                       cusparseSolvePolicy_t policy, void *buffer);
#define VGC_BSR_FACTOR(S, T, NAME)                                                                                     \
    cusparseStatus_t cusparse##S##NAME##_bufferSize(                                                                   \
        cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nnzb, const cusparseMatDescr_t about,      \
        T *values, const int *offsets, const int *columns, int block, NAME##Info_t info, int *size);                   \
    cusparseStatus_t cusparse##S##NAME##_bufferSizeExt(                                                                \
        cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nnzb, const cusparseMatDescr_t about,      \
        T *values, const int *offsets, const int *columns, int block, NAME##Info_t info, size_t *size);                \
    cusparseStatus_t cusparse##S##NAME##_analysis(cusparseHandle_t handle, cusparseDirection_t direction, int mb,      \
                                                  int nnzb, const cusparseMatDescr_t about, const T *values,           \
                                                  const int *offsets, const int *columns, int block,                   \
                                                  NAME##Info_t info, cusparseSolvePolicy_t policy, void *buffer);      \
    cusparseStatus_t cusparse##S##NAME(cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nnzb,       \
                                       const cusparseMatDescr_t about, T *values, const int *offsets,                  \
                                       const int *columns, int block, NAME##Info_t info, cusparseSolvePolicy_t policy, \
                                       void *buffer);
#define VGC_BOOST(S, T, NAME)                                                                                          \
    cusparseStatus_t cusparse##S##NAME##_numericBoost(cusparseHandle_t handle, NAME##Info_t info, int enabled,         \
                                                      double *tolerance, T *boost);
#define VGC_BLOCK_SOLVE_SIZE(S, T, SUFFIX, SIZE)                                                                       \
    cusparseStatus_t cusparse##S##bsrsv2_bufferSize##SUFFIX(                                                           \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation, int mb, int nnzb,       \
        const cusparseMatDescr_t about, T *values, const int *offsets, const int *columns, int block,                  \
        bsrsv2Info_t info, SIZE *size);                                                                                \
    cusparseStatus_t cusparse##S##bsrsm2_bufferSize##SUFFIX(                                                           \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation,                         \
        cusparseOperation_t operation_x, int mb, int n, int nnzb, const cusparseMatDescr_t about, T *values,           \
        const int *offsets, const int *columns, int block, bsrsm2Info_t info, SIZE *size);
#define VGC_BLOCK_SOLVE(S, T)                                                                                          \
    VGC_BLOCK_SOLVE_SIZE(S, T, , int)                                                                                  \
    VGC_BLOCK_SOLVE_SIZE(S, T, Ext, size_t)                                                                            \
    cusparseStatus_t cusparse##S##bsrsv2_analysis(                                                                     \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation, int mb, int nnzb,       \
        const cusparseMatDescr_t about, const T *values, const int *offsets, const int *columns, int block,            \
        bsrsv2Info_t info, cusparseSolvePolicy_t policy, void *buffer);                                                \
    cusparseStatus_t cusparse##S##bsrsv2_solve(                                                                        \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation, int mb, int nnzb,       \
        const T *alpha, const cusparseMatDescr_t about, const T *values, const int *offsets, const int *columns,       \
        int block, bsrsv2Info_t info, const T *b, T *x, cusparseSolvePolicy_t policy, void *buffer);                   \
    cusparseStatus_t cusparse##S##bsrsm2_analysis(cusparseHandle_t handle, cusparseDirection_t direction,              \
                                                  cusparseOperation_t operation, cusparseOperation_t operation_x,      \
                                                  int mb, int n, int nnzb, const cusparseMatDescr_t about,             \
                                                  const T *values, const int *offsets, const int *columns, int block,  \
                                                  bsrsm2Info_t info, cusparseSolvePolicy_t policy, void *buffer);      \
    cusparseStatus_t cusparse##S##bsrsm2_solve(                                                                        \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation,                         \
        cusparseOperation_t operation_x, int mb, int n, int nnzb, const T *alpha, const cusparseMatDescr_t about,      \
        const T *values, const int *offsets, const int *columns, int block, bsrsm2Info_t info, const T *b, int ldb,    \
        T *x, int ldx, cusparseSolvePolicy_t policy, void *buffer);

#define VGC_ENTRIES(S, T)                                                                                              \
    cusparseStatus_t cusparse##S##nnz(cusparseHandle_t handle, cusparseDirection_t direction, int m, int n,            \
                                      const cusparseMatDescr_t about, const T *a, int lda, int *counts, int *total);   \
    cusparseStatus_t cusparse##S##csru2csr_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnz, T *values,    \
                                                         const int *offsets, int *columns, csru2csrInfo_t info,        \
                                                         size_t *size);                                                \
    cusparseStatus_t cusparse##S##csru2csr(cusparseHandle_t handle, int m, int n, int nnz,                             \
                                           const cusparseMatDescr_t about, T *values, const int *offsets,              \
                                           int *columns, csru2csrInfo_t info, void *buffer);                           \
    cusparseStatus_t cusparse##S##csr2csru(cusparseHandle_t handle, int m, int n, int nnz,                             \
                                           const cusparseMatDescr_t about, T *values, const int *offsets,              \
                                           int *columns, csru2csrInfo_t info, void *buffer);                           \
    cusparseStatus_t cusparse##S##csrgeam2_bufferSizeExt(                                                              \
        cusparseHandle_t handle, int m, int n, const T *alpha, const cusparseMatDescr_t about_a, int nnz_a,            \
        const T *values_a, const int *offsets_a, const int *columns_a, const T *beta,                                  \
        const cusparseMatDescr_t about_b, int nnz_b, const T *values_b, const int *offsets_b, const int *columns_b,    \
        const cusparseMatDescr_t about_c, const T *values_c, const int *offsets_c, const int *columns_c,               \
        size_t *size);                                                                                                 \
    cusparseStatus_t cusparse##S##csrgeam2(                                                                            \
        cusparseHandle_t handle, int m, int n, const T *alpha, const cusparseMatDescr_t about_a, int nnz_a,            \
        const T *values_a, const int *offsets_a, const int *columns_a, const T *beta,                                  \
        const cusparseMatDescr_t about_b, int nnz_b, const T *values_b, const int *offsets_b, const int *columns_b,    \
        const cusparseMatDescr_t about_c, T *values_c, int *offsets_c, int *columns_c, void *buffer);

/* Systems with three or five diagonals. */
#define VGC_DIAGONALS(S, T)                                                                                            \
    cusparseStatus_t cusparse##S##gtsv2_bufferSizeExt(cusparseHandle_t handle, int m, int n, const T *dl, const T *d,  \
                                                      const T *du, const T *b, int ldb, size_t *size);                 \
    cusparseStatus_t cusparse##S##gtsv2(cusparseHandle_t handle, int m, int n, const T *dl, const T *d, const T *du,   \
                                        T *b, int ldb, void *buffer);                                                  \
    cusparseStatus_t cusparse##S##gtsv2_nopivot_bufferSizeExt(cusparseHandle_t handle, int m, int n, const T *dl,      \
                                                              const T *d, const T *du, const T *b, int ldb,            \
                                                              size_t *size);                                           \
    cusparseStatus_t cusparse##S##gtsv2_nopivot(cusparseHandle_t handle, int m, int n, const T *dl, const T *d,        \
                                                const T *du, T *b, int ldb, void *buffer);                             \
    cusparseStatus_t cusparse##S##gtsv2StridedBatch_bufferSizeExt(cusparseHandle_t handle, int m, const T *dl,         \
                                                                  const T *d, const T *du, const T *x, int batch,      \
                                                                  int stride, size_t *size);                           \
    cusparseStatus_t cusparse##S##gtsv2StridedBatch(cusparseHandle_t handle, int m, const T *dl, const T *d,           \
                                                    const T *du, T *x, int batch, int stride, void *buffer);           \
    cusparseStatus_t cusparse##S##gtsvInterleavedBatch_bufferSizeExt(cusparseHandle_t handle, int algorithm, int m,    \
                                                                     const T *dl, const T *d, const T *du, const T *x, \
                                                                     int batch, size_t *size);                         \
    cusparseStatus_t cusparse##S##gtsvInterleavedBatch(cusparseHandle_t handle, int algorithm, int m, T *dl, T *d,     \
                                                       T *du, T *x, int batch, void *buffer);                          \
    cusparseStatus_t cusparse##S##gpsvInterleavedBatch_bufferSizeExt(                                                  \
        cusparseHandle_t handle, int algorithm, int m, const T *ds, const T *dl, const T *d, const T *du, const T *dw, \
        const T *x, int batch, size_t *size);                                                                          \
    cusparseStatus_t cusparse##S##gpsvInterleavedBatch(cusparseHandle_t handle, int algorithm, int m, T *ds, T *dl,    \
                                                       T *d, T *du, T *dw, T *x, int batch, void *buffer);

/* Blocks: their conversions, and products. */
#define VGC_BLOCK_SIZES(S, T, SUFFIX, SIZE)                                                                            \
    cusparseStatus_t cusparse##S##csr2gebsr_bufferSize##SUFFIX(                                                        \
        cusparseHandle_t handle, cusparseDirection_t direction, int m, int n, const cusparseMatDescr_t about,          \
        const T *values, const int *offsets, const int *columns, int row_block, int col_block, SIZE *size);            \
    cusparseStatus_t cusparse##S##gebsr2gebsc_bufferSize##SUFFIX(                                                      \
        cusparseHandle_t handle, int mb, int nb, int nnzb, const T *values, const int *offsets, const int *columns,    \
        int row_block, int col_block, SIZE *size);
#define VGC_BLOCKS(S, T)                                                                                               \
    VGC_BLOCK_SIZES(S, T, , int)                                                                                       \
    VGC_BLOCK_SIZES(S, T, Ext, size_t)                                                                                 \
    cusparseStatus_t cusparse##S##csr2bsr(cusparseHandle_t handle, cusparseDirection_t direction, int m, int n,        \
                                          const cusparseMatDescr_t about_a, const T *values_a, const int *offsets_a,   \
                                          const int *columns_a, int block, const cusparseMatDescr_t about_c,           \
                                          T *values_c, int *offsets_c, int *columns_c);                                \
    cusparseStatus_t cusparse##S##csr2gebsr(                                                                           \
        cusparseHandle_t handle, cusparseDirection_t direction, int m, int n, const cusparseMatDescr_t about_a,        \
        const T *values_a, const int *offsets_a, const int *columns_a, const cusparseMatDescr_t about_c, T *values_c,  \
        int *offsets_c, int *columns_c, int row_block, int col_block, void *buffer);                                   \
    cusparseStatus_t cusparse##S##bsr2csr(cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nb,      \
                                          const cusparseMatDescr_t about_a, const T *values_a, const int *offsets_a,   \
                                          const int *columns_a, int block, const cusparseMatDescr_t about_c,           \
                                          T *values_c, int *offsets_c, int *columns_c);                                \
    cusparseStatus_t cusparse##S##gebsr2csr(                                                                           \
        cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nb, const cusparseMatDescr_t about_a,      \
        const T *values_a, const int *offsets_a, const int *columns_a, int row_block, int col_block,                   \
        const cusparseMatDescr_t about_c, T *values_c, int *offsets_c, int *columns_c);                                \
    cusparseStatus_t cusparse##S##gebsr2gebsc(cusparseHandle_t handle, int mb, int nb, int nnzb, const T *values,      \
                                              const int *offsets, const int *columns, int row_block, int col_block,    \
                                              T *made_values, int *made_rows, int *made_offsets,                       \
                                              cusparseAction_t action, cusparseIndexBase_t base, void *buffer);        \
    cusparseStatus_t cusparse##S##bsrmv(cusparseHandle_t handle, cusparseDirection_t direction,                        \
                                        cusparseOperation_t operation, int mb, int nb, int nnzb, const T *alpha,       \
                                        const cusparseMatDescr_t about, const T *values, const int *offsets,           \
                                        const int *columns, int block, const T *x, const T *beta, T *y);               \
    cusparseStatus_t cusparse##S##bsrmm(cusparseHandle_t handle, cusparseDirection_t direction,                        \
                                        cusparseOperation_t operation, cusparseOperation_t operation_b, int mb, int n, \
                                        int kb, int nnzb, const T *alpha, const cusparseMatDescr_t about,              \
                                        const T *values, const int *offsets, const int *columns, int block,            \
                                        const T *b, int ldb, const T *beta, T *c, int ldc);                            \
    cusparseStatus_t cusparse##S##gemvi_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, int m,      \
                                                   int n, int nnz, int *size);                                         \
    cusparseStatus_t cusparse##S##gemvi(cusparseHandle_t handle, cusparseOperation_t operation, int m, int n,          \
                                        const T *alpha, const T *a, int lda, int nnz, const T *x, const int *indices,  \
                                        const T *beta, T *y, cusparseIndexBase_t base, void *buffer);

/* Matrices that keep the larger numbers of others. */
#define VGC_COMPRESSION(S, T)                                                                                          \
    cusparseStatus_t cusparse##S##nnz_compress(cusparseHandle_t handle, int m, const cusparseMatDescr_t about,         \
                                               const T *values, const int *offsets, int *counts, int *total,           \
                                               T tolerance);                                                           \
    cusparseStatus_t cusparse##S##csr2csr_compress(cusparseHandle_t handle, int m, int n,                              \
                                                   const cusparseMatDescr_t about, const T *values,                    \
                                                   const int *columns, const int *offsets, int nnz, const int *counts, \
                                                   T *made_values, int *made_columns, int *made_offsets, T tolerance);
#define VGC_PRUNE(S, T, NAME, PARAMETERS)                                                                              \
    cusparseStatus_t cusparse##S##prune##NAME##_bufferSizeExt(                                                         \
        PARAMETERS(T), const T *threshold, const cusparseMatDescr_t made_about, const T *made_values,                  \
        const int *made_offsets, const int *made_columns, size_t *size);                                               \
    cusparseStatus_t cusparse##S##prune##NAME##Nnz(PARAMETERS(T), const T *threshold,                                  \
                                                   const cusparseMatDescr_t made_about, int *made_offsets, int *total, \
                                                   void *buffer);                                                      \
    cusparseStatus_t cusparse##S##prune##NAME(PARAMETERS(T), const T *threshold, const cusparseMatDescr_t made_about,  \
                                              T *made_values, const int *made_offsets, int *made_columns,              \
                                              void *buffer);                                                           \
    cusparseStatus_t cusparse##S##prune##NAME##ByPercentage_bufferSizeExt(                                             \
        PARAMETERS(T), float percentage, const cusparseMatDescr_t made_about, const T *made_values,                    \
        const int *made_offsets, const int *made_columns, pruneInfo_t info, size_t *size);                             \
    cusparseStatus_t cusparse##S##prune##NAME##NnzByPercentage(PARAMETERS(T), float percentage,                        \
                                                               const cusparseMatDescr_t made_about, int *made_offsets, \
                                                               int *total, pruneInfo_t info, void *buffer);            \
    cusparseStatus_t cusparse##S##prune##NAME##ByPercentage(                                                           \
        PARAMETERS(T), float percentage, const cusparseMatDescr_t made_about, T *made_values, const int *made_offsets, \
        int *made_columns, pruneInfo_t info, void *buffer);
#define VGC_DENSE(T) cusparseHandle_t handle, int m, int n, const T *a, int lda
#define VGC_CSR(T)                                                                                                     \
    cusparseHandle_t handle, int m, int n, int nnz, const cusparseMatDescr_t about, const T *values,                   \
        const int *offsets, const int *columns
VGC_PRUNE(S, float, Dense2csr, VGC_DENSE)
VGC_PRUNE(D, double, Dense2csr, VGC_DENSE)
VGC_PRUNE(S, float, Csr2csr, VGC_CSR)
VGC_PRUNE(D, double, Csr2csr, VGC_CSR)
#undef VGC_PRUNE
#undef VGC_DENSE
#undef VGC_CSR

#define VGC_LEGACY(S, T)                                                                                               \
    VGC_CSR_FACTOR(S, T, csrilu02)                                                                                     \
    VGC_CSR_FACTOR(S, T, csric02)                                                                                      \
    VGC_BSR_FACTOR(S, T, bsrilu02)                                                                                     \
    VGC_BSR_FACTOR(S, T, bsric02)                                                                                      \
    VGC_BOOST(S, T, csrilu02)                                                                                          \
    VGC_BOOST(S, T, bsrilu02)                                                                                          \
    VGC_BLOCK_SOLVE(S, T)                                                                                              \
    VGC_ENTRIES(S, T)                                                                                                  \
    VGC_DIAGONALS(S, T)                                                                                                \
    VGC_BLOCKS(S, T)                                                                                                   \
    VGC_COMPRESSION(S, T)
VGC_LEGACY(S, float)
VGC_LEGACY(D, double)
VGC_LEGACY(C, cuComplex)
VGC_LEGACY(Z, cuDoubleComplex)
#undef VGC_LEGACY
#undef VGC_CSR_FACTOR
#undef VGC_BSR_FACTOR
#undef VGC_BOOST
#undef VGC_BLOCK_SOLVE_SIZE
#undef VGC_BLOCK_SOLVE
#undef VGC_ENTRIES
#undef VGC_DIAGONALS
#undef VGC_BLOCK_SIZES
#undef VGC_BLOCKS
#undef VGC_COMPRESSION
#ifdef __cplusplus
}
#endif
