/* Guest memory: mapping the region's file, and surviving its truncation.
 *
 * Touching a page behind the end of a file raises SIGBUS. The handler maps a page of zeroes in its place, so that the
 * thread goes on; the loop then marks the queues as broken.
 */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- SIGBUS ------------------------------------------------------------------------------------------------- */

enum { MAX_GUARDED = 256, PAGE = 4096, REGION_ALIGN = 1 << 30 }; /* 1 GiB: files may be of huge pages */

struct guarded {
    _Atomic uintptr_t begin; /* 0: free */
    _Atomic uintptr_t end;
    uintptr_t page; /* unit in which parts of it can be mapped anew, a power of two */
    atomic_bool *lost;
};

static struct guarded guarded[MAX_GUARDED];
static pthread_mutex_t guarded_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous;
static bool installed;

static bool put_zeroes(const struct guarded *range, uintptr_t address)
{
    void *page = (void *)(address & ~(range->page - 1));
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    if (mmap(page, range->page, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
        return false;
    atomic_store(range->lost, true);
    return true;
}

static void on_sigbus(int signal, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    uintptr_t address = (uintptr_t)info->si_addr;
    for (size_t i = 0; i < MAX_GUARDED; i++) {
        const struct guarded *range = &guarded[i];
        uintptr_t begin = atomic_load(&range->begin);
        if (begin == 0 || address < begin || address >= atomic_load(&range->end))
            continue;
        if (!put_zeroes(range, address))
            break;
        errno = saved_errno;
        return;
    }
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
        return;
    }
    sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL},
              NULL); /* not in a region: is raised again, and ends the process */
}

/* Installs the SIGBUS handler in front of an earlier one, such as an engine's, which gets other addresses. */
int vgc_sigbus_install(void)
{
    int error = 0;
    pthread_mutex_lock(&guarded_mutex);
    if (!installed) {
        struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        error = sigaction(SIGBUS, &action, &previous) != 0 ? -errno : 0;
        installed = error == 0;
    }
    pthread_mutex_unlock(&guarded_mutex);
    return error;
}

static int guard(uint8_t *base, uint64_t size, uint64_t page, atomic_bool *lost)
{
    int error = -ENOSPC;
    pthread_mutex_lock(&guarded_mutex);
    for (size_t i = 0; i < MAX_GUARDED && error != 0; i++) {
        if (atomic_load(&guarded[i].begin) != 0)
            continue;
        guarded[i].lost = lost;
        guarded[i].page = page;
        atomic_store(&guarded[i].end, (uintptr_t)base + size);
        atomic_store(&guarded[i].begin, (uintptr_t)base);
        error = 0;
    }
    pthread_mutex_unlock(&guarded_mutex);
    return error;
}

static void unguard(const uint8_t *base)
{
    pthread_mutex_lock(&guarded_mutex);
    size_t i = 0;
    while (i < MAX_GUARDED && atomic_load(&guarded[i].begin) != (uintptr_t)base)
        i++;
    if (i < MAX_GUARDED)
        atomic_store(&guarded[i].begin, 0);
    pthread_mutex_unlock(&guarded_mutex);
}

/* ---- mappings ----------------------------------------------------------------------------------------------- */

static void unmap(struct vgc_dp *dp, struct vgc_mapping *mapping)
{
    if (mapping->base == NULL)
        return;
    if (dp->region == mapping) {
        dp->engine->ops->map_region(dp->engine, NULL, 0, &dp->region_address);
        dp->region = NULL;
        dp->region_address = 0;
        dp->removals++;
    }
    unguard(mapping->base);
    vgc_arena_unmap(dp->engine, mapping->base, mapping->mapped_size);
    *mapping = (struct vgc_mapping){0};
}

void vgc_region_unmap_all(struct vgc_dp *dp)
{
    for (size_t i = 0; i < VGC_MEM_MAX_REGIONS; i++)
        unmap(dp, &dp->mappings[i]);
}

