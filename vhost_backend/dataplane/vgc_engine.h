/* Interface between the data plane and engines. An engine fills in vgc_engine_ops.
 *
 * Threads: the functions of vgc_engine_ops are never called by two threads at once, and nearly always by the
 * data-plane thread; `enter` and `leave` tell when another thread takes its place. Engines may use threads of their
 * own, and return finished operations through vgc_engine_finish(), from any thread.
 */
#ifndef VGC_ENGINE_H
#define VGC_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgc_inflight.h"
#include "vgc_vring.h"
#include "vgc_wire.h"

enum vgc_op_kind {
    VGC_OPK_MARKER,      /* does nothing; completes when all earlier work of its stream has completed */
    VGC_OPK_COPY_IN,     /* payload spans -> dst */
    VGC_OPK_COPY_OUT,    /* src -> payload spans */
    VGC_OPK_COPY_DEVICE, /* src -> dst, ranges may overlap */
    VGC_OPK_FILL,
    VGC_OPK_LAUNCH,
    VGC_OPK_EVENT_RECORD,
    VGC_OPK_EVENT_WAIT,
    VGC_OPK_COPY_BOX, /* rows of bytes, src -> dst, of which those in memory may overlap */
};

/* Place in an array of the engine's. */
struct vgc_array_place {
    void *array; /* NULL: the side is memory */
    uint32_t level;
    uint32_t x; /* bytes */
    uint32_t y;
    uint32_t z; /* slices, layers or faces */
};

/* Part of the device memory: rows of bytes at regular distances. A side that is an array of the engine's has no address
 * and no distances. */
struct vgc_box {
    uint64_t dst_pitch; /* bytes from row to row */
    uint64_t dst_slice; /* bytes from slice to slice */
    uint64_t src_pitch;
    uint64_t src_slice;
    uint32_t width; /* bytes of a row */
    uint32_t height;
    uint32_t depth;
    struct vgc_array_place to;
    struct vgc_array_place from;
};

/* A texture or surface object over device memory. Level n + 1 lies behind all layers of level n, with half its extents
 * and no bytes between rows. */
struct vgc_texture_spec {
    const struct vgc_body_texture_create *sampling; /* checked; NULL: a surface */
    uint64_t data;
    uint64_t pitch; /* bytes from row to row */
    uint64_t slice; /* bytes from slice to slice, or layer to layer */
    uint32_t width; /* texels; at least 1, as the next three */
    uint32_t height;
    uint32_t depth;
    uint32_t layers;
    uint32_t levels;
    uint32_t level_layers; /* layers between one level and the next */
    uint32_t kind;         /* enum vgc_channel_kind */
    uint32_t bits;         /* of a channel */
    uint32_t channels;
    /* of an array of the engine's, which has no address: */
    void *array;
    uint32_t first_level;
    uint32_t first_layer;
};

/* A kernel of a loaded program, with the fields that the data plane checks. Owned by the engine, valid until its
 * program is unloaded and all its launches have finished. */
struct vgc_kernel {
    const char *name; /* for messages */
    uint32_t param_bytes;
    uint32_t shared_bytes;  /* static */
    uint32_t max_threads;   /* per block */
    uint32_t num_registers; /* of a thread; 0: unknown */
    uint32_t local_bytes;   /* local memory of a thread, as far as it is known */
    uint32_t id;
    uint32_t context;
    uint32_t num_params;
    const struct vgc_param_entry *params;
    const struct vgc_builtin *builtin; /* NULL: it is a program's, which owns it */
    void *engine_private;
};

/* An operation of a graph, with the arguments of the vgc_op of its kind: COPY_DEVICE, FILL, LAUNCH, COPY_BOX, MARKER.
 */
struct vgc_node {
    enum vgc_op_kind kind;
    uint64_t dst;
    uint64_t src;
    uint64_t size;
    uint64_t value;
    uint32_t unit;
    struct vgc_box box;
    const struct vgc_kernel *kernel; /* NULL unless it is a LAUNCH */
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    uint32_t param_len;
    const uint8_t *params;
    uint32_t flags;
};

