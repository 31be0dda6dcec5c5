/* The data plane of one VM: works its vrings, validates requests and has an engine carry them out.
 *
 * Two threads use it. The data-plane thread is inside vgc_dp_run(). Every other function here may be called from
 * another thread at any time: it takes the data plane's lock, for which the running thread makes way between
 * two rounds, also when it sleeps. So all state is only ever touched by one thread at a time.
 *
 * Functions return 0 or a positive number on success and a negative errno on failure; those with `why` then
 * also say in words what is wrong (at most VGC_DP_WHY bytes, NUL-terminated).
 */
#ifndef VGC_DATAPLANE_H
#define VGC_DATAPLANE_H

#include <stdbool.h>
#include <stdint.h>

#include "vgc_engine.h"

struct vgc_dp;

enum { VGC_DP_WHY = 256 };

/* ---- life ------------------------------------------------------------------------------------------------ */

struct vgc_dp_config {
    struct vgc_engine *engine; /* stays the caller's; must outlive the data plane */
    int inflight_fd;           /* in-flight memory, stays the caller's; -1: private memory (nothing survives) */
    uint32_t num_queues;
    uint32_t queue_depth; /* requests in flight at once */
    uint64_t memory_bytes;
    uint64_t deadline_ns; /* longest run of a launch */
    uint64_t stuck_ns;    /* longest call of an engine's driver; 0: no bound */
    uint32_t max_contexts;
    uint32_t max_streams;
    uint32_t generation;
    uint64_t spin_ns; /* how long to poll before sleeping; 0: not at all */
};

/* NULL on failure, with the reason in `why`. */
struct vgc_dp *vgc_dp_create(const struct vgc_dp_config *config, char *why);

/* Cancels what runs and waits for it. vgc_dp_run() must have returned, here and below. */
void vgc_dp_cancel(struct vgc_dp *dp);

/* Cancels, and frees everything. */
void vgc_dp_destroy(struct vgc_dp *dp);

/* Serves until vgc_dp_stop(). */
void vgc_dp_run(struct vgc_dp *dp);
void vgc_dp_stop(struct vgc_dp *dp);

/* Becomes readable when there is something to take: cold requests, broken queues. Reading clears it. */
int vgc_dp_notify_fd(const struct vgc_dp *dp);

/* ---- memory and queues ----------------------------------------------------------------------------------- */

struct vgc_dp_region {
    uint64_t gpa;
    uint64_t uva;
    uint64_t size;
    uint64_t offset;
    int fd;      /* stays the caller's */
    uint64_t at; /* where kernels must see its first byte, if it is the largest; 0: anywhere */
};

/* Replaces the memory table; started rings are translated again. A piece of a file that is mapped already stays
 * where it is. -ERANGE: a file is shorter than its region; -EBUSY: requests in flight use what would go;
 * -EADDRNOTAVAIL: kernels do not see it where they must, though the table is in force; after any other failure it is
 * as before. */
int vgc_dp_set_memory(struct vgc_dp *dp, const struct vgc_dp_region *regions, uint32_t count, char *why);

/* Where kernels see the first byte of the (largest) region; 0: nowhere. */
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
    int kick_fd;  /* -1: poll */
    int call_fd;  /* -1: none wanted */
    int err_fd;   /* -1: none wanted */
};

/* Starts a queue; takes the fds over in any case. A queue that was stopped with requests in flight goes on where
 * it was if ring and base are the same. -EBUSY: it has requests of another ring in flight. */
int vgc_dp_queue_start(struct vgc_dp *dp, uint32_t index, const struct vgc_dp_ring *ring, char *why);

/* Stops; returns the avail index to go on from (0..65535). Requests in flight are returned after a start. */
int vgc_dp_queue_stop(struct vgc_dp *dp, uint32_t index);
int vgc_dp_queue_enable(struct vgc_dp *dp, uint32_t index, bool enabled);
int vgc_dp_queue_set_kick(struct vgc_dp *dp, uint32_t index, int fd); /* takes fd over */
int vgc_dp_queue_set_call(struct vgc_dp *dp, uint32_t index, int fd); /* takes fd over */

