/* Internals of the fake driver. One lock guards everything; only copies, fills and kernels run without it. */
#ifndef FAKE_CUDA_FAKE_H
#define FAKE_CUDA_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "abi.h"
#include "hardware.h"

#define FAKE_API __attribute__((visibility("default")))

enum {
    FAKE_MAX_DEVICES = 8,
    FAKE_MAX_STACK = 16,     /* contexts pushed in one thread */
    FAKE_MAX_PARAMS = 32764, /* bytes of kernel parameters */
    FAKE_NAME = 256,
    FAKE_LIMITS = 16,
};

/* ---- handles.c: the caller's handles are numbers that are never reused, not pointers ---- */

enum fake_kind {
    FAKE_CONTEXT = 1,
    FAKE_GREEN,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_POOL,
    FAKE_RESOURCE,
    FAKE_PHYSICAL,
    FAKE_ARRAY,
    FAKE_MIPMAP,
};

void *fake_handle_new(enum fake_kind kind, void *object);
/* The object of a live handle of that kind; otherwise NULL, and records misuse. */
void *fake_handle_get(const void *handle, enum fake_kind kind);
void *fake_handle_peek(const void *handle, enum fake_kind kind); /* like `get`, without a record of misuse */
void fake_handle_end(const void *handle);
void fake_handle_replace(const void *handle, void *object); /* lets the handle denote another object */
size_t fake_handle_count(enum fake_kind kind);
/* Calls `visit` for every live handle of the kind. */
void fake_handle_each(enum fake_kind kind, void (*visit)(void *object, void *data), void *data);

/* ---- settings.c: the simulated machine ---- */

struct fake_device {
    char name[FAKE_NAME];
    char uuid[16];
    char mig[FAKE_NAME]; /* "MIG-...", if it is an instance */
    int sms, major, minor, granularity, min_partition;
    uint64_t memory_bytes;
    int shared_per_block, shared_optin;
    int stream_memops, host_pointers;
    int vmm; /* 1: memory can be mapped at chosen addresses */
    struct {
        int key, value;
    } attributes[16]; /* replaced by settings "attribute.N" */
    int num_attributes;
};

struct fake_settings {
    int driver_version;
    int num_devices;
    int queue_depth;
    int init_result;
    int timer_ppm;         /* frequency offset of the GPU's timer from the host's clock */
    int timer_hangs;       /* 1: the kernel that reads the timer does not end */
    int reserve_elsewhere; /* number of requests for a certain address that get a different one */
    int foreign_kernels;   /* 1: kernels that the fake does not know are recorded, and compute nothing */
    struct fake_hardware hardware;
    struct fake_device devices[FAKE_MAX_DEVICES];
};

void fake_settings_default(struct fake_settings *settings);
/* Applies a line of settings; false if it is not valid. */
bool fake_settings_line(struct fake_settings *settings, char *line);
/* Reads the settings, once, from the file that VGC_FAKE_CUDA names or that is beside the library; -1 if a line is not
 * valid. */
int fake_settings_once(void);
/* Keeps the devices of CUDA_VISIBLE_DEVICES, in its order. */
void fake_settings_visible(struct fake_settings *settings);

/* ---- the state of the process ---- */

struct fake_stream;
struct fake_context {
    CUcontext handle;
    int device;
    struct fake_context *primary; /* the context itself, if it is primary */
    int green;                    /* 1: made from a green context */
    CUgreenCtx green_handle;
    unsigned int sms;
    unsigned int flags;
    unsigned int retained;
    unsigned int current_in; /* number of threads */
    CUresult sticky;         /* of a primary context, valid for its green ones too */
    struct fake_stream *null_stream;
    unsigned int threads; /* number of streams' threads */
    size_t limits[FAKE_LIMITS];
    unsigned int in_flight;               /* operations; of a primary context, with those of its green ones */
    size_t stack_bytes;                   /* of a primary context: stack size of each thread of the device */
    struct fake_connections *connections; /* of a primary context */
    struct fake_output *output;           /* of a primary context: printed text */
    const char *assertion;                /* assertion that failed in a kernel, until it is reported */
};

