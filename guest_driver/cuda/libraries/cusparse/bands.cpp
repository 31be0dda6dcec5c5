// Systems with three or five diagonals.
#include <algorithm>
#include <cmath>

#include "band_work.h"
#include "legacy.h"

using namespace vgc_sparse;

namespace
{
const ByType<BandLaunch> THREE = {three_s, three_d, three_c, three_z}, FIVE = {five_s, five_d, five_c, five_z};
const ByType<ChunksLaunch> CHUNKS = {chunks_s, chunks_d, chunks_c, chunks_z};
const ByType<ReductionLaunch> REDUCE = {reduce_s, reduce_d, reduce_c, reduce_z};

struct Diagonals {
    const void *of[5];
    int count;
};
cusparseStatus_t check(cusparseHandle_t handle, int m, int n, const Diagonals &diagonals, const void *x, int least)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(m >= least && n >= 0, INVALID_VALUE);
    for (int i = 0; i < diagonals.count; i++)
        CHECK(!m || !n || (diagonals.of[i] && x), INVALID_VALUE);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t tell(size_t *size, size_t numbers, cudaDataType type)
{
    CHECK(size, INVALID_VALUE);
    *size = numbers ? numbers * size_of(type) : 8;
    return CUSPARSE_STATUS_SUCCESS;
}
Band band_of(const Diagonals &diagonals, void *x, int m, int batch)
{
    Band band = {};
    for (int i = 0; i < diagonals.count; i++)
        band.diagonals[i] = diagonals.of[i];
    band.x = x;
    band.m = m;
    band.batch = batch;
    band.step = batch;
    band.jump = 1;
    return band;
}
// As many as rows in each, about, and these at least four.
long long chunks_of(int m)
{
    const long long even = (long long)std::sqrt(m / 2.0);
    return std::max(1LL, std::min<long long>(m / 4, even));
}
size_t chunk_numbers(int m, int n)
{
    return 5 * (size_t)m + (20 + 2 * (size_t)n) * (size_t)chunks_of(m);
}
cusparseStatus_t solve_in_chunks(cusparseHandle_t handle, int m, int n, const Diagonals &diagonals, void *b, int ldb,
                                 void *buffer, cudaDataType type)
{
    TRY(check(handle, m, n, diagonals, b, 3));
    CHECK(ldb >= m && buffer, INVALID_VALUE);
    const size_t size = size_of(type), count = (size_t)chunks_of(m);
    char *const inner = (char *)buffer, *const outer = inner + 5 * (size_t)m * size;
    return status_of(CHUNKS[type]({diagonals.of[0], diagonals.of[1], diagonals.of[2], b, inner, outer,
                                   outer + 20 * count * size, m, n, ldb, (long long)count},
                                  handle->stream));
}
cusparseStatus_t solve_reduced(cusparseHandle_t handle, const Diagonals &diagonals, const Reduction &reduction,
                               cudaDataType type)
{
    TRY(check(handle, (int)reduction.m, (int)(reduction.cols * reduction.systems), diagonals, reduction.b, 3));
    CHECK(reduction.ld >= reduction.m && reduction.buffer, INVALID_VALUE);
    return status_of(REDUCE[type](reduction, handle->stream));
}
cusparseStatus_t solve_interleaved(cusparseHandle_t handle, int algorithm, int last, int m, const Diagonals &diagonals,
                                   void *x, int batch, const ByType<BandLaunch> &launches, cudaDataType type)
{
    TRY(check(handle, m, batch, diagonals, x, 1));
    CHECK(algorithm >= 0 && algorithm <= last, INVALID_VALUE);
    return status_of(launches[type](band_of(diagonals, x, m, batch), handle->stream));
}
// Coefficients twice, and a copy of the right sides.
size_t reduction_numbers(int m, int systems, int cols)
{
    return (size_t)m * systems * 6 + (size_t)m * systems * cols;
}
} // namespace

