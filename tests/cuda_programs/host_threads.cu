// Rule: host threads share the device, its memory and its streams; the last error is each thread's own.
#include "check.h"
#include <atomic>
#include <thread>
#include <vector>

__global__ void add(int *total, int value)
{
    atomicAdd(total, value);
}

static std::atomic<int> wrong;

static void work(int *total, int me)
{
    if (me % 2 == 0 && (cudaSetDevice(99) != cudaErrorInvalidDevice || cudaPeekAtLastError() != cudaErrorInvalidDevice))
        wrong++;
    if (me % 2 && cudaPeekAtLastError() != cudaSuccess)
        wrong++;
    cudaStream_t stream;
    int *own, value = 0;
    if (cudaStreamCreate(&stream) != cudaSuccess || cudaMalloc(&own, 4096) != cudaSuccess)
        wrong++;
    for (int round = 0; round < 20; round++)
        add<<<2, 32, 0, stream>>>(total, me);
    if (cudaMemsetAsync(own, 0, 4096, stream) != cudaSuccess)
        wrong++;
    add<<<1, 32, 0, stream>>>(own, me);
    if (cudaMemcpyAsync(&value, own, sizeof value, cudaMemcpyDeviceToHost, stream) != cudaSuccess ||
        cudaStreamSynchronize(stream) != cudaSuccess || value != 32 * me)
        wrong++;
    cudaFree(own);
    cudaStreamDestroy(stream);
}

int main()
{
    int *total, value;
    CHECK(cudaMalloc(&total, sizeof value));
    CHECK(cudaMemset(total, 0, sizeof value));
    CHECK(cudaDeviceSynchronize());
    std::vector<std::thread> threads;
    for (int me = 0; me < 8; me++)
        threads.emplace_back(work, total, me);
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQUAL(wrong.load(), 0);
    EXPECT_EQUAL(cudaGetLastError(), cudaSuccess);
    CHECK(cudaMemcpy(&value, total, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 28 * 20 * 64);
    return finish();
}
