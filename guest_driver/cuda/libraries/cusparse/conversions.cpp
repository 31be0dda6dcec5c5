// Conversions between formats with indices of 32 bits, and sorting of entries.
#include <numeric>
#include <vector>

#include "legacy.h"

using namespace vgc_sparse;

cusparseSpMatDescr vgc_sparse::matrix_of(const cusparseMatDescr &about, cudaDataType type, int rows, int cols, int nnz,
                                         const void *values, const int *offsets, const int *columns, int block,
                                         cusparseDirection_t direction)
{
    cusparseSpMatDescr matrix = {};
    matrix.format = block ? CUSPARSE_FORMAT_BSR : CUSPARSE_FORMAT_CSR;
    matrix.block_rows = matrix.block_cols = block ? block : 1;
    matrix.rows = rows * matrix.block_rows;
    matrix.cols = cols * matrix.block_cols;
    matrix.nnz = nnz;
    matrix.offsets = (void *)offsets;
    matrix.indices = (void *)columns;
    matrix.values = (void *)values;
    matrix.offset_type = matrix.index_type = CUSPARSE_INDEX_32I;
    matrix.base = about.base;
    matrix.type = type;
    matrix.fill = about.fill;
    matrix.diagonal = about.diagonal;
    matrix.order = direction == CUSPARSE_DIRECTION_COLUMN ? CUSPARSE_ORDER_COL : CUSPARSE_ORDER_ROW;
    matrix.batches = 1;
    return matrix;
}
cusparseStatus_t vgc_sparse::tell_total(const cusparseContext &context, const int *counts, int count, int *sum)
{
    if (context.mode == CUSPARSE_POINTER_MODE_DEVICE)
        return status_of(total(counts, count, sum, context.stream));
    std::vector<int> all((size_t)count);
    TRY(status_of(cudaStreamSynchronize(context.stream)));
    TRY(status_of(cudaMemcpy(all.data(), counts, all.size() * sizeof(int), cudaMemcpyDeviceToHost)));
    *sum = std::accumulate(all.begin(), all.end(), 0);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t vgc_sparse::tell_end(const cusparseContext &context, const int *offsets, int count, int base, int *sum)
{
    int end = 0;
    TRY(status_of(cudaStreamSynchronize(context.stream)));
    TRY(status_of(cudaMemcpy(&end, offsets + count, sizeof end, cudaMemcpyDeviceToHost)));
    end -= base;
    if (context.mode == CUSPARSE_POINTER_MODE_DEVICE)
        return status_of(cudaMemcpy(sum, &end, sizeof end, cudaMemcpyHostToDevice));
    *sum = end;
    return CUSPARSE_STATUS_SUCCESS;
}

namespace
{
Indices plain(const int *data, int base = 0)
{
    return {(void *)data, 0, base};
}
cusparseStatus_t check_sort(cusparseHandle_t handle, int m, int n, int nnz, const void *first, const void *second)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(m >= 0 && n >= 0 && nnz >= 0 && (!nnz || (first && second)), INVALID_VALUE);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t sort_size(cusparseHandle_t handle, int m, int n, int nnz, const void *first, const void *second,
                           size_t *size)
{
    TRY(check_sort(handle, m, n, nnz, first, second));
    CHECK(size, INVALID_VALUE);
    *size = Sorting::bytes(nnz);
    return CUSPARSE_STATUS_SUCCESS;
}
// Takes a program's permutation along.
cusparseStatus_t put_permutation(const Sorting &sorting, int *p, int nnz, cudaStream_t stream)
{
    if (!p)
        return CUSPARSE_STATUS_SUCCESS;
    TRY(status_of(permute(sorting.order[1], p, sorting.order[0], nnz, sizeof(int), stream)));
    return status_of(cudaMemcpyAsync(p, sorting.order[1], (size_t)nnz * sizeof(int), cudaMemcpyDeviceToDevice, stream));
}
cusparseStatus_t sort_pairs(cusparseHandle_t handle, int m, int n, int nnz, int *major, int *minor, int *p,
                            void *buffer)
{
    TRY(check_sort(handle, m, n, nnz, major, minor));
    CHECK(buffer || !nnz, INVALID_VALUE);
    if (!nnz)
        return CUSPARSE_STATUS_SUCCESS;
    Sorting sorting(buffer, nnz);
    const Indices majors = plain(major), minors = plain(minor);
    TRY(status_of(sorting.of_pairs(majors, minors, nnz, handle->stream)));
    TRY(status_of(sorting.put(&majors, &minors, nnz, handle->stream)));
    return put_permutation(sorting, p, nnz, handle->stream);
}
cusparseStatus_t sort_rows(cusparseHandle_t handle, int m, int n, int nnz, cusparseMatDescr_t about, int outer,
                           const int *offsets, int *indices, int *p, void *buffer)
{
    TRY(check_sort(handle, m, n, nnz, offsets, indices));
    CHECK(about && (buffer || !nnz), INVALID_VALUE);
    CHECK(about->type == CUSPARSE_MATRIX_TYPE_GENERAL, MATRIX_TYPE_NOT_SUPPORTED);
    if (!nnz)
        return CUSPARSE_STATUS_SUCCESS;
    Sorting sorting(buffer, nnz);
    const Indices minors = plain(indices);
    TRY(status_of(sorting.of_rows(plain(offsets, base_of(*about)), outer, minors, nnz, false, handle->stream)));
    TRY(status_of(sorting.put(nullptr, &minors, nnz, handle->stream)));
    return put_permutation(sorting, p, nnz, handle->stream);
}
} // namespace

API cusparseStatus_t cusparseCreateIdentityPermutation(cusparseHandle_t handle, int n, int *p)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(n >= 0 && (!n || p), INVALID_VALUE);
    return status_of(identity(p, n, handle->stream));
}
API cusparseStatus_t cusparseXcoo2csr(cusparseHandle_t handle, const int *rows, int nnz, int m, int *offsets,
                                      cusparseIndexBase_t base)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(nnz >= 0 && m >= 0 && (!nnz || rows) && offsets && is_base(base), INVALID_VALUE);
    return status_of(compress(plain(rows, base), nnz, plain(offsets, base), m, handle->stream));
}
API cusparseStatus_t cusparseXcsr2coo(cusparseHandle_t handle, const int *offsets, int nnz, int m, int *rows,
                                      cusparseIndexBase_t base)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(nnz >= 0 && m >= 0 && (!nnz || (offsets && rows)) && is_base(base), INVALID_VALUE);
    return nnz ? status_of(expand(plain(offsets, base), plain(rows, base), m, handle->stream))
               : CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseXcoosort_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnz, const int *rows,
                                                    const int *columns, size_t *size)
{
    return sort_size(handle, m, n, nnz, rows, columns, size);
}
API cusparseStatus_t cusparseXcoosortByRow(cusparseHandle_t handle, int m, int n, int nnz, int *rows, int *columns,
                                           int *p, void *buffer)
{
    return sort_pairs(handle, m, n, nnz, rows, columns, p, buffer);
}
API cusparseStatus_t cusparseXcoosortByColumn(cusparseHandle_t handle, int m, int n, int nnz, int *rows, int *columns,
                                              int *p, void *buffer)
{
    return sort_pairs(handle, m, n, nnz, columns, rows, p, buffer);
}
API cusparseStatus_t cusparseXcsrsort_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnz, const int *offsets,
                                                    const int *columns, size_t *size)
{
    return sort_size(handle, m, n, nnz, offsets, columns, size);
}
API cusparseStatus_t cusparseXcsrsort(cusparseHandle_t handle, int m, int n, int nnz, const cusparseMatDescr_t about,
                                      const int *offsets, int *columns, int *p, void *buffer)
{
    return sort_rows(handle, m, n, nnz, about, m, offsets, columns, p, buffer);
}
API cusparseStatus_t cusparseXcscsort_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnz, const int *offsets,
                                                    const int *rows, size_t *size)
{
    return sort_size(handle, m, n, nnz, offsets, rows, size);
}
API cusparseStatus_t cusparseXcscsort(cusparseHandle_t handle, int m, int n, int nnz, const cusparseMatDescr_t about,
                                      const int *offsets, int *rows, int *p, void *buffer)
{
    return sort_rows(handle, m, n, nnz, about, n, offsets, rows, p, buffer);
}

