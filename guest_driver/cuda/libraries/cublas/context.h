/* A cuBLAS handle, and what all functions do with it. */
#pragma once
#include <cublas_v2.h>
#include <stdint.h>

#include "numbers.h"

struct cublasContext {
    uint32_t magic;
    int device;
    cudaStream_t stream;
    cublasPointerMode_t pointer_mode;
    cublasAtomicsMode_t atomics_mode;
    cublasMath_t math_mode;
    int sm_count_target;
    char *slots;     /* device memory for results and parts of sums: a call takes the next slot */
    unsigned turn;   /* calls that took one */
    void *workspace; /* of cublasSetWorkspace() */
    size_t workspace_bytes;
    int host; /* host.cu: whether the host's cuBLAS is there */
    const void *host_gemm;
};

namespace blas
{

constexpr uint32_t MAGIC = 0x53414c42;
constexpr int SLOTS = 128;       /* calls of one handle that may be at work in several streams at once */
constexpr int SLOT_BYTES = 2048; /* a result, and the parts of a sum behind it */
constexpr int PARTS = 64;
constexpr int RESULT_BYTES = 16;

static inline bool is_handle(cublasHandle_t handle)
{
    return handle && handle->magic == MAGIC;
}

static inline cublasStatus_t status_of(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return CUBLAS_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation:
        return CUBLAS_STATUS_ALLOC_FAILED;
    default:
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}
/* Whether the launches before it were accepted. */
static inline cublasStatus_t launched()
{
    return status_of(cudaGetLastError());
}

template <class T> static inline scalar<T> scalar_of(cublasHandle_t handle, const T *at)
{
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
        return {T{}, at};
    return {*at, nullptr};
}
/* Whether the factor is known to be this number; numbers of the device are known to it alone. */
template <class T> static inline bool is(scalar<T> factor, T value)
{
    return !factor.address && factor.value == value;
}

static inline char *next_slot(cublasHandle_t handle)
{
    return handle->slots + (handle->turn++ % SLOTS) * (size_t)SLOT_BYTES;
}

/* Brings a result that a kernel leaves in a slot to the host, and waits for it. */
template <class R> static inline cublasStatus_t fetch(cublasHandle_t handle, R *host, const void *slot)
{
    if (cublasStatus_t failed = launched())
        return failed;
    cudaError_t error = cudaMemcpyAsync(host, slot, sizeof(R), cudaMemcpyDeviceToHost, handle->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(handle->stream);
    return status_of(error);
}

/* The API's types, as kernels compute with them. */
template <class T> struct inside {
    typedef T type;
};
template <> struct inside<cuComplex> {
    typedef complex<float> type;
};
template <> struct inside<cuDoubleComplex> {
    typedef complex<double> type;
};
template <class T> static inline typename inside<T>::type *in(T *at)
{
    return reinterpret_cast<typename inside<T>::type *>(at);
}
template <class T> static inline const typename inside<T>::type *in(const T *at)
{
    return reinterpret_cast<const typename inside<T>::type *>(at);
}

} // namespace blas

#define BLAS_CHECK_HANDLE(handle)                                                                                      \
    if (!blas::is_handle(handle))                                                                                      \
    return CUBLAS_STATUS_NOT_INITIALIZED
#define BLAS_CHECK(condition)                                                                                          \
    if (!(condition))                                                                                                  \
    return CUBLAS_STATUS_INVALID_VALUE
