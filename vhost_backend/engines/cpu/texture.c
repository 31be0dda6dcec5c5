/* Sampling of textures, for kernels: all that kernels/cpu/include/vgc_texture.h does not compute itself, as the CUDA
 * C++ Programming Guide says in "Texture Fetching". Descriptors are memory of the VM: a wrong one ends the launch with
 * FAULT, or faults like any other address of the kernel's. */
#include "cpu_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A texel, or a mixture of texels: floats, or integers that are given as they are. */
struct texel {
    float value[4];
    int32_t integer[4];
};

/* One level of a texture, and the layers that a fetch sees of it. */
struct level {
    const struct vgc_texture *texture;
    uint64_t data;
    uint32_t size[3];
    uint64_t pitch;
    uint64_t slice;
};

enum { LARGEST = 1 << 30 }; /* beyond every texture */

static void refuse(uint64_t object, const char *what)
{
    struct cpu_pe *pe = cpu_current_pe();
    char where[160];
    cpu_describe(pe, where, sizeof(where));
    cpu_fail_launch(pe, VGC_STATUS_FAULT, "0x%llx is not a %s object in %s", (unsigned long long)object, what, where);
}

static const struct vgc_texture *texture_of(uint64_t object)
{
    const struct vgc_texture *texture = (const struct vgc_texture *)(uintptr_t)object;
    if (object % 8 != 0 || texture->magic != VGC_TEXTURE_MAGIC)
        refuse(object, "texture");
    return texture;
}

static uint32_t texel_bytes(const struct vgc_texture *texture)
{
    return (uint32_t)texture->channels * texture->bits / 8;
}

static uint32_t at_least_one(uint32_t value)
{
    return value != 0 ? value : 1;
}

/* Finds level `number`, which exists. Level 0 may have padding between its rows, the others have none. */
static struct level level_of(const struct vgc_texture *texture, uint32_t number)
{
    struct level level = {
        texture, texture->data, {texture->width, texture->height, texture->depth}, texture->pitch, texture->slice};
    for (uint32_t i = 0; i < number; i++) {
        level.data += level.slice * level.size[2] * texture->level_layers;
        for (int axis = 0; axis < 3; axis++)
            level.size[axis] = at_least_one(level.size[axis] / 2);
        level.pitch = (uint64_t)level.size[0] * texel_bytes(texture);
        level.slice = level.pitch * level.size[1];
    }
    return level;
}

static float float_of_half(uint16_t bits)
{
    uint32_t magnitude = bits & 0x7fff;
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    float value;
    if (magnitude < 0x400) {
        value = ldexpf((float)magnitude, -24);
        return sign != 0 ? -value : value;
    }
    uint32_t wide = sign | (magnitude >= 0x7c00 ? 0x7f800000 | magnitude << 13 : (magnitude << 13) + (112u << 23));
    memcpy(&value, &wide, sizeof(value));
    return value;
}

static float linear_of_srgb(float value)
{
    return value <= 0.04045F ? value / 12.92F : powf((value + 0.055F) / 1.055F, 2.4F);
}

static int32_t integer_channel(const struct vgc_texture *texture, const uint8_t *from)
{
    bool is_signed = texture->kind == VGC_TEXEL_SIGNED;
    uint16_t half;
    int32_t word;
    switch (texture->bits) {
    case 8:
        return is_signed ? (int8_t)*from : *from;
    case 16:
        memcpy(&half, from, sizeof(half));
        return is_signed ? (int16_t)half : half;
    default:
        memcpy(&word, from, sizeof(word));
        return word;
    }
}

static float normalised_channel(const struct vgc_texture *texture, int32_t integer, int channel)
{
    bool is_short = texture->bits == 16;
    if (texture->kind == VGC_TEXEL_SIGNED)
        return fmaxf((float)integer / (is_short ? INT16_MAX : INT8_MAX), -1);
    float value = (float)integer / (is_short ? UINT16_MAX : UINT8_MAX);
    return (texture->flags & VGC_READ_SRGB) != 0 && texture->bits == 8 && channel < 3 ? linear_of_srgb(value) : value;
}

static float float_channel(const struct vgc_texture *texture, const uint8_t *from)
{
    uint16_t half;
    float value;
    if (texture->bits == 16) {
        memcpy(&half, from, sizeof(half));
        return float_of_half(half);
    }
    memcpy(&value, from, sizeof(value));
    return value;
}

