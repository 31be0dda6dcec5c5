/* Decompositions of sparse matrices whose pattern is known from one before. */
#include <cmath>
#include <cstdlib>
#include <cusolverRf.h>

#include "sparse_context.h"

using namespace sparse;
typedef cusolverRfHandle_t refactor;

struct cusolverRfCommon {
    cusolverRfMatrixFormat_t format = CUSOLVERRF_MATRIX_FORMAT_CSR;
    cusolverRfUnitDiagonal_t diagonal = CUSOLVERRF_UNIT_DIAGONAL_STORED_L;
    double zero = 0, boost = 0;
    cusolverRfFactorization_t factorization = CUSOLVERRF_FACTORIZATION_ALG0;
    cusolverRfTriangularSolve_t solve = CUSOLVERRF_TRIANGULAR_SOLVE_ALG1;
    cusolverRfResetValuesFastMode_t fast = CUSOLVERRF_RESET_VALUES_FAST_MODE_OFF;
    cusolverRfNumericBoostReport_t boosted = CUSOLVERRF_NUMERIC_BOOST_NOT_USED;
    cusolverSpContext context{nullptr};
    Matrix<double> m; /* L and U in one, without the ones of L */
    Indices diagonals;
    bool is_set = false;
};

namespace
{
template <class Work> status with(refactor h, Work work)
{
    return guarded(h ? &h->context : nullptr, work);
}
template <class Field, class Value> status get(refactor h, Field field, Value *to)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK(to);
    *to = h->*field;
    return CUSOLVER_STATUS_SUCCESS;
}
status fetch_part(refactor h, Place place, int n, int nnz, const int *offsets, const int *columns, const double *values,
                  Matrix<double> &to)
{
    const cusparseMatDescr descriptor{};
    return fetch_matrix(&h->context, place, n, n, nnz, &descriptor, values, offsets, columns, to);
}
status bundle(refactor h, const Matrix<double> &lower, const Matrix<double> &upper)
{
    const int n = lower.pattern.rows;
    std::vector<Line<double>> rows = lower.lines();
    const std::vector<Line<double>> others = upper.lines();
    Matrix<double> made;
    Indices diagonals(n, -1);
    made.pattern.rows = made.pattern.cols = n;
    made.pattern.offsets.push_back(0);
    for (int i = 0; i < n; i++) {
        Line<double> row;
        for (const Entry<double> &entry : rows[i])
            if (entry.index < i)
                row.push_back(entry);
            else if (entry.index > i || h->diagonal != CUSOLVERRF_UNIT_DIAGONAL_STORED_L)
                return CUSOLVER_STATUS_INVALID_VALUE;
        row.insert(row.end(), others[i].begin(), others[i].end());
        std::sort(row.begin(), row.end(), [](const auto &x, const auto &y) { return x.index < y.index; });
        for (const Entry<double> &entry : row) {
            if (entry.index == i)
                diagonals[i] = (int)made.values.size();
            made.pattern.columns.push_back(entry.index);
            made.values.push_back(entry.value);
        }
        SPARSE_CHECK(diagonals[i] >= 0);
        made.pattern.offsets.push_back((int)made.values.size());
    }
    h->m = std::move(made);
    h->diagonals = std::move(diagonals);
    h->is_set = true;
    return CUSOLVER_STATUS_SUCCESS;
}
struct Arrays {
    int nnz, *offsets, *columns;
    double *values;
};
status setup(refactor h, Place place, int n, Arrays a, Arrays l, Arrays u, const int *p, const int *q)
{
    return with(h, [&]() -> status {
        Matrix<double> whole, lower, upper;
        SPARSE_CHECK(p && q);
        SPARSE_TRY(fetch_part(h, place, n, a.nnz, a.offsets, a.columns, a.values, whole));
        SPARSE_TRY(fetch_part(h, place, n, l.nnz, l.offsets, l.columns, l.values, lower));
        SPARSE_TRY(fetch_part(h, place, n, u.nnz, u.offsets, u.columns, u.values, upper));
        return bundle(h, lower, upper);
    });
}
bool is_permutation(const Indices &order)
{
    std::vector<bool> seen(order.size());
    for (int i : order) {
        if (i < 0 || i >= (int)order.size() || seen[i])
            return false;
        seen[i] = true;
    }
    return true;
}
status fetch_orders(refactor h, const int *p, const int *q, Indices &rows, Indices &columns)
{
    SPARSE_CHECK(p && q);
    SPARSE_TRY(fetch(&h->context, ON_DEVICE, p, h->m.pattern.rows, rows));
    SPARSE_TRY(fetch(&h->context, ON_DEVICE, q, h->m.pattern.rows, columns));
    return is_permutation(rows) && is_permutation(columns) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}
