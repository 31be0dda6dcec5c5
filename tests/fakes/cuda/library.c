/* Fakes of libraries that compute through the driver (tests/fakes/cuda_libraries): their calls, and their work as
 * operations of streams. */
#include <stdlib.h>
#include <string.h>

#include "library.h"

#include "fake.h"

struct library_op {
    struct fake_op op;
    fake_library_run run;
    struct fake_library_range ranges[FAKE_LIBRARY_RANGES];
    size_t num_ranges;
    unsigned char data[FAKE_LIBRARY_DATA];
};

static CUresult run_work(struct fake_op *op)
{
    struct library_op *work = (struct library_op *)op;
    struct fake_memory *pinned[FAKE_LIBRARY_RANGES] = {0};
    char *bytes[FAKE_LIBRARY_RANGES];
    bool good = true;
    for (size_t i = 0; i < work->num_ranges; i++) {
        bytes[i] = fake_memory_pin(work->ranges[i].address, work->ranges[i].size, &pinned[i]);
        good = good && bytes[i];
    }
    if (good)
        work->run(work->data, bytes);
    for (size_t i = 0; i < work->num_ranges; i++)
        if (pinned[i])
            fake_memory_unpin(pinned[i]);
    return good ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

FAKE_API int fake_cuda_library_call(const char *name)
{
    struct fake_call call = {.name = name};
    CUresult result = fake_enter(&call, FAKE_CURRENT);
    return (int)fake_leave(&call, result, "library");
}

FAKE_API void fake_cuda_library_misuse(const char *text)
{
    pthread_mutex_lock(&fake.lock);
    fake_misuse("%s", text);
    pthread_mutex_unlock(&fake.lock);
}

FAKE_API void fake_cuda_library_count(int change)
{
    pthread_mutex_lock(&fake.lock);
    fake.library_objects += (unsigned long)(long)change;
    pthread_mutex_unlock(&fake.lock);
}

static CUresult submit(struct fake_context *context, CUstream on, struct library_op *work)
{
    CUresult result = CUDA_SUCCESS;
    struct fake_stream *stream = fake_stream_get(on, context, &result);
    for (size_t i = 0; !result && i < work->num_ranges; i++)
        if (!fake_memory_usable(context, work->ranges[i].address, work->ranges[i].size))
            result = CUDA_ERROR_INVALID_VALUE;
    if (result) {
        free(work);
        return result;
    }
    return fake_submit(stream, &work->op);
}

FAKE_API int fake_cuda_library_submit(CUstream stream, fake_library_run run, const void *data, size_t size,
                                      const struct fake_library_range *ranges, size_t num_ranges)
{
    FAKE_CALL(FAKE_CURRENT);
    struct library_op *work = calloc(1, sizeof *work);
    if (!work || size > sizeof work->data || num_ranges > FAKE_LIBRARY_RANGES)
        abort();
    work->op.run = run_work;
    work->op.computes = true;
    work->run = run;
    work->num_ranges = num_ranges;
    memcpy(work->ranges, ranges, num_ranges * sizeof *ranges);
    memcpy(work->data, data, size);
    if (!result)
        result = submit(call.context, stream, work);
    else
        free(work);
    return (int)fake_leave(&call, result, "%p, %zu ranges", (void *)stream, num_ranges);
}
