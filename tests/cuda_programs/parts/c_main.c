/* Main program of c_program.cu in C. */
#include <cuda_runtime_api.h>
#include <stdio.h>

cudaError_t scale(double *device, int n, double factor, cudaStream_t stream);

int main(void)
{
    double values[100], *device;
    struct cudaDeviceProp properties;
    cudaStream_t stream;
    enum cudaError error;
    int i, wrong = 0;
    for (i = 0; i < 100; i++)
        values[i] = i;
    error = cudaMalloc((void **)&device, sizeof values);
    if (error == cudaSuccess)
        error = cudaStreamCreate(&stream);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, 0);
    if (error == cudaSuccess)
        error = cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice);
    if (error == cudaSuccess)
        error = scale(device, 100, 2.5, stream);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(values, device, sizeof values, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) {
        printf("FAIL: %s\n", cudaGetErrorString(error));
        return 1;
    }
    for (i = 0; i < 100; i++)
        wrong += values[i] != i * 2.5;
    puts(wrong || properties.warpSize != 32 ? "FAIL" : "PASS");
    return wrong != 0;
}