API cusparseStatus_t cusparseCsr2cscEx2_bufferSize(cusparseHandle_t handle, int m, int n, int nnz, const void *,
                                                   const int *offsets, const int *columns, void *, int *, int *,
                                                   cudaDataType type, cusparseAction_t, cusparseIndexBase_t,
                                                   cusparseCsr2CscAlg_t, size_t *size)
{
    CHECK(!handle || size_of(type), NOT_SUPPORTED);
    return sort_size(handle, m, n, nnz, offsets, columns, size);
}
API cusparseStatus_t cusparseCsr2cscEx2(cusparseHandle_t handle, int m, int n, int nnz, const void *values,
                                        const int *offsets, const int *columns, void *csc_values, int *csc_offsets,
                                        int *csc_rows, cudaDataType type, cusparseAction_t action,
                                        cusparseIndexBase_t base, cusparseCsr2CscAlg_t, void *buffer)
{
    TRY(check_sort(handle, m, n, nnz, offsets, columns));
    const bool numeric = action == CUSPARSE_ACTION_NUMERIC;
    CHECK(csc_offsets && is_base(base) && (numeric || action == CUSPARSE_ACTION_SYMBOLIC), INVALID_VALUE);
    CHECK(!nnz || (csc_rows && buffer && (!numeric || (values && csc_values))), INVALID_VALUE);
    CHECK(size_of(type), NOT_SUPPORTED);
    if (!nnz)
        return status_of(compress(plain(nullptr), 0, plain(csc_offsets, base), n, handle->stream));
    Sorting sorting(buffer, nnz);
    TRY(status_of(sorting.of_rows(plain(offsets, base), m, plain(columns, base), nnz, true, handle->stream)));
    const Indices sorted = plain((int *)sorting.keys[1]), rows = plain(csc_rows, base);
    TRY(status_of(sorting.put(&sorted, &rows, nnz, handle->stream)));
    TRY(status_of(compress(sorted, nnz, plain(csc_offsets, base), n, handle->stream)));
    if (numeric)
        TRY(status_of(permute(csc_values, values, sorting.order[0], nnz, (int)size_of(type), handle->stream)));
    return CUSPARSE_STATUS_SUCCESS;
}

