/* What the data plane asks of an engine. An engine is one small file that fills in vgc_engine_ops.
 *
 * Threads: the functions of vgc_engine_ops are never called by two threads at once, and nearly always by the
 * data-plane thread; `enter` and `leave` say when another takes its place. Engines may use threads of their own; they
 * hand finished operations back through vgc_engine_finish(), from any thread.
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
    VGC_OPK_MARKER,      /* does nothing: completes when all earlier work of its stream has */
    VGC_OPK_COPY_IN,     /* payload spans -> dst */
    VGC_OPK_COPY_OUT,    /* src -> payload spans */
    VGC_OPK_COPY_DEVICE, /* src -> dst, ranges may overlap */
    VGC_OPK_FILL,
    VGC_OPK_LAUNCH,
    VGC_OPK_EVENT_RECORD,
    VGC_OPK_EVENT_WAIT,
};

/* A kernel as the engine knows it; opaque to the data plane but for what it must check. Owned by the engine,
 * valid until its program is unloaded and all launches of it have finished. */
struct vgc_kernel {
    const char *name; /* for messages */
    uint32_t param_bytes;
    uint32_t shared_bytes; /* static */
    uint32_t max_threads;  /* per block */
    uint32_t id;
    uint32_t context;
    uint32_t num_params;
    const struct vgc_param_entry *params;
    void *engine_private;
};

/* One operation. Lives in the data plane's pool; belongs to the engine from submit (VGC_QUEUED) to finish. */
struct vgc_op {
    enum vgc_op_kind kind;
    uint32_t context; /* the engine's number of it: 1..VGC_MAX_CONTEXTS, used again after cancel and last finish */
    uint32_t stream;  /* 0..VGC_MAX_STREAMS-1 */
    uint64_t request_id;
    /* arguments: all ranges are already checked against the context's allocations */
    uint64_t dst;   /* device address */
    uint64_t src;   /* device address */
    uint64_t size;  /* bytes */
    uint64_t value; /* FILL: the pattern; EVENT_*: the event's number, 1..VGC_MAX_EVENTS */
    uint32_t unit;  /* FILL: bytes of the pattern */
    uint32_t num_spans;
    const struct vgc_span *spans; /* COPY_*: exactly `size` bytes of guest memory, stays mapped until finish */
    const struct vgc_kernel *kernel;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes; /* dynamic */
    uint32_t param_len;
    const uint8_t *params; /* private copy, 16-byte aligned */
    /* where the request came from, for the black box */
    uint16_t queue;
    uint16_t head;
    /* results, written by the engine before finish */
    uint32_t status; /* enum vgc_status */
    uint32_t detail;
    uint64_t start_ns; /* CLOCK_MONOTONIC; a LAUNCH's deadline runs from here: store it atomically when it starts */
    uint64_t end_ns;
    uint64_t output_bytes; /* LAUNCH: what kernels of its context printed so far and nobody has taken, lost bytes too */
    char error[VGC_MAX_ERROR_TEXT]; /* NUL-terminated; only read if status != OK */
    void *owner;                    /* the data plane's own */
    /* engine's own while it owns the op */
    struct vgc_op *next;
    uint64_t progress;
    void *engine_private;
};

enum { VGC_DONE = 0, VGC_QUEUED = 1 };

struct vgc_ctl_pe;
struct vgc_dp;
struct vgc_engine;

struct vgc_engine_ops {
    const char *name;
    uint32_t kind; /* enum vgc_engine_kind */

    /* Device memory. Sizes are rounded by the engine; *address is never 0. -ENOMEM when there is none. */
    int (*alloc)(struct vgc_engine *engine, uint64_t size, uint64_t *address);
    int (*free)(struct vgc_engine *engine, uint64_t address, uint64_t size);

    /* The VM's region became visible at `host`; returns in *address where kernels see it (0: they do not).
     * Called again with host NULL before the mapping goes away; no operation that uses it is then running. */
    int (*map_region)(struct vgc_engine *engine, uint8_t *host, uint64_t size, uint64_t *address);

    /* Starts or queues an operation behind the earlier ones of its (context, stream).
     * VGC_DONE: finished already, results are in op, finish is not called for it. VGC_QUEUED: finish will be. */
    int (*submit)(struct vgc_engine *engine, struct vgc_op *op);

    /* Does a bounded slice of work that the engine wants done on the data-plane thread (copies, say, or looking what
     * a device has finished). Called after every round over the queues. True if anything was done or there is more.
     * May be NULL. */
    bool (*poll)(struct vgc_engine *engine);

