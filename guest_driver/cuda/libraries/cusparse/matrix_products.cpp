// Products of two sparse matrices in CSR.
#include "descriptors.h"
#include "matrix_work.h"

using namespace vgc_sparse;

struct cusparseSpGEMMDescr {
    int64_t rows, products, nnz; // of what has been found out; -1 until then
    void *starts, *room;         // the program's buffers
};

namespace
{
const ByType<MatrixLaunch> MULTIPLY = {multiply_s, multiply_d, multiply_c, multiply_z},
                           PUT = {put_s, put_d, put_c, put_z}, REFILL = {refill_s, refill_d, refill_c, refill_z};

struct Call {
    cusparseOperation_t operation_a, operation_b;
    cusparseConstSpMatDescr_t a, b;
    cusparseSpMatDescr_t c;
    cusparseSpGEMMDescr_t plan;
};

bool is_csr(const cusparseSpMatDescr &matrix)
{
    return matrix.format == CUSPARSE_FORMAT_CSR && matrix.offset_type == CUSPARSE_INDEX_32I &&
           matrix.index_type == CUSPARSE_INDEX_32I && matrix.batches == 1;
}
cusparseStatus_t check(cusparseHandle_t handle, const Call &call)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(call.a && call.b && call.c && call.plan, INVALID_VALUE);
    CHECK(is_operation(call.operation_a) && is_operation(call.operation_b), INVALID_VALUE);
    CHECK(call.a->cols == call.b->rows && call.c->rows == call.a->rows && call.c->cols == call.b->cols, INVALID_VALUE);
    CHECK(call.operation_a == CUSPARSE_OPERATION_NON_TRANSPOSE && call.operation_b == CUSPARSE_OPERATION_NON_TRANSPOSE,
          NOT_SUPPORTED);
    CHECK(is_csr(*call.a) && is_csr(*call.b) && is_csr(*call.c), NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t check(cusparseHandle_t handle, const Call &call, const void *alpha, const void *beta,
                       cudaDataType type)
{
    TRY(check(handle, call));
    CHECK(alpha && beta, INVALID_VALUE);
    CHECK(MULTIPLY[type] && call.a->type == type && call.b->type == type && call.c->type == type, NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
Csr csr_of(const cusparseSpMatDescr &matrix)
{
    return {(int *)matrix.offsets, (int *)matrix.indices, matrix.values, matrix.base == CUSPARSE_INDEX_BASE_ONE};
}
MatrixProduct work_of(const Call &call)
{
    MatrixProduct work = {};
    work.a = csr_of(*call.a);
    work.b = csr_of(*call.b);
    work.c = csr_of(*call.c);
    work.rows = call.a->nnz && call.b->nnz ? call.a->rows : 0;
    work.starts = (const long long *)call.plan->starts;
    return work;
}
// The second buffer: sums, columns, and where rows of c end.
size_t room_of(const cusparseSpGEMMDescr &plan, size_t size)
{
    return (size_t)plan.products * (size + sizeof(int)) + (size_t)(plan.rows + 1) * sizeof(int);
}
void lay_out(MatrixProduct &work, const cusparseSpGEMMDescr &plan, void *room, size_t size)
{
    work.sums = room;
    work.columns = (int *)((char *)room + (size_t)plan.products * size);
    work.ends = work.columns + plan.products;
}

template <class Number> cusparseStatus_t read_one(const cusparseContext &context, const Number *from, Number &value)
{
    TRY(status_of(cudaMemcpyAsync(&value, from, sizeof value, cudaMemcpyDeviceToHost, context.stream)));
    return status_of(cudaStreamSynchronize(context.stream));
}
// Bytes of the first buffer, or how many products there are.
cusparseStatus_t estimate(const cusparseContext &context, const Call &call, size_t *size, void *buffer)
{
    CHECK(size, INVALID_VALUE);
    if (!buffer) {
        *size = (size_t)(call.a->rows + 1) * sizeof(long long);
        return CUSPARSE_STATUS_SUCCESS;
    }
    cusparseSpGEMMDescr &plan = *call.plan;
    plan = {call.a->rows, 0, -1, buffer, nullptr};
    const MatrixProduct work = work_of(call);
    if (!work.rows)
        return CUSPARSE_STATUS_SUCCESS;
    TRY(status_of(count_products(work, context.stream)));
    TRY(status_of(scan({buffer, 1, 0}, plan.rows, context.stream)));
    long long products = 0;
    TRY(read_one(context, (const long long *)buffer + plan.rows, products));
    plan.products = products;
    return CUSPARSE_STATUS_SUCCESS;
}
// Finds the rows of c in the room, with numbers of `size` bytes or without, and how many entries c has.
cusparseStatus_t find(const cusparseContext &context, const Call &call, MatrixProduct &work, MatrixLaunch *launch,
                      void *room, size_t size)
{
    cusparseSpGEMMDescr &plan = *call.plan;
    lay_out(work, plan, room, size);
    int nnz = 0;
    if (work.rows) {
        TRY(status_of(launch(work, context.stream)));
        TRY(status_of(scan({work.ends, 0, 0}, plan.rows, context.stream)));
        TRY(read_one(context, work.ends + plan.rows, nnz));
    } else {
        TRY(status_of(cudaMemsetAsync(work.ends, 0, (size_t)(plan.rows + 1) * sizeof(int), context.stream)));
    }
    plan.room = room;
    plan.nnz = call.c->nnz = nnz;
    return CUSPARSE_STATUS_SUCCESS;
}
bool is_found(const Call &call)
{
    const cusparseSpMatDescr &c = *call.c;
    return call.plan->nnz >= 0 && call.plan->nnz == c.nnz && call.plan->rows == c.rows && c.offsets &&
           (!c.nnz || (c.indices && c.values));
}
} // namespace

API cusparseStatus_t cusparseSpGEMM_createDescr(cusparseSpGEMMDescr_t *plan)
{
    return make(plan, {-1, -1, -1, nullptr, nullptr});
}
API cusparseStatus_t cusparseSpGEMM_destroyDescr(cusparseSpGEMMDescr_t plan)
{
    return drop(plan);
}
API cusparseStatus_t cusparseSpGEMM_workEstimation(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                                   cusparseOperation_t operation_b, const void *alpha,
                                                   cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b,
                                                   const void *beta, cusparseSpMatDescr_t c, cudaDataType type,
                                                   cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t plan, size_t *size,
                                                   void *buffer)
{
    const Call call = {operation_a, operation_b, a, b, c, plan};
    TRY(check(handle, call, alpha, beta, type));
    return estimate(*handle, call, size, buffer);
}
API cusparseStatus_t cusparseSpGEMM_getNumProducts(cusparseSpGEMMDescr_t plan, int64_t *count)
{
    CHECK(plan && count && plan->products >= 0, INVALID_VALUE);
    *count = plan->products;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpGEMM_estimateMemory(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                                   cusparseOperation_t operation_b, const void *alpha,
                                                   cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b,
                                                   const void *beta, cusparseSpMatDescr_t c, cudaDataType type,
                                                   cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t plan, float,
                                                   size_t *size3, void *, size_t *size2)
{
    TRY(check(handle, {operation_a, operation_b, a, b, c, plan}, alpha, beta, type));
    CHECK(size3 && plan->products >= 0, INVALID_VALUE);
    *size3 = 8;
    if (size2)
        *size2 = room_of(*plan, size_of(type));
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpGEMM_compute(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                            cusparseOperation_t operation_b, const void *alpha,
                                            cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void *beta,
                                            cusparseSpMatDescr_t c, cudaDataType type, cusparseSpGEMMAlg_t,
                                            cusparseSpGEMMDescr_t plan, size_t *size, void *buffer)
{
    const Call call = {operation_a, operation_b, a, b, c, plan};
    TRY(check(handle, call, alpha, beta, type));
    CHECK(size && plan->products >= 0 && plan->rows == a->rows, INVALID_VALUE);
    if (!buffer) {
        *size = room_of(*plan, size_of(type));
        return CUSPARSE_STATUS_SUCCESS;
    }
    CHECK(*size >= room_of(*plan, size_of(type)), INSUFFICIENT_RESOURCES);
    MatrixProduct work = work_of(call);
    work.alpha = scalar_of(*handle, type, alpha);
    return find(*handle, call, work, MULTIPLY[type], buffer, size_of(type));
}
API cusparseStatus_t cusparseSpGEMM_copy(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                         cusparseOperation_t operation_b, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void *beta,
                                         cusparseSpMatDescr_t c, cudaDataType type, cusparseSpGEMMAlg_t,
                                         cusparseSpGEMMDescr_t plan)
{
    const Call call = {operation_a, operation_b, a, b, c, plan};
    TRY(check(handle, call, alpha, beta, type));
    CHECK(is_found(call), INVALID_VALUE);
    MatrixProduct work = work_of(call);
    work.rows = c->rows;
    work.beta = scalar_of(*handle, type, beta);
    lay_out(work, *plan, plan->room, size_of(type));
    return status_of(PUT[type](work, handle->stream));
}

API cusparseStatus_t cusparseSpGEMMreuse_workEstimation(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                                        cusparseOperation_t operation_b, cusparseConstSpMatDescr_t a,
                                                        cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c,
                                                        cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t plan, size_t *size,
                                                        void *buffer)
{
    const Call call = {operation_a, operation_b, a, b, c, plan};
    TRY(check(handle, call));
    return estimate(*handle, call, size, buffer);
}
// The first buffer and the second one may be freed behind this; the fourth keeps where the room begins, too.
API cusparseStatus_t cusparseSpGEMMreuse_nnz(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                             cusparseOperation_t operation_b, cusparseConstSpMatDescr_t a,
                                             cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c, cusparseSpGEMMAlg_t,
                                             cusparseSpGEMMDescr_t plan, size_t *size2, void *buffer2, size_t *size3,
                                             void *buffer3, size_t *size4, void *buffer4)
{
    const Call call = {operation_a, operation_b, a, b, c, plan};
    TRY(check(handle, call));
    CHECK(size2 && size3 && size4 && plan->products >= 0 && plan->rows == a->rows, INVALID_VALUE);
    const size_t starts = (size_t)(plan->rows + 1) * sizeof(long long);
    if (!buffer2 && !buffer3 && !buffer4) {
        *size2 = *size3 = 8;
        *size4 = starts + room_of(*plan, 0);
        return CUSPARSE_STATUS_SUCCESS;
    }
    CHECK(buffer4, INVALID_VALUE);
    TRY(status_of(cudaMemcpyAsync(buffer4, plan->starts, starts, cudaMemcpyDeviceToDevice, handle->stream)));
    plan->starts = buffer4;
    MatrixProduct work = work_of(call);
    return find(*handle, call, work, find_columns, (char *)buffer4 + starts, 0);
}
API cusparseStatus_t cusparseSpGEMMreuse_copy(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                              cusparseOperation_t operation_b, cusparseConstSpMatDescr_t a,
                                              cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c, cusparseSpGEMMAlg_t,
                                              cusparseSpGEMMDescr_t plan, size_t *size, void *buffer)
{
    const Call call = {operation_a, operation_b, a, b, c, plan};
    TRY(check(handle, call));
    CHECK(size && is_found(call), INVALID_VALUE);
    if (!buffer) {
        *size = 8;
        return CUSPARSE_STATUS_SUCCESS;
    }
    MatrixProduct work = work_of(call);
    work.rows = c->rows;
    lay_out(work, *plan, plan->room, 0);
    return status_of(put_columns(work, handle->stream));
}
API cusparseStatus_t cusparseSpGEMMreuse_compute(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                                 cusparseOperation_t operation_b, const void *alpha,
                                                 cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b,
                                                 const void *beta, cusparseSpMatDescr_t c, cudaDataType type,
                                                 cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t plan)
{
    const Call call = {operation_a, operation_b, a, b, c, plan};
    TRY(check(handle, call, alpha, beta, type));
    CHECK(is_found(call), INVALID_VALUE);
    MatrixProduct work = work_of(call);
    work.alpha = scalar_of(*handle, type, alpha);
    work.beta = scalar_of(*handle, type, beta);
    return status_of(REFILL[type](work, handle->stream));
}
