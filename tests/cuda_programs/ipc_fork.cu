// Rule: a child that was forked before CUDA was used opens its parent's memory, as often as it likes, and closes it as
// often.
#include "peer.h"

constexpr int COUNT = 1000, CHILDREN = 3;

__global__ void twice(int *numbers)
{
    numbers[threadIdx.x] *= 2;
}

static int work(const Peer &parent, int child)
{
    cudaIpcMemHandle_t handle;
    int *numbers, *again, *own, found[COUNT];
    parent.receive(&handle, sizeof handle);
    CHECK(cudaMalloc(&own, sizeof found));
    CHECK(cudaIpcOpenMemHandle((void **)&numbers, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenMemHandle((void **)&again, handle, cudaIpcMemLazyEnablePeerAccess));
    EXPECT(numbers == again && numbers != own);
    CHECK(cudaIpcCloseMemHandle(again));
    twice<<<1, 100>>>(numbers + 100 * child); /* each its part */
    CHECK(cudaMemcpy(own, numbers, sizeof found, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(found, own, sizeof found, cudaMemcpyDeviceToHost));
    for (int i = 100 * child; i < 100 * child + 100; i++)
        EXPECT_EQUAL(found[i], 2 * i);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, numbers + 1));
    EXPECT(attributes.type == cudaMemoryTypeDevice);
    EXPECT_ERROR(cudaFree(numbers), cudaErrorInvalidValue);
    CHECK(cudaIpcCloseMemHandle(numbers));
    CHECK(cudaFree(own));
    fflush(stdout);
    return failures;
}

int main()
{
    Peer children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork_peer();
        if (children[i].pid == 0)
            _exit(work(children[i], i));
    }
    cudaIpcMemHandle_t handle;
    int *numbers, found[COUNT];
    for (int i = 0; i < COUNT; i++)
        found[i] = i;
    CHECK(cudaMalloc(&numbers, sizeof found));
    CHECK(cudaMemcpy(numbers, found, sizeof found, cudaMemcpyHostToDevice));
    CHECK(cudaIpcGetMemHandle(&handle, numbers));
    for (int i = 0; i < CHILDREN; i++)
        children[i].send(&handle, sizeof handle);
    for (int i = 0; i < CHILDREN; i++)
        EXPECT_EQUAL(children[i].wait(), 0);
    CHECK(cudaMemcpy(found, numbers, sizeof found, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        EXPECT_EQUAL(found[i], i < 100 * CHILDREN ? 2 * i : i);
    CHECK(cudaFree(numbers));
    return finish();
}
