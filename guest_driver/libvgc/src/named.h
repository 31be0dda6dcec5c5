/* Table of functions by name: what named.c and call_named.c share. */
#ifndef VGC_NAMED_H
#define VGC_NAMED_H

#include "choice.h"
#include "internal.h"

/* A function of this process. Kept until the table is freed: another thread may just be reading it. */
struct vgc_local {
    vgc_local_call function;
    void *user;
    struct vgc_local *next;
};

struct vgc_named {
    uint64_t hash;
    size_t len;
    _Atomic(struct vgc_local *) local; /* NULL: not registered now */
    _Atomic uint64_t rules;            /* number of the rules << 48, and which of them match the name */
    _Atomic uint64_t missing_until_ns; /* the host has no such function, or had none a while ago */
    _Atomic uint32_t missing_programs; /* programs that were loaded then */
    struct vgc_sizes sizes;
    char name[];
};

struct vgc_named_table;

/* The table of a device, or the one without; NULL: nothing was registered. */
struct vgc_named_table *vgc_named_table_of(const struct vgc_device *device);
/* The entry of a name that was registered, or has times from an earlier run; NULL: unknown. Takes no lock. */
struct vgc_named *vgc_named_find(const struct vgc_named_table *table, const char *name);
/* The side that rules name; VGC_RULE_AUTO: none. Takes no lock. */
enum vgc_rule_side vgc_named_rule(const struct vgc_named_table *table, struct vgc_named *named, uint64_t size,
                                  const char *type);
/* Was the table made by the process that this one was forked from? */
bool vgc_named_is_inherited(const struct vgc_named_table *table);
/* Until when the host is taken for silent, having left a call unanswered. */
_Atomic uint64_t *vgc_named_silence(struct vgc_named_table *table);

#endif
