/* A table of functions by name: its entries, and its memory.
 *
 * Readers take no lock: entries and sets of rules stay where they are until the table is freed, and a larger array of
 * entries leaves the smaller one to those who are reading it. */
#include <stdlib.h>
#include <string.h>

#include "named_table.h"

uint64_t vgc_named_hash(const void *bytes, size_t len, uint64_t hash)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
    return hash;
}

/* The entry, or the empty slot where it would be. */
static _Atomic(struct vgc_named *) *slot_of(struct vgc_named_slots *slots, uint64_t hash, const char *name, size_t len)
{
    for (size_t i = hash & (slots->room - 1);; i = (i + 1) & (slots->room - 1)) {
        struct vgc_named *named = atomic_load_explicit(&slots->at[i], memory_order_acquire);
        if (named == NULL || (named->hash == hash && named->len == len && memcmp(named->name, name, len) == 0))
            return &slots->at[i];
    }
}

struct vgc_named *vgc_named_find(const struct vgc_named_table *table, const char *name)
{
    size_t len = strlen(name);
    struct vgc_named_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    return *slot_of(slots, vgc_named_hash(name, len, VGC_NAMED_HASH), name, len);
}

struct vgc_named_slots *vgc_named_new_slots(size_t room, struct vgc_named_slots *smaller)
{
    struct vgc_named_slots *slots = calloc(1, sizeof(*slots) + room * sizeof(slots->at[0]));
    if (slots == NULL)
        return NULL;
    slots->room = room;
    slots->smaller = smaller;
    for (size_t i = 0; smaller != NULL && i < smaller->room; i++) {
        struct vgc_named *named = smaller->at[i];
        if (named != NULL)
            *slot_of(slots, named->hash, named->name, named->len) = named;
    }
    return slots;
}

struct vgc_named *vgc_named_make(struct vgc_named_table *table, const char *name)
{
    size_t len = strlen(name);
    uint64_t hash = vgc_named_hash(name, len, VGC_NAMED_HASH);
    _Atomic(struct vgc_named *) *slot = slot_of(table->slots, hash, name, len);
    if (*slot != NULL || table->count >= VGC_NAMED_MOST)
        return *slot;
    struct vgc_named_slots *slots = table->slots;
    if (2 * (table->count + 1) > slots->room) {
        struct vgc_named_slots *larger = vgc_named_new_slots(4 * slots->room, slots);
        if (larger == NULL)
            return NULL;
        atomic_store_explicit(&table->slots, larger, memory_order_release);
        slot = slot_of(larger, hash, name, len);
    }
    struct vgc_named *named = calloc(1, sizeof(*named) + len + 1);
    if (named == NULL)
        return NULL;
    named->hash = hash;
    named->len = len;
    memcpy(named->name, name, len);
    atomic_store_explicit(slot, named, memory_order_release);
    table->count++;
    return named;
}

void vgc_named_free(struct vgc_named_table *table)
{
    struct vgc_named_slots *slots = table->slots;
    for (size_t i = 0; slots != NULL && i < slots->room; i++)
        if (slots->at[i] != NULL) {
            vgc_sizes_free(&slots->at[i]->sizes);
            free(slots->at[i]);
        }
    for (struct vgc_named_slots *smaller; slots != NULL; slots = smaller) {
        smaller = slots->smaller;
        free(slots);
    }
    for (struct vgc_named_rules *earlier, *set = table->rules; set != NULL; set = earlier) {
        earlier = set->earlier;
        free(set);
    }
    for (struct vgc_local *next, *local = table->locals; local != NULL; local = next) {
        next = local->next;
        free(local);
    }
    (void)pthread_mutex_destroy(&table->mutex);
    free(table);
}
