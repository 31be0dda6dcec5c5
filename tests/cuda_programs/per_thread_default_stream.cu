// Rule: with --default-stream per-thread each host thread has a default stream of its own, which orders only its work.
// flags: --default-stream per-thread
#include "check.h"
#include <thread>
#include <vector>

__global__ void step(int *value, int term)
{
    *value = *value * 3 + term;
}

static void work(int me, int *result)
{
    int *device, host = me;
    CHECK(cudaMalloc(&device, sizeof host));
    CHECK(cudaMemcpyAsync(device, &host, sizeof host, cudaMemcpyHostToDevice));
    for (int round = 0; round < 8; round++)
        step<<<1, 1>>>(device, me);
    CHECK(cudaMemcpyAsync(result, device, sizeof host, cudaMemcpyDeviceToHost, cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(0));
    CHECK(cudaFree(device));
}

int main()
{
    int results[4] = {};
    std::vector<std::thread> threads;
    for (int me = 0; me < 4; me++)
        threads.emplace_back(work, me, &results[me]);
    for (auto &thread : threads)
        thread.join();
    for (int me = 0; me < 4; me++) {
        int wanted = me;
        for (int round = 0; round < 8; round++)
            wanted = wanted * 3 + me;
        EXPECT_EQUAL(results[me], wanted);
    }
    return finish();
}
