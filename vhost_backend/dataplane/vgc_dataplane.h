/* The data plane of one VM: serves its vrings, validates requests and gives them to an engine.
 *
 * Two threads use it. The data-plane thread is inside vgc_dp_run(). All other functions may be called from another
 * thread at any time: they take the data plane's lock, which the running thread releases between two rounds and while
 * it sleeps. All state is therefore accessed by one thread at a time.
 *
 * Functions return 0 or a positive number on success and a negative errno on failure; those with `why` then
 * write the reason there (at most VGC_DP_WHY bytes, NUL-terminated).
 */
#ifndef VGC_DATAPLANE_H
#define VGC_DATAPLANE_H

#include <stdbool.h>
#include <stdint.h>

#include "vgc_engine.h"

struct vgc_dp;

enum { VGC_DP_WHY = 256 };
enum { VGC_LATENCY_CLASSES = 124 };

/* ---- life ------------------------------------------------------------------------------------------------ */

struct vgc_dp_config {
    struct vgc_engine *engine; /* stays the caller's; must outlive the data plane */
    int inflight_fd; /* in-flight memory, stays the caller's; -1: private memory, which does not outlive the worker */
    uint32_t num_queues;
    uint32_t queue_depth; /* requests in flight at once */
    uint64_t memory_bytes;
    uint64_t deadline_ns; /* longest run of a launch */
    uint64_t stuck_ns;    /* longest call of an engine's driver; 0: no bound */
    uint32_t max_contexts;
    uint32_t max_streams;
    uint32_t generation;
    uint32_t allotment; /* number of these limits, which responses bear; 0: none */
    uint64_t spin_ns;   /* polling time before sleeping; 0: sleeps at once */
};

/* Limits that may change while requests are served. */
struct vgc_dp_limits {
    uint32_t queue_depth;
    uint32_t num_pes; /* elements that take work from now on; 0: as many as before */
    uint64_t memory_bytes;
    uint64_t deadline_ns; /* of launches that are taken from now on; those under way may run on, and longer if it is
                             raised */
    uint32_t max_contexts;
    uint32_t max_streams;
    uint32_t allotment; /* number of the latest limits that the driver can read, which responses bear */
};

/* Returns NULL on failure. */
struct vgc_dp *vgc_dp_create(const struct vgc_dp_config *config, char *why);

/* Cancels all operations and waits until they have ended. vgc_dp_run() must have returned. */
void vgc_dp_cancel(struct vgc_dp *dp);

/* Cancels all operations and frees everything. vgc_dp_run() must have returned. */
void vgc_dp_destroy(struct vgc_dp *dp);

/* Serves until vgc_dp_stop(). */
void vgc_dp_run(struct vgc_dp *dp);
void vgc_dp_stop(struct vgc_dp *dp);

/* Changes the limits. Work and memory beyond new ones stay; what asks for more is refused until use is below them.
 * -EINVAL: a limit is out of range, -ENOTSUP: the engine cannot change the number of its elements, -ENOMEM: no memory
 * for more requests in flight. Then nothing changes. */
int vgc_dp_set_limits(struct vgc_dp *dp, const struct vgc_dp_limits *limits, char *why);

/* eventfd, readable when there are cold requests or broken queues to take. Reading clears it. */
int vgc_dp_notify_fd(const struct vgc_dp *dp);

/* ---- memory and queues ----------------------------------------------------------------------------------- */

struct vgc_dp_region {
    uint64_t gpa;
    uint64_t uva;
    uint64_t size;
    uint64_t offset;
    int fd;      /* stays the caller's */
    uint64_t at; /* device address that the largest region must have; 0: any */
};

/* Replaces the memory table; started rings are translated again. A part of a file that is mapped already stays where it
 * is. -ERANGE: a file is shorter than its region; -EBUSY: requests in flight use memory that the new table lacks;
 * -EADDRNOTAVAIL: a region does not have the device address `at`, though the table is in force. After any other failure
 * the table is as before. */
int vgc_dp_set_memory(struct vgc_dp *dp, const struct vgc_dp_region *regions, uint32_t count, char *why);

/* Device address of the first byte of the (largest) region; 0: kernels cannot access it. */
uint64_t vgc_dp_region_address(struct vgc_dp *dp);

struct vgc_dp_ring {
    uint32_t size;
    uint16_t base;
    uint64_t desc_uva;
    uint64_t avail_uva;
    uint64_t used_uva;
    bool event_idx;
    bool indirect;
    bool enabled;
    bool recover; /* first answer the requests that the in-flight memory names */
    int kick_fd;  /* -1: no kicks, the ring is polled */
    int call_fd;  /* eventfd, pipe or socket; -1: no calls */
    int err_fd;   /* -1: no error events */
};

