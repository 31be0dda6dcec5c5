// Rule: the properties of the device agree with its attributes, and are what programs rely on.
#include "check.h"
#include <string.h>

static int attribute(cudaDeviceAttr which)
{
    int value = -1;
    CHECK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

int main()
{
    int count = 0, device = -1, driver = 0, runtime = 0, chosen = -1;
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count >= 1);
    CHECK(cudaGetDevice(&device));
    EXPECT_EQUAL(device, 0);
    cudaDeviceProp properties;
    memset(&properties, 0xee, sizeof properties);
    CHECK(cudaGetDeviceProperties(&properties, 0));
    EXPECT(strlen(properties.name) > 0 && strlen(properties.name) < 256);
    EXPECT_EQUAL(properties.warpSize, 32);
    EXPECT_EQUAL(properties.warpSize, attribute(cudaDevAttrWarpSize));
    EXPECT_EQUAL(properties.major, attribute(cudaDevAttrComputeCapabilityMajor));
    EXPECT_EQUAL(properties.minor, attribute(cudaDevAttrComputeCapabilityMinor));
    EXPECT(properties.major >= 5 && properties.maxThreadsPerBlock == 1024);
    EXPECT_EQUAL(properties.maxThreadsPerBlock, attribute(cudaDevAttrMaxThreadsPerBlock));
    EXPECT_EQUAL(properties.multiProcessorCount, attribute(cudaDevAttrMultiProcessorCount));
    EXPECT_EQUAL(properties.sharedMemPerBlock, attribute(cudaDevAttrMaxSharedMemoryPerBlock));
    EXPECT(properties.sharedMemPerBlock >= 48 << 10 && properties.totalConstMem == 65536);
    EXPECT_EQUAL(properties.maxThreadsDim[0], attribute(cudaDevAttrMaxBlockDimX));
    EXPECT_EQUAL(properties.maxThreadsDim[2], attribute(cudaDevAttrMaxBlockDimZ));
    EXPECT_EQUAL(properties.maxGridSize[0], attribute(cudaDevAttrMaxGridDimX));
    EXPECT_EQUAL(properties.maxGridSize[0], 2147483647);
    EXPECT_EQUAL(properties.maxGridSize[1], 65535);
    EXPECT_EQUAL(properties.regsPerBlock, attribute(cudaDevAttrMaxRegistersPerBlock));
    EXPECT(properties.unifiedAddressing && properties.canMapHostMemory && properties.concurrentKernels);
    EXPECT(attribute(cudaDevAttrMemoryClockRate) > 0 && attribute(cudaDevAttrGlobalMemoryBusWidth) > 0);
    size_t available, total;
    CHECK(cudaMemGetInfo(&available, &total));
    EXPECT(available <= total && total <= properties.totalGlobalMem);
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    EXPECT(driver >= runtime && runtime == CUDART_VERSION);
    char bus[32];
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECK(cudaDeviceGetByPCIBusId(&device, bus));
    EXPECT_EQUAL(device, 0);
    CHECK(cudaChooseDevice(&chosen, &properties));
    EXPECT_EQUAL(chosen, 0);
    CHECK(cudaSetDevice(0));
    EXPECT_ERROR(cudaSetDevice(count), cudaErrorInvalidDevice);
    EXPECT_ERROR(cudaGetDeviceProperties(&properties, -1), cudaErrorInvalidDevice);
    EXPECT_ERROR(cudaDeviceGetAttribute(&device, (cudaDeviceAttr)9999, 0), cudaErrorInvalidValue);
    return finish();
}
