// Rule: streams have an identity of their own, a device, and attributes that can be set and copied.
#include "check.h"

__global__ void put(int *out)
{
    *out = 1;
}

int main()
{
    cudaStream_t first, second;
    unsigned long long ids[3];
    int device = -1, *memory;
    cudaLaunchAttributeValue value = {};
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaStreamGetId(first, &ids[0]));
    CHECK(cudaStreamGetId(second, &ids[1]));
    CHECK(cudaStreamGetId(0, &ids[2]));
    CHECK(cudaStreamGetDevice(first, &device));
    EXPECT_EQUAL(device, 0);
    EXPECT(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    value.syncPolicy = cudaSyncPolicyYield;
    CHECK(cudaStreamSetAttribute(first, cudaLaunchAttributeSynchronizationPolicy, &value));
    CHECK(cudaStreamCopyAttributes(second, first));
    value.syncPolicy = cudaSyncPolicyAuto;
    CHECK(cudaStreamGetAttribute(second, cudaLaunchAttributeSynchronizationPolicy, &value));
    EXPECT_EQUAL(value.syncPolicy, cudaSyncPolicyYield);
    EXPECT_ERROR(cudaStreamSetAttribute(first, cudaLaunchAttributeCooperative, &value), cudaErrorInvalidValue);
    CHECK(cudaMalloc(&memory, sizeof *memory));
    EXPECT_EQUAL(cudaStreamQuery(first), cudaSuccess);
    put<<<1, 1, 0, first>>>(memory);
    CHECK(cudaStreamSynchronize(first));
    EXPECT_EQUAL(cudaStreamQuery(first), cudaSuccess);
    EXPECT_EQUAL(cudaStreamQuery(0), cudaSuccess);
    put<<<1, 1, 0, second>>>(memory);
    while (cudaStreamQuery(second) == cudaErrorNotReady) {
    }
    EXPECT_EQUAL(cudaGetLastError(), cudaSuccess);
    return finish();
}
