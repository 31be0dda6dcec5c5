/* Fetches of textures, for objects and references. The usual ones are computed here, so that loops over threads contain them;
 * the runtime (vhost_backend/engines/cpu/texture.c) does the rest. */
#pragma once
#include "texture_types.h"
#include "vgc_texture_layout.h"

/* `pure`, so that loops around it may compute what they need of a descriptor once. */
extern "C" __device__ __attribute__((pure)) struct vgc_channels __vgc_texture_sample(unsigned long long texture, const struct vgc_sample *sample);

/* Value of a texel from its channels, which the runtime gives as 32-bit numbers. */
template <class T> __VGC_FN__ T __vgc_channel(unsigned value) { return (T)value; }
template <> __device__ __forceinline__ float __vgc_channel<float>(unsigned value) { return __builtin_bit_cast(float, value); }
#define __VGC_TEXEL(type, name)                                                                                                        \
    __VGC_FN__ void __vgc_texel(const unsigned *v, type &to) { to = __vgc_channel<type>(v[0]); }                                       \
    __VGC_FN__ void __vgc_texel(const unsigned *v, name##1 & to) { to = {__vgc_channel<type>(v[0])}; }                                  \
    __VGC_FN__ void __vgc_texel(const unsigned *v, name##2 & to) { to = {__vgc_channel<type>(v[0]), __vgc_channel<type>(v[1])}; }       \
    __VGC_FN__ void __vgc_texel(const unsigned *v, name##4 & to) {                                                                     \
        to = {__vgc_channel<type>(v[0]), __vgc_channel<type>(v[1]), __vgc_channel<type>(v[2]), __vgc_channel<type>(v[3])};             \
    }                                                                                                                                  \
    __device__ float __vgc_as_float(type);                                                                                             \
    __device__ float1 __vgc_as_float(name##1);                                                                                         \
    __device__ float2 __vgc_as_float(name##2);                                                                                         \
    __device__ float4 __vgc_as_float(name##4);
__VGC_TEXEL(signed char, char) __VGC_TEXEL(unsigned char, uchar) __VGC_TEXEL(short, short) __VGC_TEXEL(unsigned short, ushort)
__VGC_TEXEL(int, int) __VGC_TEXEL(unsigned, uint) __VGC_TEXEL(float, float)
#undef __VGC_TEXEL
__VGC_FN__ void __vgc_texel(const unsigned *v, char &to) { to = (char)v[0]; }
__device__ float __vgc_as_float(char);

/* Type of the value that a fetch through a reference returns. */
template <class T, int mode> struct __vgc_read { typedef T type; };
template <class T> struct __vgc_read<T, cudaReadModeNormalizedFloat> { typedef decltype(__vgc_as_float(T())) type; };

template <class T> __VGC_FN__ T __vgc_sampled(unsigned long long texture, const struct vgc_sample &sample) {
    const struct vgc_channels channels = __vgc_texture_sample(texture, &sample);
    const unsigned bits[4] = {__builtin_bit_cast(unsigned, channels.value[0]), __builtin_bit_cast(unsigned, channels.value[1]),
                              __builtin_bit_cast(unsigned, channels.value[2]), __builtin_bit_cast(unsigned, channels.value[3])};
    T value;
    __vgc_texel(bits, value);
    return value;
}

/* True if the texture's texels are values of T in memory, and are sampled in this way (VGC_SAMPLE_OTHER: in any way). The
 * descriptor's first bytes are read as one number, which stores of other types cannot change: loops check it once. */
template <class T> __VGC_FN__ bool __vgc_is_raw(const struct vgc_texture *texture, unsigned char sample) {
    const unsigned long long key = VGC_TEXTURE_MAGIC | (unsigned long long)sizeof(T) << 32, how = (unsigned long long)sample << 40;
    const unsigned long long mask = sample == VGC_SAMPLE_OTHER ? 0xffffffffffull : 0xffffffffffffull;
    return (*(const unsigned long long *)texture & mask) == (key | how);
}

__VGC_FN__ int __vgc_clamped(int index, unsigned size) { return index < 0 ? 0 : index < (int)size ? index : (int)size - 1; }
__VGC_FN__ int __vgc_nearest(float at, float scale, unsigned size) {
    return __vgc_clamped((int)__builtin_fminf(__builtin_fmaxf(at * scale, 0.0f), 2e9f), size);
}
template <class T> __VGC_FN__ T __vgc_load(const struct vgc_texture *texture, int x, int y, int z) {
    return *(const T *)(texture->data + (unsigned)x * (unsigned long long)sizeof(T) + (unsigned)y * texture->pitch + (unsigned)z * texture->slice);
}

/* Both indices and the weight of the second, a number of 8 fractional bits. */
struct __vgc_pair { int low, high; float weight; };
__VGC_FN__ __vgc_pair __vgc_linear(float at, float scale, unsigned size) {
    const float from = __builtin_fminf(__builtin_fmaxf(at * scale - 0.5f, -1.0f), 2e9f), whole = __builtin_floorf(from);
    return {__vgc_clamped((int)whole, size), __vgc_clamped((int)whole + 1, size), __builtin_rintf((from - whole) * 256.0f) * (1.0f / 256.0f)};
}
__VGC_FN__ float __vgc_between(float a, float b, float weight) { return (1.0f - weight) * a + weight * b; }
__VGC_FN__ float __vgc_linear_2d(const struct vgc_texture *t, __vgc_pair x, __vgc_pair y, int z) {
    const float low = __vgc_between(__vgc_load<float>(t, x.low, y.low, z), __vgc_load<float>(t, x.high, y.low, z), x.weight);
    return __vgc_between(low, __vgc_between(__vgc_load<float>(t, x.low, y.high, z), __vgc_load<float>(t, x.high, y.high, z), x.weight), y.weight);
}

template <class T> __VGC_FN__ T __vgc_fetch(unsigned long long object, int x) {
    const auto *t = (const struct vgc_texture *)object;
    if (__vgc_is_raw<T>(t, VGC_SAMPLE_OTHER))
        return (unsigned)x < t->width ? __vgc_load<T>(t, x, 0, 0) : T{};
    return __vgc_sampled<T>(object, {VGC_SAMPLE_1D, VGC_SAMPLE_FETCH, {}, x});
}
template <class T> __VGC_FN__ T __vgc_fetch_1d(unsigned long long object, float x) {
    const auto *t = (const struct vgc_texture *)object;
    if (__vgc_is_raw<T>(t, VGC_SAMPLE_NEAREST))
        return __vgc_load<T>(t, __vgc_nearest(x, t->scale[0], t->width), 0, 0);
    return __vgc_sampled<T>(object, {VGC_SAMPLE_1D, VGC_SAMPLE_PLAIN, {x}});
}
template <class T> __VGC_FN__ T __vgc_fetch_2d(unsigned long long object, float x, float y) {
    const auto *t = (const struct vgc_texture *)object;
    if (__vgc_is_raw<T>(t, VGC_SAMPLE_NEAREST))
        return __vgc_load<T>(t, __vgc_nearest(x, t->scale[0], t->width), __vgc_nearest(y, t->scale[1], t->height), 0);
    if constexpr (__is_same(T, float))
        if (__vgc_is_raw<T>(t, VGC_SAMPLE_LINEAR))
            return __vgc_linear_2d(t, __vgc_linear(x, t->scale[0], t->width), __vgc_linear(y, t->scale[1], t->height), 0);
    return __vgc_sampled<T>(object, {VGC_SAMPLE_2D, VGC_SAMPLE_PLAIN, {x, y}});
}
template <class T> __VGC_FN__ T __vgc_fetch_3d(unsigned long long object, float x, float y, float z) {
    const auto *t = (const struct vgc_texture *)object;
    if (__vgc_is_raw<T>(t, VGC_SAMPLE_NEAREST))
        return __vgc_load<T>(t, __vgc_nearest(x, t->scale[0], t->width), __vgc_nearest(y, t->scale[1], t->height),
                             __vgc_nearest(z, t->scale[2], t->depth));
    return __vgc_sampled<T>(object, {VGC_SAMPLE_3D, VGC_SAMPLE_PLAIN, {x, y, z}});
}

/* Each fetch: a value of an object, the same through a pointer, and a value of a reference. */
#define __VGC_PARAMETERS(...) __VA_ARGS__
#define __VGC_FETCH(name, dimensions, parameters, how)                                                                                 \
    template <class T> __VGC_FN__ T name(cudaTextureObject_t t, __VGC_PARAMETERS parameters) { return how(T); }                         \
    template <class T> __VGC_FN__ void name(T *to, cudaTextureObject_t t, __VGC_PARAMETERS parameters) { *to = how(T); }                \
    template <class U, enum cudaTextureReadMode mode>                                                                                  \
    __VGC_FN__ typename __vgc_read<U, mode>::type name(const texture<U, dimensions, mode> &bound, __VGC_PARAMETERS parameters) {        \
        typedef typename __vgc_read<U, mode>::type T;                                                                                  \
        const cudaTextureObject_t t = bound.__vgc_reference.object;                                                                    \
        return how(T);                                                                                                                 \
    }
#define __VGC_HOW(T) __vgc_fetch<T>(t, x)
__VGC_FETCH(tex1Dfetch, cudaTextureType1D, (int x), __VGC_HOW)
#undef __VGC_HOW
#define __VGC_HOW(T) __vgc_fetch_1d<T>(t, x)
__VGC_FETCH(tex1D, cudaTextureType1D, (float x), __VGC_HOW)
#undef __VGC_HOW
#define __VGC_HOW(T) __vgc_fetch_2d<T>(t, x, y)
__VGC_FETCH(tex2D, cudaTextureType2D, (float x, float y), __VGC_HOW)
#undef __VGC_HOW
#define __VGC_HOW(T) __vgc_fetch_3d<T>(t, x, y, z)
__VGC_FETCH(tex3D, cudaTextureType3D, (float x, float y, float z), __VGC_HOW)
#undef __VGC_HOW
#define __VGC_HOW(T) __vgc_sampled<T>(t, {VGC_SAMPLE_2D, VGC_SAMPLE_GATHER, {x, y}, comp})
__VGC_FETCH(tex2Dgather, cudaTextureType2D, (float x, float y, int comp = 0), __VGC_HOW)
#undef __VGC_HOW

/* The forms of one shape: plain (unless it is above), with a level of detail, with derivatives. */
#define __VGC_PLAIN(T) __vgc_sampled<T>(t, {__VGC_SHAPE, VGC_SAMPLE_PLAIN, {__VGC_AT}, __VGC_LAYER})
#define __VGC_LOD(T) __vgc_sampled<T>(t, {__VGC_SHAPE, VGC_SAMPLE_LOD, {__VGC_AT}, __VGC_LAYER, level})
#define __VGC_GRADIENT(T) __vgc_sampled<T>(t, {__VGC_SHAPE, VGC_SAMPLE_GRADIENT, {__VGC_AT}, __VGC_LAYER, 0.0f, {__VGC_DX}, {__VGC_DY}})

#define __VGC_SHAPE VGC_SAMPLE_1D
#define __VGC_AT x
#define __VGC_DX dPdx
#define __VGC_DY dPdy
#define __VGC_LAYER 0
__VGC_FETCH(tex1DLod, cudaTextureType1D, (float x, float level), __VGC_LOD)
__VGC_FETCH(tex1DGrad, cudaTextureType1D, (float x, float dPdx, float dPdy), __VGC_GRADIENT)
#undef __VGC_LAYER
#define __VGC_LAYER layer
__VGC_FETCH(tex1DLayered, cudaTextureType1DLayered, (float x, int layer), __VGC_PLAIN)
__VGC_FETCH(tex1DLayeredLod, cudaTextureType1DLayered, (float x, int layer, float level), __VGC_LOD)
__VGC_FETCH(tex1DLayeredGrad, cudaTextureType1DLayered, (float x, int layer, float dPdx, float dPdy), __VGC_GRADIENT)
#undef __VGC_SHAPE
#undef __VGC_AT
#undef __VGC_DX
#undef __VGC_DY
#undef __VGC_LAYER

#define __VGC_SHAPE VGC_SAMPLE_2D
#define __VGC_AT x, y
#define __VGC_DX dPdx.x, dPdx.y
#define __VGC_DY dPdy.x, dPdy.y
#define __VGC_LAYER 0
__VGC_FETCH(tex2DLod, cudaTextureType2D, (float x, float y, float level), __VGC_LOD)
__VGC_FETCH(tex2DGrad, cudaTextureType2D, (float x, float y, float2 dPdx, float2 dPdy), __VGC_GRADIENT)
#undef __VGC_LAYER
#define __VGC_LAYER layer
__VGC_FETCH(tex2DLayered, cudaTextureType2DLayered, (float x, float y, int layer), __VGC_PLAIN)
__VGC_FETCH(tex2DLayeredLod, cudaTextureType2DLayered, (float x, float y, int layer, float level), __VGC_LOD)
__VGC_FETCH(tex2DLayeredGrad, cudaTextureType2DLayered, (float x, float y, int layer, float2 dPdx, float2 dPdy), __VGC_GRADIENT)
#undef __VGC_SHAPE
#undef __VGC_AT
#undef __VGC_DX
#undef __VGC_DY
#undef __VGC_LAYER

#define __VGC_AT x, y, z
#define __VGC_DX dPdx.x, dPdx.y, dPdx.z
#define __VGC_DY dPdy.x, dPdy.y, dPdy.z
#define __VGC_LAYER 0
#define __VGC_SHAPE VGC_SAMPLE_3D
__VGC_FETCH(tex3DLod, cudaTextureType3D, (float x, float y, float z, float level), __VGC_LOD)
__VGC_FETCH(tex3DGrad, cudaTextureType3D, (float x, float y, float z, float4 dPdx, float4 dPdy), __VGC_GRADIENT)
#undef __VGC_SHAPE
#define __VGC_SHAPE VGC_SAMPLE_CUBE
__VGC_FETCH(texCubemap, cudaTextureTypeCubemap, (float x, float y, float z), __VGC_PLAIN)
__VGC_FETCH(texCubemapLod, cudaTextureTypeCubemap, (float x, float y, float z, float level), __VGC_LOD)
__VGC_FETCH(texCubemapGrad, cudaTextureTypeCubemap, (float x, float y, float z, float4 dPdx, float4 dPdy), __VGC_GRADIENT)
#undef __VGC_LAYER
#define __VGC_LAYER layer
__VGC_FETCH(texCubemapLayered, cudaTextureTypeCubemapLayered, (float x, float y, float z, int layer), __VGC_PLAIN)
__VGC_FETCH(texCubemapLayeredLod, cudaTextureTypeCubemapLayered, (float x, float y, float z, int layer, float level), __VGC_LOD)
__VGC_FETCH(texCubemapLayeredGrad, cudaTextureTypeCubemapLayered, (float x, float y, float z, int layer, float4 dPdx, float4 dPdy), __VGC_GRADIENT)
#undef __VGC_SHAPE
#undef __VGC_AT
#undef __VGC_DX
#undef __VGC_DY
#undef __VGC_LAYER
#undef __VGC_PLAIN
#undef __VGC_LOD
#undef __VGC_GRADIENT
#undef __VGC_FETCH
