// For the kernels of all modules. They are compiled by NVRTC, which has no headers of a C++ library, and for the
// software GPU.
#ifndef CUDA_BUILTINS_COMMON_CUH
#define CUDA_BUILTINS_COMMON_CUH

#include "calls.h"

#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)
/* Kernel with two blocks on an SM at once: threads have 128 registers at most. */
#define KERNEL_OF_TWO extern "C" __global__ void __launch_bounds__(THREADS, 2)

namespace vgc
{
enum : u32 {
    WARP = 32,
    ALL_LANES = 0xFFFFFFFF,
};

/* ---- types ---------------------------------------------------------------------------------------------------- */

/* UNSIGNED: integer of the same size; FLOAT, SIGNED: kind of the type; LEAST, MOST: its limits, infinities of floats.
 */
template <class T> struct Type;
template <> struct Type<float> {
    using Unsigned = u32;
    static constexpr bool IS_FLOAT = true, IS_SIGNED = true;
    static __device__ float least()
    {
        return __int_as_float(0xFF800000);
    }
    static __device__ float most()
    {
        return __int_as_float(0x7F800000);
    }
};
template <> struct Type<double> {
    using Unsigned = u64;
    static constexpr bool IS_FLOAT = true, IS_SIGNED = true;
    static __device__ double least()
    {
        return __longlong_as_double(0xFFF0000000000000);
    }
    static __device__ double most()
    {
        return __longlong_as_double(0x7FF0000000000000);
    }
};
template <> struct Type<i32> {
    using Unsigned = u32;
    static constexpr bool IS_FLOAT = false, IS_SIGNED = true;
    static __device__ i32 least()
    {
        return -0x7FFFFFFF - 1;
    }
    static __device__ i32 most()
    {
        return 0x7FFFFFFF;
    }
};
template <> struct Type<i64> {
    using Unsigned = u64;
    static constexpr bool IS_FLOAT = false, IS_SIGNED = true;
    static __device__ i64 least()
    {
        return -0x7FFFFFFFFFFFFFFF - 1;
    }
    static __device__ i64 most()
    {
        return 0x7FFFFFFFFFFFFFFF;
    }
};
template <> struct Type<u32> {
    using Unsigned = u32;
    static constexpr bool IS_FLOAT = false, IS_SIGNED = false;
    static __device__ u32 least()
    {
        return 0;
    }
    static __device__ u32 most()
    {
        return 0xFFFFFFFF;
    }
};
template <> struct Type<u64> {
    using Unsigned = u64;
    static constexpr bool IS_FLOAT = false, IS_SIGNED = false;
    static __device__ u64 least()
    {
        return 0;
    }
    static __device__ u64 most()
    {
        return 0xFFFFFFFFFFFFFFFF;
    }
};

/* Truth values: 0 is false, and all others are true. */
enum class Bool : unsigned char {};

template <class A, class B> constexpr bool IS_SAME = false;
template <class A> constexpr bool IS_SAME<A, A> = true;
template <bool CHOICE, class A, class B> struct Choose {
    using T = A;
};
template <class A, class B> struct Choose<false, A, B> {
    using T = B;
};

/* Type in which elements are computed: halves are floats until they are rounded once, at the end, and truth values are
 * 1 or 0. */
template <class T>
using Number = typename Choose<IS_SAME<T, __half>, float, typename Choose<IS_SAME<T, Bool>, u32, T>::T>::T;

template <class T> __device__ Number<T> load(const T *from)
{
    if constexpr (IS_SAME<T, __half>)
        return __half2float(*from);
    else if constexpr (IS_SAME<T, Bool>)
        return *from != Bool{};
    else
        return *from;
}

template <class T> __device__ void store(T *to, Number<T> number)
{
    if constexpr (IS_SAME<T, __half>)
        *to = __float2half_rn(number);
    else if constexpr (IS_SAME<T, Bool>)
        *to = static_cast<Bool>(number != 0);
    else
        *to = number;
}

template <class T> __device__ T *at(u64 address)
{
    return reinterpret_cast<T *>(address);
}

/* Copies a unit of 1, 2, 4 or 8 bytes. */
__device__ inline void copy_unit(u32 bytes, u64 from, u64 from_index, u64 to, u64 to_index)
{
    switch (bytes) {
    case 1:
        at<unsigned char>(to)[to_index] = at<const unsigned char>(from)[from_index];
        break;
    case 2:
        at<unsigned short>(to)[to_index] = at<const unsigned short>(from)[from_index];
        break;
    case 4:
        at<u32>(to)[to_index] = at<const u32>(from)[from_index];
        break;
    default:
        at<u64>(to)[to_index] = at<const u64>(from)[from_index];
        break;
    }
}

/* Memory of the VM that may change meanwhile: read once, here. */
template <class T> __device__ T read_once(const T *from)
{
    return *static_cast<const volatile T *>(from);
}

template <class T> __device__ T lesser(T a, T b)
{
    return b < a ? b : a;
}

__device__ inline u64 divide_up(u64 items, u64 by)
{
    return (items + by - 1) / by;
}

/* Quotients take a fraction of the time with 32 bits. */
__device__ inline u64 divide(u64 a, u64 b)
{
    if (((a | b) >> 32) == 0)
        return static_cast<u32>(a) / static_cast<u32>(b);
    return a / b;
}

/* ---- threads -------------------------------------------------------------------------------------------------- */

/* Number of this thread among those of the launch, and the number of these, for loops over items. */
__device__ inline u64 first_item()
{
    return static_cast<u64>(blockIdx.x) * THREADS + threadIdx.x;
}

__device__ inline u64 all_threads()
{
    return static_cast<u64>(gridDim.x) * THREADS;
}

/* Reports that the call failed; the first report counts. */
__device__ inline void fail(u64 status, u32 why)
{
    atomicCAS(at<u32>(status), 0, why);
}
} // namespace vgc

#endif
