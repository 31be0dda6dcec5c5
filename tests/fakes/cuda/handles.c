/* Handles: numbers that are never reused, so that stale handles are detected. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const uintptr_t BASE = 0x5fac00000000;
enum { STEP = 64 };

struct record {
    enum fake_kind kind;
    void *object; /* NULL after its end */
};

static struct record *records;
static size_t num_records, room;

static const char *const kinds[] = {
    "nothing",       "a context",  "a green context",       "a stream", "an event",          "a module", "a function",
    "a memory pool", "a resource", "a physical allocation", "an array", "a mipmapped array",
};

void *fake_handle_new(enum fake_kind kind, void *object)
{
    if (num_records == room) {
        room = room ? 2 * room : 256;
        records = realloc(records, room * sizeof *records);
        if (!records)
            abort();
    }
    records[num_records] = (struct record){kind, object};
    return (void *)(BASE + STEP * num_records++); // NOLINT(performance-no-int-to-ptr)
}

static struct record *record_of(const void *handle)
{
    uintptr_t at = (uintptr_t)handle - BASE;
    return (uintptr_t)handle >= BASE && at % STEP == 0 && at / STEP < num_records ? &records[at / STEP] : NULL;
}

void *fake_handle_get(const void *handle, enum fake_kind kind)
{
    struct record *record = record_of(handle);
    if (!record)
        fake_misuse("%p was never a handle; %s was expected", handle, kinds[kind]);
    else if (record->kind != kind)
        fake_misuse("%p is %s; %s was expected", handle, kinds[record->kind], kinds[kind]);
    else if (!record->object)
        fake_misuse("%p is %s that was destroyed", handle, kinds[kind]);
    else
        return record->object;
    return NULL;
}

void *fake_handle_peek(const void *handle, enum fake_kind kind)
{
    const struct record *record = record_of(handle);
    return record && record->kind == kind ? record->object : NULL;
}

void fake_handle_end(const void *handle)
{
    struct record *record = record_of(handle);
    if (record)
        record->object = NULL;
}

void fake_handle_replace(const void *handle, void *object)
{
    record_of(handle)->object = object;
}

size_t fake_handle_count(enum fake_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < num_records; i++)
        count += records[i].kind == kind && records[i].object;
    return count;
}

void fake_handle_each(enum fake_kind kind, void (*visit)(void *object, void *data), void *data)
{
    for (size_t i = 0; i < num_records; i++)
        if (records[i].kind == kind && records[i].object)
            visit(records[i].object, data);
}
