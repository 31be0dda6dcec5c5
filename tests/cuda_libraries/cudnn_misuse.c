/* Descriptors of cuDNN's that make no sense: they are refused, whatever is done with them. This program is the CUDA
 * runtime, too: libcudnn.so.9 asks it for the host's functions, and has it launch them. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "../cudart/condition.h"

enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_FINALIZED = 2004, SHAPE_MISMATCH = 2008, LAYOUT = 3004 };
enum { CONVOLUTION = 1, ENGINE = 2, CONFIG = 3, PLAN = 5, FORWARD = 10, GRAPH = 15, PACK = 16, TENSOR = 17 };
enum { DATA_TYPE = 1, INT64 = 3, POINTER = 6, MODE = 7, DESCRIPTOR = 15 };
enum { AXES = 4, UNKNOWN = 9999 };

typedef struct descriptor *descriptor;
int cudnnCreate(void **handle);
int cudnnDestroy(void *handle);
int cudnnBackendCreateDescriptor(int type, descriptor *made);
int cudnnBackendDestroyDescriptor(descriptor one);
int cudnnBackendSetAttribute(descriptor one, int name, int type, int64_t count, const void *values);
int cudnnBackendGetAttribute(descriptor one, int name, int type, int64_t wanted, int64_t *count, void *values);
int cudnnBackendFinalize(descriptor one);
int cudnnBackendExecute(void *handle, descriptor plan, descriptor pack);
int cudnnCreateConvolutionDescriptor(void **made);
int cudnnDestroyConvolutionDescriptor(void *one);
int cudnnSetConvolutionNdDescriptor(void *one, int space, const int *pad, const int *stride, const int *dilation,
                                    int mode, int compute);

/* ---- the runtime --------------------------------------------------------------------------------------------------
 */

struct dimensions {
    unsigned x, y, z;
};
int __cudaVgcFunction(const char *name, const void **function);
int cudaLaunchKernel(const void *function, struct dimensions grid, struct dimensions block, void **arguments,
                     size_t shared, void *stream);

static int launches;

int __cudaVgcFunction(const char *name, const void **function)
{
    *function = name;
    return 0;
}

int cudaLaunchKernel(const void *function, struct dimensions grid, struct dimensions block, void **arguments,
                     size_t shared, void *stream)
{
    (void)function, (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
    launches++;
    return 0;
}

/* ---- descriptors --------------------------------------------------------------------------------------------------
 */

static descriptor made(int type)
{
    descriptor one;
    CHECK(cudnnBackendCreateDescriptor(type, &one) == SUCCESS);
    return one;
}

static void set(descriptor one, int name, int type, int64_t count, const void *values)
{
    CHECK(cudnnBackendSetAttribute(one, name, type, count, values) == SUCCESS);
}

static void have(descriptor one, int name, descriptor part)
{
    set(one, name, DESCRIPTOR, 1, &part);
}

static descriptor finished(descriptor one)
{
    CHECK(cudnnBackendFinalize(one) == SUCCESS);
    return one;
}

static descriptor tensor(int64_t number, const int64_t *sizes, const int64_t *strides)
{
    const int type = 0;
    descriptor one = made(TENSOR);
    set(one, 901, DATA_TYPE, 1, &type);
    set(one, 902, INT64, AXES, sizes);
    set(one, 903, INT64, AXES, strides);
    set(one, 906, INT64, 1, &number);
    return one;
}

static descriptor convolution(void)
{
    const int type = 0, mode = 1;
    const int64_t ones[] = {1, 1}, zeros[] = {0, 0};
    descriptor one = made(CONVOLUTION);
    set(one, 100, DATA_TYPE, 1, &type);
    set(one, 101, MODE, 1, &mode);
    set(one, 102, INT64, 2, ones);
    set(one, 103, INT64, 2, ones);
    set(one, 104, INT64, 2, zeros);
    set(one, 105, INT64, 2, zeros);
    return finished(one);
}

static const int64_t X[] = {1, 2, 5, 5}, X_STRIDES[] = {50, 25, 5, 1};
static const int64_t W[] = {3, 2, 3, 3}, W_STRIDES[] = {18, 9, 3, 1};
static const int64_t Y[] = {1, 3, 3, 3}, Y_STRIDES[] = {27, 9, 3, 1};

static descriptor forward(descriptor w)
{
    descriptor one = made(FORWARD);
    have(one, 702, convolution());
    have(one, 703, w);
    have(one, 704, finished(tensor(1, X, X_STRIDES)));
    have(one, 705, finished(tensor(3, Y, Y_STRIDES)));
    return finished(one);
}

static descriptor graph(descriptor operation)
{
    descriptor one = made(GRAPH);
    have(one, 801, operation);
    return one;
}

static descriptor engine(descriptor of)
{
    const int64_t index = 0;
    descriptor one = made(ENGINE);
    have(one, 1300, of);
    set(one, 1301, INT64, 1, &index);
    return one;
}

static descriptor with(int type, int name, descriptor part)
{
    descriptor one = made(type);
    have(one, name, part);
    return finished(one);
}

static descriptor pack(void)
{
    const int64_t ids[] = {1, 2, 3};
    const uintptr_t addresses[] = {0x1000, 0x2000, 0x3000};
    descriptor one = made(PACK);
    set(one, 1000, INT64, 3, ids);
    set(one, 1001, POINTER, 3, addresses);
    return finished(one);
}

/* Has cuDNN write a descriptor that is not final over one that is. */
static void overwrite(descriptor one, int type)
{
    descriptor other = with(FORWARD, UNKNOWN, made(type));
    int64_t count;
    CHECK(cudnnBackendGetAttribute(other, UNKNOWN, DESCRIPTOR, 1, &count, &one) == SUCCESS);
}

/* ---- cases --------------------------------------------------------------------------------------------------------
 */

static void check_sizes(void)
{
    static const int64_t WRONG[] = {0, -1, INT_MIN, INT64_MIN};
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++)
        for (int axis = 0; axis < AXES; axis++) {
            int64_t sizes[] = {1, 2, 5, 5};
            sizes[axis] = WRONG[i];
            CHECK(cudnnBackendFinalize(tensor(1, sizes, X_STRIDES)) == BAD_PARAM);
        }
}

