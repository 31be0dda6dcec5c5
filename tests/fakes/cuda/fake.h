/* The inside of the fake driver. One lock guards everything; only copies, fills and kernels run outside of it. */
#ifndef FAKE_CUDA_FAKE_H
#define FAKE_CUDA_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "abi.h"

#define FAKE_API __attribute__((visibility("default")))

enum {
    FAKE_MAX_DEVICES = 8,
    FAKE_MAX_STACK = 16,    /* contexts pushed in one thread */
    FAKE_MAX_PARAMS = 4096, /* bytes of kernel parameters */
    FAKE_NAME = 256,
    FAKE_LIMITS = 16,
};

/* ---- handles.c: what the caller holds are numbers that are never used twice, not pointers ---- */

enum fake_kind {
    FAKE_CONTEXT = 1,
    FAKE_GREEN,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_POOL,
    FAKE_RESOURCE,
};

void *fake_handle_new(enum fake_kind kind, void *object);
/* The object behind a live handle of that kind; else NULL, and what was wrong with it is recorded as misuse. */
void *fake_handle_get(const void *handle, enum fake_kind kind);
void *fake_handle_peek(const void *handle, enum fake_kind kind); /* the same without a record of misuse */
void fake_handle_end(const void *handle);
size_t fake_handle_count(enum fake_kind kind);
/* Call `visit` for every live handle of the kind. */
void fake_handle_each(enum fake_kind kind, void (*visit)(void *object, void *data), void *data);

/* ---- settings.c: what the pretended machine is like ---- */

struct fake_device {
    char name[FAKE_NAME];
    char uuid[16];
    char mig[FAKE_NAME]; /* of an instance: its "MIG-..." */
    int sms, major, minor, granularity, min_partition;
    uint64_t memory_bytes;
    int shared_per_block, shared_optin;
    int stream_memops, host_pointers;
    struct {
        int key, value;
    } attributes[16]; /* what a setting "attribute.N" replaced */
    int num_attributes;
};

struct fake_settings {
    int driver_version;
    int num_devices;
    int queue_depth;
    int init_result;
    struct fake_device devices[FAKE_MAX_DEVICES];
};

void fake_settings_default(struct fake_settings *settings);
/* One line of settings; false if it is none. */
bool fake_settings_line(struct fake_settings *settings, char *line);
/* Unless it happened: from the file that VGC_FAKE_CUDA names, or the one beside the library; -1 if it has a line that
 * is none. */
int fake_settings_once(void);
/* The devices that CUDA_VISIBLE_DEVICES leaves, in its order. */
void fake_settings_visible(struct fake_settings *settings);

/* ---- the state of the process ---- */

struct fake_stream;
struct fake_context {
    CUcontext handle;
    int device;
    struct fake_context *primary; /* itself, if it is one */
    int green;                    /* 1 if it was made from a green context */
    CUgreenCtx green_handle;
    unsigned int sms;
    unsigned int flags;
    unsigned int retained;
    unsigned int current_in; /* threads */
    CUresult sticky;         /* of a primary context, for all that were made from it */
    struct fake_stream *null_stream;
    unsigned int threads; /* of streams */
    size_t limits[FAKE_LIMITS];
    char *fifo;            /* what kernels printed */
    const char *assertion; /* what a kernel failed by, until it is told */
    size_t fifo_len;
};

struct fake {
    pthread_mutex_t lock;
    pthread_cond_t progress; /* something finished, was released, or failed */
    bool initialised;
    bool settings_read, settings_bad;
    struct fake_settings settings;
    struct fake_context *primaries[FAKE_MAX_DEVICES];
    unsigned int primary_flags[FAKE_MAX_DEVICES];
    CUmemoryPool default_pools[FAKE_MAX_DEVICES];
    bool held;               /* no stream goes on */
    bool ending;             /* and no kernel hangs */
    unsigned long released;  /* rises when hanging kernels are let go */
    unsigned long submitted; /* operations, ever */
    unsigned long finished;
    unsigned long blocked; /* submissions that had to wait for room */
    unsigned int hanging;  /* kernels that wait to be released */
    unsigned int running;  /* streams' threads that live */
};
extern struct fake fake;

/* ---- call.c: how every function of the driver begins and ends ---- */

enum fake_needs {
    FAKE_NOTHING = 0,
    FAKE_INIT = 1,    /* after cuInit */
    FAKE_CURRENT = 3, /* with a context current in this thread, which has no sticky error */
    FAKE_ANYHOW = 7,  /* with a context, sticky error or not */
};

