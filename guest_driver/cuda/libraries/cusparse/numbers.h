// Numbers of the four types as the kernels use them.
#pragma once

namespace vgc_sparse
{
template <class Real> __device__ inline Real plus(Real a, Real b)
{
    return a + b;
}
template <class Real> __device__ inline Real times(Real a, Real b)
{
    return a * b;
}
template <class Real> __device__ inline Real over(Real a, Real b)
{
    return a / b;
}
template <class Real> __device__ inline Real conjugate(Real a)
{
    return a;
}
template <class Real> __device__ inline bool is_zero(Real a)
{
    return a == 0;
}
template <class Real> __device__ inline void add_to(Real *at, Real value)
{
    atomicAdd(at, value);
}
template <class Number> struct Make {
    static __device__ Number of(double re, double)
    {
        return (Number)re;
    }
};
#define VGC_SPARSE_COMPLEX(PAIR, REAL)                                                                                 \
    template <> struct Make<PAIR> {                                                                                    \
        static __device__ PAIR of(double re, double im)                                                                \
        {                                                                                                              \
            return {(REAL)re, (REAL)im};                                                                               \
        }                                                                                                              \
    };                                                                                                                 \
    template <> __device__ inline PAIR plus(PAIR a, PAIR b)                                                            \
    {                                                                                                                  \
        return {a.x + b.x, a.y + b.y};                                                                                 \
    }                                                                                                                  \
    template <> __device__ inline PAIR times(PAIR a, PAIR b)                                                           \
    {                                                                                                                  \
        return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                                         \
    }                                                                                                                  \
    template <> __device__ inline PAIR over(PAIR a, PAIR b)                                                            \
    {                                                                                                                  \
        const REAL scale = 1 / (b.x * b.x + b.y * b.y);                                                                \
        return {(a.x * b.x + a.y * b.y) * scale, (a.y * b.x - a.x * b.y) * scale};                                     \
    }                                                                                                                  \
    template <> __device__ inline PAIR conjugate(PAIR a)                                                               \
    {                                                                                                                  \
        return {a.x, -a.y};                                                                                            \
    }                                                                                                                  \
    template <> __device__ inline bool is_zero(PAIR a)                                                                 \
    {                                                                                                                  \
        return a.x == 0 && a.y == 0;                                                                                   \
    }                                                                                                                  \
    template <> __device__ inline void add_to(PAIR *at, PAIR value)                                                    \
    {                                                                                                                  \
        atomicAdd(&at->x, value.x);                                                                                    \
        atomicAdd(&at->y, value.y);                                                                                    \
    }
VGC_SPARSE_COMPLEX(float2, float)
VGC_SPARSE_COMPLEX(double2, double)
#undef VGC_SPARSE_COMPLEX
} // namespace vgc_sparse
