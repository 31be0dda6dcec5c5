// Rule: arrays that were copied to the device are added there, and the sum comes back.
#include "check.h"
#include <vector>

__global__ void add(const float *a, const float *b, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + b[i];
}

int main()
{
    const int n = 100003;
    std::vector<float> a(n), b(n), sum(n, -1.0f);
    for (int i = 0; i < n; i++) {
        a[i] = i * 0.5f;
        b[i] = n - i;
    }
    float *device_a, *device_b, *device_sum;
    CHECK(cudaMalloc(&device_a, n * sizeof(float)));
    CHECK(cudaMalloc((void **)&device_b, n * sizeof(float)));
    CHECK(cudaMalloc(&device_sum, n * sizeof(float)));
    CHECK(cudaMemcpy(device_a, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    add<<<(n + 255) / 256, 256>>>(device_a, device_b, device_sum, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sum.data(), device_sum, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        if (sum[i] != a[i] + b[i]) {
            EXPECT_EQUAL(sum[i], a[i] + b[i]);
            break;
        }
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_sum));
    return finish();
}
