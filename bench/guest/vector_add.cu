/* A small program, whose compilation is measured: with mynvcc, and, as C++ that launches nothing, with the host's
 * clang++. */
#include <cstdio>
#include <cuda_runtime.h>

#ifdef __CUDACC__
__global__ void add(const float *a, const float *b, float *sums, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        sums[i] = a[i] + b[i];
}
#endif

int main()
{
    const int count = 1 << 20;
    float *a, *b, *sums;
    if (cudaMallocManaged((void **)&a, count * sizeof(float)) != cudaSuccess ||
        cudaMallocManaged((void **)&b, count * sizeof(float)) != cudaSuccess ||
        cudaMallocManaged((void **)&sums, count * sizeof(float)) != cudaSuccess)
        return 1;
    for (int i = 0; i < count; i++)
        a[i] = b[i] = i;
#ifdef __CUDACC__
    add<<<(count + 255) / 256, 256>>>(a, b, sums, count);
#endif
    std::printf("%s, %g\n", cudaGetErrorString(cudaDeviceSynchronize()), sums[count - 1]);
    return 0;
}
