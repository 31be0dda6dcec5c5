#pragma once
#include_next <cub/thread/thread_operators.cuh>
#include <cub/version.cuh>

#include "../../vgc_release.h"
#if CUB_MAJOR_VERSION >= 3
#include <cuda/functional>
#include <cuda/std/functional>
CUB_NAMESPACE_BEGIN
using Equality = ::cuda::std::equal_to<>;
using Inequality = ::cuda::std::not_equal_to<>;
using Sum = ::cuda::std::plus<>;
using Difference = ::cuda::std::minus<>;
using Division = ::cuda::std::divides<>;
using Max = ::cuda::maximum<>;
using Min = ::cuda::minimum<>;

/* Calls an operator with its operands in the other order. */
template <class Operator> struct BinaryFlip {
    Operator binary_op;
    __VGC_CCCL_BOTH__ explicit BinaryFlip(Operator op) : binary_op(op) {}
    template <class T, class U> __device__ decltype(auto) operator()(T &&a, U &&b) {
        return binary_op(static_cast<U &&>(b), static_cast<T &&>(a));
    }
};
template <class Operator> __VGC_CCCL_BOTH__ BinaryFlip<Operator> MakeBinaryFlip(Operator op) {
    return BinaryFlip<Operator>(op);
}
CUB_NAMESPACE_END
#endif
