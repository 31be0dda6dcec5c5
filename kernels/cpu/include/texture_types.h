/* Types of textures, surfaces and arrays, as programs name them. */
#pragma once
#include "vector_types.h"

#define cudaTextureType1D 0x01
#define cudaTextureType2D 0x02
#define cudaTextureType3D 0x03
#define cudaTextureTypeCubemap 0x0C
#define cudaTextureType1DLayered 0xF1
#define cudaTextureType2DLayered 0xF2
#define cudaTextureTypeCubemapLayered 0xFC
#define cudaSurfaceType1D 0x01
#define cudaSurfaceType2D 0x02
#define cudaSurfaceType3D 0x03
#define cudaSurfaceTypeCubemap 0x0C
#define cudaSurfaceType1DLayered 0xF1
#define cudaSurfaceType2DLayered 0xF2
#define cudaSurfaceTypeCubemapLayered 0xFC
#define cudaArrayDefault 0x00
#define cudaArrayLayered 0x01
#define cudaArraySurfaceLoadStore 0x02
#define cudaArrayCubemap 0x04
#define cudaArrayTextureGather 0x08
#define cudaArrayColorAttachment 0x20
#define cudaArraySparse 0x40
#define cudaArrayDeferredMapping 0x80

enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };
enum cudaSurfaceFormatMode { cudaFormatModeForced, cudaFormatModeAuto };
enum cudaResourceType { cudaResourceTypeArray, cudaResourceTypeMipmappedArray, cudaResourceTypeLinear, cudaResourceTypePitch2D };
enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat, cudaChannelFormatKindNone,
};
enum cudaResourceViewFormat {
    cudaResViewFormatNone,
    cudaResViewFormatUnsignedChar1, cudaResViewFormatUnsignedChar2, cudaResViewFormatUnsignedChar4,
    cudaResViewFormatSignedChar1, cudaResViewFormatSignedChar2, cudaResViewFormatSignedChar4,
    cudaResViewFormatUnsignedShort1, cudaResViewFormatUnsignedShort2, cudaResViewFormatUnsignedShort4,
    cudaResViewFormatSignedShort1, cudaResViewFormatSignedShort2, cudaResViewFormatSignedShort4,
    cudaResViewFormatUnsignedInt1, cudaResViewFormatUnsignedInt2, cudaResViewFormatUnsignedInt4,
    cudaResViewFormatSignedInt1, cudaResViewFormatSignedInt2, cudaResViewFormatSignedInt4,
    cudaResViewFormatHalf1, cudaResViewFormatHalf2, cudaResViewFormatHalf4,
    cudaResViewFormatFloat1, cudaResViewFormatFloat2, cudaResViewFormatFloat4,
};

struct cudaChannelFormatDesc {
    int x, y, z, w;
    enum cudaChannelFormatKind f;
};
typedef struct cudaArray *cudaArray_t;
typedef const struct cudaArray *cudaArray_const_t;
typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
typedef const struct cudaMipmappedArray *cudaMipmappedArray_const_t;
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;

struct cudaResourceDesc {
    enum cudaResourceType resType;
    union {
        struct { cudaArray_t array; } array;
        struct { cudaMipmappedArray_t mipmap; } mipmap;
        struct { void *devPtr; struct cudaChannelFormatDesc desc; size_t sizeInBytes; } linear;
        struct { void *devPtr; struct cudaChannelFormatDesc desc; size_t width, height, pitchInBytes; } pitch2D;
    } res;
};
struct cudaResourceViewDesc {
    enum cudaResourceViewFormat format;
    size_t width, height, depth;
    unsigned firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer;
};
struct cudaTextureDesc {
    enum cudaTextureAddressMode addressMode[3];
    enum cudaTextureFilterMode filterMode;
    enum cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    enum cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};