/* Starts a queue; takes ownership of the fds in any case. A queue that was stopped with requests in flight goes on
 * where it stopped if ring and base are the same. -EBUSY: requests of a different ring are in flight. */
int vgc_dp_queue_start(struct vgc_dp *dp, uint32_t index, const struct vgc_dp_ring *ring, char *why);

/* Stops a queue; returns the avail index to continue from (0..65535). Requests in flight are returned after a start. */
int vgc_dp_queue_stop(struct vgc_dp *dp, uint32_t index);
int vgc_dp_queue_enable(struct vgc_dp *dp, uint32_t index, bool enabled);
int vgc_dp_queue_set_kick(struct vgc_dp *dp, uint32_t index, int fd); /* takes ownership of fd */
int vgc_dp_queue_set_call(struct vgc_dp *dp, uint32_t index, int fd); /* takes ownership of fd */

/* Takes the next queue that broke since the last call: 1, its index and the reason; 0: no queue. */
int vgc_dp_broken_take(struct vgc_dp *dp, uint32_t *index, char *why);

/* ---- requests that C does not serve -------------------------------------------------------------------------- */

struct vgc_cold {
    uint32_t token; /* identifies the request until it is completed */
    uint16_t opcode;
    uint32_t context;        /* as in the request */
    uint32_t engine_context; /* the engine's number of the context */
    uint64_t request_id;
    uint64_t readable_len; /* bytes, request struct and body included */
    uint64_t writable_len; /* bytes, response struct not included */
    uint8_t body[128];     /* private copy; length by opcode */
};

/* Takes the oldest cold request: 1; 0: no request. */
int vgc_dp_cold_take(struct vgc_dp *dp, struct vgc_cold *cold);
/* Copies readable bytes [offset, offset + len). -ERANGE beyond the end, -ENOENT unknown token. */
int vgc_dp_cold_read(struct vgc_dp *dp, uint32_t token, uint64_t offset, void *to, uint64_t len);
/* Writes payload bytes behind the response struct. */
int vgc_dp_cold_write(struct vgc_dp *dp, uint32_t token, uint64_t offset, const void *from, uint64_t len);
/* Ends the request. payload_len: bytes that were written; with a status other than OK, `text` is the payload if given.
 */
int vgc_dp_cold_complete(struct vgc_dp *dp, uint32_t token, uint32_t status, uint64_t value, uint64_t aux,
                         uint32_t payload_len, const char *text);

/* ---- programs ------------------------------------------------------------------------------------------------ */

/* In place of a context's number: the program is the engine's own, and guests do not see it. */
enum { VGC_OF_HOST = 0xfffe };

/* Adds a program to the context with this engine's number, or registers it for the VM if that is 0: then every context
 * finds it, behind its own. Returns its id, -ENOSPC, or -EDQUOT. Functions and globals that are added to it are found
 * by id at once, by name after vgc_dp_program_publish(); later programs hide names of earlier ones. */
int vgc_dp_program_add(struct vgc_dp *dp, uint32_t engine_context, uint64_t charged);
/* Raises what a program is charged to `charged` bytes, which may be less than it is charged already. -EDQUOT: the quota
 * has too little left, and nothing changes. */
int vgc_dp_program_charge(struct vgc_dp *dp, uint32_t program, uint64_t charged);
/* Adds a function; returns its id, or -EINVAL if its parameters are invalid. `kernel` must stay valid until
 * vgc_dp_program_remove(). Names are copied. */
int vgc_dp_function_add(struct vgc_dp *dp, uint32_t program, const struct vgc_kernel *kernel, const char *name,
                        const char *short_name);
int vgc_dp_global_add(struct vgc_dp *dp, uint32_t program, uint64_t address, uint64_t size);
int vgc_dp_program_publish(struct vgc_dp *dp);
/* Built-in functions that the engine has, from number 0 up: the kernel, which lives as long as `dp`, and the id by
 * which every context launches it. NULL: there are no more. */
const struct vgc_kernel *vgc_dp_builtin(const struct vgc_dp *dp, uint32_t number, uint32_t *id);
/* Removes a program. When PROGRAM_UNLOAD or CONTEXT_DESTROY become cold, none of its launches is in flight. */
int vgc_dp_program_remove(struct vgc_dp *dp, uint32_t program);
/* Frees allocations and events of a context whose CONTEXT_DESTROY is being served, and its number. */
int vgc_dp_context_free(struct vgc_dp *dp, uint32_t engine_context);

