/* Migration of a VM's work to another worker: holding, objects, contents of device memory, printed text. */
#define _GNU_SOURCE
#include "internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(((struct vgc_migration_state *)0)->contexts) / sizeof(struct vgc_migration_context) ==
                   VGC_MAX_CONTEXTS,
               "vgc_migration_state.contexts");
_Static_assert(sizeof(((struct vgc_migration_state *)0)->events) / sizeof(struct vgc_migration_event) == VGC_MAX_EVENTS,
               "vgc_migration_state.events");
_Static_assert(sizeof(((struct vgc_migration_state *)0)->arrays) / sizeof(struct vgc_migration_array) == VGC_MAX_ARRAYS,
               "vgc_migration_state.arrays");
_Static_assert(sizeof(((struct vgc_migration_state *)0)->graphs) / sizeof(struct vgc_migration_graph) == VGC_MAX_GRAPHS,
               "vgc_migration_state.graphs");
_Static_assert(sizeof(((struct vgc_migration_array *)0)->shape) == sizeof(struct vgc_body_array_create),
               "vgc_migration_array.shape");
_Static_assert(sizeof(((struct vgc_migration_state *)0)->shares) / sizeof(struct vgc_migration_share) == VGC_MAX_SHARES,
               "vgc_migration_state.shares");
_Static_assert(sizeof(((struct vgc_migration_share *)0)->users) == sizeof(((struct vgc_share *)0)->users),
               "vgc_migration_share.users");
_Static_assert((int)VGC_MIGRATION_PROGRAMS == (int)VGC_MAX_PROGRAMS, "vgc_migration_state.program_serials");

enum { PAGE = 4096, MAX_SERIAL = 0x7fff, POPULATED = 64 << 10, LONGEST_RUN = 1 << 20 };

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- holding ------------------------------------------------------------------------------------------------ */

static void set_holding(struct vgc_dp *dp, bool holding)
{
    vgc_dp_lock(dp);
    dp->holding = holding;
    vgc_queues_rebuild_active(dp);
    if (dp->in_flight == 0)
        vgc_notify(dp);
    vgc_dp_unlock(dp);
}

void vgc_dp_hold(struct vgc_dp *dp)
{
    set_holding(dp, true);
}

void vgc_dp_release(struct vgc_dp *dp)
{
    set_holding(dp, false);
}

uint32_t vgc_dp_in_flight(struct vgc_dp *dp)
{
    vgc_dp_lock(dp);
    uint32_t in_flight = dp->in_flight;
    vgc_dp_unlock(dp);
    return in_flight;
}

/* ---- saving objects ----------------------------------------------------------------------------------------- */

static bool can_migrate(const struct vgc_dp *dp)
{
    const struct vgc_engine_ops *ops = dp->engine->ops;
    bool prints = ops->take_output != NULL;
    return ops->alloc_at != NULL && ops->save != NULL && ops->restore != NULL && (!prints || ops->put_output != NULL);
}

static bool is_own(const struct vgc_alloc *alloc)
{
    return alloc->program_index == UINT32_MAX;
}

uint32_t vgc_dp_num_allocs(struct vgc_dp *dp)
{
    vgc_dp_lock(dp);
    uint32_t count = dp->num_user_allocs;
    vgc_dp_unlock(dp);
    return count;
}

static void save_arrays(const struct vgc_dp *dp, struct vgc_migration_state *state)
{
    for (uint32_t i = 0; i < VGC_MAX_ARRAYS; i++) {
        const struct vgc_array *array = &dp->arrays[i];
        state->arrays[i] = (struct vgc_migration_array){
            .id = array->id, .serial = array->serial, .context = array->context, .address = array->address};
        memcpy(state->arrays[i].shape, &array->shape, sizeof(array->shape));
    }
}

static void save_objects(const struct vgc_dp *dp, struct vgc_migration_state *state, struct vgc_migration_alloc *allocs)
{
    *state = (struct vgc_migration_state){.magic = VGC_MIGRATION_MAGIC,
                                          .version = VGC_MIGRATION_VERSION,
                                          .fingerprint = VGC_WIRE_FINGERPRINT,
                                          .requests_done = dp->requests_done,
                                          .requests_failed = dp->requests_failed,
                                          .busy_ns = dp->busy_ns,
                                          .function_serial = dp->function_serial};
    for (uint32_t i = 0; i < VGC_MAX_CONTEXTS; i++)
        state->contexts[i] = (struct vgc_migration_context){dp->contexts[i].id, dp->contexts[i].serial};
    vgc_events_save(dp, state->events);
    vgc_shares_save(dp, state->shares);
    save_arrays(dp, state);
    vgc_graphs_save(dp, state->graphs);
    for (uint32_t i = 0; i < VGC_MAX_PROGRAMS; i++)
        state->program_serials[i] = dp->programs[i].serial;
    for (uint32_t i = 0; i < dp->num_allocs; i++)
        if (is_own(&dp->allocs[i]))
            allocs[state->num_allocs++] = (struct vgc_migration_alloc){dp->allocs[i].address, dp->allocs[i].size,
                                                                       dp->allocs[i].context, dp->allocs[i].use};
}

