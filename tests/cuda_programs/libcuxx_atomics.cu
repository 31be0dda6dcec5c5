// Rule: cuda::atomic and cuda::std types of libcu++ work in kernels and on the host.
// flags: -std=c++17 -arch=sm_80
// needs: cccl
#include "check.h"
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/tuple>

__global__ void count(cuda::atomic<int, cuda::thread_scope_device> *total, unsigned *plain, int *out)
{
    total->fetch_add(2, cuda::memory_order_relaxed);
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> view(*plain);
    view.fetch_max(blockIdx.x * blockDim.x + threadIdx.x);
    cuda::std::array<int, 3> values = {1, 2, 3};
    auto pair = cuda::std::make_tuple(values[1], 5);
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *out = cuda::std::get<0>(pair) * 10 + cuda::std::get<1>(pair);
}

int main()
{
    cuda::atomic<int, cuda::thread_scope_device> *total;
    unsigned *plain, largest;
    int sum, *out, value;
    CHECK(cudaMalloc((void **)&total, sizeof *total));
    CHECK(cudaMalloc(&plain, sizeof *plain));
    CHECK(cudaMalloc(&out, sizeof *out));
    CHECK(cudaMemset(total, 0, sizeof *total));
    CHECK(cudaMemset(plain, 0, sizeof *plain));
    count<<<4, 64>>>(total, plain, out);
    CHECK(cudaMemcpy(&sum, total, sizeof sum, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&largest, plain, sizeof largest, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(sum, 512);
    EXPECT_EQUAL(largest, 255);
    EXPECT_EQUAL(value, 25);
    cuda::std::array<int, 2> host = {4, 5};
    EXPECT_EQUAL(host[1], 5);
    return finish();
}
