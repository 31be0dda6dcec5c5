/* Internals of the CUDA engine.
 *
 *   engine.c   operations, creation and end             memory.c   allocations, the pool, the VM's region
 *   lane.c     operations of one stream, in order       program.c  modules, kernels, variables
 *   stream.c   CUstreams and the markers in them        events.c   the guest's events, and the GPU's clock
 *   submit.c   driver calls of an operation             output.c   text that kernels print
 *   step.c     operations in several steps              fault.c    driver errors: severity, and who is blamed
 *   driver.c   the driver's functions and errors        pause.c    waiting until nothing runs
 *   control.c  the control area in device memory        texts.c    links of programs to it, and their texts
 *   link.c     copies to and from it                    timer.c    conversion of records' times
 *   mirror.c   its part in the host's memory            mapped.c   memory at chosen addresses: cuda_mapped.h
 *   zero.c     zeroing of new memory              arrays.c   arrays: their size, life, zeroing
 *   boxes.c    copies of boxes                    objects.c  textures and surfaces
 *   gate.c     turns with other VMs of the GPU         builtins.c  built-in functions
 *   libraries.c  cuBLAS and cuFFT, for some of them
 *   dnn.c        cuDNN, for convolutions
 *   dnn_norms.c  and for normalization of batches
 *   library_files.c  their files
 *
 * Terms: a *lane* is a guest's stream: the operations of a (context, stream) in order. While some of them are
 * *submitted*, it has a CUstream; the others are *pending*. A *marker* behind submitted operations makes them a
 * *group*: the GPU only tells that the marker was reached, so the operations of a group end together. */
#ifndef VGC_CUDA_ENGINE_H
#define VGC_CUDA_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "builtins/library_calls.h"
#include "cdef.h"
#include "cuda_abi.h"
#include "cuda_dnn_abi.h"
#include "cuda_libraries_abi.h"
#include "kernels/control/vgc_control.h"
#include "kernels/cuda/control/vgc_cuda_link.h"

#define CUDA_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The driver blocks callers when its queues (1024 entries or more) are full. These limits keep them from getting full,
 * so that a kernel that hangs does not block the data plane's thread. */
enum {
    CUDA_LANE_COMMANDS = 64, /* of a lane, submitted and not finished; an operation alone in its lane may have more */
    CUDA_COMMANDS = 256,     /* of all lanes */
    CUDA_COMMANDS_MAX = 512, /* of all lanes, up to which a lane without any may submit one operation */
    CUDA_BATCH = 32,         /* of a graph, submitted at once */
    CUDA_STREAMS = 256,      /* number of CUstreams */
    CUDA_MARKS = 128,        /* markers of a CUstream that were not seen yet */
    CUDA_EVENTS = 1024,      /* CUevents kept for later use */
    CUDA_RECORDS = VGC_MAX_QUEUES * VGC_MAX_QUEUE_SIZE, /* EVENT_RECORDs in flight: as many as requests can be */
    CUDA_ALIGN = 512,                                   /* alignment of allocations, as in the driver's pools */
    CUDA_LATE_FREES = 65536 + 1024,                     /* more than the data plane's allocations */
    CUDA_SCRATCH = 4 << 20,                             /* bytes, for overlapping copies in GPU memory */
    CUDA_ZEROS = 4 << 20,                               /* bytes; a row of an array has at most 2 MiB */
    CUDA_LEVELS = 18,                                   /* most levels of an array */
    CUDA_OBJECT_BYTES = 64,                             /* of a texture or surface: its header and sampler */
    CUDA_STACK_BYTES = 1024,                            /* stack of each thread in a new context */
    CUDA_SHORT_NS = 200000,                             /* shorter kernels share a marker with others of their round */
    CUDA_ERROR_LOOK_NS = 200000,                        /* time between two checks for errors while nothing finishes */
    CUDA_MIN_NAP_NS = 20000,
    CUDA_MAX_NAP_NS = 1000000,
    CUDA_LINK_BYTES = 64 << 10,            /* most bytes of a copy of the control system */
    CUDA_MODULES = 11,                     /* of built-in functions */
    CUDA_LIBRARY_COMMANDS = 24,            /* bound of what a library submits for a call */
    CUDA_DNN_PLANS = 128,                  /* of cuDNN: descriptors in the worker's memory alone */
    CUDA_FFT_PLANS = 16,                   /* of cuFFT, each with tables in device memory that are not charged */
    CUDA_STATUSES = CUDA_COMMANDS_MAX / 2, /* calls of built-in functions that may fail: each is two commands or more */
    CUDA_GATE_NAP_NS = 200000,             /* longest nap while a launch is held */
    CUDA_NAP_SHARE = 32, /* naps last this fraction of the work's time, which delays the detection of its end */
};

