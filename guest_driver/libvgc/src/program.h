/* Programs as program.c makes them and launch.c and call.c use them. */
#ifndef VGC_PROGRAM_H
#define VGC_PROGRAM_H

#include "internal.h"

struct vgc_function {
    struct vgc_program *program;
    const struct vgc_function_entry *entry;
    const struct vgc_param_entry *params;
    const char *name;
    const char *short_name;
};

struct vgc_program {
    struct vgc_owned owned; /* the first member */
    struct vgc_device *device;
    uint32_t epoch;
    uint32_t id;
    bool is_registered; /* for the VM: the handle is only a view of it */
    uint32_t num_functions;
    struct vgc_function *functions;
    struct vgc_program_table *table; /* the answer's payload; the next four point into it */
    const struct vgc_function_entry *entries;
    const struct vgc_param_entry *params;
    const struct vgc_global_entry *globals;
    const char *strings;
    char *log;
};

/* Makes a handle of a PROGRAM_LOAD's payload, which it takes over, whatever the result. */
int vgc_program_make(struct vgc_device *device, uint32_t id, bool is_registered, void *payload, uint64_t len,
                     struct vgc_program **program);

/* A copy of a text in an answer's strings, which take `size` bytes; NULL: it does not lie there, or there is no memory.
 */
char *vgc_text_of(const char *strings, uint32_t size, uint32_t offset, uint32_t len);
/* Unloads a program of this process's context, or unregisters one. */
int vgc_program_end(struct vgc_device *device, uint32_t id);

/* Largest block of parameters, or values of a call, that lies in a slot beside the rest of the request. */
enum { VGC_PARAMS_IN_SLOT = 4096 };

/* launch.c: checks a geometry against the limits of the wire and of the VM's share; `max_threads` as far as the
 * function is known. */
int vgc_check_geometry(const struct vgc_device *device, const struct vgc_geometry *geometry, uint32_t max_threads);

#endif
