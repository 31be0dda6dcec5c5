/* Contexts. A process has one address space on a device, and all its contexts share that: a context is what was made in
 * it, which goes with it. The primary context is the runtime's, too. */
#include "runtime.h"

#define MAGIC UINT64_C(0x7874634347560001)
enum { MAX_STACK = 64, API_VERSION = 3020 };

static atomic_bool is_initialized;
static _Atomic uint64_t last_id;
static struct CUctx_st primaries[RT_MAX_DEVICES];
static pthread_once_t primaries_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t primaries_mutex = PTHREAD_MUTEX_INITIALIZER; /* of `users` and `flags` */
static _Thread_local CUcontext stack[MAX_STACK];
static _Thread_local unsigned depth;

/* ---- the driver ----------------------------------------------------------------------------- */

CUresult rt_check_driver(void)
{
    return is_initialized || rt_opened_devices() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult rt_check_ordinal(const void *into, CUdevice device)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (into == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return rt_device_at(device) == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    int count;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_ASK(cudaGetDeviceCount(&count));
    if (result == CUDA_SUCCESS)
        is_initialized = true;
    return result;
}

/* ---- the calling thread's contexts ---------------------------------------------------------- */

static void make_primaries(void)
{
    for (int i = 0; i < RT_MAX_DEVICES; i++) {
        primaries[i] = (struct CUctx_st){.magic = MAGIC, .ordinal = i, .is_primary = true, .id = ++last_id};
        rt_list_context(&primaries[i]);
    }
}

CUcontext rt_primary_context(int ordinal)
{
    (void)pthread_once(&primaries_once, make_primaries);
    return &primaries[ordinal];
}

bool rt_is_context(CUcontext context)
{
    return context != NULL && context->magic == MAGIC;
}

/* NULL: none. A thread that has used the runtime has the primary context, even if it has not asked for it. */
static CUcontext current(void)
{
    if (depth > 0)
        return stack[depth - 1];
    return rt_has_called ? rt_primary_context(rt_ordinal()) : NULL;
}

CUresult rt_enter_context(CUcontext *context, struct rt_device **device)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    CUcontext found = current();
    if (found == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!rt_is_context(found))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    rt_set_ordinal(found->ordinal);
    if (context != NULL)
        *context = found;
    return device == NULL ? CUDA_SUCCESS : RT_ASK(rt_device(found->ordinal, device));
}

static void follow_stack(void)
{
    if (depth > 0 && rt_is_context(stack[depth - 1]))
        rt_set_ordinal(stack[depth - 1]->ordinal);
}

void rt_driver_follow(int ordinal)
{
    if (depth > 0)
        stack[depth - 1] = rt_primary_context(ordinal);
}

static CUresult push(CUcontext context)
{
    if (depth == MAX_STACK)
        return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = context;
    follow_stack();
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    return rt_is_context(context) ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const CUcontext top = current();
    if (top == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth > 0)
        depth--;
    rt_has_called = false; /* of contexts that lie below, none is that of the runtime */
    follow_stack();
    if (context != NULL)
        *context = top;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (context == NULL) {
        depth -= depth > 0;
        rt_has_called = false;
        follow_stack();
        return CUDA_SUCCESS;
    }
    if (!rt_is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == 0)
        return push(context);
    stack[depth - 1] = context;
    follow_stack();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *context = current();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    CUcontext context;
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = rt_enter_context(&context, NULL);
    if (result == CUDA_SUCCESS)
        *device = context->ordinal;
    return result;
}

/* ---- making contexts ------------------------------------------------------------------------ */

/* Bits of which one at most says how the host waits, and others that have no meaning here. */
static CUresult check_flags(unsigned flags)
{
    const unsigned waits = flags & CU_CTX_SCHED_MASK;
    if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0 || (waits & (waits - 1)) != 0)
        return RT_ASK(rt_explain(cudaErrorInvalidValue,
                                 "flags 0x%x of a context; allowed: up to 0x%x, and of 1, 2 and "
                                 "4 one",
                                 flags, CU_CTX_FLAGS_MASK));
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    struct rt_device *ready;
    CUresult result = rt_check_ordinal(context, device);
    if (result == CUDA_SUCCESS)
        result = check_flags(flags);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_device(device, &ready));
    if (result != CUDA_SUCCESS)
        return result;
    CUcontext made = rt_handle_new(sizeof(*made));
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (struct CUctx_st){.magic = MAGIC, .ordinal = device, .flags = flags, .id = ++last_id};
    result = push(made);
    if (result != CUDA_SUCCESS) {
        rt_handle_free(made, sizeof(*made));
        return result;
    }
    rt_list_context(made);
    *context = made;
    return CUDA_SUCCESS;
}

