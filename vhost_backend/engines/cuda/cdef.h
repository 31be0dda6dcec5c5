/* The CUDA engine's C interface to Python. */
#ifndef VGC_CUDA_CDEF_H
#define VGC_CUDA_CDEF_H

#include "vgc_engine.h"

/* Size of `why` in bytes: a text of what failed, with the CUDA error's name. It starts with "out of memory" if that is
 * the reason. */
enum { VGC_CUDA_WHY = 512 };

/* Detection of completed work: words that the GPU writes to pinned memory, or events. AUTO: words if they work. */
enum vgc_cuda_completion { VGC_CUDA_AUTO, VGC_CUDA_MEMORY, VGC_CUDA_EVENT };

/* Addresses of device memory: chosen by the driver (its memory pool), or by the engine (it maps memory at addresses of
 * its choice, so that another worker can have the same addresses). */
enum vgc_cuda_memory_kind { VGC_CUDA_POOL, VGC_CUDA_MAPPED };

struct vgc_cuda_setup {
    const char *driver;        /* argument of dlopen(): libcuda.so.1, which is loaded already */
    void *context;             /* CUcontext that the engine works in; outlives the engine */
    void *primary;             /* the device's primary CUcontext, for the control system; NULL: same as context */
    int32_t device;            /* CUdevice of that context */
    uint32_t num_pes;          /* SMs */
    uint32_t max_shared_bytes; /* per block, static and dynamic */
    uint64_t memory_bytes;     /* the VM's quota */
    uint32_t completion;       /* enum vgc_cuda_completion */
    uint32_t memory_kind;      /* enum vgc_cuda_memory_kind */
    int32_t output_fd;  /* file that is this process's stdout, for text that kernels print; -1: they cannot print */
    int32_t errors_fd;  /* file that is its stderr, for texts of failed assertions; 0: these are ignored */
    const char *cublas; /* arguments of dlopen(): NVIDIA's libraries; NULL: not used */
    const char *cufft;
    const char *cudnn;
    uint32_t libraries_required; /* not 0: without the first two there is no engine */
    uint64_t stuck_ns;           /* longest time of reading the GPU's timer while nothing else runs; 0: 10 s */
};

/* The gate, where VMs of one GPU take turns at launching: two pages that a worker shares with the daemon. Neither has
 * pointers or counts that the other side relies on. vhost_backend/worker_protocol/gate_pages.py has the same layout. */

/* Written by the daemon; the worker cannot map it writable. Times are of vgc_gate_account's ran_ns. */
struct vgc_gate_grant {
    uint64_t until_ns; /* launches may begin while less time than this is used; VGC_GATE_OPEN: always */
    uint64_t armed;    /* not 0, and another number than last time: ring when launches run again */
    uint64_t beat;     /* changes with every look of the daemon */
};
#define VGC_GATE_OPEN 0xffffffffffffffff

/* Written by the worker. CLOCK_MONOTONIC. */
struct vgc_gate_account {
    uint64_t ran_ns;   /* time in which launches ran, up to the last time that none did */
    uint64_t since_ns; /* time since which launches run without a break; 0: none runs */
    uint64_t held;     /* 1: a launch could run, and waits for the gate alone */
};

/* Makes an engine and finds the driver's functions, without accessing a GPU. NULL on failure, with the reason in `why`.
 */
struct vgc_engine *vgc_cuda_engine_new(const struct vgc_cuda_setup *setup, char *why);
/* Starts the engine: makes memory pool (or range) and marker page, and does a round trip through the GPU. Called once,
 * before the first operation. 0, or -1 with the reason in `why`. */
int vgc_cuda_engine_start(struct vgc_engine *engine, char *why);
/* Makes launches wait for their VM's turn. The pages outlive the engine. `bell`: eventfd that the daemon waits for;
 * stays the caller's. Called before the first operation. */
void vgc_cuda_engine_set_gate(struct vgc_engine *engine, const struct vgc_gate_grant *grant,
                              struct vgc_gate_account *account, int32_t bell);
/* Maps another grant in the place of the one that was set, at once for all threads; `fd` stays the caller's. 0, or a
 * negative errno: -ENOTSUP if there is no gate. */
int vgc_cuda_engine_renew_grant(struct vgc_engine *engine, int fd);
/* VGC_CUDA_MAPPED: makes addresses of device memory begin at `base`, as in the worker whose work is migrated to this
 * one. Called before the start, which fails if the addresses are taken. 0: the engine chooses them, in the VM's arena
 * if it has one. */
