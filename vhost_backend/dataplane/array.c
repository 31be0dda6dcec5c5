/* ARRAY_CREATE, ARRAY_DESTROY, COPY_BOX: arrays are allocations that only textures, surfaces and boxes may use. Boxes
 * may lie in memory on both sides, too. */
#include "internal.h"

#include <stdio.h>

/* ---- shapes ------------------------------------------------------------------------------------------------- */

static uint32_t texel_bytes(const struct vgc_body_array_create *shape)
{
    return shape->channels * shape->bits / 8;
}

static uint32_t at_least_one(uint32_t value)
{
    return value != 0 ? value : 1;
}

struct vgc_array_level vgc_array_level_of(const struct vgc_body_array_create *shape, uint32_t number)
{
    bool is_flat = (shape->flags & (VGC_ARRAY_FLAG_LAYERED | VGC_ARRAY_FLAG_CUBEMAP)) != 0;
    uint32_t depth = at_least_one(shape->depth);
    struct vgc_array_level level = {.width = shape->width,
                                    .height = at_least_one(shape->height),
                                    .depth = is_flat ? 1 : depth,
                                    .layers = is_flat ? depth : 1};
    for (uint32_t i = 0;; i++) {
        level.pitch = (uint64_t)level.width * texel_bytes(shape);
        level.slice = level.pitch * level.height;
        if (i == number)
            return level;
        level.offset += level.slice * level.depth * level.layers;
        level.width = at_least_one(level.width / 2);
        level.height = at_least_one(level.height / 2);
        level.depth = at_least_one(level.depth / 2);
    }
}

static bool is_format(uint32_t kind, uint32_t bits, uint32_t channels)
{
    bool has_bits = bits == 32 || bits == 16 || (bits == 8 && kind != VGC_CHANNEL_KIND_FLOAT);
    return kind <= VGC_CHANNEL_KIND_FLOAT && has_bits && (channels == 1 || channels == 2 || channels == 4);
}

static bool is_cubemap(const struct vgc_body_array_create *shape)
{
    bool layered = (shape->flags & VGC_ARRAY_FLAG_LAYERED) != 0;
    return shape->width == shape->height && shape->depth != 0 && (layered ? shape->depth % 6 == 0 : shape->depth == 6);
}

/* Number of levels down to one of a single texel. */
static uint32_t most_levels(const struct vgc_body_array_create *shape)
{
    struct vgc_array_level level = vgc_array_level_of(shape, 0);
    uint32_t longest = level.width | level.height | level.depth;
    return 32 - (uint32_t)__builtin_clz(longest);
}

/* Reason why no array can have this shape, or NULL. */
static const char *fault_of(const struct vgc_body_array_create *shape)
{
    const uint32_t known =
        VGC_ARRAY_FLAG_LAYERED | VGC_ARRAY_FLAG_SURFACE | VGC_ARRAY_FLAG_CUBEMAP | VGC_ARRAY_FLAG_GATHER;
    bool layered = (shape->flags & VGC_ARRAY_FLAG_LAYERED) != 0;
    if ((shape->flags & ~known) != 0)
        return "unknown flags";
    if (!is_format(shape->kind, shape->bits, shape->channels))
        return "a format that does not exist; allowed: 1, 2 or 4 channels of 8, 16 or 32 bits, floats of 16 or 32";
    if (shape->width == 0 || shape->width > VGC_MAX_ARRAY_EXTENT || shape->height > VGC_MAX_ARRAY_EXTENT ||
        shape->depth > VGC_MAX_ARRAY_DEPTH)
        return "extents that are too large, or no width";
    if ((shape->flags & VGC_ARRAY_FLAG_CUBEMAP) != 0 ? !is_cubemap(shape) : layered && shape->depth == 0)
        return "no whole number of layers or cubes";
    if (shape->depth != 0 && shape->height == 0 && !layered)
        return "slices without rows";
    if (shape->levels == 0 || shape->levels > most_levels(shape))
        return "more levels than its extents have, or none";
    return NULL;
}

