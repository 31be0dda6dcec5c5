/* Calls of built-in functions as cuBLAS and cuFFT compute them, with kernels of the function's module before or behind.
 *
 * Nothing here calls CUDA or the libraries. */
#ifndef CUDA_BUILTINS_LIBRARY_CALLS_H
#define CUDA_BUILTINS_LIBRARY_CALLS_H

#include "cuda_builtins.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

enum cuda_library { CUDA_LIBRARY_NONE, CUDA_LIBRARY_BLAS, CUDA_LIBRARY_FFT, CUDA_LIBRARY_DNN };

/* Shape of transforms: those of the same shape share a plan of cuFFT. */
struct cuda_fft_shape {
    uint32_t transform; /* cufftType */
    uint32_t rank;
    int64_t batch;
    int64_t lengths[3];
    struct vgc_cufft_layout in, out; /* strides of 0: rows lie one behind the other */
};

struct cuda_library_call {
    enum cuda_library library;
    uint32_t type;          /* enum vgc_builtin_type */
    bool keeps_input;       /* after the library has failed, the call can be computed anew */
    uint64_t scratch_bytes; /* of the workspace, in front of the library's part */
    uint32_t num_before;    /* 0 or 1 launches before the library's work */
    uint32_t num_behind;    /* 0 or 1 launches behind it */
    struct cuda_builtin_launch before, behind;
    uint32_t function; /* enum vgc_builtin_function */
    union {
        struct vgc_gemm_params gemm; /* row-major */
        struct vgc_cublas_gemm_params product;
        struct vgc_cudnn_convolution_params convolution;
        struct vgc_cudnn_normalization_params normalization;
    };
    struct cuda_fft_shape shape;
    uint64_t in, out; /* of a transform */
    bool inverse;     /* of a complex one */
};

/* The library that computes a function, as far as it can compute a call. */
enum cuda_library cuda_library_of(const struct vgc_builtin *builtin);

/* Plans a call; false: the library cannot compute it. `workspace` as in cuda_builtin_plan(). */
bool cuda_library_plan(const struct vgc_builtin *builtin, const void *params, uint32_t num_sms, uint64_t workspace,
                       struct cuda_library_call *call);

#endif
