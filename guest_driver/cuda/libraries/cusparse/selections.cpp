// Matrices that keep the larger numbers of others: compression and pruning.
#include <algorithm>
#include <cmath>
#include <vector>

#include "legacy.h"
#include "selection_work.h"

using namespace vgc_sparse;

// The threshold that a percentage stands for, on the device.
struct pruneInfo {
    double *threshold;
};

namespace
{
const ByType<SelectionLaunch> COUNT = {count_kept_s, count_kept_d, count_kept_c, count_kept_z},
                              PUT = {put_kept_s, put_kept_d, put_kept_c, put_kept_z},
                              RANK = {rank_s, rank_d, nullptr, nullptr};

struct Source {
    cusparseMatDescr_t about; // null: dense
    int rows, cols, nnz, ld;
    const void *values;
    const int *offsets, *columns;
};
Selection selection_of(const Source &from, const Scalar &threshold)
{
    Selection selection = {};
    selection.values = from.values;
    selection.offsets = from.offsets;
    selection.columns = from.columns;
    selection.base = from.about ? base_of(*from.about) : 0;
    selection.rows = from.rows;
    selection.cols = from.cols;
    selection.ld = from.ld;
    selection.threshold = threshold;
    return selection;
}
cusparseStatus_t check(cusparseHandle_t handle, const Source &from, const void *made_about, bool is_dense)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(from.rows >= 0 && from.cols >= 0 && from.nnz >= 0 && made_about, INVALID_VALUE);
    if (is_dense) {
        CHECK(from.ld >= from.rows && (from.values || !from.rows || !from.cols), INVALID_VALUE);
        return CUSPARSE_STATUS_SUCCESS;
    }
    CHECK(from.about && from.offsets && (!from.nnz || (from.values && from.columns)), INVALID_VALUE);
    CHECK(from.about->type == CUSPARSE_MATRIX_TYPE_GENERAL, MATRIX_TYPE_NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t count(cusparseHandle_t handle, const Source &from, const Scalar &threshold,
                       const cusparseMatDescr &about, int *made_offsets, int *total, cudaDataType type)
{
    CHECK(made_offsets && total, INVALID_VALUE);
    TRY(status_of(COUNT[type](selection_of(from, threshold), made_offsets + 1, handle->stream)));
    TRY(status_of(scan({made_offsets, 0, base_of(about)}, from.rows, handle->stream)));
    return tell_end(*handle, made_offsets, from.rows, base_of(about), total);
}
cusparseStatus_t put(cusparseHandle_t handle, const Source &from, const Scalar &threshold,
                     const cusparseMatDescr &about, const int *made_offsets, int *made_columns, void *made_values,
                     cudaDataType type)
{
    CHECK(made_offsets, INVALID_VALUE);
    Selection selection = selection_of(from, threshold);
    selection.made_offsets = (int *)made_offsets;
    selection.made_columns = made_columns;
    selection.made_values = made_values;
    selection.made_base = base_of(about);
    return status_of(PUT[type](selection, nullptr, handle->stream));
}
long long numbers_of(const Source &from)
{
    return from.about ? from.nnz : (long long)from.rows * from.cols;
}
// The magnitude below which a percentage of all numbers lies, by sorting these.
cusparseStatus_t find_threshold(cusparseHandle_t handle, const Source &from, float percentage, pruneInfo &info,
                                void *buffer, cudaDataType type)
{
    const long long all = numbers_of(from);
    CHECK(percentage >= 0 && percentage <= 100 && (buffer || !all), INVALID_VALUE);
    if (!all)
        return status_of(cudaMemsetAsync(info.threshold, 0, sizeof(double), handle->stream));
    Sorting sorting(buffer, all);
    Selection selection = selection_of(from, {});
    if (from.about)
        selection.cols = from.nnz;
    TRY(status_of(RANK[type](selection, (int *)sorting.keys[0], handle->stream)));
    TRY(status_of(identity(sorting.order[0], all, handle->stream)));
    TRY(status_of(sorting.sort(all, handle->stream)));
    const long long wanted = (long long)std::ceil(all * (percentage / 100.0)) - 1;
    const long long place = std::max(0LL, std::min(wanted, all - 1));
    return status_of(cudaMemcpyAsync(info.threshold, sorting.keys[0] + place, sizeof(double), cudaMemcpyDeviceToDevice,
                                     handle->stream));
}
cusparseStatus_t threshold_of(cusparseHandle_t handle, const pruneInfo &info, Scalar &threshold)
{
    double value = 0;
    TRY(status_of(cudaStreamSynchronize(handle->stream)));
    TRY(status_of(cudaMemcpy(&value, info.threshold, sizeof value, cudaMemcpyDeviceToHost)));
    threshold = {value, 0, nullptr};
    return CUSPARSE_STATUS_SUCCESS;
}
Scalar tolerance_of(float value)
{
    return {value, 0, nullptr};
}
Scalar tolerance_of(double value)
{
    return {value, 0, nullptr};
}
Scalar tolerance_of(cuComplex value)
{
    return {value.x, 0, nullptr};
}
Scalar tolerance_of(cuDoubleComplex value)
{
    return {value.x, 0, nullptr};
}
} // namespace

API cusparseStatus_t cusparseCreatePruneInfo(pruneInfo_t *info)
{
    CHECK(info, INVALID_VALUE);
    double *threshold = nullptr;
    CHECK(cudaMalloc((void **)&threshold, sizeof(double)) == cudaSuccess, ALLOC_FAILED);
    return make(info, {threshold});
}
API cusparseStatus_t cusparseDestroyPruneInfo(pruneInfo_t info)
{
    if (info)
        cudaFree(info->threshold);
    return info ? drop(info) : CUSPARSE_STATUS_SUCCESS;
}

#define COMPRESSION(S, T, TYPE)                                                                                        \
    API cusparseStatus_t cusparse##S##nnz_compress(cusparseHandle_t handle, int m, const cusparseMatDescr_t about,     \
                                                   const T *values, const int *offsets, int *counts, int *total,       \
                                                   T tolerance)                                                        \
    {                                                                                                                  \
        const Source from = {about, m, 0, 0, 0, values, offsets, offsets};                                             \
        TRY(check(handle, from, about, false));                                                                        \
        CHECK(counts &&total &&tolerance_of(tolerance).re >= 0, INVALID_VALUE);                                        \
        TRY(status_of(COUNT[TYPE](selection_of(from, tolerance_of(tolerance)), counts, handle->stream)));              \
        return tell_total(*handle, counts, m, total);                                                                  \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##csr2csr_compress(                                                                \
        cusparseHandle_t handle, int m, int n, const cusparseMatDescr_t about, const T *values, const int *columns,    \
        const int *offsets, int nnz, const int *counts, T *made_values, int *made_columns, int *made_offsets,          \
        T tolerance)                                                                                                   \
    {                                                                                                                  \
        const Source from = {about, m, n, nnz, 0, values, offsets, columns};                                           \
        TRY(check(handle, from, about, false));                                                                        \
        CHECK(counts &&made_offsets &&tolerance_of(tolerance).re >= 0, INVALID_VALUE);                                 \
        TRY(status_of(cudaMemcpyAsync(made_offsets + 1, counts, (size_t)m * sizeof(int), cudaMemcpyDeviceToDevice,     \
                                      handle->stream)));                                                               \
        TRY(status_of(scan({made_offsets, 0, base_of(*about)}, m, handle->stream)));                                   \
        return put(handle, from, tolerance_of(tolerance), *about, made_offsets, made_columns, made_values, TYPE);      \
    }
