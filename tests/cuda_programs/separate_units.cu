// Rule: with -rdc=true several files share __device__ functions and variables; names that are static stay their own.
// flags: -rdc=true
// units: parts/separate_other.cu parts/separate_host.cpp
#include "check.h"
#include "parts/separate.h"

__device__ int shared_total;
static __device__ int own = 100;

static __global__ void store(int *out)
{
    out[0] = own + shared_total;
}

__global__ void use_other(int *out)
{
    out[1] = other_twice(21);
    add_to_total(4);
}

int main()
{
    int *device, values[3];
    CHECK(cudaMalloc(&device, sizeof values));
    use_other<<<1, 1>>>(device);
    store<<<1, 1>>>(device);
    store_of_other(device + 2);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(values[0], 104);
    EXPECT_EQUAL(values[1], 42);
    EXPECT_EQUAL(values[2], 204);
    EXPECT_EQUAL(host_sum(values, 3), 350);
    int total;
    CHECK(cudaMemcpyFromSymbol(&total, shared_total, sizeof total));
    EXPECT_EQUAL(total, 4);
    return finish();
}