#define NNZ(S, T, TYPE)                                                                                                \
    API cusparseStatus_t cusparse##S##nnz(cusparseHandle_t handle, cusparseDirection_t direction, int m, int n,        \
                                          const cusparseMatDescr_t about, const T *a, int lda, int *counts,            \
                                          int *total)                                                                  \
    {                                                                                                                  \
        const bool by_column = direction == CUSPARSE_DIRECTION_COLUMN;                                                 \
        CHECK(handle, NOT_INITIALIZED);                                                                                \
        CHECK(m >= 0 && n >= 0 && about && lda >= m && counts && total && (a || !m || !n) &&                           \
                  (by_column || direction == CUSPARSE_DIRECTION_ROW),                                                  \
              INVALID_VALUE);                                                                                          \
        CHECK(about->type == CUSPARSE_MATRIX_TYPE_GENERAL, MATRIX_TYPE_NOT_SUPPORTED);                                 \
        const DenseElements dense = {(void *)a, m, n, 1, lda, (int)sizeof(T), kind_of(TYPE)};                          \
        TRY(status_of(count_nonzeros(dense, by_column, plain(counts), 0, handle->stream)));                            \
        return tell_total(*handle, counts, by_column ? n : m, total);                                                  \
    }
SPARSE_TYPES(NNZ)

