/* Texture and surface references for NVIDIA's compilers, which have none since CUDA 12. Sources with references get
 * this header (vhost_backend/engines/cuda/compiler/references.py). The guest's runtime binds a reference by writing a
 * texture or surface object to the variable's first 8 bytes. Host code is parsed, and no code is made of it. */
#pragma once

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

struct textureReference {
    unsigned long long object;
    int normalized;
    cudaTextureFilterMode filterMode;
    cudaTextureAddressMode addressMode[3];
    cudaChannelFormatDesc channelDesc;
    int sRGB;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization;
};
struct surfaceReference {
    unsigned long long object;
    cudaChannelFormatDesc channelDesc;
};

template <class T, int dimensions = 1, cudaTextureReadMode mode = cudaReadModeElementType>
struct texture : textureReference {
    __host__ __device__ constexpr texture(int normalised = 0, cudaTextureFilterMode filter = cudaFilterModePoint,
                                          cudaTextureAddressMode address = cudaAddressModeClamp,
                                          cudaChannelFormatDesc desc = {})
        : textureReference{0, normalised, filter, {address, address, address}, desc, 0, 0, cudaFilterModePoint, 0,
                           0, 0,          0}
    {
    }
};
template <class T, int dimensions = 1> struct surface : surfaceReference {
    __host__ __device__ constexpr surface() : surfaceReference{0, {}}
    {
    }
};

/* Type that fetches give: the element's, or floats. */
template <class T, cudaTextureReadMode mode> struct __vgc_fetched {
    typedef T type;
};
#define __VGC_AS_FLOAT(integer, floating)                                                                              \
    template <> struct __vgc_fetched<integer, cudaReadModeNormalizedFloat> {                                           \
        typedef floating type;                                                                                         \
    };
#define __VGC_AS_FLOATS(name)                                                                                          \
    __VGC_AS_FLOAT(name##1, float1) __VGC_AS_FLOAT(name##2, float2) __VGC_AS_FLOAT(name##4, float4)
__VGC_AS_FLOAT(char, float)
__VGC_AS_FLOAT(signed char, float)
__VGC_AS_FLOAT(unsigned char, float)
__VGC_AS_FLOAT(short, float)
__VGC_AS_FLOAT(unsigned short, float)
__VGC_AS_FLOATS(char)
__VGC_AS_FLOATS(uchar)
__VGC_AS_FLOATS(short)
__VGC_AS_FLOATS(ushort)
#undef __VGC_AS_FLOAT
#undef __VGC_AS_FLOATS

/* A function that fetches through a reference, by the function of the same name that takes an object. */
#define __VGC_FETCH(function, dimensions, parameters, arguments)                                                       \
    template <class T, cudaTextureReadMode mode>                                                                       \
    __device__ __forceinline__ typename __vgc_fetched<T, mode>::type function(                                         \
        const texture<T, dimensions, mode> &reference, __VGC_LIST parameters)                                          \
    {                                                                                                                  \
        return function<typename __vgc_fetched<T, mode>::type>(reference.object, __VGC_LIST arguments);                \
    }
#define __VGC_LIST(...) __VA_ARGS__
__VGC_FETCH(tex1Dfetch, 1, (int x), (x))
__VGC_FETCH(tex1D, 1, (float x), (x))
__VGC_FETCH(tex2D, 2, (float x, float y), (x, y))
__VGC_FETCH(tex3D, 3, (float x, float y, float z), (x, y, z))
__VGC_FETCH(texCubemap, 0x0C, (float x, float y, float z), (x, y, z))
__VGC_FETCH(tex1DLayered, 0xF1, (float x, int layer), (x, layer))
__VGC_FETCH(tex2DLayered, 0xF2, (float x, float y, int layer), (x, y, layer))
__VGC_FETCH(texCubemapLayered, 0xFC, (float x, float y, float z, int layer), (x, y, z, layer))
__VGC_FETCH(tex1DLod, 1, (float x, float level), (x, level))
__VGC_FETCH(tex2DLod, 2, (float x, float y, float level), (x, y, level))
__VGC_FETCH(tex3DLod, 3, (float x, float y, float z, float level), (x, y, z, level))
__VGC_FETCH(tex1DGrad, 1, (float x, float dx, float dy), (x, dx, dy))
__VGC_FETCH(tex2DGrad, 2, (float x, float y, float2 dx, float2 dy), (x, y, dx, dy))
#undef __VGC_FETCH

/* Functions that read and write through a surface reference. */
#define __VGC_SURFACE(shape, dimensions, parameters, arguments)                                                        \
    template <class T>                                                                                                 \
    __device__ __forceinline__ T shape##read(const surface<void, dimensions> &reference, __VGC_LIST parameters,        \
                                             cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap)                      \
    {                                                                                                                  \
        return shape##read<T>(reference.object, __VGC_LIST arguments, mode);                                           \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    __device__ __forceinline__ void shape##read(T *to, const surface<void, dimensions> &reference,                     \
                                                __VGC_LIST parameters,                                                 \
                                                cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap)                   \
    {                                                                                                                  \
        *to = shape##read<T>(reference.object, __VGC_LIST arguments, mode);                                            \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    __device__ __forceinline__ void shape##write(T value, const surface<void, dimensions> &reference,                  \
                                                 __VGC_LIST parameters,                                                \
                                                 cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap)                  \
    {                                                                                                                  \
        shape##write(value, reference.object, __VGC_LIST arguments, mode);                                             \
    }
__VGC_SURFACE(surf1D, 1, (int x), (x))
__VGC_SURFACE(surf2D, 2, (int x, int y), (x, y))
__VGC_SURFACE(surf3D, 3, (int x, int y, int z), (x, y, z))
__VGC_SURFACE(surf1DLayered, 0xF1, (int x, int layer), (x, layer))
__VGC_SURFACE(surf2DLayered, 0xF2, (int x, int y, int layer), (x, y, layer))
#undef __VGC_SURFACE

#ifndef __CUDACC_RTC__
template <class... T> cudaError_t cudaBindTexture(T &&...);
template <class... T> cudaError_t cudaBindTexture2D(T &&...);
template <class... T> cudaError_t cudaBindTextureToArray(T &&...);
template <class... T> cudaError_t cudaBindTextureToMipmappedArray(T &&...);
template <class... T> cudaError_t cudaUnbindTexture(T &&...);
template <class... T> cudaError_t cudaGetTextureAlignmentOffset(T &&...);
template <class... T> cudaError_t cudaBindSurfaceToArray(T &&...);
cudaError_t cudaGetTextureReference(const textureReference **, const void *);
cudaError_t cudaGetSurfaceReference(const surfaceReference **, const void *);
#endif
