/* CUDA's driver API, over the same devices, programs, streams and memory. Its functions are hidden here: libcuda.so.1
 * finds them in the runtime that the process has, by vgc_driver_function(). */
#ifndef VGC_CUDART_DRIVER_H
#define VGC_CUDART_DRIVER_H

#include "cuda.h"

#include "base.h"
#include "programs.h"
#include "rtc.h"

/* ---- contexts.c -------------------------------------------------------------------------------------------------- */

enum rt_owned_kind {
    RT_OWNED_MEMORY,
    RT_OWNED_HOST_MEMORY,
    RT_OWNED_MODULE,
    RT_OWNED_STREAM,
    RT_OWNED_EVENT,
    RT_OWNED_ARRAY,
    RT_OWNED_MIPMAP,
    RT_OWNED_TEXTURE, /* the handle is the object's number, as of the next */
    RT_OWNED_SURFACE
};

struct rt_owned {
    enum rt_owned_kind kind;
    void *handle;
};

/* A context is a set of what was made in it, which goes with it. All contexts of a device share its address space. */
struct CUctx_st {
    uint64_t magic;
    int ordinal;
    bool is_primary;
    unsigned flags;
    unsigned users;       /* of a primary context: retained so many times */
    atomic_uint attached; /* of others: cuCtxAttach() */
    uint64_t id;
    struct CUctx_st *next; /* this and what follows: owned.c */
    struct rt_owned *owned;
    size_t num_owned;
    size_t room;
};

/* The calling thread's context, and its device, ready for use; what must have gone before is checked. */
CUresult rt_enter_context(CUcontext *context, struct rt_device **device);
/* cudaSetDevice() makes the device's primary context current, in place of another. */
void rt_driver_follow(int ordinal);
/* The primary context of a device, whether it is used or not. */
CUcontext rt_primary_context(int ordinal);
/* Is it a context that lives? False for NULL. */
bool rt_is_context(CUcontext context);
/* CUDA_SUCCESS once cuInit() was called, or the runtime has opened a device. */
CUresult rt_check_driver(void);
CUresult rt_check_ordinal(const void *into, CUdevice device);

/* ---- owned.c ----------------------------------------------------------------------------------------------------- */

void rt_list_context(CUcontext context);
/* False: it is in no list, or a primary one, which stays. */
bool rt_unlist_context(CUcontext context);
/* Are there contexts on the device beside the primary one? */
bool rt_has_contexts(int ordinal);
/* Notes what was made in the context. False: no memory. */
bool rt_own(CUcontext context, enum rt_owned_kind kind, void *handle);
/* Takes the handle from the context that has noted it: it is gone. */
void rt_disown(enum rt_owned_kind kind, const void *handle);
/* The context that has noted it; NULL: none. */
CUcontext rt_owner(enum rt_owned_kind kind, const void *handle);
/* Frees all that the context has, the latest first, when the device has ended all work. Returns the first error. */
CUresult rt_free_owned(CUcontext context);

/* ---- results.c --------------------------------------------------------------------------------------------------- */

CUresult rt_result_of(cudaError_t error);

struct rt_visit {
    cudaError_t last;
    bool has_called;
};

struct rt_visit rt_visit_begin(void);
CUresult rt_visit_end(struct rt_visit visit, cudaError_t error);

/* Result of calls of the runtime's: its last error stays the program's own. */
#define RT_ASK(call)                                                                                                   \
    ({                                                                                                                 \
        const struct rt_visit visit_ = rt_visit_begin();                                                               \
        rt_visit_end(visit_, (call));                                                                                  \
    })
/* Likewise, for functions that do no more, and need no context. */
#define RT_OF_DRIVER(call)                                                                                             \
    ({                                                                                                                 \
        const CUresult ready_ = rt_check_driver();                                                                     \
        ready_ == CUDA_SUCCESS ? RT_ASK(call) : ready_;                                                                \
    })
/* Likewise, in the current context. */
#define RT_IN_CONTEXT(call)                                                                                            \
    ({                                                                                                                 \
        const CUresult entered_ = rt_enter_context(NULL, NULL);                                                        \
        entered_ == CUDA_SUCCESS ? RT_ASK(call) : entered_;                                                            \
    })

/* ---- images.c ---------------------------------------------------------------------------------------------------- */

struct rt_jit {       /* options of the compiler that was there: what has a meaning here */
    char options[64]; /* for the host's, each with a NUL */
    uint32_t num_options;
    char *logs[2]; /* of information, and of errors; NULL: not wanted */
    size_t log_bytes[2];
    void **log_sizes[2]; /* told how much was written */
};

