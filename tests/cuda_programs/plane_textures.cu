// Rule: textures over 2D arrays and pitched memory filter, clamp, wrap, mirror, give borders by descriptor.
#include "check.h"

enum { WIDTH = 8, HEIGHT = 4 };

__global__ void read(cudaTextureObject_t texture, const float2 *places, float *out)
{
    out[threadIdx.x] = tex2D<float>(texture, places[threadIdx.x].x, places[threadIdx.x].y);
}

static cudaTextureObject_t over(cudaResourceDesc resource, cudaTextureAddressMode mode, bool linear, bool normalized)
{
    cudaTextureDesc description = {};
    description.addressMode[0] = description.addressMode[1] = mode;
    description.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    description.readMode = cudaReadModeElementType;
    description.normalizedCoords = normalized;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, NULL));
    return texture;
}

static void expect(cudaTextureObject_t texture, int n, const float2 *places, const float *wanted)
{
    float2 *device_places;
    float *out, got[8];
    CHECK(cudaMalloc(&device_places, n * sizeof(float2)));
    CHECK(cudaMalloc(&out, n * sizeof(float)));
    CHECK(cudaMemcpy(device_places, places, n * sizeof(float2), cudaMemcpyHostToDevice));
    read<<<1, n>>>(texture, device_places, out);
    CHECK(cudaMemcpy(got, out, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        EXPECT_NEAR(got[i], wanted[i], 0.05); /* weights have 8 bits of fraction */
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(device_places));
    CHECK(cudaFree(out));
}

int main()
{
    float image[HEIGHT][WIDTH];
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            image[y][x] = y * 10 + x;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaResourceDesc array = {}, pitched = {};
    array.resType = cudaResourceTypeArray;
    CHECK(cudaMallocArray(&array.res.array.array, &format, WIDTH, HEIGHT));
    CHECK(cudaMemcpy2DToArray(array.res.array.array, 0, 0, image, sizeof image[0], sizeof image[0], HEIGHT,
                              cudaMemcpyHostToDevice));
    pitched.resType = cudaResourceTypePitch2D;
    pitched.res.pitch2D.desc = format;
    pitched.res.pitch2D.width = WIDTH;
    pitched.res.pitch2D.height = HEIGHT;
    CHECK(cudaMallocPitch(&pitched.res.pitch2D.devPtr, &pitched.res.pitch2D.pitchInBytes, sizeof image[0], HEIGHT));
    CHECK(cudaMemcpy2D(pitched.res.pitch2D.devPtr, pitched.res.pitch2D.pitchInBytes, image, sizeof image[0],
                       sizeof image[0], HEIGHT, cudaMemcpyHostToDevice));

    const float2 inside[] = {{2.5f, 1.5f}, {2.9f, 1.1f}, {-4, 2.5f}, {100, 100}};
    const float points[] = {12, 12, 20, 37}, borders[] = {12, 12, 0, 0};
    expect(over(array, cudaAddressModeClamp, false, false), 4, inside, points);
    expect(over(array, cudaAddressModeBorder, false, false), 4, inside, borders);
    expect(over(pitched, cudaAddressModeClamp, false, false), 4, inside, points);

    const float2 between[] = {{3.0f, 1.5f}, {2.5f, 2.0f}, {3.0f, 2.0f}, {0, 0}};
    const float blends[] = {12.5f, 17, 17.5f, 0};
    expect(over(array, cudaAddressModeClamp, true, false), 4, between, blends);
    expect(over(pitched, cudaAddressModeClamp, true, false), 4, between, blends);

    const float2 around[] = {
        {2.5f / WIDTH, 1.5f / HEIGHT}, {1 + 2.5f / WIDTH, 1.5f / HEIGHT - 1}, {-0.5f / WIDTH, 0.1f}};
    const float wrapped[] = {12, 12, 7}, mirrored[] = {12, 25, 0};
    expect(over(array, cudaAddressModeWrap, false, true), 3, around, wrapped);
    expect(over(array, cudaAddressModeMirror, false, true), 3, around, mirrored);
    CHECK(cudaFreeArray(array.res.array.array));
    return finish();
}
