/* Fourier transforms by the host's cuFFT. Checks are as in libraries.c. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>
#include <inttypes.h>

#define AXIS(array, axis, meaning)                                                                                     \
    {#array #axis, offsetof(struct vgc_cufft_params, array[axis]), 8, VGC_KIND_INTEGER, VGC_USE_VALUE, meaning}
#define LAYOUT_AXIS(side, axis, meaning)                                                                               \
    {#side "_embed" #axis,                                                                                             \
     offsetof(struct vgc_cufft_params, side.embed[axis]),                                                              \
     8,                                                                                                                \
     VGC_KIND_INTEGER,                                                                                                 \
     VGC_USE_VALUE,                                                                                                    \
     meaning}
#define LAYOUT_NUMBER(side, field, meaning)                                                                            \
    {#side "_" #field, offsetof(struct vgc_cufft_params, side.field), 8, VGC_KIND_INTEGER, VGC_USE_VALUE, meaning}
#define LAYOUT(side, array)                                                                                            \
    LAYOUT_AXIS(side, 0, "not looked at"),                                                                             \
        LAYOUT_AXIS(side, 1, "rows of " array " from one index of the first axis to the next"),                        \
        LAYOUT_AXIS(side, 2, "elements of " array " from one index of the second axis to the next, in strides"),       \
        LAYOUT_NUMBER(side, stride, "elements of " array " from one to the next along the last axis"),                 \
        LAYOUT_NUMBER(side, distance, "elements of " array " from one transform to the next")

static const struct vgc_builtin_param TRANSFORM[] = {
    VGC_PARAM(vgc_cufft_params, in, POINTER, INOUT, "what is transformed; transforms to real numbers overwrite it"),
    VGC_PARAM(vgc_cufft_params, out, POINTER, OUT, "results; may be in"),
    VGC_PARAM(vgc_cufft_params, batch, INTEGER, VALUE, "number of transforms"),
    AXIS(n, 0, "length of the first axis"),
    AXIS(n, 1, "length of the second axis; 1 if rank is 1"),
    AXIS(n, 2, "length of the third axis; 1 if rank is 1 or 2"),
    LAYOUT(from, "in"),
    LAYOUT(to, "out"),
    VGC_PARAM(vgc_cufft_params, rank, INTEGER, VALUE, "number of axes, 1 to 3"),
    VGC_PARAM(vgc_cufft_params, type, INTEGER, VALUE, "cufftType"),
    VGC_PARAM(vgc_cufft_params, inverse, INTEGER, VALUE, "1: inverse, not divided; 0: forward, or the type says it"),
};

/* cufftType */
enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };

static bool is_from_real(int32_t type)
{
    return type == R2C || type == D2Z;
}

static bool is_to_real(int32_t type)
{
    return type == C2R || type == Z2D;
}

static bool is_double(int32_t type)
{
    return type == D2Z || type == Z2D || type == Z2Z;
}

static bool check_kind(struct vgc_check *check, const struct vgc_cufft_params *p)
{
    bool has_direction = p->type == C2C || p->type == Z2Z;
    if (!has_direction && !is_from_real(p->type) && !is_to_real(p->type))
        return vgc_check_refuse(check, "type is %" PRId32 "; allowed: cufftType, 41, 42, 44, 105, 106, 108", p->type);
    if (p->inverse < 0 || p->inverse > has_direction)
        return vgc_check_refuse(check, "inverse is %" PRId32 "; allowed: 0%s", p->inverse,
                                has_direction ? " and 1" : ", as the type says it");
    return vgc_check_number(check, &p->rank, 1, VGC_CUFFT_RANK, "");
}

static bool check_lengths(struct vgc_check *check, const struct vgc_cufft_params *p)
{
    for (int32_t i = 0; i < VGC_CUFFT_RANK; i++)
        if (!vgc_check_number(check, &p->n[i], 1, i < p->rank ? INT32_MAX : 1, ""))
            return false;
    return vgc_check_number(check, &p->batch, 1, INT32_MAX, "");
}

/* Length of an axis on the side of an array whose last axis has half of the numbers, or all. */
static int64_t length_of(const struct vgc_cufft_params *p, int64_t axis, bool is_half)
{
    return is_half && axis + 1 == p->rank ? p->n[axis] / 2 + 1 : p->n[axis];
}

/* Elements from the first to behind the last one of an array; false: its layout is not allowed. */
static bool check_extent(struct vgc_check *check, const struct vgc_cufft_params *p,
                         const struct vgc_cufft_layout *layout, bool is_half, uint64_t *extent)
{
    if (!vgc_check_number(check, &layout->stride, 1, INT32_MAX, "") ||
        !vgc_check_number(check, &layout->distance, 0, VGC_BUILTIN_LONGEST, ""))
        return false;
    unsigned __int128 last = (unsigned __int128)(p->batch - 1) * (uint64_t)layout->distance;
    uint64_t step = (uint64_t)layout->stride;
    for (int64_t i = p->rank - 1; i > 0; i--) {
        int64_t length = length_of(p, i, is_half);
        last += (unsigned __int128)step * (uint64_t)(length - 1);
        if (!vgc_check_number(check, &layout->embed[i], length, INT32_MAX, "from the axis' length on"))
            return false;
        if (__builtin_mul_overflow(step, (uint64_t)layout->embed[i], &step))
            return vgc_check_refuse(check, "an array reaches further than there are addresses");
    }
    last += (unsigned __int128)step * (uint64_t)(length_of(p, 0, is_half) - 1);
    *extent = last >> 60 != 0 ? UINT64_MAX : (uint64_t)last + 1;
    return true;
}

/* An array, real numbers aligned as complex ones are, which cuFFT expects of both. */
static bool check_side(struct vgc_check *check, const struct vgc_cufft_params *p, const uint64_t *address,
                       const struct vgc_cufft_layout *layout, bool is_real)
{
    uint32_t complex_bytes = is_double(p->type) ? 16 : 8;
    bool is_half = !is_real && (is_from_real(p->type) || is_to_real(p->type));
    uint64_t extent = 0;
    if (*address % complex_bytes != 0)
        return vgc_check_refuse(check, "an array begins at 0x%" PRIx64 "; allowed: multiples of %" PRIu32, *address,
                                complex_bytes);
    return check_extent(check, p, layout, is_half, &extent) &&
           vgc_check_array(check, address, extent, is_real ? complex_bytes / 2 : complex_bytes);
}

static int check_transform(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                           char *why)
{
    const struct vgc_cufft_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = check_kind(&check, p) && check_lengths(&check, p) &&
                      check_side(&check, p, &p->in, &p->from, is_from_real(p->type)) &&
                      check_side(&check, p, &p->out, &p->to, is_to_real(p->type));
    return is_allowed ? 0 : -EINVAL;
}

static const struct vgc_builtin CUFFT[] = {{.name = "cufft.transform",
                                            .summary = "Fourier transforms by the host's cuFFT",
                                            .function = VGC_FN_CUFFT_TRANSFORM,
                                            .type = VGC_TYPE_F32,
                                            VGC_TAKES(vgc_cufft_params, TRANSFORM),
                                            .check = check_transform}};

const struct vgc_builtin_group vgc_library_cufft = {"cufft", "cuFFT of the host", CUFFT, VGC_LENGTH_OF(CUFFT)};
