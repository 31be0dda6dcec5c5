// Rule: texture references, which CUDA 12 removed and old programs use, are bound to memory and arrays by name.
// needs: CUDA 11
#include "check.h"

texture<float, cudaTextureType1D, cudaReadModeElementType> line;
texture<float, 2> plane;

__global__ void read(float *out, int width)
{
    int i = threadIdx.x;
    out[i] = tex1Dfetch(line, i) + 1000 * tex2D(plane, i % width + 0.5f, i / width + 0.5f);
}

int main()
{
    float values[32], got[32], *device, *out;
    for (int i = 0; i < 32; i++)
        values[i] = i;
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMalloc(&out, sizeof values));
    CHECK(cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice));
    CHECK(cudaBindTexture(NULL, line, device, sizeof values));
    cudaArray *array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, 8, 4));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, values, 32, 32, 4, cudaMemcpyHostToDevice));
    plane.filterMode = cudaFilterModePoint;
    plane.addressMode[0] = cudaAddressModeClamp;
    CHECK(cudaBindTextureToArray(plane, array, format));
    read<<<1, 32>>>(out, 8);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(got[i], i + 1000 * i);
    CHECK(cudaUnbindTexture(line));
    CHECK(cudaUnbindTexture(plane));
    return finish();
}
