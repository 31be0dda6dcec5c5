// Rule: while a function of the host has not returned, its stream waits, and so does what must follow that.
#include "check.h"
#include <condition_variable>
#include <mutex>

static std::mutex mutex;
static std::condition_variable changed;
static bool is_open, has_begun;

static void wait_for_gate(void *)
{
    std::unique_lock<std::mutex> guard(mutex);
    has_begun = true;
    changed.notify_all();
    changed.wait(guard, [] { return is_open; });
}

static void open_gate()
{
    std::lock_guard<std::mutex> guard(mutex);
    is_open = true;
    changed.notify_all();
}

__global__ void put(int *out, int value)
{
    *out = value;
}

__global__ void add_to(const int *from, int *to, int value)
{
    *to = *from + value;
}

int main()
{
    cudaStream_t held, follower, apart;
    cudaEvent_t event;
    int *device, values[4] = {};
    CHECK(cudaStreamCreate(&held));
    CHECK(cudaStreamCreateWithFlags(&follower, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMemset(device, 0, sizeof values));
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaLaunchHostFunc(held, wait_for_gate, NULL));
    int seven = 7;
    put<<<1, 1, 0, held>>>(device, seven);
    seven = 8; /* arguments were taken at the launch */
    CHECK(cudaEventRecord(event, held));
    CHECK(cudaStreamWaitEvent(follower, event, 0));
    add_to<<<1, 1, 0, follower>>>(device, device + 1, 1);
    add_to<<<1, 1>>>(device, device + 2, 2); /* in the legacy stream */
    put<<<1, 1, 0, apart>>>(device + 3, 9);
    CHECK(cudaStreamSynchronize(apart));
    CHECK(cudaMemcpyAsync(&values[3], device + 3, sizeof(int), cudaMemcpyDeviceToHost, apart));
    CHECK(cudaStreamSynchronize(apart));
    EXPECT_EQUAL(values[3], 9);
    CHECK(cudaMemcpyAsync(values, device, sizeof values, cudaMemcpyDeviceToHost, apart));
    CHECK(cudaStreamSynchronize(apart));
    EXPECT(values[0] == 0 && values[1] == 0 && values[2] == 0);
    EXPECT_EQUAL(cudaStreamQuery(held), cudaErrorNotReady);
    EXPECT_EQUAL(cudaStreamQuery(follower), cudaErrorNotReady);
    EXPECT_EQUAL(cudaStreamQuery(0), cudaErrorNotReady);
    EXPECT_EQUAL(cudaStreamQuery(apart), cudaSuccess);
    EXPECT_EQUAL(cudaEventQuery(event), cudaErrorNotReady);
    EXPECT_EQUAL(cudaGetLastError(), cudaSuccess);
    CHECK(cudaStreamDestroy(held)); /* returns at once; what is pending goes on */
    CHECK(cudaEventDestroy(event));
    open_gate();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT(has_begun);
    EXPECT_EQUAL(values[0], 7);
    EXPECT_EQUAL(values[1], 8);
    EXPECT_EQUAL(values[2], 9);
    return finish();
}
