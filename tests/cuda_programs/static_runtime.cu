// Rule: a program linked with libcudart_static.a runs without the shared library, by mynvcc's option or any linker.
// build: $NVCC -c $SOURCE/static_runtime.cu -o program.o
// build: $NVCC --cudart static program.o -o by_mynvcc
// build: c++ program.o $INCLUDE/../lib64/libcudart_static.a -lpthread -ldl -lrt -o static_runtime
// build: for program in by_mynvcc static_runtime; do ! readelf -d $program | grep libcudart || exit 1; done
#include "check.h"

__constant__ int factor = 3;

__global__ void scale(int *values)
{
    values[threadIdx.x] *= factor;
}

int main()
{
    enum { N = 32 };
    int *device, host[N], six = 6;
    for (int i = 0; i < N; i++)
        host[i] = i;
    CHECK(cudaMalloc(&device, sizeof host));
    CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    scale<<<1, N>>>(device);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyToSymbol(factor, &six, sizeof six));
    scale<<<1, N>>>(device);
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        EXPECT_EQUAL(host[i], 18 * i);
    return finish();
}
