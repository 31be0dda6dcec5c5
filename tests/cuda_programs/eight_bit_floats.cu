// Rule: the 8-bit formats e4m3 and e5m2 convert with saturation, alike in kernels and on the host.
#include "check.h"
#include <cuda_fp8.h>
#include <math.h>

__global__ void convert(const float *in, __nv_fp8_e4m3 *e4m3, __nv_fp8_e5m2 *e5m2, float *back)
{
    int i = threadIdx.x;
    e4m3[i] = __nv_fp8_e4m3(in[i]);
    e5m2[i] = __nv_fp8_e5m2(in[i]);
    back[2 * i] = float(e4m3[i]);
    back[2 * i + 1] = float(e5m2[i]);
}

int main()
{
    float in[32], back[64], *device_in, *device_back;
    __nv_fp8_e4m3 a[32], *device_a;
    __nv_fp8_e5m2 b[32], *device_b;
    for (int i = 0; i < 32; i++)
        in[i] = (i - 16) * (i % 5 + 0.3f) * (i == 31 ? 1e6f : 1);
    CHECK(cudaMalloc(&device_in, sizeof in));
    CHECK(cudaMalloc(&device_back, sizeof back));
    CHECK(cudaMalloc(&device_a, sizeof a));
    CHECK(cudaMalloc(&device_b, sizeof b));
    CHECK(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice));
    convert<<<1, 32>>>(device_in, device_a, device_b, device_back);
    CHECK(cudaMemcpy(back, device_back, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(a, device_a, sizeof a, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b, device_b, sizeof b, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) {
        EXPECT_EQUAL(a[i].__x, __nv_fp8_e4m3(in[i]).__x);
        EXPECT_EQUAL(b[i].__x, __nv_fp8_e5m2(in[i]).__x);
        if (i != 31) {
            EXPECT_NEAR(back[2 * i], in[i], fabs(in[i]) / 16 + 1e-3);
            EXPECT_NEAR(back[2 * i + 1], in[i], fabs(in[i]) / 8 + 1e-3);
        }
    }
    EXPECT_EQUAL(back[62], 448);
    EXPECT_EQUAL(back[63], 57344);
    return finish();
}