/* An operation. Allocated by the data plane; owned by the engine from submit (VGC_QUEUED) to finish. */
struct vgc_op {
    enum vgc_op_kind kind;
    uint32_t context; /* engine's number, 1..VGC_MAX_CONTEXTS; used again after cancel and the last finish */
    uint32_t stream;  /* 0..VGC_MAX_STREAMS-1 */
    uint64_t request_id;
    /* arguments: all ranges are already checked against the context's allocations */
    uint64_t dst;       /* device address */
    uint64_t src;       /* device address */
    uint64_t size;      /* bytes */
    uint64_t value;     /* FILL: the pattern; EVENT_*: the event's number, 1..VGC_MAX_EVENTS */
    uint32_t unit;      /* FILL: bytes of the pattern */
    struct vgc_box box; /* COPY_BOX; size: bytes of all rows */
    uint32_t num_spans;
    const struct vgc_span *spans; /* COPY_*: exactly `size` bytes of guest memory, stays mapped until finish */
    const struct vgc_kernel *kernel;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes; /* dynamic */
    uint32_t param_len;
    const uint8_t *params;    /* private copy, 16-byte aligned */
    uint32_t flags;           /* LAUNCH: enum vgc_launch_flag */
    uint64_t workspace;       /* LAUNCH: see launch_bytes; 0: none */
    uint64_t workspace_bytes; /* LAUNCH: of the workspace, as many as launch_bytes said or more */
    /* A graph: the operation is one of its nodes after the other, see vgc_op_next_node() */
    const struct vgc_node
        *nodes; /* NULL: not a graph; else in an order in which they can be done, valid until finish */
    uint32_t num_nodes;
    uint32_t node;           /* number of the node that the operation is now */
    uint64_t graph_start_ns; /* start of the first node; start_ns is the running launch's, 0 while none runs */
    /* origin of the request, for the black box */
    uint16_t queue;
    uint16_t head;
    /* results, written by the engine before finish */
    uint32_t status; /* enum vgc_status */
    uint32_t detail;
    uint64_t start_ns; /* CLOCK_MONOTONIC; a LAUNCH's deadline runs from here: store it atomically when it starts */
    uint64_t end_ns;
    uint64_t output_bytes; /* LAUNCH: printed bytes of the context that were not taken yet, lost bytes included */
    char error[VGC_MAX_ERROR_TEXT]; /* NUL-terminated; only read if status != OK */
    void *owner;                    /* for the data plane */
    /* for the engine while it owns the operation */
    struct vgc_op *next;
    uint64_t progress;
    uint32_t calls;      /* of its driver, if the engine counts them */
    uint32_t first_node; /* of the nodes of a graph that were submitted together; the last one is `node` */
    void *engine_private;
};

enum { VGC_DONE = 0, VGC_QUEUED = 1 };
enum { VGC_ENGINE_WHY = 256 };

struct vgc_builtin;
struct vgc_ctl_pe;
struct vgc_dp;
struct vgc_engine;

struct vgc_engine_ops {
    const char *name;
    uint32_t kind; /* enum vgc_engine_kind */

    /* Device memory. The engine rounds sizes; *address is never 0. -ENOMEM. */
    int (*alloc)(struct vgc_engine *engine, uint64_t size, uint64_t *address);
    int (*free)(struct vgc_engine *engine, uint64_t address, uint64_t size);

    /* The VM's region is mapped at `host`; *address: its device address (0: kernels cannot access it).
     * Called again with host NULL before it is unmapped, when no operation uses it. */
    int (*map_region)(struct vgc_engine *engine, uint8_t *host, uint64_t size, uint64_t *address);

    /* Starts or queues an operation behind the earlier ones of its (context, stream).
     * VGC_DONE: finished already, with results in `op`. VGC_QUEUED: the engine will call vgc_engine_finish(). */
    int (*submit)(struct vgc_engine *engine, struct vgc_op *op);

    /* The engine carries out operations that are graphs. */
    bool graphs;

    /* Finds what kernels of a built-in function have as engine_private; NULL: the engine does not have the function.
     * Its launches are of one block and one thread, with parameters that were checked (vgc_builtin_check). Called when
     * the data plane starts. May be NULL: the engine has none. */
    void *(*builtin)(struct vgc_engine *engine, const struct vgc_builtin *builtin);

    /* Bytes of device memory that a LAUNCH needs while it runs, beside what it accesses. op->workspace is the address
     * of as many, with any contents; launches of the same stream may have the same. The engine sets it to 0 if the
     * memory cannot be used for anything else afterwards. UINT64_MAX: more than any quota. May be NULL: no launch needs
     * memory.
     */
    uint64_t (*launch_bytes)(struct vgc_engine *engine, const struct vgc_op *op);

