/* Names of the C library that nvcc declares before every source: for host code as declarations that agree with those of the
 * host's headers, for device code as functions of their own. Types that the host's headers define are left to these. */
#pragma once
#include "vgc_builtins.h"
#include <limits.h>
#include <stddef.h>

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;
typedef long clock_t;
typedef long time_t;

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
#define CLOCKS_PER_SEC ((clock_t)1000000)
#define alloca(size) __builtin_alloca(size)

#define __VGC_QUIET noexcept(true)
extern "C" {
int printf(const char *format, ...);
__device__ int printf(const char *format, ...) __asm__("__vgc_printf");
#ifdef NDEBUG /* the host's assert.h does not declare it, and libcu++ does so for both */
__host__ __device__ __attribute__((noreturn)) void __assert_fail(const char *expression, const char *file, unsigned line,
                                                                 const char *function) __VGC_QUIET __asm__("__vgc_assert_fail");
#else
__attribute__((noreturn)) void __assert_fail(const char *expression, const char *file, unsigned line, const char *function) __VGC_QUIET;
__device__ __attribute__((noreturn)) void __assert_fail(const char *expression, const char *file, unsigned line,
                                                        const char *function) __asm__("__vgc_assert_fail");
#endif

/* stdlib.h, time.h */
void *malloc(size_t bytes) __VGC_QUIET;
void *calloc(size_t count, size_t bytes) __VGC_QUIET;
void *realloc(void *memory, size_t bytes) __VGC_QUIET;
void free(void *memory) __VGC_QUIET;
__attribute__((noreturn)) void exit(int status) __VGC_QUIET;
__attribute__((noreturn)) void abort() __VGC_QUIET;
int abs(int x) __VGC_QUIET;
long labs(long x) __VGC_QUIET;
long long llabs(long long x) __VGC_QUIET;
int rand() __VGC_QUIET;
void srand(unsigned seed) __VGC_QUIET;
double drand48() __VGC_QUIET;
void srand48(long seed) __VGC_QUIET;
int atoi(const char *text) __VGC_QUIET;
long atol(const char *text) __VGC_QUIET;
double atof(const char *text) __VGC_QUIET;
char *getenv(const char *name) __VGC_QUIET;
clock_t clock() __VGC_QUIET;
time_t time(time_t *into) __VGC_QUIET;

/* string.h */
void *memcpy(void *to, const void *from, size_t bytes) __VGC_QUIET;
void *memmove(void *to, const void *from, size_t bytes) __VGC_QUIET;
void *memset(void *to, int value, size_t bytes) __VGC_QUIET;
int memcmp(const void *a, const void *b, size_t bytes) __VGC_QUIET;
size_t strlen(const char *text) __VGC_QUIET;
int strcmp(const char *a, const char *b) __VGC_QUIET;
int strncmp(const char *a, const char *b, size_t bytes) __VGC_QUIET;
char *strcpy(char *to, const char *from) __VGC_QUIET;
char *strncpy(char *to, const char *from, size_t bytes) __VGC_QUIET;
char *strcat(char *to, const char *from) __VGC_QUIET;

/* math.h */
#define __VGC_HOST(name, floats, doubles)                                                                                              \
    float name##f floats __VGC_QUIET;                                                                                                  \
    double name doubles __VGC_QUIET;
#define __VGC_HOST_1(name) __VGC_HOST(name, (float x), (double x))
#define __VGC_HOST_2(name) __VGC_HOST(name, (float x, float y), (double x, double y))
#define __VGC_HOST_TO(result, name)                                                                                                    \
    result name##f(float x) __VGC_QUIET;                                                                                               \
    result name(double x) __VGC_QUIET;
__VGC_HOST_1(acos) __VGC_HOST_1(asin) __VGC_HOST_1(atan) __VGC_HOST_1(cos) __VGC_HOST_1(sin) __VGC_HOST_1(tan) __VGC_HOST_1(cosh)
__VGC_HOST_1(sinh) __VGC_HOST_1(tanh) __VGC_HOST_1(acosh) __VGC_HOST_1(asinh) __VGC_HOST_1(atanh) __VGC_HOST_1(exp)
__VGC_HOST_1(exp2) __VGC_HOST_1(exp10) __VGC_HOST_1(expm1) __VGC_HOST_1(log) __VGC_HOST_1(log2) __VGC_HOST_1(log10)
__VGC_HOST_1(log1p) __VGC_HOST_1(logb) __VGC_HOST_1(sqrt) __VGC_HOST_1(cbrt) __VGC_HOST_1(ceil) __VGC_HOST_1(floor)
__VGC_HOST_1(fabs) __VGC_HOST_1(rint) __VGC_HOST_1(nearbyint) __VGC_HOST_1(round) __VGC_HOST_1(trunc) __VGC_HOST_1(erf)
__VGC_HOST_1(erfc) __VGC_HOST_1(lgamma) __VGC_HOST_1(tgamma) __VGC_HOST_1(j0) __VGC_HOST_1(j1) __VGC_HOST_1(y0) __VGC_HOST_1(y1)
__VGC_HOST_2(atan2) __VGC_HOST_2(pow) __VGC_HOST_2(hypot) __VGC_HOST_2(fmod) __VGC_HOST_2(remainder) __VGC_HOST_2(copysign)
__VGC_HOST_2(nextafter) __VGC_HOST_2(fdim) __VGC_HOST_2(fmax) __VGC_HOST_2(fmin)
__VGC_HOST(fma, (float x, float y, float z), (double x, double y, double z))
__VGC_HOST(ldexp, (float x, int n), (double x, int n))
__VGC_HOST(scalbn, (float x, int n), (double x, int n))
__VGC_HOST(frexp, (float x, int *n), (double x, int *n))
__VGC_HOST(modf, (float x, float *whole), (double x, double *whole))
__VGC_HOST(remquo, (float x, float y, int *n), (double x, double y, int *n))
__VGC_HOST(nan, (const char *text), (const char *text))
__VGC_HOST_TO(int, ilogb) __VGC_HOST_TO(long, lrint) __VGC_HOST_TO(long, lround) __VGC_HOST_TO(long long, llrint)
__VGC_HOST_TO(long long, llround)
void sincosf(float x, float *sine, float *cosine) __VGC_QUIET;
void sincos(double x, double *sine, double *cosine) __VGC_QUIET;

/* Functions that CUDA adds to host code. Newer C libraries declare some of them, too: sinpi() since glibc 2.41. */
__VGC_HOST_1(rsqrt) __VGC_HOST_1(rcbrt) __VGC_HOST_1(sinpi) __VGC_HOST_1(cospi) __VGC_HOST_1(normcdf) __VGC_HOST_1(normcdfinv)
__VGC_HOST_1(erfinv) __VGC_HOST_1(erfcinv) __VGC_HOST_1(erfcx) __VGC_HOST_2(rhypot) __VGC_HOST_2(fdivide)
}
#undef __VGC_HOST
#undef __VGC_HOST_1
#undef __VGC_HOST_2
#undef __VGC_HOST_TO
#undef __VGC_QUIET
#define __VGC_HOST_MIN_MAX(result, a, b)                                                                                               \
    result min(a x, b y);                                                                                                              \
    result max(a x, b y);