CUresult rt_take_jit_options(unsigned count, const CUjit_option *options, void **values, struct rt_jit *jit);
void rt_write_jit_log(const struct rt_jit *jit, bool is_error, const char *text);
/* Kind and size of an image, by its first bytes: an enum vgc_source_kind; 0: of mynvcc; -1: nothing known. */
int rt_image_kind(const void **image, uint64_t *size);
/* Likewise, if it does not go further than `room` bytes, behind which there are RT_IMAGE_PADDING NULs; else -1. */
int rt_whole_image_kind(const void *image, uint64_t room);
enum { RT_IMAGE_PADDING = 128 }; /* more than a header has */

/* ---- modules.c --------------------------------------------------------------------------------------------------- */

/* A module or a library: an image, and what has been asked for of it. Its kernels, CUfunction or CUkernel, are struct
 * rt_function, which the runtime's functions take in place of a stub's address. */
struct CUmod_st {
    uint64_t magic;
    struct rt_unit unit;
    void *image; /* a copy, as are the options */
    char *options;
    pthread_mutex_t mutex; /* of the next two */
    struct rt_asked *kernels;
    struct rt_asked *variables;
};

/* Loads an image once on a device, for what the compiler says: to the logs of `jit`, and to `words` unless it is NULL.
 */
CUresult rt_try_image(struct rt_device *device, const void *image, const struct rt_jit *jit, struct rt_text *words);
/* A file's bytes, with NULs behind them; to be freed. CUDA_ERROR_INVALID_IMAGE: it is no image, or cut off. */
CUresult rt_read_image(const char *path, void **image, size_t *size);
CUresult rt_check_kernel(const void *kernel, struct rt_function **function);
/* Frees what a module is; its kernels are no kernels any more. */
CUresult rt_unload_module(CUmodule module);

/* ---- kernels.c --------------------------------------------------------------------------------------------------- */

/* Calls of a launch in parts: cuFuncSetBlockShape(), cuParamSet...(), cuLaunchGrid(). */
struct rt_parts {
    unsigned block[3];
    unsigned shared;
    unsigned size;
    unsigned char buffer[4096];
};

/* ---- launches.c -------------------------------------------------------------------------------------------------- */

/* The runtime's description of a launch, with the attributes of the driver API's. */
cudaLaunchConfig_t rt_launch_config(const CUlaunchConfig *given);

/* ---- arrays.c ---------------------------------------------------------------------------------------------------- */

/* Channels of a format, as the runtime describes them. */
CUresult rt_channels_of(CUarray_format format, unsigned count, struct cudaChannelFormatDesc *channels);
CUarray_format rt_format_number(const struct cudaChannelFormatDesc *channels, unsigned *count);

/* ---- boxes.c ----------------------------------------------------------------------------------------------------- */

/* The runtime's description of a copy of rows and slices. */
CUresult rt_box_of(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *box);
/* The driver API's description of it. */
CUresult rt_tell_box(const struct cudaMemcpy3DParms *box, CUDA_MEMCPY3D *copy);

/* ---- graph_nodes.c ----------------------------------------------------------------------------------------------- */

/* The runtime's parameters of nodes. */
CUresult rt_kernel_node(const CUDA_KERNEL_NODE_PARAMS *given, struct cudaKernelNodeParams *parameters);
CUDA_KERNEL_NODE_PARAMS rt_newer_kernel_node(const CUDA_KERNEL_NODE_PARAMS_v1 *old);
CUresult rt_fill_node(const CUDA_MEMSET_NODE_PARAMS *given, struct cudaMemsetParams *parameters);
CUresult rt_node_of(const CUgraphNodeParams *given, struct cudaGraphNodeParams *parameters);

/* ---- textures.c -------------------------------------------------------------------------------------------------- */

/* Likewise of what a texture is made of, and of how it is read. */
CUresult rt_resource_of(const CUDA_RESOURCE_DESC *given, struct cudaResourceDesc *resource);
CUresult rt_sampling_of(const CUDA_TEXTURE_DESC *given, struct cudaTextureDesc *sampling);

/* ---- references.c ------------------------------------------------------------------------------------------------ */

/* Before a launch: references of the kernel's unit are bound as was last said. */
CUresult rt_bind_references(const struct rt_unit *unit);
/* The module is about to go. */
void rt_forget_references(CUmodule module);

/* ---- names.c ----------------------------------------------------------------------------------------------------- */

/* All functions, and what else they are called; written by table.awk. */
extern const struct rt_named_function RT_DRIVER_NAMES[];
extern const size_t RT_NUM_DRIVER_NAMES;

/* CUDA's versions that brought the functions; written by versions.awk. */
struct rt_driver_version {
    const char *name;
    int since;
};
extern const struct rt_driver_version RT_DRIVER_VERSIONS[];
extern const size_t RT_NUM_DRIVER_VERSIONS;

/* The function of the driver API with that name; NULL: it has no such function. libcuda.so.1 asks for all of them. */
RT_API void *vgc_driver_function(const char *name);

#endif