    /* The data plane has nothing to do and wants to sleep: for how many ns may it, before `poll` is called again?
     * UINT64_MAX: until it is woken, by vgc_engine_finish() at the latest. May be NULL, which says the same. */
    uint64_t (*nap_ns)(struct vgc_engine *engine, uint64_t now_ns);

    /* The calling thread is the one that calls the engine from now on, or does not any more: for what can be current
     * in one thread only. Always in pairs. May be NULL. */
    void (*enter)(struct vgc_engine *engine);
    void (*leave)(struct vgc_engine *engine);

    /* Says in at most `size` bytes of text, NUL included, where a running launch is now (block, thread, PE), for
     * the message when it is past its deadline. From the data-plane thread, once, before the process exits. May
     * be NULL. */
    void (*describe)(struct vgc_engine *engine, const struct vgc_op *op, char *text, uint32_t size);

    /* Cancels everything of a context (status CANCELLED); finish is still called for each. Returns at once. */
    void (*cancel)(struct vgc_engine *engine, uint32_t context);

    /* Takes up to `size` bytes of what kernels of a context printed. *left: bytes there still are. *lost: bytes that
     * were not kept since the last call. `to` NULL: drops everything. May be NULL: kernels cannot print. */
    uint32_t (*take_output)(struct vgc_engine *engine, uint32_t context, char *to, uint32_t size, uint32_t *left,
                            uint64_t *lost);

    /* The control system (kernels/control/). All of these may be NULL: then nothing of it is possible. They may be
     * called from the worker's control system thread, beside the data-plane thread's calls of everything else.
     *
     * The VM's control area: `size` bytes of `fd` (a sealed memfd, the caller's), which the caller has mapped at
     * `host`. *device: where processing elements see its first byte; never `host` itself. -errno on failure. Once,
     * before the first operation. */
    int (*control_attach)(struct vgc_engine *engine, int fd, uint8_t *host, uint64_t size, uint64_t *device);
    /* Moves bytes of what the area holds at `offset` between host and elements, where they do not simply share them;
     * a write of 8 aligned bytes is seen whole. NULL: the mapping at `host` is what the elements see. */
    int (*control_write)(struct vgc_engine *engine, uint64_t offset, const void *from, uint64_t size);
    int (*control_read)(struct vgc_engine *engine, uint64_t offset, void *to, uint64_t size);
    /* Attention words changed: elements that sleep look at theirs. */
    void (*control_kick)(struct vgc_engine *engine);
    /* What the engine itself knows of an element now: kernel, launch, block, since_ns, warps. False: nothing. */
    bool (*control_look)(struct vgc_engine *engine, uint32_t pe, struct vgc_ctl_pe *state);
    /* Copies the text at a device address inside a loaded program's constants, NUL-terminated, cut to `size`. Its
     * length, or -EFAULT: nothing of a program lies there. */
    int (*control_text)(struct vgc_engine *engine, uint64_t address, char *text, uint32_t size);

    /* Moving a VM's work to another worker, see "moving" in vgc_dataplane.h. All of these may be NULL: then it stays.
     * Nothing of the engine's runs when they are called.
     *
     * As alloc, but at the address that another engine of this kind gave for the same size. -EINVAL: it gives no such
     * addresses; -EEXIST: something is there. */
    int (*alloc_at)(struct vgc_engine *engine, uint64_t address, uint64_t size);
    /* Copies device memory that the engine gave (allocations, programs) to `to`, which holds zeroes: zeroes may be left
     * out. The bytes that were copied, or -errno. */
    int64_t (*save)(struct vgc_engine *engine, uint64_t address, uint64_t size, uint8_t *to);
    /* The other way, zeroes and all. */
    int (*restore)(struct vgc_engine *engine, uint64_t address, uint64_t size, const uint8_t *from);
    /* What take_output took, there again in front of everything that was printed since. Needed where take_output is. */
    int (*put_output)(struct vgc_engine *engine, uint32_t context, const char *text, uint32_t size, uint64_t lost);

    void (*close)(struct vgc_engine *engine);
};

