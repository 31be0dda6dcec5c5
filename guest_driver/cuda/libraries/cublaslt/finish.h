/* Kernels that follow a product: factors, C, bias and epilogue, element by element, into a matrix of any order. */
#pragma once
#include "../cublas/gemm.h"

namespace lt
{

using namespace blas;

/* A factor for each row of D: one of the host's, one of the device's, or a vector there. */
struct factors {
    double value, imaginary;
    const void *address; /* NULL: `value` counts */
    i64 step, jump;
};
/* A matrix of a batch: element (i, j) lies i * row + j * column behind the first. */
struct place {
    void *first;
    i64 row, column, jump;
};
enum function { NOTHING, RELU, GELU, GELU_GRADIENT };
struct ending {
    i64 rows, columns, count;
    const void *sums; /* of the product, by columns, one matrix behind the other */
    factors alpha, beta;
    place c, d, aux; /* C is read where beta is not 0; aux.first may be NULL */
    const void *bias;
    i64 bias_jump;
    function how;
    const float *scales[4]; /* of A, B, C and D, on the device, or NULL */
};
struct sum_of_two {
    i64 rows, columns, count;
    factors alpha, beta;
    place a, b, c; /* of op(A), op(B) and C */
    bool conjugates_a, conjugates_b;
};

typedef cublasStatus_t finisher(cudaStream_t stream, const ending &how);
typedef cublasStatus_t adder(cudaStream_t stream, const sum_of_two &how);
finisher finish_float, finish_half, finish_bfloat, finish_double, finish_int, finish_char, finish_complex,
    finish_double_complex;
adder add_float, add_half, add_bfloat, add_double, add_int, add_char, add_complex, add_double_complex;

constexpr int LINE = 64;

template <class T> struct from_host {
    static __device__ T make(double x, double)
    {
        return (T)x;
    }
};
template <class R> struct from_host<complex<R>> {
    static __device__ complex<R> make(double x, double y)
    {
        return {(R)x, (R)y};
    }
};
template <class Scale> __device__ inline Scale get(const factors &all, i64 i, i64 z)
{
    return all.address ? ((const Scale *)all.address)[i * all.step + z * all.jump]
                       : from_host<Scale>::make(all.value, all.imaginary);
}
template <class T> __device__ inline T &at(const place &where, i64 i, i64 j, i64 z)
{
    return ((T *)where.first)[i * where.row + j * where.column + z * where.jump];
}

/* The approximation that NVIDIA documents: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
template <class R> __device__ inline R gelu(R x)
{
    return (R)0.5 * x * (1 + tanh((R)0.7978845608028654 * (x + (R)0.044715 * x * x * x)));
}
template <class R> __device__ inline R gelu_gradient(R x)
{
    const R slope = tanh((R)0.7978845608028654 * (x + (R)0.044715 * x * x * x));
    return (R)0.5 * (1 + slope) +
           (R)0.5 * x * (1 - slope * slope) * (R)0.7978845608028654 * (1 + 3 * (R)0.044715 * x * x);
}

template <class Scale, class Out> struct narrow {
    static __device__ Out from(Scale x)
    {
        return widen<Out, Scale>::from(x);
    }
};
template <> struct narrow<float, signed char> {
    static __device__ signed char from(float x)
    {
        return (signed char)rintf(fminf(fmaxf(x, -128.0f), 127.0f));
    }
};

template <class Out, class Scale> __device__ inline Scale apply(const ending &how, Scale x, i64 i, i64 j, i64 z)
{
    if constexpr (is_same<Scale, float>::value || is_same<Scale, double>::value) {
        if (how.how == RELU)
            return x > 0 ? x : 0;
        if (how.how == GELU) {
            if (how.aux.first)
                at<Out>(how.aux, i, j, z) = narrow<Scale, Out>::from(x);
            return gelu(x);
        }
        if (how.how == GELU_GRADIENT)
            return x * gelu_gradient((Scale)at<Out>(how.aux, i, j, z));
    }
    return x;
}

template <class Sum, class Scale, class Out> __global__ void finish(ending how)
{
    const Sum *sums = (const Sum *)how.sums;
    Scale product_scale = one<Scale>(), c_scale = one<Scale>(), d_scale = one<Scale>();
    for (int i = 0; i < 2; i++)
        if (how.scales[i])
            product_scale = product_scale * widen_factor<Scale>((real_of<Scale>)*how.scales[i]);
    if (how.scales[2])
        c_scale = widen_factor<Scale>((real_of<Scale>)*how.scales[2]);
    if (how.scales[3])
        d_scale = widen_factor<Scale>((real_of<Scale>)*how.scales[3]);
    for (i64 z = blockIdx.z; z < how.count; z += gridDim.z)
        for (i64 j = blockIdx.y; j < how.columns; j += gridDim.y)
            for (i64 i = (i64)blockIdx.x * LINE + threadIdx.x; i < how.rows; i += (i64)gridDim.x * LINE) {
                const Scale alpha = get<Scale>(how.alpha, i, z), beta = get<Scale>(how.beta, i, z);
                Scale x = zero<Scale>();
                if (!(alpha == zero<Scale>()))
                    x = alpha * product_scale * widen<Scale, Sum>::from(sums[i + (j + z * how.columns) * how.rows]);
                if (!(beta == zero<Scale>()))
                    x += beta * c_scale * widen<Scale, Out>::from(at<const Out>(how.c, i, j, z));
                if (how.bias)
                    x += widen<Scale, Out>::from(((const Out *)how.bias)[i + z * how.bias_jump]);
                at<Out>(how.d, i, j, z) = narrow<Scale, Out>::from(d_scale * apply<Out>(how, x, i, j, z));
            }
}

template <class Scale, class T> __global__ void add(sum_of_two how)
{
    for (i64 z = blockIdx.z; z < how.count; z += gridDim.z)
        for (i64 j = blockIdx.y; j < how.columns; j += gridDim.y)
            for (i64 i = (i64)blockIdx.x * LINE + threadIdx.x; i < how.rows; i += (i64)gridDim.x * LINE) {
                const Scale alpha = get<Scale>(how.alpha, i, z), beta = get<Scale>(how.beta, i, z);
                Scale x = zero<Scale>();
                if (how.a.first && !(alpha == zero<Scale>()))
                    x = alpha * conjugate_if(how.conjugates_a, widen<Scale, T>::from(at<const T>(how.a, i, j, z)));
                if (how.b.first && !(beta == zero<Scale>()))
                    x += beta * conjugate_if(how.conjugates_b, widen<Scale, T>::from(at<const T>(how.b, i, j, z)));
                at<T>(how.c, i, j, z) = narrow<Scale, T>::from(x);
            }
}

template <class Sizes> static inline dim3 grid_of(const Sizes &of)
{
    return dim3((unsigned)least(ceiling(of.rows, LINE), 65535), (unsigned)least(of.columns, 65535),
                (unsigned)least(of.count, 65535));
}

} // namespace lt

#define LT_FINISH(name, Sum, Scale, Out)                                                                               \
    cublasStatus_t lt::finish_##name(cudaStream_t stream, const ending &how)                                           \
    {                                                                                                                  \
        finish<Sum, Scale, Out><<<grid_of(how), LINE, 0, stream>>>(how);                                               \
        return launched();                                                                                             \
    }
#define LT_ADD(name, Scale, T)                                                                                         \
    cublasStatus_t lt::add_##name(cudaStream_t stream, const sum_of_two &how)                                          \
    {                                                                                                                  \
        add<Scale, T><<<grid_of(how), LINE, 0, stream>>>(how);                                                         \
        return launched();                                                                                             \
    }
