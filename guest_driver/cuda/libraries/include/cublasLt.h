/* cuBLASLt for guests: products of matrices with descriptors and epilogues. Values as published.
 *
 * There is one algorithm; it needs no workspace of the caller's. A function that is not declared here is not there. */
#pragma once
#include <cublas_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatrixLayoutOpaque_t;
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef struct {
    uint64_t data[32];
} cublasLtMatmulDescOpaque_t;
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatrixTransformDescOpaque_t;
typedef cublasLtMatrixTransformDescOpaque_t *cublasLtMatrixTransformDesc_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulPreferenceOpaque_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

typedef enum {
    CUBLASLT_MATRIX_LAYOUT_TYPE = 0,
    CUBLASLT_MATRIX_LAYOUT_ORDER = 1,
    CUBLASLT_MATRIX_LAYOUT_ROWS = 2,
    CUBLASLT_MATRIX_LAYOUT_COLS = 3,
    CUBLASLT_MATRIX_LAYOUT_LD = 4,
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
} cublasLtMatrixLayoutAttribute_t;
/* Orders of tiles (COL32 and others) are refused as not supported. */
typedef enum { CUBLASLT_ORDER_COL = 0, CUBLASLT_ORDER_ROW = 1 } cublasLtOrder_t;
typedef enum {
    CUBLASLT_POINTER_MODE_HOST = CUBLAS_POINTER_MODE_HOST,
    CUBLASLT_POINTER_MODE_DEVICE = CUBLAS_POINTER_MODE_DEVICE,
    CUBLASLT_POINTER_MODE_DEVICE_VECTOR = 2,
    CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO = 3,
    CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST = 4
} cublasLtPointerMode_t;
typedef enum {
    CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,
    CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,
    CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATMUL_DESC_TRANSC = 5,
    CUBLASLT_MATMUL_DESC_FILL_MODE = 6,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
    CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13,
    CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE = 14,
    CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 15,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
    CUBLASLT_MATMUL_DESC_C_SCALE_POINTER = 19,
    CUBLASLT_MATMUL_DESC_D_SCALE_POINTER = 20,
    CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26
} cublasLtMatmulDescAttributes_t;
/* Epilogues that make or take a mask of bits, and those of gradients but DGELU, are not there. */
typedef enum {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_RELU = 2,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS,
    CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_GELU_AUX = CUBLASLT_EPILOGUE_GELU | 128,
    CUBLASLT_EPILOGUE_GELU_BIAS = CUBLASLT_EPILOGUE_GELU | CUBLASLT_EPILOGUE_BIAS,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = CUBLASLT_EPILOGUE_GELU_AUX | CUBLASLT_EPILOGUE_BIAS,
    CUBLASLT_EPILOGUE_DGELU = 64 | 128
} cublasLtEpilogue_t;
typedef enum {
    CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE = 0,
    CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE = 1,
    CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA = 2,
    CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB = 3
} cublasLtMatrixTransformDescAttributes_t;
typedef enum {
    CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0,
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
    CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT = 9,
    CUBLASLT_MATMUL_PREF_IMPL_MASK = 12
} cublasLtMatmulPreferenceAttributes_t;
typedef enum {
    CUBLASLT_ALGO_CONFIG_ID = 0,
    CUBLASLT_ALGO_CONFIG_TILE_ID = 1,
    CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,
    CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3,
    CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING = 4,
    CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION = 5,
    CUBLASLT_ALGO_CONFIG_STAGES_ID = 6,
    CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID = 7,
    CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID = 8
} cublasLtMatmulAlgoConfigAttributes_t;
typedef enum { CUBLASLT_SEARCH_BEST_FIT = 0, CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID = 1 } cublasLtMatmulSearch_t;

CUBLASAPI cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
CUBLASAPI cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
CUBLASAPI size_t cublasLtGetVersion(void);
CUBLASAPI size_t cublasLtGetCudartVersion(void);
CUBLASAPI cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value);
CUBLASAPI const char *cublasLtGetStatusName(cublasStatus_t status);
CUBLASAPI const char *cublasLtGetStatusString(cublasStatus_t status);

