// Rule: a child of a process that has used CUDA may end by exit(), with its handlers, or run another program, without
// disturbing the parent.
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int *out)
{
    *out += 1;
}

static int status_of(pid_t child)
{
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    int *device, value = 40, count = 0;
    if (argc > 1) { /* run by the child below */
        CHECK(cudaMalloc(&device, sizeof value));
        return 7;
    }
    CHECK(cudaMalloc(&device, sizeof value));
    CHECK(cudaMemcpy(device, &value, sizeof value, cudaMemcpyHostToDevice));
    add<<<1, 1>>>(device);
    pid_t child = fork();
    if (child == 0) {
        cudaError_t error = cudaGetDeviceCount(&count);
        add<<<1, 1>>>(device);
        exit(error == cudaErrorInitializationError && cudaGetLastError() == cudaErrorInitializationError &&
                     cudaDeviceReset() == cudaErrorInitializationError &&
                     cudaFree(device) == cudaErrorInitializationError
                 ? 5
                 : 1);
    }
    EXPECT_EQUAL(status_of(child), 5);
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
        _exit(2);
    }
    EXPECT_EQUAL(status_of(child), 7);
    add<<<1, 1>>>(device);
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 42);
    return finish();
}
