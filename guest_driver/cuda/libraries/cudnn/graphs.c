/* Meaning of backend descriptors: operations, engines, plans and their execution.
 *
 * There are four engines, which tell the host's cuDNN which of its algorithms it may take: any, those without tensor
 * cores, and both again as far as they are deterministic. */
#include <limits.h>

#include "dnn.h"

enum { ENGINES = 4, EXACT = 1, DETERMINISTIC = 2, FALLBACK = 2 };
enum { ALPHA, BETA, CONVOLUTION, W, X, Y }; /* attributes of an operation, from its first one on */
enum { NOTE_TENSOR_CORE = 0, NOTE_NONDETERMINISTIC = 4, MOST_NOTES = 2 };

/* ---- operations ---------------------------------------------------------------------------------------------------
 */

static bool find_operation(const struct dnn_descriptor *operation, enum dnn_operation *which, int *first)
{
    switch (operation->type) {
    case DNN_OPERATION_FORWARD:
        *which = DNN_FORWARD;
        *first = DNN_FORWARD_FIRST;
        return true;
    case DNN_OPERATION_BACKWARD_DATA:
        *which = DNN_BACKWARD_DATA;
        *first = DNN_BACKWARD_DATA_FIRST;
        return true;
    case DNN_OPERATION_BACKWARD_FILTER:
        *which = DNN_BACKWARD_FILTER;
        *first = DNN_BACKWARD_FILTER_FIRST;
        return true;
    default:
        return false;
    }
}

/* Numbers of 64 bits of which the host takes 32. */
static bool narrow(const int64_t *from, int count, int32_t *to)
{
    for (int i = 0; i < count; i++) {
        if (from[i] < INT32_MIN || from[i] > INT32_MAX)
            return false;
        to[i] = (int32_t)from[i];
    }
    return true;
}

/* Sizes and strides of a tensor; false: there is no such tensor, or it has other axes than the operation. */
static bool take_tensor(const struct dnn_descriptor *tensor, int axes, int32_t *size, const int64_t **stride)
{
    const int64_t *sizes = tensor != NULL ? dnn_get(tensor, DNN_TENSOR_SIZES, DNN_A_INT64, axes) : NULL;
    *stride = tensor != NULL ? dnn_get(tensor, DNN_TENSOR_STRIDES, DNN_A_INT64, axes) : NULL;
    return sizes != NULL && *stride != NULL && dnn_count(tensor, DNN_TENSOR_SIZES) == axes && narrow(sizes, axes, size);
}

static double factor_of(const struct dnn_descriptor *operation, int name, double otherwise)
{
    const float *single = dnn_get(operation, name, DNN_A_FLOAT, 1);
    const double *wide = dnn_get(operation, name, DNN_A_DOUBLE, 1);
    return single != NULL ? (double)*single : wide != NULL ? *wide : otherwise;
}

static dnn_status take_space(const struct dnn_descriptor *of, struct dnn_convolution *p)
{
    const int space = p->axes - 2;
    const int64_t *pad = dnn_get(of, DNN_CONVOLUTION_PRE_PADDINGS, DNN_A_INT64, space);
    const int64_t *behind = dnn_get(of, DNN_CONVOLUTION_POST_PADDINGS, DNN_A_INT64, space);
    const int64_t *stride = dnn_get(of, DNN_CONVOLUTION_STRIDES, DNN_A_INT64, space);
    const int64_t *dilation = dnn_get(of, DNN_CONVOLUTION_DILATIONS, DNN_A_INT64, space);
    if (pad == NULL || behind == NULL || stride == NULL || dilation == NULL)
        return dnn_fail(DNN_BAD_PARAM, "a convolution without paddings, strides or dilations for %d axes", space);
    for (int i = 0; i < space; i++)
        if (pad[i] != behind[i])
            return dnn_fail(DNN_PADDING, "%lld zeros on one side, %lld on the other", (long long)pad[i],
                            (long long)behind[i]);
    if (!narrow(pad, space, p->pad) || !narrow(stride, space, p->stride) || !narrow(dilation, space, p->dilation))
        return dnn_fail(DNN_SHAPE, "a padding, stride or dilation is out of range");
    for (int i = space; i < DNN_SPACE; i++)
        p->stride[i] = p->dilation[i] = 1;
    return DNN_SUCCESS;
}

