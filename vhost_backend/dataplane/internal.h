/* Internals of the data plane, by file:
 *
 *   dataplane.c   life, the loop, sleeping              request.c   from chain to handler: copy once, validate
 *   queue.c       serving, starting, stopping rings     memory.c    ALLOC, FREE, COPY, FILL; allocation table
 *   region.c      mapping guest memory, SIGBUS          launch.c    LAUNCH
 *   chain.c       bytes of a chain, whatever framing    call.c      CALL
 *   complete.c    response, push, park                  context.c   contexts
 *   inflight.c    in-flight memory, recovery            program.c   programs, functions, names
 *   engine.c      finished ops, fatal errors              cold.c      requests for Python
 *   null_engine.c template for engines                  line.c      requests that wait for all earlier ones
 *   deadlines.c   deadlines of launches                 migration.c work goes to another worker
 *   lock.c        the mutex; clock, wake-ups, reasons   arena.c     addresses reserved for the VM
 *   query.c       QUERY                                 quota.c     the memory quota, temporary buffers
 *   workspace.c   memory of launches while they run     array.c     arrays, COPY_BOX
 *   texture.c     textures and surfaces                 graph.c     graphs, their launches
 *   plan.c        the nodes of graphs                   objects.c   arrays and objects that the engine makes
 *   event.c       events                                sharing.c   memory that several contexts use
 *   share.c       keys and users of what is shared    figures.c   peaks, failures by status
 *   functions.c   work by function
 */
#ifndef VGC_DATAPLANE_INTERNAL_H
#define VGC_DATAPLANE_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vgc_dataplane.h"
#include "vgc_endian.h"
#include "vgc_inflight.h"
#include "vgc_vring.h"

#if VGC_BIG_ENDIAN
#error "the data plane runs on little-endian hosts: it does not convert what kernels and engines see"
#endif

#define VGC_LIKELY(x) __builtin_expect(!!(x), 1)
#define VGC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Sizes of tables. Fuzzers have small ones, whose ends they reach. */
#ifndef VGC_SMALL_TABLES
enum {
    VGC_MAX_ALLOCATIONS = 262144, /* of a VM, globals included */
    VGC_MAX_FUNCTIONS = 65536,
    VGC_MAX_PROGRAMS = 4096,
    VGC_MAX_CALLS = 64, /* CALLs of a VM in flight at once */
};
#else
enum { VGC_MAX_ALLOCATIONS = 128, VGC_MAX_FUNCTIONS = 64, VGC_MAX_PROGRAMS = 16, VGC_MAX_CALLS = 2 };
#endif

enum {
    VGC_OF_VM = UINT16_MAX, /* in place of a context's number: of the VM */
    VGC_BATCH = 32,         /* most chains popped from a queue before the next queue's turn */
    VGC_WORKSPACES = 32,    /* streams of a VM with launches under way that need a workspace */
    VGC_PLAN_ALIGN = 16,    /* of each node's parameters */
    VGC_CALL_OPS = 2 * VGC_MAX_CALL_ARGS + 1,
    VGC_MAX_REQS = VGC_MAX_QUEUES * VGC_MAX_QUEUE_SIZE + 1,
    VGC_CALL_SPANS = VGC_MAX_CHAIN + 2 * VGC_MAX_CALL_ARGS,
};

struct vgc_call;
struct vgc_queue;

/* End of the text of a refusal by a limit of the VM: says who may raise it. */
#define VGC_MAY_RAISE(limit) "; the host's operator may raise it: vgcctl vm limits VM --" limit

/* ---- objects -------------------------------------------------------------------------------------------- */

struct vgc_context {
    uint32_t id; /* the driver's; 0: free */
    uint32_t serial;
    uint32_t in_flight;
    bool dying;
    struct vgc_req *destroy;         /* CONTEXT_DESTROY that waits until in_flight is 0 */
    struct vgc_req *oldest, *newest; /* the context's line, see line.c */
};

struct vgc_event {
    uint32_t id; /* 0: free */
    uint32_t serial;
    uint32_t context; /* engine's number; 0: nobody's, but others have it open */
    uint32_t in_flight;
    uint32_t origin;        /* index + 1 of the event that it stands for; 0: none */
    uint32_t openers;       /* events that stand for it */
    uint32_t share;         /* index + 1 of its key; 0: it was not exported */
    struct vgc_req *latest; /* the last EVENT_RECORD of it or one that stands for it, while that is under way */
};

/* Memory or an event that other contexts may open: see share.c. */
struct vgc_share {
    uint64_t key[2];                       /* zeroes: it cannot be opened any more */
    uint64_t address;                      /* of the allocation; 0: it is an event, or a free entry */
    uint32_t event;                        /* index + 1; 0: it is memory, or a free entry */
    uint32_t closing;                      /* MEMORY_CLOSE requests under way */
    uint64_t users[VGC_MAX_CONTEXTS / 64]; /* bit per context that has the memory open, by its number - 1 */
};