void vgc_cuda_engine_set_base(struct vgc_engine *engine, uint64_t base);
/* VGC_CUDA_MAPPED, once started: first address of device memory, and the size of the range in *size; else 0. */
uint64_t vgc_cuda_engine_base(const struct vgc_engine *engine, uint64_t *size);
/* Pauses: submits no more operations. True once none runs that loading or unloading would wait for. */
bool vgc_cuda_engine_pause(struct vgc_engine *engine);
void vgc_cuda_engine_resume(struct vgc_engine *engine);
/* Frees the engine, but not the context. No operation may be running, and programs must have been unloaded. */
void vgc_cuda_engine_close(struct vgc_engine *engine);
/* NVIDIA's libraries in use, once started: bits of enum vgc_cuda_library. */
enum vgc_cuda_library { VGC_CUDA_CUBLAS = 1, VGC_CUDA_CUFFT = 2, VGC_CUDA_CUDNN = 4 };
uint32_t vgc_cuda_engine_libraries(const struct vgc_engine *engine);
/* Detection in use, once started: VGC_CUDA_MEMORY or VGC_CUDA_EVENT. */
uint32_t vgc_cuda_engine_completion(const struct vgc_engine *engine);

/* A kernel, from the image's tables. All of it is copied. */
struct vgc_cuda_kernel_spec {
    const char *name;       /* mangled */
    const char *short_name; /* for texts */
    uint32_t param_bytes;
    uint32_t num_params;
    const struct vgc_param_entry *params;
    uint32_t prints; /* not 0: the kernel may print */
};

struct vgc_cuda_program;

/* Loads a cubin for the context with this number; NULL on failure, with the reason in `why`. Must be paused: the driver
 * may wait for running work, and a launch past its deadline could not be ended meanwhile. */
struct vgc_cuda_program *vgc_cuda_program_load(struct vgc_engine *engine, const void *image, uint64_t size,
                                               uint32_t context, const struct vgc_cuda_kernel_spec *kernels,
                                               uint32_t num_kernels, char *why);
/* Kernel of a program, with shared_bytes and max_threads from the driver. */
struct vgc_kernel *vgc_cuda_program_kernel(struct vgc_cuda_program *program, uint32_t index);
/* Charges `bytes` of the VM's quota to a program until it is unloaded, and bounds the memory of allocations by the
 * rest. Reserves stacks of its kernels for all threads that the GPU can have, until no program needs them any more.
 * Called before its first launch; must be paused. 0, or -1 with the reason in `why`: not enough memory. */
int vgc_cuda_program_provide(struct vgc_cuda_program *program, uint64_t bytes, char *why);
/* Most bytes of local memory per thread of a program's kernels. */
uint32_t vgc_cuda_program_local_bytes(struct vgc_cuda_program *program);
/* Finds address and size of a variable: 0, or -1 with the reason in `why`. */
int vgc_cuda_program_global(struct vgc_cuda_program *program, const char *name, uint64_t *address, uint64_t *size,
                            char *why);
/* Links a program to the control area, and keeps a copy of its constants for control_text. `control`: address of its
 * __vgc_control. `texts`: `bytes` that the program has at `address`, copied. Called before its first launch. 0, or -1
 * with the reason in `why`: the program runs, but the control system does not see it. */
int vgc_cuda_program_hook(struct vgc_cuda_program *program, uint64_t control, uint64_t address, const void *texts,
                          uint64_t bytes, char *why);
/* Name of a module with built-in functions that calls wait for, and that nobody was asked for yet; from now on somebody
 * is. NULL: no call waits for such a module. */
const char *vgc_cuda_engine_wanted(struct vgc_engine *engine);
/* Has calls use the kernels of a program, which was loaded from the module with this name and provided; must be paused.
 * 0, or -1 with the reason in `why`. */
int vgc_cuda_engine_use_module(struct vgc_engine *engine, const char *module, struct vgc_cuda_program *program,
                               char *why);
/* Fails calls that wait for a module with this status (enum vgc_status) and reason; later ones want it again. */
void vgc_cuda_engine_refuse_module(struct vgc_engine *engine, const char *module, uint32_t status, const char *why);
/* Unloads a program; none of its kernels may be running. Must be paused, like vgc_cuda_program_load. */
void vgc_cuda_program_unload(struct vgc_cuda_program *program);

#endif
