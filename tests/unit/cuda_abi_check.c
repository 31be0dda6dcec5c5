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
