/* The part of the CUDA driver's binary interface that the engine uses, so that it builds without CUDA.
 *
 * Names are those that libcuda.so.1 exports: the suffix is the version of the interface, and a driver keeps all older
 * versions. Handles have the same struct tags as in cuda.h, so that a test which includes both headers can
 * compare types as well as numbers (tests/unit/test_cuda_abi.py).
 */
#ifndef VGC_CUDA_ABI_H
#define VGC_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned int drv_result; /* enum CUresult */
typedef unsigned long long drv_address;
typedef struct CUctx_st *drv_context;
typedef struct CUstream_st *drv_stream;
typedef struct CUevent_st *drv_event;
typedef struct CUmod_st *drv_module;
typedef struct CUfunc_st *drv_function;
typedef struct CUmemPoolHandle_st *drv_pool;
typedef struct CUarray_st *drv_array;
typedef struct CUmipmappedArray_st *drv_mipmap;
typedef unsigned long long drv_object;    /* CUtexObject, CUsurfObject */
typedef unsigned long long drv_physical;  /* CUmemGenericAllocationHandle */
struct CUmemPoolProps_st;                 /* see struct drv_pool_props */
struct CUmemAllocationProp_st;            /* see struct drv_physical_props */
struct CUmemAccessDesc_st;                /* see struct drv_access */
struct CUlaunchConfig_st;                 /* see struct drv_launch_config */
struct CUDA_ARRAY3D_DESCRIPTOR_st;        /* see struct drv_array_shape */
struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st; /* see struct drv_array_needs */
struct CUDA_MEMCPY3D_st;                  /* see struct drv_copy_box */
struct CUDA_RESOURCE_DESC_st;             /* see struct drv_texels */
struct CUDA_TEXTURE_DESC_st;              /* see struct drv_sampling */
struct CUDA_RESOURCE_VIEW_DESC_st;        /* see struct drv_view */

enum {
    DRV_SUCCESS = 0,
    DRV_ERROR_INVALID_VALUE = 1,
    DRV_ERROR_OUT_OF_MEMORY = 2,
    DRV_ERROR_INVALID_IMAGE = 200,
    DRV_ERROR_NO_BINARY_FOR_GPU = 209,
    DRV_ERROR_UNSUPPORTED_LIMIT = 215,
    DRV_ERROR_INVALID_PTX = 218,
    DRV_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    DRV_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    DRV_ERROR_JIT_COMPILATION_DISABLED = 223,
    DRV_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225,
    DRV_ERROR_INVALID_SOURCE = 300,
    DRV_ERROR_FILE_NOT_FOUND = 301,
    DRV_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
    DRV_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
    DRV_ERROR_OPERATING_SYSTEM = 304,
    DRV_ERROR_INVALID_HANDLE = 400,
    DRV_ERROR_NOT_FOUND = 500,
    DRV_ERROR_NOT_READY = 600,
    DRV_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    DRV_ERROR_LAUNCH_TIMEOUT = 702,
    DRV_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703,
    DRV_ERROR_ASSERT = 710,
    DRV_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    DRV_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    DRV_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
    DRV_ERROR_NOT_PERMITTED = 800,
    DRV_ERROR_NOT_SUPPORTED = 801,
    DRV_ERROR_INVALID_CLUSTER_SIZE = 912,
};

