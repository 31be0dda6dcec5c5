/* Prints the MiB of each device that the program sees and that works, one a line. */
#include <stdio.h>

#include "checks.h"

int main(void)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorNoDevice)
        return 0;
    for (int i = 0; i < count && error == cudaSuccess; i++) {
        struct cudaDeviceProp properties;
        int *memory;
        int value = 40 + i;
        error = cudaSetDevice(i);
        if (error == cudaSuccess)
            error = cudaMalloc((void **)&memory, sizeof(value));
        if (error == cudaSuccess)
            error = cudaMemcpy(memory, &value, sizeof(value), cudaMemcpyHostToDevice);
        value = 0;
        if (error == cudaSuccess)
            error = cudaMemcpy(&value, memory, sizeof(value), cudaMemcpyDeviceToHost);
        if (error == cudaSuccess)
            error = cudaGetDeviceProperties(&properties, i);
        if (error == cudaSuccess && value == 40 + i)
            printf("%zu\n", properties.totalGlobalMem >> 20);
    }
    return error == cudaSuccess ? 0 : 1;
}
