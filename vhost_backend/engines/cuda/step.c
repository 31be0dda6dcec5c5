/* Operations that one batch of driver calls cannot do: they are done in steps, alone in their lane.
 *
 *   copies with guest memory that is not registered   the driver may wait for their stream, which must be idle then
 *   copies within the VM's region                     the driver would do them at once, out of order
 *   overlapping copies within GPU memory              need a scratch buffer
 *   boxes that one call cannot copy                   see boxes.c
 */
#include "cuda_engine.h"

#include <string.h>

enum { HOST_STEP = 256 << 10, PAGEABLE_STEP = 1 << 20, MOVES_PER_STEP = 8 };

static bool overlaps(const struct vgc_op *op)
{
    return op->dst < op->src + op->size && op->src < op->dst + op->size;
}

static bool is_unregistered(const struct cuda_engine *engine, const struct vgc_op *op)
{
    for (uint32_t i = 0; i < op->num_spans; i++)
        if (!cuda_is_registered(engine, op->spans[i].base, op->spans[i].len))
            return true;
    return false;
}

static bool must_step(const struct cuda_engine *engine, const struct vgc_op *op)
{
    switch (op->kind) {
    case VGC_OPK_COPY_IN:
        return cuda_host_of(engine, op->dst) != NULL || is_unregistered(engine, op);
    case VGC_OPK_COPY_OUT:
        return cuda_host_of(engine, op->src) != NULL || is_unregistered(engine, op);
    case VGC_OPK_COPY_DEVICE:
        return overlaps(op) || (cuda_host_of(engine, op->src) != NULL && cuda_host_of(engine, op->dst) != NULL);
    case VGC_OPK_COPY_BOX:
        return cuda_box_in_steps(engine, op);
    default:
        return false;
    }
}

static bool is_copy(const struct vgc_op *op)
{
    return op->kind == VGC_OPK_COPY_IN || op->kind == VGC_OPK_COPY_OUT || op->kind == VGC_OPK_COPY_DEVICE ||
           op->kind == VGC_OPK_COPY_BOX;
}

void cuda_note_steps(const struct cuda_engine *engine, struct vgc_op *op)
{
    if (is_copy(op))
        op->engine_private = must_step(engine, op) ? op : NULL;
    op->calls = cuda_builtin_cost(engine, op);
}

bool cuda_in_steps(const struct vgc_op *op)
{
    return is_copy(op) && op->engine_private != NULL;
}

/* ---- copies with guest memory ------------------------------------------------------------------------------- */

/* Contiguous bytes of the payload from `moved` on. */
static struct vgc_span piece_at(const struct vgc_op *op, uint64_t moved, uint64_t limit)
{
    uint32_t i = 0;
    while (moved >= op->spans[i].len)
        moved -= op->spans[i++].len;
    uint64_t len = op->spans[i].len - moved;
    return (struct vgc_span){.base = op->spans[i].base + moved, .len = len < limit ? len : limit};
}

static drv_result step_payload(struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op,
                               bool *submitted)
{
    bool in = op->kind == VGC_OPK_COPY_IN;
    uint64_t device = (in ? op->dst : op->src) + lane->moved;
    uint8_t *host = cuda_host_of(engine, device);
    struct vgc_span piece = piece_at(op, lane->moved, host != NULL ? HOST_STEP : PAGEABLE_STEP);
    if (host != NULL) {
        memmove(in ? host : piece.base, in ? piece.base : host, piece.len);
        lane->moved += piece.len;
        return DRV_SUCCESS;
    }
    *submitted = true;
    if (lane->stream->allocs_seen != engine->allocs && !cuda_zero_is_done(engine))
        return cuda_follow_allocs(engine, lane->stream); /* a step of its own: the stream must be idle */
    lane->moved += piece.len;
    return in ? engine->driver.cuMemcpyHtoDAsync_v2(device, piece.base, piece.len, lane->stream->handle)
              : engine->driver.cuMemcpyDtoHAsync_v2(piece.base, device, piece.len, lane->stream->handle);
}

/* ---- copies within device memory ---------------------------------------------------------------------------- */

/* Copies within the host's memory, overlapping ranges in a single step. */
static drv_result step_host(const struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op)
{
    uint64_t left = op->size - lane->moved;
    uint64_t len = overlaps(op) || left < HOST_STEP ? left : HOST_STEP;
    memmove(cuda_host_of(engine, op->dst + lane->moved), cuda_host_of(engine, op->src + lane->moved), len);
    lane->moved += len;
    return DRV_SUCCESS;
}

/* Copies a part through the scratch buffer, beginning at the end that is not overwritten first. */
static drv_result move_part(struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op)
{
    const struct cuda_driver *driver = &engine->driver;
    uint64_t left = op->size - lane->moved;
    uint64_t len = left < CUDA_SCRATCH ? left : CUDA_SCRATCH;
    uint64_t offset = op->dst < op->src ? lane->moved : left - len;
    drv_result error = driver->cuMemcpyDtoDAsync_v2(engine->scratch, op->src + offset, len, lane->stream->handle);
    if (error == DRV_SUCCESS)
        error = driver->cuMemcpyDtoDAsync_v2(op->dst + offset, engine->scratch, len, lane->stream->handle);
    lane->moved += len;
    return error;
}

static drv_result step_move(struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op,
                            bool *submitted)
{
    drv_result error = DRV_SUCCESS;
    engine->scratch_user = lane;
    *submitted = true;
    for (int i = 0; i < MOVES_PER_STEP && lane->moved < op->size && error == DRV_SUCCESS; i++)
        error = move_part(engine, lane, op);
    return error;
}

/* ---- steps -------------------------------------------------------------------------------------------------- */

bool cuda_scratch_is_taken(const struct cuda_engine *engine, const struct cuda_lane *lane, const struct vgc_op *op)
{
    return op->kind == VGC_OPK_COPY_DEVICE && engine->scratch_user != NULL && engine->scratch_user != lane;
}

drv_result cuda_step(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op, bool *submitted)
{
    if (op->kind == VGC_OPK_COPY_BOX)
        return cuda_step_box(engine, lane, op, submitted);
    if (op->kind != VGC_OPK_COPY_DEVICE)
        return step_payload(engine, lane, op, submitted);
    if (cuda_host_of(engine, op->src) != NULL)
        return step_host(engine, lane, op);
    drv_result error = cuda_follow_allocs(engine, lane->stream);
    if (error != DRV_SUCCESS)
        return error;
    return step_move(engine, lane, op, submitted);
}

void cuda_steps_end(struct cuda_engine *engine, struct cuda_lane *lane)
{
    if (engine->scratch_user == lane)
        engine->scratch_user = NULL;
}
