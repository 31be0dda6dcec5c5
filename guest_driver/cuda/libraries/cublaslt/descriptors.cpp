/* Descriptors of cuBLASLt: made, set and read by attribute. */
#include "descriptors.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace
{

struct member {
    int attribute;
    size_t offset, bytes;
};
#define LT_MEMBER(attribute, form, name) {attribute, offsetof(lt::form, name), sizeof(lt::form::name)}

const member LAYOUT[] = {
    LT_MEMBER(CUBLASLT_MATRIX_LAYOUT_TYPE, layout, type),
    LT_MEMBER(CUBLASLT_MATRIX_LAYOUT_ORDER, layout, order),
    LT_MEMBER(CUBLASLT_MATRIX_LAYOUT_ROWS, layout, rows),
    LT_MEMBER(CUBLASLT_MATRIX_LAYOUT_COLS, layout, columns),
    LT_MEMBER(CUBLASLT_MATRIX_LAYOUT_LD, layout, ld),
    LT_MEMBER(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout, count),
    LT_MEMBER(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout, jump),
};
const member MATMUL[] = {
    LT_MEMBER(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, matmul, compute),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_SCALE_TYPE, matmul, scale),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_POINTER_MODE, matmul, pointers),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_TRANSA, matmul, opa),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_TRANSB, matmul, opb),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_TRANSC, matmul, opc),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_FILL_MODE, matmul, fill),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE, matmul, epilogue),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_BIAS_POINTER, matmul, bias),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, matmul, bias_jump),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, matmul, aux),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, matmul, aux_ld),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, matmul, aux_jump),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, matmul, alpha_jump),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, matmul, target),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, matmul, a_scale),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, matmul, b_scale),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, matmul, c_scale),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, matmul, d_scale),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_FAST_ACCUM, matmul, fast),
    LT_MEMBER(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, matmul, bias_type),
};
const member TRANSFORM[] = {
    LT_MEMBER(CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, transform, scale),
    LT_MEMBER(CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, transform, pointers),
    LT_MEMBER(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, transform, opa),
    LT_MEMBER(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, transform, opb),
};
const member PREFERENCE[] = {
    LT_MEMBER(CUBLASLT_MATMUL_PREF_SEARCH_MODE, preference, search),
    LT_MEMBER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, preference, workspace_bytes),
    LT_MEMBER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, preference, reductions),
    LT_MEMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, preference, aligned[0]),
    LT_MEMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, preference, aligned[1]),
    LT_MEMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, preference, aligned[2]),
    LT_MEMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, preference, aligned[3]),
    LT_MEMBER(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, preference, waves),
    LT_MEMBER(CUBLASLT_MATMUL_PREF_IMPL_MASK, preference, implementations),
};
const member ALGORITHM[] = {
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_ID, algorithm, id),
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_TILE_ID, algorithm, tile),
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, algorithm, splits),
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, algorithm, reduction),
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, algorithm, swizzling),
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, algorithm, option),
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_STAGES_ID, algorithm, stages),
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, algorithm, inner),
    LT_MEMBER(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, algorithm, cluster),
};

template <size_t N> const member *find(const member (&all)[N], int attribute)
{
    for (const member &one : all)
        if (one.attribute == attribute)
            return &one;
    return nullptr;
}

