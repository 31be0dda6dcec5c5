/* Kernels of driver_arrays.c, which loads them as a module. */

texture<float, 2> plane;
texture<unsigned char, 1, cudaReadModeNormalizedFloat> line;
surface<void, 2> paper;

extern "C" __global__ void by_object(cudaTextureObject_t texture, int width, float *out)
{
    const int i = threadIdx.x;
    out[i] = tex2D<float>(texture, i % width + 0.5f, i / width + 0.5f);
}

extern "C" __global__ void bytes(cudaTextureObject_t texture, unsigned char *out)
{
    out[threadIdx.x] = tex1Dfetch<unsigned char>(texture, threadIdx.x);
}

extern "C" __global__ void between(cudaTextureObject_t texture, float x, float *out)
{
    *out = tex1D<float>(texture, x);
}

extern "C" __global__ void level(cudaTextureObject_t texture, float at, float *out)
{
    *out = tex2DLod<float>(texture, 0.5f, 0.5f, at);
}

extern "C" __global__ void twice(cudaSurfaceObject_t surface, int width)
{
    const int x = threadIdx.x % width, y = threadIdx.x / width;
    surf2Dwrite(2 * surf2Dread<float>(surface, 4 * x, y), surface, 4 * x, y);
}

extern "C" __global__ void by_plane(float x, float y, float *out)
{
    *out = tex2D(plane, x, y);
}

extern "C" __global__ void by_line(float *out)
{
    out[threadIdx.x] = tex1Dfetch(line, threadIdx.x);
}

extern "C" __global__ void by_paper(int width)
{
    const int x = threadIdx.x % width, y = threadIdx.x / width;
    surf2Dwrite(100.0f * y + x, paper, 4 * x, y);
}
