/* A thin cuDNN 9: descriptors are kept in the guest, and what executes is one function of the host's cuDNN, by name.
 *
 * Numbers are cuDNN's. A graph has one operation: a convolution, or one of its two gradients. */
#ifndef VGC_CUDNN_DNN_H
#define VGC_CUDNN_DNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef enum {
    DNN_SUCCESS = 0,
    DNN_NOT_INITIALIZED = 1001,
    DNN_BAD_PARAM = 2000,
    DNN_NULL_POINTER = 2002,
    DNN_NOT_FINALIZED = 2004,
    DNN_SHAPE_MISMATCH = 2008,
    DNN_ATTRIBUTE_TYPE = 2010,
    DNN_DESCRIPTOR_TYPE = 2012,
    DNN_NOT_SUPPORTED = 3000,
    DNN_GRAPH_PATTERN = 3001,
    DNN_SHAPE = 3002,
    DNN_DATA_TYPE = 3003,
    DNN_LAYOUT = 3004,
    DNN_PADDING = 3011,
    DNN_ALLOCATION_FAILED = 4003,
    DNN_EXECUTION_FAILED = 5000,
} dnn_status;

enum { DNN_FLOAT = 0, DNN_DOUBLE = 1, DNN_HALF = 2, DNN_BFLOAT16 = 9 };
enum { DNN_CROSS_CORRELATION = 1, DNN_NCHW = 0, DNN_NHWC = 1, DNN_DEFAULT_MATH = 0, DNN_FMA_MATH = 3 };

/* ---- runtime.c: libcudart, which the process has ------------------------------------------------------------------
 */

struct dnn_dimensions {
    unsigned x, y, z;
};

struct dnn_runtime {
    int (*find)(const char *name, const void **function);
    int (*launch)(const void *function, struct dnn_dimensions grid, struct dnn_dimensions block, void **arguments,
                  size_t shared, void *stream);
};

/* NULL: the process has no libcudart of this toolkit's. */
const struct dnn_runtime *dnn_runtime(void);

/* ---- handles.c -----------------------------------------------------------------------------------------------------
 */

struct dnn_handle {
    uint32_t magic;
    void *stream;
};

bool dnn_is_handle(const struct dnn_handle *handle);

