/* TEXTURE_CREATE, SURFACE_CREATE, OBJECT_DESTROY. An object is the address of an allocation that describes it, unless
 * the engine makes objects itself (objects.c). */
#include "internal.h"

enum { KNOWN_FLAGS = 2 * VGC_TEXTURE_FLAG_LINEAR_LEVELS - 1, MAX_ANISOTROPY = 16 };

/* Answers a request whose argument is not allowed; false. */
static bool refuse(struct vgc_dp *dp, struct vgc_req *req, const char *what)
{
    vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%s", what);
    return false;
}

static bool is_format(uint32_t kind, uint32_t bits, uint32_t channels)
{
    bool has_bits = bits == 32 || bits == 16 || (bits == 8 && kind != VGC_CHANNEL_KIND_FLOAT);
    return kind <= VGC_CHANNEL_KIND_FLOAT && has_bits && (channels == 1 || channels == 2 || channels == 4);
}

/* ---- checks ------------------------------------------------------------------------------------------------- */

static bool check_sampling(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_texture_spec *spec)
{
    const struct vgc_body_texture_create *body = spec->sampling;
    bool as_is =
        spec->kind != VGC_CHANNEL_KIND_FLOAT && ((body->flags & VGC_TEXTURE_FLAG_AS_FLOAT) == 0 || spec->bits == 32);
    if (body->flags > KNOWN_FLAGS || body->max_anisotropy > MAX_ANISOTROPY)
        return refuse(dp, req, "unknown flags, or an anisotropy beyond 16");
    for (int axis = 0; axis < 3; axis++)
        if (body->modes[axis] > VGC_ADDRESS_MODE_BORDER)
            return refuse(dp, req, "an unknown address mode; allowed: 0 to 3");
    if (as_is && (body->flags & (VGC_TEXTURE_FLAG_LINEAR | VGC_TEXTURE_FLAG_LINEAR_LEVELS)) != 0)
        return refuse(dp, req, "a linear filter over integers; allowed: over floats");
    return true;
}

/* Channels that the texture sees: its own, if they are named, of as many bytes as the array's. */
static bool choose_format(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_array_create *shape,
                          struct vgc_texture_spec *spec)
{
    const struct vgc_body_texture_create *body = &req->body.texture_create;
    bool is_view = (body->kind | body->bits | body->channels) != 0;
    spec->kind = is_view ? body->kind : shape->kind;
    spec->bits = is_view ? body->bits : shape->bits;
    spec->channels = is_view ? body->channels : shape->channels;
    if (!is_format(spec->kind, spec->bits, spec->channels) ||
        spec->bits * spec->channels != shape->bits * shape->channels)
        return refuse(dp, req, "a format that does not exist, or whose texels have another size than the array's");
    return true;
}

/* Bounds [first, first + *count) by `most`; *count 0 means all. */
static bool choose_range(uint32_t first, uint32_t *count, uint32_t most)
{
    if (first >= most || *count > most - first)
        return false;
    *count = *count != 0 ? *count : most - first;
    return true;
}

static void take_level(struct vgc_texture_spec *spec, const struct vgc_array *array, struct vgc_array_level level,
                       uint32_t first_layer)
{
    spec->data = array->handle != NULL ? 0 : array->address + level.offset + first_layer * level.slice;
    spec->array = array->handle;
    spec->first_layer = first_layer;
    spec->pitch = level.pitch;
    spec->slice = level.slice;
    spec->width = level.width;
    spec->height = level.height;
    spec->depth = level.depth;
    spec->level_layers = level.layers;
}

static bool find_array(struct vgc_dp *dp, struct vgc_req *req, struct vgc_texture_spec *spec)
{
    const struct vgc_body_texture_create *body = &req->body.texture_create;
    if (body->address != 0 || body->pitch != 0 || body->width != 0 || body->height != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "address, pitch, width and height of an array must be 0");
        return false;
    }
    const struct vgc_array *array = vgc_array_of(dp, req, body->array);
    if (array == NULL || !choose_format(dp, req, &array->shape, spec))
        return false;
    uint32_t layers = vgc_array_level_of(&array->shape, 0).layers;
    spec->levels = body->num_levels;
    spec->layers = body->num_layers;
    if (!choose_range(body->first_level, &spec->levels, array->shape.levels) ||
        !choose_range(body->first_layer, &spec->layers, layers))
        return refuse(dp, req, "levels or layers that the array does not have");
    if (spec->levels > 1 && spec->layers != layers)
        return refuse(dp, req, "some layers of several levels; allowed: all layers, or one level");
    take_level(spec, array, vgc_array_level_of(&array->shape, body->first_level), body->first_layer);
    spec->first_level = body->first_level;
    return true;
}