static bool gives_integers(const struct vgc_texture *texture)
{
    return texture->kind != VGC_TEXEL_FLOAT && ((texture->flags & VGC_READ_AS_FLOAT) == 0 || texture->bits > 16);
}

static struct texel read_texel(const struct vgc_texture *texture, const uint8_t *from)
{
    struct texel texel = {{0}, {0}};
    for (int channel = 0; channel < texture->channels && channel < 4; channel++, from += texture->bits / 8) {
        if (texture->kind == VGC_TEXEL_FLOAT) {
            texel.value[channel] = float_channel(texture, from);
            continue;
        }
        texel.integer[channel] = integer_channel(texture, from);
        if (!gives_integers(texture))
            texel.value[channel] = normalised_channel(texture, texel.integer[channel], channel);
    }
    return texel;
}

/* Integer of a border's colour, which need not be one of the channel's type. */
static int32_t integer_of(float value, uint32_t kind)
{
    double least = kind == VGC_TEXEL_UNSIGNED ? 0 : INT32_MIN;
    double most = kind == VGC_TEXEL_UNSIGNED ? UINT32_MAX : INT32_MAX;
    return (int32_t)(int64_t)fmin(fmax(value, least), most);
}

static struct texel border_of(const struct vgc_texture *texture)
{
    struct texel texel;
    for (int channel = 0; channel < 4; channel++) {
        texel.value[channel] = channel < texture->channels ? texture->border[channel] : 0;
        texel.integer[channel] = integer_of(texel.value[channel], texture->kind);
    }
    return texel;
}

/* Address mode along an axis: wrapping and mirroring need normalised coordinates. */
static int mode_of(const struct vgc_texture *texture, int axis)
{
    int mode = texture->address[axis];
    bool repeats = mode == VGC_ADDRESS_WRAP || mode == VGC_ADDRESS_MIRROR;
    return repeats && (texture->flags & VGC_READ_NORMALISED) == 0 ? VGC_ADDRESS_CLAMP : mode;
}

/* Brings a coordinate into the texture, as far as its mode does that, in texels. */
static float place(const struct level *level, int axis, float at)
{
    float size = (float)level->size[axis];
    if ((level->texture->flags & VGC_READ_NORMALISED) == 0)
        return at;
    if (!isfinite(at))
        return at;
    if (mode_of(level->texture, axis) == VGC_ADDRESS_WRAP)
        at -= floorf(at);
    if (mode_of(level->texture, axis) == VGC_ADDRESS_MIRROR) {
        float whole = floorf(at);
        at = fmodf(whole, 2) != 0 ? 1 - (at - whole) : at - whole;
    }
    return at * size;
}

/* Index of a texel along an axis; -1: the border. */
static int index_at(const struct level *level, int axis, int index)
{
    int size = (int)level->size[axis];
    if (size <= 0) /* a forged descriptor */
        return -1;
    switch (mode_of(level->texture, axis)) {
    case VGC_ADDRESS_WRAP:
        return (index % size + size) % size;
    case VGC_ADDRESS_BORDER:
        return index >= 0 && index < size ? index : -1;
    default:
        return index < 0 ? 0 : index < size ? index : size - 1;
    }
}

static int whole_of(float at)
{
    return (int)fminf(fmaxf(floorf(at), -(float)LARGEST), (float)LARGEST);
}

static struct texel texel_at(const struct level *level, const int index[3], int layer)
{
    if (index[0] < 0 || index[1] < 0 || index[2] < 0)
        return border_of(level->texture);
    uint64_t from = level->data + (uint64_t)index[0] * texel_bytes(level->texture) + (uint64_t)index[1] * level->pitch +
                    ((uint64_t)layer * level->size[2] + (uint64_t)index[2]) * level->slice;
    return read_texel(level->texture, (const uint8_t *)(uintptr_t)from);
}

static struct texel nearest(const struct level *level, int axes, const float at[3], int layer)
{
    int index[3] = {0, 0, 0};
    for (int axis = 0; axis < axes; axis++)
        index[axis] = index_at(level, axis, whole_of(place(level, axis, at[axis])));
    return texel_at(level, index, layer);
}

/* The two texels along an axis between which a coordinate lies, and the weight of the second: a number with 8 bits
 * after the point. */
struct pair {
    int index[2];
    float weight;
};

