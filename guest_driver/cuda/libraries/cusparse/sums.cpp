// Sums of two sparse matrices in CSR.
#include "legacy.h"
#include "matrix_work.h"

using namespace vgc_sparse;

namespace
{
const ByType<MatrixSumLaunch> ADD = {add_s, add_d, add_c, add_z};

// A matrix as a program names it; const is cast away, since only c is written to.
struct Side {
    cusparseMatDescr_t about;
    int nnz;
    const void *values;
    const int *offsets, *columns;
};
Csr csr_of(const Side &side)
{
    return {(int *)side.offsets, (int *)side.columns, (void *)side.values, base_of(*side.about)};
}
cusparseStatus_t check(cusparseHandle_t handle, int m, int n, const Side &a, const Side &b, const Side &c)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(m >= 0 && n >= 0 && a.nnz >= 0 && b.nnz >= 0 && a.about && b.about && c.about, INVALID_VALUE);
    CHECK(a.offsets && b.offsets && (!a.nnz || a.columns) && (!b.nnz || b.columns), INVALID_VALUE);
    CHECK(a.about->type == CUSPARSE_MATRIX_TYPE_GENERAL && b.about->type == CUSPARSE_MATRIX_TYPE_GENERAL &&
              c.about->type == CUSPARSE_MATRIX_TYPE_GENERAL,
          MATRIX_TYPE_NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t add(cusparseHandle_t handle, int m, int n, const void *alpha, const Side &a, const void *beta,
                     const Side &b, const Side &c, cudaDataType type)
{
    TRY(check(handle, m, n, a, b, c));
    CHECK(alpha && beta && c.offsets && (!a.nnz || a.values) && (!b.nnz || b.values), INVALID_VALUE);
    CHECK(!(a.nnz || b.nnz) || (c.columns && c.values), INVALID_VALUE);
    return status_of(
        ADD[type]({csr_of(a), csr_of(b), csr_of(c), m, scalar_of(*handle, type, alpha), scalar_of(*handle, type, beta)},
                  handle->stream));
}
} // namespace

API cusparseStatus_t cusparseXcsrgeam2Nnz(cusparseHandle_t handle, int m, int n, const cusparseMatDescr_t about_a,
                                          int nnz_a, const int *offsets_a, const int *columns_a,
                                          const cusparseMatDescr_t about_b, int nnz_b, const int *offsets_b,
                                          const int *columns_b, const cusparseMatDescr_t about_c, int *offsets_c,
                                          int *total, void *)
{
    const Side a = {about_a, nnz_a, nullptr, offsets_a, columns_a}, b = {about_b, nnz_b, nullptr, offsets_b, columns_b};
    const Side c = {about_c, 0, nullptr, offsets_c, nullptr};
    TRY(check(handle, m, n, a, b, c));
    CHECK(offsets_c && total, INVALID_VALUE);
    TRY(status_of(count_union({csr_of(a), csr_of(b), csr_of(c), m, {}, {}}, handle->stream)));
    TRY(status_of(scan({offsets_c, 0, base_of(*about_c)}, m, handle->stream)));
    return tell_end(*handle, offsets_c, m, base_of(*about_c), total);
}

#define SUM(S, T, TYPE)                                                                                                \
    API cusparseStatus_t cusparse##S##csrgeam2_bufferSizeExt(                                                          \
        cusparseHandle_t handle, int m, int n, const T *alpha, const cusparseMatDescr_t about_a, int nnz_a, const T *, \
        const int *offsets_a, const int *columns_a, const T *beta, const cusparseMatDescr_t about_b, int nnz_b,        \
        const T *, const int *offsets_b, const int *columns_b, const cusparseMatDescr_t about_c, const T *,            \
        const int *, const int *, size_t *size)                                                                        \
    {                                                                                                                  \
        TRY(check(handle, m, n, {about_a, nnz_a, nullptr, offsets_a, columns_a},                                       \
                  {about_b, nnz_b, nullptr, offsets_b, columns_b}, {about_c, 0, nullptr, nullptr, nullptr}));          \
        CHECK(alpha &&beta &&size, INVALID_VALUE);                                                                     \
        *size = 8;                                                                                                     \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##csrgeam2(                                                                        \
        cusparseHandle_t handle, int m, int n, const T *alpha, const cusparseMatDescr_t about_a, int nnz_a,            \
        const T *values_a, const int *offsets_a, const int *columns_a, const T *beta,                                  \
        const cusparseMatDescr_t about_b, int nnz_b, const T *values_b, const int *offsets_b, const int *columns_b,    \
        const cusparseMatDescr_t about_c, T *values_c, int *offsets_c, int *columns_c, void *)                         \
    {                                                                                                                  \
        return add(handle, m, n, alpha, {about_a, nnz_a, values_a, offsets_a, columns_a}, beta,                        \
                   {about_b, nnz_b, values_b, offsets_b, columns_b}, {about_c, 0, values_c, offsets_c, columns_c},     \
                   TYPE);                                                                                              \
    }
SPARSE_TYPES(SUM)
