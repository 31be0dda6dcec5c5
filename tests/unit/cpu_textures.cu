// Kernels that fetch from textures and access surfaces: one thread per place.
struct place {
    float x, y, z;
    int layer;
    float detail;
};

template <class T, class Fetch> __device__ void put(float4 *out, int n, Fetch fetch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T v = fetch(i);
    out[i] = make_float4(v.x, v.y, v.z, v.w);
}

#define FETCH(name, ...)                                                                                               \
    template <class T> __device__ void name##_as(float4 *out, cudaTextureObject_t t, const place *p, int n)            \
    {                                                                                                                  \
        put<T>(out, n, [=](int i) {                                                                                    \
            const place at = p[i];                                                                                     \
            return __VA_ARGS__;                                                                                        \
        });                                                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void name##_float(float4 *out, cudaTextureObject_t t, const place *p, int n)                 \
    {                                                                                                                  \
        name##_as<float4>(out, t, p, n);                                                                               \
    }                                                                                                                  \
    extern "C" __global__ void name##_int(float4 *out, cudaTextureObject_t t, const place *p, int n)                   \
    {                                                                                                                  \
        name##_as<int4>(out, t, p, n);                                                                                 \
    }
FETCH(fetch, tex1Dfetch<T>(t, at.layer))
FETCH(plain_1d, tex1D<T>(t, at.x))
FETCH(plain_2d, tex2D<T>(t, at.x, at.y))
FETCH(plain_3d, tex3D<T>(t, at.x, at.y, at.z))
FETCH(lod_1d, tex1DLod<T>(t, at.x, at.detail))
FETCH(lod_2d, tex2DLod<T>(t, at.x, at.y, at.detail))
FETCH(lod_3d, tex3DLod<T>(t, at.x, at.y, at.z, at.detail))
FETCH(layered_1d, tex1DLayered<T>(t, at.x, at.layer))
FETCH(layered_2d, tex2DLayered<T>(t, at.x, at.y, at.layer))
FETCH(layered_lod, tex2DLayeredLod<T>(t, at.x, at.y, at.layer, at.detail))
FETCH(cube, texCubemap<T>(t, at.x, at.y, at.z))
FETCH(cubes, texCubemapLayered<T>(t, at.x, at.y, at.z, at.layer))
FETCH(gather, tex2Dgather<T>(t, at.x, at.y, at.layer))
FETCH(grad_2d, tex2DGrad<T>(t, at.x, at.y, make_float2(at.z, 0), make_float2(0, at.detail)))

#define ONE(name, type, ...)                                                                                           \
    extern "C" __global__ void name(type *out, cudaTextureObject_t t, const place *p, int n)                           \
    {                                                                                                                  \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                                 \
        if (i < n) {                                                                                                   \
            const place at = p[i];                                                                                     \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    }
ONE(hot_fetch, float, out[i] = tex1Dfetch<float>(t, at.layer))
ONE(hot_1d, float, out[i] = tex1D<float>(t, at.x))
ONE(hot_2d, float, tex2D(&out[i], t, at.x, at.y))
ONE(hot_3d, float, out[i] = tex3D<float>(t, at.x, at.y, at.z))
ONE(hot_bytes, uchar4, out[i] = tex2D<uchar4>(t, at.x, at.y))
ONE(hot_shorts, short2, out[i] = tex2D<short2>(t, at.x, at.y))
ONE(narrow, unsigned char, out[i] = tex2D<unsigned char>(t, at.x, at.y))

texture<float, 2, cudaReadModeElementType> reference_2d;
static texture<uchar4, cudaTextureType1D, cudaReadModeNormalizedFloat> reference_1d;
surface<void, cudaSurfaceType2D> surface_reference;
extern "C" __global__ void by_reference(float4 *out, float *out2, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        out[i] = tex1Dfetch(reference_1d, i);
        out2[i] = tex2D(reference_2d, i + 0.5f, 0.5f);
        surf2Dwrite(out2[i] + 1, surface_reference, i * (int)sizeof(float), 1);
    }
}

struct site {
    int x, y, z, value;
};
#define SURFACE(name, ...)                                                                                             \
    template <cudaSurfaceBoundaryMode mode> __device__ void in_##name(int *out, cudaSurfaceObject_t s, const site *p)  \
    {                                                                                                                  \
        const site at = p[threadIdx.x];                                                                                \
        out[threadIdx.x] = surf##name##read<int>(s, __VA_ARGS__, mode);                                                \
        __syncthreads();                                                                                               \
        if (at.value)                                                                                                  \
            surf##name##write(at.value, s, __VA_ARGS__, mode);                                                         \
    }                                                                                                                  \
    extern "C" __global__ void zero_##name(int *out, cudaSurfaceObject_t s, const site *p)                             \
    {                                                                                                                  \
        in_##name<cudaBoundaryModeZero>(out, s, p);                                                                    \
    }                                                                                                                  \
    extern "C" __global__ void clamp_##name(int *out, cudaSurfaceObject_t s, const site *p)                            \
    {                                                                                                                  \
        in_##name<cudaBoundaryModeClamp>(out, s, p);                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void trap_##name(int *out, cudaSurfaceObject_t s, const site *p)                             \
    {                                                                                                                  \
        in_##name<cudaBoundaryModeTrap>(out, s, p);                                                                    \
    }
SURFACE(1D, at.x)
SURFACE(2D, at.x, at.y)
SURFACE(3D, at.x, at.y, at.z)
SURFACE(1DLayered, at.x, at.z)
SURFACE(2DLayered, at.x, at.y, at.z)
SURFACE(Cubemap, at.x, at.y, at.z)
SURFACE(CubemapLayered, at.x, at.y, at.z)

extern "C" __global__ void odd_sizes(cudaSurfaceObject_t s)
{
    int i = threadIdx.x;
    surf2Dwrite(make_uchar4(i, 1, 2, 3), s, 4 * i, 0);
    surf2Dwrite((unsigned short)(300 + i), s, 2 * i, 1);
    float2 both;
    surf2Dread(&both, s, 8 * i, 2);
    surf2Dwrite(make_float4(both.y, both.x, i, 0.5f), s, 16 * i, 3);
}

extern "C" __global__ void sums(float *out, cudaTextureObject_t t, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k <= i % 7; k++)
        for (int j = 0; j < width; j++)
            sum += tex2D<float>(t, i + k + 0.5f, j + 0.5f) * (k + 1);
    __syncthreads();
    for (int j = i; j > 0; j /= 2)
        sum -= tex1Dfetch<float>(t, j);
    out[i] = sum;
}
