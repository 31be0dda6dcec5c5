/* Program of test_cudart_memory.py: __managed__ variables, which host code and kernels use by name and by address. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("line %d: not %s\n", __LINE__, #condition);                                                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

__managed__ int total = 3;
static __device__ __managed__ float grid[2][4] = {{1, 2}, {3}};
__managed__ int *pointer;
__device__ int neighbour = 40; /* may lie in the same pages, but is the device's alone */

__global__ void change(int value, int *address)
{
    if (threadIdx.x == 0) {
        *address += value;
        total += value;
        neighbour++;
        if (pointer)
            *pointer = 77;
    }
    grid[threadIdx.x / 4][threadIdx.x % 4] += threadIdx.x * 0.5f;
}

int main()
{
    int got;
    total += 1;
    EXPECT(total == 4 && grid[1][0] == 3);
    change<<<1, 8>>>(2, &total);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess);
    EXPECT(total == 8 && grid[0][0] == 1 && grid[0][1] == 2.5f && grid[1][0] == 5 && grid[1][3] == 3.5f);
    EXPECT(cudaMallocManaged(&pointer, sizeof *pointer) == cudaSuccess);
    total = 100;
    change<<<1, 8>>>(1, pointer);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess);
    EXPECT(*pointer == 77 && total == 101);
    EXPECT(cudaMemcpyFromSymbol(&got, neighbour, sizeof got) == cudaSuccess && got == 42);
    EXPECT(cudaMemcpyFromSymbol(&got, total, sizeof got) == cudaSuccess && got == 101);
    got = 5;
    EXPECT(cudaMemcpyToSymbol(total, &got, sizeof got) == cudaSuccess && total == 5);
    cudaPointerAttributes attributes;
    EXPECT(cudaPointerGetAttributes(&attributes, &total) == cudaSuccess && attributes.type == cudaMemoryTypeManaged);
    EXPECT(cudaFree(&total) == cudaErrorInvalidValue);
    puts("PASS");
}
