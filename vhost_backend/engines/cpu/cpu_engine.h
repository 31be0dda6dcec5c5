/* Inside the CPU engine.
 *
 *   engine.c    operations and streams          pe.c        processing elements: threads that run blocks
 *   memory.c    device memory                   schedule.c  one block: regions, barriers, warp operations
 *   loader.c    images                          fault.c     signals: whose fault, where
 *   program.c   kernels and variables           device.c    what kernels call: printf, assert, timers
 *   moving.c    the work of another worker      control.h   what the control system has to do with it all
 */
#ifndef VGC_CPU_ENGINE_H
#define VGC_CPU_ENGINE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cdef.h"
#include "kernels/control/modules.h"
#include "vgc_cpu_abi.h"

enum {
    CPU_ALIGN = 256, /* of allocations */
    CPU_GUARD = 4096,
    CPU_SHARED_GUARD = 64 << 10, /* wider: kernels index shared memory by strides */
    CPU_STACK_BYTES = 1 << 20,
    CPU_SIGNAL_STACK_BYTES = 64 << 10,
    CPU_INLINE_COPY = 256 << 10, /* bytes: copied at once by the submitter */
    CPU_COPY_SLICE = 256 << 10,  /* bytes per poll: faster than larger ones, and nobody else waits long */
    CPU_LEFTOVERS = 8,           /* ranges of blocks that confined PEs have left to others, per launch */
    CPU_FIRMWARE_SLOTS = 2,
};

/* Blocks that a PE had taken and did not come to. */
struct cpu_range {
    uint64_t first;
    uint64_t last; /* one behind */
};

/* One launch, from its turn in the stream to its end. */
struct cpu_launch {
    struct vgc_op *op;
    const struct vgc_cpu_kernel_desc *kernel;
    uint64_t num_blocks;
    uint32_t num_threads; /* per block */
    uint32_t batch;       /* blocks a PE takes at a time */
    atomic_ullong next_block;
    atomic_bool stop; /* failed or cancelled: no new blocks */
    uint32_t pes;     /* at work on it; engine's lock */
    uint64_t number;  /* of all launches of this engine */
    atomic_uint num_leftovers;
    struct cpu_range leftovers[CPU_LEFTOVERS]; /* engine's lock */
    struct cpu_launch *next;
};

struct __attribute__((aligned(64))) cpu_pe {
    struct vgc_cpu_ctx ctx; /* first: compiled code only knows this */
    struct cpu_engine *engine;
    pthread_t thread;
    _Atomic(struct cpu_launch *) launch; /* the one it works on */
    uint8_t *shared;                     /* VGC_CPU_MAX_SHARED bytes and a guard page */
    uint8_t *frame;
    size_t frame_bytes;
    void *signal_stack;
    uint8_t *stack_low; /* lowest address of the stack, for telling overflows */
    /* the region call that runs, for finding the thread that faulted */
    const struct vgc_cpu_site *site;
    uint32_t first;
    uint32_t last;
    bool in_kernel;
    bool locating;
    uint32_t located;
    jmp_buf leave_block; /* assert, trap, deadlock */
    /* the control system: see control.h */
    struct vgc_ctl_unit unit;
    const struct vgc_ctl_modules *modules; /* of the active slot */
    atomic_bool confined;                  /* takes no blocks */
    bool attended;                         /* the block that runs has told that it began */
    uint32_t slot;                         /* of the active firmware; engine's lock */
    int trying;                            /* slot that is tried out, or -1; engine's lock */
    uint32_t kicks_seen;
    bool in_hook; /* of firmware that was loaded */
    int hook_signal;
    jmp_buf leave_hook;
    struct vgc_ctl_pe no_row; /* while there is no control area: nothing is bound */
};

struct cpu_stream {
    struct vgc_op *head; /* runs, or is about to */
    struct vgc_op *tail;
};

struct cpu_event {
    uint64_t recorded;      /* records submitted */
    struct vgc_op *pending; /* records that their stream has not come to, by engine_private */
};

/* What kernels of one context printed and nobody has taken. */
struct cpu_output {
    char *text; /* VGC_MAX_OUTPUT_BYTES, or NULL while there is none */
    uint32_t len;
    uint64_t lost;
};

/* loader.c: a loaded ELF image. */
struct cpu_elf {
    const uint8_t *file; /* what it was loaded from: must stay as long */
    uint64_t file_size;
    uint8_t *base;
    size_t mapped;
    bool outside; /* it is no program of the VM's: not in its arena */
};

/* Control code, as elements can change to it. */
struct cpu_firmware {
    struct cpu_elf elf; /* file NULL: what the engine was built with */
    const struct vgc_ctl_modules *modules;
    uint64_t version;
};