struct cuda_stream {
    drv_stream handle;
    uint32_t *word; /* number of the last marker reached, written by the GPU, unless markers are events */
    drv_address word_address;
    uint32_t issued;      /* number of the last marker */
    uint32_t seen;        /* number of the last marker that was seen as reached */
    uint64_t allocs_seen; /* number of allocations that the stream is ordered behind */
    struct cuda_stream *next;
    drv_event marks[CUDA_MARKS]; /* marker n is marks[n % CUDA_MARKS], if markers are events */
};

struct cuda_lane {
    struct vgc_op *head;    /* oldest: submitted ones first */
    struct vgc_op *pending; /* oldest operation that is not submitted, or NULL */
    struct vgc_op *tail;
    struct cuda_stream *stream; /* NULL unless operations are submitted */
    struct cuda_lane *prev;     /* in the list of lanes with operations */
    struct cuda_lane *next;
    uint64_t group_start_ns; /* time at which the oldest group became the oldest */
    uint64_t moved;          /* bytes of the operation in steps that are done or submitted */
    uint32_t commands;       /* submitted and not finished */
    uint32_t open_ops;       /* operations submitted behind the last marker */
    uint32_t open_launches;  /* launches among open_ops */
    bool open_waits;         /* open_ops have an EVENT_WAIT */
    bool alone;              /* nothing may be submitted behind the submitted operation */
    bool stepping;           /* the submitted operation is done in steps */
    bool runs;               /* the oldest group has launches */
};

/* An EVENT_RECORD, from its arrival until no wait refers to it any more. */
struct cuda_record {
    enum { CUDA_RECORD_PENDING, CUDA_RECORD_SUBMITTED, CUDA_RECORD_DONE } state;
    uint32_t refs; /* references: the operation itself, and pending waits */
    drv_event event;
    uint64_t submitted_ns;
    struct cuda_record *next;
};

struct cuda_kernel {
    struct vgc_kernel base;
    drv_function function;
    bool prints;
    bool is_short;    /* by its last launch */
    uint64_t took_ns; /* time of that; 0: none has ended */
};

struct vgc_cuda_program {
    struct cuda_engine *engine;
    drv_module module;
    uint32_t num_kernels;
    uint32_t local_bytes;
    struct vgc_param_entry *params;
    char *names;
    char *texts; /* copy of its constants that records may name: texts_bytes from texts_address on */
    uint64_t texts_bytes;
    drv_address texts_address;
    drv_address link_address;               /* address of its __vgc_control; 0: it has none */
    struct vgc_cuda_program *next_texts;    /* list of programs with texts */
    drv_function clock;                     /* kernel that reads the GPU's timer; NULL: it has none */
    struct vgc_cuda_program *next_clock;    /* list of programs with `clock` */
    struct vgc_cuda_program *next_provided; /* list of programs charged to the quota */
    uint64_t quota_bytes;                   /* bytes charged to the VM's quota */
    struct cuda_kernel kernels[];
};

/* Printed text of a context that was not taken yet. */
struct cuda_output {
    char *text; /* VGC_MAX_OUTPUT_BYTES, NULL before the first text */
    uint32_t len;
    uint64_t lost;
};

/* Copy of a part of the control area, read at read_ns. */
struct cuda_window {
    uint8_t *bytes; /* in the staging memory */
    uint64_t offset;
    uint64_t size; /* 0: no copy */
    uint64_t read_ns;
};

/* The control area's file: the host's copy of the tables, and links that the GPU writes there; see mirror.c. */
struct cuda_mirror {
    uint8_t *host; /* NULL: not mapped */
    uint64_t size; /* of tables and urgent links */
    uint64_t links;
    uint64_t urgent_bytes; /* from `links` on; 0: no urgent links */
    drv_address urgent;
};

/* The control system's link with the GPU. All fields are protected by the lock. */
struct cuda_control {
    pthread_mutex_t lock;
    drv_stream stream; /* for the control system only */
    uint8_t *staging;  /* pinned memory for all copies */
    drv_address area;  /* 0: not attached */
    uint64_t size;
    uint64_t links;            /* offset of the links */
    struct vgc_cuda_link link; /* contents of programs' __vgc_control */
    struct cuda_mirror mirror;
    struct cuda_window tables_window;
    struct cuda_window links_window;
    enum { CUDA_LINK_READY, CUDA_LINK_LATE, CUDA_LINK_BROKEN } link_state; /* see link.c */
    drv_address under_way; /* destination of the late copy; 0: it does not write */
    uint8_t *backlog;      /* writes since the link is late */
    uint64_t backlog_bytes;
    struct vgc_cuda_program *texts;
};

