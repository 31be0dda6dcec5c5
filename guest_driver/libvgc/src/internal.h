/* Internals of libvgc, from the bottom up: a file calls functions of files that stand before
 * it here, and none behind (tests/unit/test_architecture_c.py). The operating system is below all of them (platform.h).
 * The public calls of vgc.h are on top: memory.c, copy.c, staging.c, program.c, launch.c, call.c, stream.c, device.c.
 *
 * Lock order: heap, state, queue. */
#ifndef VGC_INTERNAL_H
#define VGC_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../vgc.h"
#include "platform.h"
#include "vgc_endian.h"
#include "vgc_vring.h"
#include "vgc_wire.h"

#define VGC_MIN(a, b) ((a) < (b) ? (a) : (b))
#define VGC_MAX(a, b) ((a) > (b) ? (a) : (b))

enum {
    VGC_F_RING_INDIRECT_DESC = 28,
    VGC_F_RING_EVENT_IDX = 29,
    VGC_F_VERSION_1 = 32,
    VGC_MAX_CLIENTS = 64,
    VGC_MAX_CHUNKS = 1024,
    VGC_HEAP_ALIGN = 256,
};

/* Bytes of a struct of vgc_wire.h, as they go to the device. On big-endian machines the compiler warns where a pointer
 * to such a struct becomes a `const void *` unasked. */
#define VGC_BYTES(object) ((const void *)&(object))
/* Initialiser of a field of three extents. */
#define VGC_EXTENTS(extents) {(extents)[0], (extents)[1], (extents)[2]}

#define VGC_NS_PER_S 1000000000ull
#define VGC_NS_PER_MS 1000000ull

/* ---- error.c -------------------------------------------------------------------------------- */

/* End of the text of a refusal by a limit of the VM: says who may raise it. */
#define VGC_MAY_RAISE(limit) "; the host's operator may raise it: vgcctl vm limits VM --" limit

#ifdef __MINGW_PRINTF_FORMAT
#define VGC_PRINTF __MINGW_PRINTF_FORMAT
#else
#define VGC_PRINTF printf
#endif

int vgc_fail(int result, const char *format, ...) __attribute__((format(VGC_PRINTF, 2, 3)));
/* Adds the text of errno; VGC_NO_PERMISSION for EACCES and EPERM, else VGC_SYSTEM. */
int vgc_fail_errno(const char *format, ...) __attribute__((format(VGC_PRINTF, 1, 2)));
/* For a configuration whose magic is read in the wrong byte order. */
int vgc_fail_swapped(uint32_t magic);
void vgc_set_log(const char *log, size_t len);
/* The moment `timeout_ns` from now, UINT64_MAX if that is beyond the clock. */
uint64_t vgc_deadline(uint64_t timeout_ns);
/* Sleeps for *step_ns, at most until the deadline, and doubles *step_ns up to 1 ms. False once it has passed. */
bool vgc_backoff(uint64_t *step_ns, uint64_t deadline_ns);

/* From here to vgc_cancel_back(), pthread_cancel() does not end the thread: it has locks, and the host may still write
 * into memory of its stack. */
