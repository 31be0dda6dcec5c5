// Sorting along the rows of (outer, n), by the digits of the keys from the last one on.
//
// Rows of one tile are sorted by one block. Longer rows are cut into parts: for each digit, a first launch counts, a
// second one finds where each part's elements of each digit go, and a third one moves them.
#include "digits.cuh"
#include "scans.cuh"

namespace vgc
{
/* ---- keys ----------------------------------------------------------------------------------------------------- */

template <class T> using Bits = typename Type<T>::Unsigned;

__device__ inline u32 raw_bits(float x)
{
    return __float_as_int(x);
}
__device__ inline u64 raw_bits(double x)
{
    return __double_as_longlong(x);
}
__device__ inline float float_of(u32 bits)
{
    return __int_as_float(bits);
}
__device__ inline double float_of(u64 bits)
{
    return __longlong_as_double(bits);
}

/* Integer in the order of keys, NaN behind all; descending: in their reverse order, but for NaN. */
template <class T> __device__ Bits<T> bits_of(const sort_call &call, T key)
{
    constexpr Bits<T> SIGN = Bits<T>(1) << (8 * sizeof(T) - 1);
    if constexpr (Type<T>::IS_FLOAT) {
        if (key != key)
            return ~Bits<T>(0);
        Bits<T> bits = raw_bits(key == 0 && call.joins_zeros ? T(0) : key);
        bits = bits & SIGN ? ~bits : bits | SIGN;
        return call.descending ? ~bits : bits;
    } else {
        Bits<T> bits = static_cast<Bits<T>>(key) ^ (Type<T>::IS_SIGNED ? SIGN : Bits<T>(0));
        return call.descending ? ~bits : bits;
    }
}

template <class T> __device__ T key_of(Bits<T> bits, bool descending)
{
    constexpr Bits<T> SIGN = Bits<T>(1) << (8 * sizeof(T) - 1);
    constexpr Bits<T> QUIET_NAN = ~Bits<T>(0) >> 1 & ~((Bits<T>(1) << (sizeof(T) == 4 ? 22 : 51)) - 1);
    if constexpr (Type<T>::IS_FLOAT) {
        if (bits == ~Bits<T>(0))
            return float_of(QUIET_NAN);
        bits = descending ? ~bits : bits;
        return float_of(bits & SIGN ? bits & ~SIGN : ~bits);
    } else {
        bits = descending ? ~bits : bits;
        return static_cast<T>(bits ^ (Type<T>::IS_SIGNED ? SIGN : Bits<T>(0)));
    }
}

/* ---- rows of one tile ----------------------------------------------------------------------------------------- */

/* Sorted elements of a row: what is wanted of them. */
template <class T> __device__ void put_row(const sort_call &call, u64 row, const Bits<T> *bits, const u32 *places)
{
    u64 begin = row * call.n;
    for (u32 i = threadIdx.x; i < call.n; i += THREADS) {
        if (call.gives_positions)
            at<i64>(call.out)[begin + i] = places[i];
        else if (call.values == 0)
            at<T>(call.out)[begin + i] = key_of<T>(bits[i], call.descending);
        else
            at<T>(call.out)[begin + i] = at<const T>(call.in)[begin + places[i]];
        if (call.values != 0)
            copy_unit(call.value_bytes, call.values, begin + places[i], call.values_out, begin + i);
    }
}

template <class T> __device__ void sort_rows(const sort_call &call)
{
    __shared__ Bits<T> bits[SORT_TILE];
    __shared__ u32 places[SORT_TILE];
    __shared__ Ranking ranking;
    Bits<T> own[SORT_ITEMS];
    u32 own_places[SORT_ITEMS], digits[SORT_ITEMS], ranks[SORT_ITEMS];
    for (u64 row = blockIdx.x; row < call.outer; row += gridDim.x) {
        const T *keys = at<const T>(call.in) + row * call.n;
        for (u32 i = 0; i < SORT_ITEMS; i++) { /* elements behind the row are the last ones in each pass */
            own_places[i] = element_of(i);
            own[i] = own_places[i] < call.n ? bits_of(call, keys[own_places[i]]) : ~Bits<T>(0);
        }
        for (u32 shift = 0; shift < 8 * sizeof(T); shift += 8) {
            for (u32 i = 0; i < SORT_ITEMS; i++)
                digits[i] = digit_of(own[i], shift);
            rank_in_tile(&ranking, digits, ranks);
            for (u32 i = 0; i < SORT_ITEMS; i++) {
                bits[ranks[i]] = own[i];
                places[ranks[i]] = own_places[i];
            }
            __syncthreads();
            for (u32 i = 0; i < SORT_ITEMS; i++) {
                own[i] = bits[element_of(i)];
                own_places[i] = places[element_of(i)];
            }
            __syncthreads();
        }
        put_row<T>(call, row, bits, places);
        __syncthreads();
    }
}

/* ---- longer rows ---------------------------------------------------------------------------------------------- */

template <class T> __device__ void encode(const sort_call &call)
{
    for (u64 i = first_item(); i < call.outer * call.n; i += all_threads()) {
        at<Bits<T>>(call.bits)[i] = bits_of(call, at<const T>(call.in)[i]);
        if (call.places == 0)
            continue;
        u64 place = i - divide(i, call.n) * call.n;
        if (call.place_bytes == 4)
            at<u32>(call.places)[i] = static_cast<u32>(place);
        else
            at<u64>(call.places)[i] = place;
    }
}

template <class T> __device__ void decode(const sort_call &call)
{
    for (u64 i = first_item(); i < call.outer * call.n; i += all_threads())
        at<T>(call.out)[i] = key_of<T>(at<const Bits<T>>(call.bits)[i], call.descending);
}

/* A part of a row. */
struct Part {
    u64 row, number;
    u64 begin, end; /* elements of the array */
};

__device__ inline Part part_of(const sort_call &call, u64 block)
{
    Part part;
    part.row = block / call.parts;
    part.number = block % call.parts;
    part.begin = part.row * call.n + part.number * call.part;
    part.end = lesser(part.begin + call.part, (part.row + 1) * call.n);
    return part;
}

/* Number of elements with a digit in a part, and later that of all elements before these in the row. */
__device__ inline u64 *count_of(const sort_call &call, const Part &part, u32 digit)
{
    return at<u64>(call.counts) + (part.row * DIGITS + digit) * call.parts + part.number;
}

template <class B> __device__ void count_digits(const sort_call &call)
{
    __shared__ u32 counts[DIGITS];
    for (u64 block = blockIdx.x; block < call.outer * call.parts; block += gridDim.x) {
        Part part = part_of(call, block);
        counts[threadIdx.x] = 0;
        __syncthreads();
        for (u64 i = part.begin + threadIdx.x; i < part.end; i += THREADS)
            atomicAdd(&counts[digit_of(at<const B>(call.bits)[i], call.shift)], 1u);
        __syncthreads();
        *count_of(call, part, threadIdx.x) = counts[threadIdx.x];
    }
}

__device__ inline void find_offsets(const sort_call &call)
{
    for (u64 row = blockIdx.x; row < call.outer; row += gridDim.x)
        scan_counts(at<u64>(call.counts) + row * DIGITS * call.parts, DIGITS * call.parts);
}

/* Places that do not exist. */
struct None {
};

/* Moves the elements of a tile, in `tile` by digits, to where these go on in a row of `n`. Bits in the VM's memory may
 * have changed since their digits were counted: those for which there is no place are dropped. */
template <class B>
__device__ void write_tile(const B *tile, u32 count, const Ranking &ranking, const u64 *offsets,
                           const u32 (&digits)[SORT_ITEMS], B *to, u64 n)
{
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        u32 from = threadIdx.x + i * THREADS;
        u64 place = offsets[digits[i]] + from - ranking.begins[digits[i]];
        if (from < count && place < n)
            to[place] = tile[from];
    }
}

