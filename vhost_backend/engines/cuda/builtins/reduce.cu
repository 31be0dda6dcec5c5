// Reductions along one axis of (outer, n, inner).
#include "folds.cuh"

namespace vgc
{
template <class Fold, class T> __device__ void reduce(const reduce_call &call)
{
    using Acc = typename Fold::Acc;
    const fold_shape &shape = call.shape;
    auto put = [&](const Place &place, Acc acc) {
        u64 to = place.row * shape.inner + place.column;
        if (call.writes_parts)
            at<Acc>(call.out)[place.piece * shape.outer * shape.inner + to] = acc;
        else
            at<typename Fold::Out>(call.out)[to] = Fold::result(acc);
    };
    auto index = [&](const Place &place, u64 i) { return (place.row * shape.n + i) * shape.inner + place.column; };
    if (call.reads_parts)
        fold_all<Fold>(shape, [&](const Place &place, u64 i) { return at<const Acc>(call.in)[index(place, i)]; }, put);
    else
        fold_all<Fold>(
            shape, [&](const Place &place, u64 i) { return Fold::load(at<const T>(call.in)[index(place, i)], i); },
            put);
}
} // namespace vgc

#define REDUCE(type, T)                                                                                                \
    KERNEL reduce_sum_##type(const reduce_call call)                                                                   \
    {                                                                                                                  \
        vgc::reduce<vgc::Sum<T>, T>(call);                                                                             \
    }                                                                                                                  \
    KERNEL reduce_prod_##type(const reduce_call call)                                                                  \
    {                                                                                                                  \
        vgc::reduce<vgc::Product<T>, T>(call);                                                                         \
    }                                                                                                                  \
    KERNEL reduce_min_##type(const reduce_call call)                                                                   \
    {                                                                                                                  \
        vgc::reduce<vgc::Least<T>, T>(call);                                                                           \
    }                                                                                                                  \
    KERNEL reduce_max_##type(const reduce_call call)                                                                   \
    {                                                                                                                  \
        vgc::reduce<vgc::Greatest<T>, T>(call);                                                                        \
    }                                                                                                                  \
    KERNEL reduce_argmin_##type(const reduce_call call)                                                                \
    {                                                                                                                  \
        vgc::reduce<vgc::Position<vgc::Least<T>, T>, T>(call);                                                         \
    }                                                                                                                  \
    KERNEL reduce_argmax_##type(const reduce_call call)                                                                \
    {                                                                                                                  \
        vgc::reduce<vgc::Position<vgc::Greatest<T>, T>, T>(call);                                                      \
    }

KERNEL reduce_sum_b8(const reduce_call call)
{
    vgc::reduce<vgc::SumOfTruth, vgc::Bool>(call);
}
KERNEL reduce_min_b8(const reduce_call call)
{
    vgc::reduce<vgc::AllTrue, vgc::Bool>(call);
}
KERNEL reduce_max_b8(const reduce_call call)
{
    vgc::reduce<vgc::AnyTrue, vgc::Bool>(call);
}
REDUCE(i32, i32)
REDUCE(i64, i64)
REDUCE(u32, u32)
REDUCE(u64, u64)
REDUCE(f32, float)
REDUCE(f64, double)
