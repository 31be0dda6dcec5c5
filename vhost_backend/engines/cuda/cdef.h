/* The CUDA engine's C interface to Python. */
#ifndef VGC_CUDA_CDEF_H
#define VGC_CUDA_CDEF_H

#include "vgc_engine.h"

/* Wherever a function takes `why`: that many bytes, for a sentence that says what failed and has the CUDA error's
 * name. It starts with "out of memory" if that was it. */
enum { VGC_CUDA_WHY = 512 };

/* How the end of work is seen: words that the GPU writes to pinned memory, or events. AUTO: words if they work. */
enum vgc_cuda_completion { VGC_CUDA_AUTO, VGC_CUDA_MEMORY, VGC_CUDA_EVENT };

struct vgc_cuda_setup {
    const char *driver;        /* what dlopen() takes: libcuda.so.1, which is loaded already */
    void *context;             /* CUcontext that the engine works in; outlives the engine */
    void *primary;             /* the device's primary CUcontext, for the control system; NULL: context is it */
    int32_t device;            /* CUdevice of that context */
    uint32_t num_pes;          /* SMs */
    uint32_t max_shared_bytes; /* per block, static and dynamic */
    uint64_t memory_bytes;     /* the VM's quota */
    uint32_t completion;       /* enum vgc_cuda_completion */
    int32_t output_fd;         /* the file that is this process's stdout, for what kernels print; -1: they cannot */
    int32_t errors_fd;         /* ditto stderr, for what a failed assertion says; 0: nobody hears it */
};

/* Finds the driver's functions; touches no GPU. NULL on failure, with the reason in `why`. */
struct vgc_engine *vgc_cuda_engine_new(const struct vgc_cuda_setup *setup, char *why);
/* Makes memory pool and marker page and does a round trip through the GPU; once, before the first operation.
 * 0, or -1 with the reason in `why`. */
int vgc_cuda_engine_start(struct vgc_engine *engine, char *why);
/* Starts nothing more; true once nothing runs that loading or unloading would make the caller wait for. */
bool vgc_cuda_engine_pause(struct vgc_engine *engine);
void vgc_cuda_engine_resume(struct vgc_engine *engine);
/* Frees the engine. Nothing may be running, programs must have been unloaded; the context stays. */
void vgc_cuda_engine_close(struct vgc_engine *engine);
/* VGC_CUDA_MEMORY or VGC_CUDA_EVENT, once started. */
uint32_t vgc_cuda_engine_completion(const struct vgc_engine *engine);

/* What the image's tables say about a kernel. All of it is copied. */
struct vgc_cuda_kernel_spec {
    const char *name;       /* the linker's */
    const char *short_name; /* for messages */
    uint32_t param_bytes;
    uint32_t num_params;
    const struct vgc_param_entry *params;
    uint32_t prints; /* not 0: it may print */
};

struct vgc_cuda_program;

/* Loads a cubin for the context of that number; NULL on failure, with the reason in `why`. The driver may wait for
 * what runs, and while it does nobody could end a launch that is past its deadline: pause first. */
struct vgc_cuda_program *vgc_cuda_program_load(struct vgc_engine *engine, const void *image, uint64_t size,
                                               uint32_t context, const struct vgc_cuda_kernel_spec *kernels,
                                               uint32_t num_kernels, char *why);
/* Its shared_bytes and max_threads are as the driver has loaded it. */
struct vgc_kernel *vgc_cuda_program_kernel(struct vgc_cuda_program *program, uint32_t index);
/* Bytes of local memory per thread, of the kernel that takes most. */
uint32_t vgc_cuda_program_local_bytes(struct vgc_cuda_program *program);
/* Where a variable is: 0, or -1 with the reason in `why`. */
int vgc_cuda_program_global(struct vgc_cuda_program *program, const char *name, uint64_t *address, uint64_t *size,
                            char *why);
/* Tells the program where the control area is, and keeps a copy of its constants for control_text.
 * `control`: address of its __vgc_control. `texts`: `bytes` that the program has at `address`, copied. 0, or -1 with
 * the reason in `why`: the program runs, and nobody hears of it. Before its first launch. */
int vgc_cuda_program_hook(struct vgc_cuda_program *program, uint64_t control, uint64_t address, const void *texts,
                          uint64_t bytes, char *why);
/* None of its kernels may be running. Pause first, as for vgc_cuda_program_load. */
void vgc_cuda_program_unload(struct vgc_cuda_program *program);

#endif
