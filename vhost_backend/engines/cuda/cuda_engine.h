/* Inside the CUDA engine.
 *
 *   engine.c   life, and what the data plane calls      memory.c   pool, the VM's region
 *   lane.c     operations of one stream, in order       program.c  modules, kernels, variables
 *   stream.c   CUstreams and the markers in them        events.c   the guest's events, and the GPU's clock
 *   submit.c   one operation becomes driver calls       output.c   what kernels print
 *   step.c     operations that take several turns       fault.c    driver errors: whose, and how bad
 *   driver.c   the driver's functions                   pause.c    until nothing runs
 *   control.c  the control area in device memory        texts.c    what programs know of it, and it of them
 *   mirror.c   what of it is in the host's memory
 *
 * Words: a *lane* is what the guest calls a stream, the operations of one (context, stream) in order. While some of
 * them are *submitted* it has a CUstream; the rest of them are *pending*. A *marker* behind submitted operations makes
 * them a *group*: that it was reached is all that the GPU tells, so the operations of a group end together. */
#ifndef VGC_CUDA_ENGINE_H
#define VGC_CUDA_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cdef.h"
#include "cuda_abi.h"
#include "kernels/control/vgc_control.h"
#include "kernels/cuda/control/vgc_cuda_link.h"

#define CUDA_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The driver makes callers wait when its queues (1024 entries and more) are full, so they never get full: a kernel
 * that hangs must not take the data plane's thread with it. */
enum {
    CUDA_LANE_COMMANDS = 64, /* submitted and not finished, of a lane; an operation alone in its lane may have more */
    CUDA_COMMANDS = 256,     /* of all lanes */
    CUDA_COMMANDS_MAX = 512, /* of all lanes: up to here, a lane that has none may submit one operation */
    CUDA_STREAMS = 256,      /* CUstreams */
    CUDA_MARKS = 128,        /* markers not seen yet, of a CUstream */
    CUDA_EVENTS = 1024,      /* CUevents kept for use */
    CUDA_RECORDS = VGC_MAX_QUEUES * VGC_MAX_QUEUE_SIZE, /* EVENT_RECORDs in flight: as many as requests can be */
    CUDA_ALIGN = 512,                                   /* of allocations, as the driver's pools have it */
    CUDA_SCRATCH = 4 << 20,                             /* bytes, for moves within one allocation */
    CUDA_SHORT_NS = 200000,      /* kernels that took less share a marker with others of their round */
    CUDA_ERROR_LOOK_NS = 200000, /* between two questions for errors while nothing is finished */
    CUDA_MIN_NAP_NS = 20000,
    CUDA_MAX_NAP_NS = 1000000,
    CUDA_NAP_SHARE = 32, /* naps are this part of the time that the work has taken: so much later is its end seen */
};

struct cuda_stream {
    drv_stream handle;
    uint32_t *word; /* the GPU writes the number of the last marker reached, unless markers are events */
    drv_address word_address;
    uint32_t issued;      /* number of the last marker */
    uint32_t seen;        /* ... that was reached */
    uint64_t allocs_seen; /* allocations that it is ordered behind */
    struct cuda_stream *next;
    drv_event marks[CUDA_MARKS]; /* marker n is marks[n % CUDA_MARKS], if markers are events */
};

struct cuda_lane {
    struct vgc_op *head;    /* oldest: submitted ones first */
    struct vgc_op *pending; /* oldest that is not submitted, or NULL */
    struct vgc_op *tail;
    struct cuda_stream *stream; /* while anything is submitted */
    struct cuda_lane *prev;     /* of the lanes that have operations */
    struct cuda_lane *next;
    uint64_t group_start_ns; /* when the oldest group became that */
    uint64_t moved;          /* by the operation in steps: bytes done or on their way */
    uint32_t commands;       /* submitted and not finished */
    uint32_t open_ops;       /* submitted behind the last marker */
    uint32_t open_launches;  /* of them */
    bool open_waits;         /* one of them waits for an event */
    bool alone;              /* what is submitted suffers nothing behind it */
    bool stepping;           /* what is submitted is an operation in steps */
};

