// Tiles of products of matrices, by the threads of a block: tiles of both operands are loaded into shared memory, while
// the sums of the last ones are computed in registers.
#ifndef CUDA_BUILTINS_TILES_CUH
#define CUDA_BUILTINS_TILES_CUH

#include "common.cuh"

namespace vgc
{
/* A block computes SIDE * SIDE results, DEPTH terms at a time; a thread OWN * OWN, in groups of GROUP adjacent ones. */
template <u32 SIDE_> struct TileSize {
    static constexpr u32 SIDE = SIDE_, DEPTH = 1024 / SIDE, OWN = SIDE / 16, GROUP = 4;
    static constexpr u32 LOADS = SIDE * DEPTH / THREADS; /* elements of an operand's tile that a thread loads */
    static constexpr u32 PITCH = SIDE + 4;               /* keeps columns of a tile in different banks */

    /* Row or column of the `i`-th result of the `thread`-th of 16 threads. */
    static __device__ u32 own(u32 thread, u32 i)
    {
        return i / GROUP * (SIDE / (OWN / GROUP)) + thread * GROUP + i % GROUP;
    }
};

/* Place of a tile. */
struct TilePlace {
    u64 batch, row, column, piece, begin, end;
};

__device__ inline TilePlace tile_of(const tile_shape &shape, u64 tile, u32 side)
{
    TilePlace place;
    place.column = tile % shape.column_tiles * side;
    tile /= shape.column_tiles;
    place.row = tile % shape.row_tiles * side;
    tile /= shape.row_tiles;
    place.batch = tile % shape.batch;
    place.piece = tile / shape.batch;
    place.begin = place.piece * shape.piece;
    place.end = lesser(shape.k, place.begin + shape.piece);
    return place;
}

/* Elements of an operand's tile. Threads load along the terms, if those are adjacent in memory, or across. */
template <class Size> struct TileLoad {
    bool along_terms;

    __device__ u32 term(u32 i) const
    {
        u32 element = threadIdx.x + i * THREADS;
        return along_terms ? element % Size::DEPTH : element / Size::SIDE;
    }
    __device__ u32 place(u32 i) const
    {
        u32 element = threadIdx.x + i * THREADS;
        return along_terms ? element / Size::DEPTH : element % Size::SIDE;
    }

    /* `get(term, place)` is an element, of `terms` terms and `places` rows or columns; others are 0. */
    template <class Sum, class Get>
    __device__ void fetch(u64 term_begin, u64 term_end, u64 begin, u64 end, Get get, Sum (&to)[Size::LOADS]) const
    {
#pragma unroll
        for (u32 i = 0; i < Size::LOADS; i++) {
            u64 at_term = term_begin + term(i), at_place = begin + place(i);
            to[i] = at_term < term_end && at_place < end ? get(at_term, at_place) : Sum(0);
        }
    }
    template <class Sum> __device__ void put(const Sum (&from)[Size::LOADS], Sum (*tile)[Size::PITCH]) const
    {
#pragma unroll
        for (u32 i = 0; i < Size::LOADS; i++)
            tile[term(i)][place(i)] = from[i];
    }
};

/* Adds the products of a tile's terms. */
template <class Size, class Sum>
__device__ void add_terms(const Sum (*a)[Size::PITCH], const Sum (*b)[Size::PITCH], Sum (&sums)[Size::OWN][Size::OWN])
{
    u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
    for (u32 term = 0; term < Size::DEPTH; term++) {
        Sum left[Size::OWN], right[Size::OWN];
#pragma unroll
        for (u32 i = 0; i < Size::OWN; i++) {
            left[i] = a[term][Size::own(y, i)];
            right[i] = b[term][Size::own(x, i)];
        }
#pragma unroll
        for (u32 i = 0; i < Size::OWN; i++)
#pragma unroll
            for (u32 j = 0; j < Size::OWN; j++)
                sums[i][j] += left[i] * right[j];
    }
}

/* Computes a tile: `get_a(term, row)` and `get_b(term, column)` are elements; calls `put(row, column, sum)`. */
template <class Size, class Sum, class GetA, class GetB, class Put>
__device__ void multiply_tile(const tile_shape &shape, const TilePlace &place, TileLoad<Size> load_a,
                              TileLoad<Size> load_b, GetA get_a, GetB get_b, Put put)
{
    __shared__ Sum a[2][Size::DEPTH][Size::PITCH], b[2][Size::DEPTH][Size::PITCH];
    Sum sums[Size::OWN][Size::OWN] = {}, next_a[Size::LOADS], next_b[Size::LOADS];
    u32 now = 0;
    load_a.fetch(place.begin, place.end, place.row, shape.m, get_a, next_a);
    load_b.fetch(place.begin, place.end, place.column, shape.n, get_b, next_b);
    for (u64 term = place.begin; term < place.end; term += Size::DEPTH) {
        load_a.put(next_a, a[now]);
        load_b.put(next_b, b[now]);
        __syncthreads();
        load_a.fetch(term + Size::DEPTH, place.end, place.row, shape.m, get_a, next_a);
        load_b.fetch(term + Size::DEPTH, place.end, place.column, shape.n, get_b, next_b);
        add_terms<Size>(a[now], b[now], sums);
        now ^= 1;
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < Size::OWN; i++)
#pragma unroll
        for (u32 j = 0; j < Size::OWN; j++) {
            u64 row = place.row + Size::own(threadIdx.x / 16, i),
                column = place.column + Size::own(threadIdx.x % 16, j);
            if (row < shape.m && column < shape.n)
                put(row, column, sums[i][j]);
        }
}

/* Place of a result in an array (batch, m, n). */
__device__ inline u64 dense_place(const tile_shape &shape, u64 batch, u64 row, u64 column)
{
    return (batch * shape.m + row) * shape.n + column;
}

/* Adds the sums of pieces: calls `put(batch, row, column, sum)` for each result. */
template <class Sum, class Put> __device__ void add_pieces(const tile_shape &shape, Put put)
{
    u64 count = shape.batch * shape.m * shape.n;
    const Sum *parts = at<const Sum>(shape.parts);
    for (u64 i = first_item(); i < count; i += all_threads()) {
        Sum sum = 0;
        for (u64 piece = 0; piece < shape.pieces; piece++)
            sum += parts[piece * count + i];
        u64 row = divide(i, shape.n), batch = divide(row, shape.m);
        put(batch, row - batch * shape.m, i - row * shape.n, sum);
    }
}
} // namespace vgc

#endif
