/* Internals of the CPU engine.
 *
 *   engine.c    creation, operations table      pe.c        processing elements: threads that run blocks
 *   streams.c   operations and streams          schedule.c  one block: regions, barriers, warp operations
 *   memory.c    device memory                   fault.c     signals: faulting kernel and thread
 *   granules.c  small allocations
 *   loader.c    images                          device.c    functions for kernels: printf, assert, timers
 *   program.c   kernels and variables           position.c  calling PE, block and thread
 *   resident.c  grids whose blocks wait for each other
 *   migration.c work to or from another worker  cpu_control.h  control system
 *   bounds.c    extents of device memory         cpu_check.h  checked programs
 *   blocks.c    blocks of malloc() of checked programs
 *   texture.c   sampling, for kernels                descriptor.c what kernels know of textures
 *   children.c  grids that kernels launch       heap.c      malloc() of kernels
 *   grid.c      grids that wait for another's end; a block on a PE
 *   builtins.c  functions that come with the host
 *   idle.c      processing elements without work, and calls for them
 *   cpu_profile.h  lines of the source, and samples of where kernels are
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
#include "kernels/cpu/include/vgc_texture_layout.h"
#include "vgc_cpu_abi.h"

enum {
    CPU_ALIGN = 256,       /* alignment of what kernels have */
    CPU_ALLOC_ALIGN = 512, /* of allocations, which are charged in multiples of it */
    CPU_CACHE_LINE = 64,   /* bytes; what many PEs write has a line of its own */
    CPU_GUARD = 4096,
    CPU_GRANULE = 2 << 20,       /* that small allocations share */
    CPU_SHARED_GUARD = 64 << 10, /* wider, as kernels index shared memory with strides */
    CPU_STACK_BYTES = 1 << 20,
    CPU_SIGNAL_STACK_BYTES = 64 << 10,
    CPU_MAX_BLOCKS = 1 << 16,    /* of malloc() in checked kernels that are noted at a time */
    CPU_FREED_BLOCKS = 1024,     /* of these, freed, that are noted at a time */
    CPU_FRAME_BYTES = 256 << 10, /* frame that every PE has; larger ones are charged to programs */
    CPU_INLINE_COPY = 256 << 10, /* bytes; smaller copies are made at once by the submitter */
    CPU_COPY_SLICE = 256 << 10,  /* bytes per poll: faster than larger slices, and short enough for other requests */
    CPU_LEFTOVERS = 8,           /* ranges of blocks per launch that confined PEs have left to other PEs */
    CPU_FIRMWARE_SLOTS = 2,
    CPU_MAX_DEPTH = 24,           /* of grids that launch grids */
    CPU_MAX_TAILS = 2048,         /* of a launch: grids that wait for the end of the one that launched them */
    CPU_MAX_TAIL_BYTES = 1 << 20, /* of their parameters */
};

/* Range of blocks that a PE has taken but not run. */
struct cpu_range {
    uint64_t first;
    uint64_t last; /* exclusive */
};

/* Kernel with geometry and parameters: all that a launch says. */
struct cpu_grid {
    const struct vgc_cpu_kernel_desc *kernel;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes; /* dynamic */
    const uint8_t *params; /* kernel->param_bytes, 16-byte aligned */
};

/* A grid that begins when the grid that launched it has ended. */
struct cpu_tail {
    struct cpu_tail *next;
    struct cpu_grid grid;
    _Alignas(16) uint8_t params[];
};

/* Grids that a grid has launched behind itself, first come first served; engine's lock. */
struct cpu_tails {
    struct cpu_tail *first;
    struct cpu_tail *last;
};

struct cpu_findings;
struct vgc_cpu_access;
struct cpu_checks;
struct cpu_profile;
struct cpu_samples;
struct cpu_bound;
struct cpu_builtins;

struct cpu_extent {
    uint64_t first;
    uint64_t size;
};

/* A block that malloc() has given in a checked kernel. */
struct cpu_block {
    struct cpu_extent extent;
    const struct vgc_cpu_access *place;
    const char *kernel;
    const struct vgc_cpu_access *freed; /* place of its free(); NULL: it is in use */
};

/* A block that was freed, and that its heap gets back later. */
struct cpu_freed {
    uint8_t *heap;
    uint64_t heap_bytes;
    uint8_t *block;
    uint64_t bytes;
};

