// Rule: 3D and layered arrays are filled by cudaMemcpy3D and read by tex3D and tex2DLayered.
#include "check.h"

enum { X = 6, Y = 5, Z = 4 };

__global__ void read(cudaTextureObject_t volume, cudaTextureObject_t layers, float *out)
{
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z, i = (z * Y + y) * X + x;
    out[i] = tex3D<float>(volume, x + 0.5f, y + 0.5f, z + 0.5f);
    out[i + X * Y * Z] = tex2DLayered<float>(layers, x + 0.5f, y + 0.5f, z);
}

static cudaTextureObject_t filled(unsigned flags, float *cells)
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(X, Y, Z), flags));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(cells, X * sizeof(float), X, Y);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(X, Y, Z); /* elements, since an array takes part */
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc description = {};
    for (cudaTextureAddressMode &mode : description.addressMode)
        mode = cudaAddressModeClamp;
    description.filterMode = flags ? cudaFilterModePoint : cudaFilterModeLinear;
    description.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, NULL));
    return texture;
}

int main()
{
    float cells[Z * Y * X], other[Z * Y * X], got[2 * Z * Y * X], *device;
    for (int i = 0; i < Z * Y * X; i++) {
        cells[i] = i * 3;
        other[i] = 1000 - i;
    }
    CHECK(cudaMalloc(&device, sizeof got));
    read<<<1, dim3(X, Y, Z)>>>(filled(cudaArrayDefault, cells), filled(cudaArrayLayered, other), device);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got, device, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < Z * Y * X; i++) {
        EXPECT_NEAR(got[i], cells[i], 1e-3);
        EXPECT_EQUAL(got[i + X * Y * Z], other[i]);
    }
    return finish();
}