#define THREE_DIAGONALS {{dl, d, du}, 3}
#define SYSTEMS(S, T, TYPE)                                                                                            \
    API cusparseStatus_t cusparse##S##gtsv2_bufferSizeExt(cusparseHandle_t handle, int m, int n, const T *dl,          \
                                                          const T *d, const T *du, const T *b, int, size_t *size)      \
    {                                                                                                                  \
        TRY(check(handle, m, n, THREE_DIAGONALS, b, 3));                                                               \
        return tell(size, chunk_numbers(m, n), TYPE);                                                                  \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gtsv2(cusparseHandle_t handle, int m, int n, const T *dl, const T *d,            \
                                            const T *du, T *b, int ldb, void *buffer)                                  \
    {                                                                                                                  \
        return solve_in_chunks(handle, m, n, THREE_DIAGONALS, b, ldb, buffer, TYPE);                                   \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gtsv2_nopivot_bufferSizeExt(                                                     \
        cusparseHandle_t handle, int m, int n, const T *dl, const T *d, const T *du, const T *b, int, size_t *size)    \
    {                                                                                                                  \
        TRY(check(handle, m, n, THREE_DIAGONALS, b, 3));                                                               \
        return tell(size, reduction_numbers(m, 1, n), TYPE);                                                           \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gtsv2_nopivot(cusparseHandle_t handle, int m, int n, const T *dl, const T *d,    \
                                                    const T *du, T *b, int ldb, void *buffer)                          \
    {                                                                                                                  \
        return solve_reduced(handle, THREE_DIAGONALS, {dl, d, du, b, buffer, m, 1, 0, n, ldb}, TYPE);                  \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gtsv2StridedBatch_bufferSizeExt(cusparseHandle_t handle, int m, const T *dl,     \
                                                                      const T *d, const T *du, const T *x, int batch,  \
                                                                      int stride, size_t *size)                        \
    {                                                                                                                  \
        TRY(check(handle, m, batch, THREE_DIAGONALS, x, 3));                                                           \
        CHECK(stride >= m, INVALID_VALUE);                                                                             \
        return tell(size, reduction_numbers(m, batch, 1), TYPE);                                                       \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gtsv2StridedBatch(cusparseHandle_t handle, int m, const T *dl, const T *d,       \
                                                        const T *du, T *x, int batch, int stride, void *buffer)        \
    {                                                                                                                  \
        return solve_reduced(handle, THREE_DIAGONALS, {dl, d, du, x, buffer, m, batch, stride, 1, stride}, TYPE);      \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gtsvInterleavedBatch_bufferSizeExt(cusparseHandle_t handle, int algorithm,       \
                                                                         int m, const T *dl, const T *d, const T *du,  \
                                                                         const T *x, int batch, size_t *size)          \
    {                                                                                                                  \
        TRY(check(handle, m, batch, THREE_DIAGONALS, x, 1));                                                           \
        CHECK(algorithm >= 0 && algorithm <= 2, INVALID_VALUE);                                                        \
        return tell(size, 0, TYPE);                                                                                    \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gtsvInterleavedBatch(cusparseHandle_t handle, int algorithm, int m, T *dl, T *d, \
                                                           T *du, T *x, int batch, void *)                             \
    {                                                                                                                  \
        return solve_interleaved(handle, algorithm, 2, m, THREE_DIAGONALS, x, batch, THREE, TYPE);                     \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gpsvInterleavedBatch_bufferSizeExt(                                              \
        cusparseHandle_t handle, int algorithm, int m, const T *ds, const T *dl, const T *d, const T *du, const T *dw, \
        const T *x, int batch, size_t *size)                                                                           \
    {                                                                                                                  \
        TRY(check(handle, m, batch, {{ds, dl, d, du, dw}, 5}, x, 1));                                                  \
        CHECK(algorithm == 0, INVALID_VALUE);                                                                          \
        return tell(size, 0, TYPE);                                                                                    \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gpsvInterleavedBatch(cusparseHandle_t handle, int algorithm, int m, T *ds,       \
                                                           T *dl, T *d, T *du, T *dw, T *x, int batch, void *)         \
    {                                                                                                                  \
        return solve_interleaved(handle, algorithm, 0, m, {{ds, dl, d, du, dw}, 5}, x, batch, FIVE, TYPE);             \
    }
SPARSE_TYPES(SYSTEMS)
