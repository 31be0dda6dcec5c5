/* cuDNN, for the convolutions of a guest that has a thin cuDNN of its own.
 *
 * Guests name sizes, not descriptors: what they send was checked (builtins/libraries.c) and is made into descriptors
 * here. All scratch memory is the call's workspace, within the VM's quota. Plans have an algorithm that cuDNN's
 * heuristics rank first among those that keep to the call's rules; they are descriptors in this process alone. */
#include "cuda_engine.h"

#include "vhost_backend/builtins/vgc_builtins.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)DNN_SUCCESS == 0, "its errors are other numbers");

/* cuDNN's workspace: this part of the VM's quota at most, and as much as large GPUs profit from. */
#define MOST_BYTES (UINT64_C(1) << 30)
enum { PART = 8, MOST_FOUND = 16 };

#define SYMBOL(name, parameters) {#name, offsetof(struct cuda_dnn, name)},
static const struct cuda_symbol SYMBOLS[] = {DNN_FUNCTIONS(SYMBOL)};

/* Libraries that cuDNN loads when it first needs them. Behind the worker's walls it finds those that are loaded. */
static const char *const PARTS[] = {"graph",     "ops", "engines_precompiled", "engines_runtime_compiled",
                                    "heuristic", "cnn"};

static void open_parts(const char *path)
{
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; slash != NULL && i < sizeof(PARTS) / sizeof(*PARTS); i++) {
        char part[PATH_MAX];
        int length = snprintf(part, sizeof(part), "%.*slibcudnn_%s.so.9", (int)(slash + 1 - path), path, PARTS[i]);
        if (length > 0 && (size_t)length < sizeof(part))
            (void)dlopen(part, RTLD_NOW | RTLD_LOCAL); /* one that is missing is cuDNN's to report */
    }
}

void cuda_dnn_open(struct cuda_engine *engine, const struct vgc_cuda_setup *setup, char *why)
{
    char own[VGC_CUDA_WHY] = "";
    if (setup->cudnn == NULL)
        return;
    open_parts(setup->cudnn);
    engine->dnn.library =
        cuda_library_load(setup->cudnn, SYMBOLS, sizeof(SYMBOLS) / sizeof(*SYMBOLS), &engine->dnn, own);
    if (engine->dnn.library == NULL && why[0] == '\0')
        snprintf(why, VGC_CUDA_WHY, "%s", own);
}

