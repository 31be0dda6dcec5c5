/* Compiles if cuda_abi.h says what cuda.h says. */
#include <stdint.h>

/* The header's own switch to declare functions under the names that libcuda exports, every version of them. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "cuda_abi.h"

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs)

#define ERROR(name) SAME(DRV_ERROR_##name, CUDA_ERROR_##name)
SAME(DRV_SUCCESS, CUDA_SUCCESS);
ERROR(INVALID_VALUE);
ERROR(OUT_OF_MEMORY);
ERROR(INVALID_IMAGE);
ERROR(NO_BINARY_FOR_GPU);
ERROR(UNSUPPORTED_LIMIT);
ERROR(INVALID_PTX);
ERROR(JIT_COMPILER_NOT_FOUND);
ERROR(UNSUPPORTED_PTX_VERSION);
ERROR(JIT_COMPILATION_DISABLED);
ERROR(UNSUPPORTED_DEVSIDE_SYNC);
ERROR(INVALID_SOURCE);
ERROR(FILE_NOT_FOUND);
ERROR(SHARED_OBJECT_SYMBOL_NOT_FOUND);
ERROR(SHARED_OBJECT_INIT_FAILED);
ERROR(OPERATING_SYSTEM);
ERROR(INVALID_HANDLE);
ERROR(NOT_FOUND);
ERROR(NOT_READY);
ERROR(LAUNCH_OUT_OF_RESOURCES);
ERROR(LAUNCH_TIMEOUT);
ERROR(LAUNCH_INCOMPATIBLE_TEXTURING);
ERROR(ASSERT);
ERROR(HOST_MEMORY_ALREADY_REGISTERED);
ERROR(HOST_MEMORY_NOT_REGISTERED);
ERROR(COOPERATIVE_LAUNCH_TOO_LARGE);
ERROR(NOT_PERMITTED);
ERROR(NOT_SUPPORTED);
ERROR(INVALID_CLUSTER_SIZE);

SAME(DRV_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(DRV_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(DRV_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(DRV_EVENT_WAIT_DEFAULT, CU_EVENT_WAIT_DEFAULT);
SAME(DRV_WRITE_VALUE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(DRV_HOST_ALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(DRV_HOST_ALLOC_DEVICE_MAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(DRV_HOST_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(DRV_HOST_REGISTER_DEVICE_MAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(DRV_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(DRV_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(DRV_POOL_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME(DRV_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(DRV_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(DRV_DEVICE_MAPS_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(DRV_FUNC_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(DRV_FUNC_SHARED_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(DRV_FUNC_NUM_REGS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(DRV_FUNC_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(DRV_FUNC_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(DRV_LIMIT_STACK_SIZE, CU_LIMIT_STACK_SIZE);
SAME(DRV_LAUNCH_PARAM_END, CU_LAUNCH_PARAM_END_AS_INT);
SAME(DRV_LAUNCH_PARAM_POINTER, CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT);
SAME(DRV_LAUNCH_PARAM_SIZE, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);

SAME(DRV_DEVICE_MAX_PITCH, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
SAME(DRV_DEVICE_DEFERS_ARRAYS, CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
SAME(DRV_ARRAY_LAYERED, CUDA_ARRAY3D_LAYERED);
SAME(DRV_ARRAY_SURFACE, CUDA_ARRAY3D_SURFACE_LDST);
SAME(DRV_ARRAY_CUBEMAP, CUDA_ARRAY3D_CUBEMAP);
SAME(DRV_ARRAY_GATHER, CUDA_ARRAY3D_TEXTURE_GATHER);
SAME(DRV_ARRAY_DEFERRED, CUDA_ARRAY3D_DEFERRED_MAPPING);
SAME(DRV_FORMAT_UNSIGNED_8, CU_AD_FORMAT_UNSIGNED_INT8);
SAME(DRV_FORMAT_UNSIGNED_16, CU_AD_FORMAT_UNSIGNED_INT16);
SAME(DRV_FORMAT_UNSIGNED_32, CU_AD_FORMAT_UNSIGNED_INT32);
SAME(DRV_FORMAT_SIGNED_8, CU_AD_FORMAT_SIGNED_INT8);
SAME(DRV_FORMAT_SIGNED_16, CU_AD_FORMAT_SIGNED_INT16);
SAME(DRV_FORMAT_SIGNED_32, CU_AD_FORMAT_SIGNED_INT32);
SAME(DRV_FORMAT_HALF, CU_AD_FORMAT_HALF);
SAME(DRV_FORMAT_FLOAT, CU_AD_FORMAT_FLOAT);
SAME(DRV_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(DRV_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(DRV_MEMORY_ARRAY, CU_MEMORYTYPE_ARRAY);
SAME(DRV_TEXELS_ARRAY, CU_RESOURCE_TYPE_ARRAY);
SAME(DRV_TEXELS_MIPMAP, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
SAME(DRV_TEXELS_LINEAR, CU_RESOURCE_TYPE_LINEAR);
SAME(DRV_TEXELS_ROWS, CU_RESOURCE_TYPE_PITCH2D);
SAME(DRV_READ_AS_INTEGER, CU_TRSF_READ_AS_INTEGER);
SAME(DRV_READ_NORMALISED, CU_TRSF_NORMALIZED_COORDINATES);
SAME(DRV_READ_SRGB, CU_TRSF_SRGB);
SAME(DRV_ADDRESS_WRAP, CU_TR_ADDRESS_MODE_WRAP);
SAME(DRV_ADDRESS_CLAMP, CU_TR_ADDRESS_MODE_CLAMP);
SAME(DRV_ADDRESS_MIRROR, CU_TR_ADDRESS_MODE_MIRROR);
SAME(DRV_ADDRESS_BORDER, CU_TR_ADDRESS_MODE_BORDER);
SAME(DRV_FILTER_POINT, CU_TR_FILTER_MODE_POINT);
SAME(DRV_FILTER_LINEAR, CU_TR_FILTER_MODE_LINEAR);
SAME(DRV_VIEW_UNSIGNED_8, CU_RES_VIEW_FORMAT_UINT_1X8);
SAME(DRV_VIEW_SIGNED_8, CU_RES_VIEW_FORMAT_SINT_1X8);
SAME(DRV_VIEW_UNSIGNED_16, CU_RES_VIEW_FORMAT_UINT_1X16);
SAME(DRV_VIEW_SIGNED_16, CU_RES_VIEW_FORMAT_SINT_1X16);
SAME(DRV_VIEW_UNSIGNED_32, CU_RES_VIEW_FORMAT_UINT_1X32);
SAME(DRV_VIEW_SIGNED_32, CU_RES_VIEW_FORMAT_SINT_1X32);
SAME(DRV_VIEW_FLOAT_16, CU_RES_VIEW_FORMAT_FLOAT_1X16);
SAME(DRV_VIEW_FLOAT_32, CU_RES_VIEW_FORMAT_FLOAT_1X32);
/* Views of two and four channels follow those of one. */
SAME(DRV_VIEW_UNSIGNED_8 + 1, CU_RES_VIEW_FORMAT_UINT_2X8);
SAME(DRV_VIEW_FLOAT_32 + 2, CU_RES_VIEW_FORMAT_FLOAT_4X32);

