// Rule: __nv_bfloat16 has the range of float and 8 bits of precision, in kernels and on the host.
#include "check.h"
#include <cuda_bf16.h>

__global__ void work(const float *in, float *out)
{
    int i = threadIdx.x;
    __nv_bfloat16 a = __float2bfloat16(in[i]);
    __nv_bfloat162 pair = __floats2bfloat162_rn(in[i], 2.0f);
    pair = __hadd2(pair, pair);
    out[2 * i] = __bfloat162float(__hmul(a, __float2bfloat16(2.0f)));
    out[2 * i + 1] = __low2float(pair) + __high2float(pair);
}

int main()
{
    float in[16], out[32], *device_in, *device_out;
    for (int i = 0; i < 16; i++)
        in[i] = i % 2 ? 1e30f * i : i;
    CHECK(cudaMalloc(&device_in, sizeof in));
    CHECK(cudaMalloc(&device_out, sizeof out));
    CHECK(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice));
    work<<<1, 16>>>(device_in, device_out);
    CHECK(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 16; i++) {
        float rounded = __bfloat162float(__float2bfloat16(in[i]));
        EXPECT_NEAR(rounded, in[i], in[i] / 256);
        EXPECT_EQUAL(out[2 * i], 2 * rounded);
        EXPECT_EQUAL(out[2 * i + 1], 2 * rounded + 4);
    }
    EXPECT_EQUAL(__bfloat162float(__float2bfloat16(257.0f)), 256);
    return finish();
}