struct fake {
    pthread_mutex_t lock;
    pthread_cond_t progress; /* something has finished, was released or has failed */
    bool initialised;
    bool settings_read, settings_bad;
    struct fake_settings settings;
    struct fake_context *primaries[FAKE_MAX_DEVICES];
    unsigned int primary_flags[FAKE_MAX_DEVICES];
    CUmemoryPool default_pools[FAKE_MAX_DEVICES];
    bool held;               /* streams begin no operations */
    bool ending;             /* kernels do not hang */
    unsigned long released;  /* rises with each release of hanging kernels */
    unsigned long submitted; /* all operations so far */
    unsigned long finished;
    unsigned long blocked;         /* submissions that waited for room */
    unsigned int hanging;          /* kernels that wait for release */
    unsigned int running;          /* live threads of streams */
    unsigned long library_objects; /* handles and plans of libraries that live */
};
extern struct fake fake;

/* ---- call.c: begin and end of every function of the driver ---- */

enum fake_needs {
    FAKE_NOTHING = 0,
    FAKE_INIT = 1,           /* after cuInit */
    FAKE_CURRENT = 3,        /* with a current context without sticky error */
    FAKE_CURRENT_STICKY = 7, /* with a current context, even with a sticky error */
};

struct fake_call {
    const char *name;
    struct fake_context *context;
};

/* Takes the lock and checks injected errors, cuInit and the current context. */
CUresult fake_enter(struct fake_call *call, enum fake_needs needs);
/* Records the call with its arguments and releases the lock. */
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
__attribute__((format(printf, 1, 2))) void fake_log_note(const char *format, ...); /* writes to the file only */
/* Writes a launch with its whole name and the bytes of its parameters, in hexadecimal, to the file. */
void fake_log_launch(const char *name, const unsigned int grid[3], const unsigned int block[3],
                     const unsigned char *params, size_t param_bytes);
bool fake_log_file(const char *path);
void fake_log_clear(void);

/* ---- device.c ---- */

/* True if files can still be opened. Drivers since 570 name a thread through /proc when they start, and create a file
 * without a name; they fail if they cannot. Any driver may open files later, for example for a module. */
bool fake_can_open(void);

/* ---- inject.c ---- */

/* The injected error of this call, or CUDA_SUCCESS. */
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
struct fake_context *fake_primary_retain(int device);
/* The last release ends the context with everything in it. */
void fake_primary_release(struct fake_context *primary);
void fake_contexts_end(void); /* ends all contexts, even those in use */

/* ---- resources.c ---- */

/* Number of multiprocessors of a descriptor, which must be of that device. */
CUresult fake_resource_get(CUdevResourceDesc desc, CUdevice device, unsigned int *sms);

/* ---- output.c: printed text of kernels; lock held ---- */

void fake_context_print(struct fake_context *context, const char *text);
void fake_context_flush(struct fake_context *context); /* writes the text to stdout */
/* Ends a synchronising call: writes printed text, and a failed assertion, once, to stderr. */
void fake_context_report(struct fake_context *context);
void fake_output_end(struct fake_context *context);
/* True if a kernel that prints was launched: the buffer's size can only be set before. */
bool fake_output_is_fixed(const struct fake_context *context);
void fake_output_fix(struct fake_context *context);

/* ---- memory.c: device memory, at addresses that the host does not use ---- */

struct fake_pool {
    CUmemoryPool handle;
    int device;
    uint64_t max_bytes, threshold, used, used_high, reserved, reserved_high;
    int reuse[3];
};

enum fake_memory_kind {
    FAKE_MEM_DEVICE = 1,
    FAKE_MEM_POOL,
    FAKE_MEM_MODULE,
    FAKE_MEM_HOST,
    FAKE_MEM_REGISTERED,
    FAKE_MEM_MAPPED, /* by vmm.c */
};

struct fake_memory {
    CUdeviceptr address;
    size_t size;
    char *host;
    enum fake_memory_kind kind;
    int device;
    struct fake_context *context;
    struct fake_pool *pool;
    unsigned int flags;
    unsigned int pins; /* running operations on it */
    unsigned int
        shown;    /* running kernels that follow addresses in it; the host has it at its device address meanwhile */
    bool ready;   /* its allocation has happened, in stream order */
    bool freeing; /* a free was submitted */
};

