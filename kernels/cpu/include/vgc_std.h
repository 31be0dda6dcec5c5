/* Device functions of the C++ library: the host's headers leave alone what is declared for device code before them. */
#pragma once
#include "vgc_math.h"

#ifndef __VGC_HOST_HALF__ /* where clang's own header has them */
inline __device__ __attribute__((always_inline)) void *operator new(size_t, void *place) noexcept { return place; }
inline __device__ __attribute__((always_inline)) void *operator new[](size_t, void *place) noexcept { return place; }
inline __device__ __attribute__((always_inline)) void operator delete(void *, void *) noexcept {}
inline __device__ __attribute__((always_inline)) void operator delete[](void *, void *) noexcept {}
#endif

/* For text of GCC's library that another machine has preprocessed. */
template <template <size_t...> class Tuple> struct __vgc_indices {
    template <class, size_t... indices> using type = Tuple<indices...>;
};

namespace std {
using ::abs; using ::acos; using ::acosh; using ::asin; using ::asinh; using ::atan; using ::atan2; using ::atanh; using ::cbrt;
using ::ceil; using ::copysign; using ::cos; using ::cosh; using ::erf; using ::erfc; using ::exp; using ::exp2; using ::expm1;
using ::fabs; using ::fdim; using ::floor; using ::fma; using ::fmax; using ::fmin; using ::fmod; using ::frexp; using ::hypot;
using ::ilogb; using ::isfinite; using ::isinf; using ::isnan; using ::ldexp; using ::lgamma; using ::llrint; using ::llround;
using ::log; using ::log10; using ::log1p; using ::log2; using ::logb; using ::lrint; using ::lround; using ::modf; using ::nearbyint;
using ::nextafter; using ::pow; using ::remainder; using ::remquo; using ::rint; using ::round; using ::scalbn; using ::signbit;
using ::sin; using ::sinh; using ::sqrt; using ::tan; using ::tanh; using ::tgamma; using ::trunc;
using ::memcpy; using ::memmove; using ::memset; using ::memcmp; using ::printf; using ::size_t; using ::clock; using ::clock_t;
using ::malloc; using ::free;
/* For both, as functions for both (of Thrust) swap objects that only host code can copy. In C++20 the library's is for both,
   too, and better than one with more parameters. */
#if __cplusplus >= 202002L
template <class T, class... None> static __host__ __device__ __forceinline__ void swap(T &a, T &b, None...) {
#else
template <class T> static __host__ __device__ __forceinline__ void swap(T &a, T &b) {
#endif
    T old = static_cast<T &&>(a);
    a = static_cast<T &&>(b);
    b = static_cast<T &&>(old);
}
}
