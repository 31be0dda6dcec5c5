/* Products of matrices whose types are told at run time: one function per combination, in the units of gemm_*.cu. */
#pragma once
#include "gemm.h"

namespace blas
{

struct any_batch {
    const void *first;
    const void *const *table;
    i64 jump;
};
template <class T> static inline batch<T> typed(any_batch any)
{
    return {(T *)any.first, (T *const *)any.table, any.jump};
}

typedef cublasStatus_t mixed_gemm(cublasHandle_t handle, const gemm_sizes &size, const void *alpha, any_batch a,
                                  any_batch b, const void *beta, any_batch c, i64 count);

mixed_gemm float_gemm, double_gemm, complex_gemm, double_complex_gemm, half_gemm, half_to_float_gemm, bfloat_gemm,
    bfloat_to_float_gemm, char_to_float_gemm, char_to_int_gemm;

} // namespace blas

#define BLAS_MIXED(name, In, Sum, Out, Scale)                                                                          \
    cublasStatus_t blas::name(cublasHandle_t handle, const gemm_sizes &size, const void *alpha, any_batch a,           \
                              any_batch b, const void *beta, any_batch c, i64 count)                                   \
    {                                                                                                                  \
        return do_gemm<In, Sum, Out, Scale>(handle, size, (const Scale *)alpha, typed<const In>(a),                    \
                                            typed<const In>(b), (const Scale *)beta, typed<Out>(c), count);            \
    }
