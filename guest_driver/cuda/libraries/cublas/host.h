/* Products by the host's cuBLAS, where it has one: its function `cublas.gemm`, called by name. */
#pragma once
#include "context.h"

namespace blas
{

/* Types of a product, as cublasGemmEx() has them. */
template <class T> struct data_type {
    static constexpr int value = -1;
};
template <> struct data_type<float> {
    static constexpr int value = CUDA_R_32F;
};
template <> struct data_type<double> {
    static constexpr int value = CUDA_R_64F;
};
template <> struct data_type<__half> {
    static constexpr int value = CUDA_R_16F;
};
template <> struct data_type<__nv_bfloat16> {
    static constexpr int value = CUDA_R_16BF;
};
template <> struct data_type<complex<float>> {
    static constexpr int value = CUDA_C_32F;
};
template <> struct data_type<complex<double>> {
    static constexpr int value = CUDA_C_64F;
};
template <class T> struct is_wide {
    static constexpr bool value = false;
};
template <> struct is_wide<double> {
    static constexpr bool value = true;
};
template <> struct is_wide<complex<double>> {
    static constexpr bool value = true;
};

/* Parameters of the host's function, in its order (vhost_backend/builtins/vgc_builtin_params.h). */
struct host_product {
    int op_a, op_b;
    i64 m, n, k;
    double alpha, alpha_imaginary;
    const void *a;
    i64 lda, stride_a;
    const void *b;
    i64 ldb, stride_b;
    double beta, beta_imaginary;
    void *c;
    i64 ldc, stride_c, count;
    int in_type, out_type, compute, math;
};

static inline double real_part_of(double x)
{
    return x;
}
static inline double imaginary_part_of(double)
{
    return 0;
}
template <class R> static inline double real_part_of(complex<R> x)
{
    return x.x;
}
template <class R> static inline double imaginary_part_of(complex<R> x)
{
    return x.y;
}

/* Whether the host's cuBLAS has taken the product; false: kernels have to compute it. */
bool host_computes(cublasHandle_t handle, host_product &product);

} // namespace blas
