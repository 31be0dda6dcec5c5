/* Operations: descriptions of work for streams. */
#ifndef VGC_CUDART_OPERATIONS_H
#define VGC_CUDART_OPERATIONS_H

#include "base.h"
/* ---- submit.c: work for streams ---------------------------------------------------------------------------------- */

/* Work in the order of a stream is first described, then given to rt_submit(). A new kind needs its struct here
 * and a line in rt_issue(); one that takes memory of the host needs lines in deferred.c and capture.c, too. */
enum rt_operation_kind {
    RT_LAUNCH,
    RT_COPY,
    RT_COPY_3D,
    RT_FILL,
    RT_EVENT_RECORD,
    RT_EVENT_WAIT,
    RT_HOST_FUNCTION,
    RT_CALL,
    RT_GRAPH,
    RT_TASK,
};

struct rt_launch {
    struct rt_function *function;
    struct vgc_function *loaded;
    struct vgc_geometry geometry; /* its stream is set when it is issued */
    void *const *arguments;
    uint32_t num_arguments;
};

struct rt_copy {
    void *dst;
    const void *src;
    size_t size;
    enum cudaMemcpyKind kind;
};

struct rt_fill { /* `depth` times `height` rows of `width` bytes */
    void *dst;
    uint32_t value;
    uint32_t unit; /* 1, 2, 4 bytes of `value` */
    size_t pitch;
    size_t width;
    size_t height;
    size_t depth;
    size_t slice;    /* bytes from one slice to the next */
    bool is_unknown; /* the address: a variable's, or nobody's, as only the host can tell; one line is waited for */
};

struct rt_host_function {
    cudaHostFn_t function;
    cudaStreamCallback_t callback; /* in place of `function`: called even if work before it failed */
    cudaStream_t stream;           /* for `callback` */
    void *data;
};

/* Anything else that the runtime does in a stream's order; graphs cannot hold it. */
struct rt_call {
    cudaError_t (*call)(struct rt_device *device, const void *data, uint32_t number);
    const void *data; /* copied if the call is put off */
    size_t size;
};

/* Part of an executable graph on the device (graphs/segments.c). */
struct rt_sent_graph {
    _Atomic uint32_t users; /* the executable graph, and launches that are put off */
    struct vgc_graph *graph;
};

/* A part of the runtime that the thread of the stream's queue runs; what follows in the stream waits for it. */
struct rt_task {
    cudaError_t (*run)(struct CUstream_st *stream, void *data);
    void *data;
};

struct rt_operation {
    enum rt_operation_kind kind;
    bool waits; /* the caller waits for it: cudaMemcpy() and others without "Async" */
    union {
        struct rt_launch launch;
        struct rt_copy copy;
        const struct cudaMemcpy3DParms *copy_3d;
        struct rt_fill fill;
        struct {
            cudaEvent_t event;
            unsigned flags;
        } event;
        struct rt_host_function host;
        struct rt_call call;
        struct rt_task task;
        struct rt_sent_graph *graph;
    };
};

/* Does the operation in the order of the stream. */
cudaError_t rt_submit(struct rt_device *device, cudaStream_t stream, const struct rt_operation *operation);
/* Likewise, in a stream of the device, now. */
cudaError_t rt_issue(struct rt_device *device, const struct rt_operation *operation, uint32_t number);

/* Looks the kernel up and checks the launch; its arguments are still missing. */
cudaError_t rt_prepare_launch(struct rt_device *device, const void *host, dim3 grid, dim3 block, size_t shared,
                              uint32_t flags, struct rt_launch *launch);
/* Gives the launch its arguments, as many as the kernel has parameters. */
cudaError_t rt_give_arguments(struct rt_launch *launch, void *const *arguments); /* launch.c */
/* In a stream that was checked, without looking at captures and work that is put off. NULL: the legacy one. */
cudaError_t rt_issue_now(struct rt_device *device, struct CUstream_st *stream, const struct rt_operation *operation);
cudaError_t rt_issue_launch(struct rt_device *device, const struct rt_launch *launch, uint32_t number); /* launch.c */
cudaError_t rt_issue_event_record(cudaEvent_t event, uint32_t number);                                  /* events.c */
cudaError_t rt_issue_event_wait(cudaEvent_t event, uint32_t number);

/* ---- operations.c ------------------------------------------------------------------------------------------------ */

/* A copy in one block of malloc(), with all that it points to but memory that is copied or filled. NULL: no memory. */
struct rt_operation *rt_keep(const struct rt_operation *operation);

#endif
