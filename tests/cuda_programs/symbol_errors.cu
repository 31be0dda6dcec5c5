// Rule: what is no device variable is cudaErrorInvalidSymbol; copies beyond a variable are cudaErrorInvalidValue.
#include "check.h"

__device__ int values[8];
static int host_variable;

__global__ void use(int *out)
{
    *out = values[7];
}

int main()
{
    int source[16] = {}, *device, value = -1;
    void *address;
    size_t size;
    EXPECT_ERROR(cudaMemcpyToSymbol(host_variable, source, 4), cudaErrorInvalidSymbol);
    EXPECT_ERROR(cudaMemcpyFromSymbol(source, host_variable, 4), cudaErrorInvalidSymbol);
    EXPECT_ERROR(cudaGetSymbolAddress(&address, host_variable), cudaErrorInvalidSymbol);
    EXPECT_ERROR(cudaGetSymbolSize(&size, host_variable), cudaErrorInvalidSymbol);
    EXPECT_ERROR(cudaMemcpyToSymbol(values, source, 9 * sizeof(int)), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpyToSymbol(values, source, 4 * sizeof(int), 5 * sizeof(int)), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpyToSymbol(values, source, 4, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
    source[0] = 12;
    CHECK(cudaMemcpyToSymbol(values, source, 4, 7 * sizeof(int)));
    CHECK(cudaMalloc(&device, 4));
    use<<<1, 1>>>(device);
    CHECK(cudaMemcpy(&value, device, 4, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 12);
    return finish();
}
