// Rule: a function that a stream calls may not use CUDA; after a failure callbacks are called with the error, and host
// functions are not called.
#include "check.h"

static cudaError_t inside = cudaSuccess, status = cudaSuccess;
static int calls;

static void use_cuda(void *)
{
    int *memory;
    inside = cudaMalloc(&memory, 4);
    calls++;
}

static void note(cudaStream_t, cudaError_t error, void *)
{
    status = error;
}

__global__ void fault(int *out)
{
    *out = 1;
}

int main()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaLaunchHostFunc(stream, use_cuda, NULL));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQUAL(inside, cudaErrorNotPermitted);
    EXPECT_EQUAL(cudaGetLastError(), cudaSuccess);
    EXPECT_ERROR(cudaLaunchHostFunc(stream, NULL, NULL), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaStreamAddCallback(stream, note, NULL, 1), cudaErrorInvalidValue);

    fault<<<1, 1, 0, stream>>>((int *)16);
    CHECK(cudaStreamAddCallback(stream, note, NULL, 0));
    CHECK(cudaLaunchHostFunc(stream, use_cuda, NULL));
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    EXPECT_EQUAL(status, cudaErrorIllegalAddress);
    EXPECT_EQUAL(calls, 1);
    return finish();
}
