// Rule: pinned, mapped and registered host memory is memory that kernels reach by its device address.
#include "check.h"
#include <string.h>
#include <vector>

__global__ void twice(int *values, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        values[i] *= 2;
}

int main()
{
    const int n = 5000;
    CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
    int *pinned, *mapped, *seen, *device;
    unsigned flags;
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        pinned[i] = i;
    CHECK(cudaMemcpyAsync(device, pinned, n * sizeof(int), cudaMemcpyHostToDevice, 0));
    twice<<<1, 128>>>(device, n);
    CHECK(cudaMemcpyAsync(pinned, device, n * sizeof(int), cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
    EXPECT_EQUAL(pinned[n - 1], 2 * (n - 1));

    CHECK(cudaHostAlloc(&mapped, n * sizeof(int), cudaHostAllocMapped | cudaHostAllocPortable));
    CHECK(cudaHostGetFlags(&flags, mapped));
    EXPECT(flags & cudaHostAllocMapped);
    memcpy(mapped, pinned, n * sizeof(int));
    CHECK(cudaHostGetDevicePointer(&seen, mapped, 0));
    twice<<<1, 128>>>(seen, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i += 499)
        EXPECT_EQUAL(mapped[i], 4 * i);

    std::vector<int> values(n, 21);
    CHECK(cudaHostRegister(values.data(), n * sizeof(int), cudaHostRegisterMapped));
    EXPECT_ERROR(cudaHostRegister(values.data(), n * sizeof(int), cudaHostRegisterMapped),
                 cudaErrorHostMemoryAlreadyRegistered);
    CHECK(cudaHostGetDevicePointer((void **)&seen, values.data(), 0));
    twice<<<1, 128>>>(seen, n);
    CHECK(cudaDeviceSynchronize());
    EXPECT(values[0] == 42 && values[n - 1] == 42);
    CHECK(cudaHostUnregister(values.data()));
    EXPECT_ERROR(cudaHostUnregister(values.data()), cudaErrorHostMemoryNotRegistered);
    CHECK(cudaFreeHost(mapped));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(device));
    return finish();
}