/* Blocks of malloc() that were freed last, in kernels with --memcheck, so that accesses to them are found. */
struct cpu_quarantine {
    pthread_mutex_t lock;
    struct cpu_freed ring[CPU_FREED_BLOCKS];
    uint32_t first;
    atomic_uint count;
    uint64_t bytes;
};

struct cpu_granule;

/* Granules, by address. */
struct cpu_granules {
    struct cpu_granule **all;
    size_t count;
    size_t room;
    size_t last; /* index of the one that had the last allocation */
};

/* Extents that kernels may access, by address. */
struct cpu_bounds {
    pthread_mutex_t lock; /* protects all below */
    struct cpu_bound *all;
    size_t count;
    size_t room;
    uint32_t trackers;        /* loaded programs that are checked for reads of memory that was never written */
    atomic_ullong generation; /* changes when an extent goes */
};

/* A launch, from its turn in the stream to its end; or a grid that a kernel has launched (`op` is then its root's). */
struct cpu_launch {
    struct vgc_op *op;
    struct cpu_grid what;
    const struct vgc_cpu_kernel_desc *kernel; /* what.kernel */
    uint64_t num_blocks;
    uint32_t num_threads;     /* per block */
    uint32_t num_pes;         /* that may share the blocks */
    size_t slot_bytes;        /* of each block in the workspace; 0: the kernel has no barriers of the grid */
    uint32_t phase;           /* barriers of the grid that all blocks have passed; engine's lock, while no PE runs it */
    bool is_of_clusters;      /* in this phase only blocks at barriers of their clusters go on; likewise */
    struct cpu_tails tails;   /* launched by `what`, to run behind it */
    struct cpu_tails later;   /* launched by those before, to run behind these */
    struct cpu_tail *running; /* `what` was one of them */
    struct cpu_launch *root;  /* the guest's launch, of which this grid is part or which it is */
    atomic_uint num_tails;    /* of the root: all tails of its grids */
    atomic_size_t tail_bytes; /* of their parameters */
    atomic_bool stop;         /* failed or cancelled: no new blocks */
    uint32_t pes;             /* PEs that work on it; engine's lock */
    uint64_t number;          /* sequence number within this engine */
    struct cpu_findings *findings; /* of a checked program; engine's lock; NULL: none */
    struct cpu_profile *profile;   /* of a profiled program; engine's lock; NULL: none */
    atomic_uint num_leftovers;
    struct cpu_range leftovers[CPU_LEFTOVERS]; /* engine's lock */
    struct cpu_launch *next;
    _Alignas(CPU_CACHE_LINE) atomic_ullong next_block; /* apart from what PEs read before each block */
    atomic_ullong num_parked;                          /* blocks that have reached the next barrier of the grid */
    atomic_ullong num_at_cluster;                      /* those of them that are at a barrier of their cluster */
};

struct __attribute__((aligned(CPU_CACHE_LINE))) cpu_pe {
    struct vgc_cpu_ctx ctx; /* must be first: compiled code accesses only this */
    struct cpu_engine *engine;
    pthread_t thread;
    _Atomic(struct cpu_launch *) launch; /* launch that the PE works on */
    struct cpu_launch *inner;            /* grid whose block runs: `launch`, or what its kernels have launched */
    uint32_t depth;                      /* 0: inner == launch */
    int launch_error;                    /* cudaError_t of the last launch that a kernel tried */
    uint32_t num_waiting;                /* grids that the running block has launched and that have not run */
    struct cpu_level *levels[CPU_MAX_DEPTH];
    uint8_t *shared; /* VGC_CPU_MAX_SHARED bytes and a guard page */
    uint8_t *frame;
    size_t frame_bytes;
    void *signal_stack;
    uint8_t *stack_low;          /* lowest address of the stack, to recognise overflows */
    uintptr_t region_stack;      /* what lies below is the region's */
    struct cpu_checks *checks;   /* NULL before the first launch of a checked kernel */
    bool is_checked;             /* the running launch is of one */
    bool runs_strips;            /* neighbouring blocks of the running launch may run as one */
    struct cpu_samples *samples; /* NULL before the first launch of a profiled kernel */
    atomic_bool is_sampled;      /* the running launch is of one */
    uint32_t chunk;              /* blocks that were taken last; 0: none of the launch */
    uint64_t chunk_began;        /* then, by the time stamp counter */
    /* the running region call, to find a faulting thread */
    const struct vgc_cpu_site *site;
    uint32_t first;
    uint32_t last;
    atomic_bool in_kernel; /* since its first region of the launch; others may ask, so it is stored with release */
    bool locating;
    uint32_t located;
    jmp_buf leave_block; /* target of assert, trap, deadlock */
    /* the control system: see control.h */
    struct vgc_ctl_unit unit;
    const struct vgc_ctl_modules *modules; /* table of the active slot */
    atomic_bool confined;                  /* takes no blocks */
    bool attended;                         /* the begin of the running block was counted */
    uint32_t slot;                         /* active firmware slot; engine's lock */
    int trying;                            /* slot under test, or -1; engine's lock */
    uint32_t kicks_seen;
    bool in_hook; /* runs a hook of loaded firmware */
    int hook_signal;
    jmp_buf leave_hook;
    struct vgc_ctl_pe no_row; /* row without a control area: nothing is bound */
};

