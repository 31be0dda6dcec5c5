/* Parameter blocks of the built-in functions: natural alignment, addresses of eight bytes, as those of kernels.
 *
 * A block is the same for all types of a function: factors are doubles, which hold floats exactly. */
#ifndef VGC_BUILTIN_PARAMS_H
#define VGC_BUILTIN_PARAMS_H

#include <stdint.h>

struct vgc_axpy_params {
    int64_t n;
    double alpha;
    uint64_t x;
    int64_t incx;
    uint64_t y;
    int64_t incy;
};

struct vgc_dot_params {
    int64_t n;
    uint64_t x;
    int64_t incx;
    uint64_t y;
    int64_t incy;
    uint64_t result;
};

struct vgc_nrm2_params {
    int64_t n;
    uint64_t x;
    int64_t incx;
    uint64_t result;
};

struct vgc_gemv_params {
    int32_t transpose;
    int64_t m;
    int64_t n;
    double alpha;
    uint64_t a;
    int64_t lda;
    uint64_t x;
    int64_t incx;
    double beta;
    uint64_t y;
    int64_t incy;
};

struct vgc_gemm_params {
    int32_t transpose_a;
    int32_t transpose_b;
    int64_t m;
    int64_t n;
    int64_t k;
    double alpha;
    uint64_t a;
    int64_t lda;
    uint64_t b;
    int64_t ldb;
    double beta;
    uint64_t c;
    int64_t ldc;
    int64_t batch;
    int64_t stride_a;
    int64_t stride_b;
    int64_t stride_c;
};

struct vgc_reduce_params {
    uint64_t in;
    uint64_t out;
    int64_t outer;
    int64_t n;
    int64_t inner;
};

struct vgc_scan_params {
    uint64_t in;
    uint64_t out;
    int64_t outer;
    int64_t n;
    int32_t exclusive;
};

struct vgc_sort_params {
    uint64_t in;
    uint64_t out;
    int64_t outer;
    int64_t n;
    int32_t descending;
};

struct vgc_sort_pairs_params {
    uint64_t keys;
    uint64_t values;
    uint64_t keys_out;
    uint64_t values_out;
    int64_t outer;
    int64_t n;
    int32_t value_bytes;
    int32_t descending;
};

struct vgc_unique_params {
    uint64_t in;
    int64_t n;
    uint64_t out;
    uint64_t count;
};

struct vgc_histogram_params {
    uint64_t in;
    int64_t n;
    uint64_t counts;
    int64_t bins;
    double low;
    double high;
};

struct vgc_bincount_params {
    uint64_t in;
    int64_t n;
    uint64_t counts;
    int64_t bins;
};

struct vgc_fft_params {
    uint64_t in;
    uint64_t out;
    int64_t batch;
    int64_t n0;
    int64_t n1;
    int64_t n2;
    int32_t rank;
    int32_t inverse; /* of complex transforms alone; 0 in others */
};

struct vgc_conv2d_params {
    uint64_t x;
    uint64_t weights;
    uint64_t y;
    int64_t batch;
    int64_t channels;
    int64_t height;
    int64_t width;
    int64_t filters;
    int64_t kernel_h;
    int64_t kernel_w;
    int64_t stride_h;
    int64_t stride_w;
    int64_t pad_h;
    int64_t pad_w;
    int64_t dilation_h;
    int64_t dilation_w;
    int64_t groups;
};

struct vgc_random_params {
    uint64_t out;
    int64_t n;
    uint64_t seed;
    uint64_t offset;
};

struct vgc_normal_params {
    uint64_t out;
    int64_t n;
    uint64_t seed;
    uint64_t offset;
    double mean;
    double deviation;
};

struct vgc_spmv_params {
    int64_t rows;
    int64_t columns;
    int64_t nonzeros;
    double alpha;
    uint64_t row_starts;
    uint64_t indices;
    uint64_t values;
    uint64_t x;
    double beta;
    uint64_t y;
};

struct vgc_unary_params {
    int64_t shape[4];
    uint64_t a;
    int64_t a_stride[4];
    uint64_t out;
};

struct vgc_binary_params {
    int64_t shape[4];
    uint64_t a;
    int64_t a_stride[4];
    uint64_t b;
    int64_t b_stride[4];
    uint64_t out;
};