    /* Does a bounded slice of the engine's work on the data-plane thread (copies, for example, or checking which
     * operations a device has finished). Called after every round over the queues. True if anything was done or there
     * is more. May be NULL. */
    bool (*poll)(struct vgc_engine *engine);

    /* Longest time in ns that the idle data plane may sleep before it must call `poll` again. UINT64_MAX: until it is
     * woken, by vgc_engine_finish() at the latest. May be NULL, which means the same. */
    uint64_t (*nap_ns)(struct vgc_engine *engine, uint64_t now_ns);

    /* The calling thread begins, or ends, to be the one that calls the engine: for state that is current per thread.
     * Always in pairs. May be NULL. */
    void (*enter)(struct vgc_engine *engine);
    void (*leave)(struct vgc_engine *engine);

    /* Lets `count` of its elements, from 1 to num_pes, take work from now on; the others leave theirs at the next block
     * or later. -EINVAL: there are fewer. May be NULL: their number cannot change. */
    int (*offer_pes)(struct vgc_engine *engine, uint32_t count);

    /* Describes where a running launch is now (block, thread, PE) in at most `size` bytes, NUL included, for the error
     * text when it is past its deadline. Called once, before the process exits. May be NULL. */
    void (*describe)(struct vgc_engine *engine, const struct vgc_op *op, char *text, uint32_t size);

    /* Cancels all operations of a context (status CANCELLED); each is still finished. Returns at once. */
    void (*cancel)(struct vgc_engine *engine, uint32_t context);

    /* Takes up to `size` bytes of the text that kernels of a context printed. *left: bytes that remain. *lost: bytes
     * without room since the last call. `to` NULL: drops all text. May be NULL: kernels cannot print. */
    uint32_t (*take_output)(struct vgc_engine *engine, uint32_t context, char *to, uint32_t size, uint32_t *left,
                            uint64_t *lost);

    /* Writes what kernels must know of a texture or surface to the `texture_bytes` of device memory at `address`, which
     * is then the object. No operation uses these bytes. May be NULL: the engine has no textures. */
    void (*put_texture)(struct vgc_engine *engine, const struct vgc_texture_spec *spec, uint64_t address);

    /* Arrays and objects of the engine's own making; NULL, all of them: arrays are allocations in which the data plane
     * lays out texels, and put_texture makes objects. On failure, `why` (VGC_ENGINE_WHY bytes) has the reason: -EINVAL:
     * the device has no such thing; -ENOMEM; other errors are the engine's.
     *
     * Finds the bytes of device memory that an array takes, to be charged to the quota. */
    int (*array_bytes)(struct vgc_engine *engine, const struct vgc_body_array_create *shape, uint64_t *bytes,
                       char *why);
    /* Makes an array that holds zeroes for every later operation; `bytes` are charged for it. */
    int (*array_make)(struct vgc_engine *engine, const struct vgc_body_array_create *shape, uint64_t bytes,
                      void **array, char *why);
    /* Ends an array that no operation uses. */
    void (*array_end)(struct vgc_engine *engine, void *array);
    /* Makes a texture or surface; *object is what kernels take. */
    int (*object_make)(struct vgc_engine *engine, const struct vgc_texture_spec *spec, uint64_t *object, char *why);
    void (*object_end)(struct vgc_engine *engine, uint64_t object, bool is_surface);