struct vgc_program {
    uint32_t id; /* 0: free */
    uint32_t serial;
    uint32_t context; /* engine's number, or VGC_OF_VM: it is registered */
    bool dying;
    uint64_t charged; /* bytes charged to the quota for the program itself */
};

struct vgc_function {
    uint32_t id;            /* 0: free */
    uint32_t program_index; /* unless the kernel is a built-in function's */
    const struct vgc_kernel *kernel;
    char *name;
    char *short_name;
    uint32_t tally;                 /* place in dp->tallies, in this epoch */
    uint32_t tally_epoch;           /* 0: none yet */
    struct vgc_function_work *work; /* of functions of registered programs and of built-in ones, else NULL */
};

/* An array: an allocation whose texels lie close together, level behind level, or an array of the engine's. */
struct vgc_array {
    uint32_t id; /* 0: free */
    uint32_t serial;
    uint32_t context;
    bool dying;
    uint64_t address; /* or vgc_handle_key() */
    void *handle;     /* the engine's; NULL: it is an allocation */
    struct vgc_body_array_create shape;
};

/* One level of an array, all extents 1 or more. */
struct vgc_array_level {
    uint64_t offset; /* bytes from the array's begin */
    uint64_t pitch;  /* bytes from row to row */
    uint64_t slice;  /* bytes from slice to slice, or layer to layer */
    uint32_t width;  /* texels */
    uint32_t height;
    uint32_t depth; /* slices */
    uint32_t layers;
};

enum vgc_alloc_use {
    VGC_ALLOC_MEMORY, /* of the guest, or a variable of a program */
    VGC_ALLOC_ARRAY,
    VGC_ALLOC_OBJECT, /* texture or surface */
    /* of the engine's own making: without an address, see vgc_handle_key() */
    VGC_ALLOC_ENGINE_ARRAY,
    VGC_ALLOC_ENGINE_TEXTURE,
    VGC_ALLOC_ENGINE_SURFACE,
};

/* Nodes of a graph. Not changed once they are read, so that launches use them while an update replaces them. */
struct vgc_plan {
    uint32_t refs; /* the graph's, and those of launches */
    uint32_t num_nodes;
    bool is_raw;                     /* the nodes are not read yet: there are `bytes` only */
    uint32_t nodes_len;              /* bytes as the driver wrote them */
    uint64_t charged;                /* bytes charged to the quota */
    uint64_t checked;                /* value of dp->removals when what it names was last found */
    uint64_t workspace_bytes;        /* most that a launch of it needs, see launch_bytes */
    uint32_t workspace_node;         /* node that needs these */
    const struct vgc_kernel *kernel; /* of the first LAUNCH, NULL: it has none */
    struct vgc_node *nodes;
    uint32_t *bodies; /* offset of each node's body in `bytes` */
    uint8_t *params;  /* of all nodes, each 16-byte aligned */
    uint8_t *bytes;   /* as the driver wrote them, copied once */
};

struct vgc_graph {
    uint32_t id; /* 0: free */
    uint32_t serial;
    uint32_t context; /* engine's number */
    struct vgc_plan *plan;
};

struct vgc_alloc {
    uint64_t address;       /* or vgc_handle_key() */
    uint64_t size;          /* as requested; accesses must lie within */
    uint64_t charged;       /* bytes charged to the quota; 0: a global of a program */
    uint32_t context;       /* 0: nobody's, but others have it open */
    uint32_t program_index; /* UINT32_MAX if not a global of a program */
    uint64_t handle;        /* the engine's array or object, 0: neither */
    uint32_t share;         /* index + 1 of its key; 0: it was not exported */
    uint8_t use;            /* enum vgc_alloc_use */
    bool dying;
};

/* Place in the table of allocations of what has no address: behind all addresses, and objects behind the arrays that
 * they are made of, so that they go first. */
static inline uint64_t vgc_handle_key(uint64_t handle, enum vgc_alloc_use use)
{
    return handle | (use == VGC_ALLOC_ENGINE_ARRAY ? UINT64_C(2) : UINT64_C(3)) << 62;
}

/* ---- requests ------------------------------------------------------------------------------------------- */

union vgc_body {
    struct vgc_body_query query;
    struct vgc_body_context_create context_create;
    struct vgc_body_program_load program_load;
    struct vgc_body_program_unload program_unload;
    struct vgc_body_lookup lookup;
    struct vgc_body_function_list function_list;
    struct vgc_body_alloc alloc;
    struct vgc_body_free free;
    struct vgc_body_copy copy;
    struct vgc_body_fill fill;
    struct vgc_body_launch launch;
    struct vgc_body_call call;
    struct vgc_body_event event;
    struct vgc_body_memory memory;
    struct vgc_body_key key;
    struct vgc_body_array_create array_create;
    struct vgc_body_array array;
    struct vgc_body_copy_box copy_box;
    struct vgc_body_texture_create texture_create;
    struct vgc_body_surface_create surface_create;
    struct vgc_body_object object;
    struct vgc_body_graph_nodes graph_nodes;
    struct vgc_body_graph graph;
    struct vgc_body_marks marks;
};

