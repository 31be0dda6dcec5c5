/* Decompositions of sparse matrices in steps. An info keeps the decomposition, of whatever type its numbers are. */
#include <cusolverSp_LOWLEVEL_PREVIEW.h>
#include <memory>

#include "sparse_context.h"

using namespace sparse;

struct Kept {
    std::shared_ptr<void> matrix, factor; /* Matrix<T> and Factor<T> */
};
struct csrluInfoHost : Kept {
    void (*count)(const void *factor, int *nnz_l, int *nnz_u) = nullptr;
};
struct csrqrInfoHost : Kept {
};
struct csrcholInfoHost : Kept {
};
struct csrqrInfo : Kept {
};
struct csrcholInfo : Kept {
};

namespace
{
status check_pattern(handle h, Place place, int m, int n, int nnz, const cusparseMatDescr *descriptor,
                     const int *offsets, const int *columns, const void *info)
{
    return guarded(h, [&]() -> status {
        Pattern pattern;
        SPARSE_CHECK(info && m >= n);
        return fetch_pattern(h, place, m, n, nnz, descriptor, offsets, columns, pattern);
    });
}
/* Decompositions keep their memory themselves. */
status tell_sizes(handle h, const void *info, size_t *internal, size_t *buffer)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK(info && internal && buffer);
    *internal = 0;
    *buffer = 16;
    return CUSOLVER_STATUS_SUCCESS;
}
template <class T> status tell_zero_pivot(handle h, const Kept *info, real_of<T> tolerance, int *position)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK(info && info->factor && position);
    *position = static_cast<Factor<T> *>(info->factor.get())->zero_pivot(tolerance);
    return CUSOLVER_STATUS_SUCCESS;
}
template <class T> status solve(handle h, Place place, const Kept *info, int m, int n, const T *b, T *x)
{
    return guarded(h, [&]() -> status {
        SPARSE_CHECK(info && info->factor && b && x && n >= 0 && m >= n);
        std::vector<T> right, result(n);
        SPARSE_TRY(fetch(h, place, b, m, right));
        static_cast<Factor<T> *>(info->factor.get())->solve(right.data(), result.data());
        return put(h, place, result, x);
    });
}
template <class T, class Decomposition> void keep(Kept *info, Decomposition *made)
{
    info->factor = std::shared_ptr<Factor<T>>(made);
}
template <class T>
status lu(handle h, int n, int nnz, const cusparseMatDescr *descriptor, const T *values, const int *offsets,
          const int *columns, Kept *info, double threshold)
{
    return guarded(h, [&]() -> status {
        Matrix<T> a;
        SPARSE_CHECK(info && threshold >= 0 && threshold <= 1);
        SPARSE_TRY(fetch_matrix(h, ON_HOST, n, n, nnz, descriptor, values, offsets, columns, a));
        keep<T>(info, new Lu<T>(a, threshold));
        return CUSOLVER_STATUS_SUCCESS;
    });
}
template <class T>
status cholesky(handle h, Place place, int n, int nnz, const cusparseMatDescr *descriptor, const T *values,
                const int *offsets, const int *columns, Kept *info)
{
    return guarded(h, [&]() -> status {
        Matrix<T> a;
        SPARSE_CHECK(info);
        SPARSE_TRY(fetch_matrix(h, place, n, n, nnz, descriptor, values, offsets, columns, a));
        keep<T>(info, new Cholesky<T>(a));
        return CUSOLVER_STATUS_SUCCESS;
    });
}
/* Takes A - mu 1, to be decomposed. */
template <class T>
status setup_qr(handle h, Place place, int m, int n, int nnz, const cusparseMatDescr *descriptor, const T *values,
                const int *offsets, const int *columns, T mu, Kept *info)
{
    return guarded(h, [&]() -> status {
        auto a = std::make_shared<Matrix<T>>();
        SPARSE_CHECK(info && m >= n);
        SPARSE_TRY(fetch_matrix(h, place, m, n, nnz, descriptor, values, offsets, columns, *a));
        for (int i = 0; i < m && mu != T(0); i++) {
            bool found = i >= n;
            for (int at = a->pattern.offsets[i]; at < a->pattern.offsets[i + 1]; at++)
                if (a->pattern.columns[at] == i) {
                    a->values[at] -= mu;
                    found = true;
                }
            if (!found) /* its pattern has no place for it */
                return CUSOLVER_STATUS_NOT_SUPPORTED;
        }
        info->matrix = a;
        info->factor = nullptr;
        return CUSOLVER_STATUS_SUCCESS;
    });
}
template <class T> status qr(handle h, Place place, int m, int n, const T *b, T *x, Kept *info)
{
    SPARSE_TRY(guarded(h, [&]() -> status {
        SPARSE_CHECK(info && info->matrix);
        keep<T>(info, new Qr<T>(*static_cast<Matrix<T> *>(info->matrix.get())));
        return CUSOLVER_STATUS_SUCCESS;
    }));
    return b && x ? solve(h, place, info, m, n, b, x) : CUSOLVER_STATUS_SUCCESS;
}

