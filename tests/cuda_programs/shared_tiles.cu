// Rule: threads of a block share static __shared__ arrays, and __syncthreads() orders their accesses.
#include "check.h"
#include <vector>

constexpr int TILE = 16;

__global__ __launch_bounds__(TILE *TILE) void multiply(float *c, const float *__restrict__ a,
                                                       const float *__restrict__ b, int n)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int step = 0; step < n; step += TILE) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * n + step + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(step + threadIdx.y) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; k++)
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

int main()
{
    const int n = 64;
    const size_t bytes = n * n * sizeof(float);
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; i++) {
        a[i] = i % 7;
        b[i] = i % 5 - 2;
    }
    float *device_a, *device_b, *device_c;
    CHECK(cudaMalloc(&device_a, bytes));
    CHECK(cudaMalloc(&device_b, bytes));
    CHECK(cudaMalloc(&device_c, bytes));
    CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
    dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
    multiply<<<grid, block>>>(device_c, device_a, device_b, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost));
    for (int row = 0; row < n; row++)
        for (int column = 0; column < n; column++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[row * n + k] * b[k * n + column];
            if (c[row * n + column] != sum)
                EXPECT_EQUAL(c[row * n + column], sum);
        }
    cudaFree(device_a);
    cudaFree(device_b);
    cudaFree(device_c);
    return finish();
}