/* ---- migration to another worker ------------------------------------------------------------------------------
 *
 * The source worker holds requests, lets those in flight finish and saves; the target worker, set up alike, loads and
 * starts the rings where the source has stopped taking requests. Every address and id that the guest knows stays valid.
 * The target trusts nothing: the source runs guest code, which may have written anything. After a failed load only
 * vgc_dp_destroy() may be called. */

/* Stops taking requests; those in flight go on. Notifies when no request is in flight any more. */
void vgc_dp_hold(struct vgc_dp *dp);
/* Takes requests again. */
void vgc_dp_release(struct vgc_dp *dp);
/* Number of requests that are not returned yet. Those of rings that are stopped or broken may stay for ever. */
uint32_t vgc_dp_in_flight(struct vgc_dp *dp);

enum { VGC_MIGRATION_MAGIC = 0x564D4756, VGC_MIGRATION_VERSION = 4, VGC_MIGRATION_PROGRAMS = 4096 };

struct vgc_migration_context {
    uint32_t id; /* the driver's; 0: free */
    uint32_t serial;
};

struct vgc_migration_event {
    uint32_t id; /* 0: free */
    uint32_t serial;
    uint32_t context; /* engine's number; 0: nobody's, but others have it open */
    uint32_t origin;  /* index + 1 of the event that it stands for; 0: none */
};

struct vgc_migration_alloc {
    uint64_t address;
    uint64_t size;    /* as the guest requested */
    uint32_t context; /* engine's number; 0: nobody's, but others have it open */
    uint32_t use;     /* memory, array, object */
};

/* Memory or an event that contexts share, or a free entry. */
struct vgc_migration_share {
    uint64_t key[2];
    uint64_t address;  /* of the memory; 0: it is an event */
    uint64_t users[4]; /* contexts that have the memory open */
    uint32_t event;    /* index + 1; 0: it is memory */
    uint32_t reserved;
};

struct vgc_migration_array {
    uint32_t id; /* 0: free */
    uint32_t serial;
    uint32_t context; /* engine's number */
    uint32_t reserved;
    uint64_t address;
    uint32_t shape[8]; /* struct vgc_body_array_create */
};

struct vgc_migration_graph {
    uint32_t id; /* 0: free */
    uint32_t serial;
    uint32_t context; /* engine's number */
    uint32_t num_nodes;
    uint32_t nodes_len; /* bytes, which are migrated apart */
    uint32_t reserved;
};

/* State of the data plane, without programs, contents of device memory and printed text. */
struct vgc_migration_state {
    uint32_t magic;
    uint32_t version;
    uint64_t fingerprint; /* of the wire format */
    uint64_t requests_done;
    uint64_t requests_failed;
    uint64_t busy_ns;
    uint32_t num_allocs; /* of the guest; variables of programs are migrated with these */
    uint32_t function_serial;
    struct vgc_migration_context contexts[256];
    struct vgc_migration_event events[4096];
    struct vgc_migration_array arrays[1024];
    struct vgc_migration_graph graphs[1024];
    uint32_t program_serials[4096]; /* per table entry, so that ids are not used again too soon */
    struct vgc_migration_share shares[4096];
};

/* Number of the guest's allocations. */
uint32_t vgc_dp_num_allocs(struct vgc_dp *dp);
/* `allocs` has room for vgc_dp_num_allocs(). -EBUSY: not held, or requests are in flight; -ENOTSUP: this engine's work
 * cannot be migrated; -ENOSPC: no room. */
int vgc_dp_save(struct vgc_dp *dp, struct vgc_migration_state *state, struct vgc_migration_alloc *allocs, uint32_t room,
                char *why);
int vgc_dp_load(struct vgc_dp *dp, const struct vgc_migration_state *state, const struct vgc_migration_alloc *allocs,
                char *why);

/* Copy the nodes of the graph at a place of the table, and put it into another worker. -ENOENT: no graph; -ERANGE: it
 * has another size; -EINVAL: it cannot be a graph; -EDQUOT: it is beyond the quota. */
int vgc_dp_save_graph(struct vgc_dp *dp, uint32_t index, void *nodes, uint32_t size);
int vgc_dp_load_graph(struct vgc_dp *dp, uint32_t index, const struct vgc_migration_graph *graph, const void *nodes);

/* Like vgc_dp_program_add and vgc_dp_function_add, with the id from the source; in order of loading. -EINVAL: the id is
 * invalid; -EEXIST: it is taken. */
int vgc_dp_program_load(struct vgc_dp *dp, uint32_t id, uint32_t engine_context, uint64_t charged);
int vgc_dp_function_load(struct vgc_dp *dp, uint32_t program, uint32_t id, const struct vgc_kernel *kernel,
                         const char *name, const char *short_name);

