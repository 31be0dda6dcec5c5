// Fourier transforms of the lines of (outer, length, inner).
#include "butterflies.cuh"

namespace vgc
{
/* ---- lines in shared memory ----------------------------------------------------------------------------------- */

/* Some lines of a block, one behind the other in shared memory. */
struct Bundle {
    u64 first;
    u32 count, length;
};

/* Calls `each(place in the array, place in shared memory)` for all numbers, in an order in which adjacent threads have
 * adjacent numbers of the array. */
template <class Each> __device__ void for_numbers(const fft_lines &lines, const Bundle &bundle, Each each)
{
    for (u32 i = threadIdx.x; i < bundle.count * bundle.length; i += THREADS) {
        u32 line = lines.inner == 1 ? i / bundle.length : i % bundle.count;
        u32 number = lines.inner == 1 ? i % bundle.length : i / bundle.count;
        u64 outer = divide(bundle.first + line, lines.inner), inner = bundle.first + line - outer * lines.inner;
        each((outer * lines.length + number) * lines.inner + inner, line * bundle.length + number);
    }
}

template <class T, u32 RADIX>
__device__ void pass_lines(const Bundle &bundle, u32 done, bool inverse, const Complex<T> *from, Complex<T> *to)
{
    u32 per_line = bundle.length / RADIX;
    for (u32 i = threadIdx.x; i < bundle.count * per_line; i += THREADS) {
        u32 line = i / per_line, begin = line * bundle.length;
        transform_some<T, RADIX>(
            bundle.length, done, i - line * per_line, inverse, [&](u32 place) { return from[begin + place]; },
            [&](u32 place, Complex<T> number) { to[begin + place] = number; });
    }
}

template <class T>
__device__ void pass_factor(u32 factor, const Bundle &bundle, u32 done, bool inverse, const Complex<T> *from,
                            Complex<T> *to)
{
    switch (factor) {
    case 2:
        return pass_lines<T, 2>(bundle, done, inverse, from, to);
    case 3:
        return pass_lines<T, 3>(bundle, done, inverse, from, to);
    case 4:
        return pass_lines<T, 4>(bundle, done, inverse, from, to);
    case 5:
        return pass_lines<T, 5>(bundle, done, inverse, from, to);
    case 7:
        return pass_lines<T, 7>(bundle, done, inverse, from, to);
    default:
        return pass_lines<T, 8>(bundle, done, inverse, from, to);
    }
}

template <class T> __device__ void transform_lines(const fft_lines_call &call)
{
    constexpr u32 NUMBERS = FFT_BYTES / sizeof(Complex<T>);
    __shared__ Complex<T> numbers[2][NUMBERS];
    const fft_lines &lines = call.lines;
    auto scale = static_cast<T>(call.scale);
    u64 all = lines.outer * lines.inner, step = static_cast<u64>(gridDim.x) * call.per_block;
    for (u64 first = static_cast<u64>(blockIdx.x) * call.per_block; first < all; first += step) {
        Bundle bundle = {first, static_cast<u32>(lesser<u64>(call.per_block, all - first)),
                         static_cast<u32>(lines.length)};
        u32 now = 0, done = 1;
        for_numbers(lines, bundle, [&](u64 from, u32 to) { numbers[0][to] = at<const Complex<T>>(call.in)[from]; });
        __syncthreads();
        for (u32 i = 0; i < call.num_factors; i++) {
            pass_factor<T>(call.factors[i], bundle, done, call.inverse, numbers[now], numbers[now ^ 1]);
            done *= call.factors[i];
            now ^= 1;
            __syncthreads();
        }
        for_numbers(lines, bundle,
                    [&](u64 to, u32 from) { at<Complex<T>>(call.out)[to] = scale * numbers[now][from]; });
        __syncthreads();
    }
}

/* ---- passes over long lines ----------------------------------------------------------------------------------- */

template <class T, u32 RADIX> __device__ void pass(const fft_pass_call &call)
{
    const fft_lines &lines = call.lines;
    auto scale = static_cast<T>(call.scale);
    u64 per_line = lines.length / RADIX, count = lines.outer * per_line * lines.inner;
    for (u64 i = first_item(); i < count; i += all_threads()) {
        u64 row = divide(i, lines.inner), outer = divide(row, per_line);
        u64 begin = outer * lines.length * lines.inner + (i - row * lines.inner);
        transform_some<T, RADIX>(
            static_cast<u32>(lines.length), static_cast<u32>(call.done), static_cast<u32>(row - outer * per_line),
            call.inverse, [&](u32 place) { return at<const Complex<T>>(call.in)[begin + place * lines.inner]; },
            [&](u32 place, Complex<T> number) {
                at<Complex<T>>(call.out)[begin + place * lines.inner] = scale * number;
            });
    }
}

/* ---- lines of any length -------------------------------------------------------------------------------------- */

/* exp(i * pi * place^2 / length), conjugated unless `inverse`. */
template <class T> __device__ Complex<T> chirp_at(const fft_chirp_call &call, u64 place)
{
    return root<T>(place * place % (2 * call.lines.length), 2 * call.lines.length, call.inverse);
}

/* Place of an item among lines of `length`. */
struct LinePlace {
    u64 outer, number, inner;

