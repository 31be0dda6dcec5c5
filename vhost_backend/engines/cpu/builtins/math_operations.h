// Operations on single elements. Each says what an element of the result is; loops over them become vectors.
#ifndef VGC_CPU_MATH_OPERATIONS_H
#define VGC_CPU_MATH_OPERATIONS_H

#include "bools.h"
#include "halves.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace vgc
{
/* Integers wrap around without being undefined. */
template <class T, bool IS_INTEGER = std::is_integral_v<T>> struct WrappingOf {
    using Type = T;
};
template <class T> struct WrappingOf<T, true> {
    using Type = std::make_unsigned_t<T>;
};
template <class T> typename WrappingOf<T>::Type wrapping(T x)
{
    return static_cast<typename WrappingOf<T>::Type>(x);
}

/* NS: nanoseconds of an operation, beside those of loading and storing. */
struct Cheap {
    static constexpr double NS = 0;
};

/* ---- two elements --------------------------------------------------------------------------------------------- */

struct Add : Cheap {
    template <class T> static T of(T a, T b)
    {
        return static_cast<T>(wrapping(a) + wrapping(b));
    }
};

struct Subtract : Cheap {
    template <class T> static T of(T a, T b)
    {
        return static_cast<T>(wrapping(a) - wrapping(b));
    }
};

struct Multiply {
    static constexpr double NS = 0.2;

    template <class T> static T of(T a, T b)
    {
        return static_cast<T>(wrapping(a) * wrapping(b));
    }
};

struct Divide {
    static constexpr double NS = 0.5;

    template <class T> static T of(T a, T b)
    {
        return a / b;
    }
};

/* The least integer divided by -1 is itself: it wraps around. */
struct FloorDivide {
    static constexpr double NS = 3;

    template <class T> static T of(T a, T b)
    {
        if (b == 0)
            return 0;
        if constexpr (std::is_signed_v<T>) {
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
    static constexpr double NS = 3;

    template <class T> static T of(T a, T b)
    {
        if (b == 0)
            return 0;
        if constexpr (std::is_signed_v<T>) {
            if (b == -1)
                return 0;
            T rest = a % b;
            return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
        } else {
            return a % b;
        }
    }
};

struct Power {
    static constexpr double NS = 8;

    template <class T> static T of(T a, T b)
    {
        return std::pow(a, b);
    }
};

struct Maximum : Cheap {
    template <class T> static T of(T a, T b)
    {
        return a > b || a != a ? a : b;
    }
};

struct Minimum : Cheap {
    template <class T> static T of(T a, T b)
    {
        return a < b || a != a ? a : b;
    }
};

struct Equal : Cheap {
    template <class T> static uint8_t of(T a, T b)
    {
        return a == b;
    }
};

struct NotEqual : Cheap {
    template <class T> static uint8_t of(T a, T b)
    {
        return a != b;
    }
};

struct Less : Cheap {
    template <class T> static uint8_t of(T a, T b)
    {
        return a < b;
    }
};

struct LessEqual : Cheap {
    template <class T> static uint8_t of(T a, T b)
    {
        return a <= b;
    }
};

/* ---- one element ---------------------------------------------------------------------------------------------- */

struct Negative : Cheap {
    template <class T> static T of(T a)
    {
        if constexpr (std::is_floating_point_v<T>)
            return -a;
        else
            return static_cast<T>(0 - wrapping(a));
    }
};

struct Absolute : Cheap {
    template <class T> static T of(T a)
    {
        if constexpr (std::is_floating_point_v<T>)
            return std::fabs(a);
        else
            return a < 0 ? Negative::of(a) : a;
    }
};

struct Square {
    static constexpr double NS = 0.2;

    template <class T> static T of(T a)
    {
        return Multiply::of(a, a);
    }
};

struct Sign : Cheap {
    template <class T> static T of(T a)
    {
        T sign = static_cast<T>(a > 0 ? 1 : 0);
        if constexpr (std::is_signed_v<T>)
            sign = a < 0 ? T(-1) : sign;
        return a != a ? a : sign;
    }
};

struct Sqrt {
    static constexpr double NS = 0.7;

    template <class T> static T of(T a)
    {
        return std::sqrt(a);
    }
};

struct Reciprocal {
    static constexpr double NS = 0.5;

    template <class T> static T of(T a)
    {
        return T(1) / a;
    }
};

struct Floor : Cheap {
    template <class T> static T of(T a)
    {
        return std::floor(a);
    }
};

struct Ceil : Cheap {
    template <class T> static T of(T a)
    {
        return std::ceil(a);
    }
};

struct Rint : Cheap {
    template <class T> static T of(T a)
    {
        return std::rint(a);
    }
};

struct Trunc : Cheap {
    template <class T> static T of(T a)
    {
        return std::trunc(a);
    }
};

/* An element of another type. Floats become the nearest integer that the type has, towards 0, and NaN becomes 0. */
template <class To> struct Convert {
    static constexpr double NS = 0.3;

    template <class From> static To of(From a)
    {
        if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
            constexpr From LEAST = static_cast<From>(std::numeric_limits<To>::min());
            constexpr From END = static_cast<From>(To(1) << (std::numeric_limits<To>::digits - 1)) * 2;
            bool is_low = a < LEAST, is_high = a >= END;
            To number = static_cast<To>(is_low || is_high || a != a ? From(0) : a);
            number = is_low ? std::numeric_limits<To>::min() : number;
            return is_high ? std::numeric_limits<To>::max() : number;
        } else {
            return static_cast<To>(a);
        }
    }
};

/* Whether an element is not 0. */
template <> struct Convert<Bool> : Cheap {
    template <class From> static uint8_t of(From a)
    {
        return a != 0;
    }
};

/* A number that becomes the right half once it is rounded: what doubles lose before is kept in the last bit. */
template <> struct Convert<Half> : Cheap {
    template <class From> static float of(From a)
    {
        auto nearest = static_cast<float>(a);
        if constexpr (sizeof(From) == 4 || std::is_integral_v<From>)
            return nearest;
        auto bits = std::bit_cast<uint32_t>(nearest);
        bits -= std::fabs(static_cast<double>(nearest)) > std::fabs(a);
        return std::bit_cast<float>(bits | (nearest != a));
    }
};
} // namespace vgc

#endif
