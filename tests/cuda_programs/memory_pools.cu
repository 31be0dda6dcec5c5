// Rule: cudaMallocAsync and cudaFreeAsync take memory in a stream's order, from the default pool or another.
#include "check.h"

__global__ void fill(int *out, int n, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = value + i;
}

int main()
{
    int supported, *memory, value;
    const int n = 10000;
    cudaStream_t stream;
    cudaMemPool_t pool, own, current;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    EXPECT(supported);
    CHECK(cudaStreamCreate(&stream));
    for (int round = 0; round < 50; round++) {
        CHECK(cudaMallocAsync(&memory, n * sizeof(int), stream));
        fill<<<(n + 255) / 256, 256, 0, stream>>>(memory, n, round);
        CHECK(cudaMemcpyAsync(&value, memory + n - 1, sizeof value, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(memory, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQUAL(value, round + n - 1);
    }
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaDeviceGetMemPool(&current, 0));
    EXPECT(pool == current);
    unsigned long long threshold = 1 << 20, got = 0;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
    EXPECT_EQUAL(got, threshold);
    CHECK(cudaMemPoolTrimTo(pool, 0));

    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    CHECK(cudaMemPoolCreate(&own, &properties));
    CHECK(cudaMallocFromPoolAsync((void **)&memory, n * sizeof(int), own, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &got));
    EXPECT(got >= n * sizeof(int));
    fill<<<(n + 255) / 256, 256, 0, stream>>>(memory, n, 5);
    CHECK(cudaMemcpyAsync(&value, memory, sizeof value, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQUAL(value, 5);
    CHECK(cudaFreeAsync(memory, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(own));
    CHECK(cudaMallocAsync((void **)&memory, 64, 0));
    CHECK(cudaFree(memory)); /* allowed, too */
    return finish();
}