    __device__ u64 in(const fft_lines &lines, u64 length) const
    {
        return (outer * length + number) * lines.inner + inner;
    }
};

__device__ inline LinePlace line_place(const fft_lines &lines, u64 length, u64 item)
{
    u64 row = divide(item, lines.inner), outer = divide(row, length);
    return {outer, row - outer * length, item - row * lines.inner};
}

/* The lines, times the chirp, with zeros behind. */
template <class T> __device__ void begin_chirp(const fft_chirp_call &call)
{
    const fft_lines &lines = call.lines;
    u64 count = lines.outer * call.padded * lines.inner;
    for (u64 i = first_item(); i < count; i += all_threads()) {
        LinePlace place = line_place(lines, call.padded, i);
        Complex<T> number = {0, 0};
        if (place.number < lines.length)
            number = at<const Complex<T>>(call.in)[place.in(lines, lines.length)] * chirp_at<T>(call, place.number);
        at<Complex<T>>(call.out)[i] = number;
    }
}

/* The conjugated chirp, to both sides of 0. */
template <class T> __device__ void put_chirp(const fft_chirp_call &call)
{
    for (u64 i = first_item(); i < call.padded; i += all_threads()) {
        u64 place = lesser(i, call.padded - i);
        Complex<T> number = {0, 0};
        if (place < call.lines.length)
            number = chirp_at<T>(call, place);
        at<Complex<T>>(call.out)[i] = {number.re, -number.im};
    }
}

template <class T> __device__ void multiply(const fft_chirp_call &call)
{
    u64 count = call.lines.outer * call.padded * call.lines.inner;
    for (u64 i = first_item(); i < count; i += all_threads()) {
        Complex<T> *number = at<Complex<T>>(call.out) + i;
        *number = *number * at<const Complex<T>>(call.in)[line_place(call.lines, call.padded, i).number];
    }
}

template <class T> __device__ void end_chirp(const fft_chirp_call &call)
{
    const fft_lines &lines = call.lines;
    auto scale = static_cast<T>(call.scale);
    u64 count = lines.outer * lines.length * lines.inner;
    for (u64 i = first_item(); i < count; i += all_threads()) {
        LinePlace place = line_place(lines, lines.length, i);
        Complex<T> number = at<const Complex<T>>(call.in)[place.in(lines, call.padded)];
        at<Complex<T>>(call.out)[i] = scale * (number * chirp_at<T>(call, place.number));
    }
}

/* ---- rows of real numbers ------------------------------------------------------------------------------------- */

template <class T> __device__ void widen(const fft_rows_call &call)
{
    for (u64 i = first_item(); i < call.outer * call.length; i += all_threads())
        at<Complex<T>>(call.out)[i] = {at<const T>(call.in)[i], 0};
}

template <class T> __device__ void take_real(const fft_rows_call &call)
{
    for (u64 i = first_item(); i < call.outer * call.length; i += all_threads())
        at<T>(call.out)[i] = at<const Complex<T>>(call.in)[i].re;
}

/* The first half of each row, and one number more. */
template <class T> __device__ void halve(const fft_rows_call &call)
{
    u64 half = call.length / 2 + 1;
    for (u64 i = first_item(); i < call.outer * half; i += all_threads()) {
        u64 row = divide(i, half);
        at<Complex<T>>(call.out)[i] = at<const Complex<T>>(call.in)[row * call.length + (i - row * half)];
    }
}

/* Whole rows from their halves. Numbers that are their own mirrored ones have no imaginary part. */
template <class T> __device__ void mirror(const fft_rows_call &call)
{
    u64 half = call.length / 2 + 1;
    for (u64 i = first_item(); i < call.outer * call.length; i += all_threads()) {
        u64 row = divide(i, call.length), place = i - row * call.length;
        bool is_mirrored = place >= half, is_real = place == 0 || 2 * place == call.length;
        Complex<T> number = at<const Complex<T>>(call.in)[row * half + (is_mirrored ? call.length - place : place)];
        number.im = is_real ? T(0) : (is_mirrored ? -number.im : number.im);
        at<Complex<T>>(call.out)[i] = number;
    }
}

/* Row whose numbers are the conjugated ones of `row` in the transform of a real array. */
__device__ inline u64 mirrored_row(const fft_hermitian_call &call, u64 row)
{
    u64 upper = divide(row, call.lengths[1]), array = divide(upper, call.lengths[0]);
    u64 second = row - upper * call.lengths[1], first = upper - array * call.lengths[0];
    first = first == 0 ? 0 : call.lengths[0] - first;
    second = second == 0 ? 0 : call.lengths[1] - second;
    return (array * call.lengths[0] + first) * call.lengths[1] + second;
}

/* Copies halves of rows of the spectrum of a real array, and makes them Hermitian: in the first column, and the middle
 * one, mirrored numbers become conjugated ones of each other, which changes nothing in the inverse transform. */
template <class T> __device__ void take_hermitian(const fft_hermitian_call &call)
{
    u64 half = call.length / 2 + 1;
    auto scale = static_cast<T>(call.scale);
    for (u64 i = first_item(); i < call.rows * half; i += all_threads()) {
        u64 row = divide(i, half), place = i - row * half;
        Complex<T> number = at<const Complex<T>>(call.in)[i];
        if (place == 0 || 2 * place == call.length) {
            Complex<T> other = at<const Complex<T>>(call.in)[mirrored_row(call, row) * half + place];
            number = T(0.5) * Complex<T>{number.re + other.re, number.im - other.im};
        }
        at<Complex<T>>(call.out)[i] = scale * number;
    }
}
} // namespace vgc

