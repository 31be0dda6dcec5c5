// Rule: __half and __half2 compute and convert in kernels and on the host, rounded to 11 bits.
#include "check.h"
#include <cuda_fp16.h>

__global__ void work(const float *in, float *out, __half *halves)
{
    int i = threadIdx.x;
    __half a = __float2half(in[i]), b = __float2half_rn(0.5f);
    halves[i] = __hfma(a, b, __float2half(1.0f));
    __half2 pair = __halves2half2(a, b);
    pair = __hmul2(__hadd2(pair, pair), __float2half2_rn(2.0f));
    out[3 * i] = __low2float(pair);
    out[3 * i + 1] = __half2float(hsqrt(__hmul(a, a)));
    out[3 * i + 2] = __hgt(a, b) ? 1 : (float)(a - b);
}

int main()
{
    float in[16], out[48], *device_in, *device_out;
    __half halves[16], *device_halves;
    for (int i = 0; i < 16; i++)
        in[i] = i * 0.125f;
    CHECK(cudaMalloc(&device_in, sizeof in));
    CHECK(cudaMalloc(&device_out, sizeof out));
    CHECK(cudaMalloc(&device_halves, sizeof halves));
    CHECK(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice));
    work<<<1, 16>>>(device_in, device_out, device_halves);
    CHECK(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(halves, device_halves, sizeof halves, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 16; i++) {
        EXPECT_EQUAL(__half2float(halves[i]), in[i] * 0.5f + 1);
        EXPECT_EQUAL(out[3 * i], in[i] * 4);
        EXPECT_NEAR(out[3 * i + 1], in[i], 2e-3);
        EXPECT_EQUAL(out[3 * i + 2], in[i] > 0.5f ? 1 : in[i] - 0.5f);
    }
    EXPECT_EQUAL(__half2float(__float2half(2049.0f)), 2048);
    return finish();
}
