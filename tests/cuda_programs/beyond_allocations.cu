// Rule: a kernel that reads or writes a little before or behind its memory goes on, as on a GPU, and what it did there
// changes nothing of its own results.
#include "check.h"

__global__ void stencil(const float *from, float *to, int n, int reach)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; // no `if (i < n)`: the last block reaches beyond the end
    float left = from[i - reach], right = from[i + reach];
    to[i] = i >= reach && i < n - reach ? left + right : from[i];
}

int main()
{
    const int sizes[] = {1, 100, 1000, 100000, 3000001};
    for (int n : sizes) {
        const int reach = 1024;
        float *from, *to;
        float *host = (float *)malloc(n * sizeof(float));
        for (int i = 0; i < n; i++)
            host[i] = (float)(i % 1000);
        CHECK(cudaMalloc(&from, n * sizeof(float)));
        CHECK(cudaMalloc(&to, n * sizeof(float)));
        CHECK(cudaMemcpy(from, host, n * sizeof(float), cudaMemcpyHostToDevice));
        stencil<<<(n + 255) / 256, 256>>>(from, to, n, reach);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(host, to, n * sizeof(float), cudaMemcpyDeviceToHost));
        bool right = true;
        for (int i = 0; i < n; i++) {
            float wanted = i % 1000;
            if (i >= reach && i < n - reach)
                wanted = (float)((i - reach) % 1000 + (i + reach) % 1000);
            right = right && host[i] == wanted;
        }
        EXPECT(right);
        CHECK(cudaFree(from));
        CHECK(cudaFree(to));
        free(host);
    }
    return finish();
}