static struct vgc_mapping *find_mapping(struct vgc_dp *dp, const struct vgc_dp_region *region, const struct stat *file)
{
    for (size_t i = 0; i < VGC_MEM_MAX_REGIONS; i++) {
        struct vgc_mapping *mapping = &dp->mappings[i];
        if (mapping->base != NULL && mapping->dev == file->st_dev && mapping->ino == file->st_ino &&
            mapping->offset == region->offset && mapping->size == region->size)
            return mapping;
    }
    return NULL;
}

static struct vgc_mapping *free_mapping(struct vgc_dp *dp)
{
    for (size_t i = 0; i < VGC_MEM_MAX_REGIONS; i++)
        if (dp->mappings[i].base == NULL)
            return &dp->mappings[i];
    return NULL;
}

/* Unit in which a region can be mapped: that of the file's blocks, which are huge pages if it lies in such, or any
 * other unit of which it consists. (Workers may not ask for the kind of file system.) */
static uint64_t page_size(const struct vgc_dp_region *region, const struct stat *file)
{
    uint64_t block = file->st_blksize > PAGE && file->st_blksize <= REGION_ALIGN ? (uint64_t)file->st_blksize : PAGE;
    bool is_power = (block & (block - 1)) == 0;
    return is_power && region->offset % block == 0 && region->size % block == 0 ? block : PAGE;
}

static int map_new(struct vgc_dp *dp, struct vgc_mapping *mapping, const struct vgc_dp_region *region,
                   const struct stat *file, char *why)
{
    uint64_t page = page_size(region, file);
    uint64_t skip = region->offset % page;
    uint64_t length = (region->size + skip + page - 1) & ~(page - 1);
    uint64_t at = region->at != 0 ? region->at - skip : 0;
    uint8_t *base = vgc_arena_map(dp->engine, at, REGION_ALIGN, length, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd,
                                  (int64_t)(region->offset - skip));
    if (base == MAP_FAILED)
        return vgc_why(why, -errno, "cannot map a region of %lu bytes: %s", (unsigned long)region->size,
                       strerror(errno));
    madvise(base, length, MADV_DONTDUMP);
    if (guard(base, length, page, &dp->region_lost) != 0) {
        vgc_arena_unmap(dp->engine, base, length);
        return vgc_why(why, -ENOSPC, "more than %d regions in one process", MAX_GUARDED);
    }
    *mapping = (struct vgc_mapping){.base = base,
                                    .mapped_size = length,
                                    .host = base + skip,
                                    .dev = file->st_dev,
                                    .ino = file->st_ino,
                                    .offset = region->offset,
                                    .size = region->size};
    return 0;
}

static int check_file(const struct vgc_dp_region *region, struct stat *file, char *why)
{
    if (fstat(region->fd, file) != 0)
        return vgc_why(why, -errno, "fstat() of a region's file failed: %s", strerror(errno));
    uint64_t end;
    if (region->size == 0 || __builtin_add_overflow(region->offset, region->size, &end) ||
        end > (uint64_t)file->st_size)
        return vgc_why(why, -ERANGE, "a region of %lu bytes at offset %lu in a file of %lu bytes",
                       (unsigned long)region->size, (unsigned long)region->offset, (unsigned long)file->st_size);
    return 0;
}

static int add_region(struct vgc_dp *dp, struct vgc_mem *mem, const struct vgc_dp_region *region, char *why)
{
    struct stat file;
    int error = check_file(region, &file, why);
    if (error != 0)
        return error;
    struct vgc_mapping *mapping = find_mapping(dp, region, &file);
    if (mapping == NULL) {
        mapping = free_mapping(dp);
        if (mapping == NULL)
            return vgc_why(why, -ENOSPC, "more than %d regions", VGC_MEM_MAX_REGIONS);
        error = map_new(dp, mapping, region, &file, why);
        if (error != 0)
            return error;
    }
    mem->regions[mem->count++] =
        (struct vgc_mem_region){.gpa = region->gpa, .uva = region->uva, .size = region->size, .host = mapping->host};
    return 0;
}