#define __VGC_HOST_MIXED(result, other)                                                                                                \
    __VGC_HOST_MIN_MAX(result, result, other)                                                                                          \
    __VGC_HOST_MIN_MAX(result, other, result)
__VGC_HOST_MIN_MAX(int, int, int) __VGC_HOST_MIN_MAX(unsigned, unsigned, unsigned) __VGC_HOST_MIN_MAX(long, long, long)
__VGC_HOST_MIN_MAX(unsigned long, unsigned long, unsigned long) __VGC_HOST_MIN_MAX(long long, long long, long long)
__VGC_HOST_MIN_MAX(unsigned long long, unsigned long long, unsigned long long) __VGC_HOST_MIN_MAX(float, float, float)
__VGC_HOST_MIN_MAX(double, double, double) __VGC_HOST_MIXED(unsigned, int) __VGC_HOST_MIXED(unsigned long, long)
__VGC_HOST_MIXED(unsigned long long, long long) __VGC_HOST_MIXED(double, float)
#undef __VGC_HOST_MIN_MAX
#undef __VGC_HOST_MIXED

/* ---- device code ---- */

__VGC_FN__ void *memcpy(void *to, const void *from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
__VGC_FN__ void *memmove(void *to, const void *from, size_t bytes) { return __builtin_memmove(to, from, bytes); }
__VGC_FN__ void *memset(void *to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }
__VGC_FN__ int memcmp(const void *a, const void *b, size_t bytes) { return __builtin_memcmp(a, b, bytes); }
__VGC_FN__ clock_t clock() { return (clock_t)__builtin_readcyclecounter(); }

#include "assert.h"
