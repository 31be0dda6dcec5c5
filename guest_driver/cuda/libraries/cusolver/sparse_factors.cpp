/* Decompositions of sparse matrices. */
#include <climits>
#include <cmath>

#include "sparse.h"

namespace sparse
{
namespace
{
template <class T> int first_below(const std::vector<T> &diagonal, real_of<T> tolerance)
{
    for (size_t j = 0; j < diagonal.size(); j++)
        if (!(std::abs(diagonal[j]) > tolerance))
            return (int)j;
    return -1;
}
} // namespace

/* ---- LU: left-looking, column after column; the columns to its left that a column needs are found by a search ---- */

template <class T> Lu<T>::Lu(const Matrix<T> &a, double threshold) : places(a.pattern.rows, -1)
{
    const int n = a.pattern.rows;
    std::vector<Line<T>> columns(n);
    const std::vector<Line<T>> rows = a.lines();
    for (int i = 0; i < n; i++)
        for (const Entry<T> &entry : rows[i])
            columns[entry.index].push_back({i, entry.value});
    std::vector<T> x(n);
    Indices marks(n, -1);
    for (int k = 0; k < n; k++)
        add_column(columns[k], threshold, x, marks);
    for (Line<T> &line : upper)
        std::sort(line.begin(), line.end(), [](const auto &p, const auto &q) { return p.index < q.index; });
}
template <class T> void Lu<T>::add_column(const Line<T> &column, double threshold, std::vector<T> &x, Indices &marks)
{
    struct Visit {
        int row;
        size_t next;
    };
    const int k = (int)pivots.size();
    Indices found; /* rows, each behind those that it changes */
    std::vector<Visit> stack;
    for (const Entry<T> &entry : column) {
        if (marks[entry.index] == k)
            continue;
        marks[entry.index] = k;
        stack.push_back({entry.index, 0});
        while (!stack.empty()) {
            Visit &visit = stack.back();
            const int place = places[visit.row];
            if (place < 0 || visit.next == lower[place].size()) {
                found.push_back(visit.row);
                stack.pop_back();
                continue;
            }
            const int row = lower[place][visit.next++].index;
            if (marks[row] != k) {
                marks[row] = k;
                stack.push_back({row, 0});
            }
        }
    }
    for (int row : found)
        x[row] = T(0);
    for (const Entry<T> &entry : column)
        x[entry.index] += entry.value;
    Line<T> up, low;
    int pivot = -1;
    for (auto row = found.rbegin(); row != found.rend(); ++row) {
        const int place = places[*row];
        if (place >= 0) {
            const T known = x[*row];
            up.push_back({place, known});
            for (const Entry<T> &entry : lower[place])
                x[entry.index] -= entry.value * known;
        } else if (pivot < 0 || std::abs(x[*row]) > std::abs(x[pivot]))
            pivot = *row;
    }
    /* the diagonal, if it is not much smaller */
    if (pivot >= 0 && marks[k] == k && places[k] < 0 && std::abs(x[k]) >= threshold * std::abs(x[pivot]))
        pivot = k;
    const T value = pivot >= 0 ? x[pivot] : T(0);
    if (pivot < 0) /* no row left: the matrix is singular */
        pivot = (int)(std::find(places.begin(), places.end(), -1) - places.begin());
    for (int row : found)
        if (places[row] < 0 && row != pivot && x[row] != T(0))
            low.push_back({row, value == T(0) ? T(0) : x[row] / value});
    places[pivot] = k;
    pivots.push_back(pivot);
    diagonal.push_back(value);
    upper.push_back(std::move(up));
    lower.push_back(std::move(low));
}
template <class T> int Lu<T>::zero_pivot(real_of<T> tolerance) const
{
    return first_below(diagonal, tolerance);
}
template <class T> void Lu<T>::solve(const T *b, T *x) const
{
    const int n = (int)diagonal.size();
    std::vector<T> rest(b, b + n); /* by rows of A */
    for (int k = 0; k < n; k++) {
        x[k] = rest[pivots[k]];
        for (const Entry<T> &entry : lower[k])
            rest[entry.index] -= entry.value * x[k];
    }
    for (int k = n - 1; k >= 0; k--) {
        x[k] /= diagonal[k];
        for (const Entry<T> &entry : upper[k])
            x[entry.index] -= entry.value * x[k];
    }
}

/* ---- Cholesky: row after row, whose entries the elimination tree tells ---- */

template <class T> Cholesky<T>::Cholesky(const Matrix<T> &a) : lower(a.pattern.rows), diagonal(a.pattern.rows)
{
    const int n = a.pattern.rows;
    Indices parents(n, -1), marks(n, -1);
    std::vector<T> x(n);
    for (int k = 0; k < n && failed < 0; k++) {
        Indices order, path; /* columns, each before its ancestors */
        real_of<T> d = 0;
        marks[k] = k;
        for (int at = a.pattern.offsets[k]; at < a.pattern.offsets[k + 1]; at++) {
            int j = a.pattern.columns[at];
            if (j == k)
                d += std::real(a.values[at]);
            if (j >= k)
                continue;
            x[j] += conjugate(a.values[at]);
            for (path.clear(); marks[j] != k; j = parents[j]) {
                path.push_back(j);
                marks[j] = k;
                if (parents[j] < 0)
                    parents[j] = k;
            }
            order.insert(order.end(), path.rbegin(), path.rend());
        }
        /* parts were found from their last column to their first; the last part comes first */
        for (auto column = order.rbegin(); column != order.rend(); ++column) {
            const T known = x[*column] / diagonal[*column];
            x[*column] = T(0);
            for (const Entry<T> &entry : lower[*column])
                x[entry.index] -= entry.value * known;
            d -= std::norm(known);
            lower[*column].push_back({k, conjugate(known)});
        }
        if (d > 0)
            diagonal[k] = std::sqrt(d);
        else
            failed = k;
    }
}
template <class T> int Cholesky<T>::zero_pivot(real_of<T> tolerance) const
{
    return first_below(diagonal, tolerance);
}
template <class T> void Cholesky<T>::solve(const T *b, T *x) const
{
    const int n = (int)diagonal.size();
    if (x != b)
        std::copy(b, b + n, x);
    for (int k = 0; k < n; k++) {
        x[k] /= diagonal[k];
        for (const Entry<T> &entry : lower[k])
            x[entry.index] -= entry.value * x[k];
    }
    for (int k = n - 1; k >= 0; k--) {
        for (const Entry<T> &entry : lower[k])
            x[k] -= conjugate(entry.value) * x[entry.index];
        x[k] /= diagonal[k];
    }
}

/* ---- QR ---- */

namespace
{
/* (r, 0) = rotation (f, g) */
template <class T> typename Qr<T>::Rotation rotation_of(int column, T f, T g)
{
    const real_of<T> length = std::hypot(std::abs(f), std::abs(g));
    if (f == T(0))
        return {column, 0, conjugate(g) / length};
    return {column, std::abs(f) / length, f / std::abs(f) * conjugate(g) / length};
}
/* Rotates two rows that begin in the same column; the second loses it. */
template <class T> void rotate_rows(const typename Qr<T>::Rotation &by, Line<T> &first, Line<T> &second)
{
    Line<T> kept, rest;
    kept.reserve(first.size() + second.size());
    rest.reserve(first.size() + second.size());
    for (size_t p = 0, q = 0; p < first.size() || q < second.size();) {
        const int left = p < first.size() ? first[p].index : INT_MAX,
                  right = q < second.size() ? second[q].index : INT_MAX;
        const int column = left < right ? left : right;
        const T f = left == column ? first[p++].value : T(0), g = right == column ? second[q++].value : T(0);
        kept.push_back({column, by.c * f + by.s * g});
        if (column != by.column)
            rest.push_back({column, by.c * g - conjugate(by.s) * f});
    }
    first.swap(kept);
    second.swap(rest);
}
} // namespace

template <class T>
Qr<T>::Qr(const Matrix<T> &a) : upper(a.pattern.cols), rotations(a.pattern.rows), kept(a.pattern.rows, -1)
{
    std::vector<Line<T>> rows = a.lines();
    for (int i = 0; i < a.pattern.rows; i++) {
        Line<T> row = std::move(rows[i]);
        std::sort(row.begin(), row.end(), [](const auto &p, const auto &q) { return p.index < q.index; });
        while (!row.empty()) {
            const int column = row[0].index;
            if (row[0].value == T(0)) {
                row.erase(row.begin());
                continue;
            }
            if (upper[column].empty()) {
                kept[i] = column;
                upper[column] = std::move(row);
                break;
            }
            const Rotation by = rotation_of(column, upper[column][0].value, row[0].value);
            rotations[i].push_back(by);
            rotate_rows<T>(by, upper[column], row);
        }
    }
}
template <class T> int Qr<T>::zero_pivot(real_of<T> tolerance) const
{
    for (size_t j = 0; j < upper.size(); j++)
        if (upper[j].empty() || !(std::abs(upper[j][0].value) > tolerance))
            return (int)j;
    return -1;
}
template <class T> void Qr<T>::solve(const T *b, T *x) const
{
    std::vector<T> made(upper.size());
    for (size_t i = 0; i < rotations.size(); i++) {
        T value = b[i];
        for (const Rotation &by : rotations[i]) {
            const T first = made[by.column];
            made[by.column] = by.c * first + by.s * value;
            value = by.c * value - conjugate(by.s) * first;
        }
        if (kept[i] >= 0)
            made[kept[i]] = value;
    }
    for (size_t j = upper.size(); j-- > 0;) {
        T rest = made[j];
        for (size_t at = 1; at < upper[j].size(); at++)
            rest -= upper[j][at].value * x[upper[j][at].index];
        x[j] = upper[j].empty() ? T(0) : rest / upper[j][0].value;
    }
}

#define VGC_SPARSE_FACTORS(T)                                                                                          \
    template struct Lu<T>;                                                                                             \
    template struct Cholesky<T>;                                                                                       \
    template struct Qr<T>;
VGC_SPARSE_FACTORS(float)
VGC_SPARSE_FACTORS(double)
VGC_SPARSE_FACTORS(std::complex<float>)
VGC_SPARSE_FACTORS(std::complex<double>)
} // namespace sparse