/* Allocates memory of a device or of a pool; NULL and *result if that fails. */
struct fake_memory *fake_memory_new(struct fake_context *context, size_t size, enum fake_memory_kind kind,
                                    struct fake_pool *pool, CUresult *result);
struct fake_memory *fake_memory_adopt(struct fake_context *context, void *host, size_t size, enum fake_memory_kind kind,
                                      CUdeviceptr address);
/* Frees it; if operations use it, waits for them and records misuse. */
void fake_memory_end(struct fake_memory *memory);
/* The memory that contains all of [address, address + size). */
struct fake_memory *fake_memory_find(CUdeviceptr address, size_t size);
struct fake_memory *fake_memory_at_host(const void *host, size_t size);
/* True if an operation that is submitted now may use it; otherwise records misuse. */
bool fake_memory_usable(struct fake_context *context, CUdeviceptr address, size_t size);
/* Bytes of memory for a running operation, until unpinned; NULL: a fault. Both take the lock themselves. */
char *fake_memory_pin(CUdeviceptr address, size_t size, struct fake_memory **memory);
void fake_memory_unpin(struct fake_memory *memory);
/* Maps memory of cuMemAlloc that begins at `address` there, until hidden, for kernels that follow addresses in it.
 * NULL: there is no such memory. Both take the lock themselves. */
struct fake_memory *fake_memory_show(CUdeviceptr address);
void fake_memory_hide(struct fake_memory *memory);
/* Counts device memory without an address; false: not enough memory is left. */
bool fake_memory_charge(int device, size_t size);
void fake_memory_uncharge(int device, size_t size);
bool fake_memory_overlaps(CUdeviceptr address, size_t size);
uint64_t fake_memory_used(int device);
size_t fake_memory_count(bool host);
void fake_memory_end_all(struct fake_context *primary);
CUdeviceptr fake_memory_window(int device, size_t size);
struct fake_pool *fake_pool_new(int device, uint64_t max_bytes);
void fake_pools_end(void); /* ends all pools, after all memory was freed */

/* ---- vmm.c: reserved addresses, physical memory, mappings ---- */

/* The reserved range that has all of these bytes mapped and accessible; NULL: there is no such range. */
struct fake_memory *fake_vmm_find(CUdeviceptr address, size_t size);
bool fake_vmm_overlaps(CUdeviceptr address, size_t size, CUdeviceptr *end); /* `end`: of the range that overlaps */
/* Pins only these bytes of memory that was found, until unpinned. */
struct fake_memory *fake_vmm_pin(const struct fake_memory *memory, CUdeviceptr address, size_t size);
void fake_vmm_unpin(struct fake_memory *memory);
enum fake_vmm_thing { FAKE_VMM_RANGES, FAKE_VMM_PHYSICAL, FAKE_VMM_MAPPINGS };
size_t fake_vmm_count(enum fake_vmm_thing thing);
void fake_vmm_end(void); /* ends everything, even what is in use */

/* ---- array.c: arrays, whose texels lie close together here, level behind level; lock held ---- */

struct fake_array {
    void *handle;
    struct fake_context *context;
    CUDA_ARRAY3D_DESCRIPTOR shape; /* of this level */
    unsigned int levels;           /* of a mipmapped array; 0: an array */
    struct fake_array *level;      /* arrays of its levels */
    struct fake_array *whole;      /* of a level: the mipmapped array */
    char *texels;                  /* NULL: without memory */
    size_t charged;
    unsigned int pins; /* operations on it, submitted and not finished */
};

size_t fake_texel_bytes(int format, unsigned int channels); /* 0: no such format */
size_t fake_array_rows(const struct fake_array *array);
size_t fake_array_slices(const struct fake_array *array);
/* Begin of a row. */
char *fake_array_row(const struct fake_array *array, size_t y, size_t z);
void fake_array_pin(struct fake_array *array, int change);
void fake_arrays_end(struct fake_context *primary);

/* ---- texture.c ---- */

