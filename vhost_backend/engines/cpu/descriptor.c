/* Descriptors of textures and surfaces: see kernels/cpu/include/vgc_texture_layout.h. */
#include "cpu_engine.h"

#include <string.h>

_Static_assert(sizeof(struct vgc_texture) == VGC_DESCRIPTOR_BYTES, "struct vgc_texture");
_Static_assert((int)VGC_READ_NORMALISED == (int)VGC_TEXTURE_FLAG_NORMALISED &&
                   (int)VGC_READ_AS_FLOAT == (int)VGC_TEXTURE_FLAG_AS_FLOAT &&
                   (int)VGC_READ_SRGB == (int)VGC_TEXTURE_FLAG_SRGB &&
                   (int)VGC_READ_LINEAR == (int)VGC_TEXTURE_FLAG_LINEAR &&
                   (int)VGC_READ_LINEAR_LEVELS == (int)VGC_TEXTURE_FLAG_LINEAR_LEVELS,
               "flags of textures");
_Static_assert((int)VGC_ADDRESS_WRAP == (int)VGC_ADDRESS_MODE_WRAP &&
                   (int)VGC_ADDRESS_CLAMP == (int)VGC_ADDRESS_MODE_CLAMP &&
                   (int)VGC_ADDRESS_MIRROR == (int)VGC_ADDRESS_MODE_MIRROR &&
                   (int)VGC_ADDRESS_BORDER == (int)VGC_ADDRESS_MODE_BORDER,
               "address modes");
_Static_assert((int)VGC_TEXEL_SIGNED == (int)VGC_CHANNEL_KIND_SIGNED &&
                   (int)VGC_TEXEL_UNSIGNED == (int)VGC_CHANNEL_KIND_UNSIGNED &&
                   (int)VGC_TEXEL_FLOAT == (int)VGC_CHANNEL_KIND_FLOAT,
               "kinds of channels");

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Bytes of a texel if kernels get it as it is in memory, else 0. */
static uint8_t raw_bytes(const struct vgc_texture_spec *spec)
{
    bool converts = spec->kind == VGC_CHANNEL_KIND_FLOAT
                        ? spec->bits != 32
                        : (spec->sampling->flags & VGC_TEXTURE_FLAG_AS_FLOAT) != 0 && spec->bits != 32;
    return converts ? 0 : (uint8_t)(spec->channels * spec->bits / 8);
}

static bool clamps(const struct vgc_texture_spec *spec, int axis)
{
    uint32_t mode = spec->sampling->modes[axis];
    bool repeats = mode == VGC_ADDRESS_MODE_WRAP || mode == VGC_ADDRESS_MODE_MIRROR;
    return mode == VGC_ADDRESS_MODE_CLAMP || (repeats && (spec->sampling->flags & VGC_TEXTURE_FLAG_NORMALISED) == 0);
}

/* Samples that kernels may compute themselves. */
static uint8_t sample_of(const struct vgc_texture_spec *spec)
{
    if (!clamps(spec, 0) || !clamps(spec, 1) || !clamps(spec, 2) || spec->levels > 1)
        return VGC_SAMPLE_OTHER;
    return (spec->sampling->flags & VGC_TEXTURE_FLAG_LINEAR) != 0 ? VGC_SAMPLE_LINEAR : VGC_SAMPLE_NEAREST;
}

static void describe_sampling(struct vgc_texture *to, const struct vgc_texture_spec *spec)
{
    const struct vgc_body_texture_create *sampling = spec->sampling;
    bool normalised = (sampling->flags & VGC_TEXTURE_FLAG_NORMALISED) != 0;
    uint32_t size[3] = {spec->width, spec->height, spec->depth};
    to->raw = raw_bytes(spec);
    to->sample = sample_of(spec);
    to->flags = (unsigned char)sampling->flags;
    for (int axis = 0; axis < 3; axis++) {
        to->scale[axis] = normalised ? (float)size[axis] : 1;
        to->address[axis] = (unsigned char)sampling->modes[axis];
    }
    for (int channel = 0; channel < 4; channel++)
        to->border[channel] = float_of(sampling->border[channel]);
    to->bias = float_of(sampling->bias);
    to->min_level = float_of(sampling->min_level);
    to->max_level = float_of(sampling->max_level);
}

void cpu_put_texture(struct vgc_engine *engine, const struct vgc_texture_spec *spec, uint64_t address)
{
    bool is_surface = spec->sampling == NULL;
    struct vgc_texture made = {.magic = is_surface ? VGC_SURFACE_MAGIC : VGC_TEXTURE_MAGIC,
                               .kind = (unsigned char)spec->kind,
                               .bits = (unsigned char)spec->bits,
                               .channels = (unsigned char)spec->channels,
                               .data = spec->data,
                               .width = spec->width,
                               .height = spec->height,
                               .depth = is_surface ? 1 : spec->depth,
                               .layers = is_surface ? spec->depth * spec->layers : spec->layers,
                               .pitch = spec->pitch,
                               .slice = spec->slice,
                               .levels = spec->levels,
                               .level_layers = spec->level_layers};
    if (is_surface)
        made.raw = (unsigned char)(spec->channels * spec->bits / 8);
    else
        describe_sampling(&made, spec);
    memcpy((void *)(uintptr_t)address, &made, sizeof(made));
    cpu_bounds_written(&cpu_engine_of(engine)->bounds, address, sizeof(made));
}