struct cpu_stream {
    struct vgc_op *head; /* runs, or will next */
    struct vgc_op *tail;
};

struct cpu_event {
    uint64_t recorded;      /* records submitted */
    struct vgc_op *pending; /* records not yet at the head of their stream, by engine_private */
};

/* Printed text of a context that was not taken yet. */
struct cpu_output {
    char *text; /* VGC_MAX_OUTPUT_BYTES, NULL before the first text */
    uint32_t len;
    uint64_t lost;
};

/* loader.c: a loaded ELF image. */
struct cpu_elf {
    const uint8_t *file; /* image; must stay while it is loaded */
    uint64_t file_size;
    uint8_t *base;
    size_t mapped;
    bool outside;         /* not a program of the VM: mapped outside of its arena */
    struct cpu_elf *next; /* image of another program; programs_lock */
};

/* The thread that interrupts PEs which work on profiled launches. */
struct cpu_sampler {
    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t work;
    pthread_t thread;
    bool is_started;
    bool closing;
    uint32_t sampled_pes;
};

/* Control code of a firmware slot. */
struct cpu_firmware {
    struct cpu_elf elf; /* file NULL: the built-in code */
    const struct vgc_ctl_modules *modules;
    uint64_t version;
};

struct cpu_engine {
    struct vgc_engine base;
    pthread_mutex_t lock; /* protects all fields below that are not atomic */
    pthread_cond_t work;
    uint32_t sleeping_pes;
    uint32_t waking_pes;   /* of these, woken but not yet awake */
    uint32_t spinning_pes; /* and not called */
    bool closing;
    uint8_t gap_before[CPU_CACHE_LINE]; /* what spinning PEs read shares no cache line with what they do not */
    atomic_uint calls;                  /* of spinning PEs that none of them has taken */
    atomic_uint call_round;             /* changes when all must look */
    uint8_t gap_behind[CPU_CACHE_LINE];
    struct cpu_launch *launches; /* launches that may have blocks left, oldest first */
    struct cpu_launch *free_launches;
    struct vgc_op *copies; /* for the data-plane thread, oldest first, linked by engine_private */
    atomic_bool has_copies;
    struct cpu_stream streams[VGC_MAX_CONTEXTS + 1][VGC_MAX_STREAMS];
    struct cpu_event events[VGC_MAX_EVENTS + 1];
    struct vgc_op *waiting; /* EVENT_WAITs at the head of their stream, linked by engine_private */
    struct cpu_output outputs[VGC_MAX_CONTEXTS + 1];
    bool has_guard_pages; /* an inaccessible page at each end of an allocation */
    struct cpu_granules granules;
    struct cpu_bounds bounds;
    struct cpu_bounds blocks; /* of malloc() in checked kernels; within the programs' images */
    struct cpu_quarantine quarantine;
    uint64_t region;    /* where the guest's region is, or 0 */
    struct cpu_pe *pes; /* array of num_pes */
    uint32_t started_pes;
    uint64_t launches_started;
    /* the control system */
    struct vgc_ctl_place place; /* valid if rows is not NULL */
    struct vgc_ctl_pe *rows;    /* of the control area; NULL: no area is attached */
    struct vgc_ctl_clock clock; /* measured when the area was attached */
    uint32_t kicks;
    uint32_t num_confined;
    uint32_t offered_pes; /* elements that may take work; 0: all */
    struct cpu_firmware slots[CPU_FIRMWARE_SLOTS];
    size_t frame_most; /* largest frame that a loaded program needs */
    struct cpu_sampler sampler;
    pthread_mutex_t programs_lock;
    struct vgc_cpu_program *programs; /* all loaded programs */
    struct cpu_elf *images;           /* theirs */
    struct cpu_builtins *builtins;    /* NULL: none were loaded */
};