/* One EVENT_RECORD, from its arrival until nobody waits for it any more. */
struct cuda_record {
    enum { CUDA_RECORD_PENDING, CUDA_RECORD_SUBMITTED, CUDA_RECORD_DONE } state;
    uint32_t refs; /* the operation itself, and waits that are pending */
    drv_event event;
    uint64_t submitted_ns;
    struct cuda_record *next;
};

struct cuda_kernel {
    struct vgc_kernel base;
    drv_function function;
    bool prints;
    bool is_short; /* as far as has been seen */
};

struct vgc_cuda_program {
    struct cuda_engine *engine;
    drv_module module;
    uint32_t num_kernels;
    uint32_t local_bytes;
    struct vgc_param_entry *params;
    char *names;
    char *texts; /* its constants, as far as records may name them: texts_bytes from texts_address on */
    uint64_t texts_bytes;
    drv_address texts_address;
    struct vgc_cuda_program *next_texts; /* of those that have some */
    struct cuda_kernel kernels[];
};

/* What kernels of one context printed and nobody has taken. */
struct cuda_output {
    char *text; /* VGC_MAX_OUTPUT_BYTES, or NULL while there is none */
    uint32_t len;
    uint64_t lost;
};

/* A part of the control area as it was a moment ago. */
struct cuda_window {
    uint8_t *bytes; /* in the staging memory */
    uint64_t offset;
    uint64_t size; /* 0: there is none */
    uint64_t read_ns;
};

/* The control area's file: tables as the host knows them, and links that the GPU writes there; see mirror.c. */
struct cuda_mirror {
    uint8_t *host; /* NULL: there is none */
    uint64_t size; /* of tables and urgent links */
    uint64_t links;
    uint64_t urgent_bytes; /* from there on; 0: none */
    drv_address urgent;
};

/* The control system's link with the GPU: everything in here is used under the lock. */
struct cuda_control {
    pthread_mutex_t lock;
    drv_stream stream; /* nobody else's */
    uint8_t *staging;  /* pinned; what is copied goes through it */
    drv_address area;  /* 0: not attached */
    uint64_t size;
    uint64_t links;            /* from there on there are slots */
    struct vgc_cuda_link link; /* what programs are told */
    struct cuda_mirror mirror;
    struct cuda_window tables_window;
    struct cuda_window links_window;
    bool broken; /* a copy did not end */
    struct vgc_cuda_program *texts;
};

struct cuda_engine {
    struct vgc_engine base;
    struct cuda_driver driver;
    struct vgc_cuda_setup setup; /* without `driver` */
    drv_result entered;          /* by the last enter */
    bool uses_events;            /* for markers */
    bool draining;               /* nothing may be submitted: see pause.c */
    bool lost;                   /* and about to end the process: see fault.c */

    /* lanes and streams */
    struct cuda_lane *active; /* lanes that have operations */
    uint32_t commands;        /* submitted and not finished */
    uint64_t looked_ns;       /* for errors */
    uint32_t look_turn;       /* which of the lanes is asked next */
    struct cuda_stream *free_streams;
    struct cuda_stream *streams; /* CUDA_STREAMS */
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
    drv_event clock;   /* an event that has happened... */
    uint64_t clock_ns; /* ...and when */

    /* memory */
    drv_pool pool;
    drv_stream alloc_stream;
    drv_event alloc_event; /* behind the last allocation */
    uint64_t allocs;
    drv_address scratch;
    struct cuda_lane *scratch_user;
    uint8_t *region;
    uint64_t region_size;
    drv_address region_address; /* 0: not registered */

    struct cuda_control control;

