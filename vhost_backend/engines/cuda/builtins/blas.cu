// Dense linear algebra.
#include "folds.cuh"
#include "tiles.cuh"

namespace vgc
{
template <class T> __device__ void axpy(const vector_call &call)
{
    auto alpha = static_cast<Number<T>>(call.alpha);
    for (u64 i = first_item(); i < call.n; i += all_threads()) {
        T *y = at<T>(call.y) + i * call.incy;
        store(y, load(y) + alpha * load(at<const T>(call.x) + i * call.incx));
    }
}

/* ---- sums of products ----------------------------------------------------------------------------------------- */

template <class Sum> struct Adding {
    using Acc = Sum;

    static __device__ Sum neutral()
    {
        return 0;
    }
    static __device__ Sum fold(Sum a, Sum b)
    {
        return a + b;
    }
};

/* Puts a result, or the fold of a piece. */
template <class T, class Sum> __device__ void put_product(const product_call &call, const Place &place, Sum sum)
{
    u64 result = place.row * call.shape.inner + place.column;
    if (call.parts != 0 && !call.reads_parts) {
        at<Sum>(call.parts)[place.piece * call.shape.outer * call.shape.inner + result] = sum;
        return;
    }
    auto alpha = static_cast<Sum>(call.alpha), beta = static_cast<Sum>(call.beta);
    T *y = at<T>(call.y) + result * call.incy;
    store(y, alpha * sum + (beta == 0 ? Sum(0) : beta * load(y)));
}

template <class T> __device__ void add_products(const product_call &call)
{
    using Sum = Number<T>;
    u64 results = call.shape.inner;
    auto put = [&](const Place &place, Sum sum) { put_product<T>(call, place, sum); };
    if (call.reads_parts)
        fold_all<Adding<Sum>>(
            call.shape,
            [&](const Place &place, u64 i) { return at<const Sum>(call.parts)[i * results + place.column]; }, put);
    else
        fold_all<Adding<Sum>>(
            call.shape,
            [&](const Place &place, u64 i) {
                u64 result = place.row * results + place.column;
                return load(at<const T>(call.a) + result * call.a_result + i * call.a_term) *
                       load(at<const T>(call.x) + i * call.incx);
            },
            put);
}

/* ---- norms ---------------------------------------------------------------------------------------------------- */

/* Squares of floats as doubles: none is too large or too small. */
template <class T> struct Squares : Adding<double> {
    static __device__ double square(T x)
    {
        return static_cast<double>(load(&x)) * static_cast<double>(load(&x));
    }
    static __device__ double root(double squares)
    {
        return sqrt(squares);
    }
};

/* Squares of doubles, in three sums: those that would be too large or too small are scaled [J. L. Blue, A Portable
 * Fortran Program to Find the Euclidean Norm of a Vector]. NaN are neither. */
template <> struct Squares<double> {
    struct Acc {
        double large, medium, small;
    };
    static constexpr double LARGE = 0x1p486, SMALL = 0x1p-511, DOWN = 0x1p-538, UP = 0x1p537;

    static __device__ Acc neutral()
    {
        return {0, 0, 0};
    }
    static __device__ Acc fold(Acc a, Acc b)
    {
        return {a.large + b.large, a.medium + b.medium, a.small + b.small};
    }
    static __device__ Acc square(double x)
    {
        double size = fabs(x);
        if (size > LARGE)
            return {(x * DOWN) * (x * DOWN), 0, 0};
        if (size < SMALL)
            return {0, 0, (x * UP) * (x * UP)};
        return {0, x * x, 0};
    }
    static __device__ double root(Acc a)
    {
        if (a.large > 0)
            return sqrt(a.large + a.medium * DOWN * DOWN) / DOWN;
        return a.medium > 0 || a.medium != a.medium ? sqrt(a.medium + a.small / UP / UP) : sqrt(a.small) / UP;
    }
};

template <class T> __device__ void norm(const product_call &call)
{
    using Fold = Squares<T>;
    using Acc = typename Fold::Acc;
    auto put = [&](const Place &place, Acc acc) {
        if (call.parts != 0 && !call.reads_parts)
            at<Acc>(call.parts)[place.piece] = acc;
        else
            store(at<T>(call.y), static_cast<Number<T>>(Fold::root(acc)));
    };
    if (call.reads_parts)
        fold_all<Fold>(call.shape, [&](const Place &, u64 i) { return at<const Acc>(call.parts)[i]; }, put);
    else
        fold_all<Fold>(
            call.shape, [&](const Place &, u64 i) { return Fold::square(at<const T>(call.x)[i * call.incx]); }, put);
}

/* ---- products of matrices ------------------------------------------------------------------------------------- */

template <class T> __device__ void put_gemm(const gemm_call &call, u64 batch, u64 row, u64 column, Number<T> sum)
{
    auto alpha = static_cast<Number<T>>(call.alpha), beta = static_cast<Number<T>>(call.beta);
    T *c = at<T>(call.c) + batch * call.c_matrix + row * call.c_row + column;
    store(c, alpha * sum + (beta == 0 ? Number<T>(0) : beta * load(c)));
}

template <class T, u32 SIDE> __device__ void gemm(const gemm_call &call)
{
    using Size = TileSize<SIDE>;
    using Sum = Number<T>;
    const tile_shape &shape = call.shape;
    TileLoad<Size> load_a = {call.a_term == 1}, load_b = {call.b_column != 1};
    u64 tiles = shape.row_tiles * shape.column_tiles * shape.batch * shape.pieces;
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        TilePlace place = tile_of(shape, tile, SIDE);
        const T *a = at<const T>(call.a) + place.batch * call.a_matrix;
        const T *b = at<const T>(call.b) + place.batch * call.b_matrix;
        multiply_tile<Size, Sum>(
            shape, place, load_a, load_b,
            [&](u64 term, u64 row) { return load(a + row * call.a_row + term * call.a_term); },
            [&](u64 term, u64 column) { return load(b + term * call.b_term + column * call.b_column); },
            [&](u64 row, u64 column, Sum sum) {
                u64 parts = place.piece * shape.batch + place.batch;
                if (shape.parts != 0)
                    at<Sum>(shape.parts)[dense_place(shape, parts, row, column)] = sum;
                else
                    put_gemm<T>(call, place.batch, row, column, sum);
            });
    }
}