/* Reads an operation. ids: numbers of x, w and y. */
static dnn_status read_operation(const struct dnn_descriptor *operation, enum dnn_operation *which,
                                 struct dnn_convolution *p, int64_t ids[3])
{
    int first = 0;
    *p = (struct dnn_convolution){.axes = 0};
    if (!find_operation(operation, which, &first))
        return dnn_fail(DNN_GRAPH_PATTERN, "an operation of type %d; there are convolutions and their gradients",
                        operation->type);
    const struct dnn_descriptor *of = dnn_part(operation, first + CONVOLUTION, DNN_CONVOLUTION);
    const struct dnn_descriptor *tensors[] = {dnn_part(operation, first + X, DNN_TENSOR),
                                              dnn_part(operation, first + W, DNN_TENSOR),
                                              dnn_part(operation, first + Y, DNN_TENSOR)};
    if (of == NULL || tensors[0] == NULL || tensors[1] == NULL || tensors[2] == NULL)
        return dnn_fail(DNN_BAD_PARAM, "an operation without its convolution or tensors");
    const int64_t axes = dnn_count(tensors[0], DNN_TENSOR_SIZES);
    if (axes != DNN_AXES && axes != DNN_AXES - 1)
        return dnn_fail(DNN_SHAPE, "tensors of %lld axes; there are convolutions of 4 and 5", (long long)axes);
    p->axes = (int32_t)axes;
    const int64_t *strides[3];
    int32_t *const sizes[] = {p->x_size, p->w_size, p->y_size};
    for (int i = 0; i < 3; i++) {
        if (!take_tensor(tensors[i], p->axes, sizes[i], &strides[i]))
            return dnn_fail(DNN_SHAPE_MISMATCH, "tensors of different axes, or out of range");
        const int32_t *type = dnn_get(tensors[i], DNN_TENSOR_TYPE, DNN_A_DATA_TYPE, 1);
        if (i > 0 && *type != p->type)
            return dnn_fail(DNN_DATA_TYPE, "tensors of different types");
        p->type = *type;
        ids[i] = *(const int64_t *)dnn_get(tensors[i], DNN_TENSOR_ID, DNN_A_INT64, 1);
    }
    if (!narrow(strides[0], p->axes, p->x_stride) || !narrow(strides[2], p->axes, p->y_stride))
        return dnn_fail(DNN_SHAPE, "a stride is out of range");
    p->compute = *(const int32_t *)dnn_get(of, DNN_CONVOLUTION_COMPUTE, DNN_A_DATA_TYPE, 1);
    p->alpha = factor_of(operation, first + ALPHA, 1);
    p->beta = factor_of(operation, first + BETA, 0);
    dnn_status failed = take_space(of, p);
    return failed != DNN_SUCCESS ? failed : dnn_complete(*which, p, strides[1]);
}

/* NULL: the graph has none, or one that is not final, as a program has had it overwritten since. */
static const struct dnn_descriptor *operation_of(const struct dnn_descriptor *graph)
{
    struct dnn_descriptor *const *operations = dnn_get(graph, DNN_GRAPH_OPERATIONS, DNN_A_DESCRIPTOR, 1);
    return operations != NULL && operations[0]->is_final ? operations[0] : NULL;
}

/* ---- descriptors become final -------------------------------------------------------------------------------------
 */

static dnn_status finalize_tensor(const struct dnn_descriptor *one)
{
    const int64_t axes = dnn_count(one, DNN_TENSOR_SIZES);
    const int64_t *sizes = dnn_get(one, DNN_TENSOR_SIZES, DNN_A_INT64, 1);
    const int64_t *vector = dnn_get(one, DNN_TENSOR_VECTOR, DNN_A_INT64, 1);
    if (sizes == NULL || dnn_get(one, DNN_TENSOR_STRIDES, DNN_A_INT64, axes) == NULL ||
        dnn_get(one, DNN_TENSOR_TYPE, DNN_A_DATA_TYPE, 1) == NULL ||
        dnn_get(one, DNN_TENSOR_ID, DNN_A_INT64, 1) == NULL)
        return dnn_fail(DNN_BAD_PARAM, "a tensor without sizes, strides, type or number");
    for (int64_t i = 0; i < axes; i++)
        if (sizes[i] < 1)
            return dnn_fail(DNN_BAD_PARAM, "a tensor of %lld elements along an axis", (long long)sizes[i]);
    return vector == NULL || *vector == 1 ? DNN_SUCCESS : dnn_fail(DNN_LAYOUT, "tensors of vectors");
}

static dnn_status finalize_convolution(const struct dnn_descriptor *one)
{
    const int32_t *mode = dnn_get(one, DNN_CONVOLUTION_MODE, DNN_A_CONVOLUTION_MODE, 1);
    if (mode == NULL || dnn_get(one, DNN_CONVOLUTION_COMPUTE, DNN_A_DATA_TYPE, 1) == NULL)
        return dnn_fail(DNN_BAD_PARAM, "a convolution without mode or type of sums");
    return *mode == DNN_CROSS_CORRELATION ? DNN_SUCCESS
                                          : dnn_fail(DNN_NOT_SUPPORTED, "convolutions with mirrored filters");
}

