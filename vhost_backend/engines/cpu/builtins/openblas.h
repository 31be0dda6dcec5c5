// OpenBLAS: matrix products and vector functions, loaded at run time from the wheel scipy-openblas64.
#ifndef VGC_CPU_OPENBLAS_H
#define VGC_CPU_OPENBLAS_H

#include <cstdint>

namespace vgc
{
/* Values of CBLAS. */
enum Layout : int { ROW_MAJOR = 101 };
enum Transpose : int { AS_IS = 111, TRANSPOSED = 112 };

/* Functions for one type; sizes have 64 bits. Any number of threads may call them at once. */
template <class T> struct Blas {
    void (*axpy)(int64_t n, T alpha, const T *x, int64_t incx, T *y, int64_t incy);
    T (*dot)(int64_t n, const T *x, int64_t incx, const T *y, int64_t incy);
    T (*nrm2)(int64_t n, const T *x, int64_t incx);
    void (*gemv)(Layout, Transpose, int64_t m, int64_t n, T alpha, const T *a, int64_t lda, const T *x, int64_t incx,
                 T beta, T *y, int64_t incy);
    void (*gemm)(Layout, Transpose, Transpose, int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,
                 const T *b, int64_t ldb, T beta, T *c, int64_t ldc);
};

/* Valid once OpenBLAS is loaded. */
template <class T> const Blas<T> &blas();

/* Loads it, as vgc_cpu_builtins_open() says. */
int open_openblas(const char *path, char *why);

bool has_openblas();
} // namespace vgc

#endif
