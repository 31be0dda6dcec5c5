// Fourier transforms of a few numbers, in registers.
#ifndef CUDA_BUILTINS_BUTTERFLIES_CUH
#define CUDA_BUILTINS_BUTTERFLIES_CUH

#include "common.cuh"

namespace vgc
{
template <class T> struct alignas(8) Complex {
    T re, im;
};

template <class T> __device__ Complex<T> operator+(Complex<T> a, Complex<T> b)
{
    return {a.re + b.re, a.im + b.im};
}
template <class T> __device__ Complex<T> operator-(Complex<T> a, Complex<T> b)
{
    return {a.re - b.re, a.im - b.im};
}
template <class T> __device__ Complex<T> operator*(Complex<T> a, Complex<T> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T> __device__ Complex<T> operator*(T a, Complex<T> b)
{
    return {a * b.re, a * b.im};
}

__device__ inline void turn(float half_turns, float *sine, float *cosine)
{
    sincospif(half_turns, sine, cosine);
}
__device__ inline void turn(double half_turns, double *sine, double *cosine)
{
    sincospi(half_turns, sine, cosine);
}

/* exp(2 pi i * numerator / denominator), conjugated unless `inverse`; the numerator is less than the denominator. */
template <class T> __device__ Complex<T> root(u64 numerator, u64 denominator, bool inverse)
{
    auto place = static_cast<i64>(numerator), whole = static_cast<i64>(denominator);
    place = 2 * place > whole ? place - whole : place; /* small numbers are rounded less */
    Complex<T> found;
    turn(static_cast<T>(2 * place) / static_cast<T>(whole), &found.im, &found.re);
    found.im = inverse ? found.im : -found.im;
    return found;
}

/* i * a, or -i * a if not `inverse`. */
template <class T> __device__ Complex<T> quarter_turn(Complex<T> a, bool inverse)
{
    if (inverse)
        return {-a.im, a.re};
    return {a.im, -a.re};
}

/* Transforms `RADIX` numbers in place. */
template <class T, u32 RADIX> struct Butterfly;

template <class T> struct Butterfly<T, 1> {
    static __device__ void run(Complex<T> (&)[1], bool)
    {
    }
};

template <class T> struct Butterfly<T, 2> {
    static __device__ void run(Complex<T> (&v)[2], bool)
    {
        Complex<T> first = v[0];
        v[0] = first + v[1];
        v[1] = first - v[1];
    }
};

template <class T> struct Butterfly<T, 4> {
    static __device__ void run(Complex<T> (&v)[4], bool inverse)
    {
        Complex<T> even = v[0] + v[2], even_difference = v[0] - v[2];
        Complex<T> odd = v[1] + v[3], odd_difference = quarter_turn(v[1] - v[3], inverse);
        v[0] = even + odd;
        v[1] = even_difference + odd_difference;
        v[2] = even - odd;
        v[3] = even_difference - odd_difference;
    }
};

/* A product of factors: transforms of A numbers that lie B apart, and then of B numbers. */
template <class T, u32 A, u32 B> struct Composite {
    static __device__ void run(Complex<T> (&v)[A * B], bool inverse)
    {
        Complex<T> columns[A * B];
#pragma unroll
        for (u32 i = 0; i < B; i++) {
            Complex<T> column[A];
#pragma unroll
            for (u32 j = 0; j < A; j++)
                column[j] = v[i + j * B];
            Butterfly<T, A>::run(column, inverse);
#pragma unroll
            for (u32 j = 0; j < A; j++)
                columns[i + j * B] = i * j == 0 ? column[j] : column[j] * twiddle(i * j, inverse);
        }
#pragma unroll
        for (u32 j = 0; j < A; j++) {
            Complex<T> row[B];
#pragma unroll
            for (u32 i = 0; i < B; i++)
                row[i] = columns[i + j * B];
            Butterfly<T, B>::run(row, inverse);
#pragma unroll
            for (u32 i = 0; i < B; i++)
                v[j + i * A] = row[i];
        }
    }

  private:
    /* Root number `place` of A * B ones, which are every second one of 16 if they are 8. */
    static __device__ Complex<T> twiddle(u32 place, bool inverse)
    {
        constexpr double COSINES[] = {1,  0.92387953251128675613,  0.70710678118654752440,  0.38268343236508977173,
                                      0,  -0.38268343236508977173, -0.70710678118654752440, -0.92387953251128675613,
                                      -1, -0.92387953251128675613};
        constexpr double SINES[] = {0, 0.38268343236508977173, 0.70710678118654752440, 0.92387953251128675613,
                                    1, 0.92387953251128675613, 0.70710678118654752440, 0.38268343236508977173,
                                    0, -0.38268343236508977173};
        u32 sixteenth = place * (16 / (A * B));
        auto sine = static_cast<T>(SINES[sixteenth]);
        return {static_cast<T>(COSINES[sixteenth]), inverse ? sine : -sine};
    }
};

template <class T> struct Butterfly<T, 8> : Composite<T, 4, 2> {
};
template <class T> struct Butterfly<T, 16> : Composite<T, 4, 4> {
};

/* Cosines and sines of 2 pi / RADIX and its multiples, up to half a turn. */
template <u32 RADIX> struct Angles;
template <> struct Angles<3> {
    static constexpr double COSINES[] = {1, -0.5};
    static constexpr double SINES[] = {0, 0.86602540378443864676};
};
template <> struct Angles<5> {
    static constexpr double COSINES[] = {1, 0.30901699437494742410, -0.80901699437494742410};
    static constexpr double SINES[] = {0, 0.95105651629515357212, 0.58778525229247312917};
};
template <> struct Angles<7> {
    static constexpr double COSINES[] = {1, 0.62348980185873353053, -0.22252093395631440429, -0.90096886790241912624};
    static constexpr double SINES[] = {0, 0.78183148246802980871, 0.97492791218182360702, 0.43388373911755812048};
};

/* Odd prime numbers: pairs of numbers, whose roots are conjugates of each other. */
template <class T, u32 RADIX> struct Odd {
    static constexpr u32 HALF = (RADIX - 1) / 2;

    static __device__ void run(Complex<T> (&v)[RADIX], bool inverse)
    {
        Complex<T> sums[HALF], differences[HALF], first = v[0];
#pragma unroll
        for (u32 i = 0; i < HALF; i++) {
            sums[i] = v[i + 1] + v[RADIX - 1 - i];
            differences[i] = v[i + 1] - v[RADIX - 1 - i];
            v[0] = v[0] + sums[i];
        }
#pragma unroll
        for (u32 k = 1; k <= HALF; k++) {
            Complex<T> even = first, odd = {0, 0};
#pragma unroll
            for (u32 i = 0; i < HALF; i++) {
                even = even + cosine((i + 1) * k % RADIX) * sums[i];
                odd = odd + sine((i + 1) * k % RADIX) * differences[i];
            }
            odd = quarter_turn(odd, inverse);
            v[k] = even + odd;
            v[RADIX - k] = even - odd;
        }
    }

  private:
    static __device__ T cosine(u32 place)
    {
        constexpr auto &COSINES = Angles<RADIX>::COSINES;
        return static_cast<T>(COSINES[place <= HALF ? place : RADIX - place]);
    }
    static __device__ T sine(u32 place)
    {
        constexpr auto &SINES = Angles<RADIX>::SINES;
        return static_cast<T>(place <= HALF ? SINES[place] : -SINES[RADIX - place]);
    }
};

template <class T> struct Butterfly<T, 3> : Odd<T, 3> {
};
template <class T> struct Butterfly<T, 5> : Odd<T, 5> {
};
template <class T> struct Butterfly<T, 7> : Odd<T, 7> {
};

/* One of the transforms that a pass makes of a line, where `done` factors have been done: number `index` of
 * length / RADIX. `get(i)` is a number of the line, `put(i, number)` takes one. */
template <class T, u32 RADIX, class Get, class Put, class Index>
__device__ void transform_some(Index length, Index done, Index index, bool inverse, Get get, Put put)
{
    Complex<T> v[RADIX];
    Index begin = index / done, place = index - begin * done;
#pragma unroll
    for (u32 i = 0; i < RADIX; i++) {
        v[i] = get(index + i * (length / RADIX));
        if (i > 0 && done > 1)
            v[i] = v[i] * root<T>(static_cast<u64>(i) * place, static_cast<u64>(done) * RADIX, inverse);
    }
    Butterfly<T, RADIX>::run(v, inverse);
#pragma unroll
    for (u32 i = 0; i < RADIX; i++)
        put(begin * done * RADIX + place + i * done, v[i]);
}
} // namespace vgc

#endif
