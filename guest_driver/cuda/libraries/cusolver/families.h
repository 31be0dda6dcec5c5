/* Functions of one unit that others call. T: float, double, and complex numbers of both. */
#pragma once
#include "context.h"

namespace solver
{
/* op(A) X = B for a triangle of A, in place of B. */
struct triangle {
    cublasFillMode_t fill;
    cublasOperation_t op;
    bool is_unit;
};
template <class T> status solve_triangle(handle h, triangle form, i64 n, i64 count, const T *a, i64 lda, T *b, i64 ldb);

/* The identity, or what a triangle is with ones or zeros elsewhere. */
template <class T> status set_identity(handle h, i64 m, i64 n, T *a, i64 lda);
/* Copies op(A) (of m rows, n columns); `part`: all, or a triangle of the result. */
enum part { WHOLE, LOWER_PART, UPPER_PART, BELOW_PART, ABOVE_PART }; /* the last ones without the diagonal */
template <class T>
status copy_matrix(handle h, cublasOperation_t op, part kept, i64 m, i64 n, const T *a, i64 lda, T *b, i64 ldb);
/* Makes both triangles of a Hermitian matrix from one. */
template <class T> status fill_hermitian(handle h, cublasFillMode_t fill, i64 n, T *a, i64 lda);

/* The first zero of the diagonal, from 1, or 0. */
template <class T> status find_zero(handle h, i64 n, const T *a, i64 lda, int *info);

template <class T> status cholesky(handle h, cublasFillMode_t fill, i64 n, T *a, i64 lda, int *info);
/* Index: of the pivots, int or int64_t; null without pivoting. */
template <class T, class Index> status lu(handle h, i64 m, i64 n, T *a, i64 lda, Index *pivots, int *info);
template <class T, class Index>
status lu_solve(handle h, cublasOperation_t op, i64 n, i64 count, const T *a, i64 lda, const Index *pivots, T *b,
                i64 ldb);

template <class T> i64 qr_workspace(i64 m, i64 n);
template <class T> status qr(handle h, i64 m, i64 n, T *a, i64 lda, T *tau, T *work, int *info);
/* C of m x n = op(Q) C or C op(Q), where Q is a product of k reflectors. */
template <class T> i64 apply_q_workspace(cublasSideMode_t side, i64 m, i64 n, i64 k);
template <class T>
status apply_q(handle h, cublasSideMode_t side, cublasOperation_t op, i64 m, i64 n, i64 k, const T *a, i64 lda,
               const T *tau, T *c, i64 ldc, T *work);

/* The first n columns of Q, in place of the k reflectors. */
template <class T> i64 make_q_workspace(i64 m, i64 n);
template <class T> status make_q(handle h, i64 m, i64 n, i64 k, T *a, i64 lda, const T *tau, T *work);

/* Eigenvalues, ascending, and vectors in place of A, which has both triangles. */
template <class T> i64 eigen_workspace(bool vectors, i64 n);
template <class T>
status eigen(handle h, bool vectors, cublasFillMode_t fill, i64 n, T *a, i64 lda, real_of<T> *values, T *work,
             int *info);

template <class T> i64 gesvd_workspace(i64 m, i64 n);
/* LAPACK's gesvd for tall matrices. */
template <class T>
status gesvd(handle h, char jobu, char jobv, i64 m, i64 n, T *a, i64 lda, real_of<T> *values, T *u, i64 ldu, T *vt,
             i64 ldvt, T *work, int *info);
static inline bool is_gesvd(char jobu, char jobv, i64 m, i64 n, i64 lda, i64 ldu, i64 ldvt)
{
    const auto is_job = [](char job) { return job == 'A' || job == 'S' || job == 'O' || job == 'N'; };
    return is_job(jobu) && is_job(jobv) && !(jobu == 'O' && jobv == 'O') && n >= 0 && m >= n && is_leading(lda, m) &&
           (jobu == 'N' || jobu == 'O' ? ldu >= 1 : is_leading(ldu, m)) &&
           (jobv == 'N' || jobv == 'O' ? ldvt >= 1 : is_leading(ldvt, n));
}
} // namespace solver
