/* Memory that operations can access: addresses, owners and current users. */
#define _GNU_SOURCE /* mremap */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake.h"

/* A range in which operating systems map nothing. Addresses are not reused. */
static const CUdeviceptr WINDOW = 0x200000000000ULL;
enum { WINDOW_SHIFT = 42, ALIGN = 512, PAGE = 4096, FRESH = 0xcd };
static CUdeviceptr next_address[FAKE_MAX_DEVICES];

static struct fake_memory **all; /* sorted by address */
static size_t num_all, room;
static uint64_t used[FAKE_MAX_DEVICES];

CUdeviceptr fake_memory_window(int device, size_t size)
{
    CUdeviceptr *next = &next_address[device], begin = WINDOW + ((CUdeviceptr)device << WINDOW_SHIFT) + ALIGN, end;
    while (fake_vmm_overlaps(begin + *next, size, &end))
        *next = (end - begin + ALIGN - 1) / ALIGN * ALIGN;
    if (size >> WINDOW_SHIFT || (*next + size + ALIGN) >> WINDOW_SHIFT)
        return 0;
    CUdeviceptr address = begin + *next;
    *next += (size + 2 * ALIGN - 1) / ALIGN * ALIGN; /* with a gap after it */
    return address;
}

/* Index of the first memory that begins after `address`. */
static size_t after(CUdeviceptr address)
{
    size_t low = 0, high = num_all;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (all[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(struct fake_memory *memory)
{
    if (num_all == room) {
        room = room ? 2 * room : 64;
        all = realloc(all, room * sizeof(void *));
        if (!all)
            abort();
    }
    size_t at = after(memory->address);
    memmove(all + at + 1, all + at, (num_all - at) * sizeof(void *));
    all[at] = memory;
    num_all++;
}

struct fake_memory *fake_memory_adopt(struct fake_context *context, void *host, size_t size, enum fake_memory_kind kind,
                                      CUdeviceptr address)
{
    struct fake_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        abort();
    *memory = (struct fake_memory){
        .address = address, .size = size, .host = host, .kind = kind, .ready = true, .device = context->device};
    memory->context = context->primary;
    insert(memory);
    return memory;
}

bool fake_memory_charge(int device, size_t size)
{
    bool there_is = size <= fake.settings.devices[device].memory_bytes - used[device];
    used[device] += there_is ? size : 0;
    return there_is;
}

void fake_memory_uncharge(int device, size_t size)
{
    used[device] -= size;
}

bool fake_memory_overlaps(CUdeviceptr address, size_t size)
{
    size_t at = after(address + size - 1);
    return at && all[at - 1]->address + all[at - 1]->size > address;
}

static bool fits(struct fake_context *context, size_t size, struct fake_pool *pool)
{
    uint64_t whole = fake.settings.devices[context->device].memory_bytes;
    if (size > whole - used[context->device])
        return false;
    return !pool || !pool->max_bytes || size <= pool->max_bytes - pool->used;
}

static void charge(struct fake_pool *pool, size_t size)
{
    pool->used += size;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (pool->used > pool->reserved)
        pool->reserved = pool->used;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
}

/* Allocates the bytes; those of cuMemAlloc can be mapped twice. */
static char *take(enum fake_memory_kind kind, size_t size)
{
    if (kind != FAKE_MEM_DEVICE)
        return malloc(size);
    void *got = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return got == MAP_FAILED ? NULL : got;
}

static void give(const struct fake_memory *memory)
{
    if (memory->kind == FAKE_MEM_DEVICE)
        munmap(memory->host, memory->size);
    else
        free(memory->host);
}

struct fake_memory *fake_memory_show(CUdeviceptr address)
{
    pthread_mutex_lock(&fake.lock);
    struct fake_memory *memory = fake_memory_find(address, 1);
    bool shared = memory && (memory->kind == FAKE_MEM_DEVICE || memory->kind == FAKE_MEM_REGISTERED);
    bool good = shared && memory->address == address;
    void *wanted = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
    if (good && memory->shown == 0 &&
        memory->host != wanted) /* an old size of 0 maps the same memory again [mremap(2)] */
        good = mremap(memory->host, 0, memory->size, MREMAP_MAYMOVE | MREMAP_FIXED, wanted) == wanted;
    if (good) {
        memory->shown++;
        memory->pins++;
    }
    pthread_mutex_unlock(&fake.lock);
    return good ? memory : NULL;
}

void fake_memory_hide(struct fake_memory *memory)
{
    pthread_mutex_lock(&fake.lock);
    void *shown = (void *)(uintptr_t)memory->address; // NOLINT(performance-no-int-to-ptr)
    if (--memory->shown == 0 && memory->host != shown)
        munmap(shown, memory->size);
    pthread_mutex_unlock(&fake.lock);
    fake_memory_unpin(memory);
}

struct fake_memory *fake_memory_new(struct fake_context *context, size_t size, enum fake_memory_kind kind,
                                    struct fake_pool *pool, CUresult *result)
{
    *result = size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    if (!size || !fits(context, size, pool))
        return NULL;
    CUdeviceptr address = fake_memory_window(context->device, size + (kind == FAKE_MEM_DEVICE ? PAGE : 0));
    if (kind == FAKE_MEM_DEVICE)
        address = (address + PAGE - 1) & ~(CUdeviceptr)(PAGE - 1);
    char *host = address ? take(kind, size) : NULL;
    if (!host)
        return NULL;
    memset(host, FRESH, size);
    struct fake_memory *memory = fake_memory_adopt(context, host, size, kind, address);
    memory->pool = pool;
    used[context->device] += size;
    if (pool)
        charge(pool, size);
    *result = CUDA_SUCCESS;
    return memory;
}

static void forget(struct fake_memory *memory)
{
    size_t at = after(memory->address) - 1;
    memmove(all + at, all + at + 1, (num_all - at - 1) * sizeof(void *));
    num_all--;
    if (memory->kind == FAKE_MEM_REGISTERED) {
        free(memory);
        return;
    }
    if (memory->kind != FAKE_MEM_HOST)
        used[memory->device] -= memory->size;
    if (memory->pool)
        memory->pool->used -= memory->size;
    give(memory);
    free(memory);
}

void fake_memory_end(struct fake_memory *memory)
{
    memory->freeing = true;
    if (memory->pins)
        fake_misuse("%#llx was freed while %u operations used it", memory->address, memory->pins);
    while (memory->pins)
        fake_wait();
    forget(memory);
}

struct fake_memory *fake_memory_find(CUdeviceptr address, size_t size)
{
    size_t at = after(address);
    struct fake_memory *memory = at ? all[at - 1] : NULL;
    if (!memory || address - memory->address > memory->size || size > memory->size - (address - memory->address))
        return fake_vmm_find(address, size);
    return size || address - memory->address < memory->size ? memory : NULL;
}

struct fake_memory *fake_memory_at_host(const void *host, size_t size)
{
    for (size_t i = 0; i < num_all; i++) {
        const struct fake_memory *memory = all[i];
        if (memory->kind != FAKE_MEM_HOST && memory->kind != FAKE_MEM_REGISTERED)
            continue;
        uintptr_t at = (uintptr_t)host - (uintptr_t)memory->host;
        if ((uintptr_t)host >= (uintptr_t)memory->host && at < memory->size && size <= memory->size - at)
            return all[i];
    }
    return NULL;
}

bool fake_memory_usable(struct fake_context *context, CUdeviceptr address, size_t size)
{
    struct fake_memory *memory = fake_memory_find(address, size);
    CUdeviceptr end;
    if (!memory && fake_vmm_overlaps(address, 1, &end))
        fake_misuse("%#llx (%zu bytes) is reserved, and not all of it is mapped and accessible", address, size);
    else if (!memory)
        fake_misuse("%#llx (%zu bytes) is not allocated", address, size);
    else if (memory->context != context->primary && memory->kind != FAKE_MEM_REGISTERED)
        fake_misuse("%#llx is memory of another context", address);
    else if (memory->freeing)
        fake_misuse("%#llx was used after it was freed", address);
    else
        return true;
    return false;
}

char *fake_memory_pin(CUdeviceptr address, size_t size, struct fake_memory **found)
{
    pthread_mutex_lock(&fake.lock);
    struct fake_memory *memory = fake_memory_find(address, size);
    if (memory && !memory->ready) {
        fake_misuse("%#llx was used before its allocation happened, in another stream's order", address);
        memory = NULL;
    }
    if (memory && memory->kind == FAKE_MEM_MAPPED)
        memory = fake_vmm_pin(memory, address, size);
    if (memory)
        memory->pins++;
    char *bytes = memory ? memory->host + (address - memory->address) : NULL;
    pthread_mutex_unlock(&fake.lock);
    *found = memory;
    return bytes;
}

void fake_memory_unpin(struct fake_memory *memory)
{
    pthread_mutex_lock(&fake.lock);
    memory->pins--;
    if (memory->kind == FAKE_MEM_MAPPED)
        fake_vmm_unpin(memory);
    pthread_cond_broadcast(&fake.progress);
    pthread_mutex_unlock(&fake.lock);
}

uint64_t fake_memory_used(int device)
{
    return used[device];
}

size_t fake_memory_count(bool host)
{
    size_t count = 0;
    for (size_t i = 0; i < num_all; i++)
        count += (all[i]->kind == FAKE_MEM_HOST || all[i]->kind == FAKE_MEM_REGISTERED) == host;
    return count;
}

void fake_memory_end_all(struct fake_context *primary)
{
    for (size_t i = num_all; i-- > 0;)
        if (all[i]->context == primary)
            fake_memory_end(all[i]);
}
