/* Device addresses and sizes of this process's allocations: open addressing, linear probing. */
#include <stdlib.h>

#include "internal.h"

static size_t home(const struct vgc_ledger *ledger, uint64_t address)
{
    return (size_t)((address >> 8) * 0x9e3779b97f4a7c15ull >> 32) & (ledger->room - 1);
}

static void insert(struct vgc_ledger *ledger, struct vgc_ledger_entry entry)
{
    size_t at = home(ledger, entry.address);
    while (ledger->entries[at].address != 0)
        at = (at + 1) & (ledger->room - 1);
    ledger->entries[at] = entry;
}

static int grow(struct vgc_ledger *ledger)
{
    struct vgc_ledger old = *ledger;
    size_t room = old.room == 0 ? 64 : old.room * 2;
    struct vgc_ledger_entry *entries = calloc(room, sizeof(*entries));
    if (entries == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest for %zu allocation records", room);
    ledger->entries = entries;
    ledger->room = room;
    for (size_t i = 0; i < old.room; i++)
        if (old.entries[i].address != 0)
            insert(ledger, old.entries[i]);
    free(old.entries);
    return VGC_OK;
}

int vgc_ledger_add(struct vgc_ledger *ledger, uint64_t address, uint64_t size)
{
    pthread_mutex_lock(&ledger->mutex);
    int result = (ledger->count + 1) * 2 > ledger->room ? grow(ledger) : VGC_OK;
    if (result == VGC_OK) {
        insert(ledger, (struct vgc_ledger_entry){address, size});
        ledger->count++;
    }
    pthread_mutex_unlock(&ledger->mutex);
    return result;
}

/* Moves later entries of the same probe run back over the hole, so that no lookup stops early. */
static void close_hole(struct vgc_ledger *ledger, size_t hole)
{
    size_t mask = ledger->room - 1;
    for (size_t at = (hole + 1) & mask; ledger->entries[at].address != 0; at = (at + 1) & mask) {
        size_t wanted = home(ledger, ledger->entries[at].address);
        if (((at - wanted) & mask) < ((at - hole) & mask))
            continue;
        ledger->entries[hole] = ledger->entries[at];
        hole = at;
    }
    ledger->entries[hole].address = 0;
}

uint64_t vgc_ledger_remove(struct vgc_ledger *ledger, uint64_t address)
{
    uint64_t size = 0;
    pthread_mutex_lock(&ledger->mutex);
    if (ledger->room > 0 && address != 0) {
        size_t at = home(ledger, address);
        while (ledger->entries[at].address != 0 && ledger->entries[at].address != address)
            at = (at + 1) & (ledger->room - 1);
        if (ledger->entries[at].address == address) {
            size = ledger->entries[at].size;
            close_hole(ledger, at);
            ledger->count--;
        }
    }
    pthread_mutex_unlock(&ledger->mutex);
    return size;
}

void vgc_ledger_clear(struct vgc_ledger *ledger)
{
    pthread_mutex_lock(&ledger->mutex);
    free(ledger->entries);
    ledger->entries = NULL;
    ledger->room = ledger->count = 0;
    pthread_mutex_unlock(&ledger->mutex);
}