enum {
    DRV_STREAM_NON_BLOCKING = 1,
    DRV_EVENT_DEFAULT = 0,
    DRV_EVENT_DISABLE_TIMING = 2,
    DRV_EVENT_WAIT_DEFAULT = 0,
    DRV_WRITE_VALUE_DEFAULT = 0, /* with a fence: earlier writes are visible first */
    DRV_HOST_ALLOC_PORTABLE = 1,
    DRV_HOST_ALLOC_DEVICE_MAP = 2,
    DRV_HOST_REGISTER_PORTABLE = 1,
    DRV_HOST_REGISTER_DEVICE_MAP = 2,
    DRV_ALLOCATION_PINNED = 1,
    DRV_LOCATION_DEVICE = 1,
    DRV_POOL_RELEASE_THRESHOLD = 4,
    DRV_GRANULARITY_RECOMMENDED = 1,
    DRV_ACCESS_READ_WRITE = 3,
    DRV_DEVICE_MAPS_MEMORY = 102,
    DRV_FUNC_MAX_THREADS = 0,
    DRV_FUNC_SHARED_BYTES = 1,
    DRV_FUNC_LOCAL_BYTES = 3,
    DRV_FUNC_NUM_REGS = 4,
    DRV_FUNC_MAX_DYNAMIC_SHARED = 8,
    DRV_LIMIT_STACK_SIZE = 0,
    DRV_LAUNCH_PARAM_END = 0,
    DRV_LAUNCH_PARAM_POINTER = 1,
    DRV_LAUNCH_PARAM_SIZE = 2,
    DRV_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    DRV_DEVICE_MAX_PITCH = 11,
    DRV_DEVICE_DEFERS_ARRAYS = 121,
    DRV_ARRAY_LAYERED = 1,
    DRV_ARRAY_SURFACE = 2,
    DRV_ARRAY_CUBEMAP = 4,
    DRV_ARRAY_GATHER = 8,
    DRV_ARRAY_DEFERRED = 0x80,
    DRV_FORMAT_UNSIGNED_8 = 1,
    DRV_FORMAT_UNSIGNED_16 = 2,
    DRV_FORMAT_UNSIGNED_32 = 3,
    DRV_FORMAT_SIGNED_8 = 8,
    DRV_FORMAT_SIGNED_16 = 9,
    DRV_FORMAT_SIGNED_32 = 10,
    DRV_FORMAT_HALF = 16,
    DRV_FORMAT_FLOAT = 32,
    DRV_MEMORY_HOST = 1,
    DRV_MEMORY_DEVICE = 2,
    DRV_MEMORY_ARRAY = 3,
    DRV_TEXELS_ARRAY = 0,
    DRV_TEXELS_MIPMAP = 1,
    DRV_TEXELS_LINEAR = 2,
    DRV_TEXELS_ROWS = 3,
    DRV_READ_AS_INTEGER = 1,
    DRV_READ_NORMALISED = 2,
    DRV_READ_SRGB = 16,
    DRV_ADDRESS_WRAP = 0,
    DRV_ADDRESS_CLAMP = 1,
    DRV_ADDRESS_MIRROR = 2,
    DRV_ADDRESS_BORDER = 3,
    DRV_FILTER_POINT = 0,
    DRV_FILTER_LINEAR = 1,
    DRV_VIEW_UNSIGNED_8 = 1, /* of one channel; two and four channels follow */
    DRV_VIEW_SIGNED_8 = 4,
    DRV_VIEW_UNSIGNED_16 = 7,
    DRV_VIEW_SIGNED_16 = 10,
    DRV_VIEW_UNSIGNED_32 = 13,
    DRV_VIEW_SIGNED_32 = 16,
    DRV_VIEW_FLOAT_16 = 19,
    DRV_VIEW_FLOAT_32 = 22,
};

/* CUmemPoolProps */
struct drv_pool_props {
    uint32_t allocation_type;
    uint32_t handle_types;
    uint32_t location_type;
    int32_t location_id;
    void *security_attributes;
    size_t max_size;
    uint16_t usage;
    uint8_t reserved[54];
};

/* CUmemAllocationProp */
struct drv_physical_props {
    uint32_t allocation_type;
    uint32_t handle_types;
    uint32_t location_type;
    int32_t location_id;
    void *security_attributes;
    uint8_t compression;
    uint8_t rdma;
    uint16_t usage;
    uint8_t reserved[4];
};

/* CUmemAccessDesc */
struct drv_access {
    uint32_t location_type;
    int32_t location_id;
    uint32_t flags;
};

/* CUlaunchAttribute */
struct drv_launch_attribute {
    uint32_t id;
    uint32_t reserved;
    union {
        int cooperative;
        uint8_t bytes[64];
    } value;
};

/* CUlaunchConfig */
struct drv_launch_config {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    drv_stream stream;
    struct drv_launch_attribute *attributes;
    uint32_t num_attributes;
};

/* CUDA_ARRAY3D_DESCRIPTOR */
struct drv_array_shape {
    size_t width;
    size_t height;
    size_t depth;
    uint32_t format;
    uint32_t channels;
    uint32_t flags;
};

/* CUDA_ARRAY_MEMORY_REQUIREMENTS */
struct drv_array_needs {
    size_t size;
    size_t alignment;
    uint32_t reserved[4];
};

/* One side of CUDA_MEMCPY3D */
struct drv_box_side {
    size_t x; /* bytes */
    size_t y;
    size_t z;
    size_t level; /* 0 */
    uint32_t type;
    void *host;
    drv_address address;
    drv_array array;
    void *reserved;
    size_t pitch;
    size_t height;
};

