/* The part of cuDNN's binary interface that the engine uses, as cuda_libraries_abi.h has those of cuBLAS and cuFFT. */
#ifndef VGC_CUDA_DNN_ABI_H
#define VGC_CUDA_DNN_ABI_H

#include "cuda_abi.h"

typedef unsigned int dnn_result; /* cudnnStatus_t */
typedef struct cudnnContext *dnn_handle;
typedef struct cudnnTensorStruct *dnn_tensor;
typedef struct cudnnFilterStruct *dnn_filter;
typedef struct cudnnConvolutionStruct *dnn_convolution;

enum {
    DNN_SUCCESS = 0,
    DNN_NOT_SUPPORTED = 3000,
    DNN_INTERNAL_ERROR = 4000,
    DNN_EXECUTION_FAILED = 5000,
    DNN_FLOAT = 0,
    DNN_DOUBLE = 1,
    DNN_HALF = 2,
    DNN_BFLOAT16 = 9,
    DNN_CROSS_CORRELATION = 1,
    DNN_TENSOR_NCHW = 0,
    DNN_TENSOR_NHWC = 1,
    DNN_DEFAULT_MATH = 0,
    DNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
    DNN_FMA_MATH = 3,
    DNN_DETERMINISTIC = 1,
};

/* cudnnConvolutionFwdAlgoPerf_t, and those of gradients, which differ in the type of `algorithm` alone. */
struct dnn_found {
    unsigned int algorithm;
    dnn_result status;
    float time;
    size_t memory;
    unsigned int determinism;
    unsigned int math;
    int reserved[3];
};

#define DNN_CALLS(X)                                                                                                   \
    X(cudnnCreate, (dnn_handle * handle))                                                                              \
    X(cudnnDestroy, (dnn_handle handle))                                                                               \
    X(cudnnSetStream, (dnn_handle handle, drv_stream stream))                                                          \
    X(cudnnCreateTensorDescriptor, (dnn_tensor * tensor))                                                              \
    X(cudnnSetTensorNdDescriptor,                                                                                      \
      (dnn_tensor tensor, unsigned int type, int axes, const int *size, const int *stride))                            \
    X(cudnnDestroyTensorDescriptor, (dnn_tensor tensor))                                                               \
    X(cudnnCreateFilterDescriptor, (dnn_filter * filter))                                                              \
    X(cudnnSetFilterNdDescriptor,                                                                                      \
      (dnn_filter filter, unsigned int type, unsigned int format, int axes, const int *size))                          \
    X(cudnnDestroyFilterDescriptor, (dnn_filter filter))                                                               \
    X(cudnnCreateConvolutionDescriptor, (dnn_convolution * convolution))                                               \
    X(cudnnSetConvolutionNdDescriptor, (dnn_convolution convolution, int space, const int *pad, const int *stride,     \
                                        const int *dilation, unsigned int mode, unsigned int compute))                 \
    X(cudnnSetConvolutionGroupCount, (dnn_convolution convolution, int groups))                                        \
    X(cudnnSetConvolutionMathType, (dnn_convolution convolution, unsigned int math))                                   \
    X(cudnnDestroyConvolutionDescriptor, (dnn_convolution convolution))                                                \
    X(cudnnConvolutionForward, (dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x, dnn_filter of_w, \
                                const void *w, dnn_convolution convolution, unsigned int algorithm, void *work,        \
                                size_t bytes, const void *beta, dnn_tensor of_y, void *y))                             \
    X(cudnnConvolutionBackwardData,                                                                                    \
      (dnn_handle handle, const void *alpha, dnn_filter of_w, const void *w, dnn_tensor of_y, const void *y,           \
       dnn_convolution convolution, unsigned int algorithm, void *work, size_t bytes, const void *beta,                \
       dnn_tensor of_x, void *x))                                                                                      \
    X(cudnnConvolutionBackwardFilter,                                                                                  \
      (dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x, dnn_tensor of_y, const void *y,           \
       dnn_convolution convolution, unsigned int algorithm, void *work, size_t bytes, const void *beta,                \
       dnn_filter of_w, void *w))

#define DNN_NORMS(X)                                                                                                   \
    X(cudnnBatchNormalizationForwardTraining,                                                                          \
      (dnn_handle handle, unsigned int mode, const void *alpha, const void *beta, dnn_tensor of_x, const void *x,      \
       dnn_tensor of_y, void *y, dnn_tensor of_numbers, const void *scale, const void *bias, double factor,            \
       void *mean, void *variance, double epsilon, void *saved_mean, void *saved_variance))                            \
    X(cudnnBatchNormalizationForwardInference,                                                                         \
      (dnn_handle handle, unsigned int mode, const void *alpha, const void *beta, dnn_tensor of_x, const void *x,      \
       dnn_tensor of_y, void *y, dnn_tensor of_numbers, const void *scale, const void *bias, const void *mean,         \
       const void *variance, double epsilon))                                                                          \
    X(cudnnBatchNormalizationBackward,                                                                                 \
      (dnn_handle handle, unsigned int mode, const void *alpha, const void *beta, const void *alpha_numbers,           \
       const void *beta_numbers, dnn_tensor of_x, const void *x, dnn_tensor of_dy, const void *dy, dnn_tensor of_dx,   \
       void *dx, dnn_tensor of_numbers, const void *scale, void *dscale, void *dbias, double epsilon,                  \
       const void *saved_mean, const void *saved_variance))

/* Functions with results of heuristics. */
#define DNN_FINDERS(X)                                                                                                 \
    X(cudnnGetConvolutionForwardAlgorithm_v7,                                                                          \
      (dnn_handle handle, dnn_tensor x, dnn_filter w, dnn_convolution convolution, dnn_tensor y, int most, int *count, \
       struct dnn_found *found))                                                                                       \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7,                                                                     \
      (dnn_handle handle, dnn_filter w, dnn_tensor y, dnn_convolution convolution, dnn_tensor x, int most, int *count, \
       struct dnn_found *found))                                                                                       \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7,                                                                   \
      (dnn_handle handle, dnn_tensor x, dnn_tensor y, dnn_convolution convolution, dnn_filter w, int most, int *count, \
       struct dnn_found *found))

#define DNN_FUNCTIONS(X) DNN_CALLS(X) DNN_NORMS(X) DNN_FINDERS(X)

#endif