/* Keeps a text for cudnnGetLastErrorString(), and returns the status. */
dnn_status dnn_fail(dnn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- convolutions.c -----------------------------------------------------------------------------------------------
 */

enum { DNN_AXES = 5, DNN_SPACE = 3 };
enum dnn_operation { DNN_FORWARD, DNN_BACKWARD_DATA, DNN_BACKWARD_FILTER };

/* Parameters of the host's functions, in their order (vhost_backend/builtins/vgc_builtin_params.h). */
struct dnn_convolution {
    const void *x, *w, *y;
    double alpha, beta;
    int32_t axes, type, compute, math, w_channels_last, deterministic;
    int32_t x_size[DNN_AXES], w_size[DNN_AXES], y_size[DNN_AXES], x_stride[DNN_AXES], y_stride[DNN_AXES];
    int32_t pad[DNN_SPACE], stride[DNN_SPACE], dilation[DNN_SPACE];
    int64_t groups;
};

/* The filters' layout, by their strides; groups follow from the sizes. Whether the host can be asked. */
dnn_status dnn_complete(enum dnn_operation operation, struct dnn_convolution *convolution, const int64_t *w_stride);
/* The host's function of that name; NULL: it has none, which is told once. */
const void *dnn_function(const char *name);
/* Has the host's cuDNN execute it in a stream. */
dnn_status dnn_execute(void *stream, enum dnn_operation operation, struct dnn_convolution *convolution);

/* ---- legacy.c ------------------------------------------------------------------------------------------------------
 */

enum { DNN_MOST_AXES = 8 };

struct dnn_tensor {
    int type, axes, size[DNN_MOST_AXES], stride[DNN_MOST_AXES];
};

/* ---- descriptors.c: backend descriptors, as lists of attributes ---------------------------------------------------
 */

enum dnn_type {
    DNN_CONVOLUTION = 1,
    DNN_ENGINE = 2,
    DNN_ENGINE_CONFIG = 3,
    DNN_HEURISTICS = 4,
    DNN_PLAN = 5,
    DNN_OPERATION_FORWARD = 10,
    DNN_OPERATION_BACKWARD_FILTER = 11,
    DNN_OPERATION_BACKWARD_DATA = 12,
    DNN_GRAPH = 15,
    DNN_VARIANT_PACK = 16,
    DNN_TENSOR = 17,
    DNN_MOST_TYPE = 50,
};

enum dnn_attribute_type {
    DNN_A_HANDLE = 0,
    DNN_A_DATA_TYPE = 1,
    DNN_A_BOOLEAN = 2,
    DNN_A_INT64 = 3,
    DNN_A_FLOAT = 4,
    DNN_A_DOUBLE = 5,
    DNN_A_POINTER = 6,
    DNN_A_CONVOLUTION_MODE = 7,
    DNN_A_HEURISTICS_MODE = 8,
    DNN_A_NUMERICAL_NOTE = 11,
    DNN_A_DESCRIPTOR = 15,
    DNN_A_CHAR = 24,
    DNN_A_FRACTION = 26,
};

enum dnn_attribute_name {
    DNN_CONVOLUTION_COMPUTE = 100,
    DNN_CONVOLUTION_MODE = 101,
    DNN_CONVOLUTION_DILATIONS = 102,
    DNN_CONVOLUTION_STRIDES = 103,
    DNN_CONVOLUTION_POST_PADDINGS = 104,
    DNN_CONVOLUTION_PRE_PADDINGS = 105,
    DNN_HEURISTICS_MODE = 200,
    DNN_HEURISTICS_GRAPH = 201,
    DNN_HEURISTICS_RESULTS = 202,
    DNN_CONFIG_ENGINE = 300,
    DNN_PLAN_CONFIG = 401,
    DNN_PLAN_WORKSPACE = 402,
    DNN_FORWARD_FIRST = 700,         /* alpha, beta, convolution, w, x, y */
    DNN_BACKWARD_DATA_FIRST = 706,   /* alpha, beta, convolution, w, x, y */
    DNN_BACKWARD_FILTER_FIRST = 712, /* alpha, beta, convolution, w, x, y */
    DNN_GRAPH_OPERATIONS = 801,
    DNN_GRAPH_ENGINES = 802,
    DNN_TENSOR_TYPE = 901,
    DNN_TENSOR_SIZES = 902,
    DNN_TENSOR_STRIDES = 903,
    DNN_TENSOR_VECTOR = 904,
    DNN_TENSOR_ID = 906,
    DNN_PACK_IDS = 1000,
    DNN_PACK_POINTERS = 1001,
    DNN_ENGINE_GRAPH = 1300,
    DNN_ENGINE_INDEX = 1301,
    DNN_ENGINE_NOTES = 1303,
};

struct dnn_attribute {
    int name, type;
    int64_t count;
    void *values; /* descriptors among them are held */
};

struct dnn_descriptor {
    uint32_t magic;
    int type;
    int users;
    bool is_final;
    struct dnn_attribute *attributes;
    size_t num_attributes;
};

struct dnn_descriptor *dnn_new(int type);
void dnn_hold(struct dnn_descriptor *one);
void dnn_drop(struct dnn_descriptor *one);
bool dnn_is_descriptor(const struct dnn_descriptor *one);
/* Sets an attribute, whether the descriptor is final or not. */
dnn_status dnn_set(struct dnn_descriptor *one, int name, int type, int64_t count, const void *values);
/* An attribute of that type with at least `count` elements; NULL: it is not set so. */
const void *dnn_get(const struct dnn_descriptor *one, int name, int type, int64_t count);
int64_t dnn_count(const struct dnn_descriptor *one, int name);
/* A descriptor that is an attribute, final, and of that type; NULL otherwise. */
struct dnn_descriptor *dnn_part(const struct dnn_descriptor *one, int name, int type);

/* ---- graphs.c: what descriptors mean ------------------------------------------------------------------------------
 */

/* Checks a descriptor, and adds what follows from it. */
dnn_status dnn_finalize(struct dnn_descriptor *one);
/* The only operation of a plan's graph, with the rules of its engine; places of x, w and y by their numbers. */
dnn_status dnn_convolution_of(const struct dnn_descriptor *plan, enum dnn_operation *operation,
                              struct dnn_convolution *convolution, int64_t ids[3]);

#endif