static dnn_status finalize_graph(struct dnn_descriptor *one)
{
    const int64_t engines = ENGINES;
    struct dnn_convolution convolution;
    enum dnn_operation which;
    int64_t ids[3];
    if (dnn_count(one, DNN_GRAPH_OPERATIONS) != 1 || operation_of(one) == NULL)
        return dnn_fail(DNN_GRAPH_PATTERN, "a graph of %lld operations; graphs have one here",
                        (long long)dnn_count(one, DNN_GRAPH_OPERATIONS));
    dnn_status failed = read_operation(operation_of(one), &which, &convolution, ids);
    return failed != DNN_SUCCESS ? failed : dnn_set(one, DNN_GRAPH_ENGINES, DNN_A_INT64, 1, &engines);
}

static dnn_status finalize_engine(struct dnn_descriptor *one)
{
    const struct dnn_descriptor *graph = dnn_part(one, DNN_ENGINE_GRAPH, DNN_GRAPH);
    const int64_t *index = dnn_get(one, DNN_ENGINE_INDEX, DNN_A_INT64, 1);
    int32_t notes[MOST_NOTES];
    int64_t count = 0;
    const struct dnn_descriptor *operation = operation_of(graph);
    if (operation == NULL || index == NULL || *index < 0 || *index >= ENGINES)
        return dnn_fail(DNN_BAD_PARAM, "an engine without graph, or with a number that is not 0 to 3");
    if ((*index & EXACT) == 0)
        notes[count++] = NOTE_TENSOR_CORE;
    if ((*index & DETERMINISTIC) == 0 && operation->type != DNN_OPERATION_FORWARD)
        notes[count++] = NOTE_NONDETERMINISTIC;
    return dnn_set(one, DNN_ENGINE_NOTES, DNN_A_NUMERICAL_NOTE, count, notes);
}

/* A configuration of an engine, both final; NULL: no memory. */
static struct dnn_descriptor *config_of(struct dnn_descriptor *graph, int64_t index)
{
    struct dnn_descriptor *engine = dnn_new(DNN_ENGINE), *config = dnn_new(DNN_ENGINE_CONFIG);
    const bool is_made = engine != NULL && config != NULL &&
                         dnn_set(engine, DNN_ENGINE_GRAPH, DNN_A_DESCRIPTOR, 1, &graph) == DNN_SUCCESS &&
                         dnn_set(engine, DNN_ENGINE_INDEX, DNN_A_INT64, 1, &index) == DNN_SUCCESS &&
                         finalize_engine(engine) == DNN_SUCCESS &&
                         dnn_set(config, DNN_CONFIG_ENGINE, DNN_A_DESCRIPTOR, 1, &engine) == DNN_SUCCESS;
    if (engine != NULL) {
        engine->is_final = true;
        dnn_drop(engine);
    }
    if (config != NULL && !is_made)
        dnn_drop(config);
    if (!is_made)
        return NULL;
    config->is_final = true;
    return config;
}

static dnn_status finalize_heuristics(struct dnn_descriptor *one)
{
    static const int64_t FASTEST[ENGINES] = {0, DETERMINISTIC, EXACT, EXACT | DETERMINISTIC};
    static const int64_t SAFEST[ENGINES] = {EXACT | DETERMINISTIC, EXACT, DETERMINISTIC, 0};
    struct dnn_descriptor *graph = dnn_part(one, DNN_HEURISTICS_GRAPH, DNN_GRAPH), *configs[ENGINES];
    const int32_t *mode = dnn_get(one, DNN_HEURISTICS_MODE, DNN_A_HEURISTICS_MODE, 1);
    const int64_t *order = mode != NULL && *mode == FALLBACK ? SAFEST : FASTEST;
    int64_t count = 0;
    if (graph == NULL)
        return dnn_fail(DNN_BAD_PARAM, "heuristics without a graph");
    while (count < ENGINES && (configs[count] = config_of(graph, order[count])) != NULL)
        count++;
    dnn_status failed = count == ENGINES ? dnn_set(one, DNN_HEURISTICS_RESULTS, DNN_A_DESCRIPTOR, count, configs)
                                         : dnn_fail(DNN_ALLOCATION_FAILED, "no memory for descriptors");
    while (count > 0)
        dnn_drop(configs[--count]);
    return failed;
}

static dnn_status finalize_plan(struct dnn_descriptor *one)
{
    const int64_t workspace = 0; /* the host takes what it needs, from the VM's quota */
    if (dnn_part(one, DNN_PLAN_CONFIG, DNN_ENGINE_CONFIG) == NULL)
        return dnn_fail(DNN_BAD_PARAM, "a plan without the configuration of an engine");
    return dnn_set(one, DNN_PLAN_WORKSPACE, DNN_A_INT64, 1, &workspace);
}

