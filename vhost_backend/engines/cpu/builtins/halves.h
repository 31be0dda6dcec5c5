// Halves, which are computed as floats.
#ifndef VGC_CPU_HALVES_H
#define VGC_CPU_HALVES_H

#include <cstdint>
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace vgc
{
using Half = _Float16;

#ifdef __F16C__
constexpr uint64_t HALVES_AT_ONCE = 8;

inline void widen_some(const Half *from, float *to)
{
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
}

inline void round_some(const float *from, Half *to)
{
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#else
constexpr uint64_t HALVES_AT_ONCE = 1;

inline void widen_some(const Half *from, float *to)
{
    *to = static_cast<float>(*from);
}

inline void round_some(const float *from, Half *to)
{
    *to = static_cast<Half>(*from);
}
#endif

inline void widen(const Half *from, uint64_t n, float *to)
{
    uint64_t i = 0;
    for (; i + HALVES_AT_ONCE <= n; i += HALVES_AT_ONCE)
        widen_some(from + i, to + i);
    for (; i < n; i++)
        to[i] = static_cast<float>(from[i]);
}

inline void round_to_halves(const float *from, uint64_t n, Half *to)
{
    uint64_t i = 0;
    for (; i + HALVES_AT_ONCE <= n; i += HALVES_AT_ONCE)
        round_some(from + i, to + i);
    for (; i < n; i++)
        to[i] = static_cast<Half>(from[i]);
}
} // namespace vgc

#endif
