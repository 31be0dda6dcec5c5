/* Errors of the driver: which of them fail an operation, which end the worker, and which launch is blamed.
 *
 * A kernel's fault destroys the whole context, and any later call may report it. A launch that ran then is blamed. */
#include "cuda_engine.h"

#include <stdio.h>
#include <string.h>

/* True for errors after which the context still works. Other errors may have destroyed it, and a new worker is better
 * than one that can never run anything again. */
static bool is_harmless(drv_result error)
{
    switch (error) {
    case DRV_SUCCESS:
    case DRV_ERROR_INVALID_VALUE:
    case DRV_ERROR_OUT_OF_MEMORY:
    case DRV_ERROR_INVALID_IMAGE:
    case DRV_ERROR_NO_BINARY_FOR_GPU:
    case DRV_ERROR_UNSUPPORTED_LIMIT:
    case DRV_ERROR_INVALID_PTX:
    case DRV_ERROR_JIT_COMPILER_NOT_FOUND:
    case DRV_ERROR_UNSUPPORTED_PTX_VERSION:
    case DRV_ERROR_JIT_COMPILATION_DISABLED:
    case DRV_ERROR_UNSUPPORTED_DEVSIDE_SYNC:
    case DRV_ERROR_INVALID_SOURCE:
    case DRV_ERROR_FILE_NOT_FOUND:
    case DRV_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case DRV_ERROR_SHARED_OBJECT_INIT_FAILED:
    case DRV_ERROR_OPERATING_SYSTEM:
    case DRV_ERROR_INVALID_HANDLE:
    case DRV_ERROR_NOT_FOUND:
    case DRV_ERROR_NOT_READY:
    case DRV_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case DRV_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING:
    case DRV_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
    case DRV_ERROR_HOST_MEMORY_NOT_REGISTERED:
    case DRV_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case DRV_ERROR_NOT_PERMITTED:
    case DRV_ERROR_NOT_SUPPORTED:
    case DRV_ERROR_INVALID_CLUSTER_SIZE:
        return true;
    default:
        return false;
    }
}

void cuda_check(struct cuda_engine *engine, drv_result error)
{
    if (CUDA_UNLIKELY(!is_harmless(error)))
        cuda_lost(engine, NULL, error);
}

void cuda_op_failed(struct cuda_engine *engine, struct vgc_op *op, const char *what, drv_result error)
{
    char text[256];
    if (!is_harmless(error))
        cuda_lost(engine, op, error);
    cuda_error_text(engine, error, text, sizeof(text));
    op->detail = error;
    op->status = error == DRV_ERROR_OUT_OF_MEMORY                                   ? VGC_STATUS_OUT_OF_MEMORY
                 : op->kind == VGC_OPK_LAUNCH                                       ? VGC_STATUS_LAUNCH_FAILED
                 : op->kind == VGC_OPK_COPY_BOX && error == DRV_ERROR_INVALID_VALUE ? VGC_STATUS_INVALID_ARGUMENT
                                                                                    : VGC_STATUS_INTERNAL;
    snprintf(op->error, sizeof(op->error), "%s%s: %s", op->kind == VGC_OPK_LAUNCH ? "kernel " : "", what, text);
}

/* ---- blame -------------------------------------------------------------------------------------------------- */

/* Running launches: the one that began first, the number beside it in other lanes, and behind it in its group. */
struct suspects {
    const struct vgc_op *first;
    uint32_t beside;
    uint32_t behind;
};

static struct suspects find_suspects(const struct cuda_engine *engine)
{
    struct suspects found = {0};
    for (const struct cuda_lane *lane = engine->active; lane != NULL; lane = lane->next) {
        uint32_t in_group;
        const struct vgc_op *op = cuda_lane_running(lane, &in_group);
        if (op == NULL)
            continue;
        found.beside += found.first != NULL;
        if (found.first != NULL && found.first->start_ns <= op->start_ns)
            continue;
        found.first = op;
        found.behind = in_group - 1;
    }
    return found;
}

/* Finishes operations that are done, as they are not to blame. Only with words: the driver would return the error
 * again. */
