// Overlaps copies and kernels in streams, and times them with events.
//
//     mynvcc examples/cuda/streams.cu -o streams && ./streams
#include <cstdio>

#include <cuda_runtime.h>

constexpr int STREAMS = 4;
constexpr int PART = 1 << 18; // elements of each stream

__global__ void smooth(const float *in, float *out, int n, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i];
    for (int round = 0; round < rounds; round++)
        x = 0.5f * (x + 1.0f);
    out[i] = x;
}

int main()
{
    const size_t bytes = PART * sizeof(float);
    float *host, *in, *out;
    cudaStream_t streams[STREAMS];
    cudaEvent_t start, end;
    cudaMallocHost(&host, STREAMS * bytes); // page-locked: copies of it do not hold up this thread
    cudaMalloc(&in, STREAMS * bytes);
    cudaMalloc(&out, STREAMS * bytes);
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    for (int i = 0; i < STREAMS * PART; i++)
        host[i] = float(i % 1000);
    for (cudaStream_t &stream : streams)
        cudaStreamCreate(&stream);

    cudaEventRecord(start);
    for (int i = 0; i < STREAMS; i++) {
        float *part = host + i * PART;
        cudaMemcpyAsync(in + i * PART, part, bytes, cudaMemcpyHostToDevice, streams[i]);
        smooth<<<PART / 256, 256, 0, streams[i]>>>(in + i * PART, out + i * PART, PART, 10);
        cudaMemcpyAsync(part, out + i * PART, bytes, cudaMemcpyDeviceToHost, streams[i]);
    }
    cudaEventRecord(end); // in the default stream, which waits for the others
    if (cudaEventSynchronize(end) != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }

    float milliseconds;
    cudaEventElapsedTime(&milliseconds, start, end);
    for (int i = 0; i < STREAMS * PART; i++) {
        float expected = float(i % 1000);
        for (int round = 0; round < 10; round++)
            expected = 0.5f * (expected + 1.0f);
        if (host[i] != expected) {
            std::printf("element %d is %g, not %g\n", i, host[i], expected);
            return 1;
        }
    }
    std::printf("%d streams are right, in %.2f ms\n", STREAMS, milliseconds);
    for (cudaStream_t stream : streams)
        cudaStreamDestroy(stream);
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    cudaFree(in);
    cudaFree(out);
    cudaFreeHost(host);
    return 0;
}