/* CUDA_MEMCPY3D */
struct drv_copy_box {
    struct drv_box_side from;
    struct drv_box_side to;
    size_t width; /* bytes */
    size_t height;
    size_t depth;
};

/* CUDA_RESOURCE_DESC */
struct drv_texels {
    uint32_t type;
    union {
        drv_array array;
        drv_mipmap mipmap;
        struct {
            drv_address address;
            uint32_t format;
            uint32_t channels;
            size_t size;
        } linear;
        struct {
            drv_address address;
            uint32_t format;
            uint32_t channels;
            size_t width;
            size_t height;
            size_t pitch;
        } rows;
        int32_t reserved[32];
    } from;
    uint32_t flags;
};

/* CUDA_TEXTURE_DESC */
struct drv_sampling {
    uint32_t modes[3];
    uint32_t filter;
    uint32_t flags;
    uint32_t max_anisotropy;
    uint32_t level_filter;
    float bias;
    float min_level;
    float max_level;
    float border[4];
    int32_t reserved[12];
};

/* CUDA_RESOURCE_VIEW_DESC */
struct drv_view {
    uint32_t format;
    size_t width;
    size_t height;
    size_t depth;
    uint32_t first_level;
    uint32_t last_level;
    uint32_t first_layer;
    uint32_t last_layer;
    uint32_t reserved[16];
};

