// Rule: managed memory has one address for host and device; after a synchronisation each sees the other's stores.
// needs: CUDA 12
#include "check.h"

struct Node {
    int value;
    Node *next;
};

__global__ void raise(Node *node)
{
    for (; node; node = node->next)
        node->value += 10;
}

__global__ void fill(float *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += i;
}

int main()
{
    int managed;
    CHECK(cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, 0));
    EXPECT(managed);
    Node *nodes;
    CHECK(cudaMallocManaged(&nodes, 5 * sizeof(Node)));
    for (int i = 0; i < 5; i++) {
        nodes[i].value = i;
        nodes[i].next = i < 4 ? &nodes[i + 1] : NULL;
    }
    raise<<<1, 1>>>(nodes);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 5; i++)
        EXPECT_EQUAL(nodes[i].value, i + 10);
    nodes[2].value = 1000;
    raise<<<1, 1>>>(nodes);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(nodes[2].value, 1010);
    EXPECT_EQUAL(nodes[4].value, 24);

    const int n = 100000;
    float *values;
    CHECK(cudaMallocManaged(&values, n * sizeof(float), cudaMemAttachGlobal));
    for (int i = 0; i < n; i++)
        values[i] = 0.5f;
    CHECK(cudaMemAdvise(values, n * sizeof(float), cudaMemAdviseSetPreferredLocation, 0));
    CHECK(cudaMemPrefetchAsync(values, n * sizeof(float), 0));
    fill<<<(n + 255) / 256, 256>>>(values, n);
    CHECK(cudaMemPrefetchAsync(values, n * sizeof(float), cudaCpuDeviceId));
    CHECK(cudaDeviceSynchronize());
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += values[i] != i + 0.5f;
    EXPECT_EQUAL(wrong, 0);
    CHECK(cudaMemset(values, 0, n * sizeof(float)));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(values[n - 1], 0);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, values));
    EXPECT(attributes.type == cudaMemoryTypeManaged && attributes.hostPointer == values);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamAttachMemAsync(stream, values, 0, cudaMemAttachGlobal));
    fill<<<1, 64, 0, stream>>>(values, 64);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQUAL(values[63], 63);
    CHECK(cudaFree(values));
    CHECK(cudaFree(nodes));
    return finish();
}