#define STRUCT_FIELD(ours, field, theirs, their_field) SAME(offsetof(struct ours, field), offsetof(theirs, their_field))
SAME(sizeof(struct drv_array_shape), sizeof(CUDA_ARRAY3D_DESCRIPTOR));
STRUCT_FIELD(drv_array_shape, width, CUDA_ARRAY3D_DESCRIPTOR, Width);
STRUCT_FIELD(drv_array_shape, height, CUDA_ARRAY3D_DESCRIPTOR, Height);
STRUCT_FIELD(drv_array_shape, depth, CUDA_ARRAY3D_DESCRIPTOR, Depth);
STRUCT_FIELD(drv_array_shape, format, CUDA_ARRAY3D_DESCRIPTOR, Format);
STRUCT_FIELD(drv_array_shape, channels, CUDA_ARRAY3D_DESCRIPTOR, NumChannels);
STRUCT_FIELD(drv_array_shape, flags, CUDA_ARRAY3D_DESCRIPTOR, Flags);
SAME(sizeof(struct drv_array_needs), sizeof(CUDA_ARRAY_MEMORY_REQUIREMENTS));
STRUCT_FIELD(drv_array_needs, size, CUDA_ARRAY_MEMORY_REQUIREMENTS, size);
SAME(sizeof(struct drv_copy_box), sizeof(CUDA_MEMCPY3D));
STRUCT_FIELD(drv_copy_box, from.x, CUDA_MEMCPY3D, srcXInBytes);
STRUCT_FIELD(drv_copy_box, from.y, CUDA_MEMCPY3D, srcY);
STRUCT_FIELD(drv_copy_box, from.z, CUDA_MEMCPY3D, srcZ);
STRUCT_FIELD(drv_copy_box, from.level, CUDA_MEMCPY3D, srcLOD);
STRUCT_FIELD(drv_copy_box, from.type, CUDA_MEMCPY3D, srcMemoryType);
STRUCT_FIELD(drv_copy_box, from.host, CUDA_MEMCPY3D, srcHost);
STRUCT_FIELD(drv_copy_box, from.address, CUDA_MEMCPY3D, srcDevice);
STRUCT_FIELD(drv_copy_box, from.array, CUDA_MEMCPY3D, srcArray);
STRUCT_FIELD(drv_copy_box, from.pitch, CUDA_MEMCPY3D, srcPitch);
STRUCT_FIELD(drv_copy_box, from.height, CUDA_MEMCPY3D, srcHeight);
STRUCT_FIELD(drv_copy_box, to.x, CUDA_MEMCPY3D, dstXInBytes);
STRUCT_FIELD(drv_copy_box, to.y, CUDA_MEMCPY3D, dstY);
STRUCT_FIELD(drv_copy_box, to.z, CUDA_MEMCPY3D, dstZ);
STRUCT_FIELD(drv_copy_box, to.level, CUDA_MEMCPY3D, dstLOD);
STRUCT_FIELD(drv_copy_box, to.type, CUDA_MEMCPY3D, dstMemoryType);
STRUCT_FIELD(drv_copy_box, to.host, CUDA_MEMCPY3D, dstHost);
STRUCT_FIELD(drv_copy_box, to.address, CUDA_MEMCPY3D, dstDevice);
STRUCT_FIELD(drv_copy_box, to.array, CUDA_MEMCPY3D, dstArray);
STRUCT_FIELD(drv_copy_box, to.pitch, CUDA_MEMCPY3D, dstPitch);
STRUCT_FIELD(drv_copy_box, to.height, CUDA_MEMCPY3D, dstHeight);
STRUCT_FIELD(drv_copy_box, from.reserved, CUDA_MEMCPY3D, reserved0);
STRUCT_FIELD(drv_copy_box, to.reserved, CUDA_MEMCPY3D, reserved1);
STRUCT_FIELD(drv_copy_box, width, CUDA_MEMCPY3D, WidthInBytes);
STRUCT_FIELD(drv_copy_box, height, CUDA_MEMCPY3D, Height);
STRUCT_FIELD(drv_copy_box, depth, CUDA_MEMCPY3D, Depth);
SAME(sizeof(struct drv_texels), sizeof(CUDA_RESOURCE_DESC));
STRUCT_FIELD(drv_texels, type, CUDA_RESOURCE_DESC, resType);
STRUCT_FIELD(drv_texels, from.array, CUDA_RESOURCE_DESC, res.array.hArray);
STRUCT_FIELD(drv_texels, from.mipmap, CUDA_RESOURCE_DESC, res.mipmap.hMipmappedArray);
STRUCT_FIELD(drv_texels, from.linear.address, CUDA_RESOURCE_DESC, res.linear.devPtr);
STRUCT_FIELD(drv_texels, from.linear.format, CUDA_RESOURCE_DESC, res.linear.format);
STRUCT_FIELD(drv_texels, from.linear.channels, CUDA_RESOURCE_DESC, res.linear.numChannels);
STRUCT_FIELD(drv_texels, from.linear.size, CUDA_RESOURCE_DESC, res.linear.sizeInBytes);
STRUCT_FIELD(drv_texels, from.rows.address, CUDA_RESOURCE_DESC, res.pitch2D.devPtr);
STRUCT_FIELD(drv_texels, from.rows.format, CUDA_RESOURCE_DESC, res.pitch2D.format);
STRUCT_FIELD(drv_texels, from.rows.channels, CUDA_RESOURCE_DESC, res.pitch2D.numChannels);
STRUCT_FIELD(drv_texels, from.rows.width, CUDA_RESOURCE_DESC, res.pitch2D.width);
STRUCT_FIELD(drv_texels, from.rows.height, CUDA_RESOURCE_DESC, res.pitch2D.height);
STRUCT_FIELD(drv_texels, from.rows.pitch, CUDA_RESOURCE_DESC, res.pitch2D.pitchInBytes);
STRUCT_FIELD(drv_texels, flags, CUDA_RESOURCE_DESC, flags);
SAME(sizeof(struct drv_sampling), sizeof(CUDA_TEXTURE_DESC));
STRUCT_FIELD(drv_sampling, modes, CUDA_TEXTURE_DESC, addressMode);
STRUCT_FIELD(drv_sampling, filter, CUDA_TEXTURE_DESC, filterMode);
STRUCT_FIELD(drv_sampling, flags, CUDA_TEXTURE_DESC, flags);
STRUCT_FIELD(drv_sampling, max_anisotropy, CUDA_TEXTURE_DESC, maxAnisotropy);
STRUCT_FIELD(drv_sampling, level_filter, CUDA_TEXTURE_DESC, mipmapFilterMode);
STRUCT_FIELD(drv_sampling, bias, CUDA_TEXTURE_DESC, mipmapLevelBias);
STRUCT_FIELD(drv_sampling, min_level, CUDA_TEXTURE_DESC, minMipmapLevelClamp);
STRUCT_FIELD(drv_sampling, max_level, CUDA_TEXTURE_DESC, maxMipmapLevelClamp);
STRUCT_FIELD(drv_sampling, border, CUDA_TEXTURE_DESC, borderColor);
STRUCT_FIELD(drv_sampling, reserved, CUDA_TEXTURE_DESC, reserved);
SAME(sizeof(struct drv_view), sizeof(CUDA_RESOURCE_VIEW_DESC));
STRUCT_FIELD(drv_view, format, CUDA_RESOURCE_VIEW_DESC, format);
STRUCT_FIELD(drv_view, width, CUDA_RESOURCE_VIEW_DESC, width);
STRUCT_FIELD(drv_view, height, CUDA_RESOURCE_VIEW_DESC, height);
STRUCT_FIELD(drv_view, depth, CUDA_RESOURCE_VIEW_DESC, depth);
STRUCT_FIELD(drv_view, first_level, CUDA_RESOURCE_VIEW_DESC, firstMipmapLevel);
STRUCT_FIELD(drv_view, last_level, CUDA_RESOURCE_VIEW_DESC, lastMipmapLevel);
STRUCT_FIELD(drv_view, first_layer, CUDA_RESOURCE_VIEW_DESC, firstLayer);
STRUCT_FIELD(drv_view, last_layer, CUDA_RESOURCE_VIEW_DESC, lastLayer);
STRUCT_FIELD(drv_view, reserved, CUDA_RESOURCE_VIEW_DESC, reserved);

