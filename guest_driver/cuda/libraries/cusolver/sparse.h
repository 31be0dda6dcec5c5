/* Sparse matrices and their decompositions on the guest's CPU. */
#pragma once
#include <algorithm>
#include <complex>
#include <cstddef>
#include <vector>

namespace sparse
{
template <class T> struct real {
    typedef T type;
};
template <class R> struct real<std::complex<R>> {
    typedef R type;
};
template <class T> using real_of = typename real<T>::type;
inline float conjugate(float x)
{
    return x;
}
inline double conjugate(double x)
{
    return x;
}
template <class R> std::complex<R> conjugate(std::complex<R> x)
{
    return std::conj(x);
}

typedef std::vector<int> Indices;
template <class T> struct Entry {
    int index;
    T value;
};
template <class T> using Line = std::vector<Entry<T>>; /* a row or a column */
/* By rows, indices from 0. */
struct Pattern {
    int rows = 0, cols = 0;
    Indices offsets, columns;
};
template <class T> struct Matrix {
    Pattern pattern;
    std::vector<T> values;
    std::vector<Line<T>> lines() const
    {
        std::vector<Line<T>> made(pattern.rows);
        for (int i = 0; i < pattern.rows; i++)
            for (int at = pattern.offsets[i]; at < pattern.offsets[i + 1]; at++)
                made[i].push_back({pattern.columns[at], values[at]});
        return made;
    }
};
/* B(i, j) = A(order[i], order[j]). */
template <class T> Matrix<T> reordered(const Matrix<T> &a, const Indices &order)
{
    Indices place(order.size());
    for (size_t i = 0; i < order.size(); i++)
        place[order[i]] = (int)i;
    Matrix<T> made;
    made.pattern.rows = a.pattern.rows;
    made.pattern.cols = a.pattern.cols;
    made.pattern.offsets.push_back(0);
    for (int row : order) {
        Line<T> line;
        for (int at = a.pattern.offsets[row]; at < a.pattern.offsets[row + 1]; at++)
            line.push_back({place[a.pattern.columns[at]], a.values[at]});
        std::sort(line.begin(), line.end(), [](const auto &x, const auto &y) { return x.index < y.index; });
        for (const Entry<T> &entry : line) {
            made.pattern.columns.push_back(entry.index);
            made.values.push_back(entry.value);
        }
        made.pattern.offsets.push_back((int)made.pattern.columns.size());
    }
    return made;
}

/* Orders of rows and columns that keep decompositions sparse, of the pattern of A + A^T. */
Indices reverse_cuthill_mckee(const Pattern &pattern);
Indices minimum_degree(const Pattern &pattern);

/* A decomposition: -1, or the first pivot that is at most `tolerance`. */
template <class T> struct Factor {
    virtual ~Factor() = default;
    virtual int zero_pivot(real_of<T> tolerance) const = 0;
    /* b has as many numbers as A has rows, x as A has columns. */
    virtual void solve(const T *b, T *x) const = 0;
};

/* P A = L U with partial pivoting; L has ones on its diagonal. */
template <class T> struct Lu final : Factor<T> {
    std::vector<Line<T>> lower, upper; /* by columns: rows of `lower` are those of A, `upper` those of U */
    std::vector<T> diagonal;
    Indices pivots, places; /* row of A of each pivot, and the pivot of each row */
    Lu(const Matrix<T> &a, double threshold);
    int zero_pivot(real_of<T> tolerance) const override;
    void solve(const T *b, T *x) const override;

  private:
    void add_column(const Line<T> &column, double threshold, std::vector<T> &x, Indices &marks);
};
/* A = L L^H of the lower triangle. */
template <class T> struct Cholesky final : Factor<T> {
    std::vector<Line<T>> lower; /* by columns, below the diagonal */
    std::vector<real_of<T>> diagonal;
    int failed = -1; /* row at which A is not positive definite */
    explicit Cholesky(const Matrix<T> &a);
    int zero_pivot(real_of<T> tolerance) const override;
    void solve(const T *b, T *x) const override;
};
/* A = Q R by Givens rotations, row after row; at least as many rows as columns. */
template <class T> struct Qr final : Factor<T> {
    struct Rotation {
        int column; /* of R's row */
        real_of<T> c;
        T s;
    };
    std::vector<Line<T>> upper; /* rows of R */
    std::vector<std::vector<Rotation>> rotations;
    Indices kept; /* row of R that a row of A became, or -1 */
    explicit Qr(const Matrix<T> &a);
    int zero_pivot(real_of<T> tolerance) const override;
    void solve(const T *b, T *x) const override;
};
} // namespace sparse
