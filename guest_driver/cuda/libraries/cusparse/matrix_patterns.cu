// The patterns of products and sums of sparse matrices.
#include "matrices.h"

using namespace vgc_sparse;

namespace
{
__global__ void count_rows(MatrixProduct p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= p.rows)
        return;
    long long count = 0;
    for (int i = p.a.offsets[row] - p.a.base; i < p.a.offsets[row + 1] - p.a.base; i++) {
        const int inner = p.a.columns[i] - p.a.base;
        count += p.b.offsets[inner + 1] - p.b.offsets[inner];
    }
    ((long long *)p.starts)[row + 1] = count;
}
__global__ void find_rows(MatrixProduct p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= p.rows)
        return;
    int *const columns = p.columns + p.starts[row];
    long long count = 0;
    for (int i = p.a.offsets[row] - p.a.base; i < p.a.offsets[row + 1] - p.a.base; i++) {
        const int inner = p.a.columns[i] - p.a.base;
        for (int j = p.b.offsets[inner] - p.b.base; j < p.b.offsets[inner + 1] - p.b.base; j++)
            columns[count++] = p.b.columns[j] - p.b.base;
    }
    Nothing nothing;
    p.ends[row + 1] = sum_up(columns, NoSums{&nothing}, count);
}
__global__ void put_found(MatrixProduct p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row > p.rows)
        return;
    p.c.offsets[row] = p.ends[row] + p.c.base;
    if (row < p.rows)
        for (int at = p.ends[row]; at < p.ends[row + 1]; at++)
            p.c.columns[at] = p.columns[p.starts[row] + at - p.ends[row]] + p.c.base;
}
__global__ void count_united(MatrixSum s)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= s.rows)
        return;
    int count = 0;
    unite(s, row, [&](int, int, int) { count++; });
    s.c.offsets[row + 1] = count;
}
} // namespace

SPARSE_ROWS(count_products, MatrixProduct, count_rows, work.rows)
SPARSE_ROWS(find_columns, MatrixProduct, find_rows, work.rows)
SPARSE_ROWS(put_columns, MatrixProduct, put_found, work.rows + 1)
SPARSE_ROWS(count_union, MatrixSum, count_united, work.rows)