static bool is_used(const struct vgc_mem *mem, const struct vgc_mapping *mapping)
{
    for (uint32_t i = 0; i < mem->count; i++)
        if (mem->regions[i].host == mapping->host)
            return true;
    return false;
}

/* Gives the largest mapping to the engine. */
static void tell_engine(struct vgc_dp *dp)
{
    struct vgc_mapping *largest = NULL;
    for (size_t i = 0; i < VGC_MEM_MAX_REGIONS; i++)
        if (dp->mappings[i].base != NULL && (largest == NULL || dp->mappings[i].size > largest->size))
            largest = &dp->mappings[i];
    if (largest == dp->region || largest == NULL)
        return;
    if (dp->region != NULL)
        dp->engine->ops->map_region(dp->engine, NULL, 0, &dp->region_address);
    dp->region_address = 0;
    dp->region = largest;
    dp->removals++;
    if (dp->engine->ops->map_region(dp->engine, largest->host, largest->size, &dp->region_address) != 0)
        dp->region_address = 0;
}

static void unmap_unused(struct vgc_dp *dp, const struct vgc_mem *mem)
{
    for (size_t i = 0; i < VGC_MEM_MAX_REGIONS; i++)
        if (dp->mappings[i].base != NULL && !is_used(mem, &dp->mappings[i]))
            unmap(dp, &dp->mappings[i]);
}

static bool goes_away(const struct vgc_dp *dp, const struct vgc_mem *mem)
{
    for (size_t i = 0; i < VGC_MEM_MAX_REGIONS; i++)
        if (dp->mappings[i].base != NULL && !is_used(mem, &dp->mappings[i]))
            return true;
    return false;
}

/* Checks that the region has the device address that it must have. */
static int check_addresses(const struct vgc_dp *dp, const struct vgc_dp_region *regions, uint32_t count, char *why)
{
    for (uint32_t i = 0; i < count; i++)
        if (regions[i].at != 0 && dp->region_address != regions[i].at)
            return vgc_why(why, -EADDRNOTAVAIL, "the region is at device address %#lx; it must be at %#lx",
                           (unsigned long)dp->region_address, (unsigned long)regions[i].at);
    return 0;
}

/* Replaces the table. An empty one keeps the mappings: while a guest moves its BAR, the table is first empty and then
 * has the same region again. */
static int replace_table(struct vgc_dp *dp, const struct vgc_dp_region *regions, uint32_t count, char *why)
{
    struct vgc_mem mem = {0};
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = add_region(dp, &mem, &regions[i], why);
    if (error == 0 && count != 0 && dp->in_flight != 0 && goes_away(dp, &mem))
        error = vgc_why(why, -EBUSY, "%u requests in flight use memory that is not in the new table", dp->in_flight);
    if (error != 0) {
        if (dp->in_flight == 0)
            unmap_unused(dp, &dp->mem);
        return error;
    }
    dp->mem = mem;
    if (count != 0)
        unmap_unused(dp, &mem);
    tell_engine(dp);
    vgc_queues_remap(dp);
    return check_addresses(dp, regions, count, why);
}

int vgc_dp_set_memory(struct vgc_dp *dp, const struct vgc_dp_region *regions, uint32_t count, char *why)
{
    if (count > VGC_MEM_MAX_REGIONS)
        return vgc_why(why, -EINVAL, "%u regions; allowed: at most %d", count, VGC_MEM_MAX_REGIONS);
    vgc_dp_lock(dp);
    int error = replace_table(dp, regions, count, why);
    vgc_dp_unlock(dp);
    return error;
}

uint64_t vgc_dp_region_address(struct vgc_dp *dp)
{
    vgc_dp_lock(dp);
    uint64_t address = dp->region_address;
    vgc_dp_unlock(dp);
    return address;
}