static void look_once_more(struct cuda_engine *engine)
{
    struct cuda_lane *next;
    for (struct cuda_lane *lane = engine->active; lane != NULL && !engine->uses_events; lane = next) {
        next = lane->next;
        if (lane->stream != NULL && !lane->alone)
            cuda_lane_collect(engine, lane);
    }
}

static enum vgc_status status_of(drv_result error)
{
    switch (error) {
    case DRV_ERROR_ASSERT:
        return VGC_STATUS_ASSERT;
    case DRV_ERROR_LAUNCH_TIMEOUT:
        return VGC_STATUS_TIMEOUT;
    default:
        return VGC_STATUS_FAULT;
    }
}

/* Writes "; 2 other launches ran beside it; 3 followed close behind it", or the parts that apply. */
static void describe_others(const struct suspects *suspects, char *text, uint32_t size)
{
    char beside[48] = "";
    char behind[48] = "";
    if (suspects->beside != 0)
        snprintf(beside, sizeof(beside), "; %u other launch%s ran beside it", suspects->beside,
                 suspects->beside == 1 ? "" : "es");
    if (suspects->behind != 0)
        snprintf(behind, sizeof(behind), "; %u followed close behind it", suspects->behind);
    snprintf(text, size, "%s%s", beside, behind);
}

/* Appends the driver's text of a failed assertion: file, line, block, thread, expression. */
static void quote_assertion(struct cuda_engine *engine, const struct vgc_op *op, char *reason, size_t size)
{
    char line[384];
    size_t used = strlen(reason);
    cuda_output_assertion(engine, cuda_lane_of(engine, op->context, op->stream), line, sizeof(line));
    if (line[0] != '\0')
        snprintf(reason + used, size - used, "; %s", line);
}

void cuda_lost(struct cuda_engine *engine, const struct vgc_op *hint, drv_result error)
{
    char text[VGC_BLACK_BOX_TEXT];
    char reason[480];
    char others[128];
    uint32_t hint_is_launch = hint != NULL && hint->kind == VGC_OPK_LAUNCH;
    cuda_error_text(engine, error, reason, sizeof(reason));
    if (engine->lost) /* the error came up in look_once_more() */
        vgc_engine_fatal(&engine->base, hint, status_of(error), error, reason);
    engine->lost = true;
    look_once_more(engine);
    struct suspects suspects = find_suspects(engine);
    describe_others(&suspects, others, sizeof(others));
    if (error == DRV_ERROR_ASSERT && suspects.first != NULL)
        quote_assertion(engine, suspects.first, reason, sizeof(reason));
    if (suspects.first != NULL)
        snprintf(text, sizeof(text), "kernel %.400s: %s%s", suspects.first->kernel->name, reason, others);
    else if (hint_is_launch)
        snprintf(text, sizeof(text), "kernel %.500s: %s", hint->kernel->name, reason);
    else
        snprintf(text, sizeof(text), "no kernel was running: %s", reason);
    vgc_engine_fatal(&engine->base, suspects.first != NULL ? suspects.first : hint, status_of(error), error, text);
}

/* ---- past the deadline -------------------------------------------------------------------------------------- */

void cuda_describe(struct vgc_engine *base, const struct vgc_op *op, char *text, uint32_t size)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    const struct cuda_lane *its = cuda_lane_of(engine, op->context, op->stream);
    uint32_t in_group = 0;
    uint32_t beside = 0;
    bool runs = cuda_lane_running(its, &in_group) == op;
    for (const struct cuda_lane *lane = engine->active; lane != NULL; lane = lane->next) {
        uint32_t ignored;
        beside += lane != its && cuda_lane_running(lane, &ignored) != NULL;
    }
    if (!runs) {
        snprintf(text, size, "not started");
        return;
    }
    snprintf(text, size,
             "on the GPU since %.3f s, as the oldest launch of stream %u; %u followed close behind it, launches of %u "
             "other streams ran beside it",
             (double)(cuda_now_ns() - op->start_ns) / 1e9, op->stream, in_group - 1, beside);
}