    /* The control system (kernels/control/). All of these may be NULL: the engine then has none. They may be called
     * from the worker's control system thread, at the same time as other functions from the data-plane thread.
     *
     * Attaches the VM's control area: `size` bytes of `fd` (a sealed memfd, which stays the caller's), mapped by the
     * caller at `host`. *device: device address of its first byte, never `host` itself. -errno on failure. Called once,
     * before the first operation. */
    int (*control_attach)(struct vgc_engine *engine, int fd, uint8_t *host, uint64_t size, uint64_t *device);
    /* Copy bytes of the area at `offset` between host and device, if these do not share its memory (NULL: they share
     * the mapping at `host`). A write of 8 aligned bytes is never torn. -EAGAIN of a read: the device cannot be
     * accessed now, and `to` has the bytes that were read last, or zeroes; writes then happen later, in order. Other
     * errors: the device is gone. */
    int (*control_write)(struct vgc_engine *engine, uint64_t offset, const void *from, uint64_t size);
    int (*control_read)(struct vgc_engine *engine, uint64_t offset, void *to, uint64_t size);
    /* Wakes sleeping elements, as attention words have changed. */
    void (*control_kick)(struct vgc_engine *engine);
    /* Reads an element's state from the engine: kernel, launch, block, since_ns, warps. False: the element is idle. */
    bool (*control_look)(struct vgc_engine *engine, uint32_t pe, struct vgc_ctl_pe *state);
    /* Copies the text at a device address inside a loaded program's constants, NUL-terminated, cut to `size`.
     * Returns its length, or -EFAULT if no program lies there. */
    int (*control_text)(struct vgc_engine *engine, uint64_t address, char *text, uint32_t size);

    /* Migration of a VM's work to another worker, see vgc_dataplane.h. All of these may be NULL: the
     * engine's work then cannot be migrated. No operation runs when they are called.
     *
     * Allocates, like alloc, at the address that another engine of this kind gave for the same size. -EINVAL: the
     * engine gives no such addresses; -EEXIST: the address is taken. */
    int (*alloc_at)(struct vgc_engine *engine, uint64_t address, uint64_t size);
    /* Copies device memory that the engine gave (allocations, programs) to `to`, which holds zeroes, so that zeroes may
     * be skipped. Returns the bytes that were copied, or -errno. */
    int64_t (*save)(struct vgc_engine *engine, uint64_t address, uint64_t size, uint8_t *to);
    /* Copies all bytes, zeroes included, from `from` to device memory. */
    int (*restore)(struct vgc_engine *engine, uint64_t address, uint64_t size, const uint8_t *from);
    /* Puts text that take_output took back in front of text that was printed since. Required with take_output. */
    int (*put_output)(struct vgc_engine *engine, uint32_t context, const char *text, uint32_t size, uint64_t lost);

    void (*close)(struct vgc_engine *engine);
};

/* Largest drift between a device's clock and the host's, as a divisor: 100 ppm. */
enum { VGC_CLOCK_DRIFT = 10000 };
/* Value of control_clock_error_ns while the error is unknown. */
#define VGC_CLOCK_UNKNOWN UINT64_MAX

/* Base of every engine: put it first in the engine's own struct. */
struct vgc_engine {
    const struct vgc_engine_ops *ops;
    uint32_t num_pes;                        /* processing elements this VM may use */
    uint32_t max_shared_bytes;               /* static + dynamic, per block */
    uint32_t texture_bytes;                  /* bytes of device memory that an object takes; see put_texture */
    struct vgc_device_properties properties; /* for guests */
    uint64_t alloc_granularity;        /* power of two; sizes are rounded up to a multiple of it, and charged so */
    struct vgc_black_box *black_box;   /* of the data plane, NULL outside a worker; see vgc_engine_fatal */
    struct vgc_dp *dp;                 /* data plane that calls this engine, or NULL; see vgc_engine_enter */
    _Atomic(struct vgc_op *) finished; /* Treiber stack of finished ops, newest first */
    atomic_bool sleeping;              /* the data plane sleeps on wake_fd */
    atomic_bool poll_wanted;           /* see vgc_engine_wake */
    int wake_fd;                       /* eventfd */
    /* Offset from elements' times to CLOCK_MONOTONIC, its largest error when it was measured, and the time of that
     * (CLOCK_MONOTONIC). Valid after control_attach; may change at any time. */
    _Atomic int64_t control_clock_ns;
    _Atomic uint64_t control_clock_error_ns;
    _Atomic uint64_t control_clock_read_ns;
    _Atomic uint32_t control_sm_ids; /* bound of the device's element numbers; 0: as known at control_attach */
    /* Set by control_attach: the first bytes of the area's links (0: none) are at this device address instead. They
     * stay in the file's memory, so that their contents outlive an error of the device, and the worker. */
    uint64_t control_urgent_bytes;
    uint64_t control_urgent;
    uint64_t arena_base; /* see vgc_engine_set_arena; size 0: no arena */
    uint64_t arena_size;
    _Atomic uint64_t arena_next;
};