/* Functions that the engine calls: X(exported name, parameters). */
#define DRV_FUNCTIONS(X)                                                                                               \
    X(cuGetErrorName, (drv_result error, const char **text))                                                           \
    X(cuGetErrorString, (drv_result error, const char **text))                                                         \
    X(cuDriverGetVersion, (int *version))                                                                              \
    X(cuDeviceGetAttribute, (int *value, unsigned int attribute, int device))                                          \
    X(cuCtxSetCurrent, (drv_context context))                                                                          \
    X(cuCtxPushCurrent_v2, (drv_context context))                                                                      \
    X(cuCtxPopCurrent_v2, (drv_context * context))                                                                     \
    X(cuCtxSetLimit, (unsigned int limit, size_t value))                                                               \
    X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                                        \
    X(cuStreamCreate, (drv_stream * stream, unsigned int flags))                                                       \
    X(cuStreamCreateWithPriority, (drv_stream * stream, unsigned int flags, int priority))                             \
    X(cuStreamDestroy_v2, (drv_stream stream))                                                                         \
    X(cuStreamQuery, (drv_stream stream))                                                                              \
    X(cuStreamSynchronize, (drv_stream stream))                                                                        \
    X(cuStreamWaitEvent, (drv_stream stream, drv_event event, unsigned int flags))                                     \
    X(cuStreamWriteValue32_v2, (drv_stream stream, drv_address address, uint32_t value, unsigned int flags))           \
    X(cuStreamWriteValue64_v2, (drv_stream stream, drv_address address, uint64_t value, unsigned int flags))           \
    X(cuEventCreate, (drv_event * event, unsigned int flags))                                                          \
    X(cuEventDestroy_v2, (drv_event event))                                                                            \
    X(cuEventRecord, (drv_event event, drv_stream stream))                                                             \
    X(cuEventQuery, (drv_event event))                                                                                 \
    X(cuEventElapsedTime, (float *ms, drv_event start, drv_event end))                                                 \
    X(cuMemPoolCreate, (drv_pool * pool, const struct CUmemPoolProps_st *props))                                       \
    X(cuMemPoolDestroy, (drv_pool pool))                                                                               \
    X(cuMemPoolSetAttribute, (drv_pool pool, unsigned int attribute, void *value))                                     \
    X(cuMemPoolTrimTo, (drv_pool pool, size_t keep_bytes))                                                             \
    X(cuMemAllocFromPoolAsync, (drv_address * address, size_t size, drv_pool pool, drv_stream stream))                 \
    X(cuMemFreeAsync, (drv_address address, drv_stream stream))                                                        \
    X(cuMemGetAllocationGranularity,                                                                                   \
      (size_t *granularity, const struct CUmemAllocationProp_st *props, unsigned int option))                          \
    X(cuMemAddressReserve,                                                                                             \
      (drv_address * address, size_t size, size_t alignment, drv_address wish, unsigned long long flags))              \
    X(cuMemAddressFree, (drv_address address, size_t size))                                                            \
    X(cuMemCreate,                                                                                                     \
      (drv_physical * physical, size_t size, const struct CUmemAllocationProp_st *props, unsigned long long flags))    \
    X(cuMemRelease, (drv_physical physical))                                                                           \
    X(cuMemMap, (drv_address address, size_t size, size_t offset, drv_physical physical, unsigned long long flags))    \
    X(cuMemUnmap, (drv_address address, size_t size))                                                                  \
    X(cuMemSetAccess, (drv_address address, size_t size, const struct CUmemAccessDesc_st *access, size_t count))       \
    X(cuMemAlloc_v2, (drv_address * address, size_t size))                                                             \
    X(cuMemFree_v2, (drv_address address))                                                                             \
    X(cuMemHostAlloc, (void **host, size_t size, unsigned int flags))                                                  \
    X(cuMemFreeHost, (void *host))                                                                                     \
    X(cuMemHostRegister_v2, (void *host, size_t size, unsigned int flags))                                             \
    X(cuMemHostUnregister, (void *host))                                                                               \
    X(cuMemHostGetDevicePointer_v2, (drv_address * address, void *host, unsigned int flags))                           \
    X(cuMemcpyHtoDAsync_v2, (drv_address to, const void *from, size_t size, drv_stream stream))                        \
    X(cuMemcpyDtoHAsync_v2, (void *to, drv_address from, size_t size, drv_stream stream))                              \
    X(cuMemcpyDtoDAsync_v2, (drv_address to, drv_address from, size_t size, drv_stream stream))                        \
    X(cuMemsetD8Async, (drv_address to, unsigned char value, size_t count, drv_stream stream))                         \
    X(cuMemsetD16Async, (drv_address to, unsigned short value, size_t count, drv_stream stream))                       \
    X(cuMemsetD32Async, (drv_address to, unsigned int value, size_t count, drv_stream stream))                         \
    X(cuMemsetD2D32Async,                                                                                              \
      (drv_address to, size_t pitch, unsigned int value, size_t width, size_t height, drv_stream stream))              \
    X(cuMemcpy3DAsync_v2, (const struct CUDA_MEMCPY3D_st *box, drv_stream stream))                                     \
    X(cuArray3DCreate_v2, (drv_array * array, const struct CUDA_ARRAY3D_DESCRIPTOR_st *shape))                         \
    X(cuArrayDestroy, (drv_array array))                                                                               \
    X(cuArrayGetMemoryRequirements, (struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st * needs, drv_array array, int device))   \
    X(cuMipmappedArrayCreate,                                                                                          \
      (drv_mipmap * mipmap, const struct CUDA_ARRAY3D_DESCRIPTOR_st *shape, unsigned int levels))                      \
    X(cuMipmappedArrayDestroy, (drv_mipmap mipmap))                                                                    \
    X(cuMipmappedArrayGetLevel, (drv_array * array, drv_mipmap mipmap, unsigned int level))                            \
    X(cuMipmappedArrayGetMemoryRequirements,                                                                           \
      (struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st * needs, drv_mipmap mipmap, int device))                               \
    X(cuTexObjectCreate, (drv_object * object, const struct CUDA_RESOURCE_DESC_st *texels,                             \
                          const struct CUDA_TEXTURE_DESC_st *sampling, const struct CUDA_RESOURCE_VIEW_DESC_st *view)) \
    X(cuTexObjectDestroy, (drv_object object))                                                                         \
    X(cuSurfObjectCreate, (drv_object * object, const struct CUDA_RESOURCE_DESC_st *texels))                           \
    X(cuSurfObjectDestroy, (drv_object object))                                                                        \
    X(cuModuleLoadData, (drv_module * module, const void *image))                                                      \
    X(cuModuleUnload, (drv_module module))                                                                             \
    X(cuModuleGetFunction, (drv_function * function, drv_module module, const char *name))                             \
    X(cuModuleGetGlobal_v2, (drv_address * address, size_t *size, drv_module module, const char *name))                \
    X(cuFuncGetAttribute, (int *value, unsigned int attribute, drv_function function))                                 \
    X(cuFuncSetAttribute, (drv_function function, unsigned int attribute, int value))                                  \
    X(cuLaunchKernel, (drv_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,           \
                       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,    \
                       drv_stream stream, void **params, void **extra))                                                \
    X(cuLaunchKernelEx, (const struct CUlaunchConfig_st *config, drv_function function, void **params, void **extra))

#define DRV_MEMBER(name, parameters) drv_result(*name) parameters;
struct cuda_driver {
    void *library;
    DRV_FUNCTIONS(DRV_MEMBER)
};
#undef DRV_MEMBER

#endif
