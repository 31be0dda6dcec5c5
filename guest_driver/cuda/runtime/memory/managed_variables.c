/* __managed__ variables. Host code uses each through a pointer, which is at the variable's initial value until a device
 * is open; then it is the address that the variable has in the program on the device, where this process has managed
 * memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "managed.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct placed {
    struct placed *next;
    struct rt_variable *variable;
    void **host;
    void *initial;
    uint64_t address; /* 0: not on a device */
    struct rt_device *device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct placed *variables;
static _Atomic size_t num_variables;
static _Atomic size_t num_pending; /* not on a device */

void rt_managed_variable(struct rt_variable *variable, void **host, void *initial)
{
    struct placed *placed = calloc(1, sizeof(*placed));
    if (placed == NULL)
        abort(); /* before main() nobody could be told */
    *placed = (struct placed){.variable = variable, .host = host, .initial = initial};
    *host = initial;
    (void)pthread_mutex_lock(&lock);
    placed->next = variables;
    variables = placed;
    (void)atomic_fetch_add(&num_variables, 1);
    (void)atomic_fetch_add(&num_pending, 1);
    (void)pthread_mutex_unlock(&lock);
    rt_variable_alias(variable, initial);
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Pages [begin, end), whose other bytes may be the program's other variables: they do not move. */
static struct rt_block *new_block(struct rt_device *device, uint64_t begin, uint64_t end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *wanted = (void *)(uintptr_t)begin;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *got = mmap(wanted, end - begin, PROT_NONE, flags, -1, 0);
    if (got != wanted) {
        if (got != MAP_FAILED)
            (void)munmap(got, end - begin);
        return NULL;
    }
    size_t num_granules = (end - begin) / page;
    struct rt_block *block = calloc(1, sizeof(*block) + num_granules);
    if (block == NULL)
        return NULL;
    block->device = device;
    block->contexts = device->contexts;
    block->allocation = begin;
    block->allocation_size = end - begin;
    block->begin = wanted;
    block->size = end - begin;
    block->granule = page;
    block->num_granules = num_granules;
    block->count[RT_ON_HOST] = num_granules;
    if (rt_block_map(block) == cudaSuccess)
        return block;
    rt_block_free(block);
    return NULL;
}

static bool add_span(struct rt_block *block, const struct placed *placed)
{
    struct rt_span *more = realloc(block->spans, (block->num_spans + 1) * sizeof(*more));
    if (more == NULL)
        return false;
    size_t from = (size_t)(placed->address - (uint64_t)(uintptr_t)block->begin);
    more[block->num_spans++] = (struct rt_span){from, from + placed->variable->size};
    block->spans = more;
    memcpy(block->alias + from, *placed->host, placed->variable->size);
    return true;
}

/* ---- placing -------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const struct placed *const *first = a;
    const struct placed *const *second = b;
    return ((*first)->address > (*second)->address) - ((*first)->address < (*second)->address);
}

static void put(struct rt_block *block, struct placed *placed)
{
    struct rt_range range = {.begin = placed->address,
                             .size = placed->variable->size,
                             .kind = RT_MANAGED_MEMORY,
                             .device = block->device,
                             .flags = cudaMemAttachGlobal,
                             .owner = block};
    if (!add_span(block, placed) || rt_add_range(&range) != cudaSuccess)
        return;
    placed->device = block->device;
    *placed->host = (void *)(uintptr_t)placed->address;
    rt_variable_alias(placed->variable, *placed->host);
}

/* Nothing that the device computes with the variable would be right. */
static void refuse(struct rt_device *device, const struct rt_variable *variable)
{
    (void)fprintf(stderr,
                  "virtio-gpu-compute: the __managed__ variable '%s' cannot be had: the device does not know it, or "
                  "this process uses its address\n",
                  variable->name);
    atomic_store(&device->sticky, cudaErrorInitializationError);
}

/* Variables list[0] to list[count - 1], in ascending order: those with pages in common share a block. */
static void put_all(struct rt_device *device, struct placed **list, size_t count)
{
    uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
    for (size_t i = 0, next; i < count; i = next) {
        uint64_t begin = list[i]->address & ~mask;
        uint64_t end = begin;
        for (next = i; next < count && (next == i || list[next]->address < end); next++)
            end = RT_MAX(end, (list[next]->address + list[next]->variable->size + mask) & ~mask);
        struct rt_block *block = new_block(device, begin, end);
        for (size_t j = i; block != NULL && j < next; j++)
            put(block, list[j]);
        if (block != NULL)
            rt_managed_add(block);
        else
            refuse(device, list[i]->variable);
    }
}

void rt_managed_variables_place(struct rt_device *device)
{
    if (atomic_load(&num_pending) == 0)
        return;
    (void)pthread_mutex_lock(&lock);
    size_t pending = atomic_load(&num_pending);
    struct placed **list = calloc(pending + 1, sizeof(struct placed *));
    size_t count = 0;
    size_t left = 0; /* for later: their program has no room */
    for (struct placed *placed = variables; list != NULL && placed != NULL && count < pending; placed = placed->next) {
        if (placed->address != 0)
            continue;
        cudaError_t error = rt_load_variable(device, placed->variable, &placed->address);
        left += error == cudaErrorMemoryAllocation;
        if (error == cudaSuccess)
            list[count++] = placed;
        else if (error == cudaErrorInvalidSymbol) /* other errors are the program's, and launches tell them */
            refuse(device, placed->variable);
    }
    atomic_store(&num_pending, left);
    if (count > 0) {
        qsort(list, count, sizeof(struct placed *), by_address);
        put_all(device, list, count);
    }
    free(list);
    (void)pthread_mutex_unlock(&lock);
}

bool rt_managed_variables_wait(void)
{
    return atomic_load(&num_pending) != 0;
}

const void *rt_managed_variable_now(const void *memory)
{
    if (atomic_load(&num_variables) == 0)
        return memory;
    (void)pthread_mutex_lock(&lock);
    for (struct placed *placed = variables; placed != NULL; placed = placed->next) {
        uint64_t offset = (uint64_t)((uintptr_t)memory - (uintptr_t)placed->initial);
        if (placed->device != NULL && offset < placed->variable->size) {
            memory = (const void *)(uintptr_t)(placed->address + offset);
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return memory;
}

/* Gives a variable back to host code, with its value. Returns the block in which it was; NULL: none. */
static struct rt_block *take_back(struct placed *placed)
{
    struct rt_range range;
    if (placed->device == NULL || !rt_remove_range(placed->address, &range))
        return NULL;
    struct rt_block *block = range.owner;
    memcpy(placed->initial, block->alias + (placed->address - (uint64_t)(uintptr_t)block->begin),
           placed->variable->size);
    *placed->host = placed->initial;
    placed->address = 0;
    placed->device = NULL;
    return block;
}

/* The device's side is gone; the values stay, for the next program. */
void rt_managed_variables_forget(struct rt_device *device)
{
    (void)pthread_mutex_lock(&lock);
    for (struct placed *placed = variables; placed != NULL; placed = placed->next)
        if (placed->device == device && take_back(placed) != NULL)
            (void)atomic_fetch_add(&num_pending, 1);
    (void)pthread_mutex_unlock(&lock);
}

/* With the lock: ends a block, whose variables are all those of one program. */
static void end_block(struct rt_block *block)
{
    for (struct placed *placed = variables; placed != NULL; placed = placed->next)
        if (placed->address - (uint64_t)(uintptr_t)block->begin < block->size)
            (void)take_back(placed);
    rt_managed_remove(block);
    (void)rt_block_end(block, true);
}

void rt_managed_variables_unload(const struct rt_unit *unit)
{
    if (atomic_load(&num_variables) == 0)
        return;
    (void)pthread_mutex_lock(&lock);
    for (struct placed **at = &variables; *at != NULL;) {
        struct placed *placed = *at;
        if (placed->variable->unit != unit) {
            at = &placed->next;
            continue;
        }
        struct rt_block *block = take_back(placed);
        if (block != NULL)
            end_block(block);
        *at = placed->next;
        (void)atomic_fetch_sub(&num_variables, 1);
        free(placed);
    }
    (void)pthread_mutex_unlock(&lock);
}
