/* Owners of memory, arrays, textures, modules, streams and events: the context that was current when each was made. */
#include <stdlib.h>

#include "runtime.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of all that contexts have */
static CUcontext contexts;                               /* those that live, primary ones among them */

/* ---- the list of contexts ------------------------------------------------------------------- */

void rt_list_context(CUcontext context)
{
    (void)pthread_mutex_lock(&lock);
    context->next = contexts;
    contexts = context;
    (void)pthread_mutex_unlock(&lock);
}

bool rt_unlist_context(CUcontext context)
{
    (void)pthread_mutex_lock(&lock);
    CUcontext *at = &contexts;
    while (*at != NULL && *at != context)
        at = &(*at)->next;
    const bool is_found = *at != NULL && !context->is_primary;
    if (is_found)
        *at = context->next;
    (void)pthread_mutex_unlock(&lock);
    return is_found;
}

bool rt_has_contexts(int ordinal)
{
    bool found = false;
    (void)pthread_mutex_lock(&lock);
    for (CUcontext context = contexts; context != NULL; context = context->next)
        found |= context->ordinal == ordinal && !context->is_primary;
    (void)pthread_mutex_unlock(&lock);
    return found;
}

/* ---- what they have ------------------------------------------------------------------------- */

bool rt_own(CUcontext context, enum rt_owned_kind kind, void *handle)
{
    (void)pthread_mutex_lock(&lock);
    if (context->num_owned == context->room) {
        const size_t room = context->room == 0 ? 16 : 2 * context->room;
        struct rt_owned *more = realloc(context->owned, room * sizeof(*more));
        if (more != NULL) {
            context->owned = more;
            context->room = room;
        }
    }
    const bool has_room = context->num_owned < context->room;
    if (has_room)
        context->owned[context->num_owned++] = (struct rt_owned){kind, handle};
    (void)pthread_mutex_unlock(&lock);
    return has_room;
}

/* With the lock: the latest entry of a handle in a context. Most are freed soon. */
static struct rt_owned *find_in(CUcontext context, enum rt_owned_kind kind, const void *handle)
{
    for (size_t i = context->num_owned; i-- > 0;)
        if (context->owned[i].kind == kind && context->owned[i].handle == handle)
            return &context->owned[i];
    return NULL;
}

/* With the lock: the entry of a handle, and the context that has it; NULL: no context has. Textures of two devices may
 * have the same number: that of the current one is meant. */
static struct rt_owned *find(enum rt_owned_kind kind, const void *handle, CUcontext *owner)
{
    struct rt_owned *found = NULL;
    for (CUcontext context = contexts; context != NULL; context = context->next) {
        struct rt_owned *entry = find_in(context, kind, handle);
        if (entry == NULL || (found != NULL && context->ordinal != rt_ordinal()))
            continue;
        found = entry;
        *owner = context;
    }
    return found;
}

void rt_disown(enum rt_owned_kind kind, const void *handle)
{
    CUcontext owner;
    (void)pthread_mutex_lock(&lock);
    struct rt_owned *entry = find(kind, handle, &owner);
    if (entry != NULL)
        *entry = owner->owned[--owner->num_owned];
    (void)pthread_mutex_unlock(&lock);
}

CUcontext rt_owner(enum rt_owned_kind kind, const void *handle)
{
    CUcontext owner = NULL;
    (void)pthread_mutex_lock(&lock);
    (void)find(kind, handle, &owner);
    (void)pthread_mutex_unlock(&lock);
    return owner;
}

static CUresult let_go(const struct rt_owned *owned)
{
    switch (owned->kind) {
    case RT_OWNED_MEMORY:
        return RT_ASK(cudaFree(owned->handle));
    case RT_OWNED_HOST_MEMORY:
        return RT_ASK(cudaFreeHost(owned->handle));
    case RT_OWNED_MODULE:
        return rt_unload_module(owned->handle);
    case RT_OWNED_STREAM:
        return RT_ASK(cudaStreamDestroy(owned->handle));
    case RT_OWNED_EVENT:
        return RT_ASK(cudaEventDestroy(owned->handle));
    case RT_OWNED_ARRAY:
        return RT_ASK(cudaFreeArray(owned->handle));
    case RT_OWNED_MIPMAP:
        return RT_ASK(cudaFreeMipmappedArray(owned->handle));
    case RT_OWNED_TEXTURE:
        return RT_ASK(cudaDestroyTextureObject((uintptr_t)owned->handle));
    case RT_OWNED_SURFACE:
        return RT_ASK(cudaDestroySurfaceObject((uintptr_t)owned->handle));
    }
    return CUDA_ERROR_UNKNOWN;
}

CUresult rt_free_owned(CUcontext context)
{
    CUresult result = CUDA_SUCCESS;
    const int before = rt_ordinal();
    rt_set_ordinal(context->ordinal);
    (void)RT_ASK(cudaDeviceSynchronize());
    (void)pthread_mutex_lock(&lock);
    while (context->num_owned > 0) {
        const struct rt_owned owned = context->owned[--context->num_owned];
        (void)pthread_mutex_unlock(&lock);
        const CUresult error = let_go(&owned);
        result = result == CUDA_SUCCESS ? error : result;
        (void)pthread_mutex_lock(&lock);
    }
    free(context->owned);
    context->owned = NULL;
    context->room = 0;
    (void)pthread_mutex_unlock(&lock);
    rt_set_ordinal(before);
    return result;
}