/* The host decides which multiprocessors a VM's work has, so that no list of them can be honoured. */
CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *list, int count, unsigned int flags, CUdevice device)
{
    if (count < 0 || (count > 0 && list == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (count > 0)
        return RT_ASK(rt_explain(cudaErrorUnsupportedExecAffinity,
                                 "a context on some multiprocessors: the host says how many a VM has"));
    return cuCtxCreate(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    if (parameters == NULL)
        return cuCtxCreate(context, flags, device);
    if (parameters->cigParams != NULL && parameters->numExecAffinityParams != 0)
        return CUDA_ERROR_INVALID_VALUE; /* as published: one of the two */
    if (parameters->cigParams != NULL)
        return RT_ASK(rt_unsupported("cuCtxCreate() with a context of graphics"));
    return cuCtxCreate_v3(context, parameters->execAffinityParams, parameters->numExecAffinityParams, flags, device);
}

CUresult cuCtxDestroy(CUcontext context)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (!rt_unlist_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult error = rt_free_owned(context);
    if (depth > 0 && stack[depth - 1] == context)
        depth--;
    follow_stack();
    rt_handle_free(context, sizeof(*context));
    return error;
}

/* Functions of CUDA 2 that count the users of a context, whose last one destroys it. */
CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
    if (context == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext found;
    const CUresult result = rt_enter_context(&found, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    found->attached++;
    *context = found;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context)
{
    CUcontext found;
    const CUresult result = rt_enter_context(&found, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (context != found)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->attached == 0)
        return cuCtxDestroy(context);
    context->attached--;
    return CUDA_SUCCESS;
}

/* ---- primary contexts ----------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    struct rt_device *ready;
    CUresult result = rt_check_ordinal(context, device);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_device(device, &ready));
    if (result != CUDA_SUCCESS)
        return result;
    *context = rt_primary_context(device);
    (void)pthread_mutex_lock(&primaries_mutex);
    (*context)->users++;
    (void)pthread_mutex_unlock(&primaries_mutex);
    return CUDA_SUCCESS;
}

/* Frees nothing that the runtime has made in it: the runtime holds its primary context until the process ends. */
CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    const CUresult result = rt_check_ordinal(&device, device);
    if (result != CUDA_SUCCESS)
        return result;
    CUcontext context = rt_primary_context(device);
    (void)pthread_mutex_lock(&primaries_mutex);
    const unsigned before = context->users;
    context->users -= before > 0;
    (void)pthread_mutex_unlock(&primaries_mutex);
    if (before == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    return before == 1 ? rt_free_owned(context) : CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    const CUresult result = rt_check_ordinal(&device, device);
    if (result != CUDA_SUCCESS)
        return result;
    const CUresult error = rt_free_owned(rt_primary_context(device));
    if (rt_has_contexts(device))
        return error; /* the device's memory is theirs, too */
    const int before = rt_ordinal();
    rt_set_ordinal(device);
    const CUresult reset = RT_ASK(cudaDeviceReset());
    rt_set_ordinal(before);
    return reset;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    const CUresult result = rt_check_ordinal(flags, device);
    if (result != CUDA_SUCCESS)
        return result;
    if (active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = rt_primary_context(device);
    (void)pthread_mutex_lock(&primaries_mutex);
    *flags = context->flags;
    *active = context->users > 0 || (rt_has_called && rt_ordinal() == device);
    (void)pthread_mutex_unlock(&primaries_mutex);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    const CUresult result = rt_check_ordinal(&device, device);
    if (result != CUDA_SUCCESS)
        return result;
    const CUresult checked = check_flags(flags);
    if (checked != CUDA_SUCCESS)
        return checked;
    (void)pthread_mutex_lock(&primaries_mutex);
    rt_primary_context(device)->flags = flags;
    (void)pthread_mutex_unlock(&primaries_mutex);
    return CUDA_SUCCESS;
}

/* ---- what is asked of contexts -------------------------------------------------------------- */

CUresult cuCtxGetFlags(unsigned int *flags)
{
    CUcontext context;
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = rt_enter_context(&context, NULL);
    if (result == CUDA_SUCCESS)
        *flags = context->flags;
    return result;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    CUcontext context;
    CUresult result = rt_enter_context(&context, NULL);
    if (result == CUDA_SUCCESS)
        result = check_flags(flags);
    if (result == CUDA_SUCCESS)
        context->flags = flags;
    return result;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
    if (affinity == NULL || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = rt_enter_context(NULL, NULL);
    return result == CUDA_SUCCESS ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : result;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    context = context == NULL ? current() : context;
    if (!rt_is_context(context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!rt_is_context(context == NULL ? current() : context))
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = API_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    return RT_IN_CONTEXT(cudaDeviceSynchronize());
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    if (context == NULL)
        return cuCtxSynchronize();
    if (!rt_is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    const int before = rt_ordinal();
    rt_set_ordinal(context->ordinal);
    const CUresult result = RT_ASK(cudaDeviceSynchronize());
    rt_set_ordinal(before);
    return result;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    if (context == NULL)
        return cuCtxGetDevice(device);
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!rt_is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    return RT_IN_CONTEXT(cudaDeviceSetLimit((enum cudaLimit)limit, value));
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    return RT_IN_CONTEXT(cudaDeviceGetLimit(value, (enum cudaLimit)limit));
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    return RT_IN_CONTEXT(cudaDeviceGetStreamPriorityRange(least, greatest));
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return rt_enter_context(NULL, NULL);
}

/* A hint, which no engine has a use for. */
CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : rt_enter_context(NULL, NULL);
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    return RT_IN_CONTEXT(cudaDeviceGetSharedMemConfig((enum cudaSharedMemConfig *)config));
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    return RT_IN_CONTEXT(cudaDeviceSetSharedMemConfig((enum cudaSharedMemConfig)config));
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    return RT_IN_CONTEXT(cudaCtxResetPersistingL2Cache());
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    if (!rt_is_context(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    return RT_IN_CONTEXT(cudaDeviceEnablePeerAccess(peer->ordinal, flags));
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    if (!rt_is_context(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    return RT_IN_CONTEXT(cudaDeviceDisablePeerAccess(peer->ordinal));
}
