// Rule: each level of a mipmapped array is an array; tex2DLod picks the level.
#include "check.h"

__global__ void read(cudaTextureObject_t texture, float *out)
{
    out[threadIdx.x] = tex2DLod<float>(texture, 0.5f, 0.5f, threadIdx.x);
}

int main()
{
    const int levels = 4, size = 16;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t mipmaps;
    CHECK(cudaMallocMipmappedArray(&mipmaps, &format, make_cudaExtent(size, size, 0), levels));
    for (int level = 0; level < levels; level++) {
        cudaArray_t array;
        cudaExtent extent;
        float cells[size * size];
        CHECK(cudaGetMipmappedArrayLevel(&array, mipmaps, level));
        CHECK(cudaArrayGetInfo(NULL, &extent, NULL, array));
        EXPECT_EQUAL(extent.width, size >> level);
        for (float &cell : cells)
            cell = 100 + level;
        size_t row = (size >> level) * sizeof(float);
        CHECK(cudaMemcpy2DToArray(array, 0, 0, cells, row, row, size >> level, cudaMemcpyHostToDevice));
    }
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeMipmappedArray;
    resource.res.mipmap.mipmap = mipmaps;
    cudaTextureDesc description = {};
    description.addressMode[0] = description.addressMode[1] = cudaAddressModeClamp;
    description.filterMode = cudaFilterModePoint;
    description.mipmapFilterMode = cudaFilterModePoint;
    description.readMode = cudaReadModeElementType;
    description.normalizedCoords = 1;
    description.maxMipmapLevelClamp = levels - 1;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, NULL));
    float *device, got[levels];
    CHECK(cudaMalloc(&device, sizeof got));
    read<<<1, levels>>>(texture, device);
    CHECK(cudaMemcpy(got, device, sizeof got, cudaMemcpyDeviceToHost));
    for (int level = 0; level < levels; level++)
        EXPECT_EQUAL(got[level], 100 + level);
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeMipmappedArray(mipmaps));
    return finish();
}
