// Rule: a texture reference knows the channels of its type, with which arrays are made for it and bound to it.
// needs: CUDA 11
#include "check.h"

texture<unsigned short, 2, cudaReadModeElementType> grey;
texture<uchar4, 2, cudaReadModeElementType> colours;
texture<float3, 2, cudaReadModeElementType> none; // three channels are no format of a texture

__global__ void read(int *out, int width)
{
    int i = threadIdx.x;
    uchar4 colour = tex2D(colours, i % width, i / width);
    out[i] = tex2D(grey, i % width, i / width) + 1000 * colour.x + 100000 * colour.w;
}

static bool is(const cudaChannelFormatDesc &format, int x, int y, int z, int w, cudaChannelFormatKind kind)
{
    return format.x == x && format.y == y && format.z == z && format.w == w && format.f == kind;
}

template <class Texture, class T> static void bind(Texture &reference, const T *texels, int width, int height)
{
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &reference.channelDesc, width, height));
    CHECK(
        cudaMemcpy2DToArray(array, 0, 0, texels, width * sizeof(T), width * sizeof(T), height, cudaMemcpyHostToDevice));
    CHECK(cudaBindTextureToArray(reference, array));
}

int main()
{
    EXPECT(is(grey.channelDesc, 16, 0, 0, 0, cudaChannelFormatKindUnsigned));
    EXPECT(is(colours.channelDesc, 8, 8, 8, 8, cudaChannelFormatKindUnsigned));
    EXPECT(is(none.channelDesc, 0, 0, 0, 0, cudaChannelFormatKindNone));
    unsigned short greys[32];
    uchar4 rgba[32];
    for (int i = 0; i < 32; i++) {
        greys[i] = i;
        rgba[i] = make_uchar4(i, 0, 0, 2 * i);
    }
    bind(grey, greys, 8, 4);
    bind(colours, rgba, 8, 4);
    int got[32], *out;
    CHECK(cudaMalloc(&out, sizeof got));
    read<<<1, 32>>>(out, 8);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(got[i], i + 1000 * i + 200000 * i);
    return finish();
}