/* Device memory for running launches: of one stream, which runs them one after the other. */
struct vgc_workspace {
    uint64_t address;
    uint64_t size;
    uint32_t context; /* engine's number */
    uint32_t stream;
    uint32_t users; /* launches under way; 0: free entry */
    bool is_spoilt; /* must be freed after its last user */
};

/* A popped chain, from pop to push. Allocated in the pool. */
struct vgc_req {
    struct vgc_req *next; /* in the free list, `parked`, the cold queue, `waiters` or `beside_lines` */
    struct vgc_queue *queue;
    uint32_t index;              /* in the pool */
    bool cold;                   /* given to Python and not completed yet */
    bool answerable;             /* the chain has room for a response */
    struct vgc_context *context; /* NULL, or the context whose in_flight counts this request */
    struct vgc_event *event;     /* NULL, or the event whose in_flight counts it */
    struct vgc_req *awaited;     /* EVENT_SYNC: the record that it waits for */
    struct vgc_call *call;
    struct vgc_plan *plan; /* GRAPH_LAUNCH, or NULL */
    uint32_t node_checked; /* number + 1 of a graph's node, which vgc_fail() names; 0: none */
    bool in_line;          /* in the context's line */
    uint64_t line_number;  /* in the line: requests that joined any line before; beside them: those to wait for */
    struct vgc_req *older, *newer;
    void (*at_front)(struct vgc_dp *dp,
                     struct vgc_req *req); /* acts at the line's front, or beside the lines; NULL: leaves when done */
    struct vgc_req *launch_prev, *launch_next; /* in dp->launches, while launch_op is set */
    struct vgc_op *launch_op;
    struct vgc_function_work *work;  /* that counts launch_op, too, or NULL */
    uint64_t deadline_ns;            /* longest run of launch_op */
    struct vgc_workspace *workspace; /* of launch_op, or NULL */
    uint64_t popped_ns;              /* 0: not recorded */
    uint32_t tally;                  /* of launches: place in dp->tallies, in this epoch */
    uint32_t tally_epoch;
    struct vgc_request request; /* private copies: validated and used, never read again */
    union vgc_body body;
    struct vgc_response response;
    struct vgc_op op;
    _Alignas(16) uint8_t params[VGC_MAX_PARAM_BYTES];
    struct vgc_chain chain;
    struct vgc_span payload[VGC_MAX_CHAIN]; /* COPY_*: the part of the chain that is data */
};

/* State of a CALL beside its request. */
struct vgc_call {
    struct vgc_call *next;
    uint32_t pending; /* ops not finished, +1 while submitting */
    uint32_t num_ops;
    uint32_t num_spans;
    uint64_t temp_address; /* temporary device memory; 0: not used */
    uint64_t temp_size;
    uint64_t out_bytes;
    const struct vgc_kernel *kernel;
    struct vgc_op *launch;
    struct vgc_call_arg args[VGC_MAX_CALL_ARGS];
    uint64_t addresses[VGC_MAX_CALL_ARGS];
    uint32_t first_span[VGC_MAX_CALL_ARGS][2]; /* [0] of the readable, [1] of the writable part */
    uint32_t num_arg_spans[VGC_MAX_CALL_ARGS][2];
    bool direct[VGC_MAX_CALL_ARGS];
    struct vgc_span spans[VGC_CALL_SPANS];
    struct vgc_op ops[VGC_CALL_OPS];
};

/* ---- queues and the whole ------------------------------------------------------------------------------- */

struct vgc_queue {
    uint32_t index;
    bool started;
    bool mapped; /* the ring lies in the memory table */
    bool enabled;
    bool broken;
    bool broken_reported;
    bool dirty; /* used entries were pushed and no call was considered yet */
    int kick_fd;
    int call_fd;
    bool call_may_block; /* a write to call_fd can wait for room */
    int err_fd;
    uint32_t in_flight;
    struct vgc_dp_ring ring;
    struct vgc_inflight_queue *shared;
    struct vgc_req *parked; /* finished requests, returned when the ring runs again; newest first */
    struct vgc_vq_device vq;
    char why[VGC_DP_WHY];
};

struct vgc_mapping {
    uint8_t *base; /* page-aligned begin of the mapping; NULL: free */
    uint64_t mapped_size;
    uint8_t *host; /* the region's first byte */
    uint64_t dev, ino, offset, size;
};

struct vgc_temp {
    uint64_t address;
    uint64_t size;
};

/* Thread that checks that the mutex's owner makes progress: see deadlines.c. */
struct vgc_watch {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool is_over;
};

