// Vector functions, and products of a matrix and a vector.
#include "gemm.h"
#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <cmath>

namespace vgc
{
namespace
{
constexpr double ELEMENT_NS = 0.4;

/* Sums of halves are floats, those of others of their own type. */
template <class T> using Sum = std::conditional_t<std::is_same_v<T, Half>, float, T>;

/* ---- axpy ----------------------------------------------------------------------------------------------------- */

struct AxpyCall {
    vgc_axpy_params p;
    Split split;
};

template <class T> void run_axpy(const AxpyCall &call, uint64_t block)
{
    const vgc_axpy_params &p = call.p;
    auto begin = static_cast<int64_t>(call.split.begin(block)), end = static_cast<int64_t>(call.split.end(block));
    const T *x = at<const T>(p.x) + begin * p.incx;
    T *y = at<T>(p.y) + begin * p.incy;
    if constexpr (std::is_same_v<T, Half>) {
        auto alpha = static_cast<float>(p.alpha);
        for (int64_t i = 0; i < end - begin; i++)
            y[i * p.incy] =
                static_cast<Half>(static_cast<float>(y[i * p.incy]) + alpha * static_cast<float>(x[i * p.incx]));
    } else {
        blas<T>().axpy(end - begin, static_cast<T>(p.alpha), x, p.incx, y, p.incy);
    }
}

template <class T> void plan_axpy(Plan &plan, const vgc_axpy_params &p)
{
    auto n = static_cast<uint64_t>(p.n);
    plan.expect(ELEMENT_NS * static_cast<double>(n));
    AxpyCall call = {p, plan.split(n, ELEMENT_NS)};
    plan.add<run_axpy<T>>(call.split.blocks(), plan.keep(call));
}

/* ---- dot and nrm2: one number for each block, then one for all ------------------------------------------------ */

template <class T> struct DotCall {
    vgc_dot_params p;
    Split split;
    Sum<T> *parts;
};

template <class T> void run_dot(const DotCall<T> &call, uint64_t block)
{
    const vgc_dot_params &p = call.p;
    auto begin = static_cast<int64_t>(call.split.begin(block)), end = static_cast<int64_t>(call.split.end(block));
    const T *x = at<const T>(p.x) + begin * p.incx, *y = at<const T>(p.y) + begin * p.incy;
    if constexpr (std::is_same_v<T, Half>) {
        float lanes[16] = {};
        int64_t i = 0;
        for (; i + 16 <= end - begin; i += 16)
            for (int64_t j = 0; j < 16; j++)
                lanes[j] += static_cast<float>(x[(i + j) * p.incx]) * static_cast<float>(y[(i + j) * p.incy]);
        for (; i < end - begin; i++)
            lanes[0] += static_cast<float>(x[i * p.incx]) * static_cast<float>(y[i * p.incy]);
        float sum = 0;
        for (float lane : lanes)
            sum += lane;
        call.parts[block] = sum;
    } else {
        call.parts[block] = blas<T>().dot(end - begin, x, p.incx, y, p.incy);
    }
}

template <class T> void finish_dot(const DotCall<T> &call, uint64_t)
{
    double sum = 0;
    for (uint64_t i = 0; i < call.split.blocks(); i++)
        sum += static_cast<double>(call.parts[i]);
    *at<T>(call.p.result) = static_cast<T>(sum);
}

template <class T> void plan_dot(Plan &plan, const vgc_dot_params &p)
{
    auto n = static_cast<uint64_t>(p.n);
    plan.expect(ELEMENT_NS * static_cast<double>(n) + 10);
    Split split = plan.split(n, ELEMENT_NS);
    auto *call = plan.keep(DotCall<T>{p, split, plan.take<Sum<T>>(split.blocks())});
    plan.add<run_dot<T>>(split.blocks(), call);
    plan.add<finish_dot<T>>(1, call);
}

template <class T> struct Nrm2Call {
    vgc_nrm2_params p;
    Split split;
    double *parts;
};

template <class T> void run_nrm2(const Nrm2Call<T> &call, uint64_t block)
{
    auto begin = static_cast<int64_t>(call.split.begin(block)), end = static_cast<int64_t>(call.split.end(block));
    const T *x = at<const T>(call.p.x) + begin * call.p.incx;
    if constexpr (std::is_same_v<T, Half>) {
        double sum = 0;
        for (int64_t i = 0; i < end - begin; i++)
            sum += static_cast<double>(x[i * call.p.incx]) * static_cast<double>(x[i * call.p.incx]);
        call.parts[block] = std::sqrt(sum);
    } else {
        call.parts[block] = blas<T>().nrm2(end - begin, x, call.p.incx);
    }
}

/* Norm of the blocks' norms, without squares that are too large. */
template <class T> void finish_nrm2(const Nrm2Call<T> &call, uint64_t)
{
    double largest = 0, sum = 0;
    for (uint64_t i = 0; i < call.split.blocks(); i++)
        largest = call.parts[i] > largest || std::isnan(call.parts[i]) ? call.parts[i] : largest;
    if (largest > 0 && std::isfinite(largest))
        for (uint64_t i = 0; i < call.split.blocks(); i++)
            sum += (call.parts[i] / largest) * (call.parts[i] / largest);
    else
        sum = 1;
    *at<T>(call.p.result) = static_cast<T>(largest * std::sqrt(sum));
}

template <class T> void plan_nrm2(Plan &plan, const vgc_nrm2_params &p)
{
    auto n = static_cast<uint64_t>(p.n);
    plan.expect(ELEMENT_NS * static_cast<double>(n) + 10);
    Split split = plan.split(n, ELEMENT_NS);
    auto *call = plan.keep(Nrm2Call<T>{p, split, plan.take<double>(split.blocks())});
    plan.add<run_nrm2<T>>(split.blocks(), call);
    plan.add<finish_nrm2<T>>(1, call);
}

/* ---- gemv: a tile of the result, or a part of its terms -------------------------------------------------------- */

template <class T> struct GemvCall {
    vgc_gemv_params p;
    int64_t results, terms;
    Split tiles;  /* of results */
    Split pieces; /* of terms */
    T *parts;     /* (pieces, results), if there are several pieces; else null */
};

template <class T> void run_gemv(const GemvCall<T> &call, uint64_t block)
{
    const vgc_gemv_params &p = call.p;
    uint64_t tile = block % call.tiles.blocks(), piece = block / call.tiles.blocks();
    auto begin = static_cast<int64_t>(call.tiles.begin(tile)), first = static_cast<int64_t>(call.pieces.begin(piece));
    int64_t count = static_cast<int64_t>(call.tiles.end(tile)) - begin;
    int64_t terms = static_cast<int64_t>(call.pieces.end(piece)) - first;
    const T *a = at<const T>(p.a) + (p.transpose ? first * p.lda + begin : begin * p.lda + first);
    const T *x = at<const T>(p.x) + first * p.incx;
    T *y = call.parts ? call.parts + static_cast<int64_t>(piece) * call.results + begin : at<T>(p.y) + begin * p.incy;
    int64_t incy = call.parts ? 1 : p.incy;
    T beta = call.parts ? T(0) : static_cast<T>(p.beta);
    if (beta != T(1))
        for (int64_t i = 0; i < count; i++)
            y[i * incy] = beta == T(0) ? T(0) : beta * y[i * incy];
    if (terms > 0 && p.alpha != 0)
        blas<T>().gemv(ROW_MAJOR, p.transpose ? TRANSPOSED : AS_IS, p.transpose ? terms : count,
                       p.transpose ? count : terms, static_cast<T>(p.alpha), a, p.lda, x, p.incx, T(1), y, incy);
}

template <class T> void add_gemv(const GemvCall<T> &call, uint64_t tile)
{
    auto beta = static_cast<T>(call.p.beta);
    auto results = static_cast<uint64_t>(call.results);
    for (uint64_t i = call.tiles.begin(tile); i < call.tiles.end(tile); i++) {
        T *y = at<T>(call.p.y) + static_cast<int64_t>(i) * call.p.incy;
        T sum = 0;
        for (uint64_t piece = 0; piece < call.pieces.blocks(); piece++)
            sum += call.parts[piece * results + i];
        *y = sum + (beta == T(0) ? T(0) : beta * *y);
    }
}

template <class T> void plan_gemv(Plan &plan, const vgc_gemv_params &p)
{
    GemvCall<T> call = {p, p.transpose ? p.n : p.m, p.transpose ? p.m : p.n, {}, {}, nullptr};
    auto results = static_cast<uint64_t>(call.results), terms = static_cast<uint64_t>(call.terms);
    double element_ns = sizeof(T) * 0.05;
    plan.expect(element_ns * static_cast<double>(results) * static_cast<double>(terms) + static_cast<double>(results));
    uint64_t narrowest = p.transpose ? 512 : 4;
    call.pieces = {terms, std::max<uint64_t>(terms, 1)};
    call.tiles = plan.split(results, element_ns * static_cast<double>(terms) + 1, narrowest);
    call.tiles.per_block = std::min(call.tiles.per_block, std::max<uint64_t>(results, 1));
    if (call.tiles.blocks() < plan.pes())
        call.pieces = plan.split(terms, element_ns * static_cast<double>(call.tiles.per_block), 256);
    if (call.pieces.blocks() > 1)
        call.parts = plan.take<T>(call.pieces.blocks() * results);
    auto *kept = plan.keep(call);
    plan.add<run_gemv<T>>(call.tiles.blocks() * std::max<uint64_t>(call.pieces.blocks(), 1), kept);
    if (call.parts != nullptr || call.pieces.blocks() > 1)
        plan.add<add_gemv<T>>(call.tiles.blocks(), kept);
}

/* Halves: a product of matrices, of which one has a single column. */
template <> void plan_gemv<Half>(Plan &plan, const vgc_gemv_params &p)
{
    vgc_gemm_params gemm = {};
    gemm.transpose_a = p.transpose;
    gemm.m = p.transpose ? p.n : p.m;
    gemm.n = 1;
    gemm.k = p.transpose ? p.m : p.n;
    gemm.alpha = p.alpha;
    gemm.beta = p.beta;
    gemm.a = p.a;
    gemm.lda = p.lda;
    gemm.b = p.x;
    gemm.ldb = p.incx;
    gemm.c = p.y;
    gemm.ldc = p.incy;
    gemm.batch = 1;
    plan_gemm<Half>(plan, gemm);
}

template <class T> Planner planner(uint32_t function)
{
    switch (function) {
    case VGC_FN_AXPY:
        return [](Plan &plan, const void *p) { plan_axpy<T>(plan, *static_cast<const vgc_axpy_params *>(p)); };
    case VGC_FN_DOT:
        return [](Plan &plan, const void *p) { plan_dot<T>(plan, *static_cast<const vgc_dot_params *>(p)); };
    case VGC_FN_NRM2:
        return [](Plan &plan, const void *p) { plan_nrm2<T>(plan, *static_cast<const vgc_nrm2_params *>(p)); };
    default:
        return [](Plan &plan, const void *p) { plan_gemv<T>(plan, *static_cast<const vgc_gemv_params *>(p)); };
    }
}
} // namespace

Planner blas_planner(uint32_t function, uint32_t type)
{
    return type == VGC_TYPE_F16 ? planner<Half>(function)
                                : (type == VGC_TYPE_F32 ? planner<float>(function) : planner<double>(function));
}
} // namespace vgc