uint64_t vgc_array_bytes(const struct vgc_body_array_create *shape, char *why)
{
    const char *fault = fault_of(shape);
    if (fault != NULL) {
        snprintf(why, VGC_DP_WHY, "an array of %u x %u x %u texels, %u levels, flags %#x has %s", shape->width,
                 shape->height, shape->depth, shape->levels, shape->flags, fault);
        return 0;
    }
    struct vgc_array_level last = vgc_array_level_of(shape, shape->levels - 1);
    return last.offset + last.slice * last.depth * last.layers;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

/* Makes an array that is an allocation. False: the request was answered. */
static bool take_texels(struct vgc_dp *dp, struct vgc_req *req, uint64_t bytes, struct vgc_array *array)
{
    if (!vgc_alloc_take(dp, req, bytes, VGC_ALLOC_ARRAY, &array->address))
        return false;
    req->response.aux = vgc_charge_of(dp, bytes);
    return true;
}

void vgc_serve_array_create(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_array_create *shape = &req->body.array_create;
    char why[VGC_DP_WHY];
    uint32_t index = 0;
    if (!vgc_has_textures(dp)) {
        vgc_fail(dp, req, VGC_STATUS_UNSUPPORTED, "the engine %s has no arrays", dp->engine->ops->name);
        return;
    }
    uint64_t bytes = vgc_array_bytes(shape, why);
    if (bytes == 0) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%s", why);
        return;
    }
    while (index < VGC_MAX_ARRAYS && dp->arrays[index].id != 0)
        index++;
    if (index == VGC_MAX_ARRAYS) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d arrays exist; that is the limit", VGC_MAX_ARRAYS);
        return;
    }
    struct vgc_array made = {
        .serial = dp->arrays[index].serial, .context = vgc_context_number(dp, req->context), .shape = *shape};
    if (!(vgc_makes_objects(dp) ? vgc_array_make(dp, req, &made) : take_texels(dp, req, bytes, &made)))
        return;
    made.id = vgc_make_id(&made.serial, index);
    dp->arrays[index] = made;
    vgc_complete_value(dp, req, made.id);
}

struct vgc_array *vgc_array_of(struct vgc_dp *dp, struct vgc_req *req, uint32_t id)
{
    uint32_t index = vgc_index_of(id);
    if (index < VGC_MAX_ARRAYS && dp->arrays[index].id == id && !dp->arrays[index].dying &&
        dp->arrays[index].context == vgc_context_number(dp, req->context))
        return &dp->arrays[index];
    vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "context %u has no array %u", req->request.context, id);
    return NULL;
}

static void destroy_now(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_array *array = &dp->arrays[vgc_index_of(req->body.array.array)];
    vgc_alloc_drop(dp, vgc_alloc_at(dp, array->address));
    *array = (struct vgc_array){.serial = array->serial};
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

/* Destroys the array when all earlier requests of all streams are done; later requests may not name it. */
void vgc_serve_array_destroy(struct vgc_dp *dp, struct vgc_req *req)
{
    if (req->body.array.reserved != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", req->body.array.reserved);
        return;
    }
    struct vgc_array *array = vgc_array_of(dp, req, req->body.array.array);
    if (array == NULL)
        return;
    array->dying = true;
    dp->removals++;
    vgc_line_wait(dp, req, destroy_now);
}

void vgc_arrays_drop_of(struct vgc_dp *dp, uint32_t context)
{
    for (uint32_t i = 0; i < VGC_MAX_ARRAYS; i++)
        if (dp->arrays[i].id != 0 && dp->arrays[i].context == context)
            dp->arrays[i] = (struct vgc_array){.serial = dp->arrays[i].serial};
}

/* ---- COPY_BOX ----------------------------------------------------------------------------------------------- */

/* One side of a copy, in the order of the wire format. */
struct side {
    uint64_t address;
    uint64_t pitch;
    uint64_t slice;
    uint32_t array;
    uint32_t level;
    uint32_t x;
    uint32_t y;
    uint32_t z;
    uint32_t reserved;
};

_Static_assert(offsetof(struct vgc_body_copy_box, src) == sizeof(struct side), "struct side");
_Static_assert(offsetof(struct vgc_body_copy_box, width) == 2 * sizeof(struct side), "struct side");

static bool is_inside(uint32_t first, uint32_t count, uint64_t size)
{
    return first <= size && count <= size - first;
}

/* Finds address and distances of a side that is an array, or its place in an array of the engine's. */
static bool place_in_array(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_copy_box *box,
                           struct side *side, struct vgc_array_place *place)
{
    if (side->address != 0 || side->pitch != 0 || side->slice != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "address, pitch and slice of an array must be 0");
        return false;
    }
    const struct vgc_array *array = vgc_array_of(dp, req, side->array);
    if (array == NULL)
        return false;
    if (side->level >= array->shape.levels) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "level %u; the array has %u", side->level, array->shape.levels);
        return false;
    }
    struct vgc_array_level level = vgc_array_level_of(&array->shape, side->level);
    if (!is_inside(side->x, box->width, level.pitch) || !is_inside(side->y, box->height, level.height) ||
        !is_inside(side->z, box->depth, (uint64_t)level.depth * level.layers)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ADDRESS,
                 "a box of %u bytes x %u x %u at (%u, %u, %u) does not lie in level %u of array %u", box->width,
                 box->height, box->depth, side->x, side->y, side->z, side->level, side->array);
        return false;
    }
    uint32_t texel = texel_bytes(&array->shape);
    if (side->x % texel != 0 || box->width % texel != 0) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%u bytes at byte %u of a row; the array's texels have %u bytes",
                 box->width, side->x, texel);
        return false;
    }
    *place = (struct vgc_array_place){array->handle, side->level, side->x, side->y, side->z};
    if (array->handle != NULL)
        return true;
    side->address = array->address + level.offset + side->x + side->y * level.pitch + side->z * level.slice;
    side->pitch = level.pitch;
    side->slice = level.slice;
    return true;
}

