// Rule: sources that the host's C++ compiler builds use the API's C++ forms, and are linked with objects of mynvcc by
// it.
// build: c++ -std=c++17 -Wall -Werror -I$INCLUDE -I$SOURCE -c $SOURCE/parts/host_compiler_main.cpp -o main.o
// build: $NVCC -std=c++17 -c $SOURCE/host_compiler.cu -o kernels.o
// build: c++ main.o kernels.o -L$INCLUDE/../lib64 -Wl,-rpath,$INCLUDE/../lib64 -lcudart -o host_compiler
#include <cuda_runtime.h>

template <typename T> __global__ void add(T *sums, const T *terms, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sums[i] += terms[i];
}

template <typename T> void add_on_device(T *sums, const T *terms, int n, cudaStream_t stream)
{
    add<<<(n + 127) / 128, 128, 0, stream>>>(sums, terms, n);
}

template void add_on_device(float *, const float *, int, cudaStream_t);
template void add_on_device(long *, const long *, int, cudaStream_t);
