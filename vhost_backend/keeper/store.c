/* Entries that a daemon has left with the keeper: bytes, and perhaps a descriptor. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "keeper.h"

struct entry {
    char key[VGC_KEEP_MAX_KEY];
    size_t key_len;
    char *blob;
    size_t blob_len;
    int fd;
};

static struct entry *entries;
static size_t num_entries, room;

bool key_is_in(const char *key, size_t key_len, const char *of, size_t of_len)
{
    return key_len >= of_len && memcmp(key, of, of_len) == 0 && (key_len == of_len || key[of_len] == '/');
}

static struct entry *find(const char *key, size_t key_len)
{
    for (size_t i = 0; i < num_entries; i++)
        if (entries[i].key_len == key_len && memcmp(entries[i].key, key, key_len) == 0)
            return &entries[i];
    return NULL;
}

static void empty(struct entry *entry)
{
    free(entry->blob);
    if (entry->fd >= 0)
        keeper_close(entry->fd);
}

void store_put(const char *key, size_t key_len, const char *blob, size_t blob_len, int fd)
{
    struct entry *entry = find(key, key_len);
    if (entry != NULL) {
        empty(entry);
    } else {
        if (num_entries == room) {
            room = 2 * room + 16;
            entries = keeper_grown(entries, room * sizeof(*entries));
        }
        entry = &entries[num_entries++];
        memcpy(entry->key, key, key_len);
        entry->key_len = key_len;
    }
    entry->blob = keeper_grown(NULL, blob_len);
    memcpy(entry->blob, blob, blob_len);
    entry->blob_len = blob_len;
    entry->fd = fd;
}

void store_drop(const char *key, size_t key_len)
{
    for (size_t i = num_entries; i-- > 0;) {
        if (!key_is_in(entries[i].key, entries[i].key_len, key, key_len))
            continue;
        empty(&entries[i]);
        entries[i] = entries[--num_entries];
    }
}

bool store_send(int sock)
{
    for (size_t i = 0; i < num_entries; i++) {
        const struct entry *entry = &entries[i];
        struct vgc_keep_head head = {
            .type = VGC_KEEP_ENTRY, .key_len = (uint32_t)entry->key_len, .size = (uint32_t)entry->blob_len};
        if (!packet_send(sock, head, entry->key, entry->blob, &entry->fd, entry->fd >= 0))
            return false;
    }
    return true;
}