static inline struct cpu_engine *cpu_engine_of(struct vgc_engine *engine)
{
    return (struct cpu_engine *)engine;
}

/* memory.c */
int cpu_alloc(struct vgc_engine *engine, uint64_t size, uint64_t *address);
int cpu_alloc_at(struct vgc_engine *engine, uint64_t address, uint64_t size);
int cpu_free(struct vgc_engine *engine, uint64_t address, uint64_t size);
/* Like cpu_map_guarded() with CPU_GUARD, in the VM's arena, for memory whose address guests know. At `at` if that is
 * not 0. */
uint8_t *cpu_map_device(struct cpu_engine *engine, uint64_t at, size_t size);
void cpu_unmap_device(struct cpu_engine *engine, uint8_t *base, size_t size);
/* Maps `size` bytes, page-aligned, readable and writable, between `guard` inaccessible bytes on either side, a multiple
 * of CPU_GUARD; NULL without memory. */
uint8_t *cpu_map_guarded(size_t size, size_t guard);
void cpu_unmap_guarded(uint8_t *base, size_t size, size_t guard);

/* granules.c: like cpu_alloc(), cpu_alloc_at() and cpu_free(), for at most an eighth of CPU_GRANULE. */
int cpu_granules_alloc(struct cpu_engine *engine, uint64_t size, uint64_t *address);
int cpu_granules_alloc_at(struct cpu_engine *engine, uint64_t address, uint64_t size);
void cpu_granules_free(struct cpu_engine *engine, uint64_t address, uint64_t size);
void cpu_granules_close(struct cpu_engine *engine);

/* bounds.c */
/* False: no memory to note it. `is_fresh`: nothing has written there. */
bool cpu_bounds_add(struct cpu_bounds *bounds, uint64_t first, uint64_t size, bool is_fresh);
void cpu_bounds_remove(struct cpu_bounds *bounds, uint64_t first);
void cpu_bounds_free(struct cpu_bounds *bounds);
/* Notes a block, if there is room. */
void cpu_bounds_add_block(struct cpu_bounds *bounds, const struct cpu_block *block);
enum cpu_block_state { CPU_BLOCK_UNKNOWN, CPU_BLOCK_IN_USE, CPU_BLOCK_FREED };
/* Notes that the block at `first` is freed at a place; returns what it was until now, and the block. */
enum cpu_block_state cpu_bounds_free_block(struct cpu_bounds *bounds, uint64_t first,
                                           const struct vgc_cpu_access *freed, struct cpu_block *block);
/* Finds the freed block that has the address; false: none has it. */
bool cpu_bounds_find_freed(struct cpu_bounds *bounds, uint64_t address, struct cpu_block *block);
/* Takes out the last block that begins behind the first byte of `within`; false: none does. */
bool cpu_bounds_take_block(struct cpu_bounds *bounds, const struct cpu_extent *within, struct cpu_block *block);
/* The extent that has the address; false: no extent has it. */
bool cpu_bounds_find(struct cpu_bounds *bounds, uint64_t address, struct cpu_extent *extent);
/* Bytes between an address and the extent; 0 in it. */
uint64_t cpu_distance(const struct cpu_extent *extent, uint64_t address);
bool cpu_bounds_nearest(struct cpu_bounds *bounds, uint64_t address, struct cpu_extent *extent);
/* More, or fewer, programs want to know what was written. */
void cpu_bounds_track(struct cpu_bounds *bounds, int programs);
void cpu_bounds_written(struct cpu_bounds *bounds, uint64_t address, uint64_t size);
/* A kernel runs that does not tell what it writes. */
void cpu_bounds_all_written(struct cpu_bounds *bounds);
bool cpu_bounds_is_written(struct cpu_bounds *bounds, uint64_t address, uint64_t size);

/* blocks.c */
/* The image with these blocks goes: forgets them and, if kernels were compiled with --leak-check, prints in the output
 * of the context which were not freed. */
void cpu_blocks_end(struct cpu_engine *engine, const struct cpu_extent *image, bool is_checked, uint32_t context);