template <class B, class P> __device__ void move(const sort_call &call)
{
    constexpr bool HAS_PLACES = !IS_SAME<P, None>;
    __shared__ union {
        B bits[SORT_TILE];
        P places[SORT_TILE];
    } tile;
    __shared__ Ranking ranking;
    __shared__ u64 offsets[DIGITS];
    B own[SORT_ITEMS];
    P own_places[SORT_ITEMS];
    u32 digits[SORT_ITEMS], ranks[SORT_ITEMS];
    for (u64 block = blockIdx.x; block < call.outer * call.parts; block += gridDim.x) {
        Part part = part_of(call, block);
        u64 row = part.row * call.n;
        offsets[threadIdx.x] = *count_of(call, part, threadIdx.x);
        for (u64 begin = part.begin; begin < part.end; begin += SORT_TILE) {
            u32 count = static_cast<u32>(lesser<u64>(SORT_TILE, part.end - begin));
            for (u32 i = 0; i < SORT_ITEMS; i++) {
                bool is_there = element_of(i) < count; /* others come last */
                own[i] = is_there ? at<const B>(call.bits)[begin + element_of(i)] : ~B(0);
                digits[i] = digit_of(own[i], call.shift);
                if constexpr (HAS_PLACES)
                    own_places[i] = is_there ? at<const P>(call.places)[begin + element_of(i)] : 0;
            }
            rank_in_tile(&ranking, digits, ranks);
            for (u32 i = 0; i < SORT_ITEMS; i++)
                tile.bits[ranks[i]] = own[i];
            __syncthreads();
            for (u32 i = 0; i < SORT_ITEMS; i++)
                digits[i] = digit_of(tile.bits[threadIdx.x + i * THREADS], call.shift);
            write_tile(tile.bits, count, ranking, offsets, digits, at<B>(call.next_bits) + row, call.n);
            __syncthreads();
            if constexpr (HAS_PLACES) {
                for (u32 i = 0; i < SORT_ITEMS; i++)
                    tile.places[ranks[i]] = own_places[i];
                __syncthreads();
                write_tile(tile.places, count, ranking, offsets, digits, at<P>(call.next_places) + row, call.n);
                __syncthreads();
            }
            offsets[threadIdx.x] += ranking.totals[threadIdx.x];
        }
        __syncthreads();
    }
}

