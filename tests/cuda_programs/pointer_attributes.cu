// Rule: cudaPointerGetAttributes tells device, pinned, registered, managed and ordinary memory apart.
#include "check.h"

static void expect(const void *pointer, cudaMemoryType type, const void *device, const void *host)
{
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, pointer));
    EXPECT_EQUAL(attributes.type, type);
    EXPECT(attributes.devicePointer == device);
    if (type == cudaMemoryTypeUnregistered)
        return; /* devices differ in hostPointer: some use all memory of the host */
    EXPECT(attributes.hostPointer == host);
    EXPECT_EQUAL(attributes.device, 0);
}

int main()
{
    char *device, *pinned, *mapped, *managed, *seen;
    static char ordinary[8192];
    CHECK(cudaMalloc(&device, 1000));
    CHECK(cudaMallocHost(&pinned, 1000));
    CHECK(cudaHostAlloc(&mapped, 1000, cudaHostAllocMapped));
    CHECK(cudaMallocManaged(&managed, 1000));
    expect(device, cudaMemoryTypeDevice, device, NULL);
    expect(device + 999, cudaMemoryTypeDevice, device + 999, NULL);
    CHECK(cudaHostGetDevicePointer(&seen, pinned, 0));
    expect(pinned, cudaMemoryTypeHost, seen, pinned);
    CHECK(cudaHostGetDevicePointer(&seen, mapped, 0));
    expect(mapped + 5, cudaMemoryTypeHost, seen + 5, mapped + 5);
    expect(managed, cudaMemoryTypeManaged, managed, managed);
    expect(ordinary, cudaMemoryTypeUnregistered, NULL, ordinary);
    CHECK(cudaHostRegister(ordinary, sizeof ordinary, cudaHostRegisterDefault));
    CHECK(cudaHostGetDevicePointer(&seen, ordinary, 0));
    expect(ordinary + 100, cudaMemoryTypeHost, seen + 100, ordinary + 100);
    CHECK(cudaHostUnregister(ordinary));
    CHECK(cudaFree(device));
    return finish();
}