/* Readings of the GPU's global timer; see timer.c. */
struct cuda_timer {
    struct vgc_cuda_program *programs; /* list of programs with a kernel that reads it */
    drv_stream stream;                 /* for readings only */
    void *answer;                      /* pinned memory that the kernel writes */
    drv_address answer_address;
    uint64_t asked_ns; /* start of the reading in progress; 0: no reading is in progress */
    uint64_t tried_ns; /* start of the last reading */
    uint64_t alone_ns; /* time since which no other work of the VM runs beside the reading; 0: unknown */
};

/* Turns with other VMs of the GPU; see gate.c. */
struct cuda_gate {
    const struct vgc_gate_grant *grant; /* NULL: launches take no turns */
    struct vgc_gate_account *account;
    int bell;
    uint32_t running;  /* lanes of which launches run */
    uint32_t launches; /* submitted and not finished; a graph's batch counts as one */
    uint64_t ran_ns;
    uint64_t since_ns;
    uint64_t rung; /* value of grant->armed that was answered */
    uint64_t beat; /* grant->beat, first seen at beat_ns */
    uint64_t beat_ns;
    const struct cuda_lane *last; /* lane that had a launch admitted last */
    bool took;                    /* that was in this round */
    bool refused;                 /* a launch was refused in this round because the turn is over */
    bool held;                    /* a launch was refused in the last round */
    uint64_t held_ns;             /* time since which one is */
};

/* Module with kernels of built-in functions. */
struct cuda_module {
    enum {
        CUDA_MODULE_ABSENT,
        CUDA_MODULE_WANTED, /* calls wait for it, and nobody has been asked for it */
        CUDA_MODULE_ASKED,
        CUDA_MODULE_LOADED,
        CUDA_MODULE_REFUSED, /* calls that wait for it fail with `status` and `why` */
    } state;
    const struct vgc_cuda_program *program;
    const struct cuda_kernel **kernels; /* of the program, by name */
    uint32_t status;                    /* enum vgc_status */
    char why[VGC_MAX_ERROR_TEXT];
};

/* Functions of cuBLAS, and the engine's handle. */
struct cuda_blas {
    void *library; /* NULL: not used */
    blas_handle handle;
#define MEMBER(name, parameters) blas_result(*name) parameters;
    BLAS_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Plan of cuFFT for all transforms of a shape. */
struct cuda_fft_plan {
    struct cuda_fft_shape shape; /* batch 0: no plan */
    fft_plan handle;
    uint64_t work_bytes;
    uint64_t used; /* number of the last use */
};

/* Functions of cuFFT, and plans of the shapes that were used last. */
struct cuda_fft {
    void *library; /* NULL: not used */
    struct cuda_fft_plan plans[CUDA_FFT_PLANS];
    uint64_t uses;
#define MEMBER(name, parameters) fft_result(*name) parameters;
    FFT_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Plan of cuDNN for all convolutions of a shape: its descriptors, and an algorithm. */
struct cuda_dnn_plan {
    uint32_t function;                         /* enum vgc_builtin_function; 0: no plan */
    struct vgc_cudnn_convolution_params shape; /* without addresses and factors */
    dnn_tensor x, y;
    dnn_filter w;
    dnn_convolution convolution;
    unsigned int algorithm;
    uint64_t work_bytes;
    uint64_t used; /* number of the last use */
};

/* Functions of cuDNN, and plans of the shapes that were used last. */
struct cuda_dnn {
    void *library; /* NULL: not used */
    dnn_handle handle;
    struct cuda_dnn_plan plans[CUDA_DNN_PLANS];
    uint64_t uses;
#define MEMBER(name, parameters) dnn_result(*name) parameters;
    DNN_FUNCTIONS(MEMBER)
#undef MEMBER
};

struct cuda_builtin;
struct cuda_engine;

/* Source of allocations. All functions are called with the engine entered. */
struct cuda_memory {
    /* 0, or -1 with the reason in `why`; `close` is called in both cases. */
    int (*start)(struct cuda_engine *engine, char *why);
    void (*close)(struct cuda_engine *engine);
    drv_result (*take)(struct cuda_engine *engine, uint64_t size, drv_address *address);
    drv_result (*give)(struct cuda_engine *engine, drv_address address);
    /* Allocates at an address that another engine of the VM gave: 0, -EINVAL, -EEXIST or -ENOMEM. NULL: unsupported. */
    int (*take_at)(struct cuda_engine *engine, drv_address address, uint64_t size);
    /* Returns memory that is kept for later allocations to the GPU. Called while nothing runs. */
    drv_result (*trim)(struct cuda_engine *engine);
    /* Bounds allocations to the quota without the `others` bytes of programs. OUT_OF_MEMORY: more is in use, and the
     * bound stays as before. Called while nothing runs. */
    drv_result (*share)(struct cuda_engine *engine, uint64_t others);
};

struct cuda_mapped;

struct cuda_array {
    struct vgc_body_array_create shape;
    uint64_t bytes; /* of memory_of_arrays */
    drv_mipmap mipmap;
    drv_array levels[CUDA_LEVELS]; /* of the mipmap, unless there is only one */
};

struct cuda_engine {
    struct vgc_engine base;
    struct cuda_driver driver;
    struct vgc_cuda_setup setup; /* without `driver` */
    drv_result entered;          /* result of the last enter */
    bool uses_events;            /* markers are events */
    bool draining;               /* nothing may be submitted: see pause.c */
    bool lost;                   /* the context is lost and the process about to end: see fault.c */