int vgc_dp_save(struct vgc_dp *dp, struct vgc_migration_state *state, struct vgc_migration_alloc *allocs, uint32_t room,
                char *why)
{
    int error = 0;
    vgc_dp_lock(dp);
    if (!can_migrate(dp))
        error = vgc_why(why, -ENOTSUP, "work of the engine %s cannot be migrated", dp->engine->ops->name);
    else if (!dp->holding || dp->in_flight != 0)
        error = vgc_why(why, -EBUSY, "%u requests are in flight", dp->in_flight);
    else if (dp->num_user_allocs > room)
        error = vgc_why(why, -ENOSPC, "%u allocations, room for %u", dp->num_user_allocs, room);
    if (error == 0) {
        vgc_temp_drop_all(dp);
        save_objects(dp, state, allocs);
    }
    vgc_dp_unlock(dp);
    return error;
}

/* ---- loading objects, which the source may have forged ------------------------------------------------------------
 */

static int load_contexts(struct vgc_dp *dp, const struct vgc_migration_state *state, char *why)
{
    for (uint32_t i = 0; i < VGC_MAX_CONTEXTS; i++) {
        const struct vgc_migration_context *from = &state->contexts[i];
        if (!vgc_is_id(from->id, from->serial, i) || (from->id != 0 && dp->num_contexts >= dp->config.max_contexts))
            return vgc_why(why, -EINVAL, "context %u at place %u; allowed: %u contexts, ids that belong there",
                           from->id, i, dp->config.max_contexts);
        dp->contexts[i] = (struct vgc_context){.id = from->id, .serial = from->serial};
        dp->num_contexts += from->id != 0;
    }
    return 0;
}

static int load_alloc(struct vgc_dp *dp, const struct vgc_migration_alloc *from, char *why)
{
    uint64_t charge = vgc_charge_of(dp, from->size);
    unsigned long address = (unsigned long)from->address, size = (unsigned long)from->size;
    if (from->size == 0 || from->address == 0 || (from->context != 0 && !vgc_context_exists(dp, from->context)) ||
        from->use > VGC_ALLOC_OBJECT)
        return vgc_why(why, -EINVAL, "an allocation of %lu bytes at %#lx of context number %u", size, address,
                       from->context);
    if (charge > vgc_memory_left(dp))
        return vgc_why(why, -EDQUOT, "an allocation of %lu bytes, %lu of %lu bytes free", size,
                       (unsigned long)vgc_memory_left(dp), (unsigned long)dp->config.memory_bytes);
    if (dp->num_allocs == VGC_MAX_ALLOCATIONS || vgc_alloc_at(dp, from->address) != NULL)
        return vgc_why(why, -EEXIST, "two allocations at %#lx, or too many", address);
    int error = dp->engine->ops->alloc_at(dp->engine, from->address, from->size);
    if (error != 0)
        return vgc_why(why, error, "%lu bytes cannot be had at %#lx: %s", size, address, strerror(-error));
    dp->memory_used += charge;
    vgc_count_memory(dp);
    return vgc_alloc_insert(dp, (struct vgc_alloc){.address = from->address,
                                                   .size = from->size,
                                                   .charged = charge,
                                                   .context = from->context,
                                                   .program_index = UINT32_MAX,
                                                   .use = (uint8_t)from->use});
}

/* True if an array before `index` lies at the address. */
static bool is_taken(const struct vgc_dp *dp, uint64_t address, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (dp->arrays[i].id != 0 && dp->arrays[i].address == address)
            return true;
    return false;
}

static int load_array(struct vgc_dp *dp, const struct vgc_migration_array *from, uint32_t index, char *why)
{
    struct vgc_array *array = &dp->arrays[index];
    char fault[VGC_DP_WHY] = "";
    *array =
        (struct vgc_array){.id = from->id, .serial = from->serial, .context = from->context, .address = from->address};
    if (from->id == 0 && vgc_is_id(0, from->serial, index))
        return 0;
    memcpy(&array->shape, from->shape, sizeof(array->shape));
    const struct vgc_alloc *alloc = vgc_alloc_at(dp, from->address);
    uint64_t bytes = vgc_array_bytes(&array->shape, fault);
    if (!vgc_is_id(from->id, from->serial, index) || bytes == 0 || alloc == NULL || alloc->use != VGC_ALLOC_ARRAY ||
        alloc->context != from->context || alloc->size != bytes || is_taken(dp, from->address, index))
        return vgc_why(why, -EINVAL, "array %u of context number %u at place %u %s", from->id, from->context, index,
                       fault);
    return 0;
}