template <class T> __device__ void add_gemm(const gemm_call &call)
{
    add_pieces<Number<T>>(
        call.shape, [&](u64 batch, u64 row, u64 column, Number<T> sum) { put_gemm<T>(call, batch, row, column, sum); });
}
} // namespace vgc

#define BLAS(type, T)                                                                                                  \
    KERNEL blas_axpy_##type(const vector_call call)                                                                    \
    {                                                                                                                  \
        vgc::axpy<T>(call);                                                                                            \
    }                                                                                                                  \
    KERNEL blas_products_##type(const product_call call)                                                               \
    {                                                                                                                  \
        vgc::add_products<T>(call);                                                                                    \
    }                                                                                                                  \
    KERNEL blas_nrm2_##type(const product_call call)                                                                   \
    {                                                                                                                  \
        vgc::norm<T>(call);                                                                                            \
    }                                                                                                                  \
    KERNEL blas_gemm_##type(const gemm_call call)                                                                      \
    {                                                                                                                  \
        vgc::gemm<T, TILE>(call);                                                                                      \
    }                                                                                                                  \
    KERNEL blas_gemm_##type##_add(const gemm_call call)                                                                \
    {                                                                                                                  \
        vgc::add_gemm<T>(call);                                                                                        \
    }

BLAS(f16, __half)
BLAS(f32, float)
BLAS(f64, double)
KERNEL_OF_TWO blas_gemm_f16_large(const gemm_call call)
{
    vgc::gemm<__half, LARGE_TILE>(call);
}
KERNEL_OF_TWO blas_gemm_f32_large(const gemm_call call)
{
    vgc::gemm<float, LARGE_TILE>(call);
}