static struct pair pair_at(const struct level *level, int axis, float coordinate)
{
    float at = place(level, axis, coordinate) - 0.5F;
    at = isnan(at) ? 0 : fminf(fmaxf(at, -(float)LARGEST), (float)LARGEST);
    int whole = whole_of(at);
    return (struct pair){{index_at(level, axis, whole), index_at(level, axis, whole + 1)},
                         rintf((at - floorf(at)) * 256) / 256};
}

static struct texel linear(const struct level *level, int axes, const float at[3], int layer)
{
    struct pair pairs[3] = {{{0, 0}, 0}, {{0, 0}, 0}, {{0, 0}, 0}};
    for (int axis = 0; axis < axes; axis++)
        pairs[axis] = pair_at(level, axis, at[axis]);
    struct texel sum = {{0}, {0}};
    for (int corner = 0; corner < 1 << axes; corner++) {
        int index[3];
        float weight = 1;
        for (int axis = 0; axis < 3; axis++) {
            int second = corner >> axis & 1;
            index[axis] = pairs[axis].index[second];
            weight *= second != 0 ? pairs[axis].weight : 1 - pairs[axis].weight;
        }
        if (weight == 0)
            continue;
        struct texel texel = texel_at(level, index, layer);
        for (int channel = 0; channel < 4; channel++)
            sum.value[channel] += weight * texel.value[channel];
    }
    return sum;
}

static struct texel sample_level(const struct vgc_texture *texture, uint32_t number, int axes, const float at[3],
                                 int layer)
{
    struct level level = level_of(texture, number);
    if ((texture->flags & VGC_READ_LINEAR) != 0 && !gives_integers(texture))
        return linear(&level, axes, at, layer);
    return nearest(&level, axes, at, layer);
}

/* Level of detail from the derivatives of the coordinates: the longer one, in texels of level 0. */
static float lod_of(const struct vgc_texture *texture, const struct vgc_sample *sample, int axes)
{
    float longest = 0;
    const float *derivatives[2] = {sample->dx, sample->dy};
    for (int i = 0; i < 2; i++) {
        float square = 0;
        for (int axis = 0; axis < axes; axis++)
            square += powf(derivatives[i][axis] * texture->scale[axis], 2);
        longest = fmaxf(longest, square);
    }
    return longest > 0 ? 0.5F * log2f(longest) : -INFINITY;
}

static struct texel sample_levels(const struct vgc_texture *texture, float detail, int axes, const float at[3],
                                  int layer)
{
    uint32_t last = texture->levels > 32 ? 31 : at_least_one(texture->levels) - 1;
    if (last == 0)
        return sample_level(texture, 0, axes, at, layer);
    float most = fminf(texture->max_level, (float)last);
    float level = fminf(fmaxf(detail + texture->bias, fmaxf(texture->min_level, 0)), fmaxf(most, 0));
    if ((texture->flags & VGC_READ_LINEAR_LEVELS) == 0)
        return sample_level(texture, (uint32_t)floorf(level + 0.5F), axes, at, layer);
    uint32_t whole = (uint32_t)floorf(level);
    float weight = rintf((level - (float)whole) * 256) / 256;
    struct texel texel = sample_level(texture, whole, axes, at, layer);
    if (weight == 0)
        return texel;
    struct texel next = sample_level(texture, whole + 1, axes, at, layer);
    for (int channel = 0; channel < 4; channel++)
        texel.value[channel] = (1 - weight) * texel.value[channel] + weight * next.value[channel];
    return texel;
}

/* Face of a cubemap that a direction points at, and the place on that face, from 0 to 1. */
static int face_of(const float d[3], float place[2])
{
    float x = fabsf(d[0]);
    float y = fabsf(d[1]);
    float z = fabsf(d[2]);
    int axis = x >= y && x >= z ? 0 : y >= z ? 1 : 2;
    bool negative = d[axis] < 0;
    float length = axis == 0 ? x : axis == 1 ? y : z;
    float s = axis == 0 ? (negative ? d[2] : -d[2]) : axis == 1 ? d[0] : negative ? -d[0] : d[0];
    float t = axis == 1 ? (negative ? -d[2] : d[2]) : -d[1];
    place[0] = length > 0 ? (s / length + 1) / 2 : 0.5F;
    place[1] = length > 0 ? (t / length + 1) / 2 : 0.5F;
    return 2 * axis + (negative ? 1 : 0);
}

