// Rule: atomicAdd on float, double, half and bfloat16 pairs loses no update.
// flags: -arch=sm_80
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void add(float *single, double *wide, __half2 *halves, __nv_bfloat162 *brains)
{
    atomicAdd(single, 0.5f);
    atomicAdd_block(single + 1, 1.0f);
    atomicAdd(wide, 0.25);
    atomicAdd(halves, __floats2half2_rn(1, 2));
    atomicAdd(brains, __floats2bfloat162_rn(1, 0.5f));
}

int main()
{
    char *device, got[64];
    CHECK(cudaMalloc(&device, sizeof got));
    CHECK(cudaMemset(device, 0, sizeof got));
    add<<<1, 128>>>((float *)device, (double *)(device + 16), (__half2 *)(device + 32),
                    (__nv_bfloat162 *)(device + 48));
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got, device, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(((float *)got)[0], 64);
    EXPECT_EQUAL(((float *)got)[1], 128);
    EXPECT_EQUAL(*(double *)(got + 16), 32);
    EXPECT_EQUAL(__low2float(*(__half2 *)(got + 32)), 128);
    EXPECT_EQUAL(__high2float(*(__half2 *)(got + 32)), 256);
    EXPECT_EQUAL(__low2float(*(__nv_bfloat162 *)(got + 48)), 128);
    EXPECT_EQUAL(__high2float(*(__nv_bfloat162 *)(got + 48)), 64);
    return finish();
}
