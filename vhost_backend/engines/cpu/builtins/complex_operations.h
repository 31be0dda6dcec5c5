// Operations on single complex elements, as numpy has them.
#ifndef VGC_CPU_COMPLEX_OPERATIONS_H
#define VGC_CPU_COMPLEX_OPERATIONS_H

#include <cmath>
#include <cstdint>
#include <limits>

namespace vgc
{
/* A complex number. std::complex would look for NaN behind each product. */
template <class T> struct Pair {
    T real, imag;
};

/* ---- two elements --------------------------------------------------------------------------------------------- */

struct ComplexAdd {
    static constexpr double NS = 0;

    template <class T> static Pair<T> of(Pair<T> a, Pair<T> b)
    {
        return {a.real + b.real, a.imag + b.imag};
    }
};

struct ComplexSubtract {
    static constexpr double NS = 0;

    template <class T> static Pair<T> of(Pair<T> a, Pair<T> b)
    {
        return {a.real - b.real, a.imag - b.imag};
    }
};

/* A number times its conjugate is real: no product becomes part of a fused operation. GCC's vectors of differences
 * beside sums would be that, whatever -ffp-contract says. */
struct ComplexMultiply {
    static constexpr double NS = 0.5;

    template <class T> static Pair<T> of(Pair<T> a, Pair<T> b)
    {
        return {product(a.real, b.real) - product(a.imag, b.imag), product(a.real, b.imag) + product(a.imag, b.real)};
    }

  private:
    template <class T> static T product(T a, T b)
    {
        return __builtin_assoc_barrier(a * b);
    }
};

/* By the larger part of the divisor, so that nothing overflows on the way [Smith's algorithm]. */
struct ComplexDivide {
    static constexpr double NS = 3;

    template <class T> static Pair<T> of(Pair<T> a, Pair<T> b)
    {
        if (b.real == 0 && b.imag == 0)
            return {a.real / std::fabs(b.real), a.imag / std::fabs(b.real)};
        if (std::fabs(b.real) >= std::fabs(b.imag)) {
            T ratio = b.imag / b.real, scale = 1 / (b.real + b.imag * ratio);
            return {(a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale};
        }
        T ratio = b.real / b.imag, scale = 1 / (b.imag + b.real * ratio);
        return {(a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale};
    }
};

struct ComplexEqual {
    static constexpr double NS = 0;

    template <class T> static uint8_t of(Pair<T> a, Pair<T> b)
    {
        return (a.real == b.real) & (a.imag == b.imag);
    }
};

struct ComplexNotEqual {
    static constexpr double NS = 0;

    template <class T> static uint8_t of(Pair<T> a, Pair<T> b)
    {
        return (a.real != b.real) | (a.imag != b.imag);
    }
};

struct ComplexJoin {
    static constexpr double NS = 0;

    template <class T> static Pair<T> of(T a, T b)
    {
        return {a, b};
    }
};

/* ---- one element ---------------------------------------------------------------------------------------------- */

struct ComplexNegative {
    static constexpr double NS = 0;

    template <class T> static Pair<T> of(Pair<T> a)
    {
        return {-a.real, -a.imag};
    }
};

struct ComplexConjugate {
    static constexpr double NS = 0;

    template <class T> static Pair<T> of(Pair<T> a)
    {
        return {a.real, -a.imag};
    }
};

/* Infinite if either part is, whatever the other one is. */
struct ComplexAbsolute {
    static constexpr double NS = 3;

    static float of(Pair<float> a)
    {
        auto x = static_cast<double>(a.real), y = static_cast<double>(a.imag);
        auto length = static_cast<float>(std::sqrt(x * x + y * y));
        constexpr float INFINITE = std::numeric_limits<float>::infinity();
        return std::fabs(a.real) == INFINITE || std::fabs(a.imag) == INFINITE ? INFINITE : length;
    }
    static double of(Pair<double> a)
    {
        return std::hypot(a.real, a.imag);
    }
};

struct ComplexAngle {
    static constexpr double NS = 20;

    template <class T> static T of(Pair<T> a)
    {
        return std::atan2(a.imag, a.real);
    }
};
} // namespace vgc

#endif