static int load_objects(struct vgc_dp *dp, const struct vgc_migration_state *state,
                        const struct vgc_migration_alloc *allocs, char *why)
{
    if (state->magic != VGC_MIGRATION_MAGIC || state->version != VGC_MIGRATION_VERSION ||
        state->fingerprint != VGC_WIRE_FINGERPRINT)
        return vgc_why(why, -EINVAL, "the migrated state is not of version %d", VGC_MIGRATION_VERSION);
    int error = load_contexts(dp, state, why);
    if (error == 0)
        error = vgc_events_load(dp, state->events, why);
    for (uint32_t i = 0; i < state->num_allocs && error == 0; i++)
        error = load_alloc(dp, &allocs[i], why);
    for (uint32_t i = 0; i < VGC_MAX_ARRAYS && error == 0; i++)
        error = load_array(dp, &state->arrays[i], i, why);
    if (error == 0)
        error = vgc_shares_load(dp, state->shares, why);
    for (uint32_t i = 0; i < VGC_MAX_GRAPHS; i++)
        dp->graphs[i].serial = state->graphs[i].serial & MAX_SERIAL;
    for (uint32_t i = 0; i < VGC_MAX_PROGRAMS; i++)
        dp->programs[i].serial = state->program_serials[i] & MAX_SERIAL;
    dp->function_serial = state->function_serial & MAX_SERIAL;
    dp->requests_done = state->requests_done;
    dp->requests_failed = state->requests_failed;
    dp->busy_ns = state->busy_ns;
    return error;
}

int vgc_dp_load(struct vgc_dp *dp, const struct vgc_migration_state *state, const struct vgc_migration_alloc *allocs,
                char *why)
{
    int error = 0;
    vgc_dp_lock(dp);
    if (!can_migrate(dp))
        error = vgc_why(why, -ENOTSUP, "work cannot be migrated to the engine %s", dp->engine->ops->name);
    else if (dp->num_contexts != 0 || dp->num_allocs != 0 || dp->num_programs != 0 || dp->requests_done != 0)
        error = vgc_why(why, -EBUSY, "this worker has served requests already");
    else
        error = load_objects(dp, state, allocs, why);
    vgc_dp_unlock(dp);
    return error;
}

/* ---- the transfer ------------------------------------------------------------------------------------------- */

struct vgc_transfer {
    int fd;
    uint8_t *base;
    uint64_t size;
};

struct vgc_transfer *vgc_transfer_open(int fd, uint64_t size, bool writable, char *why)
{
    struct stat file;
    struct vgc_transfer *transfer = NULL;
    if (size == 0 || fstat(fd, &file) != 0 || (uint64_t)file.st_size < size) {
        vgc_why(why, -EINVAL, "the transfer is not a file of %lu bytes", (unsigned long)size);
        return NULL;
    }
    void *base = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (base != MAP_FAILED)
        transfer = calloc(1, sizeof(*transfer));
    if (transfer == NULL) {
        vgc_why(why, -ENOMEM, "cannot map a transfer of %lu bytes: %s", (unsigned long)size, strerror(errno));
        if (base != MAP_FAILED)
            munmap(base, size);
        return NULL;
    }
    *transfer = (struct vgc_transfer){fd, base, size};
    return transfer;
}

void vgc_transfer_close(struct vgc_transfer *transfer)
{
    munmap(transfer->base, transfer->size);
    free(transfer);
}

static bool holds(const struct vgc_transfer *transfer, uint64_t offset, uint64_t size)
{
    return offset <= transfer->size && size <= transfer->size - offset;
}

int vgc_transfer_read(const struct vgc_transfer *transfer, uint64_t offset, void *to, uint64_t size)
{
    if (!holds(transfer, offset, size))
        return -ERANGE;
    memcpy(to, transfer->base + offset, size);
    atomic_signal_fence(memory_order_seq_cst); /* the source may still be writing: only the copy is used */
    return 0;
}

int vgc_transfer_write(struct vgc_transfer *transfer, uint64_t offset, const void *from, uint64_t size)
{
    if (!holds(transfer, offset, size))
        return -ERANGE;
    memcpy(transfer->base + offset, from, size);
    return 0;
}

/* ---- contents ----------------------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *bytes, uint64_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Number of bytes of [from, from + size) up to the next page border. */
static uint64_t to_border(const uint8_t *from, uint64_t size)
{
    uint64_t part = PAGE - ((uintptr_t)from & (PAGE - 1));
    return part < size ? part : size;
}

