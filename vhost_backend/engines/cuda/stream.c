/* CUstreams, and markers that tell the progress of each.
 *
 * A marker is a number that the GPU writes into pinned memory when it reaches it (cuStreamWriteValue32), or an event
 * where it cannot do that. Reading a word needs no driver call. */
#include "cuda_engine.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 64, AT_START = 4, TEST_NUMBER = 1 };

static drv_result make_stream(struct cuda_engine *engine)
{
    struct cuda_stream *stream = &engine->streams[engine->num_streams];
    drv_result error = engine->driver.cuStreamCreate(&stream->handle, DRV_STREAM_NON_BLOCKING);
    if (error != DRV_SUCCESS)
        return error;
    size_t offset = (size_t)engine->num_streams * LINE;
    if (!engine->uses_events) {
        stream->word = (uint32_t *)(void *)(engine->words + offset);
        stream->word_address = engine->words_address + offset;
    }
    engine->num_streams++;
    cuda_stream_put(engine, stream);
    return DRV_SUCCESS;
}

bool cuda_stream_available(const struct cuda_engine *engine)
{
    return engine->free_streams != NULL || engine->num_streams < CUDA_STREAMS;
}

drv_result cuda_stream_take(struct cuda_engine *engine, struct cuda_stream **stream)
{
    if (engine->free_streams == NULL) {
        drv_result error = make_stream(engine);
        if (error != DRV_SUCCESS)
            return error;
    }
    *stream = engine->free_streams;
    engine->free_streams = (*stream)->next;
    return DRV_SUCCESS;
}

void cuda_stream_put(struct cuda_engine *engine, struct cuda_stream *stream)
{
    stream->next = engine->free_streams;
    engine->free_streams = stream;
}

drv_result cuda_urgent_stream(const struct cuda_engine *engine, drv_stream *stream)
{
    int least = 0;
    int greatest = 0; /* lower numbers are higher priorities */
    drv_result error = engine->driver.cuCtxGetStreamPriorityRange(&least, &greatest);
    if (error != DRV_SUCCESS)
        return error;
    return engine->driver.cuStreamCreateWithPriority(stream, DRV_STREAM_NON_BLOCKING, greatest);
}

drv_result cuda_follow_allocs(struct cuda_engine *engine, struct cuda_stream *stream)
{
    if (stream->allocs_seen == engine->allocs)
        return DRV_SUCCESS;
    drv_result error = engine->driver.cuStreamWaitEvent(stream->handle, engine->alloc_event, DRV_EVENT_WAIT_DEFAULT);
    if (error == DRV_SUCCESS)
        stream->allocs_seen = engine->allocs;
    return error;
}

/* ---- markers ------------------------------------------------------------------------------------------------ */

static drv_result mark_by_event(struct cuda_engine *engine, struct cuda_stream *stream)
{
    drv_event *mark = &stream->marks[(stream->issued + 1) % CUDA_MARKS];
    drv_result error = DRV_SUCCESS;
    if (*mark == NULL)
        error = engine->driver.cuEventCreate(mark, DRV_EVENT_DISABLE_TIMING);
    return error == DRV_SUCCESS ? engine->driver.cuEventRecord(*mark, stream->handle) : error;
}

drv_result cuda_stream_mark(struct cuda_engine *engine, struct cuda_stream *stream)
{
    drv_result error = engine->uses_events
                           ? mark_by_event(engine, stream)
                           : engine->driver.cuStreamWriteValue32_v2(stream->handle, stream->word_address,
                                                                    stream->issued + 1, DRV_WRITE_VALUE_DEFAULT);
    if (error == DRV_SUCCESS)
        stream->issued++;
    return error;
}

drv_result cuda_stream_look(struct cuda_engine *engine, struct cuda_stream *stream)
{
    if (!engine->uses_events) {
        stream->seen = __atomic_load_n(stream->word, __ATOMIC_ACQUIRE);
        return DRV_SUCCESS;
    }
    while (stream->seen != stream->issued) {
        drv_result error = engine->driver.cuEventQuery(stream->marks[(stream->seen + 1) % CUDA_MARKS]);
        if (error != DRV_SUCCESS)
            return error == DRV_ERROR_NOT_READY ? DRV_SUCCESS : error;
        stream->seen++;
    }
    return DRV_SUCCESS;
}

/* ---- start and end ------------------------------------------------------------------------------------------ */

static drv_result make_words(struct cuda_engine *engine)
{
    void *words = NULL;
    drv_result error = engine->driver.cuMemHostAlloc(&words, (size_t)CUDA_STREAMS * LINE,
                                                     DRV_HOST_ALLOC_PORTABLE | DRV_HOST_ALLOC_DEVICE_MAP);
    if (error != DRV_SUCCESS)
        return error;
    memset(words, 0, (size_t)CUDA_STREAMS * LINE);
    engine->words = words;
    return engine->driver.cuMemHostGetDevicePointer_v2(&engine->words_address, words, 0);
}

/* Tests whether a word arrives. Nothing else runs yet, so the stream may be waited for. */
static drv_result try_word(struct cuda_engine *engine, struct cuda_stream *stream)
{
    drv_result error = engine->driver.cuStreamWriteValue32_v2(stream->handle, stream->word_address, TEST_NUMBER,
                                                              DRV_WRITE_VALUE_DEFAULT);
    if (error == DRV_SUCCESS)
        error = engine->driver.cuStreamSynchronize(stream->handle);
    if (error == DRV_SUCCESS && __atomic_load_n(stream->word, __ATOMIC_ACQUIRE) != TEST_NUMBER)
        error = DRV_ERROR_NOT_SUPPORTED;
    __atomic_store_n(stream->word, 0, __ATOMIC_RELAXED);
    return error;
}

/* Chooses words or events, by a test with the first stream. */
static drv_result choose_markers(struct cuda_engine *engine)
{
    drv_result error = try_word(engine, engine->free_streams);
    if (error == DRV_SUCCESS || engine->setup.completion == VGC_CUDA_MEMORY)
        return error;
    engine->uses_events = true;
    return DRV_SUCCESS;
}

int cuda_streams_start(struct cuda_engine *engine, char *why)
{
    drv_result error = DRV_SUCCESS;
    engine->uses_events = engine->setup.completion == VGC_CUDA_EVENT;
    if (!engine->uses_events)
        error = make_words(engine);
    if (error != DRV_SUCCESS)
        return cuda_why(engine, why, "no pinned memory for markers", error);
    for (uint32_t i = 0; i < AT_START && error == DRV_SUCCESS; i++)
        error = make_stream(engine);
    if (error != DRV_SUCCESS)
        return cuda_why(engine, why, "no stream can be made", error);
    if (!engine->uses_events)
        error = choose_markers(engine);
    return error == DRV_SUCCESS ? 0 : cuda_why(engine, why, "the GPU does not write markers to pinned memory", error);
}

static void close_stream(struct cuda_engine *engine, struct cuda_stream *stream)
{
    for (uint32_t i = 0; i < CUDA_MARKS; i++)
        if (stream->marks[i] != NULL)
            engine->driver.cuEventDestroy_v2(stream->marks[i]);
    engine->driver.cuStreamDestroy_v2(stream->handle);
}

void cuda_streams_close(struct cuda_engine *engine)
{
    for (uint32_t i = 0; i < engine->num_streams; i++)
        close_stream(engine, &engine->streams[i]);
    engine->num_streams = 0;
    engine->free_streams = NULL;
    if (engine->words != NULL)
        engine->driver.cuMemFreeHost(engine->words);
    engine->words = NULL;
}
