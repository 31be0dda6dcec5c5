// The kernel of cuFFT for one precision: Stockham's passes in shared memory. The caller's numbers may be narrower than
// those of the passes and of work areas (`Stored`, a real number): half precision is computed in single.
#pragma once
#include "pass.h"

namespace
{
template <class Pair, class Real, class Stored> struct Line {
    struct alignas(2 * sizeof(Stored)) StoredPair {
        Stored x, y;
    };
    static __device__ Pair make(Real x, Real y)
    {
        Pair z;
        z.x = x;
        z.y = y;
        return z;
    }
    static __device__ Pair times(Pair a, Pair b)
    {
        return make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
    }
    static __device__ Pair plus(Pair a, Pair b)
    {
        return make(a.x + b.x, a.y + b.y);
    }
    static __device__ Pair minus(Pair a, Pair b)
    {
        return make(a.x - b.x, a.y - b.y);
    }
    static __device__ Pair turned(Pair a, Real sign)
    {
        return make(-sign * a.y, sign * a.x);
    } // times sign * i
    static __device__ Pair root(const Pair *table, long long place, Real sign)
    {
        return make(table[place].x, sign * table[place].y);
    }

    static __device__ void two(Pair *v, Real)
    {
        const Pair a = v[0];
        v[0] = plus(a, v[1]);
        v[1] = minus(a, v[1]);
    }
    static __device__ void three(Pair *v, Real sign)
    {
        const Real half_root = (Real)0.86602540378443864676;
        const Pair sum = plus(v[1], v[2]), difference = minus(v[1], v[2]);
        const Pair middle = make(v[0].x - (Real)0.5 * sum.x, v[0].y - (Real)0.5 * sum.y);
        const Pair side = turned(make(half_root * difference.x, half_root * difference.y), sign);
        v[0] = plus(v[0], sum);
        v[1] = plus(middle, side);
        v[2] = minus(middle, side);
    }
    static __device__ void four(Pair *v, Real sign)
    {
        const Pair a = plus(v[0], v[2]), b = minus(v[0], v[2]), c = plus(v[1], v[3]),
                   d = turned(minus(v[1], v[3]), sign);
        v[0] = plus(a, c);
        v[1] = plus(b, d);
        v[2] = minus(a, c);
        v[3] = minus(b, d);
    }
    static __device__ void five(Pair *v, Real sign)
    {
        const Real c1 = (Real)0.30901699437494742410, c2 = (Real)-0.80901699437494742410;
        const Real s1 = (Real)0.95105651629515357212, s2 = (Real)0.58778525229247312917;
        const Pair a = plus(v[1], v[4]), b = minus(v[1], v[4]), c = plus(v[2], v[3]), d = minus(v[2], v[3]);
        const Pair first = make(v[0].x + c1 * a.x + c2 * c.x, v[0].y + c1 * a.y + c2 * c.y);
        const Pair second = make(v[0].x + c2 * a.x + c1 * c.x, v[0].y + c2 * a.y + c1 * c.y);
        const Pair p = turned(make(s1 * b.x + s2 * d.x, s1 * b.y + s2 * d.y), sign);
        const Pair q = turned(make(s2 * b.x - s1 * d.x, s2 * b.y - s1 * d.y), sign);
        v[0] = plus(v[0], plus(a, c));
        v[1] = plus(first, p);
        v[2] = plus(second, q);
        v[3] = minus(second, q);
        v[4] = minus(first, p);
    }
    static __device__ void eight(Pair *v, Real sign)
    {
        const Real r = (Real)0.70710678118654752440;
        Pair even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
        four(even, sign);
        four(odd, sign);
        odd[1] = make(r * (odd[1].x - sign * odd[1].y), r * (odd[1].y + sign * odd[1].x));
        odd[2] = turned(odd[2], sign);
        odd[3] = make(-r * (odd[3].x + sign * odd[3].y), r * (sign * odd[3].x - odd[3].y));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = plus(even[i], odd[i]);
            v[i + 4] = minus(even[i], odd[i]);
        }
    }

    // Where a block's threads stand: `at` of the line's element 0 in shared memory, `gap` between elements.
    struct Place {
        unsigned at, gap, lane, lanes;
    };

    template <int RADIX>
    static __device__ void pass(const Pair *from, Pair *to, const Pair *table, unsigned n, unsigned done, Place place,
                                Real sign)
    {
        const unsigned part = n / RADIX, step = part / done;
        const unsigned long long inverse = (0x100000000ull + done - 1) / done;
        for (unsigned j = place.lane; j < part; j += place.lanes) {
            const unsigned high = (unsigned)(j * inverse >> 32), k = j - high * done;
            Pair v[RADIX];
#pragma unroll
            for (unsigned r = 0; r < RADIX; r++)
                v[r] = from[place.at + (j + r * part) * place.gap];
#pragma unroll
            for (unsigned r = 1; r < RADIX; r++)
                v[r] = times(v[r], root(table, r * k * step, sign));
            if (RADIX == 2)
                two(v, sign);
            if (RADIX == 3)
                three(v, sign);
            if (RADIX == 4)
                four(v, sign);
            if (RADIX == 5)
                five(v, sign);
            if (RADIX == 8)
                eight(v, sign);
#pragma unroll
            for (unsigned r = 0; r < RADIX; r++)
                to[place.at + (high * done * RADIX + k + r * done) * place.gap] = v[r];
        }
    }
    // A prime that has no pass of its own: each thread sums one output.
    static __device__ void prime(const Pair *from, Pair *to, const Pair *table, unsigned n, unsigned done,
                                 unsigned radix, Place place, Real sign)
    {
        const unsigned part = n / radix, step = part / done;
        for (unsigned item = place.lane; item < n; item += place.lanes) {
            const unsigned r = item / part, j = item - r * part, high = j / done, k = j - high * done;
            const unsigned turn = k * step + r * part;
            Pair sum = from[place.at + j * place.gap];
            for (unsigned q = 1, angle = turn; q < radix; q++) {
                sum = plus(sum, times(from[place.at + (j + q * part) * place.gap], root(table, angle, sign)));
                angle += turn;
                angle -= angle >= n ? n : 0;
            }
            to[place.at + (high * done * radix + k + r * done) * place.gap] = sum;
        }
    }

