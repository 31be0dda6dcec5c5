/* Built-in functions: functions that come with the host, so that guests without CUDA sources compute, too.
 *
 * This folder says what they are called, what their parameters mean, and which calls are allowed. It computes nothing:
 * each engine has its own code for them. Arrays are row-major; leading dimensions, strides and increments count
 * elements; addresses are those of the VM's device memory. */
#ifndef VGC_BUILTINS_H
#define VGC_BUILTINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Type of the elements that a function works on. Numbers stay as they are, and there are 8 at most: requests name a
 * function by `function << 3 | type`. */
enum vgc_builtin_type {
    VGC_TYPE_F16 = 0,
    VGC_TYPE_F32 = 1,
    VGC_TYPE_F64 = 2,
    VGC_TYPE_I32 = 3,
    VGC_TYPE_I64 = 4,
    VGC_TYPE_U32 = 5,
    VGC_TYPE_U64 = 6,
    VGC_TYPE_B8 = 7, /* bytes: 0 is false, and all others are true; results are 0 and 1 */
    VGC_NUM_TYPES = 8,
};

/* Functions without regard to types: engines dispatch on these. Numbers stay as they are, as requests name functions by
 * them: new ones come behind the last. Those of complex numbers have the type of the real part. */
enum vgc_builtin_function {
    VGC_FN_AXPY = 0,
    VGC_FN_DOT = 1,
    VGC_FN_NRM2 = 2,
    VGC_FN_GEMV = 3,
    VGC_FN_GEMM = 4,
    VGC_FN_SUM = 5,
    VGC_FN_PROD = 6,
    VGC_FN_MIN = 7,
    VGC_FN_MAX = 8,
    VGC_FN_ARGMIN = 9,
    VGC_FN_ARGMAX = 10,
    VGC_FN_SCAN_SUM = 11,
    VGC_FN_SCAN_PROD = 12,
    VGC_FN_SCAN_MIN = 13,
    VGC_FN_SCAN_MAX = 14,
    VGC_FN_SORT_KEYS = 15,
    VGC_FN_ARGSORT = 16,
    VGC_FN_SORT_PAIRS = 17,
    VGC_FN_UNIQUE = 18,
    VGC_FN_HISTOGRAM = 19,
    VGC_FN_BINCOUNT = 20,
    VGC_FN_FFT_C2C = 21,
    VGC_FN_FFT_R2C = 22,
    VGC_FN_FFT_C2R = 23,
    VGC_FN_CONV2D = 24,
    VGC_FN_RANDOM_BITS = 25,
    VGC_FN_RANDOM_UNIFORM = 26,
    VGC_FN_RANDOM_NORMAL = 27,
    VGC_FN_SPMV_I32 = 28,
    VGC_FN_SPMV_I64 = 29,
    VGC_FN_ADD = 30,
    VGC_FN_SUBTRACT = 31,
    VGC_FN_MULTIPLY = 32,
    VGC_FN_DIVIDE = 33,
    VGC_FN_FLOOR_DIVIDE = 34,
    VGC_FN_REMAINDER = 35,
    VGC_FN_POWER = 36,
    VGC_FN_MAXIMUM = 37,
    VGC_FN_MINIMUM = 38,
    VGC_FN_EQUAL = 39,
    VGC_FN_NOT_EQUAL = 40,
    VGC_FN_LESS = 41,
    VGC_FN_LESS_EQUAL = 42,
    VGC_FN_NEGATIVE = 43,
    VGC_FN_ABSOLUTE = 44,
    VGC_FN_SQUARE = 45,
    VGC_FN_SIGN = 46,
    VGC_FN_SQRT = 47,
    VGC_FN_RECIPROCAL = 48,
    VGC_FN_EXP = 49,
    VGC_FN_LOG = 50,
    VGC_FN_SIN = 51,
    VGC_FN_COS = 52,
    VGC_FN_TANH = 53,
    VGC_FN_FLOOR = 54,
    VGC_FN_CEIL = 55,
    VGC_FN_RINT = 56,
    VGC_FN_TRUNC = 57,
    VGC_FN_CONVERT = 58,
    VGC_FN_WHERE = 59,
    VGC_FN_NONZERO = 60,
    VGC_FN_TAKE = 61,
    VGC_FN_COMPLEX_ADD = 62,
    VGC_FN_COMPLEX_SUBTRACT = 63,
    VGC_FN_COMPLEX_MULTIPLY = 64,
    VGC_FN_COMPLEX_DIVIDE = 65,
    VGC_FN_COMPLEX_EQUAL = 66,
    VGC_FN_COMPLEX_NOT_EQUAL = 67,
    VGC_FN_COMPLEX_NEGATIVE = 68,
    VGC_FN_COMPLEX_CONJUGATE = 69,
    VGC_FN_COMPLEX_ABSOLUTE = 70,
    VGC_FN_COMPLEX_ANGLE = 71,
    VGC_FN_COMPLEX_JOIN = 72,
    /* Of NVIDIA's libraries, where the host has them; `type` says nothing of these. */
    VGC_FN_CUBLAS_GEMM = 73,
    VGC_FN_CUDNN_FORWARD = 74,
    VGC_FN_CUDNN_BACKWARD_DATA = 75,
    VGC_FN_CUDNN_BACKWARD_FILTER = 76,
    VGC_FN_CUDNN_NORMALIZE_TRAINING = 77,
    VGC_FN_CUDNN_NORMALIZE = 78,
    VGC_FN_CUDNN_NORMALIZE_BACKWARD = 79,
    VGC_FN_CUFFT_TRANSFORM = 80,
    VGC_NUM_FUNCTIONS = 81,
};