/* Base of every engine: put it first in the engine's own struct. */
struct vgc_engine {
    const struct vgc_engine_ops *ops;
    uint32_t num_pes;                  /* processing elements this VM may use */
    uint32_t max_shared_bytes;         /* static + dynamic, per block */
    uint64_t alloc_granularity;        /* sizes are rounded up to a multiple of this power of two; quotas count that */
    struct vgc_black_box *black_box;   /* the data plane's, NULL outside a worker; see vgc_engine_fatal */
    struct vgc_dp *dp;                 /* the data plane that calls it, or NULL; see vgc_engine_enter */
    _Atomic(struct vgc_op *) finished; /* Treiber stack of finished ops, newest first */
    atomic_bool sleeping;              /* the data plane sleeps on wake_fd */
    int wake_fd;                       /* eventfd */
    int64_t control_clock_ns; /* control_attach sets it: what to add to elements' times to have CLOCK_MONOTONIC */
    /* control_attach sets them: the area's links begin with so many bytes (0: none) that elements see at this address
     * instead. They are the file's own, so what is written there outlives an error of the device, and the worker. */
    uint64_t control_urgent_bytes;
    uint64_t control_urgent;
    uint64_t arena_base; /* see vgc_engine_set_arena; size 0: none */
    uint64_t arena_size;
    _Atomic uint64_t arena_next;
};

/* Addresses of the VM's own: everything whose address guests get to know lies there. It is a range of this process's
 * addresses far from where the kernel puts libraries and stacks, and the same for every worker of a VM, so that what
 * one worker has at an address another can have there too. Nothing is reserved. Before anything is mapped; -EINVAL: it
 * is not of whole pages, or not inside a process's addresses. */
int vgc_engine_set_arena(struct vgc_engine *engine, uint64_t base, uint64_t size);

/* mmap() of `size` bytes, a multiple of the page size, in the arena (anywhere if there is none) at a multiple of
 * `align`, a power of two; or, if `at` is not 0, exactly there. MAP_FAILED with errno: EEXIST if `at` is taken, EINVAL
 * if it is not in the arena. Any thread. */
void *vgc_arena_map(struct vgc_engine *engine, uint64_t at, uint64_t align, uint64_t size, int protection, int flags,
                    int fd, int64_t offset);
/* munmap(), and the addresses are the next to be given again if they were the last that were given. */
void vgc_arena_unmap(struct vgc_engine *engine, void *base, uint64_t size);

/* Copies `size` bytes but for pages of zeroes; how many were copied. */
uint64_t vgc_copy_without_zeroes(uint8_t *to, const uint8_t *from, uint64_t size);

/* For an engine's own functions that Python calls (a program is loaded): between these two nobody else calls the
 * engine. Waits for the data plane to make way, if there is one. */
void vgc_engine_enter(struct vgc_engine *engine);
void vgc_engine_leave(struct vgc_engine *engine);

/* Hands a finished operation back to the data plane. Any thread; wakes the data plane if it sleeps. */
void vgc_engine_finish(struct vgc_engine *engine, struct vgc_op *op);

/* Takes everything that was finished, oldest first, linked by `next`. */
struct vgc_op *vgc_engine_take_finished(struct vgc_engine *engine);

/* The worker cannot go on because of `op` (a fault in guest code, a launch past its deadline): writes the black
 * box and leaves with _exit(VGC_EXIT_FATAL). The next worker answers op's request with `status`, `detail` and
 * `text`, and every other one with DEVICE_LOST. Async-signal-safe, any thread; the first caller wins and others
 * wait for the exit. op NULL: no request is to blame. */
enum { VGC_EXIT_FATAL = 86 };
__attribute__((noreturn)) void vgc_engine_fatal(struct vgc_engine *engine, const struct vgc_op *op,
                                                enum vgc_status status, uint32_t detail, const char *text);

/* The null engine: every operation is VGC_DONE at once, unless earlier ones of its stream are held; memory is
 * addresses only. The template of engines. */
struct vgc_engine *vgc_null_engine_new(uint32_t num_pes);

/* What a null kernel does instead of computing; vgc_kernel.engine_private points to one. NULL: VGC_NULL_DONE. */
enum vgc_null_behaviour {
    VGC_NULL_DONE,    /* finished at once */
    VGC_NULL_LATER,   /* finished by the next poll */
    VGC_NULL_HOLD,    /* runs until a RELEASE kernel, or cancel */
    VGC_NULL_RELEASE, /* lets everything held go on, then as DONE */
    VGC_NULL_ASSERT,  /* fails with status ASSERT and a text */
    VGC_NULL_FAULT,   /* takes the worker down with status FAULT */
};

#endif