struct fake_call {
    const char *name;
    struct fake_context *context;
};

/* Take the lock and see whether the call may go on: injected errors, cuInit, the current context. */
CUresult fake_enter(struct fake_call *call, enum fake_needs needs);
/* Record the call with its arguments, and drop the lock. */
__attribute__((format(printf, 3, 4))) CUresult fake_leave(struct fake_call *call, CUresult result, const char *format,
                                                          ...);
#define FAKE_CALL(needs)                                                                                               \
    struct fake_call call = {.name = __func__};                                                                        \
    CUresult result = fake_enter(&call, needs)
#define FAKE_LEAVE(...) return fake_leave(&call, result, __VA_ARGS__)

const char *fake_error_name(CUresult error);

/* ---- log.c ---- */

__attribute__((format(printf, 1, 2))) void fake_misuse(const char *format, ...);
void fake_log_call(const char *name, const char *line);
__attribute__((format(printf, 1, 2))) void fake_log_note(const char *format, ...); /* to the file alone */
bool fake_log_file(const char *path);
void fake_log_clear(void);

/* ---- device.c ---- */

/* Can files still be opened? Drivers from 570 on give a thread a name through /proc when they start, and make a file
 * without one; they take it for an error if they cannot. Any driver may open more of them later, for a module, say. */
bool fake_can_open(void);

/* ---- inject.c ---- */

/* The error that this call is to end with, or CUDA_SUCCESS. */
CUresult fake_injected(const char *name);
void fake_inject(const char *name, unsigned long nth, unsigned long times, int result);
void fake_hide(const char *name);
bool fake_hidden(const char *name);
void fake_inject_clear(void);

/* ---- context.c ---- */

struct fake_context *fake_current(void);
CUresult fake_sticky(const struct fake_context *context);
void fake_poison(struct fake_context *context, CUresult error);
void fake_current_forget(void);
void fake_context_end(struct fake_context *context);
/* Its last user's release ends it with everything in it. */
void fake_primary_release(struct fake_context *primary);
void fake_contexts_end(void);                                   /* all of them, whoever uses them */
CUresult fake_context_flush(struct fake_context *context);      /* print what its kernels printed */
void fake_context_tell_assertion(struct fake_context *context); /* lock held; to stderr, once */
void fake_context_print(struct fake_context *context, const char *text);

/* ---- memory.c: device memory, at addresses at which the host has nothing ---- */

struct fake_pool {
    CUmemoryPool handle;
    int device;
    uint64_t max_bytes, threshold, used, used_high, reserved, reserved_high;
    int reuse[3];
};

enum fake_memory_kind { FAKE_MEM_DEVICE = 1, FAKE_MEM_POOL, FAKE_MEM_MODULE, FAKE_MEM_HOST, FAKE_MEM_REGISTERED };

struct fake_memory {
    CUdeviceptr address;
    size_t size;
    char *host;
    enum fake_memory_kind kind;
    int device;
    struct fake_context *context;
    struct fake_pool *pool;
    unsigned int flags;
    unsigned int pins;  /* operations that run on it */
    unsigned int shown; /* kernels that run follow addresses in it: it is there, for the host too */
    bool ready;         /* its allocation happened, in stream order */
    bool freeing;       /* a free was submitted */
};

/* Memory of `device` from the driver's own or a pool's quota; NULL and *result otherwise. */
struct fake_memory *fake_memory_new(struct fake_context *context, size_t size, enum fake_memory_kind kind,
                                    struct fake_pool *pool, CUresult *result);
struct fake_memory *fake_memory_adopt(struct fake_context *context, void *host, size_t size, enum fake_memory_kind kind,
                                      CUdeviceptr address);
/* End it; waits for operations that use it, which is recorded as misuse. */
void fake_memory_end(struct fake_memory *memory);
/* What lies at a device address, if all of [address, address + size) does. */
struct fake_memory *fake_memory_find(CUdeviceptr address, size_t size);
struct fake_memory *fake_memory_at_host(const void *host, size_t size);
/* May an operation that is submitted now use it? Records misuse otherwise. */
bool fake_memory_usable(struct fake_context *context, CUdeviceptr address, size_t size);
/* For an operation that runs: its bytes, until unpinned; NULL is a fault. Take and give the lock themselves. */
char *fake_memory_pin(CUdeviceptr address, size_t size, struct fake_memory **memory);
void fake_memory_unpin(struct fake_memory *memory);
/* For a kernel that follows addresses in memory of cuMemAlloc, which begins at `address`: it is at its device address
 * until hidden again. NULL: there is none. Take and give the lock themselves. */