/* The next queue that broke since last asked: 1 and its index and reason; 0 none. */
int vgc_dp_broken_take(struct vgc_dp *dp, uint32_t *index, char *why);

/* ---- requests that C does not serve -------------------------------------------------------------------------- */

struct vgc_cold {
    uint32_t token; /* names the request until it is completed */
    uint16_t opcode;
    uint32_t context;        /* as in the request */
    uint32_t engine_context; /* the engine's number of it */
    uint64_t request_id;
    uint64_t readable_len; /* bytes, request struct and body included */
    uint64_t writable_len; /* bytes, response struct not included */
    uint8_t body[64];      /* private copy; as long as the opcode's body */
};

int vgc_dp_cold_take(struct vgc_dp *dp, struct vgc_cold *cold);
/* Copies readable bytes [offset, offset + len). -ERANGE beyond the end, -ENOENT unknown token. */
int vgc_dp_cold_read(struct vgc_dp *dp, uint32_t token, uint64_t offset, void *to, uint64_t len);
/* Writes payload bytes behind the response struct. */
int vgc_dp_cold_write(struct vgc_dp *dp, uint32_t token, uint64_t offset, const void *from, uint64_t len);
/* Ends the request. payload_len: what was written; with a status other than OK, `text` is the payload if given. */
int vgc_dp_cold_complete(struct vgc_dp *dp, uint32_t token, uint32_t status, uint64_t value, uint64_t aux,
                         uint32_t payload_len, const char *text);

/* ---- programs ------------------------------------------------------------------------------------------------ */

/* A new program of the engine's context number; its id, or -ENOSPC. Functions and globals that are added to it
 * are found by id at once, by name after vgc_dp_program_publish(); later programs hide names of earlier ones. */
int vgc_dp_program_add(struct vgc_dp *dp, uint32_t engine_context, uint64_t charged);
/* Id of the function; -EINVAL: its parameters do not fit. `kernel` must stay valid until vgc_dp_program_remove().
 * Names are copied. */
int vgc_dp_function_add(struct vgc_dp *dp, uint32_t program, const struct vgc_kernel *kernel, const char *name,
                        const char *short_name);
int vgc_dp_global_add(struct vgc_dp *dp, uint32_t program, uint64_t address, uint64_t size);
int vgc_dp_program_publish(struct vgc_dp *dp);
/* Forgets a program. None of its launches is in flight when PROGRAM_UNLOAD or CONTEXT_DESTROY become cold. */
int vgc_dp_program_remove(struct vgc_dp *dp, uint32_t program);
/* Frees allocations and events of a context whose CONTEXT_DESTROY is being served, and its number. */
int vgc_dp_context_free(struct vgc_dp *dp, uint32_t engine_context);

/* ---- moving to another worker ---------------------------------------------------------------------------------
 *
 * One worker holds, lets everything in flight finish and saves; another one, set up alike, loads, and starts the rings
 * where the first has stopped taking requests. To the guest every address and id stays what it was. Who loads believes
 * nothing: a worker that runs guest code may have written anything. After a failed load the data plane is good for
 * nothing but vgc_dp_destroy(). */

/* Takes no more requests from now on; those in flight go on. Notifies when none is left. */
void vgc_dp_hold(struct vgc_dp *dp);
/* Takes requests again. */
void vgc_dp_release(struct vgc_dp *dp);
/* Requests that are not returned yet. While rings are stopped or broken, theirs may stay for ever. */
uint32_t vgc_dp_in_flight(struct vgc_dp *dp);

enum { VGC_MOVED_MAGIC = 0x564D4756, VGC_MOVED_VERSION = 1, VGC_MOVED_PROGRAMS = 4096 };

struct vgc_moved_context {
    uint32_t id; /* the driver's; 0: free */
    uint32_t serial;
};

struct vgc_moved_event {
    uint32_t id; /* 0: free */
    uint32_t serial;
    uint32_t context; /* engine's number */
    uint32_t reserved;
};