    static constexpr bool IS_NARROW = sizeof(Stored) < sizeof(Real);
    static __device__ Pair read(const vgc_fft_pass &p, long long place)
    {
        if (IS_NARROW && p.in.narrow) {
            if (p.in.kind == VGC_FFT_REAL)
                return make((Real)((const Stored *)p.input)[place], 0);
            const StoredPair pair = ((const StoredPair *)p.input)[place];
            return make((Real)pair.x, (Real)pair.y);
        }
        return p.in.kind == VGC_FFT_REAL ? make(((const Real *)p.input)[place], 0) : ((const Pair *)p.input)[place];
    }
    static __device__ void write(const vgc_fft_pass &p, long long place, Pair value)
    {
        if (IS_NARROW && p.out.narrow) {
            if (p.out.kind == VGC_FFT_REAL)
                ((Stored *)p.output)[place] = (Stored)value.x;
            else
                ((StoredPair *)p.output)[place] = {(Stored)value.x, (Stored)value.y};
        } else if (p.out.kind == VGC_FFT_REAL)
            ((Real *)p.output)[place] = value.x;
        else
            ((Pair *)p.output)[place] = value;
    }

    static __device__ Pair load(const vgc_fft_pass &p, long long base, int index)
    {
        const vgc_fft_side &side = p.in;
        if (index >= side.valid)
            return make(0, 0);
        const bool mirrored = side.kind == VGC_FFT_HERMITIAN && index > p.size / 2;
        Pair value = read(p, base + (mirrored ? p.size - index : index) * side.stride);
        if (mirrored)
            value.y = -value.y;
        return p.in_factor ? times(value, root((const Pair *)p.in_factor, index, p.chirp_sign)) : value;
    }
    static __device__ void store(const vgc_fft_pass &p, long long base, int index, Pair value)
    {
        if (index >= p.out.valid)
            return;
        if (p.out_factor)
            value = times(value, root((const Pair *)p.out_factor, index, p.chirp_sign));
        write(p, base + index * p.out.stride, value);
    }

    static __device__ void run(const vgc_fft_pass &p, Pair *shared)
    {
        const unsigned width = p.by_column ? blockDim.x : blockDim.y,
                       in_block = p.by_column ? threadIdx.x : threadIdx.y;
        const unsigned n = p.n, number = blockIdx.x * width + in_block;
        const bool alive = number < p.lines;
        const Place place = {p.by_column ? in_block : in_block * n, p.by_column ? width : 1,
                             p.by_column ? threadIdx.y : threadIdx.x, p.by_column ? blockDim.y : blockDim.x};
        const Real sign = (Real)p.sign;
        Pair *from = shared, *to = shared + width * n;
        unsigned digits[5], rest = alive ? number : 0;
#pragma unroll
        for (int i = 0; i < 5; i++) {
            digits[i] = rest % p.counts[i];
            rest /= p.counts[i];
        }
        long long in = 0, out = 0;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            in += digits[2 + i] * p.in.line[i];
            out += digits[2 + i] * p.out.line[i];
        }
        const int in_index = (int)(digits[0] * p.in.digit[0] + digits[1] * p.in.digit[1]);
        const int out_index = (int)(digits[0] * p.out.digit[0] + digits[1] * p.out.digit[1]);
        if (alive)
            for (unsigned i = place.lane; i < n; i += place.lanes)
                from[place.at + i * place.gap] = load(p, in, in_index + (int)(i * p.in.step));
        __syncthreads();
        unsigned done = 1;
        for (int factor = 0; factor < p.factor_count; factor++) {
            const unsigned radix = p.factors[factor];
            const Pair *table = (const Pair *)p.table;
            if (radix == 8)
                pass<8>(from, to, table, n, done, place, sign);
            else if (radix == 4)
                pass<4>(from, to, table, n, done, place, sign);
            else if (radix == 2)
                pass<2>(from, to, table, n, done, place, sign);
            else if (radix == 3)
                pass<3>(from, to, table, n, done, place, sign);
            else if (radix == 5)
                pass<5>(from, to, table, n, done, place, sign);
            else
                prime(from, to, table, n, done, radix, place, sign);
            __syncthreads();
            Pair *other = from;
            from = to;
            to = other;
            done *= radix;
        }
        if (!alive)
            return;
        for (unsigned i = place.lane; i < n; i += place.lanes) {
            Pair value = from[place.at + i * place.gap];
            if (p.fine) {
                const unsigned angle = digits[0] * i;
                value = times(value, times(root((const Pair *)p.coarse, angle >> p.twiddle_shift, sign),
                                           root((const Pair *)p.fine, angle & ((1u << p.twiddle_shift) - 1), sign)));
            }
            store(p, out, out_index + (int)(i * p.out.step), value);
        }
    }
};
} // namespace