static inline int vgc_cancel_off(void)
{
    int before;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void vgc_cancel_back(int before)
{
    (void)pthread_setcancelstate(before, &before);
}

/* ---- transport.c: what transports have in common -------------------------------------------- */

enum { VGC_REGION_HEADER_BYTES = 4096 };

#define VGC_REGION_MAGIC 0x316e6f6967655247ull /* "GRegion1" */

struct vgc_region_header { /* first bytes of the region */
    uint64_t magic;
    uint64_t cookie; /* of the bring-up that zeroed the rings */
};

struct vgc_layout { /* what lies where in the region */
    uint32_t num_queues;
    uint32_t ring_size;
    uint64_t ring_stride; /* bytes from one queue's rings to the next's */
    uint64_t avail_offset;
    uint64_t used_offset;
    uint64_t data_offset;
    uint64_t chunk_bytes;
    uint32_t num_chunks;
};

int vgc_layout_make(struct vgc_layout *layout, uint64_t region_bytes, uint32_t num_queues, uint32_t ring_size);
uint64_t vgc_layout_ring_offset(const struct vgc_layout *layout, uint32_t queue);
struct vgc_ring vgc_layout_ring(const struct vgc_layout *layout, uint8_t *region, uint32_t queue);

struct vgc_transport;

struct vgc_transport_ops {
    /* The rings of this layout are set up and the device serves them, or can be told to go on doing so. */
    bool (*is_running)(struct vgc_transport *transport, const struct vgc_layout *layout);
    /* Before the rings are zeroed: refuses if processes use them that this folder of state does not know. */
    int (*check_unused)(struct vgc_transport *transport, uint64_t deadline_ns);
    /* Brings the device up from scratch on zeroed rings. */
    int (*start)(struct vgc_transport *transport, const struct vgc_layout *layout, uint64_t deadline_ns);
    /* Makes a device that stopped serving go on (see virtio_wait.c). Cheap when it is running. */
    void (*revive)(struct vgc_transport *transport);
    int (*read_config)(struct vgc_transport *transport, struct vgc_config *config);
    uint32_t (*read_allotment)(struct vgc_transport *transport); /* `allotment` of the configuration alone */
    void (*write_ack)(struct vgc_transport *transport, uint32_t allotment);
    int (*attach)(struct vgc_transport *transport, uint32_t queue); /* before this process uses a queue */
    void (*detach)(struct vgc_transport *transport, uint32_t queue);
    void (*kick)(struct vgc_transport *transport, uint32_t queue);
    /* arm, then look at the ring once more, then wait: no wake-up is lost. */
    void (*arm)(struct vgc_transport *transport, uint32_t queue);
    void (*wait)(struct vgc_transport *transport, uint32_t queue, uint64_t timeout_ns);
    void (*close)(struct vgc_transport *transport);
};

struct vgc_transport {
    const struct vgc_transport_ops *ops;
    char name[64]; /* also names the state file */
    char region_name[64];
    uint8_t *region;
    uint64_t region_bytes;
    uint64_t region_gpa;
    uint32_t region_kind;       /* VGC_REGION_* */
    uint64_t region_offset;     /* of the mapping in the region's file */
    uint64_t region_file_bytes; /* size of that, if the mapping has less; else 0 */
    uint64_t features;          /* acknowledged */
    uint32_t num_queues;
    uint32_t ring_size;
    double read_bytes_per_s;
    bool region_cached;
    bool interrupts;
};

bool vgc_region_is_ours(const struct vgc_region_header *header); /* some bring-up has left it */
/* Bytes per second in which the end of memory is read; the best of a few tries. */
double vgc_read_rate(const uint8_t *memory, uint64_t memory_bytes);
void vgc_transport_measure(struct vgc_transport *transport);
/* Moves the region's mapping, so that pointers into it are what kernels see. It stays if something else lies there. */
void vgc_transport_place(struct vgc_transport *transport, uint64_t address);
/* Folder for what the processes of this guest share about the device. */
const char *vgc_state_dir(const struct vgc_options *options);
/* Is it our magic, read in the wrong byte order? */
static inline bool vgc_is_swapped(uint32_t magic)
{
    return magic == __builtin_bswap32(VGC_CONFIG_MAGIC);
}

/* A config whose magic, version, fingerprint or limits do not fit. */
int vgc_check_config(const struct vgc_config *config);

/* ---- virtio_pci.c and what it is made of (virtio.h), linux/memfd.c, windows/memfd.c ----------- */

int vgc_virtio_pci_open(const struct vgc_options *options, struct vgc_transport **transport);
/* Other ivshmem functions that may be the region, for a device that gave no answer with the one it was `tried` with. */
int vgc_virtio_pci_other_regions(const struct vgc_options *options, const struct vgc_transport *tried,
                                 char (*addresses)[VGC_PCI_ADDRESS_LEN], size_t room, size_t *count);
int vgc_memfd_open(const struct vgc_memfd *memfd, struct vgc_transport **transport);
/* From $VGC_MEMFD; VGC_NO_DEVICE if it is not set. */
int vgc_memfd_open_env(uint32_t index, struct vgc_transport **transport);

/* ---- bridge.c ------------------------------------------------------------------------------- */

/* From $VGC_BRIDGE; VGC_NO_DEVICE if it is not set. */
int vgc_bridge_open_env(uint32_t index, struct vgc_transport **transport);

/* ---- state.c: what the processes of a guest share ------------------------------------------- */

struct vgc_client { /* one vgc_open() somewhere */
    uint32_t in_use;
    uint32_t pid;
    uint32_t context; /* on the host, 0: none */
    uint32_t context_generation;
    uint64_t intent_offset; /* != 0: a CONTEXT_CREATE is under way and answers here in the region */
    _Atomic uint32_t in_flight;
    uint32_t reserved;
    _Atomic uint64_t memory_bytes;
};

struct vgc_state {
    uint64_t magic;
    uint64_t fingerprint;
    uint64_t cookie;
    char boot_id[40];
    char region_name[64];
    struct vgc_layout layout;
    _Atomic uint32_t in_flight;
    _Atomic uint32_t allotment; /* latest that any process has heard of */
    _Atomic uint64_t memory_bytes;
    uint8_t queue_owner[VGC_MAX_QUEUES]; /* client + 1, 0: nobody's */
    uint8_t chunk_owner[VGC_MAX_CHUNKS];
    struct vgc_client clients[VGC_MAX_CLIENTS];
};

int vgc_check_process(const struct vgc_device *device); /* not forked */
/* Opens the state file of a device, which it makes for its own user. */
int vgc_state_open_file(const char *state_dir, const char *name, vgc_handle *file);
/* The region with which processes of this guest use a device now; false: none does. `region_name` has room for
 * VGC_PCI_ADDRESS_LEN. */
bool vgc_state_region(const char *state_dir, const char *name, char *region_name);
/* Opens the state file, brings the device up if it is not, and takes a client entry. */
int vgc_state_open(struct vgc_device *device, const char *state_dir, uint64_t deadline_ns);
void vgc_state_close(struct vgc_device *device, bool quiet);
int vgc_state_claim_queue(struct vgc_device *device, uint32_t *queue, uint64_t deadline_ns);
void vgc_state_release_queue(struct vgc_device *device, uint32_t queue);
/* A run of free chunks; VGC_RESOURCES_EXHAUSTED, without a message, if no run is long enough. */
int vgc_state_take_chunks(struct vgc_device *device, uint32_t count, uint32_t *first);
void vgc_state_give_chunks(struct vgc_device *device, uint32_t first, uint32_t count);
void vgc_state_set_context(struct vgc_device *device, uint64_t intent_offset, uint32_t context, uint32_t generation);
struct vgc_client *vgc_state_self(struct vgc_device *device);
/* The lock of byte 0, for whoever changes the entry of another client. */
int vgc_state_lock(struct vgc_device *device);
void vgc_state_unlock(struct vgc_device *device);
/* Is the client's process still there? */
bool vgc_state_is_alive(const struct vgc_device *device, uint32_t client);
/* Everything that the client held is free. Locked. */
void vgc_state_forget(struct vgc_device *device, uint32_t client);
/* Has the device returned all chains of this ring? */
bool vgc_ring_is_quiet(struct vgc_device *device, uint32_t queue);

/* ---- limits.c: the quota, which the host may change at any time ------------------------------ */

struct vgc_limits { /* as the configuration showed them when this process looked last */
    _Atomic uint32_t allotment;
    _Atomic uint32_t heard; /* the state's allotment then */
    _Atomic uint32_t queue_depth;
    _Atomic uint32_t max_streams;
    _Atomic uint64_t memory_bytes;
};

/* Takes the limits of a configuration that was checked. */
void vgc_limits_take(struct vgc_device *device, const struct vgc_config *config);
/* Takes them, and tells the host so. */
void vgc_limits_acknowledge(struct vgc_device *device, const struct vgc_config *config);
/* Notes, for all processes, that an answer bears the number of an allotment; 0: of none. */
void vgc_limits_hear(struct vgc_device *device, uint32_t allotment);
/* Takes limits that this process has not taken yet, if any process has heard of them. Takes no lock of queues. */
void vgc_limits_follow(struct vgc_device *device);
/* Looks for other limits before something is refused because of these; true if there were some, which are taken. */
bool vgc_limits_changed(struct vgc_device *device);

/* ---- heap.c: this process's part of the region ---------------------------------------------- */

int vgc_heap_alloc(struct vgc_device *device, uint64_t size, uint8_t **pointer);
bool vgc_heap_free(struct vgc_device *device, void *pointer); /* false: not the start of an allocation */
void vgc_heap_close(struct vgc_device *device);

/* ---- ledger.c: this process's device memory, for the quota ---------------------------------- */

struct vgc_ledger {
    pthread_mutex_t mutex;
    struct vgc_ledger_entry {
        uint64_t address; /* 0: empty */
        uint64_t size;
    } *entries;
    size_t room; /* a power of two */
    size_t count;
};

int vgc_ledger_add(struct vgc_ledger *ledger, uint64_t address, uint64_t size);
uint64_t vgc_ledger_remove(struct vgc_ledger *ledger, uint64_t address); /* its size, 0 if unknown */
void vgc_ledger_clear(struct vgc_ledger *ledger);

/* ---- requests: what response.c, queue.c, message.c and job.c share --------------------------- */

/* A slot holds one request's small parts; its stride keeps neighbours off the same cache sets. */
enum {
    VGC_SLOT_TABLE_ENTRIES = 144, /* a CALL: 2 + 2 * VGC_MAX_CALL_ARGS */
    VGC_SLOT_TABLE_BYTES = 16 * VGC_SLOT_TABLE_ENTRIES,
    VGC_SLOT_REQUEST_BYTES = 6400,
    VGC_SLOT_RESPONSE_BYTES = 2048,
    VGC_SLOT_STRIDE = VGC_SLOT_TABLE_BYTES + VGC_SLOT_REQUEST_BYTES + VGC_SLOT_RESPONSE_BYTES + 128,
    VGC_MAX_SLOTS = 64,
};

struct vgc_copy_back { /* after a job: up to `size` bytes of staged output go to `dst` */
    void *dst;
    const uint8_t *src;
    uint64_t size;
};

enum { VGC_TEXT_PIECES = 4 };
struct vgc_piece {
    const uint8_t *at;
    uint64_t len;
};

struct vgc_job {
    struct vgc_queue *queue;
    struct vgc_job *next_free;
    uint32_t slot;
    uint32_t stream;
    uint32_t epoch;
    uint16_t opcode;
    bool abandoned; /* released before it was done: becomes an orphan */
    bool detached;  /* abandoned from the start; its failure is kept */
    bool finished;  /* outputs copied back, staging freed */
    atomic_bool done;
    int result;
    struct vgc_response response;
    uint64_t payload_len;                    /* of the response, as far as it fits what was asked for */
    char *text;                              /* the host's words on an error */
    struct vgc_piece texts[VGC_TEXT_PIECES]; /* where a payload, and so a text, lies in the region; none: in the slot */
    uint32_t num_texts;
    void *inline_dst; /* a small payload is copied here before the slot is reused */
    uint64_t inline_size;
    uint8_t *staging; /* region memory to free when done */
    struct vgc_copy_back *copies;
    uint32_t num_copies;
    bool copy_on_error; /* the payload of an error is wanted too */
    uint64_t start_ns;
    uint64_t end_ns;
    const char *name; /* for a trace: of the function, or NULL; so is the next */
    int thread;
};

struct vgc_queue {
    struct vgc_device *device;
    uint32_t index;
    bool broken;
    bool sleeping; /* a thread waits in the transport for all of this queue */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct vgc_vq_driver vq;
    uint8_t *slots;
    uint32_t num_slots;
    uint32_t num_free;
    uint16_t free_slots[VGC_MAX_SLOTS];
    struct vgc_job *slot_jobs[VGC_MAX_SLOTS];
    struct vgc_job *free_jobs;
    _Atomic(struct vgc_job *)
        orphans; /* abandoned and done, to be freed outside the mutex; read without it as a hint */
    uint64_t next_request_id;
};

/* Begin of memory that ends with its device unless its user has freed it before. */
struct vgc_owned {
    struct vgc_owned *previous, *next;
    void (*free)(struct vgc_owned *); /* NULL: the device does not have it; sends nothing, and leaves its list alone */
};

struct vgc_device {
    struct vgc_transport *transport;
    struct vgc_config config; /* but for its limits */
    struct vgc_limits limits;
    struct vgc_layout layout;
    struct vgc_state *state;
    vgc_handle state_file;
    uint32_t client;
    int pid;          /* that opened it */
    uint32_t process; /* likewise, as vgc_process() has it */
    uint64_t serial;  /* tells handles apart that reuse an address */
    uint64_t spin_ns;
    uint64_t open_timeout_ns;
    _Atomic uint64_t request_timeout_ns;
    bool is_looking;     /* it has no context */
    bool is_own_timeout; /* the caller's: it does not follow the deadline of launches */

    pthread_mutex_t limits_mutex; /* taken last */
    pthread_mutex_t state_mutex;
    pthread_mutex_t heap_mutex;
    pthread_mutex_t queues_mutex;
    struct vgc_heap_block *heap;
    struct vgc_queue *shared_queue;
    struct vgc_queue *queues[VGC_MAX_QUEUES];
    struct vgc_ledger ledger;
    struct vgc_ledger objects; /* textures and surfaces, all of size 1 */

    uint32_t context;
    uint32_t epoch; /* +1 at every vgc_reset */
    atomic_bool lost;
    atomic_bool output_waits; /* kernels printed something that was not read */
    _Atomic uint64_t streams; /* bit i: stream i is taken */

    _Atomic uint32_t programs_loaded;        /* so far */
    _Atomic(struct vgc_named_table *) named; /* NULL: no function was registered */

    pthread_mutex_t owned_mutex; /* taken last */
    struct vgc_owned *owned;     /* events, textures' arrays, programs */

    pthread_mutex_t failure_mutex; /* taken last */
    int failure;                   /* first one of a detached job that nobody has taken */
    char *failure_text;
};

/* Where kernels see the region's first byte, as it is mapped; 0: they do not. */
static inline uint64_t vgc_region_seen_at(const struct vgc_device *device)
{
    bool is_known = (device->config.device_features & VGC_F_REGION_ADDRESS) != 0;
    uint64_t file = is_known ? device->config.region_device_address : 0;
    return file != 0 ? file + device->transport->region_offset : 0;
}

/* ---- owned.c: what ends with a device ------------------------------------------------------- */

void vgc_own(struct vgc_device *device, struct vgc_owned *owned, void (*end)(struct vgc_owned *));
/* To be called before the memory is freed by its user; it does nothing if the device does not have it. */
void vgc_disown(struct vgc_device *device, struct vgc_owned *owned);
void vgc_free_owned(struct vgc_device *device);

/* ---- response.c: jobs and what answers them ------------------------------------------------- */

/* With the queue's mutex held, but for vgc_job_free_staging, which takes the heap's and the state's. */
struct vgc_job *vgc_job_new(struct vgc_queue *queue);
void vgc_job_recycle(struct vgc_job *job);
void vgc_job_free_staging(struct vgc_job *job);
/* Copies the response out of the slot, once, and checks it. */
void vgc_job_read_response(struct vgc_job *job, const uint8_t *slot, uint32_t used_len);

/* ---- trace.c: what `vgc trace` shows -------------------------------------------------------- */

extern bool vgc_traces; /* set once, when the library is loaded */

/* These do nothing unless `vgc_traces` is set. */
void vgc_trace_name(struct vgc_job *job, const char *name); /* which it copies */
void vgc_trace_sent(struct vgc_job *job);                   /* by this thread */
void vgc_trace_answered(const struct vgc_job *job);
void vgc_trace_slept(const struct vgc_queue *queue, uint64_t start_ns); /* this thread, until now */

/* ---- queue.c: this process's queues --------------------------------------------------------- */

int vgc_queue_open(struct vgc_device *device, struct vgc_queue **queue, uint64_t deadline_ns);
/* Waits for its jobs. False if some are still in flight; then the queue stays as it is. */
bool vgc_queue_close(struct vgc_queue *queue, uint64_t deadline_ns);
/* Forgets a queue that could not be closed: only private memory is freed, nothing that the device may touch. */
void vgc_queue_discard(struct vgc_queue *queue);
struct vgc_queue *vgc_queue_current(struct vgc_device *device);                 /* this thread's */
void vgc_queue_set_current(struct vgc_device *device, struct vgc_queue *queue); /* NULL: the shared one again */
/* True once none of the queue's jobs (of one stream, or any with UINT32_MAX) are in flight. */
bool vgc_queue_drain(struct vgc_queue *queue, uint32_t stream, uint64_t deadline_ns);
/* Waits for all requests of a stream, or of all with UINT32_MAX. VGC_NO_ANSWER after the device's request time-out. */
int vgc_drain(struct vgc_device *device, uint32_t stream);
/* Frees abandoned jobs that have ended. Takes the queue's mutex, and the heap's and the state's: so not with these. */
void vgc_queue_sweep(struct vgc_queue *queue);
/* With the mutex held. */
void vgc_queue_take_completions(struct vgc_queue *queue);
/* One step of waiting, with the mutex held: returns after a bounded spin or sleep and taking completions; false at the
 * deadline. *since_ns is 0 at the first step of a wait. The mutex is released meanwhile. */
bool vgc_queue_pause(struct vgc_queue *queue, uint64_t *since_ns, uint64_t deadline_ns);

/* ---- message.c: requests under construction ------------------------------------------------- */

int vgc_check_usable(struct vgc_device *device); /* neither forked nor lost */
int vgc_check_name(const char *name);            /* of a function: neither empty nor too long; NULL counts as empty */
/* VGC_DEVICE_LOST for something made before the last vgc_reset(). */
int vgc_check_epoch(const struct vgc_device *device, uint32_t epoch, const char *what);

/* A request under construction: begin, put bytes, add spans, send. Between begin and send nothing is shared. */
struct vgc_message {
    struct vgc_queue *queue;
    struct vgc_job *job;
    uint8_t *request;
    uint8_t *response;
    uint32_t request_len;
    uint32_t response_len;
    uint16_t num_readable;
    uint16_t num_writable;
    struct vgc_sg readable[VGC_SLOT_TABLE_ENTRIES];
    struct vgc_sg writable[VGC_SLOT_TABLE_ENTRIES];
};

/* Reserves a slot. With `wait` it waits for room in ring and quota, else VGC_RESOURCES_EXHAUSTED. */
int vgc_message_begin(struct vgc_message *message, struct vgc_device *device, uint16_t opcode, uint32_t stream,
                      bool wait);
/* Does vgc_message_begin on a given queue and for a context that need not be ours. */
int vgc_message_begin_on(struct vgc_message *message, struct vgc_queue *queue, uint16_t opcode, uint32_t context,
                         uint32_t stream, bool wait);
void *vgc_message_put(struct vgc_message *message, const void *bytes, size_t len); /* NULL: no room */
size_t vgc_message_room(const struct vgc_message *message);
int vgc_message_readable(struct vgc_message *message, const void *pointer, uint64_t len);
/* Lets an error's text go on behind the payload, which the device must allow to be longer than what it writes there. */
void vgc_message_text_room(struct vgc_message *message);
int vgc_message_writable(struct vgc_message *message, void *pointer, uint64_t len);
/* The response's payload is wanted inside the slot and goes to `dst` on completion. */
void vgc_message_inline_payload(struct vgc_message *message, void *dst, uint64_t len);
void vgc_message_cancel(struct vgc_message *message); /* instead of send */
int vgc_message_send(struct vgc_message *message);

/* ---- job.c: requests on their way ----------------------------------------------------------- */

/* Does the caller want the request to wait for room? */
static inline bool vgc_waits_for_room(struct vgc_job **job)
{
    return job == NULL || job == VGC_DETACHED;
}

/* Sends, and then hands the job to the caller, or detaches it, or waits for it and releases it. */
int vgc_job_run(struct vgc_message *message, struct vgc_job **job);
/* Sends and waits; *response as the host gave it. */
int vgc_job_ask(struct vgc_message *message, struct vgc_response *response);
/* vgc_job_release without the sweep, for a job whose staging memory is freed or was never there. Takes the mutex. */
void vgc_job_drop(struct vgc_job *job);

/* ---- reap.c: what dead processes held ------------------------------------------------------- */

/* Frees it, as far as the device is done with it. True if something was freed. */
bool vgc_reap(struct vgc_device *device);
/* vgc_heap_alloc, and once more without what dead processes held if the region is full. */
int vgc_alloc_or_reap(struct vgc_device *device, uint64_t size, uint8_t **pointer);

/* ---- memory.c ------------------------------------------------------------------------------- */

bool vgc_in_region(const struct vgc_device *device, const void *pointer, uint64_t size);
/* Counts memory that the host has charged to the quota of all processes, or no longer does. */
void vgc_quota_add(struct vgc_device *device, uint64_t size);
void vgc_quota_give(struct vgc_device *device, uint64_t size);
/* Bytes of the quota that no process has taken. */
uint64_t vgc_quota_free(struct vgc_device *device);
/* True if so many bytes are free, at the latest after a look at the limits and at what the dead have left. */
bool vgc_quota_has(struct vgc_device *device, uint64_t size);

/* ---- copy.c: copies between this process and the device, one request each ------------------- */

enum { /* of a copy whose bytes lie in its request, or its answer */
       VGC_INLINE_IN_BYTES = 4096,
       VGC_INLINE_OUT_BYTES = VGC_SLOT_RESPONSE_BYTES - sizeof(struct vgc_response),
};

/* The buffer lies in the region. With `wait` they wait for room in ring and quota; so do the next. */
int vgc_copy_in_direct(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                       struct vgc_job **job, bool wait);
int vgc_copy_out_direct(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
                        struct vgc_job **job, bool wait);
int vgc_copy_in_inline(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                       struct vgc_job **job, bool wait);
int vgc_copy_out_inline(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
                        struct vgc_job **job, bool wait);
/* From and to memory of the heap, which they free when the copy is done, or could not be sent. */
int vgc_copy_in_staged(struct vgc_device *device, uint64_t dst, uint8_t *staging, uint64_t size, uint32_t stream,
                       struct vgc_job **job);
int vgc_copy_out_staged(struct vgc_device *device, void *dst, uint64_t src, uint8_t *staging, uint64_t size,
                        uint32_t stream, struct vgc_job **job);

/* ---- texture.c, box.c ----------------------------------------------------------------------- */

struct vgc_extent { /* of a box: bytes, rows, slices */
    uint32_t width;
    uint32_t height;
    uint32_t depth;
};

/* One COPY_BOX. The job frees `staging`, which may be NULL; if it was not sent, the caller does. */
int vgc_box_send(struct vgc_device *device, const struct vgc_side *dst, const struct vgc_side *src,
                 struct vgc_extent extent, uint32_t stream, uint8_t *staging, struct vgc_job **job);

/* ---- named.c (choice.h, named_table.h and sides.h are below it) ------------------------------- */

/* Writes the measured times to their file and frees the table of functions. */
void vgc_named_close(struct vgc_device *device);

#endif
