/* Second unit of separate_units.cu, with static names that the first one has, too. */
#include "separate.h"

static __device__ int own = 200;

__device__ int other_twice(int value)
{
    return 2 * value;
}

__device__ void add_to_total(int value)
{
    atomicAdd(&shared_total, value);
}

static __global__ void store(int *out)
{
    *out = own + shared_total;
}

void store_of_other(int *device)
{
    store<<<1, 1>>>(device);
}