template <size_t N>
cublasStatus_t set(const member (&all)[N], void *descriptor, int attribute, const void *value, size_t bytes)
{
    const member *one = find(all, attribute);
    BLAS_CHECK(descriptor && value && one && bytes == one->bytes);
    memcpy((char *)descriptor + one->offset, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* With `bytes` 0, it only tells how many there are. */
template <size_t N>
cublasStatus_t get(const member (&all)[N], const void *descriptor, int attribute, void *value, size_t bytes,
                   size_t *written)
{
    const member *one = find(all, attribute);
    BLAS_CHECK(descriptor && one && (bytes ? value && bytes >= one->bytes : written != nullptr));
    if (bytes)
        memcpy(value, (const char *)descriptor + one->offset, one->bytes);
    if (written)
        *written = one->bytes;
    return CUBLAS_STATUS_SUCCESS;
}

template <class Inside, class Opaque> cublasStatus_t place(Opaque *at, size_t bytes, const Inside &made)
{
    BLAS_CHECK(at && bytes >= sizeof(Inside));
    memset((void *)at, 0, bytes);
    *lt::inside_of<Inside>(at) = made;
    return CUBLAS_STATUS_SUCCESS;
}
template <class Inside, class Opaque> cublasStatus_t create(Opaque **to, const Inside &made)
{
    BLAS_CHECK(to);
    *to = (Opaque *)malloc(sizeof(Opaque));
    return *to ? place(*to, sizeof(Opaque), made) : CUBLAS_STATUS_ALLOC_FAILED;
}

lt::layout layout_of(cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld)
{
    return {rows, columns, ld, 0, (uint32_t)type, CUBLASLT_ORDER_COL, 1};
}
lt::matmul matmul_of(cublasComputeType_t compute, cudaDataType scale)
{
    lt::matmul made{};
    made.compute = compute;
    made.scale = scale;
    made.fill = CUBLAS_FILL_MODE_FULL;
    made.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    made.bias_type = lt::SAME_TYPE;
    return made;
}
lt::preference any_preference()
{
    return {0, ~0ull, CUBLASLT_SEARCH_BEST_FIT, 7, {256, 256, 256, 256}, 0};
}

} // namespace

#define LT_DESCRIPTOR(Name, Attribute, MEMBERS)                                                                        \
    cublasStatus_t cublasLt##Name##Destroy(cublasLt##Name##_t descriptor)                                              \
    {                                                                                                                  \
        free(descriptor);                                                                                              \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }                                                                                                                  \
    cublasStatus_t cublasLt##Name##SetAttribute(cublasLt##Name##_t descriptor, Attribute which, const void *value,     \
                                                size_t bytes)                                                          \
    {                                                                                                                  \
        return set(MEMBERS, descriptor, which, value, bytes);                                                          \
    }                                                                                                                  \
    cublasStatus_t cublasLt##Name##GetAttribute(cublasLt##Name##_t descriptor, Attribute which, void *value,           \
                                                size_t bytes, size_t *written)                                         \
    {                                                                                                                  \
        return get(MEMBERS, descriptor, which, value, bytes, written);                                                 \
    }
LT_DESCRIPTOR(MatrixLayout, cublasLtMatrixLayoutAttribute_t, LAYOUT)
LT_DESCRIPTOR(MatmulDesc, cublasLtMatmulDescAttributes_t, MATMUL)
LT_DESCRIPTOR(MatrixTransformDesc, cublasLtMatrixTransformDescAttributes_t, TRANSFORM)
LT_DESCRIPTOR(MatmulPreference, cublasLtMatmulPreferenceAttributes_t, PREFERENCE)

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t ld)
{
    return place(layout, bytes, layout_of(type, rows, columns, ld));
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    return create(layout, layout_of(type, rows, columns, ld));
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t how, size_t bytes, cublasComputeType_t compute,
                                               cudaDataType scale)
{
    return place(how, bytes, matmul_of(compute, scale));
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *how, cublasComputeType_t compute, cudaDataType scale)
{
    return create(how, matmul_of(compute, scale));
}
cublasStatus_t cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t how, size_t bytes,
                                                        cudaDataType scale)
{
    return place(how, bytes, lt::transform{scale, 0, 0, 0});
}
cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *how, cudaDataType scale)
{
    return create(how, lt::transform{scale, 0, 0, 0});
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t bytes)
{
    return place(preference, bytes, any_preference());
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    return create(preference, any_preference());
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t which, const void *value,
                                                    size_t bytes)
{
    BLAS_CHECK(which != CUBLASLT_ALGO_CONFIG_ID);
    return set(ALGORITHM, algorithm, which, value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t which, void *value,
                                                    size_t bytes, size_t *written)
{
    return get(ALGORITHM, algorithm, which, value, bytes, written);
}
