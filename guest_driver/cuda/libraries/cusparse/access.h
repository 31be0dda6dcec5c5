// How kernels read scalars and dense matrices.
#pragma once
#include "numbers.h"
#include "work.h"

namespace vgc_sparse
{
template <class Number> __device__ Number value_of(const Scalar &scalar)
{
    return scalar.device ? *(const Number *)scalar.device : number<Number>(scalar.re, scalar.im);
}
template <class Number> __device__ Number *place(const Dense &dense, long long row, long long col, long long batch = 0)
{
    return (Number *)dense.data + batch * dense.batch + row * dense.row + col * dense.col;
}
} // namespace vgc_sparse
