/* Linear systems and eigenvalues of sparse matrices in one call. */
#include <limits>
#include <memory>

#include "sparse_context.h"

using namespace sparse;

namespace
{
template <class T> using Made = std::unique_ptr<Factor<T>>;
template <class T> Made<T> by_lu(const Matrix<T> &a)
{
    return Made<T>(new Lu<T>(a, 1));
}
template <class T> Made<T> by_qr(const Matrix<T> &a)
{
    return Made<T>(new Qr<T>(a));
}
template <class T> Made<T> by_cholesky(const Matrix<T> &a)
{
    return Made<T>(new Cholesky<T>(a));
}
Indices order_of(const Pattern &pattern, int reorder)
{
    if (reorder)
        return reorder == 1 ? reverse_cuthill_mckee(pattern) : minimum_degree(pattern);
    Indices order(pattern.rows);
    for (int i = 0; i < pattern.rows; i++)
        order[i] = i;
    return order;
}

template <class T> struct System {
    int n, nnz;
    const cusparseMatDescr *descriptor;
    const T *values;
    const int *offsets, *columns;
};
template <class T>
status solve(handle h, Place place, System<T> system, Made<T> (*decompose)(const Matrix<T> &), const T *b,
             real_of<T> tolerance, int reorder, T *x, int *singularity)
{
    return guarded(h, [&]() -> status {
        Matrix<T> a;
        std::vector<T> right, result(system.n > 0 ? system.n : 0);
        SPARSE_CHECK(b && x && singularity && reorder >= 0 && reorder <= 3 && tolerance >= 0);
        SPARSE_TRY(fetch_matrix(h, place, system.n, system.n, system.nnz, system.descriptor, system.values,
                                system.offsets, system.columns, a));
        SPARSE_TRY(fetch(h, place, b, system.n, right));
        const Indices order = order_of(a.pattern, reorder);
        const Made<T> made = decompose(reorder ? reordered(a, order) : a);
        *singularity = made->zero_pivot(tolerance);
        if (*singularity >= 0)
            return CUSOLVER_STATUS_SUCCESS;
        std::vector<T> moved(system.n), solved(system.n);
        for (int i = 0; i < system.n; i++)
            moved[i] = right[order[i]];
        made->solve(moved.data(), solved.data());
        for (int i = 0; i < system.n; i++)
            result[order[i]] = solved[i];
        return put(h, place, result, x);
    });
}

template <class T> T product(const std::vector<T> &x, const std::vector<T> &y)
{
    T sum = T(0);
    for (size_t i = 0; i < x.size(); i++)
        sum += conjugate(x[i]) * y[i];
    return sum;
}
template <class T> void normalize(std::vector<T> &x)
{
    const real_of<T> length = std::sqrt(std::real(product(x, x)));
    for (T &value : x)
        value /= length;
}
template <class T> std::vector<T> times(const Matrix<T> &a, const std::vector<T> &x)
{
    std::vector<T> made(a.pattern.rows);
    for (int i = 0; i < a.pattern.rows; i++)
        for (int at = a.pattern.offsets[i]; at < a.pattern.offsets[i + 1]; at++)
            made[i] += a.values[at] * x[a.pattern.columns[at]];
    return made;
}
/* A - mu 1 */
template <class T> Matrix<T> shifted(const Matrix<T> &a, T mu)
{
    Matrix<T> made;
    made.pattern.rows = made.pattern.cols = a.pattern.rows;
    made.pattern.offsets.push_back(0);
    const std::vector<Line<T>> lines = a.lines();
    for (int i = 0; i < a.pattern.rows; i++) {
        T diagonal = -mu;
        for (const Entry<T> &entry : lines[i])
            if (entry.index == i)
                diagonal += entry.value;
            else {
                made.pattern.columns.push_back(entry.index);
                made.values.push_back(entry.value);
            }
        made.pattern.columns.push_back(i);
        made.values.push_back(diagonal);
        made.pattern.offsets.push_back((int)made.values.size());
    }
    return made;
}
/* The eigenvalue next to mu0 by inverse iteration. */
template <class T>
status find_eigenvalue(handle h, Place place, System<T> system, T mu0, const T *x0, int rounds, real_of<T> tolerance,
                       T *mu, T *x)
{
    return guarded(h, [&]() -> status {
        Matrix<T> a;
        std::vector<T> vector;
        SPARSE_CHECK(x0 && mu && x && rounds >= 0 && tolerance >= 0);
        SPARSE_TRY(fetch_matrix(h, place, system.n, system.n, system.nnz, system.descriptor, system.values,
                                system.offsets, system.columns, a));
        SPARSE_TRY(fetch(h, place, x0, system.n, vector));
        real_of<T> size = 1;
        for (const T &entry : a.values)
            size = std::max(size, std::abs(entry));
        std::unique_ptr<Lu<T>> made(new Lu<T>(shifted(a, mu0), 1));
        if (made->zero_pivot(0) >= 0) /* mu0 is an eigenvalue: close to it, its vectors can be found */
            made.reset(new Lu<T>(shifted(a, mu0 + T(size * std::numeric_limits<real_of<T>>::epsilon())), 1));
        std::vector<T> value{mu0};
        for (int round = 0; round < rounds; round++) {
            normalize(vector);
            made->solve(vector.data(), vector.data());
            normalize(vector);
            const std::vector<T> moved = times(a, vector);
            value[0] = product(vector, moved);
            real_of<T> rest = 0;
            for (int i = 0; i < system.n; i++)
                rest += std::norm(moved[i] - value[0] * vector[i]);
            if (std::sqrt(rest) <= tolerance)
                break;
        }
        SPARSE_TRY(put(h, place, value, mu));
        return put(h, place, vector, x);
    });
}
} // namespace