struct vgc_dp {
    /* read in every round */
    struct vgc_engine *engine;
    atomic_uint lock_wanted;
    atomic_bool stopping;
    atomic_bool sleeping;
    atomic_bool armed;       /* notifies as soon as there is work again */
    atomic_bool region_lost; /* set by the SIGBUS handler */
    atomic_bool echo_wanted; /* the loop has to count `echoes` up and to notify */
    atomic_uint echoes;
    uint32_t num_active;
    struct vgc_queue *active[VGC_MAX_QUEUES];
    struct vgc_req *free_reqs;
    uint32_t in_flight;
    bool holding;        /* no more requests are taken: see migration.c */
    uint32_t ops_queued; /* operations that the engine has now */
    struct vgc_inflight *shared;
    struct vgc_dp_config config;
    uint64_t requests_done;
    uint64_t requests_failed;
    uint64_t busy_ns;
    struct vgc_dp_counts counts;
    uint32_t tally_epoch; /* rises when places in `tallies` change hands */
    bool lacks_tallies;   /* a function found no place */
    struct vgc_function_tally tallies[VGC_NUM_TALLIES];
    uint64_t busy_at_look[VGC_NUM_TALLIES];
    uint64_t latency[VGC_LATENCY_CLASSES];
    uint64_t sleeps;
    atomic_uint beat; /* heartbeat: the mutex's owner counts it up as it makes progress */
    atomic_bool held; /* the mutex has an owner */
    struct vgc_watch watch;

    /* requests */
    struct vgc_req *reqs; /* room for VGC_MAX_REQS, of which there are num_reqs */
    uint32_t num_reqs;    /* the largest queue_depth so far + 1 */
    uint32_t num_begun;   /* requests that were free or in use at some time; the others take no memory yet */
    struct vgc_req *launches;
    uint64_t lines_joined;        /* requests that have joined a context's line */
    struct vgc_req *beside_lines; /* wait for requests of all lines, see line.c */
    struct vgc_req *cold_first, *cold_last;
    struct vgc_call *calls;
    struct vgc_call *free_calls;
    uint64_t launches_checked_ns;

    /* memory */
    struct vgc_mem mem;
    struct vgc_mapping mappings[VGC_MEM_MAX_REGIONS];
    struct vgc_mapping *region; /* the region given to the engine */
    uint64_t region_address;
    struct vgc_alloc *allocs; /* by address */
    uint32_t num_allocs;
    uint32_t num_user_allocs;
    uint64_t memory_used;
    uint32_t offered_pes;     /* elements that take work; 0: all of the engine's */
    struct vgc_temp temps[8]; /* buffers of finished CALLs and launches, kept for later ones */
    uint64_t temp_bytes;      /* of these */
    struct vgc_workspace workspaces[VGC_WORKSPACES];

    /* objects */
    struct vgc_context contexts[VGC_MAX_CONTEXTS]; /* engine's number - 1 */
    uint32_t num_contexts;
    struct vgc_event events[VGC_MAX_EVENTS];
    struct vgc_req *waiters; /* EVENT_SYNC requests */
    struct vgc_share shares[VGC_MAX_SHARES];
    uint32_t num_shares; /* used part of the table, free entries within it included */
    struct vgc_array arrays[VGC_MAX_ARRAYS];
    struct vgc_graph graphs[VGC_MAX_GRAPHS];
    uint64_t plan_bytes; /* of memory_used, charged for plans */
    uint64_t removals;   /* +1 whenever something that a plan may name is gone */
    struct vgc_program programs[VGC_MAX_PROGRAMS];
    uint32_t num_programs;
    uint32_t program_serial;
    struct vgc_function *functions;
    uint32_t num_functions; /* used part of the table, free entries within it included */
    uint32_t function_serial;
    uint32_t *names; /* open hash: function index + 1 */
    uint32_t names_size;
    struct vgc_builtins *builtins;
    uint32_t program_order[VGC_MAX_PROGRAMS]; /* indices in order of loading */

    struct vgc_queue queues[VGC_MAX_QUEUES];
    int epoll_fd;
    int control_fd;
    int notify_fd;
    int wake_fd;
    bool shared_is_private;
    pthread_mutex_t mutex;
};

/* ---- lock.c ---- */
void vgc_dp_lock(struct vgc_dp *dp);
void vgc_dp_unlock(struct vgc_dp *dp);
/* For the loop, which holds the mutex except while it sleeps or another thread wants it. */
void vgc_mutex_take(struct vgc_dp *dp);
void vgc_mutex_give(struct vgc_dp *dp);
void vgc_mutex_make_way(struct vgc_dp *dp);
/* Heartbeat: the mutex's holder makes progress. */
static inline void vgc_beat(struct vgc_dp *dp)
{
    uint32_t count = atomic_load_explicit(&dp->beat, memory_order_relaxed);
    atomic_store_explicit(&dp->beat, count + 1, memory_order_relaxed);
}
uint64_t vgc_now_ns(void);
void vgc_signal_fd(int fd);
bool vgc_may_block(int fd);
void vgc_signal_frontend(int fd, bool may_block);
void vgc_notify(struct vgc_dp *dp);
__attribute__((format(printf, 3, 4))) int vgc_why(char *why, int error, const char *format, ...);

