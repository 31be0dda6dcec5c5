// Rule: in a child forked after CUDA was used, calls fail with cudaErrorInitializationError; the parent goes on.
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void put(int *out, int value)
{
    *out = value;
}

int main()
{
    int *device, *other, result = 0, status = -1;
    CHECK(cudaMalloc(&device, sizeof result));
    put<<<1, 1>>>(device, 5);
    CHECK(cudaDeviceSynchronize());
    pid_t child = fork();
    if (child == 0)
        _exit(cudaMalloc(&other, 4) == cudaErrorInitializationError &&
                      cudaDeviceSynchronize() == cudaErrorInitializationError
                  ? 0
                  : 1);
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(result, 5);
    put<<<1, 1>>>(device, 6);
    CHECK(cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(result, 6);
    return finish();
}