/* report.c */
/* Frees what was found in a launch, and completes the launch's error. Lock held. */
void cpu_findings_end(struct cpu_launch *launch);

/* race.c: a checked block begins; its threads, or a warp's, have waited for each other. */
void cpu_race_block(struct cpu_pe *pe);
void cpu_race_barrier(struct cpu_pe *pe);
void cpu_race_warp(struct cpu_pe *pe, uint32_t warp, uint32_t members);

/* migration.c */
int64_t cpu_save(struct vgc_engine *engine, uint64_t address, uint64_t size, uint8_t *to);
int cpu_restore(struct vgc_engine *engine, uint64_t address, uint64_t size, const uint8_t *from);
int cpu_put_output(struct vgc_engine *engine, uint32_t context, const char *text, uint32_t size, uint64_t lost);

/* loader.c: loads elf->file into the VM's arena, at `at` if that is not 0, and sets the other fields. 0 or -1 with
 * `why`. */
int cpu_elf_load(struct cpu_engine *engine, struct cpu_elf *elf, uint64_t at, const struct vgc_cpu_image **image,
                 char *why);
/* Sets elf->mapped of an image that is not loaded, from its headers alone. 0 or -1 with `why`. */
int cpu_elf_measure(struct cpu_elf *elf, char *why);
/* Bytes of memory for the image: all its segments, zeroes included, and the file, in whole pages. */
uint64_t cpu_elf_bytes(const struct cpu_elf *elf);
void cpu_elf_unload(struct cpu_engine *engine, const struct cpu_elf *elf);
/* Finds the index-th part of an image that code may write to; false if there are fewer. */
bool cpu_elf_writable(const struct cpu_elf *elf, uint32_t index, uint64_t *address, uint64_t *size);
/* Relocates imports again, with this process's addresses, after writable parts came from another process. */
int cpu_elf_settle(const struct cpu_elf *elf, char *why);
/* The program's image that has the address. False: none has it, or (with `is_signal`) programs come or go just now. */
bool cpu_find_image(struct cpu_engine *engine, uint64_t address, bool is_signal, struct cpu_elf *elf);
/* Copies a name that comes from an image, without what could confuse a terminal. */
void cpu_copy_name(char *to, size_t size, const char *name);

/* pe.c */
int cpu_pes_start(struct cpu_engine *engine, char *why);
void cpu_pes_stop(struct cpu_engine *engine);
/* Sets the largest frame that loaded programs need; PEs that have larger ones give them back once they are idle. */
void cpu_pes_bound_frames(struct cpu_engine *engine, size_t most);

/* idle.c; lock held */
/* Calls PEs for `blocks` new blocks, the calling thread included, if it is a PE: it must look for work next. */
void cpu_call_pes(struct cpu_engine *engine, uint64_t blocks);
/* All PEs without work look again for something to do. */
void cpu_call_all(struct cpu_engine *engine);
void cpu_wake_one(struct cpu_engine *engine);
/* Waits for a call for a short while, with the lock released; false: it was in vain, and there may be work all the
 * same. */
bool cpu_spin_for_call(struct cpu_engine *engine);
/* Waits with the lock released, perhaps for no reason. */
void cpu_sleep_for_call(struct cpu_engine *engine);

/* streams.c */
int cpu_submit(struct vgc_engine *engine, struct vgc_op *op);
bool cpu_poll(struct vgc_engine *engine);
void cpu_cancel(struct vgc_engine *engine, uint32_t context);
/* A launch has ended; lock held. Gives the op back. */
void cpu_launch_finished(struct cpu_engine *engine, struct cpu_launch *launch);

/* position.c */
/* The PE that the calling thread is, or NULL. Async-signal-safe. */
struct cpu_pe *cpu_current_pe(void);
/* The calling thread is this PE from now on. */
void cpu_set_current_pe(struct cpu_pe *pe);
/* Position of the thread that runs on the PE, as far as it is known. */
void cpu_locate(const struct cpu_pe *pe, uint32_t block[3], uint32_t thread[3]);
/* Says where that thread is, in at most `size` bytes. */
void cpu_describe(const struct cpu_pe *pe, char *text, uint32_t size);
/* The warp of that thread, as far as it is known. */
uint32_t cpu_warp_of(const struct cpu_pe *pe);
/* How many of the blocks that run as one lie before that thread's. */
uint32_t cpu_blocks_before(const struct cpu_pe *pe);

