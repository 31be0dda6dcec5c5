// Rule: cudaMemcpyToSymbol fills __constant__ variables, at offsets too and in the order of a stream.
#include "check.h"

struct Settings {
    float scale;
    int shift;
};

__constant__ float weights[16];
__constant__ Settings settings = {2.0f, 1};
static __constant__ int own = 11;

__global__ void apply(float *out)
{
    out[threadIdx.x] = weights[threadIdx.x] * settings.scale + settings.shift + own;
}

static void expect(float scale, int shift, int own_value, const float *values, float *device)
{
    float out[16];
    apply<<<1, 16>>>(device);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 16; i++)
        EXPECT_EQUAL(out[i], values[i] * scale + shift + own_value);
}

int main()
{
    float values[16], back[16], *device;
    for (int i = 0; i < 16; i++)
        values[i] = i * 1.5f;
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMemcpyToSymbol(weights, values, sizeof values));
    expect(2, 1, 11, values, device);
    values[3] = 100;
    values[4] = 200;
    CHECK(cudaMemcpyToSymbol(weights, values + 3, 2 * sizeof(float), 3 * sizeof(float), cudaMemcpyHostToDevice));
    Settings other = {0.5f, 7};
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemcpyToSymbolAsync(settings, &other, sizeof other, 0, cudaMemcpyHostToDevice, stream));
    int thirteen = 13;
    CHECK(cudaMemcpyToSymbolAsync(own, &thirteen, sizeof thirteen, 0, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    expect(0.5f, 7, 13, values, device);
    CHECK(cudaMemcpyFromSymbol(back, weights, sizeof back));
    EXPECT(back[3] == 100 && back[15] == 22.5f);
    CHECK(cudaMemcpyFromSymbolAsync(back, weights, sizeof(float), 4 * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQUAL(back[0], 200);
    CHECK(cudaStreamDestroy(stream));
    return finish();
}