struct vgc_moved_alloc {
    uint64_t address;
    uint64_t size;    /* as the guest asked */
    uint32_t context; /* engine's number */
    uint32_t reserved;
};

/* Everything but programs, what is in device memory, and what kernels printed. */
struct vgc_moved {
    uint32_t magic;
    uint32_t version;
    uint64_t fingerprint; /* of the wire format */
    uint64_t requests_done;
    uint64_t requests_failed;
    uint64_t busy_ns;
    uint32_t num_allocs; /* the guest's own: variables of programs come with those */
    uint32_t function_serial;
    struct vgc_moved_context contexts[256];
    struct vgc_moved_event events[4096];
    uint32_t program_serials[4096]; /* of every place, so that no id comes back too soon */
};

/* Allocations of the guest. */
uint32_t vgc_dp_num_allocs(struct vgc_dp *dp);
/* `allocs` has room for vgc_dp_num_allocs(). -EBUSY: not held, or requests are in flight; -ENOTSUP: this engine's work
 * cannot be moved; -ENOSPC: no room. */
int vgc_dp_save(struct vgc_dp *dp, struct vgc_moved *moved, struct vgc_moved_alloc *allocs, uint32_t room, char *why);
int vgc_dp_load(struct vgc_dp *dp, const struct vgc_moved *moved, const struct vgc_moved_alloc *allocs, char *why);

/* As vgc_dp_program_add and vgc_dp_function_add, with the id that it had; in the order in which they were loaded.
 * -EINVAL: no such id can be; -EEXIST: it is taken. */
int vgc_dp_program_load(struct vgc_dp *dp, uint32_t id, uint32_t engine_context, uint64_t charged);
int vgc_dp_function_load(struct vgc_dp *dp, uint32_t program, uint32_t id, const struct vgc_kernel *kernel,
                         const char *name, const char *short_name);

/* The file by which everything travels: `size` bytes, mapped as a whole. `fd` stays the caller's, and open. NULL with
 * `why`. */
struct vgc_transfer;
struct vgc_transfer *vgc_transfer_open(int fd, uint64_t size, bool writable, char *why);
void vgc_transfer_close(struct vgc_transfer *transfer);
/* Private copies from and to it. -ERANGE: it is not so long. */
int vgc_transfer_read(const struct vgc_transfer *transfer, uint64_t offset, void *to, uint64_t size);
int vgc_transfer_write(struct vgc_transfer *transfer, uint64_t offset, const void *from, uint64_t size);
/* Contents of device memory, which must be the guest's or a program's, to bytes of the transfer that hold zeroes, and
 * from there; `fresh`: the memory holds zeroes, so where the file has holes nothing is done. The first returns how many
 * bytes were not zeroes. -ERANGE as above, -ENOTSUP as vgc_dp_save. */
int64_t vgc_dp_save_contents(struct vgc_dp *dp, struct vgc_transfer *transfer, uint64_t offset, uint64_t address,
                             uint64_t size);
int vgc_dp_load_contents(struct vgc_dp *dp, const struct vgc_transfer *transfer, uint64_t offset, uint64_t address,
                         uint64_t size, bool fresh);

/* What kernels of a context printed and nobody has taken: read without taking it, and put into another. The first
 * returns the length of the text. */
int vgc_dp_save_output(struct vgc_dp *dp, uint32_t engine_context, char *to, uint32_t size, uint64_t *lost);
int vgc_dp_load_output(struct vgc_dp *dp, uint32_t engine_context, const char *text, uint32_t size, uint64_t lost);

/* ---- figures ------------------------------------------------------------------------------------------------- */

void vgc_dp_usage(struct vgc_dp *dp, struct vgc_usage *usage);
/* Notifies once when there is something to do the next time: whoever reports figures may sleep until then. */
void vgc_dp_arm(struct vgc_dp *dp);
/* Times the data plane went to sleep: does not move while it is idle. */
uint64_t vgc_dp_sleeps(struct vgc_dp *dp);

#endif
