// Random numbers: Philox 4x32-10, whose words for a counter need no others.
#include "common.cuh"

namespace vgc
{
struct Words {
    u32 v[4];
};

/* Words of one counter [Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3]. */
__device__ inline Words words_of(u64 seed, u64 counter)
{
    u32 c0 = static_cast<u32>(counter), c1 = static_cast<u32>(counter >> 32), c2 = 0, c3 = 0;
    u32 k0 = static_cast<u32>(seed), k1 = static_cast<u32>(seed >> 32);
#pragma unroll
    for (u32 i = 0; i < 10; i++) {
        u32 high0 = __umulhi(0xD2511F53u, c0), high2 = __umulhi(0xCD9E8D57u, c2);
        u32 low0 = 0xD2511F53u * c0, low2 = 0xCD9E8D57u * c2;
        c0 = high2 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low2;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

__device__ inline u64 join(u32 low, u32 high)
{
    return low | static_cast<u64>(high) << 32;
}

/* Each kind makes 16 bytes of numbers from the words of a counter. */
struct Bits {
    static __device__ void make(const random_call &, const Words &words, u32 *out)
    {
        for (u32 i = 0; i < 4; i++)
            out[i] = words.v[i];
    }
};

struct Uniform {
    static __device__ void make(const random_call &, const Words &words, float *out)
    {
        for (u32 i = 0; i < 4; i++)
            out[i] = static_cast<float>(words.v[i] >> 8) * 0x1p-24f;
    }
    static __device__ void make(const random_call &, const Words &words, double *out)
    {
        for (u32 i = 0; i < 2; i++)
            out[i] = static_cast<double>(join(words.v[2 * i], words.v[2 * i + 1]) >> 11) * 0x1p-53;
    }
};

/* By Box and Muller. */
struct Normal {
    /* Logarithm of (word + 1) / 2^32. Near 1, floats tell few numbers apart, but they do near 0. */
    static __device__ float logarithm(u32 word)
    {
        return word >> 31 ? log1pf(static_cast<float>(~word) * -0x1p-32f)
                          : logf(static_cast<float>(word + 1) * 0x1p-32f);
    }
    static __device__ void make(const random_call &call, const Words &words, float *out)
    {
        auto mean = static_cast<float>(call.mean), deviation = static_cast<float>(call.deviation);
        for (u32 i = 0; i < 4; i += 2) {
            float radius = sqrtf(-2 * logarithm(words.v[i])) * deviation;
            float half_turns = static_cast<float>(static_cast<i32>(words.v[i + 1])) * 0x1p-31f;
            out[i] = radius * cospif(half_turns) + mean;
            out[i + 1] = radius * sinpif(half_turns) + mean;
        }
    }
    static __device__ void make(const random_call &call, const Words &words, double *out)
    {
        double a = static_cast<double>((join(words.v[0], words.v[1]) >> 11) + 1) * 0x1p-53;
        double half_turns = static_cast<double>(join(words.v[2], words.v[3]) >> 11) * 0x1p-52;
        double radius = sqrt(-2 * log(a)) * call.deviation;
        out[0] = radius * cospi(half_turns) + call.mean;
        out[1] = radius * sinpi(half_turns) + call.mean;
    }
};

/* Numbers of counters from that of `offset` on. The sequence goes on with its first number after 2^64. */
template <class Kind, class T> __device__ void draw(const random_call &call)
{
    constexpr u32 COUNT = 16 / sizeof(T);
    u64 first = call.offset / COUNT, skipped = call.offset % COUNT;
    for (u64 i = first_item(); i * COUNT < call.n + skipped; i += all_threads()) {
        T numbers[COUNT];
        Kind::make(call, words_of(call.seed, (first + i) & (~u64(0) / COUNT)), numbers);
#pragma unroll
        for (u32 j = 0; j < COUNT; j++) {
            u64 place = i * COUNT + j;
            if (place >= skipped && place < call.n + skipped)
                at<T>(call.out)[place - skipped] = numbers[j];
        }
    }
}
} // namespace vgc

KERNEL random_bits_u32(const random_call call)
{
    vgc::draw<vgc::Bits, u32>(call);
}
KERNEL random_uniform_f32(const random_call call)
{
    vgc::draw<vgc::Uniform, float>(call);
}
KERNEL random_uniform_f64(const random_call call)
{
    vgc::draw<vgc::Uniform, double>(call);
}
KERNEL random_normal_f32(const random_call call)
{
    vgc::draw<vgc::Normal, float>(call);
}
KERNEL random_normal_f64(const random_call call)
{
    vgc::draw<vgc::Normal, double>(call);
}
