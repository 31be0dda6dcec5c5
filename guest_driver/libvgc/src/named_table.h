/* A table of functions by name, which named.c, named_rules.c, named_file.c and call_named.c share. */
#ifndef VGC_NAMED_TABLE_H
#define VGC_NAMED_TABLE_H

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

enum { VGC_NAMED_RULES = 48, VGC_NAMED_REMARK = 224, VGC_NAMED_MOST = 1 << 20 /* entries */ };
#define VGC_NAMED_HASH 0xcbf29ce484222325u /* of nothing */

struct vgc_named_slots { /* open addressing */
    struct vgc_named_slots *smaller;
    size_t room; /* a power of two */
    _Atomic(struct vgc_named *) at[];
};

struct vgc_named_rules {
    struct vgc_named_rules *earlier;
    uint64_t number; /* of 16 bits, never 0 */
    uint32_t count;
    struct vgc_rule rules[VGC_NAMED_RULES];
    char text[];
};

struct vgc_named_table {
    struct vgc_named_table *next;
    uint64_t owner;
    char remark[VGC_NAMED_REMARK];
    uint32_t process;                 /* that made it, as vgc_process() has it */
    _Atomic uint64_t silent_until_ns; /* until then the host is taken for silent, having left a call unanswered */
    pthread_mutex_t mutex;            /* of whoever changes it */
    size_t count;
    _Atomic(struct vgc_named_slots *) slots;
    _Atomic(struct vgc_named_rules *) rules;
    struct vgc_local *locals;
    bool has_file;
    struct vgc_times_file file;
};

/* The table of a device, or the one without; NULL: nothing was registered. */
struct vgc_named_table *vgc_named_table_of(const struct vgc_device *device);
/* The entry of a name that was registered, or has times from an earlier run; NULL: unknown. Takes no lock. */
struct vgc_named *vgc_named_find(const struct vgc_named_table *table, const char *name);
/* The side that rules name; VGC_RULE_AUTO: none. Takes no lock. */
enum vgc_rule_side vgc_named_rule(const struct vgc_named_table *table, struct vgc_named *named, uint64_t size,
                                  const char *type);
/* Was the table made by the process that this one was forked from? */
bool vgc_named_is_inherited(const struct vgc_named_table *table);

/* The hash (FNV-1a) of bytes that follow those of another hash. */
uint64_t vgc_named_hash(const void *bytes, size_t len, uint64_t hash);
/* An empty array of entries, or one with those of a smaller one, which it keeps. NULL: no room. */
struct vgc_named_slots *vgc_named_new_slots(size_t room, struct vgc_named_slots *smaller);
/* With the table's mutex: the entry of a name, which is made if it is new. NULL: no room. */
struct vgc_named *vgc_named_make(struct vgc_named_table *table, const char *name);
/* With the table's mutex: replaces the program's rules. NULL: it has none. */
int vgc_named_set_rules(struct vgc_named_table *table, const char *own);
/* Takes over the times of the table's file. */
void vgc_named_recall(struct vgc_named_table *table);
/* Writes the file, if there is one and something was measured. Reads entries alone, so other threads may go on. */
void vgc_named_keep(const struct vgc_named_table *table);
/* Frees the table and all in it; it need not be complete. */
void vgc_named_free(struct vgc_named_table *table);

#endif
