// Rule: __device__ variables keep their values between launches; their addresses and sizes are known on the host.
#include "check.h"

__device__ int counter = 5;
__device__ float table[4][8];
__device__ double *indirect;
namespace inner
{
__device__ short small = -3;
}

__global__ void count(void)
{
    atomicAdd(&counter, 1);
    table[threadIdx.x / 8][threadIdx.x % 8] = threadIdx.x;
    if (indirect && threadIdx.x == 0)
        *indirect = counter;
    if (threadIdx.x == 0)
        inner::small *= 2;
}

int main()
{
    int value, *address;
    size_t size;
    count<<<1, 32>>>();
    CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    EXPECT_EQUAL(value, 37);
    CHECK(cudaGetSymbolAddress((void **)&address, counter));
    CHECK(cudaGetSymbolSize(&size, table));
    EXPECT_EQUAL(size, sizeof(float) * 32);
    value = 100;
    CHECK(cudaMemcpy(address, &value, sizeof value, cudaMemcpyHostToDevice));
    double *device, result;
    CHECK(cudaMalloc(&device, sizeof *device));
    CHECK(cudaMemcpyToSymbol(indirect, &device, sizeof device));
    count<<<1, 32>>>();
    CHECK(cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT(result > 100 && result <= 132);
    CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    EXPECT_EQUAL(value, 132);
    float last;
    CHECK(cudaMemcpyFromSymbol(&last, table, sizeof last, 31 * sizeof last));
    EXPECT_EQUAL(last, 31);
    short small;
    CHECK(cudaMemcpyFromSymbol(&small, inner::small, sizeof small));
    EXPECT_EQUAL(small, -12);
    return finish();
}
