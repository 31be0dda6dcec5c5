// Rule: kernels that may run on either side run on the device once processes share its memory, and find there what they
// wrote on the CPU before.
// flags: --either=*
#include "peer.h"

constexpr int COUNT = 3000, ROUNDS = 3;

__global__ void add(int *numbers, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < COUNT)
        numbers[i] += value;
}

static void take_turns(const Peer &other, int *numbers, bool begins)
{
    if (!begins)
        other.meet();
    for (int round = 0; round < ROUNDS; round++) {
        add<<<12, 256>>>(numbers, begins ? 1 : 100);
        CHECK(cudaDeviceSynchronize());
        other.meet(); /* the other's turn */
        if (begins || round + 1 < ROUNDS)
            other.meet();
    }
}

static int child(const Peer &parent)
{
    cudaIpcMemHandle_t handle;
    int *numbers, *own;
    CHECK(cudaMalloc(&own, COUNT * sizeof *own));
    add<<<12, 256>>>(own, 5); /* on the CPU */
    parent.receive(&handle, sizeof handle);
    CHECK(cudaIpcOpenMemHandle((void **)&numbers, handle, cudaIpcMemLazyEnablePeerAccess));
    take_turns(parent, numbers, false);
    add<<<12, 256>>>(own, 6);
    int found[COUNT];
    CHECK(cudaMemcpy(found, own, sizeof found, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        EXPECT_EQUAL(found[i], 11);
    CHECK(cudaIpcCloseMemHandle(numbers));
    fflush(stdout);
    return failures;
}

int main()
{
    setenv("VGC_EITHER_SIDE", "cpu", 1);
    Peer peer = fork_peer();
    if (peer.pid == 0)
        _exit(child(peer));
    cudaIpcMemHandle_t handle;
    int *numbers, found[COUNT];
    CHECK(cudaMalloc(&numbers, sizeof found));
    CHECK(cudaMemset(numbers, 0, sizeof found));
    add<<<12, 256>>>(numbers, 10000); /* on the CPU */
    CHECK(cudaIpcGetMemHandle(&handle, numbers));
    peer.send(&handle, sizeof handle);
    take_turns(peer, numbers, true);
    CHECK(cudaMemcpy(found, numbers, sizeof found, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        EXPECT_EQUAL(found[i], 10000 + ROUNDS * 101);
    EXPECT_EQUAL(peer.wait(), 0);
    CHECK(cudaFree(numbers));
    return finish();
}