/* First member of texture and surface references, by which the compiler knows them: the object that is bound. */
struct __vgc_bound { unsigned long long object; };
struct textureReference {
    struct __vgc_bound __vgc_reference;
    int normalized;
    enum cudaTextureFilterMode filterMode;
    enum cudaTextureAddressMode addressMode[3];
    struct cudaChannelFormatDesc channelDesc;
    int sRGB;
    unsigned maxAnisotropy;
    enum cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization;
};
struct surfaceReference {
    struct __vgc_bound __vgc_reference;
    struct cudaChannelFormatDesc channelDesc;
};
#ifdef __cplusplus
/* cudaCreateChannelDesc<T>() */
#define __VGC_CHANNELS(type, name, kind)                                                                                               \
    static __host__ __device__ constexpr cudaChannelFormatDesc __vgc_channels(const name##1 *) { return {8 * sizeof(type), 0, 0, 0, kind}; }     \
    static __host__ __device__ constexpr cudaChannelFormatDesc __vgc_channels(const name##2 *) { return {8 * sizeof(type), 8 * sizeof(type), 0, 0, kind}; } \
    static __host__ __device__ constexpr cudaChannelFormatDesc __vgc_channels(const name##4 *) {                                                 \
        return {8 * sizeof(type), 8 * sizeof(type), 8 * sizeof(type), 8 * sizeof(type), kind};                                         \
    }                                                                                                                                  \
    static __host__ __device__ constexpr cudaChannelFormatDesc __vgc_channels(const type *) { return {8 * sizeof(type), 0, 0, 0, kind}; }
__VGC_CHANNELS(signed char, char, cudaChannelFormatKindSigned)
__VGC_CHANNELS(unsigned char, uchar, cudaChannelFormatKindUnsigned)
__VGC_CHANNELS(short, short, cudaChannelFormatKindSigned)
__VGC_CHANNELS(unsigned short, ushort, cudaChannelFormatKindUnsigned)
__VGC_CHANNELS(int, int, cudaChannelFormatKindSigned)
__VGC_CHANNELS(unsigned, uint, cudaChannelFormatKindUnsigned)
__VGC_CHANNELS(float, float, cudaChannelFormatKindFloat)
#undef __VGC_CHANNELS
static __host__ __device__ constexpr cudaChannelFormatDesc __vgc_channels(const char *) { return {8, 0, 0, 0, cudaChannelFormatKindSigned}; }
static __host__ __device__ constexpr cudaChannelFormatDesc __vgc_channels(const void *) { return {0, 0, 0, 0, cudaChannelFormatKindNone}; }
template <class T> static __host__ __device__ constexpr cudaChannelFormatDesc cudaCreateChannelDesc() { return __vgc_channels((const T *)0); }
static __host__ __device__ constexpr cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f) {
    return {x, y, z, w, f};
}
static __host__ __device__ constexpr cudaChannelFormatDesc cudaCreateChannelDescHalf() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
static __host__ __device__ constexpr cudaChannelFormatDesc cudaCreateChannelDescHalf1() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
static __host__ __device__ constexpr cudaChannelFormatDesc cudaCreateChannelDescHalf2() { return {16, 16, 0, 0, cudaChannelFormatKindFloat}; }
static __host__ __device__ constexpr cudaChannelFormatDesc cudaCreateChannelDescHalf4() { return {16, 16, 16, 16, cudaChannelFormatKindFloat}; }

#ifdef __CUDACC__
#define __VGC_REFERENCE(kind) __attribute__((device_builtin_##kind##_type))
#else
#define __VGC_REFERENCE(kind)
#endif
template <class T, int dimensions = cudaTextureType1D, enum cudaTextureReadMode mode = cudaReadModeElementType>
struct __VGC_REFERENCE(texture) texture : textureReference {
    __host__ __device__ constexpr texture(int normalised = 0, enum cudaTextureFilterMode filter = cudaFilterModePoint,
                                          enum cudaTextureAddressMode address = cudaAddressModeClamp,
                                          cudaChannelFormatDesc desc = cudaCreateChannelDesc<T>())
        : textureReference{{0}, normalised, filter, {address, address, address}, desc, 0, 0, cudaFilterModePoint, 0, 0, 0, 0} {}
};
template <class T, int dimensions = cudaSurfaceType1D>
struct __VGC_REFERENCE(surface) surface : surfaceReference {
    __host__ __device__ constexpr surface() : surfaceReference{{0}, cudaCreateChannelDesc<T>()} {}
};
#undef __VGC_REFERENCE
#endif
