// Folds: the operations of reductions and of running reductions, and folds by the threads of a block.
#ifndef CUDA_BUILTINS_FOLDS_CUH
#define CUDA_BUILTINS_FOLDS_CUH

#include "common.cuh"

namespace vgc
{
/* ---- operations ----------------------------------------------------------------------------------------------- */

/* Each has the type of a fold (Acc), that of results (Out), a fold of nothing, that of one element at an index, that of
 * two folds, and its result. */

template <class T> struct Sum {
    using Acc = typename Choose<Type<T>::IS_FLOAT, double, u64>::T;
    using Wide = typename Choose<Type<T>::IS_SIGNED, i64, u64>::T;
    using Out = typename Choose<Type<T>::IS_FLOAT, T, Wide>::T;

    static __device__ Acc neutral()
    {
        return 0;
    }
    static __device__ Acc load(T x, u64)
    {
        if constexpr (Type<T>::IS_FLOAT)
            return x;
        else
            return static_cast<Acc>(static_cast<Wide>(x));
    }
    static __device__ Acc fold(Acc a, Acc b)
    {
        return a + b;
    }
    static __device__ Out result(Acc a)
    {
        return static_cast<Out>(a);
    }
};

template <class T> struct Product : Sum<T> {
    using Acc = typename Sum<T>::Acc;

    static __device__ Acc neutral()
    {
        return 1;
    }
    static __device__ Acc fold(Acc a, Acc b)
    {
        return a * b;
    }
};

template <class T> struct Least {
    using Acc = T;
    using Out = T;

    static __device__ bool comes_before(T a, T b)
    {
        return a < b;
    }
    static __device__ T neutral()
    {
        return Type<T>::most();
    }
    static __device__ T load(T x, u64)
    {
        return x;
    }
    static __device__ T fold(T a, T b)
    {
        return b < a || b != b ? b : a;
    } /* NaN if either is */
    static __device__ T result(T a)
    {
        return a;
    }
};

template <class T> struct Greatest : Least<T> {
    static __device__ bool comes_before(T a, T b)
    {
        return a > b;
    }
    static __device__ T neutral()
    {
        return Type<T>::least();
    }
    static __device__ T fold(T a, T b)
    {
        return b > a || b != b ? b : a;
    }
};

/* Number of elements that are true, and whether all or any are. */
struct SumOfTruth : Sum<u64> {
    static __device__ u64 load(Bool x, u64)
    {
        return x != Bool{};
    }
};

struct AllTrue : SumOfTruth {
    using Out = Bool;

    static __device__ u64 neutral()
    {
        return 1;
    }
    static __device__ u64 fold(u64 a, u64 b)
    {
        return a & b;
    }
    static __device__ Bool result(u64 a)
    {
        return static_cast<Bool>(a);
    }
};

struct AnyTrue : AllTrue {
    static __device__ u64 neutral()
    {
        return 0;
    }
    static __device__ u64 fold(u64 a, u64 b)
    {
        return a | b;
    }
};

/* Position of the least or the greatest: NaN comes before all numbers, and of equal elements the first. */
template <class Extreme, class T> struct Position {
    struct Acc {
        T value;
        i64 index; /* -1: nothing */
    };
    using Out = i64;

    static __device__ Acc neutral()
    {
        return {Extreme::neutral(), -1};
    }
    static __device__ Acc load(T x, u64 index)
    {
        return {x, static_cast<i64>(index)};
    }
    static __device__ Acc fold(Acc a, Acc b)
    {
        if (a.index < 0 || b.index < 0)
            return a.index < 0 ? b : a;
        bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
        bool is_better = b_is_nan ? !a_is_nan : !a_is_nan && Extreme::comes_before(b.value, a.value);
        bool is_equal = a_is_nan ? b_is_nan : a.value == b.value;
        return is_better || (is_equal && b.index < a.index) ? b : a;
    }
    static __device__ i64 result(Acc a)
    {
        return a.index;
    }
};

/* ---- blocks --------------------------------------------------------------------------------------------------- */

/* Place of this thread in a block's part of (outer, n, inner). */
struct Place {
    u64 row, column; /* of the result */
    u64 begin, end;  /* terms of the piece */
    u32 lane;        /* first term of this thread, from `begin` */
    u64 piece;
    bool is_inside; /* the result exists */
};

__device__ inline Place place_of(const fold_shape &shape, u64 block)
{
    u64 column_tiles = divide_up(shape.inner, shape.columns);
    u64 tile = block % shape.tiles;
    u32 thread = threadIdx.x;
    Place place;
    place.piece = block / shape.tiles;
    place.column = tile % column_tiles * shape.columns + thread % shape.columns;
    thread /= shape.columns;
    place.lane = thread % shape.lanes;
    place.row = tile / column_tiles * shape.rows + thread / shape.lanes;
    place.begin = place.piece * shape.piece;
    place.end = lesser(shape.n, place.begin + shape.piece);
    place.is_inside = place.row < shape.outer && place.column < shape.inner;
    return place;
}

/* Folds what the lanes of a result have; lane 0 gets the fold. */
template <class Fold>
__device__ typename Fold::Acc fold_lanes(const fold_shape &shape, u32 lane, typename Fold::Acc acc)
{
    using Acc = typename Fold::Acc;
    __shared__ Acc shared[THREADS];
    shared[threadIdx.x] = acc;
    __syncthreads();
    for (u32 width = shape.lanes / 2; width > 0; width /= 2) {
        if (lane < width)
            shared[threadIdx.x] = Fold::fold(shared[threadIdx.x], shared[threadIdx.x + width * shape.columns]);
        __syncthreads();
    }
    acc = shared[threadIdx.x];
    __syncthreads();
    return acc;
}

/* Folds the terms of this thread: leaves of a few, so that roundings do not add up. */
template <class Fold, class Term>
__device__ typename Fold::Acc fold_terms(const fold_shape &shape, const Place &place, Term term)
{
    constexpr u32 LEAF = 64;
    using Acc = typename Fold::Acc;
    Acc all = Fold::neutral();
    u64 i = place.is_inside ? place.begin + place.lane : place.end;
    while (i < place.end) {
        Acc leaf = Fold::neutral();
        for (u32 j = 0; j < LEAF && i < place.end; j++, i += shape.lanes)
            leaf = Fold::fold(leaf, term(i));
        all = Fold::fold(all, leaf);
    }
    return all;
}

/* Folds all pieces of all results: calls `put(place, fold)` for each, once. `term(place, i)` is the fold of a term. */
template <class Fold, class Term, class Put> __device__ void fold_all(const fold_shape &shape, Term term, Put put)
{
    for (u64 block = blockIdx.x; block < shape.tiles * shape.pieces; block += gridDim.x) {
        Place place = place_of(shape, block);
        auto acc = fold_terms<Fold>(shape, place, [&](u64 i) { return term(place, i); });
        acc = fold_lanes<Fold>(shape, place.lane, acc);
        if (place.lane == 0 && place.is_inside)
            put(place, acc);
    }
}
} // namespace vgc

#endif
