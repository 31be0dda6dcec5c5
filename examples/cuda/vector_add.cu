// Adds two vectors: what a first CUDA program does.
//
//     mynvcc examples/cuda/vector_add.cu -o vector_add && ./vector_add
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

__global__ void add(const float *a, const float *b, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + b[i];
}

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s (`vgc last-error` says more)\n", what, cudaGetErrorString(error));
    std::exit(1);
}

int main()
{
    const int n = 1 << 20;
    const size_t bytes = n * sizeof(float);
    std::vector<float> a(n), b(n), sum(n);
    for (int i = 0; i < n; i++) {
        a[i] = float(i);
        b[i] = 0.5f * float(i);
    }

    cudaDeviceProp device;
    check(cudaGetDeviceProperties(&device, 0), "device");
    std::printf("%s: %d processing elements, %zu MiB\n", device.name, device.multiProcessorCount,
                device.totalGlobalMem >> 20);

    float *on_device[3];
    for (float *&memory : on_device)
        check(cudaMalloc(&memory, bytes), "memory");
    check(cudaMemcpy(on_device[0], a.data(), bytes, cudaMemcpyHostToDevice), "copy in");
    check(cudaMemcpy(on_device[1], b.data(), bytes, cudaMemcpyHostToDevice), "copy in");
    add<<<(n + 255) / 256, 256>>>(on_device[0], on_device[1], on_device[2], n);
    check(cudaGetLastError(), "launch");
    check(cudaMemcpy(sum.data(), on_device[2], bytes, cudaMemcpyDeviceToHost), "copy out");
    for (float *memory : on_device)
        check(cudaFree(memory), "free");

    for (int i = 0; i < n; i++) {
        if (sum[i] != a[i] + b[i]) {
            std::printf("element %d is %g, not %g\n", i, sum[i], a[i] + b[i]);
            return 1;
        }
    }
    std::printf("%d sums are right\n", n);
    return 0;
}