/* Where a column of a row of L + U lies, or -1. */
int place_of(const Pattern &pattern, int row, int column)
{
    const auto begin = pattern.columns.begin() + pattern.offsets[row];
    const auto end = pattern.columns.begin() + pattern.offsets[row + 1], at = std::lower_bound(begin, end, column);
    return at == end || *at != column ? -1 : (int)(at - pattern.columns.begin());
}
} // namespace

API status cusolverRfCreate(refactor *made)
{
    SPARSE_CHECK(made);
    *made = new (std::nothrow) cusolverRfCommon;
    return *made ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}
API status cusolverRfDestroy(refactor h)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    delete h;
    return CUSOLVER_STATUS_SUCCESS;
}
API status cusolverRfSetMatrixFormat(refactor h, cusolverRfMatrixFormat_t format, cusolverRfUnitDiagonal_t diagonal)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK((unsigned)format <= 1 && (unsigned)diagonal <= 3);
    if (format != CUSOLVERRF_MATRIX_FORMAT_CSR || diagonal == CUSOLVERRF_UNIT_DIAGONAL_STORED_U ||
        diagonal == CUSOLVERRF_UNIT_DIAGONAL_ASSUMED_U)
        return CUSOLVER_STATUS_NOT_SUPPORTED;
    h->format = format;
    h->diagonal = diagonal;
    return CUSOLVER_STATUS_SUCCESS;
}
API status cusolverRfGetMatrixFormat(refactor h, cusolverRfMatrixFormat_t *format, cusolverRfUnitDiagonal_t *diagonal)
{
    SPARSE_TRY(get(h, &cusolverRfCommon::format, format));
    return get(h, &cusolverRfCommon::diagonal, diagonal);
}
API status cusolverRfSetNumericProperties(refactor h, double zero, double boost)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    h->zero = zero;
    h->boost = boost;
    return CUSOLVER_STATUS_SUCCESS;
}
API status cusolverRfGetNumericProperties(refactor h, double *zero, double *boost)
{
    SPARSE_TRY(get(h, &cusolverRfCommon::zero, zero));
    return get(h, &cusolverRfCommon::boost, boost);
}
API status cusolverRfGetNumericBoostReport(refactor h, cusolverRfNumericBoostReport_t *report)
{
    return get(h, &cusolverRfCommon::boosted, report);
}
API status cusolverRfSetAlgs(refactor h, cusolverRfFactorization_t factorization, cusolverRfTriangularSolve_t solve)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK((unsigned)factorization <= 2 && (unsigned)solve >= 1 && (unsigned)solve <= 3);
    h->factorization = factorization;
    h->solve = solve;
    return CUSOLVER_STATUS_SUCCESS;
}
API status cusolverRfGetAlgs(refactor h, cusolverRfFactorization_t *factorization, cusolverRfTriangularSolve_t *solve)
{
    SPARSE_TRY(get(h, &cusolverRfCommon::factorization, factorization));
    return get(h, &cusolverRfCommon::solve, solve);
}
API status cusolverRfSetResetValuesFastMode(refactor h, cusolverRfResetValuesFastMode_t mode)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK((unsigned)mode <= 1);
    h->fast = mode;
    return CUSOLVER_STATUS_SUCCESS;
}
API status cusolverRfGetResetValuesFastMode(refactor h, cusolverRfResetValuesFastMode_t *mode)
{
    return get(h, &cusolverRfCommon::fast, mode);
}

#define VGC_SETUP(Where, place)                                                                                        \
    API status cusolverRfSetup##Where(int n, int nnz_a, int *offsets_a, int *columns_a, double *values_a, int nnz_l,   \
                                      int *offsets_l, int *columns_l, double *values_l, int nnz_u, int *offsets_u,     \
                                      int *columns_u, double *values_u, int *p, int *q, refactor h)                    \
    {                                                                                                                  \
        return setup(h, place, n, {nnz_a, offsets_a, columns_a, values_a}, {nnz_l, offsets_l, columns_l, values_l},    \
                     {nnz_u, offsets_u, columns_u, values_u}, p, q);                                                   \
    }