/* Texel of level 0 of the array of a texture or surface; NULL: there is no such object or texel. */
const char *fake_object_texel(uint64_t object, size_t x, size_t y, size_t z, size_t *bytes);
size_t fake_objects_count(void);
void fake_objects_end(struct fake_context *primary);

/* ---- stream.c: a thread per stream runs its operations in order ---- */

struct fake_marker { /* a recording of an event */
    unsigned int refs;
    bool done;
    uint64_t time_ns;
};

struct fake_op {
    struct fake_op *next;
    /* Called without the lock; an error makes the context unusable. */
    CUresult (*run)(struct fake_op *op);
    void (*drop)(struct fake_op *op); /* frees its resources, whether it has run or not; may be NULL */
    struct fake_context *context;
    struct fake_marker *await;          /* the operation begins after it is done */
    bool computes;                      /* takes turns with other processes' operations */
    unsigned long since;                /* fake.released at its begin */
    struct fake_connection *connection; /* connection in which it waits */
    struct fake_op *before, *behind;    /* neighbours in the connection */
};

struct fake_stream {
    CUstream handle;
    struct fake_context *context;
    pthread_t thread;
    pthread_cond_t wake;
    struct fake_op *first, *last;
    unsigned int depth;
    unsigned int flags;
    int priority; /* 0 to FAKE_GREATEST_PRIORITY */
    struct fake_connection *connection;
    bool closing;
    bool busy;
    bool detached; /* its green context and its thread have ended */
};

struct fake_stream *fake_stream_new(struct fake_context *context, unsigned int flags, int priority);
/* The stream of a handle; it must be of the current context. */
struct fake_stream *fake_stream_get(CUstream handle, struct fake_context *context, CUresult *result);
/* Appends an operation; waits for room, like the driver. */
CUresult fake_submit(struct fake_stream *stream, struct fake_op *op);
CUresult fake_stream_wait(struct fake_stream *stream);
void fake_stream_close(struct fake_stream *stream);
void fake_streams_end(struct fake_context *context);
/* Detaches the streams of a green context that ends; afterwards they can only be destroyed. */
void fake_streams_detach(struct fake_context *context);
void fake_wait(void); /* waits for progress */

/* ---- event.c ---- */

struct fake_event {
    CUevent handle;
    struct fake_context *context;
    unsigned int flags;
    struct fake_marker *marker; /* the latest recording */
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
    const char *init; /* in the image; NULL: zeros */
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
    unsigned int in_flight; /* submitted launches that have not finished */
};

/* Reads a cubin: functions, globals, architecture. */
CUresult fake_cubin_read(const void *image, struct fake_module *module);
void fake_module_end(struct fake_module *module);

/* ---- kernels.c ---- */

struct fake_launch {
    struct fake_op op;
    struct fake_module *module;
    unsigned int grid[3], block[3], shared;
    const struct fake_kernel *kernel;
    char name[FAKE_NAME];
    uint32_t param_bytes;
    unsigned char params[FAKE_MAX_PARAMS];
};

struct fake_kernel {
    const char *name;
    uint32_t param_bytes;
    CUresult (*run)(struct fake_launch *launch);
};

/* Finds a kernel by its name, mangled or not, and preferably its size of parameters; NULL: no such kernel. */
const struct fake_kernel *fake_kernel_find(const char *name, uint32_t param_bytes);
/* Waits until hanging kernels are released. */
CUresult fake_kernel_hang(struct fake_launch *launch);
/* Finds a kernel of bench_kernels.c; some share names with other kernels, with other parameters. */
const struct fake_kernel *fake_bench_kernel_find(const char *name, uint32_t param_bytes);
/* watched_kernels.c: kernels with the control system's hooks, and offset of their timer from CLOCK_REALTIME. */
extern _Atomic int64_t fake_timer_offset_ns;
const struct fake_kernel *fake_watched_kernel_find(const char *name);
/* builtin_kernels.c: kernels of built-in functions, and one that a test runs: 0, or 1 if it failed. */
typedef int (*fake_outside)(const char *name, unsigned int blocks, unsigned int threads, unsigned int shared,
                            const void *params, size_t param_bytes);
const struct fake_kernel *fake_builtin_kernel_find(const char *name);
const struct fake_kernel *fake_outside_kernel(void);

#endif