#define FIELD(ours, theirs) SAME(offsetof(struct drv_pool_props, ours), offsetof(CUmemPoolProps, theirs))
SAME(sizeof(struct drv_pool_props), sizeof(CUmemPoolProps));
FIELD(allocation_type, allocType);
FIELD(handle_types, handleTypes);
FIELD(location_type, location.type);
FIELD(location_id, location.id);
FIELD(security_attributes, win32SecurityAttributes);
FIELD(max_size, maxSize);
FIELD(usage, usage);

#define PHYSICAL_FIELD(ours, theirs)                                                                                   \
    SAME(offsetof(struct drv_physical_props, ours), offsetof(CUmemAllocationProp, theirs))
SAME(sizeof(struct drv_physical_props), sizeof(CUmemAllocationProp));
PHYSICAL_FIELD(allocation_type, type);
PHYSICAL_FIELD(handle_types, requestedHandleTypes);
PHYSICAL_FIELD(location_type, location.type);
PHYSICAL_FIELD(location_id, location.id);
PHYSICAL_FIELD(security_attributes, win32HandleMetaData);
PHYSICAL_FIELD(compression, allocFlags.compressionType);
PHYSICAL_FIELD(rdma, allocFlags.gpuDirectRDMACapable);
PHYSICAL_FIELD(usage, allocFlags.usage);

