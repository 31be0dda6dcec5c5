// Kernels of products and sums of sparse matrices in CSR with indices of 32 bits; a thread makes a row.
#pragma once
#include "access.h"
#include "matrix_work.h"

namespace vgc_sparse
{
// Stands for numbers where only columns count.
struct Nothing {
};
static __device__ inline Nothing operator+(Nothing, Nothing)
{
    return {};
}
struct NoSums {
    Nothing *any;
    __device__ Nothing &operator[](long long) const
    {
        return *any;
    }
};

template <class Sums> __device__ void sift(int *columns, Sums sums, long long root, long long count)
{
    const int column = columns[root];
    const auto sum = sums[root];
    for (long long child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && columns[child + 1] > columns[child])
            child++;
        if (columns[child] <= column)
            break;
        columns[root] = columns[child];
        sums[root] = sums[child];
        root = child;
    }
    columns[root] = column;
    sums[root] = sum;
}
// Few by insertion, many as a heap; by insertion, runs that are sorted already take one look each.
template <class Sums> __device__ void sort_columns(int *columns, Sums sums, long long count)
{
    if (count <= 48) {
        for (long long i = 1; i < count; i++) {
            const int column = columns[i];
            const auto sum = sums[i];
            long long at = i;
            for (; at > 0 && columns[at - 1] > column; at--) {
                columns[at] = columns[at - 1];
                sums[at] = sums[at - 1];
            }
            columns[at] = column;
            sums[at] = sum;
        }
        return;
    }
    for (long long root = count / 2 - 1; root >= 0; root--)
        sift(columns, sums, root, count);
    for (long long last = count - 1; last > 0; last--) {
        const int column = columns[0];
        const auto sum = sums[0];
        columns[0] = columns[last];
        sums[0] = sums[last];
        columns[last] = column;
        sums[last] = sum;
        sift(columns, sums, 0, last);
    }
}
// Sorts the row's room and adds up equal columns. Returns how many are left.
template <class Sums> __device__ int sum_up(int *columns, Sums sums, long long count)
{
    sort_columns(columns, sums, count);
    int kept = -1;
    for (long long i = 0; i < count; i++) {
        if (kept >= 0 && columns[kept] == columns[i]) {
            sums[kept] = sums[kept] + sums[i];
        } else {
            columns[++kept] = columns[i];
            sums[kept] = sums[i];
        }
    }
    return kept + 1;
}
template <class Number> __global__ void multiply_rows(MatrixProduct p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= p.rows)
        return;
    const Number alpha = value_of<Number>(p.alpha);
    int *const columns = p.columns + p.starts[row];
    Number *const sums = (Number *)p.sums + p.starts[row];
    long long count = 0;
    for (int i = p.a.offsets[row] - p.a.base; i < p.a.offsets[row + 1] - p.a.base; i++) {
        const int inner = p.a.columns[i] - p.a.base;
        const Number left = alpha * ((const Number *)p.a.values)[i];
        for (int j = p.b.offsets[inner] - p.b.base; j < p.b.offsets[inner + 1] - p.b.base; j++) {
            columns[count] = p.b.columns[j] - p.b.base;
            sums[count++] = left * ((const Number *)p.b.values)[j];
        }
    }
    p.ends[row + 1] = sum_up(columns, sums, count);
}
template <class Number> __global__ void put_rows(MatrixProduct p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row > p.rows)
        return;
    p.c.offsets[row] = p.ends[row] + p.c.base;
    if (row == p.rows)
        return;
    const Number beta = value_of<Number>(p.beta);
    Number *const values = (Number *)p.c.values;
    for (int at = p.ends[row]; at < p.ends[row + 1]; at++) {
        const long long from = p.starts[row] + at - p.ends[row];
        const Number sum = ((const Number *)p.sums)[from];
        p.c.columns[at] = p.columns[from] + p.c.base;
        values[at] = is_zero(beta) ? sum : sum + beta * values[at];
    }
}
template <class Number> __global__ void refill_rows(MatrixProduct p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= p.rows)
        return;
    const Number alpha = value_of<Number>(p.alpha), beta = value_of<Number>(p.beta);
    Number *const values = (Number *)p.c.values;
    const int begin = p.c.offsets[row] - p.c.base, end = p.c.offsets[row + 1] - p.c.base;
    for (int at = begin; at < end; at++)
        values[at] = is_zero(beta) ? beta : beta * values[at];
    for (int i = p.a.offsets[row] - p.a.base; i < p.a.offsets[row + 1] - p.a.base; i++) {
        const int inner = p.a.columns[i] - p.a.base;
        const Number left = alpha * ((const Number *)p.a.values)[i];
        for (int j = p.b.offsets[inner] - p.b.base; j < p.b.offsets[inner + 1] - p.b.base; j++) {
            const int column = p.b.columns[j] - p.b.base + p.c.base;
            int low = begin, high = end - 1;
            while (low < high) {
                const int middle = (low + high) / 2;
                if (p.c.columns[middle] < column)
                    low = middle + 1;
                else
                    high = middle;
            }
            values[low] = values[low] + left * ((const Number *)p.b.values)[j];
        }
    }
}

// Calls visit(column, entry of a or -1, entry of b or -1) for each column that either row has; both are sorted.
template <class Visit> __device__ void unite(const MatrixSum &s, long long row, Visit visit)
{
    int a = s.a.offsets[row] - s.a.base, b = s.b.offsets[row] - s.b.base;
    const int end_a = s.a.offsets[row + 1] - s.a.base, end_b = s.b.offsets[row + 1] - s.b.base;
    while (a < end_a || b < end_b) {
        const int column_a = a < end_a ? s.a.columns[a] - s.a.base : 0x7fffffff;
        const int column_b = b < end_b ? s.b.columns[b] - s.b.base : 0x7fffffff;
        visit(column_a < column_b ? column_a : column_b, column_a <= column_b ? a : -1, column_b <= column_a ? b : -1);
        a += column_a <= column_b;
        b += column_b <= column_a;
    }
}
template <class Number> __global__ void add_rows(MatrixSum s)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= s.rows)
        return;
    const Number alpha = value_of<Number>(s.alpha), beta = value_of<Number>(s.beta);
    const Number *const a = (const Number *)s.a.values, *const b = (const Number *)s.b.values;
    int at = s.c.offsets[row] - s.c.base;
    unite(s, row, [&](int column, int from_a, int from_b) {
        s.c.columns[at] = column + s.c.base;
        ((Number *)s.c.values)[at++] = from_b < 0   ? alpha * a[from_a]
                                       : from_a < 0 ? beta * b[from_b]
                                                    : alpha * a[from_a] + beta * b[from_b];
    });
}
} // namespace vgc_sparse

#define SPARSE_ROWS(NAME, WORK, KERNEL, COUNT)                                                                         \
    cudaError_t vgc_sparse::NAME(const WORK &work, cudaStream_t stream)                                                \
    {                                                                                                                  \
        if ((COUNT) > 0)                                                                                               \
            KERNEL<<<blocks_for(COUNT), 128, 0, stream>>>(work);                                                       \
        return cudaGetLastError();                                                                                     \
    }
#define SPARSE_MATRICES(LETTER, NUMBER)                                                                                \
    SPARSE_ROWS(multiply_##LETTER, MatrixProduct, multiply_rows<NUMBER>, work.rows)                                    \
    SPARSE_ROWS(put_##LETTER, MatrixProduct, put_rows<NUMBER>, work.rows + 1)                                          \
    SPARSE_ROWS(refill_##LETTER, MatrixProduct, refill_rows<NUMBER>, work.rows)