/* By rows, with columns in ascending order. */
template <class T> void write_rows(const std::vector<Line<T>> &rows, int base, T *values, int *offsets, int *columns)
{
    int at = 0;
    for (size_t i = 0; i < rows.size(); i++) {
        offsets[i] = at + base;
        for (const Entry<T> &entry : rows[i]) {
            columns[at] = entry.index + base;
            values[at++] = entry.value;
        }
    }
    offsets[rows.size()] = at + base;
}
/* P A Q^T = L U, without the ones of L; Q is the identity. */
template <class T>
status extract(handle h, int *p, int *q, const cusparseMatDescr *of_l, T *values_l, int *offsets_l, int *columns_l,
               const cusparseMatDescr *of_u, T *values_u, int *offsets_u, int *columns_u, const Kept *info)
{
    return guarded(h, [&]() -> status {
        SPARSE_CHECK(info && info->factor && p && q && of_l && of_u && values_l && offsets_l && columns_l && values_u &&
                     offsets_u && columns_u);
        const Lu<T> &made = *static_cast<Lu<T> *>(static_cast<Factor<T> *>(info->factor.get()));
        const int n = (int)made.diagonal.size();
        std::vector<Line<T>> lower(n), upper(n);
        for (int k = 0; k < n; k++) {
            p[k] = made.pivots[k];
            q[k] = k;
            for (const Entry<T> &entry : made.lower[k])
                lower[made.places[entry.index]].push_back({k, entry.value});
            for (const Entry<T> &entry : made.upper[k])
                upper[entry.index].push_back({k, entry.value});
            upper[k].push_back({k, made.diagonal[k]});
        }
        write_rows(lower, of_l->base, values_l, offsets_l, columns_l);
        write_rows(upper, of_u->base, values_u, offsets_u, columns_u);
        return CUSOLVER_STATUS_SUCCESS;
    });
}
template <class T> void count(const Factor<T> *factor, int *nnz_l, int *nnz_u)
{
    const Lu<T> &made = *static_cast<const Lu<T> *>(factor);
    for (size_t k = 0; k < made.diagonal.size(); k++) {
        *nnz_l += (int)made.lower[k].size();
        *nnz_u += (int)made.upper[k].size() + 1;
    }
}
} // namespace

#define VGC_INFO(Name, name)                                                                                           \
    API status cusolverSpCreate##Name(name##_t *info)                                                                  \
    {                                                                                                                  \
        SPARSE_CHECK(info);                                                                                            \
        *info = new (std::nothrow) name;                                                                               \
        return *info ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;                                         \
    }                                                                                                                  \
    API status cusolverSpDestroy##Name(name##_t info)                                                                  \
    {                                                                                                                  \
        delete info;                                                                                                   \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }
VGC_INFO(CsrluInfoHost, csrluInfoHost)
VGC_INFO(CsrqrInfoHost, csrqrInfoHost)
VGC_INFO(CsrcholInfoHost, csrcholInfoHost)
VGC_INFO(CsrqrInfo, csrqrInfo)
VGC_INFO(CsrcholInfo, csrcholInfo)

