/* libcudart over libvgc: what its files share.
 *
 * Locks, in this order: registry (registry.c), a device's `mutex`, addresses (addresses.c). None is held while the
 * device works, but for loading programs and for creating what the host must create. */
#ifndef VGC_CUDART_RUNTIME_H
#define VGC_CUDART_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_runtime_api.h"
#include "libvgc/vgc.h"

#define RT_API __attribute__((visibility("default")))
#define RT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define RT_MAX(a, b) ((a) > (b) ? (a) : (b))

enum { RT_MAX_DEVICES = 16, RT_MAX_STREAMS = 64 };

/* ---- errors.c ------------------------------------------------------------------------------- */

/* Notes the error as this thread's last, and returns it. Every function of the API ends with it. */
cudaError_t rt_return(cudaError_t error);
/* CUDA's error for a result of libvgc. Keeps libvgc's text for `vgc last-error`. */
cudaError_t rt_error(int vgc_result);
/* Notes why a call failed, in words, for `vgc last-error`, and returns `error`. */
cudaError_t rt_explain(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Keeps the error for `vgc last-error` (last_error.c). `explanation` may be empty. */
void rt_keep_error(cudaError_t error, const char *explanation);
/* Says once, on standard error, what a program asked for that is not there, and returns cudaErrorNotSupported. */
cudaError_t rt_unsupported(const char *what);

/* ---- devices.c ------------------------------------------------------------------------------ */

struct rt_operation;
struct rt_program;
struct rt_queue;

/* Nodes of a graph that captured work comes behind. */
struct rt_tail {
    struct CUgraphNode_st **nodes;
    size_t count;
};

/* Progress of a stream, for cudaStreamQuery(). */
struct rt_state {
    _Atomic uint64_t work;   /* stamp of the last operation issued */
    uint64_t done;           /* all up to this stamp is done; this and the next two under the device's mutex */
    uint64_t asked;          /* `work` when `event` was recorded */
    struct vgc_event *event; /* NULL: never asked */
};

struct rt_device {
    int ordinal;
    pthread_mutex_t mutex;
    _Atomic(struct vgc_device *) device; /* NULL until it is used */
    struct vgc_info info;                /* valid with `device`, as `told` is */
    struct vgc_device_limits told;       /* what the device tells of itself */
    uint32_t epoch;                      /* +1 at every reset */
    _Atomic cudaError_t sticky;          /* ends with cudaDeviceReset() */
    _Atomic cudaError_t late;            /* of work that was put off, until the next synchronisation */
    unsigned flags;                      /* of cudaSetDeviceFlags() */
    size_t limits[8];                    /* of cudaDeviceSetLimit() */

    /* streams.c */
    _Atomic uint64_t stamp; /* +1 for each operation issued */
    _Atomic uint64_t done;  /* all operations up to this stamp are done */
    _Atomic uint32_t num_streams;
    struct CUstream_st *streams;    /* all but the default ones */
    struct CUstream_st *per_thread; /* those of cudaStreamPerThread, among `streams` */
    struct rt_queue *legacy_queue;  /* deferred.c */
    struct rt_state legacy_state;
    struct vgc_event *legacy_event; /* last recording in the legacy stream */
    _Atomic uint64_t legacy_turn;   /* +1 for work in the legacy stream behind work in others */
    bool legacy_recorded;           /* legacy_event stands for this turn */
    uint32_t users[RT_MAX_STREAMS]; /* streams that share a stream of the device */
};

int rt_device_count(void);
/* The calling thread's current device, ready for use: opened if it was not. The sticky error, if it has one. */
cudaError_t rt_current(struct rt_device **device);
/* Likewise, for a given ordinal. */
cudaError_t rt_device(int ordinal, struct rt_device **device);
/* The current device's ordinal; does not open it. */
int rt_ordinal(void);
/* The device without opening it; NULL if it does not exist. */
struct rt_device *rt_device_at(int ordinal);
/* Takes what went wrong in detached work: makes it the sticky error. Returns the sticky error. */
cudaError_t rt_settle(struct rt_device *device);
/* Makes an error sticky if it is one of those that CUDA cannot go on from. Returns it. */
cudaError_t rt_fault(struct rt_device *device, cudaError_t error);
/* Waits for all work of the device, then rt_settle(), and prints what kernels printed. */
cudaError_t rt_synchronize(struct rt_device *device);
/* Copies what kernels printed to standard output. */
void rt_print(struct rt_device *device);
/* Called by streams.c and others when the device is reset. */
void rt_streams_forget(struct rt_device *device);
void rt_programs_forget(struct rt_device *device);
void rt_addresses_forget(struct rt_device *device);

/* ---- registry.c: what the program's objects register before main() --------------------------- */

struct rt_unit { /* an object file's GPU part */
    struct rt_unit *next;
    const void *data;    /* struct vgc_cuda_blob, or NVIDIA's fat binary */
    const void *library; /* base of the executable or shared library that it lies in */
    struct rt_program *programs[RT_MAX_DEVICES];
};

struct rt_function {
    const void *host; /* the stub's address */
    const char *name; /* the linker's */
    struct rt_unit *unit;
    _Atomic(struct vgc_function *) loaded[RT_MAX_DEVICES];
    int max_dynamic_shared; /* of cudaFuncSetAttribute() */
    int carveout;
};

struct rt_variable {
    const void *host; /* the shadow's address */
    const char *name;
    struct rt_unit *unit;
    size_t size;
    bool is_constant;
    bool is_managed;
    bool is_texture;                  /* a texture reference */
    bool is_surface;                  /* a surface reference */
    bool reads_normalised;            /* a texture reference's integers are read as floats */
    uint64_t address[RT_MAX_DEVICES]; /* 0: not looked up yet */
};

/* Lets host code name the variable by a second address. With the registry's lock free. */
void rt_variable_alias(struct rt_variable *variable, const void *host);
/* NULL if nobody registered it. */
struct rt_function *rt_function(const void *host);
struct rt_variable *rt_variable(const void *host);

/* ---- programs.c ----------------------------------------------------------------------------- */

/* The function on a device; its program is loaded at first use. */
cudaError_t rt_load_function(struct rt_device *device, struct rt_function *function, struct vgc_function **loaded);
cudaError_t rt_load_variable(struct rt_device *device, struct rt_variable *variable, uint64_t *address);
/* Frees what a unit loaded on all devices. */
void rt_unload_unit(struct rt_unit *unit);
/* All units of a library whose blobs are relocatable, beginning with `first`; their number. With the registry's lock.
 */
struct rt_unit *rt_units(void);
void rt_registry_lock(void);
void rt_registry_unlock(void);

/* ---- streams.c ------------------------------------------------------------------------------ */

struct CUstream_st {
    uint64_t magic;
    struct CUstream_st *next;
    struct rt_device *device;
    uint32_t epoch;
    uint32_t number; /* of the device's stream */
    unsigned flags;
    int priority;
    unsigned long long id;
    pthread_t thread;             /* of cudaStreamPerThread */
    _Atomic bool dirty;           /* has work that the legacy stream has not waited for */
    _Atomic uint64_t legacy_turn; /* last of the device's that this stream has waited for */
    struct vgc_event *event;      /* for the legacy stream to wait for */
    struct rt_queue *queue;       /* deferred.c */
    struct rt_state state;
    unsigned long long capture; /* its id; 0: none. With `tail`, for capture.c */
    struct rt_tail tail;
    enum cudaSynchronizationPolicy policy; /* of cudaStreamSetAttribute(); stored */
    struct cudaAccessPolicyWindow window;
};

/* The device's stream number for work that is about to be sent in `stream`, after what the order of the legacy default
 * stream asks for. */
cudaError_t rt_enter_stream(struct rt_device *device, cudaStream_t stream, uint32_t *number);
/* The stream, checked; NULL for the legacy one. */
cudaError_t rt_check_stream(struct rt_device *device, cudaStream_t stream, struct CUstream_st **checked);
/* Likewise, for a stream that was checked. */
cudaError_t rt_enter(struct rt_device *device, struct CUstream_st *stream, uint32_t *number);
/* Work in the legacy stream waits for blocking streams. */
cudaError_t rt_enter_legacy(struct rt_device *device);
int rt_clamp_priority(int priority);
/* Notes that all work of the stream up to a stamp is done. */
void rt_note_done(struct rt_device *device, struct CUstream_st *stream, uint64_t stamp);
/* To be called when the operation of rt_enter() has been issued: other threads may have entered meanwhile. */
void rt_leave(struct rt_device *device, struct CUstream_st *stream);
/* Takes a stream that has no work put off out of use, and frees it. */
void rt_close_stream(struct CUstream_st *stream);
/* Default streams of the calls that this thread makes are its own: set by the functions of per_thread.c. */
extern _Thread_local bool rt_default_is_per_thread;

/* ---- deferred.c: functions of the host in streams, and the work behind them -------------------- */

/* Streams with work that is put off, and captures: while it is 0, work is issued without further questions. */
extern _Atomic uint32_t rt_num_special;
/* This thread is calling a function for a stream. */
extern _Thread_local bool rt_is_called_back;

/* Issues the operation, or puts it off until what it must follow has been issued. `stream` is NULL for the legacy
 * one. */
cudaError_t rt_issue_in_order(struct rt_device *device, struct CUstream_st *stream,
                              const struct rt_operation *operation);
/* Waits until all that was put off in the stream has been issued. */
void rt_drain_stream(struct rt_device *device, struct CUstream_st *stream);
void rt_drain_device(struct rt_device *device);
/* Is work put off in the stream? */
bool rt_is_put_off(struct rt_device *device, struct CUstream_st *stream);
/* Closes the stream behind the work that is put off in it. False: nothing is put off. */
bool rt_close_later(struct CUstream_st *stream);
/* The event's latest recording is put off. */
bool rt_event_is_put_off(cudaEvent_t event);
void rt_drain_event(cudaEvent_t event);

/* ---- operations.c ------------------------------------------------------------------------------- */

/* A copy in one block of malloc(), with all that it points to but memory that is copied or filled. NULL: no memory. */
struct rt_operation *rt_keep(const struct rt_operation *operation);

/* ---- capture.c -------------------------------------------------------------------------------- */

/* Adds the operation to a graph if the stream is captured, or if it joins a capture; then *is_captured is true. */
cudaError_t rt_capture(struct rt_device *device, struct CUstream_st *stream, const struct rt_operation *operation,
                       bool *is_captured);
/* Likewise, for a launch of a graph. */
cudaError_t rt_capture_graph(struct CUstream_st *stream, const struct CUgraph_st *graph, bool *is_captured);
/* Likewise, for memory in the order of the stream. */
cudaError_t rt_capture_allocation(struct CUstream_st *stream, size_t size, void **memory, bool *is_captured);
cudaError_t rt_capture_free(struct CUstream_st *stream, void *memory, bool *is_captured);
/* To be called before a stream is waited for or asked: an error if it is captured. */
cudaError_t rt_check_capture(struct CUstream_st *stream);
/* Likewise, before the device is waited for. */
cudaError_t rt_check_synchronize(struct rt_device *device);
/* To be called by what CUDA calls unsafe during a capture, as cudaMalloc(). */
cudaError_t rt_check_unsafe(void);
bool rt_is_captured_event(cudaEvent_t event);
void rt_forget_captures(cudaEvent_t event);
/* The stream is about to go. */
void rt_end_captures_of(struct CUstream_st *stream);

/* ---- graph_segments.c --------------------------------------------------------------------------- */

struct rt_sent_graph;
void rt_hold_sent(struct rt_sent_graph *sent);
void rt_drop_sent(struct rt_sent_graph *sent);

/* ---- graph_memory.c ----------------------------------------------------------------------------- */

/* Was the memory allocated by a graph? Then it stays until the graph goes, even if the program frees it. */
bool rt_is_graph_memory(const void *address);

/* ---- fork.c ----------------------------------------------------------------------------------- */

/* True in a child of a process that had opened a device: nothing may be touched there. */
extern bool rt_is_forked;
/* To be called when a device is opened. */
void rt_watch_forks(void);

/* ---- events.c --------------------------------------------------------------------------------- */

struct CUevent_st {
    uint64_t magic;
    struct rt_device *device;
    uint32_t epoch;
    unsigned flags;
    pthread_mutex_t mutex; /* of `event`, which libvgc does not lock */
    struct vgc_event *event;
    bool is_recorded;
    _Atomic uint32_t users;     /* the program, and operations that are put off */
    unsigned long long capture; /* that it was last recorded in, or 0. With `tail`, for capture.c */
    struct rt_tail tail;
    uint64_t wanted; /* recordings put off, and those of them issued: deferred.c */
    uint64_t issued;
};

cudaError_t rt_check_event(cudaEvent_t event);
void rt_hold_event(cudaEvent_t event);
void rt_drop_event(cudaEvent_t event);

/* ---- functions.c ------------------------------------------------------------------------------ */

/* Blocks that a multiprocessor's threads, registers and shared memory are enough for. */
uint32_t rt_resident_blocks(const struct rt_device *device, const struct vgc_function_info *info, uint32_t threads,
                            size_t dynamic);

/* ---- submit.c: work for streams ---------------------------------------------------------------- */

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

/* Part of an executable graph on the device (graph_segments.c). */
struct rt_sent_graph {
    _Atomic uint32_t users; /* the executable graph, and launches that are put off */
    struct vgc_graph *graph;
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
/* In a stream that was checked, without looking at captures and work that is put off. NULL: the legacy one. */
cudaError_t rt_issue_now(struct rt_device *device, struct CUstream_st *stream, const struct rt_operation *operation);
cudaError_t rt_issue_launch(struct rt_device *device, const struct rt_launch *launch, uint32_t number); /* launch.c */
cudaError_t rt_issue_event_record(cudaEvent_t event, uint32_t number);                                  /* events.c */
cudaError_t rt_issue_event_wait(cudaEvent_t event, uint32_t number);

/* ---- shadow.c: copies for `vgc shadow` --------------------------------------------------------- */

bool rt_is_shadowed(void);
void rt_shadow_launched(const char *name);
/* A copy from the device has ended: its bytes are at `host`. */
void rt_shadow_copied(const void *host, size_t size);

/* ---- addresses.c: device memory of this process ---------------------------------------------- */

enum rt_memory_kind { RT_DEVICE_MEMORY, RT_HOST_MEMORY, RT_MANAGED_MEMORY };

struct rt_range {
    uint64_t begin;
    uint64_t size;
    enum rt_memory_kind kind;
    struct rt_device *device;
    unsigned flags;
    bool is_reserved; /* in this process's address space, too */
    void *owner;      /* NULL, or what knows more: struct rt_block, rt_piece, rt_mirror */
};

/* False: this runtime did not give out the address. */
bool rt_find_range(const void *pointer, struct rt_range *range);
cudaError_t rt_add_range(const struct rt_range *range);
bool rt_remove_range(uint64_t begin, struct rt_range *removed);
/* Takes the addresses out of use in this process. False: something of this process lies there. */
bool rt_reserve(uint64_t address, uint64_t size);
void rt_release(uint64_t address, uint64_t size);

/* ---- memory.c ------------------------------------------------------------------------------- */

/* Device memory whose addresses are reserved, and known to rt_find_range(). */
cudaError_t rt_allocate(struct rt_device *device, size_t size, void **pointer);
cudaError_t rt_free(const struct rt_range *range);
/* Does the pointer lie in device memory? For an address that this runtime does not know, `otherwise`. */
bool rt_is_device_pointer(const void *pointer, bool otherwise);
/* Checks a copy, and finds which of its sides are on a device. */
cudaError_t rt_check_copy(const struct rt_copy *copy, bool *to_device, bool *from_device);
/* One copy in a stream of the device, `kind` as in cudaMemcpy(). Waits for it, unless `detached`. */
cudaError_t rt_copy(struct rt_device *device, void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
                    uint32_t stream, bool detached);

/* ---- arrays.c ------------------------------------------------------------------------------- */

/* Memory of an array, and of all levels of a mipmap; objects of textures and surfaces keep it, too. */
struct rt_texels {
    atomic_uint users;
    struct rt_device *device;
    uint32_t epoch;
    struct vgc_array *array;
    struct vgc_array_shape shape;
};

struct cudaArray {
    struct cudaArray *next;
    struct rt_texels *texels;
    struct cudaMipmappedArray *mipmap; /* NULL: none */
    uint32_t level;
    struct cudaExtent extent; /* of the level, as the program gave it */
};

struct cudaMipmappedArray {
    struct cudaMipmappedArray *next;
    struct rt_texels *texels;
    struct cudaArray *levels; /* texels->shape.levels of them */
};

struct rt_format {
    uint32_t kind;
    uint32_t bits;
    uint32_t channels;
};

cudaError_t rt_format_of(const struct cudaChannelFormatDesc *description, struct rt_format *format);
/* The array if it is one that lives; else cudaErrorInvalidResourceHandle. */
cudaError_t rt_check_array(cudaArray_const_t array);
cudaError_t rt_check_mipmap(cudaMipmappedArray_const_t mipmap);
uint32_t rt_texel_bytes(const struct rt_texels *texels);
struct rt_texels *rt_keep_texels(struct rt_texels *texels);
cudaError_t rt_drop_texels(struct rt_texels *texels);

/* ---- boxes.c -------------------------------------------------------------------------------- */

/* Checks a copy between any two sides, and does it in the order of a stream. */
cudaError_t rt_copy_3d(const struct cudaMemcpy3DParms *copy, cudaStream_t stream, bool waits);
cudaError_t rt_issue_copy_3d(struct rt_device *device, const struct cudaMemcpy3DParms *copy, uint32_t number,
                             bool detached);

/* ---- fills.c -------------------------------------------------------------------------------- */

cudaError_t rt_fill(struct rt_device *device, const struct rt_fill *fill, uint32_t number);

/* ---- peers.c -------------------------------------------------------------------------------- */

/* Copies from one device to another, through this process's memory; waits for it. Sides are those of libvgc. */
cudaError_t rt_copy_peer(struct rt_device *to, const struct vgc_side *dst, struct rt_device *from,
                         const struct vgc_side *src, const size_t extent[3]);
/* Device that memory lies on; `otherwise` for what this runtime did not give out. */
struct rt_device *rt_device_of(const void *pointer, struct rt_device *otherwise);
/* A copy of one dimension that another device than the stream's has a part in; waits for it. */
cudaError_t rt_copy_apart(struct rt_device *device, void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
                          uint32_t stream, bool to_device, bool from_device);
/* Waits for a stream of the device, then takes what went wrong. */
cudaError_t rt_wait_stream(struct rt_device *device, uint32_t number);

/* ---- textures.c ----------------------------------------------------------------------------- */

/* Makes libvgc's form of a texture. `texels` is those that it reads; NULL: memory. */
cudaError_t rt_texture_form(const struct cudaResourceDesc *resource, const struct cudaTextureDesc *sampling,
                            const struct cudaResourceViewDesc *view, struct vgc_texture_form *form,
                            struct rt_texels **texels);

/* ---- managed.c: memory that host and device use at the same address, moved between them -------- */

enum { RT_ALL_STREAMS = -1 };

cudaError_t rt_managed_allocate(struct rt_device *device, size_t size, unsigned flags, void **pointer);
cudaError_t rt_managed_free(const struct rt_range *range);
/* Is it a __managed__ variable, which cannot be freed? */
bool rt_managed_is_variable(const struct rt_range *range);
/* Around sending work that may use all managed memory: what the host has written goes to the device, and the host gets
 * nothing back before rt_managed_leave(). */
cudaError_t rt_managed_enter(struct rt_device *device, uint32_t stream);
/* Likewise, for work that only uses these bytes, such as a copy. Other memory than managed is allowed, and ignored. */
cudaError_t rt_managed_enter_span(struct rt_device *device, const void *memory, size_t size, bool writes,
                                  uint32_t stream);
/* Once for each enter, even if that failed. */
void rt_managed_leave(void);
/* Work and frees are counted: each takes a turn; what has a turn up to the mark was sent before. */
uint64_t rt_next_turn(void);
uint64_t rt_mark(void);
/* After waiting for a stream, or all, up to the mark taken before: gives the host what it will probably look at. */
void rt_managed_settle(struct rt_device *device, int stream, uint64_t mark);
/* Gives or takes [memory, memory + size), without waiting for the host to touch it. */
cudaError_t rt_managed_prefetch(struct rt_device *device, const void *memory, size_t size, bool to_device,
                                uint32_t stream);
void rt_managed_forget(struct rt_device *device);

/* ---- managed_variables.c: __managed__ variables ------------------------------------------------ */

/* Notes that host code uses the variable through the pointer at `host`, which is at `initial` for now. */
void rt_managed_variable(struct rt_variable *variable, void **host, void *initial);
/* Once the device is open: variables are where its program has them. */
void rt_managed_variables_place(struct rt_device *device);
/* Do some wait for a device to be open? */
bool rt_managed_variables_wait(void);
/* The variable's address for one that host code took before a device was open; else `memory`. */
const void *rt_managed_variable_now(const void *memory);
void rt_managed_variables_forget(struct rt_device *device);

/* ---- mixed.c -------------------------------------------------------------------------------- */

/* Says on standard error, once, if NVIDIA's libcudart is loaded, too. */
void rt_look_for_others(void);

/* ---- faults.c: touching managed memory that is on the device ----------------------------------- */

/* Brings the memory at `address` to the host. False: it is not managed memory, or cannot be had. */
typedef bool rt_fault_function(void *address, bool writes);
/* Installs the handler of SIGSEGV, before the program's own; again, if the program has set another. */
void rt_faults_install(rt_fault_function *resolve);

/* ---- host.c: page-locked host memory ----------------------------------------------------------- */

/* Around sending a kernel, as rt_managed_enter(): registered memory that kernels may see. */
cudaError_t rt_mirrors_enter(struct rt_device *device, uint32_t stream);
void rt_mirrors_settle(struct rt_device *device);
void rt_host_forget(struct rt_device *device);

/* ---- pools.c: memory in the order of streams ---------------------------------------------------- */

/* Is the memory one of a pool's? Then it goes back there, as all work is done. */
bool rt_pools_take_back(const struct rt_range *range);
/* After waiting for a stream, or all: gives back to the device what pools hold beyond their thresholds. */
void rt_pools_settle(struct rt_device *device, int stream, uint64_t mark);
void rt_pools_forget(struct rt_device *device);

#endif