// A permutation that sorts rows and, backwards, restores them.
struct csru2csrInfo {
    int *order;
    int nnz;
};
API cusparseStatus_t cusparseCreateCsru2csrInfo(csru2csrInfo_t *info)
{
    return make(info, {nullptr, -1});
}
API cusparseStatus_t cusparseDestroyCsru2csrInfo(csru2csrInfo_t info)
{
    if (info)
        cudaFree(info->order);
    return info ? drop(info) : CUSPARSE_STATUS_SUCCESS;
}
namespace
{
size_t unsorting_bytes(int nnz)
{
    return (Sorting::bytes(nnz) + 15) / 16 * 16 + (size_t)nnz * 16;
}
// Sorts rows, or (backwards) brings them back into the order of before. Values go through the end of the buffer.
cusparseStatus_t reorder(cusparseHandle_t handle, int m, int n, int nnz, cusparseMatDescr_t about, void *values,
                         int size, const int *offsets, int *columns, csru2csrInfo_t info, void *buffer, bool backwards)
{
    TRY(check_sort(handle, m, n, nnz, offsets, columns));
    CHECK(about && info && (!nnz || (buffer && values)), INVALID_VALUE);
    CHECK(!backwards || info->nnz == nnz, INVALID_VALUE);
    if (!nnz)
        return CUSPARSE_STATUS_SUCCESS;
    const cudaStream_t stream = handle->stream;
    void *const copy = (char *)buffer + (Sorting::bytes(nnz) + 15) / 16 * 16;
    Sorting sorting(buffer, nnz);
    if (backwards) {
        TRY(status_of(cudaMemcpyAsync(copy, values, (size_t)nnz * size, cudaMemcpyDeviceToDevice, stream)));
        TRY(status_of(scatter_elements(values, copy, plain(info->order), nnz, size, stream)));
        TRY(status_of(cudaMemcpyAsync(copy, columns, (size_t)nnz * sizeof(int), cudaMemcpyDeviceToDevice, stream)));
        return status_of(scatter_elements(columns, copy, plain(info->order), nnz, sizeof(int), stream));
    }
    if (info->nnz != nnz) {
        cudaFree(info->order);
        info->nnz = -1;
        CHECK(cudaMalloc((void **)&info->order, (size_t)nnz * sizeof(int)) == cudaSuccess, ALLOC_FAILED);
        info->nnz = nnz;
    }
    const Indices minors = plain(columns);
    TRY(status_of(sorting.of_rows(plain(offsets, base_of(*about)), m, minors, nnz, false, stream)));
    TRY(status_of(sorting.put(nullptr, &minors, nnz, stream)));
    TRY(status_of(
        cudaMemcpyAsync(info->order, sorting.order[0], (size_t)nnz * sizeof(int), cudaMemcpyDeviceToDevice, stream)));
    TRY(status_of(cudaMemcpyAsync(copy, values, (size_t)nnz * size, cudaMemcpyDeviceToDevice, stream)));
    return status_of(permute(values, copy, info->order, nnz, size, stream));
}
} // namespace
#define UNSORTED(S, T, TYPE)                                                                                           \
    API cusparseStatus_t cusparse##S##csru2csr_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnz, T *,      \
                                                             const int *offsets, int *columns, csru2csrInfo_t info,    \
                                                             size_t *size)                                             \
    {                                                                                                                  \
        CHECK(!handle || info, INVALID_VALUE);                                                                         \
        TRY(sort_size(handle, m, n, nnz, offsets, columns, size));                                                     \
        *size = unsorting_bytes(nnz);                                                                                  \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##csru2csr(cusparseHandle_t handle, int m, int n, int nnz,                         \
                                               const cusparseMatDescr_t about, T *values, const int *offsets,          \
                                               int *columns, csru2csrInfo_t info, void *buffer)                        \
    {                                                                                                                  \
        return reorder(handle, m, n, nnz, about, values, sizeof(T), offsets, columns, info, buffer, false);            \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##csr2csru(cusparseHandle_t handle, int m, int n, int nnz,                         \
                                               const cusparseMatDescr_t about, T *values, const int *offsets,          \
                                               int *columns, csru2csrInfo_t info, void *buffer)                        \
    {                                                                                                                  \
        return reorder(handle, m, n, nnz, about, values, sizeof(T), offsets, columns, info, buffer, true);             \
    }
SPARSE_TYPES(UNSORTED)
