/* cuSOLVER's refactorisation of sparse matrices: what is implemented, and nothing else. Values as published.
 *
 * Matrices are in CSR form, indices begin at 0, and L has ones on its diagonal. Decompositions are made by the
 * processor of the guest. P A Q^T = L U: row i of the decomposition is row P[i] of A, column j is column Q[j]. */
#pragma once
#define CUSOLVERRF_H_
#include "cusolver_common.h"

typedef enum {
    CUSOLVERRF_RESET_VALUES_FAST_MODE_OFF = 0,
    CUSOLVERRF_RESET_VALUES_FAST_MODE_ON = 1
} cusolverRfResetValuesFastMode_t;
typedef enum { CUSOLVERRF_MATRIX_FORMAT_CSR = 0, CUSOLVERRF_MATRIX_FORMAT_CSC = 1 } cusolverRfMatrixFormat_t;
typedef enum {
    CUSOLVERRF_UNIT_DIAGONAL_STORED_L = 0,
    CUSOLVERRF_UNIT_DIAGONAL_STORED_U = 1,
    CUSOLVERRF_UNIT_DIAGONAL_ASSUMED_L = 2,
    CUSOLVERRF_UNIT_DIAGONAL_ASSUMED_U = 3
} cusolverRfUnitDiagonal_t;
typedef enum {
    CUSOLVERRF_FACTORIZATION_ALG0 = 0,
    CUSOLVERRF_FACTORIZATION_ALG1 = 1,
    CUSOLVERRF_FACTORIZATION_ALG2 = 2
} cusolverRfFactorization_t;
typedef enum {
    CUSOLVERRF_TRIANGULAR_SOLVE_ALG1 = 1,
    CUSOLVERRF_TRIANGULAR_SOLVE_ALG2 = 2,
    CUSOLVERRF_TRIANGULAR_SOLVE_ALG3 = 3
} cusolverRfTriangularSolve_t;
typedef enum {
    CUSOLVERRF_NUMERIC_BOOST_NOT_USED = 0,
    CUSOLVERRF_NUMERIC_BOOST_USED = 1
} cusolverRfNumericBoostReport_t;
typedef struct cusolverRfCommon *cusolverRfHandle_t;

#ifdef __cplusplus
extern "C" {
#endif
#define VGC_RF CUSOLVERAPI cusolverStatus_t

VGC_RF cusolverRfCreate(cusolverRfHandle_t *handle);
VGC_RF cusolverRfDestroy(cusolverRfHandle_t handle);
VGC_RF cusolverRfSetMatrixFormat(cusolverRfHandle_t handle, cusolverRfMatrixFormat_t format,
                                 cusolverRfUnitDiagonal_t diagonal);
VGC_RF cusolverRfGetMatrixFormat(cusolverRfHandle_t handle, cusolverRfMatrixFormat_t *format,
                                 cusolverRfUnitDiagonal_t *diagonal);
VGC_RF cusolverRfSetNumericProperties(cusolverRfHandle_t handle, double zero, double boost);
VGC_RF cusolverRfGetNumericProperties(cusolverRfHandle_t handle, double *zero, double *boost);
VGC_RF cusolverRfGetNumericBoostReport(cusolverRfHandle_t handle, cusolverRfNumericBoostReport_t *report);
VGC_RF cusolverRfSetAlgs(cusolverRfHandle_t handle, cusolverRfFactorization_t factorization,
                         cusolverRfTriangularSolve_t solve);
VGC_RF cusolverRfGetAlgs(cusolverRfHandle_t handle, cusolverRfFactorization_t *factorization,
                         cusolverRfTriangularSolve_t *solve);
VGC_RF cusolverRfSetResetValuesFastMode(cusolverRfHandle_t handle, cusolverRfResetValuesFastMode_t mode);
VGC_RF cusolverRfGetResetValuesFastMode(cusolverRfHandle_t handle, cusolverRfResetValuesFastMode_t *mode);
#define VGC_RF_SETUP(Place)                                                                                            \
    VGC_RF cusolverRfSetup##Place(int n, int nnz_a, int *offsets_a, int *columns_a, double *values_a, int nnz_l,       \
                                  int *offsets_l, int *columns_l, double *values_l, int nnz_u, int *offsets_u,         \
                                  int *columns_u, double *values_u, int *p, int *q, cusolverRfHandle_t handle);
VGC_RF_SETUP(Host)
VGC_RF_SETUP(Device)
VGC_RF cusolverRfAnalyze(cusolverRfHandle_t handle);
VGC_RF cusolverRfResetValues(int n, int nnz_a, int *offsets_a, int *columns_a, double *values_a, int *p, int *q,
                             cusolverRfHandle_t handle);
VGC_RF cusolverRfRefactor(cusolverRfHandle_t handle);
VGC_RF cusolverRfSolve(cusolverRfHandle_t handle, int *p, int *q, int nrhs, double *temp, int ldt, double *x, int ldx);
/* L and U in one matrix, without the ones of L, in memory for free(). */
VGC_RF cusolverRfExtractBundledFactorsHost(cusolverRfHandle_t handle, int *nnz, int **offsets, int **columns,
                                           double **values);

#undef VGC_RF
#ifdef __cplusplus
}
#endif