#define VGC_SOLVE(name, T, R, place, decompose)                                                                        \
    API status cusolverSp##name(handle h, int n, int nnz, const cusparseMatDescr_t descriptor, const T *values,        \
                                const int *offsets, const int *columns, const T *b, R tolerance, int reorder, T *x,    \
                                int *singularity)                                                                      \
    {                                                                                                                  \
        return solve<inside<T>::type>(h, place, {n, nnz, descriptor, in(values), offsets, columns}, decompose, in(b),  \
                                      tolerance, reorder, in(x), singularity);                                         \
    }
#define VGC_EIGENVALUE(name, T, R, place)                                                                              \
    API status cusolverSp##name(handle h, int n, int nnz, const cusparseMatDescr_t descriptor, const T *values,        \
                                const int *offsets, const int *columns, T mu0, const T *x0, int rounds, R tolerance,   \
                                T *mu, T *x)                                                                           \
    {                                                                                                                  \
        return find_eigenvalue<inside<T>::type>(h, place, {n, nnz, descriptor, in(values), offsets, columns},          \
                                                *in(&mu0), in(x0), rounds, tolerance, in(mu), in(x));                  \
    }
#define VGC_FUNCTIONS(S, T, R)                                                                                         \
    VGC_SOLVE(S##csrlsvluHost, T, R, ON_HOST, by_lu)                                                                   \
    VGC_SOLVE(S##csrlsvqrHost, T, R, ON_HOST, by_qr)                                                                   \
    VGC_SOLVE(S##csrlsvcholHost, T, R, ON_HOST, by_cholesky)                                                           \
    VGC_SOLVE(S##csrlsvqr, T, R, ON_DEVICE, by_qr)                                                                     \
    VGC_SOLVE(S##csrlsvchol, T, R, ON_DEVICE, by_cholesky)                                                             \
    VGC_EIGENVALUE(S##csreigvsiHost, T, R, ON_HOST)                                                                    \
    VGC_EIGENVALUE(S##csreigvsi, T, R, ON_DEVICE)
VGC_FUNCTIONS(S, float, float)
VGC_FUNCTIONS(D, double, double)
VGC_FUNCTIONS(C, cuComplex, float)
VGC_FUNCTIONS(Z, cuDoubleComplex, double)
