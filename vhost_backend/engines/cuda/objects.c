/* Textures and surfaces: objects of the driver's, whose numbers guests pass to kernels. */
#include "cuda_engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- texels ------------------------------------------------------------------------------------------------- */

static struct drv_texels memory_of(const struct vgc_texture_spec *spec)
{
    uint32_t format = cuda_format_of(spec->kind, spec->bits);
    struct drv_texels texels = {.type = DRV_TEXELS_LINEAR};
    if (spec->sampling->resource == VGC_TEXTURE_RESOURCE_LINEAR) {
        texels.from.linear.address = spec->data;
        texels.from.linear.format = format;
        texels.from.linear.channels = spec->channels;
        texels.from.linear.size = (uint64_t)spec->width * spec->channels * spec->bits / 8;
        return texels;
    }
    texels.type = DRV_TEXELS_ROWS;
    texels.from.rows.address = spec->data;
    texels.from.rows.format = format;
    texels.from.rows.channels = spec->channels;
    texels.from.rows.width = spec->width;
    texels.from.rows.height = spec->height;
    texels.from.rows.pitch = spec->pitch;
    return texels;
}

/* One level is an array of its own; several are the mipmap, or a view of it. */
static struct drv_texels array_of(const struct vgc_texture_spec *spec)
{
    const struct cuda_array *array = spec->array;
    struct drv_texels texels = {.type = DRV_TEXELS_ARRAY};
    if (spec->levels > 1) {
        texels.type = DRV_TEXELS_MIPMAP;
        texels.from.mipmap = array->mipmap;
    } else {
        texels.from.array = array->levels[spec->first_level];
    }
    return texels;
}

/* ---- views -------------------------------------------------------------------------------------------------- */

static uint32_t view_format_of(const struct vgc_texture_spec *spec)
{
    static const uint32_t formats[][3] = {
        [VGC_CHANNEL_KIND_SIGNED] = {DRV_VIEW_SIGNED_8, DRV_VIEW_SIGNED_16, DRV_VIEW_SIGNED_32},
        [VGC_CHANNEL_KIND_UNSIGNED] = {DRV_VIEW_UNSIGNED_8, DRV_VIEW_UNSIGNED_16, DRV_VIEW_UNSIGNED_32},
        [VGC_CHANNEL_KIND_FLOAT] = {0, DRV_VIEW_FLOAT_16, DRV_VIEW_FLOAT_32},
    };
    return formats[spec->kind][spec->bits / 16] + spec->channels / 2;
}

/* True if a texture shows other channels, levels or layers than those of what it is made of. */
static bool needs_view(const struct vgc_texture_spec *spec)
{
    const struct vgc_body_array_create *shape = &((const struct cuda_array *)spec->array)->shape;
    bool is_flat = (shape->flags & (VGC_ARRAY_FLAG_LAYERED | VGC_ARRAY_FLAG_CUBEMAP)) != 0;
    bool all_levels = spec->levels == 1 || spec->levels == shape->levels;
    bool all_layers = !is_flat || spec->layers == shape->depth;
    return spec->kind != shape->kind || spec->bits != shape->bits || spec->channels != shape->channels || !all_levels ||
           !all_layers;
}

static uint32_t halved(uint32_t extent, uint32_t level)
{
    return extent == 0 || extent >> level != 0 ? extent >> level : 1;
}

/* Extents of a view are those of the resource [CUDA driver API: cuTexObjectCreate]. */
static struct drv_view view_of(const struct vgc_texture_spec *spec)
{
    const struct vgc_body_array_create *shape = &((const struct cuda_array *)spec->array)->shape;
    bool is_flat = (shape->flags & (VGC_ARRAY_FLAG_LAYERED | VGC_ARRAY_FLAG_CUBEMAP)) != 0;
    uint32_t level = spec->levels > 1 ? 0 : spec->first_level;
    return (struct drv_view){.format = view_format_of(spec),
                             .width = halved(shape->width, level),
                             .height = halved(shape->height, level),
                             .depth = is_flat ? shape->depth : halved(shape->depth, level),
                             .first_level = spec->levels > 1 ? spec->first_level : 0,
                             .last_level = spec->levels > 1 ? spec->first_level + spec->levels - 1 : 0,
                             .first_layer = spec->first_layer,
                             .last_layer = is_flat ? spec->first_layer + spec->layers - 1 : 0};
}

