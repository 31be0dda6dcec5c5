#pragma once

typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef struct {
    long long __vgc_integer;
    long double __vgc_real;
} max_align_t;

#undef NULL
#define NULL 0
#undef offsetof
#ifdef __has_builtin
#if __has_builtin(__builtin_offsetof)
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#endif
#ifndef offsetof /* CUDA 13.0 and older do not take it for a constant */
#define offsetof(type, member) ((size_t)&((type *)0)->member)
#endif