drv_result cuda_dnn_start(struct cuda_engine *engine)
{
    struct cuda_dnn *dnn = &engine->dnn;
    if (dnn->library == NULL || dnn->cudnnCreate(&dnn->handle) == DNN_SUCCESS)
        return DRV_SUCCESS;
    dnn->handle = NULL;
    cuda_dnn_close(engine);
    return cuda_library_context_error(engine, engine->alloc_stream);
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static void end_plan(const struct cuda_dnn *dnn, struct cuda_dnn_plan *plan)
{
    if (plan->x != NULL)
        dnn->cudnnDestroyTensorDescriptor(plan->x);
    if (plan->y != NULL)
        dnn->cudnnDestroyTensorDescriptor(plan->y);
    if (plan->w != NULL)
        dnn->cudnnDestroyFilterDescriptor(plan->w);
    if (plan->convolution != NULL)
        dnn->cudnnDestroyConvolutionDescriptor(plan->convolution);
    *plan = (struct cuda_dnn_plan){.function = 0};
}

void cuda_dnn_close(struct cuda_engine *engine)
{
    struct cuda_dnn *dnn = &engine->dnn;
    for (uint32_t i = 0; i < CUDA_DNN_PLANS; i++)
        end_plan(dnn, &dnn->plans[i]);
    if (dnn->handle != NULL)
        dnn->cudnnDestroy(dnn->handle);
    if (dnn->library != NULL)
        dlclose(dnn->library);
    dnn->library = NULL;
    dnn->handle = NULL;
}

static bool make_descriptors(const struct cuda_dnn *dnn, struct cuda_dnn_plan *plan)
{
    const struct vgc_cudnn_convolution_params *p = &plan->shape;
    const unsigned int type = (unsigned int)p->type, format = p->w_channels_last ? DNN_TENSOR_NHWC : DNN_TENSOR_NCHW;
    return dnn->cudnnCreateTensorDescriptor(&plan->x) == DNN_SUCCESS &&
           dnn->cudnnCreateTensorDescriptor(&plan->y) == DNN_SUCCESS &&
           dnn->cudnnCreateFilterDescriptor(&plan->w) == DNN_SUCCESS &&
           dnn->cudnnCreateConvolutionDescriptor(&plan->convolution) == DNN_SUCCESS &&
           dnn->cudnnSetTensorNdDescriptor(plan->x, type, p->axes, p->x_size, p->x_stride) == DNN_SUCCESS &&
           dnn->cudnnSetTensorNdDescriptor(plan->y, type, p->axes, p->y_size, p->y_stride) == DNN_SUCCESS &&
           dnn->cudnnSetFilterNdDescriptor(plan->w, type, format, p->axes, p->w_size) == DNN_SUCCESS &&
           dnn->cudnnSetConvolutionNdDescriptor(plan->convolution, p->axes - 2, p->pad, p->stride, p->dilation,
                                                DNN_CROSS_CORRELATION, (unsigned int)p->compute) == DNN_SUCCESS &&
           dnn->cudnnSetConvolutionGroupCount(plan->convolution, (int)p->groups) == DNN_SUCCESS &&
           dnn->cudnnSetConvolutionMathType(plan->convolution, (unsigned int)p->math) == DNN_SUCCESS;
}

static dnn_result find(const struct cuda_dnn *dnn, const struct cuda_dnn_plan *plan, int *count,
                       struct dnn_found *found)
{
    switch (plan->function) {
    case VGC_FN_CUDNN_FORWARD:
        return dnn->cudnnGetConvolutionForwardAlgorithm_v7(dnn->handle, plan->x, plan->w, plan->convolution, plan->y,
                                                           MOST_FOUND, count, found);
    case VGC_FN_CUDNN_BACKWARD_DATA:
        return dnn->cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn->handle, plan->w, plan->y, plan->convolution,
                                                                plan->x, MOST_FOUND, count, found);
    default:
        return dnn->cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn->handle, plan->x, plan->y, plan->convolution,
                                                                  plan->w, MOST_FOUND, count, found);
    }
}

/* Whether an algorithm keeps to what the call allows. */
static bool is_allowed(const struct cuda_dnn_plan *plan, const struct dnn_found *one, uint64_t most)
{
    return one->status == DNN_SUCCESS && one->memory <= most && one->math != DNN_TENSOR_OP_MATH_ALLOW_CONVERSION &&
           (plan->shape.math != DNN_FMA_MATH || one->math == DNN_FMA_MATH) &&
           (plan->shape.deterministic == 0 || one->determinism == DNN_DETERMINISTIC);
}

static bool choose(const struct cuda_dnn *dnn, struct cuda_dnn_plan *plan, uint64_t most)
{
    struct dnn_found found[MOST_FOUND];
    int count = 0;
    if (find(dnn, plan, &count, found) != DNN_SUCCESS)
        return false;
    for (int i = 0; i < count && i < MOST_FOUND; i++) {
        if (!is_allowed(plan, &found[i], most))
            continue;
        plan->algorithm = found[i].algorithm;
        plan->work_bytes = found[i].memory;
        return dnn->cudnnSetConvolutionMathType(plan->convolution, found[i].math) == DNN_SUCCESS;
    }
    return false;
}

/* The plan of a shape, or the one to replace by it: none, or the one that has not been used for longest. */
static struct cuda_dnn_plan *place_of(struct cuda_dnn *dnn, uint32_t function,
                                      const struct vgc_cudnn_convolution_params *shape)
{
    struct cuda_dnn_plan *place = &dnn->plans[0];
    for (uint32_t i = 0; i < CUDA_DNN_PLANS; i++) {
        struct cuda_dnn_plan *one = &dnn->plans[i];
        if (one->function == function && memcmp(&one->shape, shape, sizeof(*shape)) == 0)
            return one;
        if (one->used < place->used)
            place = one;
    }
    return place;
}