    /* lanes and streams */
    struct cuda_lane *active; /* lanes that have operations */
    uint32_t commands;        /* submitted and not finished */
    uint64_t looked_ns;       /* time of the last check for errors */
    uint32_t stack_bytes;     /* stack limit of each thread, as set last */
    uint32_t look_turn;       /* index of the lane that is checked next */
    struct cuda_stream *free_streams;
    struct cuda_stream *streams; /* array of CUDA_STREAMS */
    uint32_t num_streams;
    uint8_t *words; /* pinned, one cache line per CUstream */
    drv_address words_address;
    struct cuda_lane *lanes; /* by context and stream: see cuda_lane_of */

    /* events */
    struct cuda_record *records;
    struct cuda_record *free_records;
    struct cuda_record **latest; /* by event: its last EVENT_RECORD, NULL if that is done */
    uint32_t num_free_events;
    drv_event free_events[CUDA_EVENTS];
    drv_event clock; /* an event that has happened at clock_ns */
    uint64_t clock_ns;

    /* memory */
    const struct cuda_memory *memory; /* NULL until the start */
    struct cuda_mapped *mapped;       /* NULL: memory is from the pool */
    drv_address mapped_base;          /* required begin of the range; 0: any */
    drv_pool pool;
    uint64_t *late_frees; /* of the pool: allocations that are freed when their stream has room; CUDA_LATE_FREES */
    uint32_t num_late_frees;
    drv_stream alloc_stream; /* fills of new memory; allocations and frees of the pool */
    drv_event alloc_event;   /* recorded behind the last fill */
    uint64_t allocs;         /* number of fills that streams must be ordered behind */
    uint32_t alloc_commands; /* in alloc_stream since it was last seen empty */
    bool alloc_is_open;      /* alloc_event is not recorded behind the last of them */
    bool alloc_is_late;      /* waiting for them took too long; nothing waits for them until they have ended */
    struct vgc_cuda_program *provided; /* list of programs charged to the quota */
    uint64_t memory_of_arrays;         /* bytes */
    bool defers_arrays;                /* the driver makes arrays without memory, of which it tells the size */
    uint64_t max_pitch;
    drv_address zeros; /* CUDA_ZEROS bytes of zeroes, from the first array on */
    drv_address scratch;
    struct cuda_lane *scratch_user;
    uint8_t *region;
    uint64_t region_size;
    drv_address region_address; /* 0: not registered */

    struct cuda_control control;
    struct cuda_timer timer;
    struct cuda_gate gate;

    /* built-in functions */
    struct cuda_blas blas;
    struct cuda_fft fft;
    struct cuda_dnn dnn;
    struct cuda_builtin *builtins; /* list */
    struct cuda_module modules[CUDA_MODULES];
    uint32_t *statuses; /* pinned, CUDA_STATUSES words; NULL before the first module */
    uint32_t *free_statuses[CUDA_STATUSES];
    uint32_t num_free_statuses;