dnn_status dnn_finalize(struct dnn_descriptor *one)
{
    switch (one->type) {
    case DNN_TENSOR:
        return finalize_tensor(one);
    case DNN_CONVOLUTION:
        return finalize_convolution(one);
    case DNN_OPERATION_FORWARD:
    case DNN_OPERATION_BACKWARD_DATA:
    case DNN_OPERATION_BACKWARD_FILTER: /* read with their graph */
        return DNN_SUCCESS;
    case DNN_GRAPH:
        return finalize_graph(one);
    case DNN_ENGINE:
        return finalize_engine(one);
    case DNN_ENGINE_CONFIG:
        return dnn_part(one, DNN_CONFIG_ENGINE, DNN_ENGINE) != NULL
                   ? DNN_SUCCESS
                   : dnn_fail(DNN_BAD_PARAM, "a configuration without an engine");
    case DNN_HEURISTICS:
        return finalize_heuristics(one);
    case DNN_PLAN:
        return finalize_plan(one);
    case DNN_VARIANT_PACK:
        return dnn_count(one, DNN_PACK_IDS) == dnn_count(one, DNN_PACK_POINTERS)
                   ? DNN_SUCCESS
                   : dnn_fail(DNN_BAD_PARAM, "as many numbers of tensors as addresses are needed");
    default:
        return dnn_fail(DNN_NOT_SUPPORTED, "descriptors of type %d: there are convolutions alone here", one->type);
    }
}

/* ---- execution ----------------------------------------------------------------------------------------------------
 */

dnn_status dnn_convolution_of(const struct dnn_descriptor *plan, enum dnn_operation *operation,
                              struct dnn_convolution *convolution, int64_t ids[3])
{
    const struct dnn_descriptor *config = dnn_part(plan, DNN_PLAN_CONFIG, DNN_ENGINE_CONFIG);
    const struct dnn_descriptor *engine = dnn_part(config, DNN_CONFIG_ENGINE, DNN_ENGINE);
    const int64_t *index = dnn_get(engine, DNN_ENGINE_INDEX, DNN_A_INT64, 1);
    const struct dnn_descriptor *own = operation_of(dnn_part(engine, DNN_ENGINE_GRAPH, DNN_GRAPH));
    if (own == NULL || index == NULL)
        return dnn_fail(DNN_NOT_FINALIZED, "a plan with a part that is not final any more");
    dnn_status failed = read_operation(own, operation, convolution, ids);
    convolution->math = (*index & EXACT) != 0 ? DNN_FMA_MATH : DNN_DEFAULT_MATH;
    convolution->deterministic = (*index & DETERMINISTIC) != 0;
    return failed;
}

/* The address that a pack has for a tensor's number; NULL: none. */
static void *address_of(const struct dnn_descriptor *pack, int64_t id)
{
    const int64_t count = dnn_count(pack, DNN_PACK_IDS);
    const int64_t *ids = dnn_get(pack, DNN_PACK_IDS, DNN_A_INT64, count);
    void *const *addresses = dnn_get(pack, DNN_PACK_POINTERS, DNN_A_POINTER, count);
    for (int64_t i = 0; ids != NULL && addresses != NULL && i < count; i++)
        if (ids[i] == id)
            return addresses[i];
    return NULL;
}

API dnn_status cudnnBackendExecute(struct dnn_handle *handle, struct dnn_descriptor *plan, struct dnn_descriptor *pack);
API dnn_status cudnnBackendExecute(struct dnn_handle *handle, struct dnn_descriptor *plan, struct dnn_descriptor *pack)
{
    struct dnn_convolution convolution;
    enum dnn_operation operation;
    int64_t ids[3];
    if (!dnn_is_handle(handle) || !dnn_is_descriptor(plan) || !dnn_is_descriptor(pack))
        return dnn_fail(DNN_BAD_PARAM, "no handle or descriptor");
    if (plan->type != DNN_PLAN || pack->type != DNN_VARIANT_PACK || !plan->is_final || !pack->is_final)
        return dnn_fail(DNN_NOT_FINALIZED, "no plan and pack that are final");
    dnn_status failed = dnn_convolution_of(plan, &operation, &convolution, ids);
    if (failed != DNN_SUCCESS)
        return failed;
    convolution.x = address_of(pack, ids[0]);
    convolution.w = address_of(pack, ids[1]);
    convolution.y = address_of(pack, ids[2]);
    if (convolution.x == NULL || convolution.w == NULL || convolution.y == NULL)
        return dnn_fail(DNN_BAD_PARAM, "the pack lacks the address of a tensor");
    return dnn_execute(handle->stream, operation, &convolution);
}