/* ---- queue.c ---- */
bool vgc_queue_serve(struct vgc_dp *dp, struct vgc_queue *queue);
static inline bool vgc_queue_can_push(const struct vgc_queue *queue)
{
    return queue->started && queue->mapped && !queue->broken;
}
void vgc_queue_break(struct vgc_dp *dp, struct vgc_queue *queue, const char *why);
void vgc_queues_remap(struct vgc_dp *dp);
void vgc_queues_rebuild_active(struct vgc_dp *dp);
void vgc_queue_close(struct vgc_dp *dp, struct vgc_queue *queue);

/* ---- chain.c ---- */
void vgc_gather(const struct vgc_span *spans, uint64_t offset, void *to, uint64_t len);
void vgc_scatter(const struct vgc_span *spans, uint64_t offset, const void *from, uint64_t len);
/* Writes the spans of bytes [offset, offset + len), which must exist, to `to`; returns their number. */
uint32_t vgc_slice(const struct vgc_span *spans, uint64_t offset, uint64_t len, struct vgc_span *to);

/* ---- request.c ---- */
void vgc_request_begin(struct vgc_dp *dp, struct vgc_req *req);

/* ---- complete.c ---- */
static inline void vgc_req_put(struct vgc_dp *dp, struct vgc_req *req)
{
    req->next = dp->free_reqs;
    dp->free_reqs = req;
}
/* Makes one more request free, if the pool has one that was never used. Until then a request takes no memory. */
static inline void vgc_req_begin_another(struct vgc_dp *dp)
{
    if (dp->num_begun == dp->num_reqs)
        return;
    struct vgc_req *req = &dp->reqs[dp->num_begun];
    req->index = dp->num_begun++;
    vgc_req_put(dp, req);
}
/* Takes the request that dp->free_reqs is. */
static inline struct vgc_req *vgc_req_get(struct vgc_dp *dp)
{
    struct vgc_req *req = dp->free_reqs;
    dp->free_reqs = req->next;
    if (VGC_UNLIKELY(dp->free_reqs == NULL))
        vgc_req_begin_another(dp);
    return req;
}
void vgc_complete(struct vgc_dp *dp, struct vgc_req *req, uint32_t status, uint32_t payload_len);
void vgc_complete_value(struct vgc_dp *dp, struct vgc_req *req, uint64_t value);
__attribute__((format(printf, 4, 5))) void vgc_fail(struct vgc_dp *dp, struct vgc_req *req, enum vgc_status status,
                                                    const char *format, ...);
/* True if the readable part is exactly `extra` bytes longer than request and body; otherwise answers the request. */
bool vgc_expect_trailing(struct vgc_dp *dp, struct vgc_req *req, uint64_t body_bytes, uint64_t extra);
void vgc_deliver(struct vgc_dp *dp, struct vgc_req *req);
/* Tells the driver of what was pushed, if it wants to know. */
void vgc_flush_call(struct vgc_queue *queue);
/* Gives `op` to the engine; vgc_op_done follows, now or later. */
void vgc_submit(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op);
void vgc_op_init(struct vgc_req *req, struct vgc_op *op, enum vgc_op_kind kind);
void vgc_op_done(struct vgc_dp *dp, struct vgc_op *op);
bool vgc_reap(struct vgc_dp *dp);

/* ---- inflight.c ---- */
int vgc_inflight_map(struct vgc_dp *dp, int fd, char *why);
void vgc_inflight_unmap(struct vgc_dp *dp);
void vgc_inflight_recover(struct vgc_dp *dp, struct vgc_queue *queue);

static inline void vgc_inflight_popped(struct vgc_queue *queue, uint16_t head)
{
    struct vgc_inflight_queue *shared = queue->shared;
    shared->heads[head / 64] |= UINT64_C(1) << (head % 64);
    atomic_signal_fence(memory_order_seq_cst); /* x86 keeps the order of stores; this makes the compiler keep it, too */
    *(volatile uint16_t *)&shared->last_avail = queue->vq.last_avail;
    atomic_signal_fence(memory_order_seq_cst);
}

/* vgc_vq_push(), noted in the in-flight memory. */
static inline void vgc_inflight_push(struct vgc_queue *queue, uint16_t head, uint32_t len)
{
    struct vgc_inflight_queue *shared = queue->shared;
    *(volatile uint16_t *)&shared->last_push = head;
    atomic_signal_fence(memory_order_seq_cst);
    vgc_vq_push(&queue->vq, head, len);
    atomic_signal_fence(memory_order_seq_cst);
    shared->heads[head / 64] &= ~(UINT64_C(1) << (head % 64));
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uint16_t *)&shared->used_idx = queue->vq.used_idx;
}

/* ---- region.c ---- */
int vgc_sigbus_install(void);
void vgc_region_unmap_all(struct vgc_dp *dp);

/* Ids of objects are serial << 16 | (index + 1), so that a stale id is not found when its table entry is used again. */
static inline uint32_t vgc_make_id(uint32_t *serial, uint32_t index)
{
    *serial = (*serial + 1) & 0x7fff;
    return *serial << 16 | (index + 1);
}