    /* output */
    uint32_t printing;         /* running launches that may print */
    uint32_t printing_context; /* context of all of them */
    struct cuda_output outputs[VGC_MAX_CONTEXTS + 1];
};

static inline struct cuda_engine *cuda_engine_of(struct vgc_engine *engine)
{
    return (struct cuda_engine *)engine;
}

static inline struct cuda_lane *cuda_lane_of(const struct cuda_engine *engine, uint32_t context, uint32_t stream)
{
    return &engine->lanes[(size_t)context * VGC_MAX_STREAMS + stream];
}

static inline struct cuda_kernel *cuda_kernel_of(const struct vgc_op *op)
{
    return op->kernel->engine_private;
}

/* True if the marker `number` is reached. Numbers are modulo 2^32; compared ones are never 2^31 apart. */
static inline bool cuda_is_reached(uint32_t seen, uint64_t number)
{
    return (int32_t)(seen - (uint32_t)number) >= 0;
}

/* CLOCK_MONOTONIC */
static inline uint64_t cuda_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- driver.c ---- */
int cuda_driver_open(struct cuda_driver *driver, const char *name, char *why);
void cuda_driver_close(struct cuda_driver *driver);
/* "CUDA_ERROR_X (what it means)". */
void cuda_error_text(const struct cuda_engine *engine, drv_result error, char *text, uint32_t size);
/* For functions that have a `why`: notes what failed; -1. */
int cuda_why(const struct cuda_engine *engine, char *why, const char *what, drv_result error);

/* ---- engine.c ---- */
bool cuda_poll(struct vgc_engine *base);
uint64_t cuda_nap_ns(struct vgc_engine *base, uint64_t now_ns);

/* ---- lane.c ---- */
void cuda_lane_append(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op);
/* Finishes operations that are done; true if there were any. */
bool cuda_lane_collect(struct cuda_engine *engine, struct cuda_lane *lane);
/* Submits operations that may be submitted; true if there were any. */
bool cuda_lane_advance(struct cuda_engine *engine, struct cuda_lane *lane);
/* Puts a marker behind the operations submitted since the last one. */
void cuda_lane_mark(struct cuda_engine *engine, struct cuda_lane *lane);
void cuda_lane_cancel(struct cuda_engine *engine, struct cuda_lane *lane);
/* Oldest launch that may be running, or NULL; *in_group: number of launches in its group. */
const struct vgc_op *cuda_lane_running(const struct cuda_lane *lane, uint32_t *in_group);

/* ---- stream.c ---- */
/* Makes pinned words and first streams, and chooses words or events. 0, or -1 with the reason in `why`. */
int cuda_streams_start(struct cuda_engine *engine, char *why);
void cuda_streams_close(struct cuda_engine *engine);
bool cuda_stream_available(const struct cuda_engine *engine);
/* Takes a stream; cuda_stream_available() must have returned true. */
drv_result cuda_stream_take(struct cuda_engine *engine, struct cuda_stream **stream);
void cuda_stream_put(struct cuda_engine *engine, struct cuda_stream *stream);
/* Makes a stream in the current context for short work that shall not wait for kernels. */
drv_result cuda_urgent_stream(const struct cuda_engine *engine, drv_stream *stream);
/* Orders a stream behind all allocations so far. */
drv_result cuda_follow_allocs(struct cuda_engine *engine, struct cuda_stream *stream);
/* Submits the next marker; `issued` is its number. */
drv_result cuda_stream_mark(struct cuda_engine *engine, struct cuda_stream *stream);
/* Checks which markers were reached: sets `seen`. */
drv_result cuda_stream_look(struct cuda_engine *engine, struct cuda_stream *stream);

/* ---- submit.c ---- */
/* Approximate number of driver calls of an operation; the same at every call. */
uint32_t cuda_cost(const struct vgc_op *op);
uint32_t cuda_node_cost(const struct vgc_op *op); /* of a graph's current node */
drv_result cuda_submit(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op);

/* ---- step.c ---- */
/* Decides whether an operation is done in steps, alone in its lane, and notes that in it when it arrives, and the
 * driver calls of a built-in function. */
void cuda_note_steps(const struct cuda_engine *engine, struct vgc_op *op);
bool cuda_in_steps(const struct vgc_op *op);
/* True if the operation needs the scratch buffer and another lane uses it. */
bool cuda_scratch_is_taken(const struct cuda_engine *engine, const struct cuda_lane *lane, const struct vgc_op *op);
/* Does or submits the next step; *submitted: it was submitted to the GPU. */
drv_result cuda_step(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op, bool *submitted);
/* Ends an operation in steps. */
void cuda_steps_end(struct cuda_engine *engine, struct cuda_lane *lane);

/* ---- events.c ---- */
int cuda_events_start(struct cuda_engine *engine, char *why);
void cuda_events_close(struct cuda_engine *engine);
/* Gives an EVENT_RECORD a new record, and an EVENT_WAIT the record that it waits for, if that is not done. */
void cuda_event_arrive(struct cuda_engine *engine, struct vgc_op *op);
/* True if the record that the wait is for was submitted or is done. */
bool cuda_wait_may_go(const struct vgc_op *op);
drv_result cuda_submit_record(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op);
drv_result cuda_submit_wait(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op);
/* Sets the times of an EVENT_RECORD that has happened. */
drv_result cuda_record_happened(struct cuda_engine *engine, struct vgc_op *op, uint64_t now_ns);
/* Releases an operation's record when it ends or is not submitted. */
void cuda_event_leave(struct cuda_engine *engine, struct vgc_op *op);

/* ---- memory.c ---- */
int cuda_memory_start(struct cuda_engine *engine, char *why);
void cuda_memory_close(struct cuda_engine *engine);
int cuda_alloc(struct vgc_engine *base, uint64_t size, uint64_t *address);
int cuda_alloc_at(struct vgc_engine *base, uint64_t address, uint64_t size);
int cuda_free(struct vgc_engine *base, uint64_t address, uint64_t size);
int cuda_map_region(struct vgc_engine *base, uint8_t *host, uint64_t size, uint64_t *address);
/* True if all bytes are in the registered region. */
bool cuda_is_registered(const struct cuda_engine *engine, const uint8_t *host, uint64_t len);
/* Host address of a device address in the VM's region; NULL: GPU memory. */
uint8_t *cuda_host_of(const struct cuda_engine *engine, uint64_t address);

/* ---- zero.c ---- */
int cuda_zero_start(struct cuda_engine *engine, char *why);
/* Waits for the end of all fills; called while nothing else of the VM runs, before memory goes. */
void cuda_zero_finish(struct cuda_engine *engine);
void cuda_zero_close(struct cuda_engine *engine);
/* Submits a fill with zeros. Memory may be used by streams only behind cuda_zero_publish(). NOT_READY: too many fills
 * are behind a kernel that does not end. */
drv_result cuda_zero(struct cuda_engine *engine, drv_address address, uint64_t size);
/* Orders all later operations of the VM behind the fills so far. */
drv_result cuda_zero_publish(struct cuda_engine *engine);
/* Counts further commands that were submitted to alloc_stream. */
void cuda_zero_note(struct cuda_engine *engine, uint32_t commands);
bool cuda_zero_has_room(struct cuda_engine *engine);
/* Waits until alloc_stream has room. NOT_READY: that took too long. */
drv_result cuda_zero_make_room(struct cuda_engine *engine);
/* True if alloc_stream is empty. */
bool cuda_zero_is_done(struct cuda_engine *engine);
/* Waits until alloc_stream is empty. NOT_READY: that took too long. */
drv_result cuda_zero_await(struct cuda_engine *engine);

/* ---- arrays.c ---- */
void cuda_arrays_start(struct cuda_engine *engine);
int cuda_array_bytes(struct vgc_engine *base, const struct vgc_body_array_create *shape, uint64_t *bytes, char *why);
int cuda_array_make(struct vgc_engine *base, const struct vgc_body_array_create *shape, uint64_t bytes, void **array,
                    char *why);
void cuda_array_end(struct vgc_engine *base, void *array);
/* CUarray_format of channels. */
uint32_t cuda_format_of(uint32_t kind, uint32_t bits);

/* ---- objects.c ---- */
int cuda_object_make(struct vgc_engine *base, const struct vgc_texture_spec *spec, uint64_t *object, char *why);
void cuda_object_end(struct vgc_engine *base, uint64_t object, bool is_surface);

/* ---- boxes.c ---- */
/* True if one call of the driver cannot copy the box. */
bool cuda_box_in_steps(const struct cuda_engine *engine, const struct vgc_op *op);
drv_result cuda_submit_box(const struct cuda_engine *engine, drv_stream stream, const struct vgc_op *op);
/* Copies some of the box from lane->moved on; *submitted as in cuda_step(). */
drv_result cuda_step_box(struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op, bool *submitted);

/* ---- program.c ---- */
/* Bounds the memory of allocations to what programs and arrays leave of the quota. */
drv_result cuda_share_memory(struct cuda_engine *engine);

/* ---- mapped.c ---- */
extern const struct cuda_memory CUDA_MAPPED_MEMORY;

/* ---- output.c ---- */
/* Takes text that a finished launch printed; `stream` is idle. Sets op->output_bytes. */
drv_result cuda_output_collect(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op);
/* First line that the driver wrote about a failed assertion of the lane's kernel; "" if it wrote nothing. */
void cuda_output_assertion(struct cuda_engine *engine, const struct cuda_lane *lane, char *text, uint32_t size);
uint32_t cuda_take_output(struct vgc_engine *base, uint32_t context, char *to, uint32_t size, uint32_t *left,
                          uint64_t *lost);

/* ---- link.c ---- */
/* Takes the control system's lock and makes the primary context current, until cuda_link_end. 0; -EAGAIN: the link is
 * late, so only writes are possible; -EIO: the link is broken, and the lock was not taken. */
int cuda_link_begin(struct cuda_engine *engine);
/* True if the link is broken; the GPU may still work. Takes the lock itself. */
bool cuda_link_is_broken(struct cuda_engine *engine);
/* Ends cuda_link_begin; returns the errno for a driver error. -EAGAIN: the link has become late. */
int cuda_link_end(struct cuda_engine *engine, drv_result error);
/* Writes bytes, or keeps them until the link is ready again; always in order. */
drv_result cuda_link_write(struct cuda_engine *engine, drv_address to, const void *from, uint64_t size);
/* Waits until the link's stream is empty. NOT_READY: that took too long, and the link is late from now on. */
drv_result cuda_link_await(struct cuda_engine *engine);
/* Drops kept writes to this address, whose memory is to be freed. False: it must not be freed, as a copy that does not
 * end may still write there. Called while no work of the VM runs. Takes the lock itself. */
bool cuda_link_forget(struct cuda_engine *engine, drv_address to);

/* ---- control.c ---- */
int cuda_control_attach(struct vgc_engine *base, int fd, uint8_t *host, uint64_t size, uint64_t *device);
int cuda_control_write(struct vgc_engine *base, uint64_t offset, const void *from, uint64_t size);
int cuda_control_read(struct vgc_engine *base, uint64_t offset, void *to, uint64_t size);
/* Writes to a variable of a program that is loaded and does not run yet. The control system sees the program later if
 * the link is late, and never if it is broken. 0 or -errno. */
int cuda_control_set(struct cuda_engine *engine, drv_address to, const void *from, uint64_t size);
void cuda_control_close(struct cuda_engine *engine);

/* ---- mirror.c ---- */
void cuda_mirror_open(struct cuda_engine *engine, int fd, const struct vgc_ctl_area *header, uint64_t size);
void cuda_mirror_close(struct cuda_engine *engine);
bool cuda_mirror_is_urgent(const struct cuda_mirror *mirror, uint64_t offset);
/* Reads from the file; false: it does not have these bytes. */
bool cuda_mirror_read(const struct cuda_mirror *mirror, uint64_t offset, void *to, uint64_t size);
/* Notes the offset of records' times in the file, for the daemon when this process has ended. */
void cuda_mirror_clock(const struct cuda_mirror *mirror, int64_t clock_ns);
/* Notes in the file's tables bytes that were written to or read from the GPU. */
void cuda_mirror_note(struct cuda_mirror *mirror, uint64_t offset, const void *from, uint64_t size);

/* ---- timer.c ---- */
/* Finds the kernel that reads the timer in a program that is loaded and does not run yet. */
void cuda_timer_learn(struct vgc_cuda_program *program);
/* Stops using a program's kernel before it is unloaded. */
void cuda_timer_forget(struct vgc_cuda_program *program);
/* Takes a reading from time to time, while the VM's work runs. */
void cuda_timer_turn(struct cuda_engine *engine, uint64_t now_ns);
/* True if no reading is in progress; called while nothing else runs. */
bool cuda_timer_is_quiet(struct cuda_engine *engine);
void cuda_timer_close(struct cuda_engine *engine);

/* ---- gate.c ---- */
/* True if launches need not wait and are not counted in advance: most of the time. */
static inline bool cuda_gate_is_open(const struct cuda_gate *gate)
{
    return gate->grant == NULL || __atomic_load_n(&gate->grant->until_ns, __ATOMIC_RELAXED) == VGC_GATE_OPEN;
}
/* Launches of a submitted operation: a graph has those of its batch. */
uint32_t cuda_launches_of(const struct vgc_op *op);
/* True if the pending operation may be submitted although the gate is not open; else it is tried again later. */
bool cuda_gate_admits(struct cuda_engine *engine, const struct cuda_lane *lane);
/* Counts an operation that was submitted. */
void cuda_gate_submitted(struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op);
/* Counts an operation, or a graph's batch, that has ended. */
void cuda_gate_finished(struct cuda_engine *engine, const struct vgc_op *op);
/* Notes that a different group is the lane's oldest. */
void cuda_gate_moved(struct cuda_engine *engine, struct cuda_lane *lane);
/* Begins a round, in which lanes may submit, and returns the lane that is the first to: they take turns. */
struct cuda_lane *cuda_gate_begin_round(struct cuda_engine *engine);
void cuda_gate_end_round(struct cuda_engine *engine);
/* Longest nap while a launch is held. */
uint64_t cuda_gate_nap_ns(const struct cuda_engine *engine, uint64_t now_ns);

/* ---- libraries.c ---- */
/* Loads the libraries that the setup names. 0, or -1 with the reason in `why`: one is required and cannot be used. */
int cuda_libraries_open(struct cuda_engine *engine, const struct vgc_cuda_setup *setup, char *why);
/* Makes handles, while nothing runs, as the libraries allocate memory and load modules then. As above; also if the
 * context is lost with a failed call. */
int cuda_libraries_start(struct cuda_engine *engine, char *why);
void cuda_libraries_close(struct cuda_engine *engine);
/* True if the library is used. */
bool cuda_library_is_used(const struct cuda_engine *engine, enum cuda_library library);
/* Bytes of device memory that the library wants for a call while it runs; makes the plan of its shape. False: it cannot
 * compute the call. */
bool cuda_library_bytes(struct cuda_engine *engine, const struct cuda_library_call *call, uint64_t *bytes);
/* Submits a call's work. `work`: memory of `bytes` bytes. */
enum cuda_library_result {
    CUDA_LIBRARY_DONE,
    CUDA_LIBRARY_REFUSED, /* nothing was submitted */
    CUDA_LIBRARY_FAILED,  /* some of the work may have been submitted */
};
enum cuda_library_result cuda_library_submit(struct cuda_engine *engine, drv_stream stream,
                                             const struct cuda_library_call *call, drv_address work, uint64_t bytes);

/* ---- dnn_norms.c ---- */
/* Submits a normalization of batches. `function`: an enum vgc_builtin_function. */
dnn_result cuda_dnn_normalize(const struct cuda_dnn *dnn, drv_stream stream, uint32_t function,
                              const struct vgc_cudnn_normalization_params *p);

/* ---- library_files.c ---- */
/* Loads a library and finds its functions, each by name and place in `functions`; NULL on failure, with the reason in
 * `why`. */
struct cuda_symbol {
    const char *name;
    size_t offset;
};
void *cuda_library_load(const char *path, const struct cuda_symbol *symbols, size_t count, void *functions, char *why);
/* An error of the context behind an operation that a library has refused, DRV_SUCCESS if it still works. */
drv_result cuda_library_context_error(const struct cuda_engine *engine, drv_stream stream);

/* ---- dnn.c ---- */
/* Loads cuDNN if the setup names it, with the libraries that it loads itself; without it, there are no such calls. */
void cuda_dnn_open(struct cuda_engine *engine, const struct vgc_cuda_setup *setup, char *why);
/* Makes the handle. An error of the context; DRV_SUCCESS also if cuDNN does not start, and then is not used. */
drv_result cuda_dnn_start(struct cuda_engine *engine);
void cuda_dnn_close(struct cuda_engine *engine);
/* Parts of cuda_library_bytes() and cuda_library_submit() for cuDNN, whose result the second returns. */
bool cuda_dnn_bytes(struct cuda_engine *engine, const struct cuda_library_call *call, uint64_t *bytes);
dnn_result cuda_dnn_submit(struct cuda_engine *engine, drv_stream stream, const struct cuda_library_call *call,
                           drv_address work, uint64_t bytes);

/* ---- builtins.c ---- */
void *cuda_find_builtin(struct vgc_engine *base, const struct vgc_builtin *builtin);
uint64_t cuda_launch_bytes(struct vgc_engine *base, const struct vgc_op *op);
/* Driver calls of a call of a built-in function; 0: the operation is something else. */
uint32_t cuda_builtin_cost(const struct cuda_engine *engine, const struct vgc_op *op);
/* Notes that a call has arrived: a module that was refused is asked for again. */
void cuda_builtin_arrive(struct cuda_engine *engine, const struct vgc_op *op);
/* True if the call may fail because of the data: nothing of its graph is submitted behind it before it has ended. */
bool cuda_builtin_reports(const struct vgc_op *op);
/* True if the operation does not wait for a module; asks for it. */
bool cuda_builtin_may_go(struct cuda_engine *engine, const struct vgc_op *op);
/* Submits a call; one whose module was refused fails. */
drv_result cuda_submit_builtin(struct cuda_engine *engine, drv_stream stream, struct vgc_op *op);
/* Takes the status of a call that has ended, if it has one. */
void cuda_builtin_end(struct cuda_engine *engine, struct vgc_op *op);
/* Stops using a program that is about to be unloaded. */
void cuda_builtins_forget(const struct vgc_cuda_program *program);
void cuda_builtins_close(struct cuda_engine *engine);

/* ---- texts.c ---- */
int cuda_control_text(struct vgc_engine *base, uint64_t address, char *text, uint32_t size);
/* Drops a program's texts before it is unloaded. False: its variables must stay. */
bool cuda_texts_forget(struct vgc_cuda_program *program);

/* ---- fault.c ---- */
/* Ends op with this error. Does not return if the context is lost with it. */
void cuda_op_failed(struct cuda_engine *engine, struct vgc_op *op, const char *what, drv_result error);
/* Checks an error; does not return if the context is lost with it. */
void cuda_check(struct cuda_engine *engine, drv_result error);
/* Ends the worker. Blames the running launch, or `hint` if none runs and it is not NULL. */
__attribute__((noreturn)) void cuda_lost(struct cuda_engine *engine, const struct vgc_op *hint, drv_result error);
/* Describes a launch for its error text, with other running launches. */
void cuda_describe(struct vgc_engine *base, const struct vgc_op *op, char *text, uint32_t size);

#endif