VGC_SETUP(Host, ON_HOST)
VGC_SETUP(Device, ON_DEVICE)
/* The pattern is all that the processor of the guest needs. */
API status cusolverRfAnalyze(refactor h)
{
    if (!h || !h->is_set)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    return CUSOLVER_STATUS_SUCCESS;
}
API status cusolverRfResetValues(int n, int nnz, int *offsets, int *columns, double *values, int *p, int *q, refactor h)
{
    if (!h || !h->is_set)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    return with(h, [&]() -> status {
        Matrix<double> a;
        Indices rows, order;
        SPARSE_CHECK(n == h->m.pattern.rows);
        SPARSE_TRY(fetch_part(h, ON_DEVICE, n, nnz, offsets, columns, values, a));
        SPARSE_TRY(fetch_orders(h, p, q, rows, order));
        Indices places(n);
        for (int j = 0; j < n; j++)
            places[order[j]] = j;
        std::fill(h->m.values.begin(), h->m.values.end(), 0);
        for (int i = 0; i < n; i++)
            for (int at = a.pattern.offsets[rows[i]]; at < a.pattern.offsets[rows[i] + 1]; at++) {
                const int to = place_of(h->m.pattern, i, places[a.pattern.columns[at]]);
                SPARSE_CHECK(to >= 0);
                h->m.values[to] = a.values[at];
            }
        return CUSOLVER_STATUS_SUCCESS;
    });
}
/* Row after row: those above it are done with. */
API status cusolverRfRefactor(refactor h)
{
    if (!h || !h->is_set)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    return with(h, [&]() -> status {
        const Pattern &pattern = h->m.pattern;
        std::vector<double> &values = h->m.values;
        Indices places(pattern.rows, -1);
        h->boosted = CUSOLVERRF_NUMERIC_BOOST_NOT_USED;
        for (int i = 0; i < pattern.rows; i++) {
            const int begin = pattern.offsets[i], end = pattern.offsets[i + 1];
            for (int at = begin; at < end; at++)
                places[pattern.columns[at]] = at;
            for (int at = begin; at < h->diagonals[i]; at++) {
                const int k = pattern.columns[at];
                const double factor = values[at] /= values[h->diagonals[k]];
                for (int from = h->diagonals[k] + 1; from < pattern.offsets[k + 1]; from++)
                    if (const int to = places[pattern.columns[from]]; to >= begin)
                        values[to] -= factor * values[from];
            }
            double &pivot = values[h->diagonals[i]];
            if (std::fabs(pivot) <= h->zero && h->boost != 0) {
                pivot = h->boost;
                h->boosted = CUSOLVERRF_NUMERIC_BOOST_USED;
            } else if (std::fabs(pivot) <= h->zero)
                return CUSOLVER_STATUS_ZERO_PIVOT;
        }
        return CUSOLVER_STATUS_SUCCESS;
    });
}
API status cusolverRfSolve(refactor h, int *p, int *q, int nrhs, double *, int ldt, double *x, int ldx)
{
    if (!h || !h->is_set)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    return with(h, [&]() -> status {
        const Pattern &pattern = h->m.pattern;
        const int n = pattern.rows;
        Indices rows, columns;
        SPARSE_CHECK(nrhs >= 0 && ldt >= n && ldx >= n && x);
        SPARSE_TRY(fetch_orders(h, p, q, rows, columns));
        for (int c = 0; c < nrhs; c++) {
            std::vector<double> right, made(n);
            SPARSE_TRY(fetch(&h->context, ON_DEVICE, (const double *)x + (size_t)c * ldx, n, right));
            for (int i = 0; i < n; i++) {
                made[i] = right[rows[i]];
                for (int at = pattern.offsets[i]; at < h->diagonals[i]; at++)
                    made[i] -= h->m.values[at] * made[pattern.columns[at]];
            }
            for (int i = n - 1; i >= 0; i--) {
                for (int at = h->diagonals[i] + 1; at < pattern.offsets[i + 1]; at++)
                    made[i] -= h->m.values[at] * made[pattern.columns[at]];
                made[i] /= h->m.values[h->diagonals[i]];
            }
            for (int i = 0; i < n; i++)
                right[columns[i]] = made[i];
            SPARSE_TRY(put(&h->context, ON_DEVICE, right, x + (size_t)c * ldx));
        }
        return CUSOLVER_STATUS_SUCCESS;
    });
}
template <class T> static T *copied(const std::vector<T> &from)
{
    T *const made = (T *)malloc(from.size() * sizeof(T) + 1);
    if (made)
        std::copy(from.begin(), from.end(), made);
    return made;
}
API status cusolverRfExtractBundledFactorsHost(refactor h, int *nnz, int **offsets, int **columns, double **values)
{
    if (!h || !h->is_set)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    SPARSE_CHECK(nnz && offsets && columns && values);
    *nnz = (int)h->m.values.size();
    *offsets = copied(h->m.pattern.offsets);
    *columns = copied(h->m.pattern.columns);
    *values = copied(h->m.values);
    return *offsets && *columns && *values ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}