#define ACCESS_FIELD(ours, theirs) SAME(offsetof(struct drv_access, ours), offsetof(CUmemAccessDesc, theirs))
SAME(sizeof(struct drv_access), sizeof(CUmemAccessDesc));
ACCESS_FIELD(location_type, location.type);
ACCESS_FIELD(location_id, location.id);
ACCESS_FIELD(flags, flags);

#define CONFIG_FIELD(ours, theirs) SAME(offsetof(struct drv_launch_config, ours), offsetof(CUlaunchConfig, theirs))
SAME(sizeof(struct drv_launch_config), sizeof(CUlaunchConfig));
CONFIG_FIELD(grid, gridDimX);
CONFIG_FIELD(block, blockDimX);
CONFIG_FIELD(shared_bytes, sharedMemBytes);
CONFIG_FIELD(stream, hStream);
CONFIG_FIELD(attributes, attrs);
CONFIG_FIELD(num_attributes, numAttrs);
SAME(DRV_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME(sizeof(struct drv_launch_attribute), sizeof(CUlaunchAttribute));
SAME(offsetof(struct drv_launch_attribute, value), offsetof(CUlaunchAttribute, value));

/* Types: a pointer to ours must be a pointer to theirs. Enumerations are unsigned ints to the compiler. */
#define FUNCTION(name, parameters)                                                                                     \
    _Static_assert(__builtin_types_compatible_p(__typeof__(drv_result(*) parameters), __typeof__(&name)),              \
                   #name " has another type");
DRV_FUNCTIONS(FUNCTION)