/* Transfer: the file that carries a migration, `size` bytes, mapped as a whole. `fd` stays the caller's, and must stay
 * open. NULL on failure. */
struct vgc_transfer;
struct vgc_transfer *vgc_transfer_open(int fd, uint64_t size, bool writable, char *why);
void vgc_transfer_close(struct vgc_transfer *transfer);
/* Copy bytes from and to the transfer. -ERANGE: beyond its end. */
int vgc_transfer_read(const struct vgc_transfer *transfer, uint64_t offset, void *to, uint64_t size);
int vgc_transfer_write(struct vgc_transfer *transfer, uint64_t offset, const void *from, uint64_t size);
/* Copy contents of device memory, which must be the guest's or a program's, to bytes of the transfer that hold zeroes,
 * and back. `fresh`: the memory holds zeroes, so holes of the file are skipped. The first returns the number of bytes
 * that were copied: all but pages of zeroes. -ERANGE: beyond the transfer's end; -ENOTSUP: see vgc_dp_save. */
int64_t vgc_dp_save_contents(struct vgc_dp *dp, struct vgc_transfer *transfer, uint64_t offset, uint64_t address,
                             uint64_t size);
int vgc_dp_load_contents(struct vgc_dp *dp, const struct vgc_transfer *transfer, uint64_t offset, uint64_t address,
                         uint64_t size, bool fresh);

/* Copy printed text of a context that was not taken yet: read it without taking it, and put it into another worker. The
 * first returns the length of the text. */
int vgc_dp_save_output(struct vgc_dp *dp, uint32_t engine_context, char *to, uint32_t size, uint64_t *lost);
int vgc_dp_load_output(struct vgc_dp *dp, uint32_t engine_context, const char *text, uint32_t size, uint64_t lost);

/* ---- figures ------------------------------------------------------------------------------------------------- */

void vgc_dp_usage(struct vgc_dp *dp, struct vgc_usage *usage);

enum { VGC_NUM_STATUSES = 18 };
struct vgc_dp_counts {
    uint64_t memory_peak_bytes;          /* most memory that the VM has held in this worker */
    uint64_t failures[VGC_NUM_STATUSES]; /* requests that were not answered with OK, by status */
};
void vgc_dp_counts(struct vgc_dp *dp, struct vgc_dp_counts *counts);

/* Launches of a function. */
struct vgc_function_work {
    uint64_t launches;
    uint64_t busy_ns;                    /* of those that the engine has timed */
    uint64_t times[VGC_LATENCY_CLASSES]; /* of these, by latency class */
};
/* Work of a function of a registered program, since it was added, or of one that is built in. -ENOENT: there is no such
 * function. */
int vgc_dp_function_work(struct vgc_dp *dp, uint32_t function, struct vgc_function_work *work);

enum { VGC_NUM_TALLIES = 48, VGC_TALLY_NAME = 96 };
/* Launches of a function by its short name, cut off, from when it got its place in the table on; of graphs as a whole,
 * "(graphs)"; and of functions while they had no place, "(others)". */
struct vgc_function_tally {
    char name[VGC_TALLY_NAME];
    struct vgc_function_work work;
};
/* Copies the tallies that are not 0, at most VGC_NUM_TALLIES; returns their number. If functions lacked places, those
 * that have computed least since the last look lose theirs, and their counts. */
uint32_t vgc_dp_functions(struct vgc_dp *dp, struct vgc_function_tally *tallies);
/* Counts operations that the engine times (launches, graphs, and copies that it does not do at once) by latency, from
 * the moment they were taken off their ring to their end: VGC_LATENCY_CLASSES counts. */
void vgc_dp_latency(struct vgc_dp *dp, uint64_t *counts);
/* Class of a latency: four of equal width for each doubling, from 256 ns on, below that one, and the last for all above
 * (virtio_proto/control/latency.py). */
uint32_t vgc_latency_class(uint64_t ns);
/* Requests one notification when there is work again, so that a reporter of figures may sleep until then. */
void vgc_dp_arm(struct vgc_dp *dp);
bool vgc_dp_is_armed(const struct vgc_dp *dp);
/* Shows that the loop goes round: it counts its echoes up and notifies. Requests before that may share one echo. */
void vgc_dp_echo(struct vgc_dp *dp);
uint32_t vgc_dp_echoes(const struct vgc_dp *dp);
/* Number of times the data plane went to sleep; constant while it is idle. */
uint64_t vgc_dp_sleeps(struct vgc_dp *dp);

#endif