API status cusolverSpXcsrluAnalysisHost(VGC_SPARSE_PATTERN, const int *offsets, const int *columns,
                                        csrluInfoHost_t info)
{
    return check_pattern(handle, ON_HOST, n, n, nnz, descriptor, offsets, columns, info);
}
/* The names of types have no part in the name of the function: all decompositions count alike. */
API status cusolverSpXcsrluNnzHost(cusolverSpHandle_t h, int *nnz_l, int *nnz_u, csrluInfoHost_t info)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK(info && info->factor && nnz_l && nnz_u);
    *nnz_l = *nnz_u = 0;
    info->count(info->factor.get(), nnz_l, nnz_u);
    return CUSOLVER_STATUS_SUCCESS;
}
#define VGC_LU(S, T, R)                                                                                                \
    API status cusolverSp##S##csrluBufferInfoHost(VGC_SPARSE_PATTERN, const T *, const int *, const int *,             \
                                                  csrluInfoHost_t info, size_t *internal, size_t *buffer)              \
    {                                                                                                                  \
        SPARSE_CHECK(n >= 0 && nnz >= 0 && descriptor);                                                                \
        return tell_sizes(handle, info, internal, buffer);                                                             \
    }                                                                                                                  \
    API status cusolverSp##S##csrluFactorHost(VGC_SPARSE_PATTERN, const T *values, const int *offsets,                 \
                                              const int *columns, csrluInfoHost_t info, R threshold, void *)           \
    {                                                                                                                  \
        SPARSE_CHECK(info);                                                                                            \
        info->count = [](const void *factor, int *nnz_l, int *nnz_u) {                                                 \
            count(static_cast<const Factor<inside<T>::type> *>(factor), nnz_l, nnz_u);                                 \
        };                                                                                                             \
        return lu(handle, n, nnz, descriptor, in(values), offsets, columns, info, threshold);                          \
    }                                                                                                                  \
    API status cusolverSp##S##csrluZeroPivotHost(cusolverSpHandle_t h, csrluInfoHost_t info, R tolerance,              \
                                                 int *position)                                                        \
    {                                                                                                                  \
        return tell_zero_pivot<inside<T>::type>(h, info, tolerance, position);                                         \
    }                                                                                                                  \
    API status cusolverSp##S##csrluSolveHost(cusolverSpHandle_t h, int n, const T *b, T *x, csrluInfoHost_t info,      \
                                             void *)                                                                   \
    {                                                                                                                  \
        return solve(h, ON_HOST, info, n, n, in(b), in(x));                                                            \
    }                                                                                                                  \
    API status cusolverSp##S##csrluExtractHost(cusolverSpHandle_t h, int *p, int *q,                                   \
                                               const cusparseMatDescr_t descriptor_l, T *values_l, int *offsets_l,     \
                                               int *columns_l, const cusparseMatDescr_t descriptor_u, T *values_u,     \
                                               int *offsets_u, int *columns_u, csrluInfoHost_t info, void *)           \
    {                                                                                                                  \
        return extract(h, p, q, descriptor_l, in(values_l), offsets_l, columns_l, descriptor_u, in(values_u),          \
                       offsets_u, columns_u, info);                                                                    \
    }
VGC_LU(S, float, float)
VGC_LU(D, double, double)
VGC_LU(C, cuComplex, float)
VGC_LU(Z, cuDoubleComplex, double)