/* schedule.c: runs a block; leaves through pe->leave_block on failure. */
void cpu_run_block(struct cpu_pe *pe, const struct cpu_launch *launch);
/* Runs the placed block and those that follow along x as one, of a kernel with VGC_CPU_KERNEL_STRIPS. */
void cpu_run_strip(struct cpu_pe *pe, const struct cpu_launch *launch, uint32_t blocks);
/* Runs a block from ctx->next on, the site of each thread (EXIT: it has ended), or from its begin. True: it has stopped
 * at a barrier of the grid; ctx->next is where. */
bool cpu_run_to_grid(struct cpu_pe *pe, const struct cpu_launch *launch, bool begun);
/* Runs a region, and notes it in the PE meanwhile. */
int32_t cpu_run_region(struct cpu_pe *pe, const struct vgc_cpu_site *site, uint32_t first, uint32_t last);

/* Where dynamic shared memory begins in a block's: behind the static, aligned for all types. */
static inline uint32_t cpu_dynamic_offset(const struct vgc_cpu_kernel_desc *kernel)
{
    return (kernel->shared_bytes + 15u) & ~15u;
}

/* resident.c: launches whose blocks wait for each other: all of them exist at once, each in its slot of the launch's
 * workspace. */
/* Bytes of a block's slot, a whole number of pages. */
size_t cpu_slot_bytes(const struct vgc_cpu_kernel_desc *kernel, uint32_t num_threads, uint32_t dynamic_shared_bytes);
/* Bytes of a launch's workspace; 0: its blocks do not wait for each other. */
uint64_t cpu_resident_bytes(const struct vgc_op *op);
/* Runs block `index` up to its next barrier of the grid, or to its end. */
void cpu_run_resident(struct cpu_pe *pe, struct cpu_launch *launch);
/* No PE runs the launch, and no block can go on. True: the blocks that wait go on from here. Lock held. */
bool cpu_next_phase(struct cpu_launch *launch);
/* Makes all of a workspace writable, which an earlier launch may have left with guards; false: without memory. */
bool cpu_enter_workspace(const struct vgc_op *op, uint64_t size);
/* True if workspaces may still have guards of earlier launches. */
bool cpu_guards_stay(void);
/* Prepares the workspace for other uses; sets op->workspace to 0 if it must not have any. */
void cpu_leave_workspace(const struct cpu_launch *launch);

/* grid.c */
/* Sets everything that follows from `what`; launches count blocks in batches for `num_pes` elements. */
void cpu_launch_set(struct cpu_launch *launch, const struct cpu_grid *what, uint32_t num_pes);
/* Lets a grid wait for the end of the one that the launch is; false: too many wait. */
bool cpu_add_tail(struct cpu_engine *engine, struct cpu_launch *launch, const struct cpu_grid *what);
/* All blocks have ended. True: the launch is now the next grid that waited for that. */
bool cpu_next_tail(struct cpu_launch *launch, uint32_t num_pes);
void cpu_drop_tails(struct cpu_launch *launch);
/* Makes the PE's context that of the launch; false: without memory. */
bool cpu_prepare(struct cpu_pe *pe, const struct cpu_launch *launch);
void cpu_place_block(struct cpu_pe *pe, const struct cpu_launch *launch, uint64_t index);
bool cpu_reserve_frame(struct cpu_pe *pe, size_t needed);
void cpu_drop_frame(struct cpu_pe *pe);
void cpu_drop_checks(struct cpu_checks **checks);

/* builtins.c */
/* Kernel of a built-in function; NULL: it cannot be called. */
void *cpu_find_builtin(struct vgc_engine *engine, const struct vgc_builtin *builtin);
/* Bytes of the workspace of such a launch. */
uint64_t cpu_builtin_bytes(struct cpu_engine *engine, const struct vgc_op *op);
/* True if such a launch has the workspace that it needs, all of which is writable. */
bool cpu_builtin_is_ready(struct cpu_engine *engine, const struct vgc_op *op);
/* The name of a built-in function that is at this address, or NULL. */
const char *cpu_builtin_name_at(const struct cpu_engine *engine, uint64_t address);
void cpu_builtins_free(struct cpu_engine *engine);

/* children.c: grids that kernels launch run on the PE that launches them, when the launching block's threads wait or
 * have ended, or behind the grid that launches them. */