/* Checks a side that is device memory. */
static bool check_memory(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_copy_box *box,
                         const struct side *side)
{
    uint64_t slices;
    uint64_t rows;
    uint64_t bytes;
    if ((side->level | side->x | side->y | side->z) != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "level, x, y and z of device memory must be 0");
        return false;
    }
    if ((box->height > 1 && side->pitch < box->width) || (box->depth > 1 && side->slice / box->height < side->pitch) ||
        (box->depth > 1 && side->slice < box->width)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "rows of %u bytes overlap with pitch %lu and slice %lu",
                 box->width, (unsigned long)side->pitch, (unsigned long)side->slice);
        return false;
    }
    if (__builtin_mul_overflow(side->slice, (uint64_t)box->depth - 1, &slices) ||
        __builtin_mul_overflow(side->pitch, (uint64_t)box->height - 1, &rows) ||
        __builtin_add_overflow(slices, rows, &bytes) || __builtin_add_overflow(bytes, box->width, &bytes))
        bytes = UINT64_MAX;
    return vgc_check_range(dp, req, side->address, bytes);
}

static bool place_side(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_copy_box *box, struct side *side,
                       struct vgc_array_place *place)
{
    return side->array != 0 ? place_in_array(dp, req, box, side, place) : check_memory(dp, req, box, side);
}

static bool meets(uint32_t a, uint32_t b, uint32_t count)
{
    return a < b ? b - a < count : a - b < count;
}

/* True if the copy reads bytes of an array that it also writes. */
static bool overlaps(const struct vgc_body_copy_box *box)
{
    return box->dst_array != 0 && box->dst_array == box->src_array && box->dst_level == box->src_level &&
           meets(box->dst_x, box->src_x, box->width) && meets(box->dst_y, box->src_y, box->height) &&
           meets(box->dst_z, box->src_z, box->depth);
}

bool vgc_prepare_copy_box(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_copy_box *box,
                          struct vgc_op *op)
{
    struct side dst;
    struct side src;
    memcpy(&dst, &box->dst, sizeof(dst));
    memcpy(&src, &box->src, sizeof(src));
    if ((dst.reserved | src.reserved | box->reserved) != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved fields must be 0");
        return false;
    }
    if (!vgc_has_textures(dp)) {
        vgc_fail(dp, req, VGC_STATUS_UNSUPPORTED, "the engine %s copies no boxes", dp->engine->ops->name);
        return false;
    }
    if (overlaps(box)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "the boxes overlap; allowed: two boxes apart");
        return false;
    }
    bool is_empty = box->width == 0 || box->height == 0 || box->depth == 0;
    if (is_empty) {
        op->kind = VGC_OPK_MARKER;
        return true;
    }
    struct vgc_array_place to = {0};
    struct vgc_array_place from = {0};
    if (!place_side(dp, req, box, &dst, &to) || !place_side(dp, req, box, &src, &from))
        return false;
    op->dst = dst.address;
    op->src = src.address;
    op->size = (uint64_t)box->width * box->height * box->depth;
    op->box =
        (struct vgc_box){dst.pitch, dst.slice, src.pitch, src.slice, box->width, box->height, box->depth, to, from};
    return true;
}

void vgc_serve_copy_box(struct vgc_dp *dp, struct vgc_req *req)
{
    vgc_op_init(req, &req->op, VGC_OPK_COPY_BOX);
    if (vgc_prepare_copy_box(dp, req, &req->body.copy_box, &req->op))
        vgc_submit_prepared(dp, req);
}
