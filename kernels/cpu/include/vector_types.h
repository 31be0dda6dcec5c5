/* dim3 and the built-in vector types, with their alignments. */
#pragma once
#define __VECTOR_TYPES_H__
#include "vgc_builtins.h"

#ifdef __cplusplus
#define __VGC_MADE(type)
#else
#define __VGC_MADE(type) (type)
#endif
#define __VGC_VECTOR(vector, names, ...)                                                                                               \
    typedef struct vector vector;                                                                                                      \
    static __host__ __device__ __forceinline__ vector make_##vector(__VA_ARGS__) { return __VGC_MADE(vector) names; }
#define __VGC_LIST(...) {__VA_ARGS__}
#define __VGC_VECTORS(type, name, align2, align4)                                                                                      \
    struct name##1 { type x; };                                                                                                        \
    struct __align__(align2) name##2 { type x, y; };                                                                                   \
    struct name##3 { type x, y, z; };                                                                                                  \
    struct __align__(align4) name##4 { type x, y, z, w; };                                                                             \
    __VGC_VECTOR(name##1, __VGC_LIST(x), type x)                                                                                       \
    __VGC_VECTOR(name##2, __VGC_LIST(x, y), type x, type y)                                                                            \
    __VGC_VECTOR(name##3, __VGC_LIST(x, y, z), type x, type y, type z)                                                                 \
    __VGC_VECTOR(name##4, __VGC_LIST(x, y, z, w), type x, type y, type z, type w)

__VGC_VECTORS(signed char, char, 2, 4)
__VGC_VECTORS(unsigned char, uchar, 2, 4)
__VGC_VECTORS(short, short, 4, 8)
__VGC_VECTORS(unsigned short, ushort, 4, 8)
__VGC_VECTORS(int, int, 8, 16)
__VGC_VECTORS(unsigned int, uint, 8, 16)
__VGC_VECTORS(long, long, 16, 16)
__VGC_VECTORS(unsigned long, ulong, 16, 16)
__VGC_VECTORS(long long, longlong, 16, 16)
__VGC_VECTORS(unsigned long long, ulonglong, 16, 16)
__VGC_VECTORS(float, float, 8, 16)
__VGC_VECTORS(double, double, 16, 16)
#undef __VGC_VECTORS
#undef __VGC_VECTOR
#undef __VGC_LIST
#undef __VGC_MADE

struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    __host__ __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
    __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    __host__ __device__ constexpr operator uint3() const { return {x, y, z}; }
#endif
};
typedef struct dim3 dim3;

#ifdef __CUDACC__
/* threadIdx, blockIdx, blockDim and gridDim are objects whose members are calls, so that programs may have variables of
 * these names. */
#define __VGC_POSITION(object, type, from)                                                                                             \
    struct __vgc_##object##_t {                                                                                                        \
        __declspec(property(get = __x)) unsigned x;                                                                                    \
        __declspec(property(get = __y)) unsigned y;                                                                                    \
        __declspec(property(get = __z)) unsigned z;                                                                                    \
        static __device__ __forceinline__ unsigned __x() { return __vgc_##from##_x(); }                                                \
        static __device__ __forceinline__ unsigned __y() { return __vgc_##from##_y(); }                                                \
        static __device__ __forceinline__ unsigned __z() { return __vgc_##from##_z(); }                                                \
        __device__ __forceinline__ operator type() const { return type{__x(), __y(), __z()}; }                                         \
        __device__ __forceinline__ operator __VGC_OTHER_##type() const { return {__x(), __y(), __z()}; }                               \
    };                                                                                                                                 \
    extern const __device__ __vgc_##object##_t object;
#define __VGC_OTHER_uint3 dim3
#define __VGC_OTHER_dim3 uint3
__VGC_POSITION(threadIdx, uint3, tid)
__VGC_POSITION(blockIdx, uint3, ctaid)
__VGC_POSITION(blockDim, dim3, ntid)
__VGC_POSITION(gridDim, dim3, nctaid)
#undef __VGC_POSITION
#undef __VGC_OTHER_uint3
#undef __VGC_OTHER_dim3

constexpr int warpSize = 32;
#endif