/* Sets the arena: the range of addresses for all memory whose address guests know. It lies far from where the kernel
 * puts libraries and stacks, and is the same for every worker of a VM, so that a second worker can have the same memory
 * at the same address. Reserves nothing. Must be called before anything is mapped. -EINVAL: the range is not of whole
 * pages, or not inside a process's address space. */
int vgc_engine_set_arena(struct vgc_engine *engine, uint64_t base, uint64_t size);

/* mmap() of `size` bytes, a multiple of the page size, in the arena (anywhere without an arena) at a multiple of
 * `align`, a power of two; or, if `at` is not 0, exactly there. MAP_FAILED with errno: EEXIST if `at` is taken, EINVAL
 * if it is not in the arena. Callable from any thread. */
void *vgc_arena_map(struct vgc_engine *engine, uint64_t at, uint64_t align, uint64_t size, int protection, int flags,
                    int fd, int64_t offset);
/* munmap(); if these were the last addresses that were given, they are the next to be given again. */
void vgc_arena_unmap(struct vgc_engine *engine, void *base, uint64_t size);

/* Copies `size` bytes, except pages of zeroes; returns the number of bytes copied. */
uint64_t vgc_copy_without_zeroes(uint8_t *to, const uint8_t *from, uint64_t size);

/* Lock the engine, for functions of an engine that Python calls (loading a program, for example): between these two no
 * other thread calls the engine. Waits for the data plane to release it, if there is one. */
void vgc_engine_enter(struct vgc_engine *engine);
void vgc_engine_leave(struct vgc_engine *engine);

/* Returns a finished operation to the data plane and wakes that if it sleeps. Callable from any thread. */
void vgc_engine_finish(struct vgc_engine *engine, struct vgc_op *op);

/* Makes the data plane call `poll` soon, though no operation is finished. Callable from any thread. */
void vgc_engine_wake(struct vgc_engine *engine);

/* Wakes the worker's main thread, which asks the engine what its operations wait for. Callable from any thread. */
void vgc_engine_ask(struct vgc_engine *engine);

/* Makes a graph, whose node is done, its next node: arguments, `progress` and `engine_private` are as those of a new
 * operation. False: it has no more nodes, one has failed, or it is no graph; then the operation is to be finished. */
bool vgc_op_next_node(struct vgc_op *op);
/* Makes a graph its node `index`, whatever it was before. */
void vgc_op_load_node(struct vgc_op *op, uint32_t index);

/* Takes all finished operations, oldest first, linked by `next`. */
struct vgc_op *vgc_engine_take_finished(struct vgc_engine *engine);

/* Ends the worker because of `op` (a fault in guest code, a launch past its deadline): writes the black box and calls
 * _exit(VGC_EXIT_FATAL). The next worker answers the operation's request with `status`, `detail` and `text`, and every
 * other request with DEVICE_LOST. Async-signal-safe, any thread; the first caller wins, others wait for the exit. `op`
 * NULL: no request is to blame. */
enum { VGC_EXIT_FATAL = 86 };
__attribute__((noreturn)) void vgc_engine_fatal(struct vgc_engine *engine, const struct vgc_op *op,
                                                enum vgc_status status, uint32_t detail, const char *text);

/* The null engine: every operation is VGC_DONE at once, unless earlier ones of its stream are held; its memory consists
 * of addresses only. A template for engines. */
struct vgc_engine *vgc_null_engine_new(uint32_t num_pes);

/* Behaviour of a null kernel. */
enum vgc_null_behaviour {
    VGC_NULL_DONE,    /* finished at once */
    VGC_NULL_LATER,   /* finished by the next poll */
    VGC_NULL_HOLD,    /* runs until a RELEASE kernel, or cancel */
    VGC_NULL_RELEASE, /* releases held launches, then like DONE */
    VGC_NULL_ASSERT,  /* fails with status ASSERT and a text */
    VGC_NULL_FAULT,   /* ends the worker with status FAULT */
    VGC_NULL_SPOIL,   /* like DONE; its workspace cannot be used again */
};

/* Target of vgc_kernel.engine_private of a null kernel. NULL: VGC_NULL_DONE, without a workspace. */
struct vgc_null_kernel {
    enum vgc_null_behaviour behaviour;
    uint64_t workspace_bytes; /* see launch_bytes */
};

#endif
