/* Units, kernels and variables that objects register, and the device's programs made of them. */
#ifndef VGC_CUDART_PROGRAMS_H
#define VGC_CUDART_PROGRAMS_H

#include "base.h"
/* ---- registry.c: what the program's objects register before main() ----------------------------------------------- */

struct rt_alone;
struct rt_either;
struct vgc_local_table;

struct rt_unit { /* an object file's GPU part, or what a program loads as it runs (images.c) */
    struct rt_unit *next;
    const void *data; /* struct vgc_cuda_blob, NVIDIA's fat binary, or an image */
    bool is_image;    /* alone, and in no list of units */
    int kind;         /* enum vgc_source_kind of an image; 0: `data` says */
    uint64_t size;    /* of an image */
    const char *const *options;
    uint32_t num_options;
    const void *library; /* base of the executable or shared library that it lies in */
    struct rt_program *programs[RT_MAX_DEVICES];
    uint32_t num_kernels;   /* that were registered */
    struct rt_alone *alone; /* programs of one kernel each */
    bool is_of_program;     /* of the executable: it is never unloaded */
    bool has_local;         /* CPU versions of kernels */
    bool has_opened;
    uint64_t local_digest;
    const struct vgc_local_table *local; /* once opened; NULL: they cannot be used */
};

struct rt_function {
    const void *host; /* the stub's address */
    const char *name; /* the linker's */
    struct rt_unit *unit;
    _Atomic(struct vgc_function *) loaded[RT_MAX_DEVICES];
    bool is_shared;         /* it cannot be compiled alone */
    int max_dynamic_shared; /* of cudaFuncSetAttribute() */
    int carveout;
    struct rt_either *either; /* local/launch.c */
    struct rt_parts *parts;   /* driver/launches.c; NULL: none was set */
};

struct rt_variable {
    const void *host; /* the shadow's address */
    const char *name;
    struct rt_unit *unit;
    size_t size;
    bool is_constant;
    bool is_managed;
    bool is_texture;                  /* a texture reference */
    bool is_surface;                  /* a surface reference */
    bool reads_normalised;            /* a texture reference's integers are read as floats */
    uint64_t address[RT_MAX_DEVICES]; /* 0: not looked up yet */
};

/* Lets host code name the variable by a second address. With the registry's lock free. */
void rt_variable_alias(struct rt_variable *variable, const void *host);
/* NULL if nobody registered it. */
struct rt_function *rt_function(const void *host);
struct rt_variable *rt_variable(const void *host);
/* Registers a kernel of an image, for all that takes a stub's address: its own address is that. NULL: no memory. */
struct rt_function *rt_register_kernel(struct rt_unit *unit, const char *name);
/* Likewise a variable, whose size is not known yet. */
struct rt_variable *rt_register_variable(struct rt_unit *unit, const char *name);
/* Takes a kernel that was registered so out of use again, before anybody has got it. */
void rt_forget_kernel(struct rt_function *function);
/* Takes all kernels and variables of an image out of use; who holds one may still look at it. */
void rt_forget_unit(const struct rt_unit *unit);
/* Has the unit any variables? With the registry's lock. */
bool rt_has_variables(const struct rt_unit *unit);
/* A unit's variable by the linker's name; NULL: it has none. */
struct rt_variable *rt_variable_named(const struct rt_unit *unit, const char *name);

/* ---- progress.c -------------------------------------------------------------------------------------------------- */

struct rt_progress {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    double patience; /* seconds */
    bool is_watched;
    bool has_ended;
};

/* Until the end, says on stderr that the host still compiles, if somebody sits there. */
void rt_progress_begin(struct rt_progress *progress);
void rt_progress_end(struct rt_progress *progress);

/* ---- programs.c -------------------------------------------------------------------------------------------------- */

/* The function on a device; its program is loaded at first use. */
cudaError_t rt_load_function(struct rt_device *device, struct rt_function *function, struct vgc_function **loaded);
cudaError_t rt_load_variable(struct rt_device *device, struct rt_variable *variable, uint64_t *address);
/* The unit's program on a device, loaded if it is not yet; valid until the unit goes or the device is reset. */
cudaError_t rt_load_unit(struct rt_device *device, struct rt_unit *unit, struct vgc_program **loaded);
/* Loads a program with one kernel of the unit alone; as libvgc's functions do. With the registry's lock. */
int rt_load_kernel(struct rt_device *device, const struct rt_unit *unit, const char *name,
                   struct vgc_program **program);
/* Frees what a unit loaded on all devices. */
void rt_unload_unit(struct rt_unit *unit);
/* All units of a library whose blobs are relocatable, beginning with `first`; their number. With the registry's lock.
 */
struct rt_unit *rt_units(void);
void rt_registry_lock(void);
void rt_registry_unlock(void);

/* ---- alone.c ----------------------------------------------------------------------------------------------------- */

/* Finds a kernel in a program of its own, which is loaded at first use. False: it is to come from the whole unit. With
 * the registry's lock, as the next. */
bool rt_find_alone(struct rt_device *device, struct rt_function *function, struct vgc_function **loaded);
void rt_unload_alone(struct rt_unit *unit);

/* ---- functions.c ------------------------------------------------------------------------------------------------- */

/* Blocks that a multiprocessor's threads, registers and shared memory are enough for. */
uint32_t rt_resident_blocks(const struct rt_device *device, const struct vgc_function_info *info, uint32_t threads,
                            size_t dynamic);

#endif