/* True if an id, or 0, is valid for its serial and index. */
static inline bool vgc_is_id(uint32_t id, uint32_t serial, uint32_t index)
{
    return serial <= 0x7fff && (id == 0 || id == (serial << 16 | (index + 1)));
}

static inline uint32_t vgc_index_of(uint32_t id)
{
    return (id & 0xffff) - 1; /* id 0 gives a huge index */
}

/* ---- context.c, program.c ---- */
struct vgc_context *vgc_context_find(struct vgc_dp *dp, uint32_t id);
/* The engine's number of it. */
static inline uint32_t vgc_context_number(const struct vgc_dp *dp, const struct vgc_context *context)
{
    return (uint32_t)(context - dp->contexts) + 1;
}
static inline bool vgc_context_exists(const struct vgc_dp *dp, uint32_t number)
{
    return number >= 1 && number <= VGC_MAX_CONTEXTS && dp->contexts[number - 1].id != 0;
}
void vgc_context_release(struct vgc_dp *dp, struct vgc_context *context);
/* The function with this id, or NULL. */
struct vgc_function *vgc_function_by_id(struct vgc_dp *dp, uint32_t id);
/* Functions that the context may launch, by id and by name; NULL: it has no such function. */
struct vgc_function *vgc_function_find(struct vgc_dp *dp, uint32_t id, uint32_t context);
struct vgc_function *vgc_function_named(struct vgc_dp *dp, uint32_t context, const char *name, uint32_t len);
void vgc_objects_free(struct vgc_dp *dp);
void vgc_serve_context_create(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_context_destroy(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_program_load(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_function_list(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_program_unload(struct vgc_dp *dp, struct vgc_req *req);

/* ---- builtin.c ---- */
/* Serial of the ids of built-in functions, which no other function's id has. */
enum { VGC_BUILTIN_SERIAL = 0x7fff };
int vgc_builtins_init(struct vgc_dp *dp);
void vgc_builtins_free(struct vgc_dp *dp);
/* NULL: the engine has no such function. */
struct vgc_function *vgc_builtin_find(const struct vgc_dp *dp, uint32_t id);
struct vgc_function *vgc_builtin_by_name(const struct vgc_dp *dp, const char *name, uint32_t len);
/* Checks parameters if the kernel is a built-in function's: that they are allowed, and that all memory they lead to is
 * the context's or, of a CALL (else NULL), that of its argument. False: the request was answered. */
bool vgc_builtin_check_params(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_kernel *kernel,
                              const uint8_t *params, const struct vgc_call *call);

/* ---- event.c ---- */
void vgc_serve_event_create(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_event_destroy(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_event_record(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_event_wait(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_event_query(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_event_sync(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_event_export(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_event_open(struct vgc_dp *dp, struct vgc_req *req);
/* To be called when a request that uses an event has ended: ends the requests that wait for it, too. */
void vgc_event_release(struct vgc_dp *dp, struct vgc_req *req);
/* Ends the EVENT_SYNC requests of a context. */
void vgc_waiters_cancel(struct vgc_dp *dp, const struct vgc_context *context);
void vgc_events_drop_of(struct vgc_dp *dp, uint32_t context);
void vgc_events_save(const struct vgc_dp *dp, struct vgc_migration_event *events);
/* Contexts must be loaded. */
int vgc_events_load(struct vgc_dp *dp, const struct vgc_migration_event *events, char *why);

/* ---- share.c ---- */
/* Takes an entry with a new key, whose address or event the caller sets. NULL: there are VGC_MAX_SHARES. */
struct vgc_share *vgc_share_new(struct vgc_dp *dp);
struct vgc_share *vgc_share_find(struct vgc_dp *dp, const uint64_t *key);
void vgc_share_end(struct vgc_dp *dp, struct vgc_share *share);
bool vgc_share_has_user(const struct vgc_share *share, uint32_t context);
void vgc_share_set_user(struct vgc_share *share, uint32_t context, bool is_user);
/* True if a context has the memory open, or is closing it. */
bool vgc_share_is_used(const struct vgc_share *share);

/* ---- sharing.c ---- */
void vgc_serve_memory_export(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_memory_open(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_memory_close(struct vgc_dp *dp, struct vgc_req *req);
void vgc_shares_save(const struct vgc_dp *dp, struct vgc_migration_share *shares);
/* Events and allocations must be loaded. */
int vgc_shares_load(struct vgc_dp *dp, const struct vgc_migration_share *shares, char *why);

/* ---- line.c ---- */
void vgc_line_join(struct vgc_dp *dp, struct vgc_req *req);
void vgc_line_leave(struct vgc_dp *dp, struct vgc_req *req);
/* Calls at_front as soon as all requests that are in line now have left it, which may be at once. */
void vgc_line_wait(struct vgc_dp *dp, struct vgc_req *req, void (*at_front)(struct vgc_dp *, struct vgc_req *));
/* Calls at_end as soon as all requests that are in any line now have left it, which may be at once. */
void vgc_lines_wait(struct vgc_dp *dp, struct vgc_req *req, void (*at_end)(struct vgc_dp *, struct vgc_req *));

/* ---- memory.c ---- */
void vgc_serve_alloc(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_free(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_copy_in(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_copy_out(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_copy_device(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_fill(struct vgc_dp *dp, struct vgc_req *req);
struct vgc_alloc *vgc_alloc_at(struct vgc_dp *dp, uint64_t address);
/* Returns -ENOSPC if the table is full. */
int vgc_alloc_insert(struct vgc_dp *dp, struct vgc_alloc alloc);
void vgc_alloc_drop(struct vgc_dp *dp, struct vgc_alloc *alloc);
/* True for memory that the guest has allocated in the context, and not freed. */
bool vgc_alloc_is_of(const struct vgc_dp *dp, const struct vgc_alloc *alloc, const struct vgc_context *context);
/* Drops the memory if it is nobody's and no context has it open. */
void vgc_alloc_leave(struct vgc_dp *dp, struct vgc_alloc *alloc);
/* Takes memory for a request of a context, zeroed, and adds it to the table; false: it was answered. */
bool vgc_alloc_take(struct vgc_dp *dp, struct vgc_req *req, uint64_t size, enum vgc_alloc_use use, uint64_t *address);
/* Checks that a range lies in memory of the context; false: it does not, and the request was answered. */
bool vgc_check_range(struct vgc_dp *dp, struct vgc_req *req, uint64_t address, uint64_t size);
/* Drops every allocation of a context, or every global of a program if its index is given. What other contexts have
 * open becomes nobody's; the context has nothing open any more. */
void vgc_alloc_drop_of(struct vgc_dp *dp, uint32_t context, uint32_t program_index);

/* ---- quota.c ---- */
/* Bytes of the quota that are left: none if it was lowered below what is used. */
static inline uint64_t vgc_memory_left(const struct vgc_dp *dp)
{
    return dp->memory_used < dp->config.memory_bytes ? dp->config.memory_bytes - dp->memory_used : 0;
}
/* Charges bytes to the quota; buffers kept for CALLs give way. -EDQUOT: too little is left. */
int vgc_memory_charge(struct vgc_dp *dp, uint64_t bytes);
/* Bytes charged to the quota for an allocation of `size` bytes; UINT64_MAX on overflow. */
uint64_t vgc_charge_of(const struct vgc_dp *dp, uint64_t size);
/* Allocates device memory, charged as `charge` bytes. -EDQUOT, -ENOMEM. */
int vgc_memory_take(struct vgc_dp *dp, uint64_t size, uint64_t charge, uint64_t *address);
/* Takes device memory for a CALL or a launch, rounding *size up; -ENOMEM. */
int vgc_temp_get(struct vgc_dp *dp, uint64_t *size, uint64_t *address);
void vgc_temp_put(struct vgc_dp *dp, uint64_t address, uint64_t size);
/* Like vgc_temp_put(), for memory that is not to be used again. */
void vgc_temp_free(struct vgc_dp *dp, uint64_t address, uint64_t size);
void vgc_temp_drop_all(struct vgc_dp *dp);
/* Makes a raw plan, charged to the quota, whose `bytes` the caller fills; NULL: no memory. */
struct vgc_plan *vgc_plan_new(struct vgc_dp *dp, uint32_t num_nodes, uint32_t nodes_len);
void vgc_plan_release(struct vgc_dp *dp, struct vgc_plan *plan);

/* ---- array.c ---- */
void vgc_serve_array_create(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_array_destroy(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_copy_box(struct vgc_dp *dp, struct vgc_req *req);
/* The context's array; NULL, and the request is answered, if there is no such array. */
struct vgc_array *vgc_array_of(struct vgc_dp *dp, struct vgc_req *req, uint32_t id);
/* Bytes of an array of this shape; 0: the shape is not allowed, with the reason in `why` (VGC_DP_WHY bytes). */
uint64_t vgc_array_bytes(const struct vgc_body_array_create *shape, char *why);
/* Finds a level, which exists. */
struct vgc_array_level vgc_array_level_of(const struct vgc_body_array_create *shape, uint32_t number);
void vgc_arrays_drop_of(struct vgc_dp *dp, uint32_t context);

/* ---- texture.c ---- */
void vgc_serve_texture_create(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_surface_create(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_object_destroy(struct vgc_dp *dp, struct vgc_req *req);

/* ---- objects.c ---- */
/* True if arrays and objects are of the engine's own making. */
bool vgc_makes_objects(const struct vgc_dp *dp);
/* True if there are arrays, textures and surfaces at all. */
bool vgc_has_textures(const struct vgc_dp *dp);
/* Makes the array whose shape is set, and sets its address and handle, and what is charged in the response. False: the
 * request was answered. */
bool vgc_array_make(struct vgc_dp *dp, struct vgc_req *req, struct vgc_array *array);
/* False: the request was answered. */
bool vgc_object_make(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_texture_spec *spec, uint64_t *object);
/* The texture or surface with this number, or NULL. */
struct vgc_alloc *vgc_object_at(struct vgc_dp *dp, uint64_t object);

/* ---- graph.c ---- */
void vgc_serve_graph_create(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_graph_update(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_graph_launch(struct vgc_dp *dp, struct vgc_req *req);
void vgc_serve_graph_destroy(struct vgc_dp *dp, struct vgc_req *req);
/* Drops every graph of a context; 0: of all. */
void vgc_graphs_drop_of(struct vgc_dp *dp, uint32_t context);
void vgc_graphs_save(const struct vgc_dp *dp, struct vgc_migration_graph *graphs);

/* ---- plan.c ---- */
/* Read the nodes of a raw plan, and look for what they name; false: the request was answered. The second one does what
 * is left of that before a launch. */
bool vgc_plan_read(struct vgc_dp *dp, struct vgc_req *req, struct vgc_plan *plan);
bool vgc_plan_check(struct vgc_dp *dp, struct vgc_req *req, struct vgc_plan *plan);

/* ---- what a request and a node of a graph share: launch.c, memory.c, array.c ---- */
/* Check a body and set the arguments in `op`, which is initialised. False: the request was answered. Copies and fills
 * of no bytes become a MARKER. */
/* NULL: the request was answered. */
struct vgc_function *vgc_prepare_launch(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_launch *launch,
                                        struct vgc_op *op); /* all but op->params */
bool vgc_prepare_copy_device(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_copy *copy,
                             struct vgc_op *op);
bool vgc_prepare_fill(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_fill *fill, struct vgc_op *op);
bool vgc_prepare_copy_box(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_copy_box *box,
                          struct vgc_op *op);
/* Submits a prepared request, or completes it if it is a MARKER. */
void vgc_submit_prepared(struct vgc_dp *dp, struct vgc_req *req);

/* ---- launch.c ---- */
void vgc_serve_launch(struct vgc_dp *dp, struct vgc_req *req);
/* Checks function, geometry and shared bytes; otherwise answers the request and returns NULL. */
/* Both answer the request if they find a mistake. */
bool vgc_launch_flags_check(struct vgc_dp *dp, struct vgc_req *req, uint32_t flags);
const struct vgc_kernel *vgc_launch_check(struct vgc_dp *dp, struct vgc_req *req, struct vgc_function *function,
                                          const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes);

/* ---- workspace.c ---- */
/* Gives a launch the memory that its engine asks for, if any; vgc_workspace_put() takes it back when the launch has
 * ended. 0, or -ENOMEM with op->error. */
int vgc_workspace_get(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op);
void vgc_workspace_put(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_op *op);

/* ---- deadlines.c ---- */
void vgc_launch_watch(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op);
void vgc_launch_unwatch(struct vgc_dp *dp, struct vgc_req *req);
/* Sets the deadline of launches from now on. Those under way keep theirs, unless it is shorter. */
void vgc_deadline_set(struct vgc_dp *dp, uint64_t deadline_ns);
/* Ends the process if a launch is past its deadline. Returns the ns until the next deadline, UINT64_MAX without
 * launches. */
uint64_t vgc_deadlines_check(struct vgc_dp *dp, uint64_t now_ns);
/* Starts the watch thread, which runs beside the loop; 0 or -errno. */
int vgc_watch_start(struct vgc_dp *dp);
void vgc_watch_stop(struct vgc_dp *dp);

/* ---- call.c ---- */
void vgc_serve_call(struct vgc_dp *dp, struct vgc_req *req);
void vgc_call_op_done(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op);
int vgc_calls_init(struct vgc_dp *dp);

/* ---- cold.c ---- */
void vgc_serve_cold(struct vgc_dp *dp, struct vgc_req *req);

/* ---- query.c ---- */
void vgc_serve_query(struct vgc_dp *dp, struct vgc_req *req);
void vgc_usage_fill(const struct vgc_dp *dp, struct vgc_usage *usage);

/* ---- figures.c ---- */
_Static_assert(VGC_NUM_STATUSES == VGC_STATUS_INTERNAL + 1, "a count for each status");
/* Notes that the VM holds more memory than before. */
void vgc_count_memory(struct vgc_dp *dp);
void vgc_count_failure(struct vgc_dp *dp, uint32_t status);

/* ---- functions.c ---- */
enum { VGC_TALLY_OTHERS, VGC_TALLY_GRAPHS, VGC_TALLY_FIRST };
void vgc_tallies_init(struct vgc_dp *dp);
/* Notes what the request launches, before it does; vgc_tally_count() counts it at its end. */
static inline void vgc_tally_begin(const struct vgc_dp *dp, struct vgc_req *req, uint32_t place)
{
    req->tally = place;
    req->tally_epoch = dp->tally_epoch;
}
void vgc_tally_launch(struct vgc_dp *dp, struct vgc_req *req, struct vgc_function *function);
/* `start_ns`: 0 if the engine has not timed the launch. */
void vgc_tally_count(struct vgc_dp *dp, const struct vgc_req *req, const struct vgc_op *op, uint64_t start_ns);

#endif
