// Rule: host functions and callbacks run once, in the order of their stream, which waits for them.
#include "check.h"

__global__ void twice(int *value)
{
    *value *= 2;
}

struct Log {
    int *pinned, seen[3], count;
    cudaError_t status;
};

static void CUDART_CB note(void *data)
{
    Log *log = (Log *)data;
    log->seen[log->count++] = *log->pinned;
    *log->pinned += 1;
}

static void CUDART_CB called_back(cudaStream_t, cudaError_t status, void *data)
{
    Log *log = (Log *)data;
    log->status = status;
    note(data);
}

int main()
{
    Log log = {};
    int *device;
    cudaStream_t stream;
    log.status = cudaErrorUnknown;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocHost(&log.pinned, sizeof(int)));
    CHECK(cudaMalloc(&device, sizeof(int)));
    *log.pinned = 10;
    for (int round = 0; round < 3; round++) {
        CHECK(cudaMemcpyAsync(device, log.pinned, sizeof(int), cudaMemcpyHostToDevice, stream));
        twice<<<1, 1, 0, stream>>>(device);
        CHECK(cudaMemcpyAsync(log.pinned, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
        if (round == 1)
            CHECK(cudaStreamAddCallback(stream, called_back, &log, 0));
        else
            CHECK(cudaLaunchHostFunc(stream, note, &log));
    }
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQUAL(log.count, 3);
    EXPECT_EQUAL(log.seen[0], 20);
    EXPECT_EQUAL(log.seen[1], 42);
    EXPECT_EQUAL(log.seen[2], 86);
    EXPECT_EQUAL(*log.pinned, 87);
    EXPECT_EQUAL(log.status, cudaSuccess);
    CHECK(cudaStreamDestroy(stream));
    return finish();
}