/* Texels in device memory: linear memory, or rows. */
static bool find_memory(struct vgc_dp *dp, struct vgc_req *req, struct vgc_texture_spec *spec)
{
    const struct vgc_body_texture_create *body = &req->body.texture_create;
    bool is_linear = body->resource == VGC_TEXTURE_RESOURCE_LINEAR;
    uint32_t most = is_linear ? VGC_MAX_LINEAR_TEXELS : VGC_MAX_ARRAY_EXTENT;
    if ((body->array | body->first_level | body->num_levels | body->first_layer | body->num_layers) != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "array, levels and layers of device memory must be 0");
        return false;
    }
    if (!is_format(body->kind, body->bits, body->channels))
        return refuse(dp, req, "a format that does not exist");
    uint64_t row = (uint64_t)body->width * body->channels * body->bits / 8;
    if (body->width == 0 || body->width > most || body->height == 0 || body->height > most ||
        (is_linear && body->height != 1) || (!is_linear && (body->pitch < row || body->pitch > UINT32_MAX)))
        return refuse(dp, req, "extents that are not allowed, or rows that overlap");
    if (body->address % (body->channels * body->bits / 8) != 0)
        return refuse(dp, req, "an address that is not a multiple of the texels' size");
    spec->data = body->address;
    spec->pitch = is_linear ? row : body->pitch;
    spec->slice = spec->pitch * body->height;
    spec->width = body->width;
    spec->height = body->height;
    spec->depth = spec->layers = spec->levels = spec->level_layers = 1;
    spec->kind = body->kind;
    spec->bits = body->bits;
    spec->channels = body->channels;
    return vgc_check_range(dp, req, body->address, spec->pitch * (body->height - 1) + row);
}

static bool is_supported(struct vgc_dp *dp, struct vgc_req *req)
{
    if (vgc_has_textures(dp))
        return true;
    vgc_fail(dp, req, VGC_STATUS_UNSUPPORTED, "the engine %s has no textures", dp->engine->ops->name);
    return false;
}

/* ---- requests ----------------------------------------------------------------------------------------------- */

static void create(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_texture_spec *spec)
{
    uint64_t object = 0;
    if (vgc_makes_objects(dp)) {
        if (vgc_object_make(dp, req, spec, &object))
            vgc_complete_value(dp, req, object);
        return;
    }
    if (!vgc_alloc_take(dp, req, dp->engine->texture_bytes, VGC_ALLOC_OBJECT, &object))
        return;
    dp->engine->ops->put_texture(dp->engine, spec, object);
    vgc_complete_value(dp, req, object);
}

void vgc_serve_texture_create(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_texture_create *body = &req->body.texture_create;
    struct vgc_texture_spec spec = {.sampling = body};
    if (!is_supported(dp, req))
        return;
    if (body->reserved != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", body->reserved);
        return;
    }
    if (body->resource > VGC_TEXTURE_RESOURCE_PITCH) {
        refuse(dp, req, "an unknown kind of resource; allowed: 0 to 2");
        return;
    }
    bool found =
        body->resource == VGC_TEXTURE_RESOURCE_ARRAY ? find_array(dp, req, &spec) : find_memory(dp, req, &spec);
    if (found && check_sampling(dp, req, &spec))
        create(dp, req, &spec);
}

void vgc_serve_surface_create(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_surface_create *body = &req->body.surface_create;
    if (!is_supported(dp, req))
        return;
    const struct vgc_array *array = vgc_array_of(dp, req, body->array);
    if (array == NULL)
        return;
    if ((array->shape.flags & VGC_ARRAY_FLAG_SURFACE) == 0 || body->level >= array->shape.levels) {
        refuse(dp, req, "an array without the flag SURFACE, or a level that it does not have");
        return;
    }
    struct vgc_array_level level = vgc_array_level_of(&array->shape, body->level);
    struct vgc_texture_spec spec = {.layers = level.layers,
                                    .levels = 1,
                                    .kind = array->shape.kind,
                                    .bits = array->shape.bits,
                                    .channels = array->shape.channels,
                                    .first_level = req->body.surface_create.level};
    take_level(&spec, array, level, 0);
    create(dp, req, &spec);
}

static void destroy_now(struct vgc_dp *dp, struct vgc_req *req)
{
    vgc_alloc_drop(dp, vgc_object_at(dp, req->body.object.object));
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

/* Destroys the object when all earlier requests of all streams are done. */
void vgc_serve_object_destroy(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_alloc *alloc = vgc_object_at(dp, req->body.object.object);
    if (alloc == NULL || alloc->context != vgc_context_number(dp, req->context) || alloc->dying) {
        vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "context %u has no object %#lx", req->request.context,
                 (unsigned long)req->body.object.object);
        return;
    }
    alloc->dying = true;
    vgc_line_wait(dp, req, destroy_now);
}
