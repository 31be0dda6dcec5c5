// Rule: mathematical functions of both precisions, intrinsics and conversions give what the host's library gives.
#include "check.h"
#include <math.h>

__global__ void work(const double *in, double *out, float *singles)
{
    int i = threadIdx.x;
    double x = in[i];
    float f = x;
    double results[] = {sin(x),  exp(x / 8),  log(x + 1),         pow(x, 1.5),
                        sqrt(x), erf(x / 10), tgamma(x / 16 + 1), fma(x, x, 1.0)};
    for (int k = 0; k < 8; k++)
        out[8 * i + k] = results[k];
    float floats[] = {sinf(f),        __expf(f / 8), rsqrtf(f + 1),       __fdividef(f, 3),
                      __saturatef(f), fmaxf(f, 5),   __fadd_rn(f, 0.25f), (float)__float2int_rd(f + 0.75f)};
    for (int k = 0; k < 8; k++)
        singles[8 * i + k] = floats[k];
}

int main()
{
    double in[32], out[256], *device_in, *device_out;
    float singles[256], *device_singles;
    for (int i = 0; i < 32; i++)
        in[i] = i * 0.75;
    CHECK(cudaMalloc(&device_in, sizeof in));
    CHECK(cudaMalloc(&device_out, sizeof out));
    CHECK(cudaMalloc(&device_singles, sizeof singles));
    CHECK(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice));
    work<<<1, 32>>>(device_in, device_out, device_singles);
    CHECK(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(singles, device_singles, sizeof singles, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) {
        double x = in[i];
        double wanted[] = {sin(x),  exp(x / 8),  log(x + 1),         pow(x, 1.5),
                           sqrt(x), erf(x / 10), tgamma(x / 16 + 1), x * x + 1};
        for (int k = 0; k < 8; k++)
            EXPECT_NEAR(out[8 * i + k], wanted[k], 1e-13 * (1 + fabs(wanted[k])));
        float floats[] = {sinf(x),          expf(x / 8),          1 / sqrtf(x + 1),
                          (float)x / 3,     x < 1 ? (float)x : 1, x > 5 ? (float)x : 5,
                          (float)x + 0.25f, floorf(x + 0.75f)};
        for (int k = 0; k < 8; k++)
            EXPECT_NEAR(singles[8 * i + k], floats[k], 1e-5 * (1 + fabs(floats[k])));
    }
    return finish();
}
