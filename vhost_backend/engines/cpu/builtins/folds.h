// Folds: the operations of reductions and of running reductions, of numbers and of the compiler's vectors of numbers.
#ifndef VGC_CPU_FOLDS_H
#define VGC_CPU_FOLDS_H

#include "bools.h"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace vgc
{
/* Type in which elements are added: floats as doubles, so that few roundings add up; integers with 64 bits. */
template <class T>
using Wide =
    std::conditional_t<std::is_floating_point_v<T>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

/* Integers wrap around without being undefined. */
template <class T> using Wrapping = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;

template <class T> struct Sum {
    using Acc = Wrapping<Wide<T>>;
    using Out = std::conditional_t<std::is_floating_point_v<T>, T, Wide<T>>;
    static constexpr Acc neutral = 0;

    static Acc load(T x)
    {
        return static_cast<Acc>(static_cast<Wide<T>>(x));
    }
    template <class V> static V fold(V a, V b)
    {
        return a + b;
    }
};

template <> struct Sum<Bool> : Sum<uint64_t> {
    using Out = int64_t;

    static uint64_t load(Bool x)
    {
        return truth(x);
    }
};

template <class T> struct Product : Sum<T> {
    using Acc = typename Sum<T>::Acc;
    static constexpr Acc neutral = 1;

    template <class V> static V fold(V a, V b)
    {
        return a * b;
    }
};

template <class T> struct Least {
    using Acc = T;
    using Out = T;
    static constexpr T neutral =
        std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();

    static T load(T x)
    {
        return x;
    }
    /* NaN if either is. */
    template <class V> static V fold(V a, V b)
    {
        return b < a || b != b ? b : a;
    }
    static bool comes_before(T a, T b)
    {
        return a < b;
    }
};

template <class T> struct Greatest {
    using Acc = T;
    using Out = T;
    static constexpr T neutral =
        std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();

    static T load(T x)
    {
        return x;
    }
    template <class V> static V fold(V a, V b)
    {
        return b > a || b != b ? b : a;
    }
    static bool comes_before(T a, T b)
    {
        return a > b;
    }
};

/* Whether all are true, and whether any is. */
template <> struct Least<Bool> {
    using Acc = uint8_t;
    using Out = uint8_t;
    static constexpr uint8_t neutral = 1;

    static uint8_t load(Bool x)
    {
        return truth(x);
    }
    static uint8_t fold(uint8_t a, uint8_t b)
    {
        return a & b;
    }
};

template <> struct Greatest<Bool> : Least<Bool> {
    static constexpr uint8_t neutral = 0;

    static uint8_t fold(uint8_t a, uint8_t b)
    {
        return a | b;
    }
};
} // namespace vgc

#endif