/* Purpose of a parameter: a value, or the address of memory that is read, written, or both. */
enum vgc_builtin_use {
    VGC_USE_VALUE = 0,
    VGC_USE_IN = 1,
    VGC_USE_OUT = 2,
    VGC_USE_INOUT = 3,
};

enum {
    VGC_BUILTIN_RANGES = 8,     /* most ranges of memory that a call accesses */
    VGC_BUILTIN_WHY = 256,      /* bytes of a text that says why a call is refused, with its zero */
    VGC_BUILTIN_PARAMS = 56,    /* most parameters of a function */
    VGC_BUILTIN_BLOCK = 384,    /* most bytes of a parameter block */
    VGC_BUILTIN_AXES = 1 << 22, /* longest axis of a Fourier transform */
    VGC_BUILTIN_RANK = 4,       /* axes of arrays with strides */
};

/* Most elements along one axis, and the longest stride. */
#define VGC_BUILTIN_LONGEST (INT64_C(1) << 40)

struct vgc_builtin_param {
    const char *name;
    uint32_t offset; /* in the parameter block, which is laid out as that of a kernel */
    uint32_t size;
    uint32_t kind; /* enum vgc_param_kind of the wire format */
    uint32_t use;  /* enum vgc_builtin_use */
    const char *meaning;
};

/* Memory that a call accesses: nothing outside of it is read or written. */
struct vgc_builtin_range {
    uint64_t address;
    uint64_t bytes;
    uint32_t param; /* index of the parameter that points there; its use says how it is accessed */
};

struct vgc_builtin_need {
    struct vgc_builtin_range ranges[VGC_BUILTIN_RANGES];
    uint32_t num_ranges;
};

struct vgc_builtin {
    const char *name; /* with a dot, so that no function of a program has it: "blas.gemm_f32" */
    const char *summary;
    const char *numpy;     /* an expression with the same result */
    const char *limits;    /* beyond those that all functions share; NULL: none */
    const char *tolerance; /* largest difference from the exact result, in words */
    uint32_t function;     /* enum vgc_builtin_function */
    uint32_t type;         /* enum vgc_builtin_type */
    const struct vgc_builtin_param *params;
    uint32_t num_params;
    uint32_t param_bytes; /* size of the parameter block */
    int (*check)(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why);
};

/* Functions that belong together, in the order of the documentation. */
struct vgc_builtin_group {
    const char *name; /* what stands before the dot */
    const char *summary;
    const struct vgc_builtin *builtins;
    uint32_t num_builtins;
};

/* Groups from 0 up; NULL behind the last one. */
const struct vgc_builtin_group *vgc_builtin_group_at(uint32_t index);

/* Functions of all groups from 0 up; NULL behind the last one. */
const struct vgc_builtin *vgc_builtin_at(uint32_t index);

/* Functions that a library of the host's computes, and nothing else: engines have them where they use that library.
 * From 0 up; NULL behind the last one. */
const struct vgc_builtin *vgc_library_function_at(uint32_t index);

/* Whether a function is one of those. */
bool vgc_is_library_function(const struct vgc_builtin *builtin);

/* The function of this name, which need not end with a zero; NULL: no function has it. */
const struct vgc_builtin *vgc_builtin_named(const char *name, size_t len);

/* Checks a call. `params` are `param_bytes` bytes at a multiple of eight that nobody else writes meanwhile; their
 * values may be anything. Fills in all memory that the call accesses: the caller sees to it that the VM has it. 0, or
 * -EINVAL with a text in `why` (VGC_BUILTIN_WHY bytes), which names what is wrong and what is allowed. */
int vgc_builtin_check(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why);

/* Bytes of an element. */
uint32_t vgc_builtin_type_bytes(uint32_t type);

/* Bytes of the parts in which items of `bytes` bytes, 1 or more, are copied: 8, 4, 2 or 1. */
uint32_t vgc_builtin_unit(int64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