/* Runs what waits for that. */
void cpu_run_children(struct cpu_pe *pe);
/* Leaves all grids that kernels have launched on the PE, and gives their memory back. */
void cpu_leave_children(struct cpu_pe *pe);
/* Most bytes that a PE takes for grids that kernels launch, whose frames have up to `frame_bytes`. */
uint64_t cpu_children_bytes(size_t frame_bytes);
struct cpu_dim {
    uint32_t x, y, z;
};
void __vgc_launch(struct cpu_dim grid, struct cpu_dim block, uint64_t shared_bytes, uint64_t stream, uint32_t kernel,
                  const void *params);
int __vgc_launch_wait(void);
int __vgc_launch_error(int clear);
uint32_t __vgc_num_pes(void);

/* heap.c: a heap is a variable of `heap_bytes` that begins with zeroes. */
/* NULL: no room. The block lies at a multiple of `align`, a power of two, and of 16. */
void *__vgc_heap_allocate(void *heap, uint64_t heap_bytes, uint64_t bytes, uint64_t align);
void __vgc_heap_release(void *heap, uint64_t heap_bytes, void *memory);

/* warp.c: computes the results of a warp operation at `site`. `members`: lanes of the warp that take part. */
void cpu_exchange(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t warp, uint32_t members);

/* device.c */
/* Ends the PE's launch with a status and a text (printf format), and leaves the block. */
__attribute__((noreturn, format(printf, 3, 4))) void cpu_fail_launch(struct cpu_pe *pe, enum vgc_status status,
                                                                     const char *format, ...);
/* Sets the launch's status and text, if it has none yet; true if it had none. The launch goes on. */
bool cpu_note_error(struct cpu_pe *pe, enum vgc_status status, const char *text);
/* Appends to the output of the running kernel's program; -1 if it does not fit. */
int cpu_print(struct cpu_pe *pe, const char *text, uint32_t length);
/* Appends a whole text to a context's output, or nothing: then -1. Lock held. */
int cpu_append_output(struct cpu_engine *engine, uint32_t context, const char *text, int len);
int __vgc_printf(const char *format, ...);
int __vgc_vprintf(const char *format, const void *packed);
uint32_t cpu_take_output(struct vgc_engine *engine, uint32_t context, char *to, uint32_t size, uint32_t *left,
                         uint64_t *lost);
__attribute__((noreturn)) void __vgc_assert_fail(const char *expression, const char *file, unsigned line,
                                                 const char *function);
__attribute__((noreturn)) void __vgc_trap(void);
uint64_t __vgc_globaltimer(void);
/* Shared memory of the block: what the launch has asked for, and with the kernel's own. */
uint32_t __vgc_dynamic_shared_bytes(void);
uint32_t __vgc_shared_bytes(void);
extern __thread struct vgc_cpu_ctx *vgc_cpu_current __attribute__((tls_model("initial-exec")));

/* mbarrier.c, for kernels */
uint64_t __vgc_mbarrier_arrive(uint64_t *barrier, uint32_t count, uint32_t dropped, int32_t bytes);

/* descriptor.c */
void cpu_put_texture(struct vgc_engine *engine, const struct vgc_texture_spec *spec, uint64_t address);

/* texture.c, for kernels. Ends the launch if `texture` is not the address of a texture's descriptor. */
struct vgc_channels __vgc_texture_sample(unsigned long long texture, const struct vgc_sample *sample);
/* Address for an access of `size` bytes outside of a surface; 0: the access has no effect. Ends the launch if it must
 * not happen. */
unsigned long long __vgc_surface_outside(unsigned long long surface, int x, int y, int z, unsigned size, int mode);

/* fault.c */
int cpu_faults_install(void);

/* profile.c */
/* The PE works on the launch from now on: begins to take samples if its program is profiled; ends that. */
void cpu_profile_begin(struct cpu_pe *pe, const struct cpu_launch *launch);
void cpu_profile_end(struct cpu_pe *pe, struct cpu_launch *launch);
/* Adds a launch's samples by line to its program's output. Lock held. */
void cpu_profile_print(struct cpu_engine *engine, struct cpu_launch *launch);
/* Ends the sampler's thread, before those that it interrupts. */
void cpu_sampler_stop(struct cpu_engine *engine);

/* clock.c: CLOCK_MONOTONIC */
uint64_t cpu_now_ns(void);

#endif