/* Copies a run of bytes. Populating its pages at once is faster than a fault for each; older kernels cannot do that. */
static void copy_run(uint8_t *to, const uint8_t *from, uint64_t size)
{
    uintptr_t first = (uintptr_t)to & ~(uintptr_t)(PAGE - 1);
    if (size >= POPULATED)
        (void)madvise((void *)first, (uintptr_t)to + size - first, MADV_POPULATE_WRITE);
    memcpy(to, from, size);
}

uint64_t vgc_copy_without_zeroes(uint8_t *to, const uint8_t *from, uint64_t size)
{
    uint64_t copied = 0, at = 0;
    while (at < size) {
        uint64_t run = 0;
        while (at + run < size && run < LONGEST_RUN &&
               !is_zero(from + at + run, to_border(from + at + run, size - at - run)))
            run += to_border(from + at + run, size - at - run);
        if (run != 0)
            copy_run(to + at, from + at, run);
        copied += run;
        at += run != 0 ? run : to_border(from + at, size - at);
    }
    return copied;
}

int64_t vgc_dp_save_contents(struct vgc_dp *dp, struct vgc_transfer *transfer, uint64_t offset, uint64_t address,
                             uint64_t size)
{
    if (!holds(transfer, offset, size))
        return -ERANGE;
    vgc_dp_lock(dp);
    int64_t copied =
        can_migrate(dp) ? dp->engine->ops->save(dp->engine, address, size, transfer->base + offset) : -ENOTSUP;
    vgc_dp_unlock(dp);
    return copied;
}

/* Finds the next bytes of [*from, end) that are not a hole; false at the end. */
static bool next_data(const struct vgc_transfer *transfer, uint64_t *from, uint64_t end, uint64_t *until)
{
    off_t data = lseek(transfer->fd, (off_t)*from, SEEK_DATA);
    if (data < 0 || (uint64_t)data >= end)
        return false;
    off_t hole = lseek(transfer->fd, data, SEEK_HOLE);
    *from = (uint64_t)data;
    *until = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
    return true;
}

static int load_data(struct vgc_dp *dp, const struct vgc_transfer *transfer, uint64_t offset, uint64_t address,
                     uint64_t size)
{
    uint64_t from = offset, until = 0;
    int error = 0;
    for (; error == 0 && from < offset + size && next_data(transfer, &from, offset + size, &until); from = until)
        error = dp->engine->ops->restore(dp->engine, address + (from - offset), until - from, transfer->base + from);
    return error;
}

int vgc_dp_load_contents(struct vgc_dp *dp, const struct vgc_transfer *transfer, uint64_t offset, uint64_t address,
                         uint64_t size, bool fresh)
{
    int error;
    if (!holds(transfer, offset, size))
        return -ERANGE;
    vgc_dp_lock(dp);
    if (!can_migrate(dp))
        error = -ENOTSUP;
    else if (fresh)
        error = load_data(dp, transfer, offset, address, size);
    else
        error = dp->engine->ops->restore(dp->engine, address, size, transfer->base + offset);
    vgc_dp_unlock(dp);
    return error;
}

/* ---- printed text ------------------------------------------------------------------------------------------- */

int vgc_dp_save_output(struct vgc_dp *dp, uint32_t engine_context, char *to, uint32_t size, uint64_t *lost)
{
    const struct vgc_engine_ops *ops = dp->engine->ops;
    uint32_t len = 0, left = 0;
    int error = 0;
    *lost = 0;
    vgc_dp_lock(dp);
    if (!vgc_context_exists(dp, engine_context))
        error = -EINVAL;
    else if (!can_migrate(dp))
        error = -ENOTSUP;
    else if (ops->take_output != NULL) {
        len = ops->take_output(dp->engine, engine_context, to, size, &left, lost);
        if (len != 0 || *lost != 0)
            error = ops->put_output(dp->engine, engine_context, to, len, *lost);
    }
    vgc_dp_unlock(dp);
    return error != 0 ? error : left != 0 ? -ENOSPC : (int)len;
}

int vgc_dp_load_output(struct vgc_dp *dp, uint32_t engine_context, const char *text, uint32_t size, uint64_t lost)
{
    int error = 0;
    vgc_dp_lock(dp);
    if (!vgc_context_exists(dp, engine_context) || size > VGC_MAX_OUTPUT_BYTES)
        error = -EINVAL;
    else if (dp->engine->ops->put_output == NULL)
        error = -ENOTSUP;
    else
        error = dp->engine->ops->put_output(dp->engine, engine_context, text, size, lost);
    vgc_dp_unlock(dp);
    return error;
}
