// Rule: Thrust's vectors live on host and device; its algorithms sort, transform and reduce them there.
// flags: -std=c++17
// needs: cccl
#include "check.h"
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

struct Square {
    __host__ __device__ int operator()(int x) const
    {
        return x * x;
    }
};

int main()
{
    thrust::host_vector<int> host(1000);
    for (int i = 0; i < 1000; i++)
        host[i] = (i * 337) % 1000;
    thrust::device_vector<int> device = host;
    thrust::sort(device.begin(), device.end());
    host = device;
    for (int i = 0; i < 1000; i++)
        EXPECT_EQUAL(host[i], i);
    thrust::transform(device.begin(), device.end(), device.begin(), Square());
    EXPECT_EQUAL(thrust::reduce(device.begin(), device.end(), 0, thrust::plus<int>()), 332833500);
    EXPECT_EQUAL(device[31], 961);
    return finish();
}
