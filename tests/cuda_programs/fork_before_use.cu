// Rule: a process that forks before it has used CUDA can use it in parent and child.
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void put(int *out, int value)
{
    *out = value;
}

static int computed(int value)
{
    int *device, result = 0;
    CHECK(cudaMalloc(&device, sizeof result));
    put<<<1, 1>>>(device, value);
    CHECK(cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device));
    return result;
}

int main()
{
    pid_t child = fork();
    if (child == 0) {
        fflush(stdout);
        _exit(computed(41) == 41 ? 0 : 1);
    }
    EXPECT_EQUAL(computed(17), 17);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return finish();
}
