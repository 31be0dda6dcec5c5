// Rule: device code that asks about its device is told what host code is.
// flags: -rdc=true -lcudadevrt
#include "check.h"

static const cudaDeviceAttr ASKED[] = {cudaDevAttrMaxThreadsPerBlock,
                                       cudaDevAttrMaxBlockDimX,
                                       cudaDevAttrMaxBlockDimY,
                                       cudaDevAttrMaxBlockDimZ,
                                       cudaDevAttrMaxGridDimX,
                                       cudaDevAttrMaxGridDimY,
                                       cudaDevAttrMaxGridDimZ,
                                       cudaDevAttrMaxSharedMemoryPerBlock,
                                       cudaDevAttrMultiProcessorCount,
                                       cudaDevAttrWarpSize,
                                       cudaDevAttrComputeCapabilityMajor,
                                       cudaDevAttrComputeCapabilityMinor,
                                       cudaDevAttrUnifiedAddressing,
                                       cudaDevAttrManagedMemory,
                                       cudaDevAttrCooperativeLaunch};
enum { NUM_ASKED = sizeof ASKED / sizeof ASKED[0] };

__global__ void ask(const cudaDeviceAttr *attributes, int count, int *values, cudaError_t *errors, size_t *heap)
{
    int device = -1;
    cudaFuncCache cache;
    cudaSharedMemConfig banks;
    cudaGetDevice(&device);
    for (int i = 0; i < count; i++)
        errors[0] = errors[0] != cudaSuccess ? errors[0] : cudaDeviceGetAttribute(&values[i], attributes[i], device);
    errors[1] = cudaDeviceGetAttribute(&device, cudaDevAttrClockRate, 0);
    errors[2] = cudaDeviceGetAttribute(&device, cudaDevAttrWarpSize, 1);
    errors[3] = cudaDeviceGetLimit(heap, cudaLimitMallocHeapSize);
    errors[4] = cudaDeviceGetLimit(heap + 1, cudaLimitStackSize);
    errors[5] = cudaDeviceGetCacheConfig(&cache);
    errors[6] = cudaDeviceGetSharedMemConfig(&banks);
}

int main()
{
    cudaDeviceAttr *attributes;
    int *values;
    cudaError_t *errors;
    size_t *heap, wanted;
    CHECK(cudaMallocManaged(&attributes, sizeof ASKED));
    CHECK(cudaMallocManaged(&values, NUM_ASKED * sizeof(int)));
    CHECK(cudaMallocManaged(&errors, 7 * sizeof(cudaError_t)));
    CHECK(cudaMallocManaged(&heap, 2 * sizeof(size_t)));
    for (int i = 0; i < NUM_ASKED; i++)
        attributes[i] = ASKED[i];
    for (int i = 0; i < 7; i++)
        errors[i] = cudaSuccess;
    ask<<<1, 1>>>(attributes, NUM_ASKED, values, errors, heap);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(errors[0], cudaSuccess);
    for (int i = 0; i < NUM_ASKED; i++) {
        int value;
        CHECK(cudaDeviceGetAttribute(&value, ASKED[i], 0));
        EXPECT_EQUAL(values[i], value);
    }
    EXPECT_EQUAL(errors[1], cudaErrorNotSupported);
    EXPECT_EQUAL(errors[2], cudaErrorInvalidDevice);
    CHECK(cudaDeviceGetLimit(&wanted, cudaLimitMallocHeapSize));
    EXPECT(errors[3] == cudaSuccess && heap[0] == wanted);
    EXPECT_EQUAL(errors[4], cudaErrorUnsupportedLimit);
    EXPECT(errors[5] == cudaSuccess && errors[6] == cudaSuccess);
    return finish();
}
