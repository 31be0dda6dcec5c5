// Rule: Thrust's algorithms are launched from the host half of relocatable code, too.
// flags: -std=c++17 -rdc=true
// units: parts/relocatable_twice.cu
// needs: cccl
#include "check.h"
#include <thrust/device_vector.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

extern __device__ int twice(int value);

static __global__ void negate(int *values, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] = -twice(values[i]);
}

int main(void)
{
    const int count = 1000;
    thrust::device_vector<int> values(count);
    thrust::sequence(values.begin(), values.end());
    negate<<<(count + 255) / 256, 256>>>(thrust::raw_pointer_cast(values.data()), count);
    CHECK(cudaDeviceSynchronize());
    thrust::sort(values.begin(), values.end());
    for (int i = 0; i < count; i += 111)
        EXPECT_EQUAL(values[i], 2 * (i + 1 - count));
    return finish();
}