struct fake_memory *fake_memory_show(CUdeviceptr address);
void fake_memory_hide(struct fake_memory *memory);
uint64_t fake_memory_used(int device);
size_t fake_memory_count(bool host);
void fake_memory_end_all(struct fake_context *primary);
CUdeviceptr fake_memory_window(int device, size_t size);
struct fake_pool *fake_pool_new(int device, uint64_t max_bytes);
void fake_pools_end(void); /* all of them, when no memory is left */

/* ---- stream.c: each stream's operations run in a thread of its own, in order ---- */

struct fake_marker { /* one recording of an event */
    unsigned int refs;
    bool done;
    uint64_t time_ns;
};

struct fake_op {
    struct fake_op *next;
    /* Outside of the lock; an error of it is the context's end. */
    CUresult (*run)(struct fake_op *op);
    void (*drop)(struct fake_op *op); /* frees what it holds, run or not; may be NULL */
    struct fake_context *context;
    struct fake_marker *await; /* do not begin before it is done */
};

struct fake_stream {
    CUstream handle;
    struct fake_context *context;
    pthread_t thread;
    pthread_cond_t wake;
    struct fake_op *first, *last;
    unsigned int depth;
    unsigned int flags;
    bool closing;
    bool busy;
};

struct fake_stream *fake_stream_new(struct fake_context *context, unsigned int flags);
/* The stream of a handle, which must be of the current context. */
struct fake_stream *fake_stream_get(CUstream handle, struct fake_context *context, CUresult *result);
/* Queue it, which waits for room as the driver does. */
CUresult fake_submit(struct fake_stream *stream, struct fake_op *op);
CUresult fake_stream_wait(struct fake_stream *stream);
void fake_stream_close(struct fake_stream *stream);
void fake_streams_end(struct fake_context *context);
void fake_wait(void); /* for progress */

/* ---- event.c ---- */

struct fake_event {
    CUevent handle;
    struct fake_context *context;
    unsigned int flags;
    struct fake_marker *marker; /* of the latest recording */
};

void fake_marker_unref(struct fake_marker *marker);
void fake_event_end(struct fake_event *event);

/* ---- module.c, cubin.c ---- */

struct fake_param {
    uint32_t offset, size;
};

struct fake_function {
    CUfunction handle;
    struct fake_module *module;
    char *name;
    struct fake_param *params;
    uint32_t num_params, param_bytes;
    bool params_known;
    int max_threads, shared_bytes, local_bytes, num_regs, max_dynamic_shared;
};

struct fake_global {
    char *name;
    size_t size;
    const char *init; /* in the image; NULL for zeros */
    struct fake_memory *memory;
};

struct fake_module {
    CUmodule handle;
    struct fake_context *context;
    struct fake_function *functions;
    size_t num_functions;
    struct fake_global *globals;
    size_t num_globals;
    int arch;
    unsigned int in_flight; /* launches submitted and not finished */
};

/* Read a cubin: functions, globals, architecture. */
CUresult fake_cubin_read(const void *image, struct fake_module *module);
void fake_module_end(struct fake_module *module);

/* ---- kernels.c ---- */

struct fake_launch {
    struct fake_op op;
    struct fake_module *module;
    unsigned int grid[3], block[3], shared;
    const struct fake_kernel *kernel;
    unsigned char params[FAKE_MAX_PARAMS];
};

struct fake_kernel {
    const char *name;
    uint32_t param_bytes;
    CUresult (*run)(struct fake_launch *launch);
};

/* By name, mangled or not, and size of parameters, or by name alone; NULL if there is none. */
const struct fake_kernel *fake_kernel_find(const char *name, uint32_t param_bytes);
/* bench_kernels.c: those of the benchmarks, by both. */
const struct fake_kernel *fake_bench_kernel_find(const char *name, uint32_t param_bytes);
/* Of bench_kernels.c: some are called like others, with other parameters. */
const struct fake_kernel *fake_bench_kernel_find(const char *name, uint32_t param_bytes);
/* watched_kernels.c: those with the control system's hooks. */
const struct fake_kernel *fake_watched_kernel_find(const char *name);

#endif