#define VGC_QR(S, T, R, Host, place)                                                                                   \
    API status cusolverSp##S##csrqrBufferInfo##Host(VGC_SPARSE_PATTERN_QR, const T *, const int *, const int *,        \
                                                    csrqrInfo##Host##_t info, size_t *internal, size_t *buffer)        \
    {                                                                                                                  \
        SPARSE_CHECK(m >= n && n >= 0 && nnz >= 0 && descriptor);                                                      \
        return tell_sizes(handle, info, internal, buffer);                                                             \
    }                                                                                                                  \
    API status cusolverSp##S##csrqrSetup##Host(VGC_SPARSE_PATTERN_QR, const T *values, const int *offsets,             \
                                               const int *columns, T mu, csrqrInfo##Host##_t info)                     \
    {                                                                                                                  \
        return setup_qr(handle, place, m, n, nnz, descriptor, in(values), offsets, columns, *in(&mu), info);           \
    }                                                                                                                  \
    API status cusolverSp##S##csrqrFactor##Host(cusolverSpHandle_t h, int m, int n, int, T *b, T *x,                   \
                                                csrqrInfo##Host##_t info, void *)                                      \
    {                                                                                                                  \
        return qr<inside<T>::type>(h, place, m, n, in(b), in(x), info);                                                \
    }                                                                                                                  \
    API status cusolverSp##S##csrqrZeroPivot##Host(cusolverSpHandle_t h, csrqrInfo##Host##_t info, R tolerance,        \
                                                   int *position)                                                      \
    {                                                                                                                  \
        return tell_zero_pivot<inside<T>::type>(h, info, tolerance, position);                                         \
    }                                                                                                                  \
    API status cusolverSp##S##csrqrSolve##Host(cusolverSpHandle_t h, int m, int n, T *b, T *x,                         \
                                               csrqrInfo##Host##_t info, void *)                                       \
    {                                                                                                                  \
        return solve<inside<T>::type>(h, place, info, m, n, in(b), in(x));                                             \
    }
#define VGC_CHOLESKY(S, T, R, Host, place)                                                                             \
    API status cusolverSp##S##csrcholBufferInfo##Host(VGC_SPARSE_PATTERN, const T *, const int *, const int *,         \
                                                      csrcholInfo##Host##_t info, size_t *internal, size_t *buffer)    \
    {                                                                                                                  \
        SPARSE_CHECK(n >= 0 && nnz >= 0 && descriptor);                                                                \
        return tell_sizes(handle, info, internal, buffer);                                                             \
    }                                                                                                                  \
    API status cusolverSp##S##csrcholFactor##Host(VGC_SPARSE_PATTERN, const T *values, const int *offsets,             \
                                                  const int *columns, csrcholInfo##Host##_t info, void *)              \
    {                                                                                                                  \
        return cholesky(handle, place, n, nnz, descriptor, in(values), offsets, columns, info);                        \
    }                                                                                                                  \
    API status cusolverSp##S##csrcholZeroPivot##Host(cusolverSpHandle_t h, csrcholInfo##Host##_t info, R tolerance,    \
                                                     int *position)                                                    \
    {                                                                                                                  \
        return tell_zero_pivot<inside<T>::type>(h, info, tolerance, position);                                         \
    }                                                                                                                  \
    API status cusolverSp##S##csrcholSolve##Host(cusolverSpHandle_t h, int n, const T *b, T *x,                        \
                                                 csrcholInfo##Host##_t info, void *)                                   \
    {                                                                                                                  \
        return solve(h, place, info, n, n, in(b), in(x));                                                              \
    }
#define VGC_PLACES(Host, place)                                                                                        \
    API status cusolverSpXcsrqrAnalysis##Host(VGC_SPARSE_PATTERN_QR, const int *offsets, const int *columns,           \
                                              csrqrInfo##Host##_t info)                                                \
    {                                                                                                                  \
        return check_pattern(handle, place, m, n, nnz, descriptor, offsets, columns, info);                            \
    }                                                                                                                  \
    API status cusolverSpXcsrcholAnalysis##Host(VGC_SPARSE_PATTERN, const int *offsets, const int *columns,            \
                                                csrcholInfo##Host##_t info)                                            \
    {                                                                                                                  \
        return check_pattern(handle, place, n, n, nnz, descriptor, offsets, columns, info);                            \
    }                                                                                                                  \
    VGC_QR(S, float, float, Host, place)                                                                               \
    VGC_QR(D, double, double, Host, place)                                                                             \
    VGC_QR(C, cuComplex, float, Host, place)                                                                           \
    VGC_QR(Z, cuDoubleComplex, double, Host, place)                                                                    \
    VGC_CHOLESKY(S, float, float, Host, place)                                                                         \
    VGC_CHOLESKY(D, double, double, Host, place)                                                                       \
    VGC_CHOLESKY(C, cuComplex, float, Host, place)                                                                     \
    VGC_CHOLESKY(Z, cuDoubleComplex, double, Host, place)
VGC_PLACES(Host, ON_HOST)
VGC_PLACES(, ON_DEVICE)
