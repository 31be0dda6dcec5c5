// Rule: wmma multiplies tiles of halves into floats.
// flags: -arch=sm_80
#include "check.h"
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void multiply(const half *a, const half *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> tile_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> tile_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    for (int k = 0; k < 32; k += 16) {
        wmma::load_matrix_sync(tile_a, a + k, 32);
        wmma::load_matrix_sync(tile_b, b + k, 32);
        wmma::mma_sync(sum, tile_a, tile_b, sum);
    }
    for (int i = 0; i < sum.num_elements; i++)
        sum.x[i] *= 2;
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

int main()
{
    half a[16][32], b[16][32], *device_a, *device_b; /* b by columns */
    float c[16][16], *device_c;
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 32; k++) {
            a[i][k] = __float2half((i + k) % 5 - 2);
            b[i][k] = __float2half((i * 3 + k) % 7 * 0.5f);
        }
    CHECK(cudaMalloc(&device_a, sizeof a));
    CHECK(cudaMalloc(&device_b, sizeof b));
    CHECK(cudaMalloc(&device_c, sizeof c));
    CHECK(cudaMemcpy(device_a, a, sizeof a, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b, sizeof b, cudaMemcpyHostToDevice));
    multiply<<<1, 32>>>(device_a, device_b, device_c);
    CHECK(cudaMemcpy(c, device_c, sizeof c, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            float sum = 1;
            for (int k = 0; k < 32; k++)
                sum += __half2float(a[i][k]) * __half2float(b[j][k]);
            EXPECT_EQUAL(c[i][j], sum * 2);
        }
    return finish();
}
