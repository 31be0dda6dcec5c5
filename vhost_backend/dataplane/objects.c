/* Arrays, textures and surfaces of the engine's own making: their charges, and their places in the table of
 * allocations. An array there has no address: guests reach it through its id, kernels through objects. */
#include "internal.h"

#include <stdio.h>

bool vgc_makes_objects(const struct vgc_dp *dp)
{
    return dp->engine->ops->object_make != NULL;
}

bool vgc_has_textures(const struct vgc_dp *dp)
{
    return dp->engine->ops->put_texture != NULL || vgc_makes_objects(dp);
}

/* Answers a request that the engine refuses; false. */
static bool refused(struct vgc_dp *dp, struct vgc_req *req, int error, const char *why)
{
    enum vgc_status status = error == -EINVAL   ? VGC_STATUS_INVALID_ARGUMENT
                             : error == -ENOMEM ? VGC_STATUS_OUT_OF_MEMORY
                                                : VGC_STATUS_INTERNAL;
    vgc_fail(dp, req, status, "%s", why);
    return false;
}

/* Charges `bytes` for something that is about to be made. False: the request was answered. */
static bool charge(struct vgc_dp *dp, struct vgc_req *req, uint64_t bytes)
{
    if (dp->num_allocs == VGC_MAX_ALLOCATIONS) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d allocations exist; that is the limit",
                 VGC_MAX_ALLOCATIONS);
        return false;
    }
    if (vgc_memory_charge(dp, bytes) == 0)
        return true;
    vgc_fail(dp, req, VGC_STATUS_OUT_OF_MEMORY, "asked %lu bytes, %lu of %lu bytes free" VGC_MAY_RAISE("memory"),
             (unsigned long)bytes, (unsigned long)vgc_memory_left(dp), (unsigned long)dp->config.memory_bytes);
    return false;
}

static void insert(struct vgc_dp *dp, const struct vgc_req *req, enum vgc_alloc_use use, uint64_t handle,
                   uint64_t charged)
{
    vgc_alloc_insert(dp, (struct vgc_alloc){.address = vgc_handle_key(handle, use),
                                            .handle = handle,
                                            .charged = charged,
                                            .context = vgc_context_number(dp, req->context),
                                            .program_index = UINT32_MAX,
                                            .use = (uint8_t)use});
}

bool vgc_array_make(struct vgc_dp *dp, struct vgc_req *req, struct vgc_array *array)
{
    const struct vgc_engine_ops *ops = dp->engine->ops;
    char why[VGC_ENGINE_WHY] = "";
    uint64_t bytes = 0;
    int error = ops->array_bytes(dp->engine, &array->shape, &bytes, why);
    if (error != 0)
        return refused(dp, req, error, why);
    uint64_t charged = vgc_charge_of(dp, bytes);
    if (!charge(dp, req, charged))
        return false;
    error = ops->array_make(dp->engine, &array->shape, bytes, &array->handle, why);
    if (error != 0) {
        dp->memory_used -= charged;
        return refused(dp, req, error, why);
    }
    array->address = vgc_handle_key((uintptr_t)array->handle, VGC_ALLOC_ENGINE_ARRAY);
    insert(dp, req, VGC_ALLOC_ENGINE_ARRAY, (uintptr_t)array->handle, charged);
    req->response.aux = charged;
    return true;
}

bool vgc_object_make(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_texture_spec *spec, uint64_t *object)
{
    const struct vgc_engine_ops *ops = dp->engine->ops;
    bool is_surface = spec->sampling == NULL;
    enum vgc_alloc_use use = is_surface ? VGC_ALLOC_ENGINE_SURFACE : VGC_ALLOC_ENGINE_TEXTURE;
    uint64_t charged = vgc_charge_of(dp, dp->engine->texture_bytes);
    char why[VGC_ENGINE_WHY] = "";
    if (!charge(dp, req, charged))
        return false;
    int error = ops->object_make(dp->engine, spec, object, why);
    if (error == 0 && vgc_alloc_at(dp, vgc_handle_key(*object, use)) != NULL) {
        ops->object_end(dp->engine, *object, is_surface);
        snprintf(why, sizeof(why), "the device gave a texture and a surface the same number");
        error = -EEXIST; /* OBJECT_DESTROY could not tell them apart */
    }
    if (error != 0) {
        dp->memory_used -= charged;
        return refused(dp, req, error, why);
    }
    insert(dp, req, use, *object, charged);
    return true;
}

struct vgc_alloc *vgc_object_at(struct vgc_dp *dp, uint64_t object)
{
    bool own = vgc_makes_objects(dp);
    struct vgc_alloc *alloc = vgc_alloc_at(dp, own ? vgc_handle_key(object, VGC_ALLOC_ENGINE_TEXTURE) : object);
    if (alloc == NULL ||
        (own ? alloc->use < VGC_ALLOC_ENGINE_TEXTURE || alloc->handle != object : alloc->use != VGC_ALLOC_OBJECT))
        return NULL;
    return alloc;
}
