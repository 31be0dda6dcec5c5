/* Handles of the sparse functions, patterns and their orders. */
#include "sparse_context.h"

using namespace sparse;

status sparse::fetch_pattern(handle h, Place place, int m, int n, int nnz, const cusparseMatDescr *descriptor,
                             const int *offsets, const int *columns, Pattern &to)
{
    SPARSE_CHECK(m >= 0 && n >= 0 && nnz >= 0 && descriptor && offsets && (columns || nnz == 0));
    if (descriptor->type != CUSPARSE_MATRIX_TYPE_GENERAL)
        return CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED;
    to.rows = m;
    to.cols = n;
    SPARSE_TRY(fetch(h, place, offsets, (size_t)m + 1, to.offsets));
    SPARSE_TRY(fetch(h, place, columns, nnz, to.columns));
    for (int &offset : to.offsets)
        offset -= descriptor->base;
    for (int &column : to.columns) {
        column -= descriptor->base;
        SPARSE_CHECK(column >= 0 && column < n);
    }
    SPARSE_CHECK(to.offsets.front() == 0 && to.offsets.back() == nnz &&
                 std::is_sorted(to.offsets.begin(), to.offsets.end()));
    return CUSOLVER_STATUS_SUCCESS;
}

API status cusolverSpCreate(handle *made)
{
    SPARSE_CHECK(made);
    *made = new (std::nothrow) cusolverSpContext{nullptr};
    return *made ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}
API status cusolverSpDestroy(handle h)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    delete h;
    return CUSOLVER_STATUS_SUCCESS;
}
API status cusolverSpSetStream(handle h, cudaStream_t stream)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    h->stream = stream;
    return CUSOLVER_STATUS_SUCCESS;
}
API status cusolverSpGetStream(handle h, cudaStream_t *stream)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK(stream);
    *stream = h->stream;
    return CUSOLVER_STATUS_SUCCESS;
}

/* Whether the pattern is symmetric. */
API status cusolverSpXcsrissymHost(handle h, int n, int, const cusparseMatDescr_t descriptor, const int *offsets,
                                   const int *ends, const int *columns, int *result)
{
    return guarded(h, [&]() -> status {
        SPARSE_CHECK(n >= 0 && descriptor && offsets && ends && columns && result);
        std::vector<std::pair<int, int>> entries, turned;
        for (int i = 0; i < n; i++)
            for (int at = offsets[i] - descriptor->base; at < ends[i] - descriptor->base; at++) {
                entries.push_back({i, columns[at] - descriptor->base});
                turned.push_back({columns[at] - descriptor->base, i});
            }
        std::sort(entries.begin(), entries.end());
        std::sort(turned.begin(), turned.end());
        *result = entries == turned;
        return CUSOLVER_STATUS_SUCCESS;
    });
}
static status find_order(handle h, int n, int nnz, const cusparseMatDescr *descriptor, const int *offsets,
                         const int *columns, Indices (*find)(const Pattern &), int *order)
{
    return guarded(h, [&]() -> status {
        Pattern pattern;
        SPARSE_CHECK(order);
        SPARSE_TRY(fetch_pattern(h, ON_HOST, n, n, nnz, descriptor, offsets, columns, pattern));
        const Indices found = find(pattern);
        std::copy(found.begin(), found.end(), order);
        return CUSOLVER_STATUS_SUCCESS;
    });
}
#define VGC_ORDER(name, find)                                                                                          \
    API status cusolverSpXcsr##name##Host(handle h, int n, int nnz, const cusparseMatDescr_t descriptor,               \
                                          const int *offsets, const int *columns, int *order)                          \
    {                                                                                                                  \
        return find_order(h, n, nnz, descriptor, offsets, columns, find, order);                                       \
    }
VGC_ORDER(symrcm, reverse_cuthill_mckee)
VGC_ORDER(symmdq, minimum_degree)
VGC_ORDER(symamd, minimum_degree)
API status cusolverSpXcsrmetisndHost(handle h, int n, int nnz, const cusparseMatDescr_t descriptor, const int *offsets,
                                     const int *columns, const int64_t *, int *order)
{
    return find_order(h, n, nnz, descriptor, offsets, columns, minimum_degree, order);
}

API status cusolverSpXcsrperm_bufferSizeHost(handle h, int m, int n, int nnz, const cusparseMatDescr_t descriptor,
                                             const int *, const int *, const int *, const int *, size_t *size)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK(m >= 0 && n >= 0 && nnz >= 0 && descriptor && size);
    *size = sizeof(int);
    return CUSOLVER_STATUS_SUCCESS;
}
/* B(i, j) = A(p[i], q[j]), in place of A; `map` goes with the values. */
API status cusolverSpXcsrpermHost(handle h, int m, int n, int nnz, const cusparseMatDescr_t descriptor, int *offsets,
                                  int *columns, const int *p, const int *q, int *map, void *)
{
    return guarded(h, [&]() -> status {
        Matrix<int> a;
        SPARSE_CHECK(p && q && map);
        SPARSE_TRY(fetch_matrix(h, ON_HOST, m, n, nnz, descriptor, (const int *)map, offsets, columns, a));
        Indices places(n, -1);
        for (int j = 0; j < n; j++) {
            SPARSE_CHECK(q[j] >= 0 && q[j] < n && places[q[j]] < 0);
            places[q[j]] = j;
        }
        const std::vector<Line<int>> lines = a.lines();
        std::vector<bool> seen(m);
        for (int i = 0; i < m; i++) {
            SPARSE_CHECK(p[i] >= 0 && p[i] < m && !seen[p[i]]);
            seen[p[i]] = true;
        }
        for (int i = 0, at = 0; i < m; i++) {
            Line<int> line = lines[p[i]];
            for (Entry<int> &entry : line)
                entry.index = places[entry.index];
            std::sort(line.begin(), line.end(), [](const auto &x, const auto &y) { return x.index < y.index; });
            for (const Entry<int> &entry : line) {
                columns[at] = entry.index + descriptor->base;
                map[at++] = entry.value;
            }
            offsets[i + 1] = at + descriptor->base;
        }
        return CUSOLVER_STATUS_SUCCESS;
    });
}
