/* Driver calls of an operation in a CUstream. None of them waits for the GPU. */
#include "cuda_engine.h"

enum { SEED_BYTES = 64 << 10, WIDE_FILL_COST = 64, STEP_COST = 16 };

uint32_t cuda_node_cost(const struct vgc_op *op)
{
    if (cuda_in_steps(op))
        return STEP_COST;
    if (op->calls != 0)
        return op->calls;
    if (op->kind == VGC_OPK_FILL)
        return op->unit == 8 ? WIDE_FILL_COST : 1;
    return op->kind == VGC_OPK_COPY_IN || op->kind == VGC_OPK_COPY_OUT ? op->num_spans : 1;
}

uint32_t cuda_cost(const struct vgc_op *op)
{
    return op->nodes != NULL ? CUDA_BATCH : cuda_node_cost(op);
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

static drv_result copy_spans(const struct cuda_driver *driver, drv_stream stream, const struct vgc_op *op)
{
    drv_result error = DRV_SUCCESS;
    uint64_t done = 0;
    for (uint32_t i = 0; i < op->num_spans && error == DRV_SUCCESS; i++) {
        const struct vgc_span *span = &op->spans[i];
        error = op->kind == VGC_OPK_COPY_IN
                    ? driver->cuMemcpyHtoDAsync_v2(op->dst + done, span->base, span->len, stream)
                    : driver->cuMemcpyDtoHAsync_v2(span->base, op->src + done, span->len, stream);
        done += span->len;
    }
    return error;
}

/* At most one of the ranges is on the host: copies within the host's memory are done in steps. */
static drv_result copy_device(const struct cuda_engine *engine, drv_stream stream, const struct vgc_op *op)
{
    const struct cuda_driver *driver = &engine->driver;
    uint8_t *from = cuda_host_of(engine, op->src);
    uint8_t *to = cuda_host_of(engine, op->dst);
    if (from != NULL)
        return driver->cuMemcpyHtoDAsync_v2(op->dst, from, op->size, stream);
    if (to != NULL)
        return driver->cuMemcpyDtoHAsync_v2(to, op->src, op->size, stream);
    return driver->cuMemcpyDtoDAsync_v2(op->dst, op->src, op->size, stream);
}

/* ---- fills -------------------------------------------------------------------------------------------------- */

/* Fills with 8-byte patterns, as the driver has only up to 4 bytes: the first bytes are filled with two strided fills
 * of words, the rest is copied from them, twice as much each time. */
static drv_result fill_wide(const struct cuda_driver *driver, drv_stream stream, const struct vgc_op *op)
{
    uint64_t done = op->size < SEED_BYTES ? op->size : SEED_BYTES;
    uint32_t low = (uint32_t)op->value;
    uint32_t high = (uint32_t)(op->value >> 32);
    drv_result error = driver->cuMemsetD2D32Async(op->dst, 8, low, 1, done / 8, stream);
    if (error == DRV_SUCCESS)
        error = driver->cuMemsetD2D32Async(op->dst + 4, 8, high, 1, done / 8, stream);
    while (error == DRV_SUCCESS && done < op->size) {
        uint64_t more = op->size - done < done ? op->size - done : done;
        error = driver->cuMemcpyDtoDAsync_v2(op->dst + done, op->dst, more, stream);
        done += more;
    }
    return error;
}

static drv_result fill(const struct cuda_engine *engine, drv_stream stream, const struct vgc_op *op)
{
    const struct cuda_driver *driver = &engine->driver;
    switch (op->unit) {
    case 1:
        return driver->cuMemsetD8Async(op->dst, (unsigned char)op->value, op->size, stream);
    case 2:
        return driver->cuMemsetD16Async(op->dst, (unsigned short)op->value, op->size / 2, stream);
    case 4:
        return driver->cuMemsetD32Async(op->dst, (unsigned int)op->value, op->size / 4, stream);
    default:
        if ((uint32_t)op->value == (uint32_t)(op->value >> 32))
            return driver->cuMemsetD32Async(op->dst, (unsigned int)op->value, op->size / 4, stream);
        return fill_wide(driver, stream, op);
    }
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

static drv_result launch_cooperative(const struct cuda_engine *engine, drv_stream stream, const struct vgc_op *op,
                                     void **extra)
{
    struct drv_launch_attribute cooperative = {.id = DRV_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    struct drv_launch_config config = {
        .grid = {op->grid[0], op->grid[1], op->grid[2]},
        .block = {op->block[0], op->block[1], op->block[2]},
        .shared_bytes = op->shared_bytes,
        .stream = stream,
        .attributes = &cooperative,
        .num_attributes = 1,
    };
    return engine->driver.cuLaunchKernelEx((const struct CUlaunchConfig_st *)(const void *)&config,
                                           cuda_kernel_of(op)->function, NULL, extra);
}

/* Launches a kernel; the driver copies the parameters before it returns. */
static drv_result launch(const struct cuda_engine *engine, drv_stream stream, const struct vgc_op *op)
{
    size_t size = op->param_len;
    void *extra[] = {
        (void *)DRV_LAUNCH_PARAM_POINTER, (void *)(uintptr_t)op->params, (void *)DRV_LAUNCH_PARAM_SIZE, &size,
        (void *)DRV_LAUNCH_PARAM_END,
    };
    if ((op->flags & VGC_LAUNCH_FLAG_COOPERATIVE) != 0)
        return launch_cooperative(engine, stream, op, size == 0 ? NULL : extra);
    return engine->driver.cuLaunchKernel(cuda_kernel_of(op)->function, op->grid[0], op->grid[1], op->grid[2],
                                         op->block[0], op->block[1], op->block[2], op->shared_bytes, stream, NULL,
                                         size == 0 ? NULL : extra);
}

drv_result cuda_submit(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op)
{
    drv_result error = cuda_follow_allocs(engine, stream);
    if (error != DRV_SUCCESS)
        return error;
    switch (op->kind) {
    case VGC_OPK_COPY_IN:
    case VGC_OPK_COPY_OUT:
        return copy_spans(&engine->driver, stream->handle, op);
    case VGC_OPK_COPY_DEVICE:
        return copy_device(engine, stream->handle, op);
    case VGC_OPK_COPY_BOX:
        return cuda_submit_box(engine, stream->handle, op);
    case VGC_OPK_FILL:
        return fill(engine, stream->handle, op);
    case VGC_OPK_LAUNCH:
        return op->kernel->builtin != NULL ? cuda_submit_builtin(engine, stream->handle, op)
                                           : launch(engine, stream->handle, op);
    case VGC_OPK_EVENT_RECORD:
        return cuda_submit_record(engine, stream, op);
    case VGC_OPK_EVENT_WAIT:
        return cuda_submit_wait(engine, stream, op);
    default:
        return DRV_SUCCESS;
    }
}