CUBLASAPI cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, const void *alpha,
                                        const void *a, cublasLtMatrixLayout_t of_a, const void *b,
                                        cublasLtMatrixLayout_t of_b, const void *beta, const void *c,
                                        cublasLtMatrixLayout_t of_c, void *d, cublasLtMatrixLayout_t of_d,
                                        const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                                        cudaStream_t stream);
CUBLASAPI cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t how,
                                                 const void *alpha, const void *a, cublasLtMatrixLayout_t of_a,
                                                 const void *beta, const void *b, cublasLtMatrixLayout_t of_b, void *c,
                                                 cublasLtMatrixLayout_t of_c, cudaStream_t stream);
CUBLASAPI cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                                                        cublasLtMatrixLayout_t of_a, cublasLtMatrixLayout_t of_b,
                                                        cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,
                                                        cublasLtMatmulPreference_t preference, int most,
                                                        cublasLtMatmulHeuristicResult_t found[], int *count);

/* The attributes of an algorithm are kept, and change nothing: there is one way to compute. */
CUBLASAPI cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                                cudaDataType scale, cudaDataType a, cudaDataType b, cudaDataType c,
                                                cudaDataType d, int id, cublasLtMatmulAlgo_t *algorithm);
CUBLASAPI cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                                                 cublasLtMatrixLayout_t of_a, cublasLtMatrixLayout_t of_b,
                                                 cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,
                                                 const cublasLtMatmulAlgo_t *algorithm,
                                                 cublasLtMatmulHeuristicResult_t *found);
CUBLASAPI cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algorithm,
                                                              cublasLtMatmulAlgoConfigAttributes_t which,
                                                              const void *value, size_t bytes);
CUBLASAPI cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                              cublasLtMatmulAlgoConfigAttributes_t which, void *value,
                                                              size_t bytes, size_t *written);

CUBLASAPI cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes,
                                                           cudaDataType type, uint64_t rows, uint64_t columns,
                                                           int64_t ld);
CUBLASAPI cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                                    uint64_t columns, int64_t ld);
CUBLASAPI cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t how, size_t bytes,
                                                         cublasComputeType_t compute, cudaDataType scale);
CUBLASAPI cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *how, cublasComputeType_t compute,
                                                  cudaDataType scale);
CUBLASAPI cublasStatus_t cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t how, size_t bytes,
                                                                  cudaDataType scale);
CUBLASAPI cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *how, cudaDataType scale);
CUBLASAPI cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t bytes);
CUBLASAPI cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);

static inline cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, uint64_t rows,
                                                      uint64_t columns, int64_t ld)
{
    return cublasLtMatrixLayoutInit_internal(layout, sizeof(*layout), type, rows, columns, ld);
}
static inline cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t how, cublasComputeType_t compute,
                                                    cudaDataType scale)
{
    return cublasLtMatmulDescInit_internal(how, sizeof(*how), compute, scale);
}
static inline cublasStatus_t cublasLtMatrixTransformDescInit(cublasLtMatrixTransformDesc_t how, cudaDataType scale)
{
    return cublasLtMatrixTransformDescInit_internal(how, sizeof(*how), scale);
}
static inline cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference)
{
    return cublasLtMatmulPreferenceInit_internal(preference, sizeof(*preference));
}

#define VGC_DESCRIPTOR(Name, Attribute)                                                                                \
    CUBLASAPI cublasStatus_t cublasLt##Name##Destroy(cublasLt##Name##_t descriptor);                                   \
    CUBLASAPI cublasStatus_t cublasLt##Name##SetAttribute(cublasLt##Name##_t descriptor, Attribute which,              \
                                                          const void *value, size_t bytes);                            \
    CUBLASAPI cublasStatus_t cublasLt##Name##GetAttribute(cublasLt##Name##_t descriptor, Attribute which, void *value, \
                                                          size_t bytes, size_t *written);
VGC_DESCRIPTOR(MatrixLayout, cublasLtMatrixLayoutAttribute_t)
VGC_DESCRIPTOR(MatmulDesc, cublasLtMatmulDescAttributes_t)
VGC_DESCRIPTOR(MatrixTransformDesc, cublasLtMatrixTransformDescAttributes_t)
VGC_DESCRIPTOR(MatmulPreference, cublasLtMatmulPreferenceAttributes_t)
#undef VGC_DESCRIPTOR

#ifdef __cplusplus
}
#endif
