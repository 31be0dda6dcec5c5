/* A handle of the sparse functions, and how their arguments come to the processor of the guest. */
#pragma once
#include <cusolverSp.h>
#include <new>

#include "../cusparse/descriptors.h"
#include "sparse.h"

struct cusolverSpContext {
    cudaStream_t stream;
};

namespace sparse
{
typedef cusolverStatus_t status;
typedef cusolverSpHandle_t handle;
enum Place { ON_HOST, ON_DEVICE };

/* The API's types, as the decompositions compute with them. */
template <class T> struct inside {
    typedef T type;
};
template <> struct inside<cuComplex> {
    typedef std::complex<float> type;
};
template <> struct inside<cuDoubleComplex> {
    typedef std::complex<double> type;
};
template <class T> typename inside<T>::type *in(T *at)
{
    return reinterpret_cast<typename inside<T>::type *>(at);
}
template <class T> const typename inside<T>::type *in(const T *at)
{
    return reinterpret_cast<const typename inside<T>::type *>(at);
}

/* An array of the caller, read; empty if the device cannot be read. */
template <class T> status fetch(handle h, Place place, const T *from, size_t count, std::vector<T> &to)
{
    to.resize(count);
    if (count == 0)
        return CUSOLVER_STATUS_SUCCESS;
    if (place == ON_HOST) {
        std::copy(from, from + count, to.begin());
        return CUSOLVER_STATUS_SUCCESS;
    }
    cudaError_t error = cudaMemcpyAsync(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, h->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(h->stream);
    return error == cudaSuccess ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}
template <class T> status put(handle h, Place place, const std::vector<T> &from, T *to)
{
    if (place == ON_HOST) {
        std::copy(from.begin(), from.end(), to);
        return CUSOLVER_STATUS_SUCCESS;
    }
    cudaError_t error = cudaMemcpyAsync(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, h->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(h->stream); /* `from` is gone behind the call */
    return error == cudaSuccess ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}
status fetch_pattern(handle h, Place place, int m, int n, int nnz, const cusparseMatDescr *descriptor,
                     const int *offsets, const int *columns, Pattern &to);
template <class T>
status fetch_matrix(handle h, Place place, int m, int n, int nnz, const cusparseMatDescr *descriptor, const T *values,
                    const int *offsets, const int *columns, Matrix<T> &to)
{
    if (const status failed = fetch_pattern(h, place, m, n, nnz, descriptor, offsets, columns, to.pattern))
        return failed;
    if (nnz > 0 && !values)
        return CUSOLVER_STATUS_INVALID_VALUE;
    return fetch(h, place, values, nnz, to.values);
}
/* Runs what may be short of memory. */
template <class Work> status guarded(handle h, Work work)
{
    if (!h)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    try {
        return work();
    } catch (const std::bad_alloc &) {
        return CUSOLVER_STATUS_ALLOC_FAILED;
    }
}
} // namespace sparse
#define SPARSE_TRY(call)                                                                                               \
    do {                                                                                                               \
        if (const cusolverStatus_t error_of_call = (call))                                                             \
            return error_of_call;                                                                                      \
    } while (0)
#define SPARSE_CHECK(condition)                                                                                        \
    if (!(condition))                                                                                                  \
    return CUSOLVER_STATUS_INVALID_VALUE