#define PASS(radix, type, T)                                                                                           \
    KERNEL fft_pass_##radix##_##type(const fft_pass_call call)                                                         \
    {                                                                                                                  \
        vgc::pass<T, radix>(call);                                                                                     \
    }

#define FFT(type, T)                                                                                                   \
    KERNEL fft_lines_##type(const fft_lines_call call)                                                                 \
    {                                                                                                                  \
        vgc::transform_lines<T>(call);                                                                                 \
    }                                                                                                                  \
    PASS(1, type, T)                                                                                                   \
    PASS(2, type, T)                                                                                                   \
    PASS(3, type, T)                                                                                                   \
    PASS(4, type, T)                                                                                                   \
    PASS(5, type, T)                                                                                                   \
    PASS(7, type, T)                                                                                                   \
    PASS(8, type, T)                                                                                                   \
    PASS(16, type, T)                                                                                                  \
    KERNEL fft_chirp_begin_##type(const fft_chirp_call call)                                                           \
    {                                                                                                                  \
        vgc::begin_chirp<T>(call);                                                                                     \
    }                                                                                                                  \
    KERNEL fft_chirp_##type(const fft_chirp_call call)                                                                 \
    {                                                                                                                  \
        vgc::put_chirp<T>(call);                                                                                       \
    }                                                                                                                  \
    KERNEL fft_multiply_##type(const fft_chirp_call call)                                                              \
    {                                                                                                                  \
        vgc::multiply<T>(call);                                                                                        \
    }                                                                                                                  \
    KERNEL fft_chirp_end_##type(const fft_chirp_call call)                                                             \
    {                                                                                                                  \
        vgc::end_chirp<T>(call);                                                                                       \
    }                                                                                                                  \
    KERNEL fft_widen_##type(const fft_rows_call call)                                                                  \
    {                                                                                                                  \
        vgc::widen<T>(call);                                                                                           \
    }                                                                                                                  \
    KERNEL fft_halve_##type(const fft_rows_call call)                                                                  \
    {                                                                                                                  \
        vgc::halve<T>(call);                                                                                           \
    }                                                                                                                  \
    KERNEL fft_mirror_##type(const fft_rows_call call)                                                                 \
    {                                                                                                                  \
        vgc::mirror<T>(call);                                                                                          \
    }                                                                                                                  \
    KERNEL fft_real_##type(const fft_rows_call call)                                                                   \
    {                                                                                                                  \
        vgc::take_real<T>(call);                                                                                       \
    }                                                                                                                  \
    KERNEL fft_hermitian_##type(const fft_hermitian_call call)                                                         \
    {                                                                                                                  \
        vgc::take_hermitian<T>(call);                                                                                  \
    }

FFT(f32, float)
FFT(f64, double)
