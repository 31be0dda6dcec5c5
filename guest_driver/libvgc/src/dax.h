/* NVDIMMs in devdax mode, as linux/dax.c finds and maps them; Windows knows none. */
#ifndef VGC_DAX_H
#define VGC_DAX_H

#include "internal.h"

enum {
    VGC_DAX_INFO_OFFSET = 4096, /* of the kernel's page, in the file */
    VGC_DAX_INFO_BYTES = 4096,
};

struct vgc_dax {
    char name[32];       /* "dax0.0" */
    uint64_t bytes;      /* that can be mapped */
    uint64_t gpa;        /* of the first of them; 0: only root sees it, or the next */
    uint64_t offset;     /* of the first of them in the file */
    uint64_t file_bytes; /* of the whole NVDIMM */
    uint8_t uuid[16];
    bool has_uuid;
};

/* All that this guest has, in no order. */
int vgc_dax_find(struct vgc_dax *found, size_t room, size_t *count);
/* VGC_NO_DEVICE: no devdax has that name. */
int vgc_dax_named(const char *name, struct vgc_dax *dax);
/* Is the devdax a part of this file? `file` is another mapping of its first two pages, which are only read. */
bool vgc_dax_is_file(const struct vgc_dax *dax, const uint8_t *file);
/* Maps all of it, to be unmapped with vgc_unmap(). */
int vgc_dax_map(const struct vgc_dax *dax, uint8_t **pointer);
#endif
