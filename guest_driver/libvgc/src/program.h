/* Programs as program.c makes them and launch.c uses them. */
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
    struct vgc_device *device;
    uint32_t epoch;
    uint32_t id;
    uint32_t num_functions;
    struct vgc_function *functions;
    struct vgc_program_table *table; /* the answer's payload; the next four point into it */
    const struct vgc_function_entry *entries;
    const struct vgc_param_entry *params;
    const struct vgc_global_entry *globals;
    const char *strings;
    char *log;
};

/* launch.c: checks a geometry against the limits of the wire and of the VM's share; `max_threads` as far as the
 * function is known. */
int vgc_check_geometry(const struct vgc_device *device, const struct vgc_geometry *geometry, uint32_t max_threads);

#endif
