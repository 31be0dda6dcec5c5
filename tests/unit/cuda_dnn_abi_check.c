/* Compiles if cuda_dnn_abi.h says what NVIDIA's headers of cuDNN say. */
#include <cudnn.h>

#include "cuda_dnn_abi.h"

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs)
SAME(DNN_SUCCESS, CUDNN_STATUS_SUCCESS);
SAME(DNN_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
SAME(DNN_INTERNAL_ERROR, CUDNN_STATUS_INTERNAL_ERROR);
SAME(DNN_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED);
SAME(DNN_FLOAT, CUDNN_DATA_FLOAT);
SAME(DNN_DOUBLE, CUDNN_DATA_DOUBLE);
SAME(DNN_HALF, CUDNN_DATA_HALF);
SAME(DNN_BFLOAT16, CUDNN_DATA_BFLOAT16);
SAME(DNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(DNN_TENSOR_NCHW, CUDNN_TENSOR_NCHW);
SAME(DNN_TENSOR_NHWC, CUDNN_TENSOR_NHWC);
SAME(DNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME(DNN_TENSOR_OP_MATH_ALLOW_CONVERSION, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
SAME(DNN_FMA_MATH, CUDNN_FMA_MATH);
SAME(DNN_DETERMINISTIC, CUDNN_DETERMINISTIC);

/* Results of heuristics are one struct here, which is laid out as each of the three. */
#define SAME_PLACE(type, ours, theirs)                                                                                 \
    _Static_assert(__builtin_offsetof(struct dnn_found, ours) == __builtin_offsetof(type, theirs), #theirs)
#define SAME_FOUND(type)                                                                                               \
    _Static_assert(sizeof(struct dnn_found) == sizeof(type), #type);                                                   \
    SAME_PLACE(type, status, status);                                                                                  \
    SAME_PLACE(type, memory, memory);                                                                                  \
    SAME_PLACE(type, determinism, determinism);                                                                        \
    SAME_PLACE(type, math, mathType)
SAME_FOUND(cudnnConvolutionFwdAlgoPerf_t);
SAME_FOUND(cudnnConvolutionBwdDataAlgoPerf_t);
SAME_FOUND(cudnnConvolutionBwdFilterAlgoPerf_t);

#define SAME_FUNCTION(name, parameters)                                                                                \
    _Static_assert(__builtin_types_compatible_p(dnn_result(*) parameters, __typeof__(&name)),                          \
                   #name " has another type");
DNN_CALLS(SAME_FUNCTION)
DNN_NORMS(SAME_FUNCTION)