struct cpu_engine {
    struct vgc_engine base;
    pthread_mutex_t lock; /* everything below, but for what is atomic */
    pthread_cond_t work;
    atomic_uint work_seq; /* changes when there is new work */
    uint32_t sleeping_pes;
    bool closing;
    struct cpu_launch *launches; /* that may have blocks left, oldest first */
    struct cpu_launch *free_launches;
    struct vgc_op *copies; /* for the data-plane thread, oldest first, linked by engine_private */
    atomic_bool has_copies;
    struct cpu_stream streams[VGC_MAX_CONTEXTS + 1][VGC_MAX_STREAMS];
    struct cpu_event events[VGC_MAX_EVENTS + 1];
    struct vgc_op *waiting; /* EVENT_WAITs at the head of their stream, linked by engine_private */
    struct cpu_output outputs[VGC_MAX_CONTEXTS + 1];
    struct cpu_pe *pes; /* num_pes of them */
    uint32_t started_pes;
    uint64_t launches_started;
    /* the control system */
    struct vgc_ctl_place place; /* if there are rows */
    struct vgc_ctl_pe *rows;    /* of the area, NULL: none is attached */
    struct vgc_ctl_clock clock; /* as it was found when the area was attached */
    uint32_t kicks;
    uint32_t num_confined;
    struct cpu_firmware slots[CPU_FIRMWARE_SLOTS];
    pthread_mutex_t programs_lock;
    struct vgc_cpu_program *programs; /* all that are loaded */
};

static inline struct cpu_engine *cpu_engine_of(struct vgc_engine *engine)
{
    return (struct cpu_engine *)engine;
}

/* memory.c */
int cpu_alloc(struct vgc_engine *engine, uint64_t size, uint64_t *address);
int cpu_alloc_at(struct vgc_engine *engine, uint64_t address, uint64_t size);
int cpu_free(struct vgc_engine *engine, uint64_t address, uint64_t size);
/* As cpu_map_guarded() with CPU_GUARD, in the VM's arena: for everything whose address guests get to know. At `at` if
 * that is not 0. */
uint8_t *cpu_map_device(struct cpu_engine *engine, uint64_t at, size_t size);
void cpu_unmap_device(struct cpu_engine *engine, uint8_t *base, size_t size);
/* `size` bytes, page-aligned, readable and writable, between `guard` inaccessible bytes on either side, a multiple of
 * CPU_GUARD; NULL if there is no memory. */
uint8_t *cpu_map_guarded(size_t size, size_t guard);
void cpu_unmap_guarded(uint8_t *base, size_t size, size_t guard);

/* moving.c */
int64_t cpu_save(struct vgc_engine *engine, uint64_t address, uint64_t size, uint8_t *to);
int cpu_restore(struct vgc_engine *engine, uint64_t address, uint64_t size, const uint8_t *from);
int cpu_put_output(struct vgc_engine *engine, uint32_t context, const char *text, uint32_t size, uint64_t lost);

/* loader.c: loads elf->file into the VM's arena, at `at` if that is not 0, and fills in the rest. 0 or -1 with `why`.
 */
int cpu_elf_load(struct cpu_engine *engine, struct cpu_elf *elf, uint64_t at, const struct vgc_cpu_image **image,
                 char *why);
void cpu_elf_unload(struct cpu_engine *engine, const struct cpu_elf *elf);
/* The index-th part of it that code may write to; false if there are not so many. */
bool cpu_elf_writable(const struct cpu_elf *elf, uint32_t index, uint64_t *address, uint64_t *size);
/* Its writable parts came from another process: puts the runtime's addresses in this one in again. */
int cpu_elf_settle(const struct cpu_elf *elf, char *why);

/* pe.c */
int cpu_pes_start(struct cpu_engine *engine, char *why);
void cpu_pes_stop(struct cpu_engine *engine);
/* Makes a launch known to the PEs. Lock held. */
void cpu_pes_offer(struct cpu_engine *engine, struct cpu_launch *launch);
/* The PE that the calling thread is, or NULL. Async-signal-safe. */
struct cpu_pe *cpu_current_pe(void);

/* engine.c: a launch has ended; lock held. Gives the op back. */
void cpu_launch_finished(struct cpu_engine *engine, struct cpu_launch *launch);

/* schedule.c: runs one block; leaves through pe->leave_block on failure. */
void cpu_run_block(struct cpu_pe *pe, const struct cpu_launch *launch);
/* Runs one region, noting what runs. */
int32_t cpu_run_region(struct cpu_pe *pe, const struct vgc_cpu_site *site, uint32_t first, uint32_t last);

/* warp.c: computes what the threads [first, last) that wait at `site` get. Members: bit per lane and warp, of the
 * threads that take part. */
void cpu_exchange(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t warp, uint32_t members);

/* device.c */
/* Ends the PE's launch with a status and a text (printf style), and leaves the block. */
__attribute__((noreturn, format(printf, 3, 4))) void cpu_fail_launch(struct cpu_pe *pe, enum vgc_status status,
                                                                     const char *format, ...);
int __vgc_printf(const char *format, ...);
uint32_t cpu_take_output(struct vgc_engine *engine, uint32_t context, char *to, uint32_t size, uint32_t *left,
                         uint64_t *lost);
__attribute__((noreturn)) void __vgc_assert_fail(const char *expression, const char *file, unsigned line,
                                                 const char *function);
__attribute__((noreturn)) void __vgc_trap(void);
uint64_t __vgc_globaltimer(void);
extern __thread struct vgc_cpu_ctx *vgc_cpu_current __attribute__((tls_model("initial-exec")));

/* fault.c */
int cpu_faults_install(void);
/* Says where the thread that runs on the PE is, in at most `size` bytes. */
void cpu_describe(const struct cpu_pe *pe, char *text, uint32_t size);

/* CLOCK_MONOTONIC */
uint64_t cpu_now_ns(void);

#endif