__device__ inline u64 place_at(const sort_call &call, u64 i)
{
    return call.place_bytes == 4 ? at<const u32>(call.places)[i] : at<const u64>(call.places)[i];
}

__device__ inline void put_positions(const sort_call &call)
{
    for (u64 i = first_item(); i < call.outer * call.n; i += all_threads())
        at<u64>(call.out)[i] = place_at(call, i);
}

__device__ inline void put_values(const sort_call &call)
{
    for (u64 i = first_item(); i < call.outer * call.n; i += all_threads()) {
        u64 from = divide(i, call.n) * call.n + place_at(call, i);
        copy_unit(call.value_bytes, call.values, from, call.values_out, i);
    }
}

/* ---- unique keys ---------------------------------------------------------------------------------------------- */

template <class B> __device__ bool is_first(const B *bits, u64 i)
{
    return i == 0 || bits[i] != bits[i - 1];
}

template <class B> __device__ void count_unique(const sort_call &call)
{
    __shared__ u32 counted;
    for (u64 block = blockIdx.x; block < call.parts; block += gridDim.x) {
        Part part = part_of(call, block);
        u32 count = 0;
        if (threadIdx.x == 0)
            counted = 0;
        __syncthreads();
        for (u64 i = part.begin + threadIdx.x; i < part.end; i += THREADS)
            count += is_first(at<const B>(call.bits), i);
        atomicAdd(&counted, count);
        __syncthreads();
        if (threadIdx.x == 0)
            at<u64>(call.counts)[block] = counted;
        __syncthreads();
    }
}

__device__ inline void find_unique_offsets(const sort_call &call)
{
    u64 count = scan_counts(at<u64>(call.counts), call.parts);
    if (threadIdx.x == 0)
        *at<u64>(call.count) = count;
}

template <class T> __device__ void put_unique(const sort_call &call)
{
    __shared__ u32 shared[THREADS];
    const Bits<T> *bits = at<const Bits<T>>(call.bits);
    for (u64 block = blockIdx.x; block < call.parts; block += gridDim.x) {
        Part part = part_of(call, block);
        u64 to = at<const u64>(call.counts)[block];
        for (u64 begin = part.begin; begin < part.end; begin += THREADS) {
            u64 i = begin + threadIdx.x;
            bool is_put = i < part.end && is_first(bits, i);
            u32 all, before = scan_lanes<SmallCount>(shared, THREADS, is_put, &all);
            if (is_put)
                at<T>(call.out)[to + before] = key_of<T>(bits[i], call.descending);
            to += all;
        }
    }
}
} // namespace vgc

#define SORT(type, T)                                                                                                  \
    KERNEL sort_rows_##type(const sort_call call)                                                                      \
    {                                                                                                                  \
        vgc::sort_rows<T>(call);                                                                                       \
    }                                                                                                                  \
    KERNEL sort_encode_##type(const sort_call call)                                                                    \
    {                                                                                                                  \
        vgc::encode<T>(call);                                                                                          \
    }                                                                                                                  \
    KERNEL sort_decode_##type(const sort_call call)                                                                    \
    {                                                                                                                  \
        vgc::decode<T>(call);                                                                                          \
    }                                                                                                                  \
    KERNEL sort_unique_keys_##type(const sort_call call)                                                               \
    {                                                                                                                  \
        vgc::put_unique<T>(call);                                                                                      \
    }

#define SORT_BITS(bits, B)                                                                                             \
    KERNEL sort_count_##bits(const sort_call call)                                                                     \
    {                                                                                                                  \
        vgc::count_digits<B>(call);                                                                                    \
    }                                                                                                                  \
    KERNEL sort_move_##bits(const sort_call call)                                                                      \
    {                                                                                                                  \
        vgc::move<B, vgc::None>(call);                                                                                 \
    }                                                                                                                  \
    KERNEL sort_move_##bits##_u32(const sort_call call)                                                                \
    {                                                                                                                  \
        vgc::move<B, u32>(call);                                                                                       \
    }                                                                                                                  \
    KERNEL sort_move_##bits##_u64(const sort_call call)                                                                \
    {                                                                                                                  \
        vgc::move<B, u64>(call);                                                                                       \
    }                                                                                                                  \
    KERNEL sort_unique_count_##bits(const sort_call call)                                                              \
    {                                                                                                                  \
        vgc::count_unique<B>(call);                                                                                    \
    }

SORT(i32, i32)
SORT(i64, i64)
SORT(u32, u32)
SORT(u64, u64)
SORT(f32, float)
SORT(f64, double)
SORT_BITS(u32, u32)
SORT_BITS(u64, u64)
KERNEL sort_offsets(const sort_call call)
{
    vgc::find_offsets(call);
}
KERNEL sort_positions(const sort_call call)
{
    vgc::put_positions(call);
}
KERNEL sort_values(const sort_call call)
{
    vgc::put_values(call);
}
KERNEL sort_unique_offsets(const sort_call call)
{
    vgc::find_unique_offsets(call);
}
