// Kernels of sparse vectors x with dense vectors y, stored as X and Y and computed as Number.
#pragma once
#include "access.h"
#include "vector_work.h"

namespace vgc_sparse
{
static __device__ inline long long index_of(const VectorWork &w, long long at)
{
    return index_at(w.indices.data, w.indices.wide, at) - w.indices.base;
}
template <class Y, class Number> __global__ void scale_vector(VectorWork w)
{
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= w.size)
        return;
    const Number beta = value_of<Number>(w.beta);
    Y *const y = (Y *)w.y + at;
    *y = narrow<Y>(is_zero(beta) ? beta : beta * widen<Number>(*y));
}
template <class X, class Y, class Number> __global__ void add_vector(VectorWork w)
{
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= w.nnz)
        return;
    Y *const y = (Y *)w.y + index_of(w, at);
    *y = narrow<Y>(value_of<Number>(w.alpha) * widen<Number>(((const X *)w.x)[at]) + widen<Number>(*y));
}
template <class X, class Y, class Number> __global__ void rotate_vector(VectorWork w)
{
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= w.nnz)
        return;
    X *const x = (X *)w.x + at;
    Y *const y = (Y *)w.y + index_of(w, at);
    const Number c = value_of<Number>(w.alpha), s = value_of<Number>(w.beta);
    const Number old_x = widen<Number>(*x), old_y = widen<Number>(*y);
    *x = narrow<X>(c * old_x + s * old_y);
    *y = narrow<Y>(c * old_y - s * old_x);
}
template <class X, class Y, class Number> __global__ void multiply_vector(VectorWork w)
{
    __shared__ Number sums[128];
    Number mine = number<Number>(0);
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < w.nnz; at += step) {
        const Number x = widen<Number>(((const X *)w.x)[at]), y = widen<Number>(((const Y *)w.y)[index_of(w, at)]);
        mine = mine + (w.conjugated ? conjugate(x) : x) * y;
    }
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        add_to((Number *)w.sum, sums[0]);
}

template <class X, class Y, class Number> struct Vectors {
    static cudaError_t add(const VectorWork &w, cudaStream_t stream)
    {
        if (w.size)
            scale_vector<Y, Number><<<blocks_for(w.size), 128, 0, stream>>>(w);
        if (w.nnz)
            add_vector<X, Y, Number><<<blocks_for(w.nnz), 128, 0, stream>>>(w);
        return cudaGetLastError();
    }
    static cudaError_t rotate(const VectorWork &w, cudaStream_t stream)
    {
        if (w.nnz)
            rotate_vector<X, Y, Number><<<blocks_for(w.nnz), 128, 0, stream>>>(w);
        return cudaGetLastError();
    }
    static cudaError_t multiply(const VectorWork &w, cudaStream_t stream)
    {
        const cudaError_t error = cudaMemsetAsync(w.sum, 0, sizeof(Number), stream);
        if (error != cudaSuccess)
            return error;
        const unsigned all = blocks_for(w.nnz), blocks = all < 256 ? all : 256;
        if (w.nnz)
            multiply_vector<X, Y, Number><<<blocks, 128, 0, stream>>>(w);
        return cudaMemcpyAsync(w.result, w.sum, sizeof(Number), cudaMemcpyDefault, stream);
    }
};
} // namespace vgc_sparse

#define SPARSE_VECTORS(NAME, X, Y, NUMBER)                                                                             \
    const vgc_sparse::VectorLaunches *vgc_sparse::NAME()                                                               \
    {                                                                                                                  \
        typedef Vectors<X, Y, NUMBER> All;                                                                             \
        static const VectorLaunches launches = {All::add, All::rotate, All::multiply};                                 \
        return &launches;                                                                                              \
    }
