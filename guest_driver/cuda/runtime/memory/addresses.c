/* Memory that this runtime gave out, by address: a sorted array, looked up by binary search.
 *
 * A device address is reserved in this process, too, with no access: so no pointer of the host can have the same
 * value, and a program that reads device memory as if it were its own faults at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct rt_range *ranges; /* ascending */
static size_t count;
static size_t room;

/* Number of ranges that begin at `address` or before it. */
static size_t upper_bound(uint64_t address)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool rt_find_range(const void *pointer, struct rt_range *range)
{
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    bool found = false;
    (void)pthread_rwlock_rdlock(&lock);
    size_t after = upper_bound(address);
    if (after > 0 && address - ranges[after - 1].begin < ranges[after - 1].size) {
        *range = ranges[after - 1];
        found = true;
    }
    (void)pthread_rwlock_unlock(&lock);
    return found;
}

cudaError_t rt_add_range(const struct rt_range *range)
{
    (void)pthread_rwlock_wrlock(&lock);
    if (count == room) {
        size_t more = room == 0 ? 64 : room * 2;
        struct rt_range *larger = realloc(ranges, more * sizeof(*ranges));
        if (larger == NULL) {
            (void)pthread_rwlock_unlock(&lock);
            return cudaErrorMemoryAllocation;
        }
        ranges = larger;
        room = more;
    }
    size_t at = upper_bound(range->begin);
    memmove(&ranges[at + 1], &ranges[at], (count - at) * sizeof(*ranges));
    ranges[at] = *range;
    count++;
    (void)pthread_rwlock_unlock(&lock);
    return cudaSuccess;
}

bool rt_remove_range(uint64_t begin, struct rt_range *removed)
{
    bool found = false;
    (void)pthread_rwlock_wrlock(&lock);
    size_t after = upper_bound(begin);
    if (after > 0 && ranges[after - 1].begin == begin) {
        *removed = ranges[after - 1];
        memmove(&ranges[after - 1], &ranges[after], (count - after) * sizeof(*ranges));
        count--;
        found = true;
    }
    (void)pthread_rwlock_unlock(&lock);
    return found;
}

cudaError_t rt_add_variable(struct rt_device *device, struct rt_variable *variable, uint64_t address)
{
    struct rt_range range;
    bool is_known = rt_find_range((const void *)(uintptr_t)address, &range);
    if (is_known || variable->size == 0 || variable->is_texture || variable->is_surface)
        return cudaSuccess;
    range = (struct rt_range){
        .begin = address, .size = variable->size, .kind = RT_VARIABLE_MEMORY, .device = device, .owner = variable};
    return rt_add_range(&range);
}

void rt_remove_variables(const struct rt_unit *unit)
{
    size_t kept = 0;
    (void)pthread_rwlock_wrlock(&lock);
    for (size_t i = 0; i < count; i++) {
        const struct rt_variable *variable = ranges[i].kind == RT_VARIABLE_MEMORY ? ranges[i].owner : NULL;
        if (variable == NULL || variable->unit != unit)
            ranges[kept++] = ranges[i];
    }
    count = kept;
    (void)pthread_rwlock_unlock(&lock);
}

bool rt_visit_ranges(bool (*visit)(struct rt_range *range, void *data), void *data)
{
    bool goes_on = true;
    (void)pthread_rwlock_wrlock(&lock);
    for (size_t i = 0; i < count && goes_on; i++)
        goes_on = visit(&ranges[i], data);
    (void)pthread_rwlock_unlock(&lock);
    return goes_on;
}

/* ---- reservations --------------------------------------------------------------------------- */

