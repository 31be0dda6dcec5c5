// Exponential function, logarithm and the like.
//
// For arguments in a range, Highway's functions of vectors are documented to be 4 units in the last place off, or less.
// The C library's serve for others, and for all where the compiler may use no vectors that Highway knows.
#ifndef VGC_CPU_MATH_FUNCTIONS_H
#define VGC_CPU_MATH_FUNCTIONS_H

// Highway asks for instructions of ciphers in addition to those that a level of x86-64 has.
#define HWY_DISABLE_PCLMUL_AES 1
#define HWY_COMPILE_ONLY_STATIC 1
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
#include <limits>

namespace vgc
{
namespace hn = hwy::HWY_NAMESPACE;

/* Each function has its values in vectors, for arguments from `least` to `most`, and that of any number. */

struct Exp {
    template <class T> static constexpr T least = -std::numeric_limits<T>::max();
    template <class T> static constexpr T most = sizeof(T) == 4 ? T(88) : T(706);

    template <class D, class V> static V in_vectors(D d, V x)
    {
        return hn::Exp(d, x);
    }
    template <class T> static T of(T x)
    {
        return std::exp(x);
    }
};

struct Log {
    template <class T> static constexpr T least = std::numeric_limits<T>::denorm_min();
    template <class T> static constexpr T most = std::numeric_limits<T>::max();

    template <class D, class V> static V in_vectors(D d, V x)
    {
        return hn::Log(d, x);
    }
    template <class T> static T of(T x)
    {
        return std::log(x);
    }
};

struct Sin {
    template <class T> static constexpr T least = -39000;
    template <class T> static constexpr T most = 39000;

    template <class D, class V> static V in_vectors(D d, V x)
    {
        return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Sin(d, x)); // Highway's loses the sign of -0.0
    }
    template <class T> static T of(T x)
    {
        return std::sin(x);
    }
};

struct Cos {
    template <class T> static constexpr T least = -39000;
    template <class T> static constexpr T most = 39000;

    template <class D, class V> static V in_vectors(D d, V x)
    {
        return hn::Cos(d, x);
    }
    template <class T> static T of(T x)
    {
        return std::cos(x);
    }
};

struct Tanh {
    template <class T> static constexpr T least = -std::numeric_limits<T>::max();
    template <class T> static constexpr T most = std::numeric_limits<T>::max();

    template <class D, class V> static V in_vectors(D d, V x)
    {
        return hn::Tanh(d, x);
    }
    template <class T> static T of(T x)
    {
        return std::tanh(x);
    }
};

constexpr bool HAS_VECTORS = HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR;

/* Values for a vector of arguments. */
template <class Function, class T, class D> void call_on_vector(D d, const T *from, T *to)
{
    constexpr T LEAST = Function::template least<T>, MOST = Function::template most<T>;
    T arguments[hn::MaxLanes(D())], values[hn::MaxLanes(D())];
    auto x = hn::LoadU(d, from);
    auto y = Function::in_vectors(d, x);
    if (hn::AllTrue(d, hn::And(hn::Ge(x, hn::Set(d, LEAST)), hn::Le(x, hn::Set(d, MOST)))))
        return hn::StoreU(y, d, to);
    hn::StoreU(x, d, arguments);
    hn::StoreU(y, d, values);
    for (uint64_t i = 0; i < hn::Lanes(d); i++)
        to[i] = arguments[i] >= LEAST && arguments[i] <= MOST ? values[i] : Function::of(arguments[i]);
}

/* Values for `n` arguments; `to` may be `from`. */
template <class Function, class T> void call_function(const T *from, uint64_t n, T *to)
{
    uint64_t i = 0;
    if constexpr (HAS_VECTORS) {
        const hn::ScalableTag<T> d;
        T last[hn::MaxLanes(d)] = {};
        for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
            call_on_vector<Function>(d, from + i, to + i);
        std::copy(from + i, from + n, last);
        call_on_vector<Function>(d, last, last);
        std::copy_n(last, n - i, to + i);
    } else {
        for (; i < n; i++)
            to[i] = Function::of(from[i]);
    }
}
} // namespace vgc

#endif
