// Rule: work of one stream runs in order; streams run beside one another; a stream can be asked and waited for.
#include "check.h"

__global__ void step(int *values, int n, int factor, int term)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * factor + term;
}

int main()
{
    const int streams = 4, n = 3000;
    cudaStream_t stream[streams];
    int *device[streams], *host[streams];
    for (int s = 0; s < streams; s++) {
        if (s % 2)
            CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
        else
            CHECK(cudaStreamCreate(&stream[s]));
        CHECK(cudaMalloc(&device[s], n * sizeof(int)));
        CHECK(cudaMallocHost(&host[s], n * sizeof(int)));
        for (int i = 0; i < n; i++)
            host[s][i] = i;
    }
    for (int s = 0; s < streams; s++)
        CHECK(cudaMemcpyAsync(device[s], host[s], n * sizeof(int), cudaMemcpyHostToDevice, stream[s]));
    for (int round = 0; round < 10; round++)
        for (int s = 0; s < streams; s++)
            step<<<(n + 127) / 128, 128, 0, stream[s]>>>(device[s], n, 3, s + round);
    for (int s = 0; s < streams; s++)
        CHECK(cudaMemcpyAsync(host[s], device[s], n * sizeof(int), cudaMemcpyDeviceToHost, stream[s]));
    for (int s = 0; s < streams; s++) {
        CHECK(cudaStreamSynchronize(stream[s]));
        EXPECT_EQUAL(cudaStreamQuery(stream[s]), cudaSuccess);
        for (int i = 0; i < n; i += 271) {
            unsigned wanted = i;
            for (int round = 0; round < 10; round++)
                wanted = wanted * 3 + s + round;
            EXPECT_EQUAL(host[s][i], (int)wanted);
        }
    }
    unsigned flags;
    CHECK(cudaStreamGetFlags(stream[1], &flags));
    EXPECT_EQUAL(flags, cudaStreamNonBlocking);
    CHECK(cudaStreamGetFlags(stream[0], &flags));
    EXPECT_EQUAL(flags, cudaStreamDefault);
    step<<<1, 32, 0, stream[0]>>>(device[0], 32, 0, 9);
    CHECK(cudaStreamDestroy(stream[0])); /* its work still ends */
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host[0], device[0], 4, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(host[0][0], 9);
    for (int s = 1; s < streams; s++)
        CHECK(cudaStreamDestroy(stream[s]));
    return finish();
}