SPARSE_TYPES(COMPRESSION)

#define PRUNE(S, T, TYPE, NAME, IS_DENSE, PARAMETERS, SOURCE)                                                          \
    API cusparseStatus_t cusparse##S##prune##NAME##_bufferSizeExt(PARAMETERS(T), const T *threshold,                   \
                                                                  const cusparseMatDescr_t made_about, const T *,      \
                                                                  const int *, const int *, size_t *size)              \
    {                                                                                                                  \
        TRY(check(handle, SOURCE, made_about, IS_DENSE));                                                              \
        CHECK(threshold &&size, INVALID_VALUE);                                                                        \
        *size = 8;                                                                                                     \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##prune##NAME##Nnz(                                                                \
        PARAMETERS(T), const T *threshold, const cusparseMatDescr_t made_about, int *made_offsets, int *total, void *) \
    {                                                                                                                  \
        TRY(check(handle, SOURCE, made_about, IS_DENSE));                                                              \
        CHECK(threshold, INVALID_VALUE);                                                                               \
        return count(handle, SOURCE, scalar_of(*handle, TYPE, threshold), *made_about, made_offsets, total, TYPE);     \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##prune##NAME(PARAMETERS(T), const T *threshold,                                   \
                                                  const cusparseMatDescr_t made_about, T *made_values,                 \
                                                  const int *made_offsets, int *made_columns, void *)                  \
    {                                                                                                                  \
        TRY(check(handle, SOURCE, made_about, IS_DENSE));                                                              \
        CHECK(threshold, INVALID_VALUE);                                                                               \
        return put(handle, SOURCE, scalar_of(*handle, TYPE, threshold), *made_about, made_offsets, made_columns,       \
                   made_values, TYPE);                                                                                 \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##prune##NAME##ByPercentage_bufferSizeExt(                                         \
        PARAMETERS(T), float, const cusparseMatDescr_t made_about, const T *, const int *, const int *,                \
        pruneInfo_t info, size_t *size)                                                                                \
    {                                                                                                                  \
        TRY(check(handle, SOURCE, made_about, IS_DENSE));                                                              \
        CHECK(info &&size, INVALID_VALUE);                                                                             \
        const Source source = SOURCE;                                                                                  \
        *size = Sorting::bytes(numbers_of(source));                                                                    \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##prune##NAME##NnzByPercentage(                                                    \
        PARAMETERS(T), float percentage, const cusparseMatDescr_t made_about, int *made_offsets, int *total,           \
        pruneInfo_t info, void *buffer)                                                                                \
    {                                                                                                                  \
        Scalar threshold = {};                                                                                         \
        TRY(check(handle, SOURCE, made_about, IS_DENSE));                                                              \
        CHECK(info, INVALID_VALUE);                                                                                    \
        TRY(find_threshold(handle, SOURCE, percentage, *info, buffer, TYPE));                                          \
        TRY(threshold_of(handle, *info, threshold));                                                                   \
        return count(handle, SOURCE, threshold, *made_about, made_offsets, total, TYPE);                               \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##prune##NAME##ByPercentage(                                                       \
        PARAMETERS(T), float, const cusparseMatDescr_t made_about, T *made_values, const int *made_offsets,            \
        int *made_columns, pruneInfo_t info, void *)                                                                   \
    {                                                                                                                  \
        Scalar threshold = {};                                                                                         \
        TRY(check(handle, SOURCE, made_about, IS_DENSE));                                                              \
        CHECK(info, INVALID_VALUE);                                                                                    \
        TRY(threshold_of(handle, *info, threshold));                                                                   \
        return put(handle, SOURCE, threshold, *made_about, made_offsets, made_columns, made_values, TYPE);             \
    }
#define DENSE_PARAMETERS(T) cusparseHandle_t handle, int m, int n, const T *a, int lda
#define DENSE_SOURCE (Source{nullptr, m, n, 0, lda, a, nullptr, nullptr})
#define CSR_PARAMETERS(T)                                                                                              \
    cusparseHandle_t handle, int m, int n, int nnz, const cusparseMatDescr_t about, const T *values,                   \
        const int *offsets, const int *columns
#define CSR_SOURCE (Source{about, m, n, nnz, 0, values, offsets, columns})
PRUNE(S, float, CUDA_R_32F, Dense2csr, true, DENSE_PARAMETERS, DENSE_SOURCE)
PRUNE(D, double, CUDA_R_64F, Dense2csr, true, DENSE_PARAMETERS, DENSE_SOURCE)
PRUNE(S, float, CUDA_R_32F, Csr2csr, false, CSR_PARAMETERS, CSR_SOURCE)
PRUNE(D, double, CUDA_R_64F, Csr2csr, false, CSR_PARAMETERS, CSR_SOURCE)
