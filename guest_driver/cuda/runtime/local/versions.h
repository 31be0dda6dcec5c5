/* CPU versions of kernels: what the files of the room share. */
#ifndef VGC_CUDART_VERSIONS_H
#define VGC_CUDART_VERSIONS_H

#include <setjmp.h>

#include "libvgc/src/sides.h"
#include "runtime.h"
#include "vgc_local.h"

struct rt_shape {
    unsigned grid[3];
    unsigned block[3];
};

/* A grid on its way through the host's threads. */
struct rt_grid {
    const struct vgc_local_table *table;
    const struct vgc_local_kernel *kernel;
    struct rt_shape shape;
    void **arguments;
    _Atomic uint64_t next; /* block */
    _Atomic cudaError_t error;
    _Atomic(void *) fault; /* address that could not be had */
};

/* ---- block.c -------------------------------------------------------------------------- */

struct rt_stacks;
/* Runs blocks of the grid, in this thread, until none is left or one has failed. `stacks` are this thread's. */
void rt_local_run_blocks(struct rt_grid *grid, struct rt_stacks **stacks);
/* Is this thread running a kernel? */
bool rt_local_is_running(void);
/* Ends the kernel that this thread is running; does not return if it runs one. */
void rt_local_abandon(cudaError_t error, void *address);

/* ---- workers.c ------------------------------------------------------------------------ */

/* Runs a whole grid. */
cudaError_t rt_local_run_grid(struct rt_grid *grid);

/* ---- library.c ------------------------------------------------------------------------ */

struct rt_local {
    const struct vgc_local_table *table;
    const struct vgc_local_kernel *kernel;
};

const struct vgc_local_table *rt_local_table(struct rt_unit *unit);
/* The kernel's CPU version; false: it has none. */
bool rt_local_of(struct rt_function *function, struct rt_local *local);

/* ---- launch.c ------------------------------------------------------------------------- */

enum rt_side { RT_GPU = VGC_TIMED_GPU, RT_CPU = VGC_TIMED_CPU, RT_NUM_EITHER = VGC_TIMED_SIDES };
enum { RT_SIZE_CLASSES = 64 };

enum rt_rule { RT_FASTER, RT_ALWAYS_GPU, RT_ALWAYS_CPU };

/* Launches of one size class. */
struct rt_measured {
    struct vgc_times times;
    uint32_t launches; /* of this process */
};

/* A kernel that can run on either side. */
struct rt_either {
    struct rt_either *next;
    struct rt_function *function;
    _Atomic bool is_looked_up;
    struct rt_local local; /* its `kernel` is NULL: there is no CPU version */
    enum rt_rule rule;
    _Atomic uint32_t count[RT_NUM_EITHER]; /* launches */
    struct rt_measured measured[RT_SIZE_CLASSES];
};

/* ---- choice.c ------------------------------------------------------------------------- */

/* With the lock, once. */
void rt_local_introduce(struct rt_either *either);
/* *is_sample: the launch is to be measured. */
enum rt_side rt_local_choose(struct rt_either *either, const struct rt_shape *shape, bool *is_sample);
/* Notes the time that a launch has taken. */
void rt_local_note(struct rt_either *either, const struct rt_shape *shape, enum rt_side side, uint64_t ns);
uint64_t rt_now_ns(void);
/* Guard of what is known about kernels. */
void rt_local_lock(void);
void rt_local_unlock(void);
/* With the lock: the kernels that were introduced. */
struct rt_either *rt_local_known(void);

/* ---- state.c -------------------------------------------------------------------------- */

/* Takes over the times that earlier processes have measured. */
void rt_local_recall(struct rt_either *either);
void rt_local_at_exit(void);

/* ---- memory.c ------------------------------------------------------------------------- */

/* Around running a kernel: the variables that it uses are the library's. */
cudaError_t rt_local_begin(struct rt_device *device, const struct rt_either *either);
cudaError_t rt_local_end(struct rt_device *device, const struct rt_either *either, bool has_run);
/* Does the program have all variables that the kernel uses? */
bool rt_local_has_variables(const struct rt_function *function, const struct vgc_local_kernel *kernel);
/* Can this process have all memory of the device at its addresses? */
bool rt_local_can_reach(struct rt_device *device);
/* A touch of memory that only the device has. False: it is no such memory. */
bool rt_local_fault(void *address);

#endif
