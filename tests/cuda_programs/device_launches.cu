// Rule: device code launches overloads, templates, kernels of namespaces and of macros, as host code does.
// flags: -rdc=true -lcudadevrt
#include "check.h"

__global__ void add(int *numbers)
{
    numbers[threadIdx.x] += 1;
}

__global__ void add(int *numbers, int by)
{
    numbers[threadIdx.x] += by;
}

namespace work
{
template <typename T, int N> __global__ void scale(T *numbers, T by)
{
    numbers[threadIdx.x] *= by + N;
}

template <typename T> struct Tool {
    static __device__ void triple(T *numbers)
    {
        ::work::template scale<T, 1><<<1, 32>>>(numbers, T(2));
    }
};
} // namespace work

struct Plus {
    int by;
    __device__ int operator()(int number) const
    {
        return number + by;
    }
};

template <typename F> __global__ void apply(int *numbers, F function)
{
    numbers[threadIdx.x] = function(numbers[threadIdx.x]);
}

#define ON_A_WARP(kernel, ...) kernel<<<1, 32>>>(__VA_ARGS__)

template <void (*KERNEL)(int *, int)> __global__ void by_pointer(int *numbers)
{
    KERNEL<<<1, 32>>>(numbers, 10000);
}

__global__ void parent(int *numbers)
{
    if (threadIdx.x != 0)
        return;
    add<<<1, 32>>>(numbers); // 1
    if (numbers != nullptr)
        add<<<dim3(1), dim3(32)>>>(numbers, 4); // 5
    else
        add<<<1, 32>>>(numbers, numbers == nullptr ? 1 : 2);
    work::Tool<int>::triple(numbers);              // 15
    work::scale<int, 0><<<1, 32, 0>>>(numbers, 2); // 30
    apply<<<1, 32>>>(numbers, Plus{7});            // 37
    const int more = 100;
    apply<<<1, 32>>>(numbers, [=] __device__(int number) { return number + more; }); // 137
    ON_A_WARP(apply, numbers, Plus{1000});                                           // 1137
}

int main()
{
    int *device, numbers[32];
    CHECK(cudaMalloc(&device, sizeof numbers));
    CHECK(cudaMemset(device, 0, sizeof numbers));
    parent<<<1, 32>>>(device);
    by_pointer<add><<<1, 1>>>(device); // 11137
    ON_A_WARP(add, device, 20000);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(numbers, device, sizeof numbers, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(numbers[i], 31137);
    return finish();
}
