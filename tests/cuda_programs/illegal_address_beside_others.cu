// Rule: all threads are told of an access to an invalid address as such, whoever's kernel it was; none that it was
// lost.
#include "check.h"
#include <thread>
#include <vector>

__global__ void store(int *out, int rounds)
{
    for (int i = 0; i < rounds; i++)
        atomicAdd(out, 1);
}

static void work(int *memory, bool fails)
{
    cudaStream_t stream;
    if (cudaStreamCreate(&stream) != cudaSuccess)
        return; // the fault was told already
    for (int i = 0; i < 16; i++)
        store<<<1, 1, 0, stream>>>(fails && i == 8 ? (int *)16 : memory, 2000);
    int value;
    cudaMemcpyAsync(&value, memory, sizeof value, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    cudaError_t end = cudaDeviceSynchronize(); // the others may have come to their ends before
    EXPECT(end == cudaErrorIllegalAddress || (end == cudaSuccess && !fails));
}

int main()
{
    for (int round = 0; round < 4; round++) {
        int *memory;
        CHECK(cudaMalloc(&memory, sizeof *memory));
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back(work, memory, i == round);
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
        CHECK(cudaDeviceReset());
    }
    return finish();
}