static int bounded_layer(const struct vgc_texture *texture, int layer)
{
    int last = (int)at_least_one(texture->layers) - 1;
    return layer < 0 ? 0 : layer < last ? layer : last;
}

static struct texel sample_cube(const struct vgc_texture *texture, const struct vgc_sample *sample, float detail)
{
    struct vgc_texture flat = *texture;
    flat.flags |= VGC_READ_NORMALISED;
    memset(flat.address, VGC_ADDRESS_CLAMP, sizeof(flat.address));
    float at[3] = {0, 0, 0};
    int face = face_of(sample->at, at);
    int cubes = (int)at_least_one(texture->layers / 6);
    int cube = sample->layer < 0 ? 0 : sample->layer < cubes ? sample->layer : cubes - 1;
    return sample_levels(&flat, detail, 2, at, bounded_layer(texture, 6 * cube + face));
}

/* Texel of linear memory; 0 outside. */
static struct texel fetch(const struct vgc_texture *texture, int index)
{
    if ((uint32_t)index >= texture->width)
        return (struct texel){{0}, {0}};
    struct level level = level_of(texture, 0);
    return texel_at(&level, (int[3]){index, 0, 0}, 0);
}

/* One channel of four texels, counter-clockwise from the lower left one. */
static struct texel gather(const struct vgc_texture *texture, const struct vgc_sample *sample)
{
    struct level level = level_of(texture, 0);
    struct pair x = pair_at(&level, 0, sample->at[0]);
    struct pair y = pair_at(&level, 1, sample->at[1]);
    int channel = sample->layer & 3;
    static const int corners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    struct texel gathered;
    for (int i = 0; i < 4; i++) {
        struct texel texel = texel_at(&level, (int[3]){x.index[corners[i][0]], y.index[corners[i][1]], 0}, 0);
        gathered.value[i] = texel.value[channel];
        gathered.integer[i] = texel.integer[channel];
    }
    return gathered;
}

static struct texel sample_any(const struct vgc_texture *texture, const struct vgc_sample *sample)
{
    if (sample->how == VGC_SAMPLE_FETCH)
        return fetch(texture, sample->layer);
    if (sample->how == VGC_SAMPLE_GATHER)
        return gather(texture, sample);
    int axes = sample->shape == VGC_SAMPLE_1D ? 1 : sample->shape == VGC_SAMPLE_2D ? 2 : 3;
    float detail = sample->how == VGC_SAMPLE_GRADIENT ? lod_of(texture, sample, axes) : sample->detail;
    if (sample->shape == VGC_SAMPLE_CUBE)
        return sample_cube(texture, sample, detail);
    return sample_levels(texture, detail, axes, sample->at, bounded_layer(texture, sample->layer));
}

struct vgc_channels __vgc_texture_sample(unsigned long long object, const struct vgc_sample *sample)
{
    struct vgc_channels channels;
    const struct vgc_texture *texture = texture_of(object);
    struct texel texel = sample_any(texture, sample);
    memcpy(&channels, gives_integers(texture) ? (const void *)texel.integer : (const void *)texel.value,
           sizeof(channels));
    return channels;
}

static int64_t clamped(int64_t at, int64_t most)
{
    return at < 0 ? 0 : at < most ? at : most < 0 ? 0 : most;
}

unsigned long long __vgc_surface_outside(unsigned long long object, int x, int y, int z, unsigned size, int mode)
{
    const struct vgc_texture *surface = (const struct vgc_texture *)(uintptr_t)object;
    if (object % 8 != 0 || surface->magic != VGC_SURFACE_MAGIC)
        refuse(object, "surface");
    if (mode == VGC_BOUNDARY_ZERO)
        return 0;
    if (mode == VGC_BOUNDARY_CLAMP)
        return surface->data + (uint64_t)clamped(x, (int64_t)surface->width * surface->raw - size) +
               (uint64_t)clamped(y, (int64_t)surface->height - 1) * surface->pitch +
               (uint64_t)clamped(z, (int64_t)surface->layers - 1) * surface->slice;
    struct cpu_pe *pe = cpu_current_pe();
    char where[160];
    cpu_describe(pe, where, sizeof(where));
    cpu_fail_launch(pe, VGC_STATUS_FAULT, "byte %d of row %d of slice %d is outside of surface 0x%llx in %s", x, y, z,
                    object, where);
}
