/* Copies of boxes: rows of bytes in memory, in the VM's region or in arrays.
 *
 * The driver counts the distance of slices in rows. A box in memory whose slices have another distance, or rows further
 * apart than its largest pitch, is copied slice by slice, or row by row; a box within the VM's region by the processor,
 * as the driver would copy it at once, out of order. */
#include "cuda_engine.h"

#include <string.h>

enum { HOST_STEP = 256 << 10, COPIES_PER_STEP = 16 };

/* One side of a box in memory, or its place in an array. */
struct side {
    uint64_t address;
    uint64_t pitch;
    uint64_t slice;
    struct vgc_array_place place;
};

static struct side dst_of(const struct vgc_op *op)
{
    return (struct side){op->dst, op->box.dst_pitch, op->box.dst_slice, op->box.to};
}

static struct side src_of(const struct vgc_op *op)
{
    return (struct side){op->src, op->box.src_pitch, op->box.src_slice, op->box.from};
}

/* ---- what one call can copy --------------------------------------------------------------------------------- */

/* Distance of rows: that of slices if each has one row, as the distance of rows has no meaning then. */
static uint64_t pitch_of(const struct side *side, const struct vgc_box *box)
{
    if (box->height > 1)
        return side->pitch;
    return box->depth > 1 ? side->slice : box->width;
}

static bool is_regular(const struct cuda_engine *engine, const struct side *side, const struct vgc_box *box)
{
    uint64_t pitch = pitch_of(side, box);
    if (side->place.array != NULL)
        return true;
    return pitch <= engine->max_pitch && (box->depth == 1 || box->height == 1 || side->slice % pitch == 0);
}

static bool is_in_region(const struct cuda_engine *engine, const struct side *side)
{
    return side->place.array == NULL && cuda_host_of(engine, side->address) != NULL;
}

bool cuda_box_in_steps(const struct cuda_engine *engine, const struct vgc_op *op)
{
    struct side dst = dst_of(op);
    struct side src = src_of(op);
    return (is_in_region(engine, &dst) && is_in_region(engine, &src)) || !is_regular(engine, &dst, &op->box) ||
           !is_regular(engine, &src, &op->box);
}

/* ---- calls -------------------------------------------------------------------------------------------------- */

static struct drv_box_side side_of(const struct cuda_engine *engine, const struct side *side, const struct vgc_box *box)
{
    if (side->place.array != NULL) {
        const struct cuda_array *array = side->place.array;
        return (struct drv_box_side){.type = DRV_MEMORY_ARRAY,
                                     .array = array->levels[side->place.level],
                                     .x = side->place.x,
                                     .y = side->place.y,
                                     .z = side->place.z};
    }
    uint8_t *host = cuda_host_of(engine, side->address);
    uint64_t pitch = pitch_of(side, box);
    return (struct drv_box_side){.type = host != NULL ? DRV_MEMORY_HOST : DRV_MEMORY_DEVICE,
                                 .host = host,
                                 .address = host != NULL ? 0 : side->address,
                                 .pitch = pitch,
                                 .height = box->depth > 1 && box->height > 1 ? side->slice / pitch : box->height};
}

static drv_result copy(const struct cuda_engine *engine, drv_stream stream, const struct side *dst,
                       const struct side *src, const struct vgc_box *box)
{
    struct drv_copy_box call = {
        .from = side_of(engine, src, box),
        .to = side_of(engine, dst, box),
        .width = box->width,
        .height = box->height,
        .depth = box->depth,
    };
    return engine->driver.cuMemcpy3DAsync_v2((const void *)&call, stream);
}

drv_result cuda_submit_box(const struct cuda_engine *engine, drv_stream stream, const struct vgc_op *op)
{
    struct side dst = dst_of(op);
    struct side src = src_of(op);
    return copy(engine, stream, &dst, &src, &op->box);
}

/* ---- steps -------------------------------------------------------------------------------------------------- */

/* Moves a side to row y of slice z of its box. */
static struct side moved_by(struct side side, uint64_t y, uint64_t z)
{
    side.address += y * side.pitch + z * side.slice;
    side.place.y += (uint32_t)y;
    side.place.z += (uint32_t)z;
    return side;
}

static drv_result step_in_region(struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op)
{
    const struct vgc_box *box = &op->box;
    uint64_t len;
    for (uint64_t done = 0; done < HOST_STEP && lane->moved < op->size; done += len) {
        uint64_t row = lane->moved / box->width;
        uint64_t at = lane->moved % box->width;
        struct side dst = moved_by(dst_of(op), row % box->height, row / box->height);
        struct side src = moved_by(src_of(op), row % box->height, row / box->height);
        len = box->width - at < HOST_STEP - done ? box->width - at : HOST_STEP - done;
        memmove(cuda_host_of(engine, dst.address + at), cuda_host_of(engine, src.address + at), len);
        lane->moved += len;
    }
    return DRV_SUCCESS;
}

drv_result cuda_step_box(struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op, bool *submitted)
{
    struct side dst = dst_of(op);
    struct side src = src_of(op);
    struct vgc_box part = op->box;
    if (is_in_region(engine, &dst) && is_in_region(engine, &src))
        return step_in_region(engine, lane, op);
    *submitted = true;
    part.depth = 1;
    if (!is_regular(engine, &dst, &part) || !is_regular(engine, &src, &part))
        part.height = 1;
    drv_result error = cuda_follow_allocs(engine, lane->stream);
    for (int i = 0; i < COPIES_PER_STEP && lane->moved < op->size && error == DRV_SUCCESS; i++) {
        uint64_t row = lane->moved / part.width;
        struct side to = moved_by(dst, row % op->box.height, row / op->box.height);
        struct side from = moved_by(src, row % op->box.height, row / op->box.height);
        error = copy(engine, lane->stream->handle, &to, &from, &part);
        lane->moved += (uint64_t)part.width * part.height;
    }
    return error;
}
