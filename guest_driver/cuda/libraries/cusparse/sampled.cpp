// Products of dense matrices where a sparse one has entries (SDDMM).
#include "descriptors.h"
#include "sampled_work.h"

using namespace vgc_sparse;

namespace
{
struct Combination {
    cudaDataType in, out, compute;
    SampledLaunch *launch;
};
const Combination COMBINATIONS[] = {
    {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, sampled_s},        {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, sampled_d},
    {CUDA_C_32F, CUDA_C_32F, CUDA_C_32F, sampled_c},        {CUDA_C_64F, CUDA_C_64F, CUDA_C_64F, sampled_z},
    {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, sampled_half},     {CUDA_R_16F, CUDA_R_32F, CUDA_R_32F, sampled_half_float},
    {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, sampled_bfloat}, {CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F, sampled_bfloat_float},
};
SampledLaunch *launch_of(cudaDataType in, cudaDataType out, cudaDataType compute)
{
    for (const Combination &one : COMBINATIONS)
        if (one.in == in && one.out == out && one.compute == compute)
            return one.launch;
    return nullptr;
}
struct Call {
    cusparseOperation_t operation_a, operation_b;
    cusparseConstDnMatDescr_t a, b;
    cusparseConstSpMatDescr_t c;
    cudaDataType type;
};
bool is_transposed(cusparseOperation_t operation)
{
    return operation != CUSPARSE_OPERATION_NON_TRANSPOSE;
}
int64_t inner_of(const Call &call)
{
    return is_transposed(call.operation_a) ? call.a->rows : call.a->cols;
}
cusparseStatus_t check(cusparseHandle_t handle, const void *alpha, const void *beta, const Call &call)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(alpha && beta && call.a && call.b && call.c, INVALID_VALUE);
    CHECK(is_operation(call.operation_a) && is_operation(call.operation_b), INVALID_VALUE);
    const bool a = is_transposed(call.operation_a), b = is_transposed(call.operation_b);
    CHECK((a ? call.a->cols : call.a->rows) == call.c->rows && (b ? call.b->rows : call.b->cols) == call.c->cols &&
              (b ? call.b->cols : call.b->rows) == inner_of(call),
          INVALID_VALUE);
    CHECK((call.a->batches == 1 || call.a->batches == call.c->batches) &&
              (call.b->batches == 1 || call.b->batches == call.c->batches),
          INVALID_VALUE);
    CHECK(call.c->format == CUSPARSE_FORMAT_CSR && call.a->type == call.b->type, NOT_SUPPORTED);
    CHECK(launch_of(call.a->type, call.c->type, call.type), NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

API cusparseStatus_t cusparseSDDMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                              cusparseOperation_t operation_b, const void *alpha,
                                              cusparseConstDnMatDescr_t a, cusparseConstDnMatDescr_t b,
                                              const void *beta, cusparseSpMatDescr_t c, cudaDataType type,
                                              cusparseSDDMMAlg_t, size_t *size)
{
    TRY(check(handle, alpha, beta, {operation_a, operation_b, a, b, c, type}));
    CHECK(size, INVALID_VALUE);
    *size = 8;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSDDMM_preprocess(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                              cusparseOperation_t operation_b, const void *alpha,
                                              cusparseConstDnMatDescr_t a, cusparseConstDnMatDescr_t b,
                                              const void *beta, cusparseSpMatDescr_t c, cudaDataType type,
                                              cusparseSDDMMAlg_t, void *)
{
    return check(handle, alpha, beta, {operation_a, operation_b, a, b, c, type});
}
API cusparseStatus_t cusparseSDDMM(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                   cusparseOperation_t operation_b, const void *alpha, cusparseConstDnMatDescr_t a,
                                   cusparseConstDnMatDescr_t b, const void *beta, cusparseSpMatDescr_t c,
                                   cudaDataType type, cusparseSDDMMAlg_t, void *)
{
    const Call call = {operation_a, operation_b, a, b, c, type};
    TRY(check(handle, alpha, beta, call));
    Sampled work = {};
    work.a = seen(*a, is_transposed(operation_a));
    work.b = seen(*b, is_transposed(operation_b));
    work.c = seen(*c);
    work.values = c->values;
    work.inner = inner_of(call);
    work.batches = c->batches;
    work.conjugates_a = operation_a == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE;
    work.conjugates_b = operation_b == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE;
    work.alpha = scalar_of(*handle, type, alpha);
    work.beta = scalar_of(*handle, type, beta);
    return status_of(launch_of(a->type, c->type, type)(work, handle->stream));
}
