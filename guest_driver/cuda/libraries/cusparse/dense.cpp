// Conversions between dense and sparse matrices.
#include "descriptors.h"
#include "structure.h"

using namespace vgc_sparse;

namespace
{
DenseElements elements_of(const cusparseDnMatDescr &dense)
{
    const Dense strides = seen(dense);
    return {dense.values,       dense.rows, dense.cols, strides.row, strides.col, (int)size_of(dense.type),
            kind_of(dense.type)};
}
Indices indices_of(const cusparseSpMatDescr &a)
{
    return {a.indices, a.index_type == CUSPARSE_INDEX_64I, a.base == CUSPARSE_INDEX_BASE_ONE};
}
Indices first_indices_of(const cusparseSpMatDescr &a)
{
    return {a.offsets, a.offset_type == CUSPARSE_INDEX_64I, a.base == CUSPARSE_INDEX_BASE_ONE};
}
// Where the sparse matrix's offsets are: COO has none, so that they lie in the buffer.
Indices offsets_of(const cusparseSpMatDescr &a, void *buffer)
{
    if (a.format == CUSPARSE_FORMAT_COO)
        return {buffer, 1, 0};
    return first_indices_of(a);
}
cusparseStatus_t check(cusparseHandle_t handle, cusparseConstDnMatDescr_t dense, cusparseConstSpMatDescr_t sparse,
                       bool takes_ell)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(dense && sparse && dense->rows == sparse->rows && dense->cols == sparse->cols, INVALID_VALUE);
    CHECK(dense->type == sparse->type, INVALID_VALUE);
    CHECK(sparse->format == CUSPARSE_FORMAT_CSR || sparse->format == CUSPARSE_FORMAT_CSC ||
              sparse->format == CUSPARSE_FORMAT_COO || (takes_ell && sparse->format == CUSPARSE_FORMAT_BLOCKED_ELL),
          NOT_SUPPORTED);
    CHECK(dense->batches == 1 && sparse->batches == 1, NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t count_entries(const cusparseContext &context, const cusparseDnMatDescr &dense,
                               cusparseSpMatDescr &sparse, void *buffer)
{
    const bool by_column = sparse.format == CUSPARSE_FORMAT_CSC;
    const Indices offsets = offsets_of(sparse, buffer);
    const int64_t count = by_column ? sparse.cols : sparse.rows;
    CHECK(offsets.data, INVALID_VALUE);
    TRY(status_of(count_nonzeros(elements_of(dense), by_column, offsets, 1, context.stream)));
    TRY(status_of(scan(offsets, count, context.stream)));
    int64_t wide = 0;
    int narrow = 0;
    TRY(status_of(cudaMemcpyAsync(offsets.wide ? (void *)&wide : &narrow,
                                  (char *)offsets.data + count * (offsets.wide ? 8 : 4), offsets.wide ? 8 : 4,
                                  cudaMemcpyDeviceToHost, context.stream)));
    TRY(status_of(cudaStreamSynchronize(context.stream)));
    sparse.nnz = (offsets.wide ? wide : narrow) - offsets.base;
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

API cusparseStatus_t cusparseSparseToDense_bufferSize(cusparseHandle_t handle, cusparseConstSpMatDescr_t a,
                                                      cusparseDnMatDescr_t b, cusparseSparseToDenseAlg_t, size_t *size)
{
    TRY(check(handle, b, a, false));
    CHECK(size, INVALID_VALUE);
    *size = 8;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSparseToDense(cusparseHandle_t handle, cusparseConstSpMatDescr_t a, cusparseDnMatDescr_t b,
                                           cusparseSparseToDenseAlg_t, void *)
{
    TRY(check(handle, b, a, false));
    TRY(status_of(clear(elements_of(*b), handle->stream)));
    return status_of(spread(elements_of(*b), a->format == CUSPARSE_FORMAT_CSC, seen(*a), handle->stream));
}
API cusparseStatus_t cusparseDenseToSparse_bufferSize(cusparseHandle_t handle, cusparseConstDnMatDescr_t a,
                                                      cusparseSpMatDescr_t b, cusparseDenseToSparseAlg_t, size_t *size)
{
    TRY(check(handle, a, b, true));
    CHECK(size, INVALID_VALUE);
    *size = b->format == CUSPARSE_FORMAT_COO ? (size_t)(b->rows + 1) * 8 : 8;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t handle, cusparseConstDnMatDescr_t a,
                                                    cusparseSpMatDescr_t b, cusparseDenseToSparseAlg_t, void *buffer)
{
    TRY(check(handle, a, b, true));
    if (b->format == CUSPARSE_FORMAT_BLOCKED_ELL)
        return CUSPARSE_STATUS_SUCCESS;
    return count_entries(*handle, *a, *b, buffer);
}
API cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t handle, cusparseConstDnMatDescr_t a,
                                                   cusparseSpMatDescr_t b, cusparseDenseToSparseAlg_t, void *buffer)
{
    TRY(check(handle, a, b, true));
    if (!b->nnz)
        return CUSPARSE_STATUS_SUCCESS;
    CHECK(b->indices && b->values, INVALID_VALUE);
    if (b->format == CUSPARSE_FORMAT_BLOCKED_ELL)
        return status_of(pick_blocks(elements_of(*a), seen(*b), b->values, handle->stream));
    const bool is_list = b->format == CUSPARSE_FORMAT_COO;
    const Indices offsets = offsets_of(*b, buffer), none = {nullptr, 0, 0};
    CHECK(offsets.data && b->offsets, INVALID_VALUE);
    return status_of(pick_nonzeros(elements_of(*a), b->format == CUSPARSE_FORMAT_CSC, offsets,
                                   is_list ? first_indices_of(*b) : none, indices_of(*b), b->values, handle->stream));
}
