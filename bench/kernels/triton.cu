// The work of Triton's kernels in tests/ptx/triton, by hand. Matrices and rows are multiples of tiles.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void triton_add(const float *x, const float *y, float *out, int n)
{
    const int from = blockIdx.x * 1024 + threadIdx.x;
    for (int i = from; i < from + 1024 && i < n; i += 128)
        out[i] = x[i] + y[i];
}

// Largest value, or sum, of what the block's four warps have.
template <class Join> __device__ float of_block(float value, Join join)
{
    __shared__ float warps[4];
    for (int lanes = 16; lanes > 0; lanes /= 2)
        value = join(value, __shfl_xor_sync(~0u, value, lanes));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    return join(join(warps[0], warps[1]), join(warps[2], warps[3]));
}

extern "C" __global__ void triton_softmax(const float *x, float *out, int columns)
{
    const float *row = x + blockIdx.x * columns;
    float values[8], most = -INFINITY, sum = 0;
    for (int i = 0; i < 8; i++) {
        const int at = i * 128 + threadIdx.x;
        values[i] = at < columns ? row[at] : -INFINITY;
        most = fmaxf(most, values[i]);
    }
    most = of_block(most, [](float a, float b) { return fmaxf(a, b); });
    for (int i = 0; i < 8; i++)
        sum += values[i] = __expf(values[i] - most);
    sum = of_block(sum, [](float a, float b) { return a + b; });
    for (int i = 0; i < 8; i++)
        if (const int at = i * 128 + threadIdx.x; at < columns)
            out[blockIdx.x * columns + at] = values[i] / sum;
}

// Each of four warps has 32 x 32 of the block's tile of 64 x 64.
extern "C" __global__ void triton_matmul(const __half *a, const __half *b, float *c, int n, int k)
{
    __shared__ __half tile_a[64 * 32], tile_b[32 * 64];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
    const int row = blockIdx.x * 64, column = blockIdx.y * 64;
    const int own_row = threadIdx.x / 64 * 32, own_column = threadIdx.x / 32 % 2 * 32;
    for (int i = 0; i < 4; i++)
        wmma::fill_fragment(sums[i / 2][i % 2], 0.0f);
    for (int at = 0; at < k; at += 32) {
        for (int i = threadIdx.x; i < 64 * 32 / 8; i += 128) {
            ((uint4 *)tile_a)[i] = *(const uint4 *)&a[(row + i / 4) * k + at + i % 4 * 8];
            ((uint4 *)tile_b)[i] = *(const uint4 *)&b[(at + i / 8) * n + column + i % 8 * 8];
        }
        __syncthreads();
        for (int step = 0; step < 32; step += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(left[i], &tile_a[(own_row + i * 16) * 32 + step], 32);
                wmma::load_matrix_sync(right[i], &tile_b[step * 64 + own_column + i * 16], 64);
            }
            for (int i = 0; i < 4; i++)
                wmma::mma_sync(sums[i / 2][i % 2], left[i / 2], right[i % 2], sums[i / 2][i % 2]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        wmma::store_matrix_sync(&c[(row + own_row + i / 2 * 16) * n + column + own_column + i % 2 * 16],
                                sums[i / 2][i % 2], n, wmma::mem_row_major);
}