struct vgc_convert_params {
    int64_t shape[4];
    uint64_t a;
    int64_t a_stride[4];
    uint64_t out;
    int32_t to; /* enum vgc_builtin_type */
};

struct vgc_where_params {
    int64_t shape[4];
    uint64_t condition;
    int64_t condition_stride[4];
    uint64_t a;
    int64_t a_stride[4];
    uint64_t b;
    int64_t b_stride[4];
    uint64_t out;
};

struct vgc_nonzero_params {
    uint64_t in;
    int64_t n;
    uint64_t out;
    uint64_t count;
};

struct vgc_take_params {
    uint64_t in;
    int64_t n;
    int64_t item_bytes;
    uint64_t indices;
    int64_t num_indices;
    uint64_t out;
};

/* Numbers of types, operations and modes are cuBLAS's; matrices are columns, one behind the other. */
struct vgc_cublas_gemm_params {
    int32_t op_a;
    int32_t op_b;
    int64_t m;
    int64_t n;
    int64_t k;
    double alpha;
    double alpha_imaginary;
    uint64_t a;
    int64_t lda;
    int64_t stride_a;
    uint64_t b;
    int64_t ldb;
    int64_t stride_b;
    double beta;
    double beta_imaginary;
    uint64_t c;
    int64_t ldc;
    int64_t stride_c;
    int64_t batch;
    int32_t in_type;
    int32_t out_type;
    int32_t compute;
    int32_t math;
};

enum { VGC_CUFFT_RANK = 3 };

/* Where cuFFT finds the elements of an array of transforms: element (i0, i1, i2) of the batch's number b is number
 * b * distance + ((i0 * embed[1] + i1) * embed[2] + i2) * stride of the array. */
struct vgc_cufft_layout {
    int64_t embed[VGC_CUFFT_RANK];
    int64_t stride;
    int64_t distance;
};

/* Numbers of types are cuFFT's. Elements are real or complex, as the array's are. */
struct vgc_cufft_params {
    uint64_t in;
    uint64_t out;
    int64_t batch;
    int64_t n[VGC_CUFFT_RANK];
    struct vgc_cufft_layout from;
    struct vgc_cufft_layout to;
    int64_t rank;
    int32_t type;
    int32_t inverse; /* of complex transforms alone; 0 in others */
};

enum { VGC_CUDNN_AXES = 5, VGC_CUDNN_SPACE = 3 };

/* Numbers of types and modes are cuDNN's. Axes are those of the batch, of channels, and 2 or 3 of space. */
struct vgc_cudnn_convolution_params {
    uint64_t x;
    uint64_t w;
    uint64_t y;
    double alpha;
    double beta;
    int32_t axes;
    int32_t type;
    int32_t compute;
    int32_t math;
    int32_t w_channels_last;
    int32_t deterministic;
    int32_t x_size[VGC_CUDNN_AXES];
    int32_t w_size[VGC_CUDNN_AXES];
    int32_t y_size[VGC_CUDNN_AXES];
    int32_t x_stride[VGC_CUDNN_AXES];
    int32_t y_stride[VGC_CUDNN_AXES];
    int32_t pad[VGC_CUDNN_SPACE];
    int32_t stride[VGC_CUDNN_SPACE];
    int32_t dilation[VGC_CUDNN_SPACE];
    int64_t groups;
};

/* Normalization of batches. Addresses of means and variances may be 0 where cuDNN allows it. */
struct vgc_cudnn_normalization_params {
    uint64_t x;
    uint64_t y;  /* the result, or its gradient */
    uint64_t dx; /* of gradients */
    uint64_t scale;
    uint64_t bias;   /* or its gradient */
    uint64_t dscale; /* of gradients */
    uint64_t mean;   /* running ones */
    uint64_t variance;
    uint64_t saved_mean;
    uint64_t saved_variance;
    double factor;
    double epsilon;
    int32_t axes;
    int32_t type;
    int32_t mode;
    int32_t size[VGC_CUDNN_AXES];
    int32_t x_stride[VGC_CUDNN_AXES];
    int32_t y_stride[VGC_CUDNN_AXES];
    int32_t dx_stride[VGC_CUDNN_AXES];
    int32_t unused;
};

#endif