/* The plan of a call, which is made if it is missing; NULL: cuDNN makes no such plan. */
static const struct cuda_dnn_plan *plan_of(struct cuda_engine *engine, const struct cuda_library_call *call)
{
    struct cuda_dnn *dnn = &engine->dnn;
    struct vgc_cudnn_convolution_params shape = call->convolution;
    uint64_t most = engine->setup.memory_bytes / PART;
    shape.x = shape.w = shape.y = 0;
    shape.alpha = shape.beta = 0;
    struct cuda_dnn_plan *plan = place_of(dnn, call->function, &shape);
    if (plan->function != call->function || memcmp(&plan->shape, &shape, sizeof(shape)) != 0) {
        end_plan(dnn, plan);
        plan->function = call->function;
        plan->shape = shape;
        if (!make_descriptors(dnn, plan) || !choose(dnn, plan, most < MOST_BYTES ? most : MOST_BYTES)) {
            end_plan(dnn, plan);
            cuda_check(engine, cuda_library_context_error(engine, engine->alloc_stream));
            return NULL;
        }
    }
    plan->used = ++dnn->uses;
    return plan;
}

bool cuda_dnn_bytes(struct cuda_engine *engine, const struct cuda_library_call *call, uint64_t *bytes)
{
    *bytes = 0;
    if (call->function >= VGC_FN_CUDNN_NORMALIZE_TRAINING)
        return true; /* its functions have no workspace */
    const struct cuda_dnn_plan *plan = plan_of(engine, call);
    *bytes = plan != NULL ? plan->work_bytes : 0;
    return plan != NULL;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

static dnn_result execute(const struct cuda_dnn *dnn, const struct cuda_dnn_plan *plan,
                          const struct vgc_cudnn_convolution_params *p, void *work, size_t bytes)
{
    const float alpha_single = (float)p->alpha, beta_single = (float)p->beta;
    const bool is_double = p->type == DNN_DOUBLE;
    const void *alpha = is_double ? (const void *)&p->alpha : &alpha_single;
    const void *beta = is_double ? (const void *)&p->beta : &beta_single;
    switch (plan->function) {
    case VGC_FN_CUDNN_FORWARD:
        return dnn->cudnnConvolutionForward(dnn->handle, alpha, plan->x, pointer(p->x), plan->w, pointer(p->w),
                                            plan->convolution, plan->algorithm, work, bytes, beta, plan->y,
                                            pointer(p->y));
    case VGC_FN_CUDNN_BACKWARD_DATA:
        return dnn->cudnnConvolutionBackwardData(dnn->handle, alpha, plan->w, pointer(p->w), plan->y, pointer(p->y),
                                                 plan->convolution, plan->algorithm, work, bytes, beta, plan->x,
                                                 pointer(p->x));
    default:
        return dnn->cudnnConvolutionBackwardFilter(dnn->handle, alpha, plan->x, pointer(p->x), plan->y, pointer(p->y),
                                                   plan->convolution, plan->algorithm, work, bytes, beta, plan->w,
                                                   pointer(p->w));
    }
}

dnn_result cuda_dnn_submit(struct cuda_engine *engine, drv_stream stream, const struct cuda_library_call *call,
                           drv_address work, uint64_t bytes)
{
    const struct cuda_dnn *dnn = &engine->dnn;
    if (call->function >= VGC_FN_CUDNN_NORMALIZE_TRAINING)
        return cuda_dnn_normalize(dnn, stream, call->function, &call->normalization);
    const struct cuda_dnn_plan *plan = plan_of(engine, call);
    if (plan == NULL || plan->work_bytes > bytes)
        return DNN_NOT_SUPPORTED;
    dnn_result error = dnn->cudnnSetStream(dnn->handle, stream);
    return error == DNN_SUCCESS ? execute(dnn, plan, &call->convolution, pointer(work), bytes) : error;
}