    /* output */
    uint32_t printing;         /* launches that may print and run */
    uint32_t printing_context; /* of all of them */
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

/* Markers are numbered modulo 2^32; two that are compared are never half of that apart. */
static inline bool cuda_is_reached(uint32_t seen, uint64_t number)
{
    return (int32_t)(seen - (uint32_t)number) >= 0;
}

/* ---- driver.c ---- */
int cuda_driver_open(struct cuda_driver *driver, const char *name, char *why);
void cuda_driver_close(struct cuda_driver *driver);

/* ---- engine.c ---- */
uint64_t cuda_now_ns(void);
bool cuda_poll(struct vgc_engine *base);
uint64_t cuda_nap_ns(struct vgc_engine *base, uint64_t now_ns);

/* ---- lane.c ---- */
void cuda_lane_append(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op);
/* Finishes what is done; true if anything was. */
bool cuda_lane_collect(struct cuda_engine *engine, struct cuda_lane *lane);
/* Submits what may be; true if anything was. */
bool cuda_lane_advance(struct cuda_engine *engine, struct cuda_lane *lane);
/* Puts a marker behind what was submitted since the last one. */
void cuda_lane_mark(struct cuda_engine *engine, struct cuda_lane *lane);
void cuda_lane_cancel(struct cuda_engine *engine, struct cuda_lane *lane);
/* The oldest launch that may be running, NULL: none is; how many launches share its group. */
const struct vgc_op *cuda_lane_running(const struct cuda_lane *lane, uint32_t *in_group);

/* ---- stream.c ---- */
/* Pinned words, and the choice between words and events. 0, or -1 with the reason in `why`. */
int cuda_streams_start(struct cuda_engine *engine, char *why);
void cuda_streams_close(struct cuda_engine *engine);
bool cuda_stream_available(const struct cuda_engine *engine);
/* The caller has asked whether one is available. */
drv_result cuda_stream_take(struct cuda_engine *engine, struct cuda_stream **stream);
void cuda_stream_put(struct cuda_engine *engine, struct cuda_stream *stream);
/* Puts the next marker; issued is its number. */
drv_result cuda_stream_mark(struct cuda_engine *engine, struct cuda_stream *stream);
/* Looks how far it is: sets seen. */
drv_result cuda_stream_look(struct cuda_engine *engine, struct cuda_stream *stream);

/* ---- submit.c ---- */
/* How many driver calls, about. The same at every call for one operation. */
uint32_t cuda_cost(const struct vgc_op *op);
drv_result cuda_submit(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op);
/* Orders a stream behind all allocations so far. */
drv_result cuda_follow_allocs(struct cuda_engine *engine, struct cuda_stream *stream);

/* ---- step.c ---- */
/* Must this operation go in steps, alone in its lane? Noted in the operation when it arrives. */
void cuda_note_steps(const struct cuda_engine *engine, struct vgc_op *op);
bool cuda_in_steps(const struct vgc_op *op);
/* Does op need the scratch that another lane is using? */
bool cuda_scratch_is_taken(const struct cuda_engine *engine, const struct cuda_lane *lane, const struct vgc_op *op);
/* Does or submits the next step; *submitted: the GPU has something to do. */
drv_result cuda_step(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op, bool *submitted);
/* The operation in steps has ended. */
void cuda_steps_end(struct cuda_engine *engine, struct cuda_lane *lane);

/* ---- events.c ---- */
int cuda_events_start(struct cuda_engine *engine, char *why);
void cuda_events_close(struct cuda_engine *engine);
/* Gives an EVENT_RECORD its record, an EVENT_WAIT the record that it is for, if that is not done. */
void cuda_event_arrive(struct cuda_engine *engine, struct vgc_op *op);
/* Has the record that this wait is for been submitted? */
bool cuda_wait_may_go(const struct vgc_op *op);
drv_result cuda_submit_record(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op);
drv_result cuda_submit_wait(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op);
/* The record happened: sets the operation's times. */
drv_result cuda_record_happened(struct cuda_engine *engine, struct vgc_op *op, uint64_t now_ns);
/* The operation ends, or never comes to be submitted. */
void cuda_event_leave(struct cuda_engine *engine, struct vgc_op *op);

/* ---- memory.c ---- */
int cuda_memory_start(struct cuda_engine *engine, char *why);
void cuda_memory_close(struct cuda_engine *engine);
int cuda_alloc(struct vgc_engine *base, uint64_t size, uint64_t *address);
int cuda_free(struct vgc_engine *base, uint64_t address, uint64_t size);
int cuda_map_region(struct vgc_engine *base, uint8_t *host, uint64_t size, uint64_t *address);
/* Is all of it in the registered region? */
bool cuda_is_registered(const struct cuda_engine *engine, const uint8_t *host, uint64_t len);
/* Where the host has what the guest knows by a device address; NULL: on the GPU. */
uint8_t *cuda_host_of(const struct cuda_engine *engine, uint64_t address);

/* ---- output.c ---- */
/* Takes what the kernels of a finished launch printed; `stream` is done. Sets op->output_bytes. */
drv_result cuda_output_collect(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op);
/* The first line that the driver wrote about a failed assertion of the lane's kernel, "" if there is none. */
void cuda_output_assertion(struct cuda_engine *engine, const struct cuda_lane *lane, char *text, uint32_t size);
uint32_t cuda_take_output(struct vgc_engine *base, uint32_t context, char *to, uint32_t size, uint32_t *left,
                          uint64_t *lost);

/* ---- control.c ---- */
int cuda_control_attach(struct vgc_engine *base, int fd, uint8_t *host, uint64_t size, uint64_t *device);
int cuda_control_write(struct vgc_engine *base, uint64_t offset, const void *from, uint64_t size);
int cuda_control_read(struct vgc_engine *base, uint64_t offset, void *to, uint64_t size);
/* To the variable of a program that is loaded and does not run yet; with a link that is broken it stays as it is, and
 * nobody hears of the program. 0 or -errno. */
int cuda_control_set(struct cuda_engine *engine, drv_address to, const void *from, uint64_t size);
void cuda_control_close(struct cuda_engine *engine);

/* ---- mirror.c ---- */
void cuda_mirror_open(struct cuda_engine *engine, int fd, const struct vgc_ctl_area *header, uint64_t size);
void cuda_mirror_close(struct cuda_engine *engine);
bool cuda_mirror_is_urgent(const struct cuda_mirror *mirror, uint64_t offset);
/* False: the file does not have it. */
bool cuda_mirror_read(const struct cuda_mirror *mirror, uint64_t offset, void *to, uint64_t size);
/* Of what the GPU has been told, or has said: the tables. */
void cuda_mirror_note(struct cuda_mirror *mirror, uint64_t offset, const void *from, uint64_t size);

/* ---- texts.c ---- */
int cuda_control_text(struct vgc_engine *base, uint64_t address, char *text, uint32_t size);
/* The program is about to go. */
void cuda_texts_forget(struct vgc_cuda_program *program);

/* ---- fault.c ---- */
/* "CUDA_ERROR_X (what it means)". */
void cuda_error_text(const struct cuda_engine *engine, drv_result error, char *text, uint32_t size);
/* For functions that have a `why`: notes what failed; -1. */
int cuda_why(const struct cuda_engine *engine, char *why, const char *what, drv_result error);
/* Ends op with this error. Does not return if the context is lost with it. */
void cuda_op_failed(struct cuda_engine *engine, struct vgc_op *op, const char *what, drv_result error);
/* Does not return if the context is lost with this error. */
void cuda_check(struct cuda_engine *engine, drv_result error);
/* The worker cannot go on. Blames what runs; `hint`, if it is not NULL and nothing does. */
__attribute__((noreturn)) void cuda_lost(struct cuda_engine *engine, const struct vgc_op *hint, drv_result error);
/* For the text about a launch: what else runs. */
void cuda_describe(struct vgc_engine *base, const struct vgc_op *op, char *text, uint32_t size);

#endif