static void check_filters(void)
{
    const int64_t sizes[] = {INT_MAX, 2, INT_MAX, INT_MAX}; /* whose product no number holds */
    const int64_t strides[] = {0, (int64_t)INT_MAX * INT_MAX, INT_MAX, 1};
    const int64_t channels[] = {3, INT_MAX, 3, 3};
    CHECK(cudnnBackendFinalize(graph(forward(finished(tensor(2, sizes, strides))))) == LAYOUT);
    CHECK(cudnnBackendFinalize(graph(forward(finished(tensor(2, channels, W_STRIDES))))) == SHAPE_MISMATCH);
}

static void check_plans(void *handle)
{
    const descriptor operation = forward(finished(tensor(2, W, W_STRIDES))), own = finished(graph(operation));
    const descriptor config = with(CONFIG, 300, finished(engine(own))), plan = with(PLAN, 401, config);
    CHECK(cudnnBackendExecute(handle, plan, pack()) == SUCCESS && launches == 1);
    overwrite(operation, FORWARD);
    CHECK(cudnnBackendExecute(handle, plan, pack()) == NOT_FINALIZED);
    CHECK(cudnnBackendFinalize(engine(own)) == BAD_PARAM);
    overwrite(config, CONFIG);
    CHECK(cudnnBackendExecute(handle, plan, pack()) == NOT_FINALIZED && launches == 1);
}

static void check_older(void)
{
    void *one;
    const int good[] = {1, 1}, none[] = {0, 0}, wrong[] = {1, -1};
    CHECK(cudnnCreateConvolutionDescriptor(&one) == SUCCESS);
    CHECK(cudnnSetConvolutionNdDescriptor(one, 2, none, good, good, 1, 0) == SUCCESS);
    CHECK(cudnnSetConvolutionNdDescriptor(one, 2, wrong, good, good, 1, 0) == BAD_PARAM);
    CHECK(cudnnSetConvolutionNdDescriptor(one, 2, none, none, good, 1, 0) == BAD_PARAM);
    CHECK(cudnnSetConvolutionNdDescriptor(one, 2, none, good, none, 1, 0) == BAD_PARAM);
    CHECK(cudnnSetConvolutionNdDescriptor(one, 2, NULL, good, good, 1, 0) == BAD_PARAM);
    CHECK(cudnnSetConvolutionNdDescriptor(one, 4, none, good, good, 1, 0) == BAD_PARAM);
    CHECK(cudnnDestroyConvolutionDescriptor(one) == SUCCESS);
}

int main(void)
{
    void *handle;
    CHECK(cudnnCreate(&handle) == SUCCESS);
    check_sizes();
    check_filters();
    check_plans(handle);
    check_older();
    CHECK(cudnnDestroy(handle) == SUCCESS);
    puts("PASS");
    return 0;
}