/* Whole pages of [address, address + size) that no other range lies in: small allocations may share a page. */
static void own_pages(uint64_t address, uint64_t size, uint64_t *begin, uint64_t *end)
{
    uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
    *begin = address & ~mask;
    *end = (address + size + mask) & ~mask;
    (void)pthread_rwlock_rdlock(&lock);
    size_t after = upper_bound(address);
    size_t before = after > 0 && ranges[after - 1].begin == address ? after - 1 : after;
    if (before > 0 && ranges[before - 1].begin + ranges[before - 1].size > *begin)
        *begin += mask + 1;
    if (after < count && ranges[after].begin < *end)
        *end -= mask + 1;
    (void)pthread_rwlock_unlock(&lock);
}

bool rt_reserve(uint64_t address, uint64_t size)
{
    uint64_t begin;
    uint64_t end;
    own_pages(address, size, &begin, &end);
    if (begin >= end)
        return true;
    void *wanted = (void *)(uintptr_t)begin;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *got = mmap(wanted, end - begin, PROT_NONE, flags, -1, 0);
    if (got != MAP_FAILED && got != wanted) /* a kernel before 4.17 */
        (void)munmap(got, end - begin);
    return got == wanted;
}

void rt_release(uint64_t address, uint64_t size)
{
    uint64_t begin;
    uint64_t end;
    own_pages(address, size, &begin, &end);
    if (begin < end)
        (void)munmap((void *)(uintptr_t)begin, end - begin);
}

bool rt_is_all_reserved(const struct rt_device *device)
{
    bool all = true;
    (void)pthread_rwlock_rdlock(&lock);
    for (size_t i = 0; i < count && all; i++)
        all = ranges[i].kind != RT_DEVICE_MEMORY || ranges[i].device != device ||
              (ranges[i].is_reserved && !ranges[i].is_shared);
    (void)pthread_rwlock_unlock(&lock);
    return all;
}

bool rt_find_cluster(const void *pointer, struct rt_cluster *cluster)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    const uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
    (void)pthread_rwlock_rdlock(&lock);
    size_t first = upper_bound(address);
    bool found = first > 0 && address - ranges[first - 1].begin < ranges[first - 1].size &&
                 ranges[first - 1].kind == RT_DEVICE_MEMORY && ranges[first - 1].is_reserved;
    size_t end = first;
    first -= found;
    while (found && first > 0 && ranges[first - 1].kind == RT_DEVICE_MEMORY &&
           ranges[first - 1].begin + ranges[first - 1].size > (ranges[first].begin & ~mask))
        first--;
    while (found && end < count && ranges[end].kind == RT_DEVICE_MEMORY &&
           ranges[end].begin < ((ranges[end - 1].begin + ranges[end - 1].size + mask) & ~mask))
        end++;
    cluster->ranges = found ? malloc((end - first) * sizeof(*cluster->ranges)) : NULL;
    found = cluster->ranges != NULL;
    if (found) {
        cluster->num_ranges = end - first;
        memcpy(cluster->ranges, &ranges[first], cluster->num_ranges * sizeof(*ranges));
        cluster->begin = ranges[first].begin & ~mask;
        cluster->end = (ranges[end - 1].begin + ranges[end - 1].size + mask) & ~mask;
    }
    (void)pthread_rwlock_unlock(&lock);
    return found;
}

void rt_addresses_forget(struct rt_device *device)
{
    for (;;) {
        struct rt_range gone;
        bool found = false;
        (void)pthread_rwlock_rdlock(&lock);
        for (size_t i = 0; i < count && !found; i++) {
            gone = ranges[i];
            found = gone.device == device && (gone.kind == RT_DEVICE_MEMORY || gone.kind == RT_VARIABLE_MEMORY);
        }
        (void)pthread_rwlock_unlock(&lock);
        if (!found)
            return;
        if (rt_remove_range(gone.begin, &gone) && gone.is_kept)
            continue; /* its block is managed.c's */
        if (gone.is_spare)
            rt_spare_unmap((void *)(uintptr_t)gone.begin, gone.size);
        else if (gone.is_reserved)
            rt_release(gone.begin, gone.size);
    }
}
