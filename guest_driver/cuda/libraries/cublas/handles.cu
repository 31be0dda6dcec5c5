/* Handles, their modes, and words for what goes wrong. */
#include <stdlib.h>
#include <string.h>

#include "context.h"

using blas::is_handle;

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    BLAS_CHECK(handle);
    *handle = nullptr;
    cublasContext made{};
    if (cudaGetDevice(&made.device) != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const cudaError_t error = cudaMalloc(&made.slots, (size_t)blas::SLOTS * blas::SLOT_BYTES);
    if (error != cudaSuccess)
        return error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_NOT_INITIALIZED;
    cublasHandle_t kept = (cublasHandle_t)malloc(sizeof(made));
    if (!kept) {
        cudaFree(made.slots);
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    made.magic = blas::MAGIC;
    made.atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
    *kept = made;
    *handle = kept;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    BLAS_CHECK_HANDLE(handle);
    const cudaError_t error = cudaFree(handle->slots);
    handle->magic = 0;
    free(handle);
    return blas::status_of(error);
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(version);
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    BLAS_CHECK(value && type >= MAJOR_VERSION && type <= PATCH_LEVEL);
    const int parts[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
    *value = parts[type];
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasGetCudartVersion(void)
{
    return CUDART_VERSION;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    BLAS_CHECK_HANDLE(handle);
    handle->stream = stream;
    handle->workspace = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(stream);
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}
/* Memory for panels comes from the stream's pool all the same. */
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK((uintptr_t)workspace % 256 == 0);
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

#define BLAS_MODE(Name, type, member, is_allowed)                                                                      \
    cublasStatus_t cublasGet##Name(cublasHandle_t handle, type *mode)                                                  \
    {                                                                                                                  \
        BLAS_CHECK_HANDLE(handle);                                                                                     \
        BLAS_CHECK(mode);                                                                                              \
        *mode = handle->member;                                                                                        \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }                                                                                                                  \
    cublasStatus_t cublasSet##Name(cublasHandle_t handle, type mode)                                                   \
    {                                                                                                                  \
        BLAS_CHECK_HANDLE(handle);                                                                                     \
        BLAS_CHECK(is_allowed);                                                                                        \
        handle->member = mode;                                                                                         \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }
BLAS_MODE(PointerMode_v2, cublasPointerMode_t, pointer_mode,
          mode == CUBLAS_POINTER_MODE_HOST || mode == CUBLAS_POINTER_MODE_DEVICE)
BLAS_MODE(AtomicsMode, cublasAtomicsMode_t, atomics_mode,
          mode == CUBLAS_ATOMICS_NOT_ALLOWED || mode == CUBLAS_ATOMICS_ALLOWED)
BLAS_MODE(MathMode, cublasMath_t, math_mode,
          (mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) <= CUBLAS_TF32_TENSOR_OP_MATH)
BLAS_MODE(SmCountTarget, int, sm_count_target, mode >= 0)

/* ---- words ---- */

struct status_words {
    cublasStatus_t status;
    const char *name, *words;
};
static const status_words *words_of(cublasStatus_t status)
{
    static const status_words all[] = {
        {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "the operation completed successfully"},
        {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
        {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
        {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
         "an unsupported value or parameter was passed to the function"},
        {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
         "the function requires an architectural feature absent from the architecture of the device"},
        {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
        {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"},
        {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
        {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality requested is not supported"},
        {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "the functionality requested requires a license"},
    };
    static const status_words none = {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_UNKNOWN", "unknown status"};
    for (const status_words &one : all)
        if (one.status == status)
            return &one;
    return &none;
}
const char *cublasGetStatusName(cublasStatus_t status)
{
    return words_of(status)->name;
}
const char *cublasGetStatusString(cublasStatus_t status)
{
    return words_of(status)->words;
}
