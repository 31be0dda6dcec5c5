// Random numbers: Philox 4x32-10 of Random123, whose n-th block of words needs no others.
#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <Random123/philox.h>
#include <cmath>
#include <numbers>

namespace vgc
{
namespace
{
constexpr uint64_t BLOCK_WORDS = 4;

/* Words of one counter. */
r123::Philox4x32::ctr_type block_at(uint64_t seed, uint64_t counter)
{
    r123::Philox4x32::ctr_type at = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
    r123::Philox4x32::key_type key = {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
    return r123::Philox4x32()(at, key);
}

uint64_t join(uint32_t low, uint32_t high)
{
    return low | static_cast<uint64_t>(high) << 32;
}

/* Each kind makes `PER_BLOCK` numbers of a block of words. */
struct Words {
    using T = uint32_t;
    static constexpr uint64_t PER_BLOCK = 4;

    void operator()(const r123::Philox4x32::ctr_type &words, T *out) const
    {
        std::copy_n(words.v, PER_BLOCK, out);
    }
};

template <class Float> struct Uniform {
    using T = Float;
    static constexpr uint64_t PER_BLOCK = BLOCK_WORDS * sizeof(uint32_t) / sizeof(T);

    void operator()(const r123::Philox4x32::ctr_type &words, T *out) const
    {
        if constexpr (sizeof(T) == 4) {
            for (uint64_t i = 0; i < PER_BLOCK; i++)
                out[i] = static_cast<T>(words.v[i] >> 8) * 0x1p-24f;
        } else {
            for (uint64_t i = 0; i < PER_BLOCK; i++)
                out[i] = static_cast<T>(join(words.v[2 * i], words.v[2 * i + 1]) >> 11) * 0x1p-53;
        }
    }
};

template <class Float> struct Normal {
    using T = Float;
    static constexpr uint64_t PER_BLOCK = BLOCK_WORDS * sizeof(uint32_t) / sizeof(T);
    T mean, deviation;

    /* Two numbers, of two that are evenly distributed: `a` in (0, 1], `b` in [0, 1). The logarithm needs doubles: of
     * numbers near 1, floats tell few apart. */
    void pair(double a, T b, T *out) const
    {
        T radius = static_cast<T>(std::sqrt(-2 * std::log(a))) * deviation, angle = 2 * std::numbers::pi_v<T> * b;
        out[0] = radius * std::cos(angle) + mean;
        out[1] = radius * std::sin(angle) + mean;
    }
    void operator()(const r123::Philox4x32::ctr_type &words, T *out) const
    {
        if constexpr (sizeof(T) == 4) {
            for (uint64_t i = 0; i < PER_BLOCK; i += 2)
                pair((words.v[i] + 1.0) * 0x1p-32, static_cast<T>(words.v[i + 1]) * 0x1p-32f, out + i);
        } else {
            pair(static_cast<T>((join(words.v[0], words.v[1]) >> 11) + 1) * 0x1p-53,
                 static_cast<T>(join(words.v[2], words.v[3]) >> 11) * 0x1p-53, out);
        }
    }
};

template <class Kind> struct Call {
    typename Kind::T *out;
    uint64_t n, seed, offset;
    Kind kind;
    Split split;
};

template <class Kind> void run_random(const Call<Kind> &call, uint64_t block)
{
    using T = typename Kind::T;
    constexpr uint64_t COUNT = Kind::PER_BLOCK;
    uint64_t begin = call.split.begin(block), end = call.split.end(block);
    for (uint64_t i = begin; i < end;) {
        uint64_t place = call.offset + i, skipped = place % COUNT;
        uint64_t taken = std::min(COUNT - skipped, end - i);
        if (taken == COUNT) {
            call.kind(block_at(call.seed, place / COUNT), call.out + i);
        } else {
            T some[COUNT];
            call.kind(block_at(call.seed, place / COUNT), some);
            std::copy_n(some + skipped, taken, call.out + i);
        }
        i += taken;
    }
}

template <class Kind> void add_random(Plan &plan, Call<Kind> call, double ns)
{
    plan.expect(ns * static_cast<double>(call.n));
    call.split = plan.split(call.n, ns, 64);
    plan.add<run_random<Kind>>(call.split.blocks(), plan.keep(call));
}

template <class Kind> void plan_random(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_random_params *>(params);
    add_random(plan, Call<Kind>{at<typename Kind::T>(p.out), static_cast<uint64_t>(p.n), p.seed, p.offset, {}, {}},
               1.5);
}

template <class T> void plan_normal(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_normal_params *>(params);
    Normal<T> kind = {static_cast<T>(p.mean), static_cast<T>(p.deviation)};
    add_random(plan, Call<Normal<T>>{at<T>(p.out), static_cast<uint64_t>(p.n), p.seed, p.offset, kind, {}}, 12);
}
} // namespace

Planner random_planner(uint32_t function, uint32_t type)
{
    switch (function) {
    case VGC_FN_RANDOM_BITS:
        return plan_random<Words>;
    case VGC_FN_RANDOM_UNIFORM:
        return type == VGC_TYPE_F32 ? plan_random<Uniform<float>> : plan_random<Uniform<double>>;
    default:
        return type == VGC_TYPE_F32 ? plan_normal<float> : plan_normal<double>;
    }
}
} // namespace vgc