/* ---- sampling ----------------------------------------------------------------------------------------------- */

static struct drv_sampling sampling_of(const struct vgc_texture_spec *spec)
{
    const struct vgc_body_texture_create *body = spec->sampling;
    struct drv_sampling sampling = {
        .filter = (body->flags & VGC_TEXTURE_FLAG_LINEAR) != 0 ? DRV_FILTER_LINEAR : DRV_FILTER_POINT,
        .level_filter = (body->flags & VGC_TEXTURE_FLAG_LINEAR_LEVELS) != 0 ? DRV_FILTER_LINEAR : DRV_FILTER_POINT,
        .max_anisotropy = body->max_anisotropy,
    };
    bool is_integer = spec->kind != VGC_CHANNEL_KIND_FLOAT && (body->flags & VGC_TEXTURE_FLAG_AS_FLOAT) == 0;
    sampling.flags |= is_integer ? DRV_READ_AS_INTEGER : 0;
    sampling.flags |= (body->flags & VGC_TEXTURE_FLAG_NORMALISED) != 0 ? DRV_READ_NORMALISED : 0;
    sampling.flags |= (body->flags & VGC_TEXTURE_FLAG_SRGB) != 0 ? DRV_READ_SRGB : 0;
    static const uint32_t modes[] = {[VGC_ADDRESS_MODE_WRAP] = DRV_ADDRESS_WRAP,
                                     [VGC_ADDRESS_MODE_CLAMP] = DRV_ADDRESS_CLAMP,
                                     [VGC_ADDRESS_MODE_MIRROR] = DRV_ADDRESS_MIRROR,
                                     [VGC_ADDRESS_MODE_BORDER] = DRV_ADDRESS_BORDER};
    for (int axis = 0; axis < 3; axis++)
        sampling.modes[axis] = modes[body->modes[axis]];
    memcpy(&sampling.bias, &body->bias, sizeof(sampling.bias));
    memcpy(&sampling.min_level, &body->min_level, sizeof(sampling.min_level));
    memcpy(&sampling.max_level, &body->max_level, sizeof(sampling.max_level));
    memcpy(sampling.border, body->border, sizeof(sampling.border));
    return sampling;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static drv_result make_texture(const struct cuda_engine *engine, const struct vgc_texture_spec *spec, drv_object *made)
{
    struct drv_texels texels = spec->array != NULL ? array_of(spec) : memory_of(spec);
    struct drv_sampling sampling = sampling_of(spec);
    struct drv_view view = {0};
    bool has_view = spec->array != NULL && needs_view(spec);
    if (has_view)
        view = view_of(spec);
    return engine->driver.cuTexObjectCreate(made, (const void *)&texels, (const void *)&sampling,
                                            has_view ? (const void *)&view : NULL);
}

int cuda_object_make(struct vgc_engine *base, const struct vgc_texture_spec *spec, uint64_t *object, char *why)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    drv_object made = 0;
    drv_result error;
    char text[160];
    if (spec->sampling != NULL) {
        error = make_texture(engine, spec, &made);
    } else {
        struct drv_texels texels = array_of(spec);
        error = engine->driver.cuSurfObjectCreate(&made, (const void *)&texels);
    }
    cuda_check(engine, error);
    *object = made;
    if (error == DRV_SUCCESS)
        return 0;
    cuda_error_text(engine, error, text, sizeof(text));
    snprintf(why, VGC_ENGINE_WHY, "no %s: %s", spec->sampling != NULL ? "texture" : "surface", text);
    return error == DRV_ERROR_INVALID_VALUE ? -EINVAL : error == DRV_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

void cuda_object_end(struct vgc_engine *base, uint64_t object, bool is_surface)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    cuda_check(engine,
               is_surface ? engine->driver.cuSurfObjectDestroy(object) : engine->driver.cuTexObjectDestroy(object));
}
