// Operations on single elements: each says what an element of the result is.
#ifndef CUDA_BUILTINS_MATH_OPERATIONS_CUH
#define CUDA_BUILTINS_MATH_OPERATIONS_CUH

#include "common.cuh"

namespace vgc
{
/* Integers wrap around without being undefined. */
template <class T> using Wrapping = typename Choose<Type<T>::IS_FLOAT, T, typename Type<T>::Unsigned>::T;
template <class T> __device__ Wrapping<T> wrapping(T x)
{
    return static_cast<Wrapping<T>>(x);
}

/* Calls the function of the mathematical API for floats or doubles. */
#define BY_TYPE(name, of_float, of_double)                                                                             \
    struct name {                                                                                                      \
        static __device__ float of(float a)                                                                            \
        {                                                                                                              \
            return of_float(a);                                                                                        \
        }                                                                                                              \
        static __device__ double of(double a)                                                                          \
        {                                                                                                              \
            return of_double(a);                                                                                       \
        }                                                                                                              \
    };

BY_TYPE(Sqrt, sqrtf, sqrt)
BY_TYPE(Exp, expf, exp)
BY_TYPE(Log, logf, log)
BY_TYPE(Sin, sinf, sin)
BY_TYPE(Cos, cosf, cos)
BY_TYPE(Tanh, tanhf, tanh)
BY_TYPE(Floor, floorf, floor)
BY_TYPE(Ceil, ceilf, ceil)
BY_TYPE(Rint, rintf, rint)
BY_TYPE(Trunc, truncf, trunc)
BY_TYPE(FloatAbsolute, fabsf, fabs)

struct Add {
    template <class T> static __device__ T of(T a, T b)
    {
        return static_cast<T>(wrapping(a) + wrapping(b));
    }
};

struct Subtract {
    template <class T> static __device__ T of(T a, T b)
    {
        return static_cast<T>(wrapping(a) - wrapping(b));
    }
};

struct Multiply {
    template <class T> static __device__ T of(T a, T b)
    {
        return static_cast<T>(wrapping(a) * wrapping(b));
    }
};

struct Divide {
    template <class T> static __device__ T of(T a, T b)
    {
        return a / b;
    }
};

/* The least integer divided by -1 is itself: it wraps around. */
struct FloorDivide {
    template <class T> static __device__ T of(T a, T b)
    {
        if (b == 0)
            return 0;
        if constexpr (Type<T>::IS_SIGNED) {
            if (b == -1)
                return static_cast<T>(0 - wrapping(a));
            T quotient = a / b;
            return (a < 0) != (b < 0) && quotient * b != a ? quotient - 1 : quotient;
        } else {
            return a / b;
        }
    }
};

struct Remainder {
    template <class T> static __device__ T of(T a, T b)
    {
        if (b == 0)
            return 0;
        if constexpr (Type<T>::IS_SIGNED) {
            if (b == -1)
                return 0;
            T rest = a % b;
            return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
        } else {
            return a % b;
        }
    }
};

/* powf() is up to 4 units in the last place off. */
struct Power {
    static __device__ float of(float a, float b)
    {
        return static_cast<float>(pow(static_cast<double>(a), static_cast<double>(b)));
    }
    static __device__ double of(double a, double b)
    {
        return pow(a, b);
    }
};

struct Maximum {
    template <class T> static __device__ T of(T a, T b)
    {
        return a > b || a != a ? a : b;
    }
};

struct Minimum {
    template <class T> static __device__ T of(T a, T b)
    {
        return a < b || a != a ? a : b;
    }
};

struct Negative {
    template <class T> static __device__ T of(T a)
    {
        if constexpr (Type<T>::IS_FLOAT)
            return -a;
        else
            return static_cast<T>(0 - wrapping(a));
    }
};

struct Absolute {
    template <class T> static __device__ T of(T a)
    {
        if constexpr (Type<T>::IS_FLOAT)
            return FloatAbsolute::of(a);
        else if constexpr (Type<T>::IS_SIGNED)
            return a < 0 ? Negative::of(a) : a;
        else
            return a;
    }
};

struct Square {
    template <class T> static __device__ T of(T a)
    {
        return Multiply::of(a, a);
    }
};

struct Sign {
    template <class T> static __device__ T of(T a)
    {
        T sign = static_cast<T>(a > 0 ? 1 : 0);
        if constexpr (Type<T>::IS_SIGNED)
            sign = a < 0 ? T(-1) : sign;
        return a != a ? a : sign;
    }
};

struct Reciprocal {
    template <class T> static __device__ T of(T a)
    {
        return T(1) / a;
    }
};

/* An element of another type. Floats become the nearest integer that the type has, towards 0, and NaN becomes 0. */
template <class To> struct Convert {
    template <class From> static __device__ To of(From a)
    {
        if constexpr (Type<From>::IS_FLOAT && !Type<To>::IS_FLOAT) {
            constexpr u32 DIGITS = 8 * sizeof(To) - (Type<To>::IS_SIGNED ? 1 : 0);
            constexpr From END = static_cast<From>(u64(1) << (DIGITS - 1)) * 2;
            if (a != a)
                return 0;
            if (a >= END)
                return Type<To>::most();
            return a <= (Type<To>::IS_SIGNED ? -END : From(-1)) ? Type<To>::least() : static_cast<To>(a);
        } else {
            return static_cast<To>(a);
        }
    }
};

/* Whether an element is not 0. */
template <> struct Convert<Bool> {
    template <class From> static __device__ u32 of(From a)
    {
        return a != 0;
    }
};

/* A number that becomes the right half once it is rounded: what doubles lose before is kept in the last bit. */
template <> struct Convert<__half> {
    template <class From> static __device__ float of(From a)
    {
        if constexpr (!IS_SAME<From, double>) {
            return static_cast<float>(a);
        } else {
            float nearest = __double2float_rz(a);
            return __int_as_float(__float_as_int(nearest) | (static_cast<double>(nearest) != a));
        }
    }
};
} // namespace vgc

#endif
