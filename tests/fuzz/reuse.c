#define _GNU_SOURCE
#include "reuse.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "input.h"
#include "internal.h"
#include "poison.h"

#pragma clang attribute push(__attribute__((no_sanitize("coverage"))),                                                 \
                             apply_to = function) /* of the data plane alone */

/* The functions that stand in for the system's, and the system's own. */
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);
int __wrap_mprotect(void *at, size_t size, int protection);
int __real_mprotect(void *at, size_t size, int protection);
int __wrap_madvise(void *at, size_t size, int advice);
int __wrap_fstat(int fd, struct stat *file);
int __wrap_eventfd(unsigned int count, int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
ssize_t __wrap_write(int fd, const void *from, size_t size);
int __wrap_close(int fd);
int __real_close(int fd);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags);

enum { MAX_MAPPINGS = 16, MAX_FDS = 16, FIRST_FD = REUSE_INFLIGHT_FD + 1, PAGE = 4096 };
static const size_t ROOM = UINT64_C(1) << 30; /* to which regions are aligned, see region.c */

/* Memory without a file. */
struct mapping {
    uint8_t *memory;
    size_t size;
    bool used;
};

/* A file, mapped at two places: where others see it, and where the data plane does if it has it mapped. */
struct file {
    size_t size;
    uint8_t *outside, *inside;
    bool used;
};

static struct mapping mappings[MAX_MAPPINGS];
static struct file region = {.size = REUSE_REGION_BYTES}, inflight = {.size = sizeof(struct vgc_inflight)};
static bool room_used; /* addresses around the region, of which the data plane gives back what it does not need */
static bool fds[MAX_FDS];
static uint64_t random_state;

/* ---- begin and end -------------------------------------------------------------------------------------------- */

static size_t whole_pages(size_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

static void *really_map(void *at, size_t size, int protection, int flags, int fd)
{
    void *memory = __real_mmap(at, size, protection, flags, fd, 0);
    PROMISE(memory != MAP_FAILED);
    return memory;
}

/* Addresses that nobody may touch lie on both sides of the places. */
static void make_file(struct file *file, size_t align)
{
    uint8_t *room = really_map(NULL, 3 * align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    room += align - (uintptr_t)room % align;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    PROMISE(fd >= 0 && ftruncate(fd, (off_t)file->size) == 0);
    file->inside = really_map(room, file->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd);
    file->outside = really_map(NULL, file->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    ASAN_POISON_MEMORY_REGION(file->inside, whole_pages(file->size));
    __real_close(fd);
}

void reuse_begin(void)
{
    if (region.inside == NULL) {
        make_file(&region, ROOM);
        make_file(&inflight, 4 * PAGE);
    }
    memset(region.outside, 0, region.size);
    memset(inflight.outside, 0, inflight.size);
    random_state = 0;
}

void reuse_end(void)
{
    PROMISE(!region.used && !inflight.used && !room_used);
    for (int i = 0; i < MAX_MAPPINGS; i++)
        PROMISE(!mappings[i].used);
    for (int i = 0; i < MAX_FDS; i++)
        PROMISE(!fds[i]);
}

uint8_t *reuse_region(void)
{
    return region.outside;
}

struct vgc_inflight *reuse_inflight(void)
{
    return (struct vgc_inflight *)inflight.outside;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static void *map_file(struct file *file, size_t size)
{
    PROMISE(size == file->size && !file->used);
    file->used = true;
    ASAN_UNPOISON_MEMORY_REGION(file->inside, size);
    return file->inside;
}

static struct mapping *free_mapping(size_t size)
{
    for (int i = 0; i < MAX_MAPPINGS; i++) {
        struct mapping *mapping = &mappings[i];
        if (mapping->memory == NULL) {
            size_t room = whole_pages(size) + PAGE; /* a page that nobody may touch behind it */
            mapping->memory = really_map(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
            mapping->size = size;
            PROMISE(__real_mprotect(mapping->memory + room - PAGE, PAGE, PROT_NONE) == 0);
            ASAN_POISON_MEMORY_REGION(mapping->memory, whole_pages(size));
        }
        if (mapping->size == size && !mapping->used)
            return mapping;
    }
    abort(); /* MAX_MAPPINGS is too small */
}

static bool is_zero(const void *memory, size_t size)
{
    const uint8_t *bytes = memory;
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Calls are large. Their operations are used from the first one on. */
static void clear_calls(struct vgc_call *calls)
{
    for (int i = 0; i < VGC_MAX_CALLS; i++) {
        memset(&calls[i], 0, offsetof(struct vgc_call, ops));
        for (int k = 0; k < VGC_CALL_OPS && !is_zero(&calls[i].ops[k], sizeof(struct vgc_op)); k++)
            calls[i].ops[k] = (struct vgc_op){0};
    }
}

static void make_fresh(uint8_t *memory, size_t size)
{
    ASAN_UNPOISON_MEMORY_REGION(memory, size);
    if (size != VGC_MAX_CALLS * sizeof(struct vgc_call)) {
        memset(memory, 0, size);
        return;
    }
    clear_calls((struct vgc_call *)memory);
    PROMISE(!__has_feature(address_sanitizer) || is_zero(memory, size));
}

static void *map_memory(size_t size, int protection)
{
    struct mapping *mapping = free_mapping(size);
    mapping->used = true;
    if (protection != PROT_NONE)
        make_fresh(mapping->memory, size);
    return mapping->memory;
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    PROMISE(offset == 0);
    if (fd >= 0) {
        PROMISE((flags & MAP_SHARED) && (fd == REUSE_REGION_FD || fd == REUSE_INFLIGHT_FD));
        PROMISE(!(flags & MAP_FIXED) || (room_used && at == region.inside));
        return map_file(fd == REUSE_REGION_FD ? &region : &inflight, size);
    }
    if (protection != PROT_NONE || size != ROOM + region.size)
        return map_memory(size, protection);
    PROMISE(!room_used);
    room_used = true;
    return region.inside;
}

static bool unmap_file(struct file *file, const void *at, size_t size)
{
    if (at != file->inside)
        return false;
    PROMISE(file->used && size == file->size);
    file->used = false;
    ASAN_POISON_MEMORY_REGION(file->inside, whole_pages(size));
    return true;
}

int __wrap_munmap(void *at, size_t size)
{
    if (unmap_file(&region, at, size) || unmap_file(&inflight, at, size))
        return 0;
    if (at == region.inside + region.size) { /* the room's rest */
        PROMISE(room_used && size == ROOM);
        room_used = false;
        return 0;
    }
    for (int i = 0; i < MAX_MAPPINGS; i++) {
        struct mapping *mapping = &mappings[i];
        if (mapping->memory != at || at == NULL)
            continue;
        PROMISE(mapping->used && mapping->size == size);
        mapping->used = false;
        ASAN_POISON_MEMORY_REGION(at, whole_pages(size));
        return 0;
    }
    abort(); /* never mapped */
}

/* Makes reserved memory usable, once. */
int __wrap_mprotect(void *at, size_t size, int protection)
{
    PROMISE(protection == (PROT_READ | PROT_WRITE));
    make_fresh(at, size);
    return 0;
}

int __wrap_madvise(void *at, size_t size, int advice)
{
    PROMISE(at == region.inside && size == region.size && advice == MADV_DONTDUMP);
    return 0;
}

int __wrap_fstat(int fd, struct stat *file)
{
    PROMISE(fd == REUSE_REGION_FD || fd == REUSE_INFLIGHT_FD);
    *file = (struct stat){
        .st_dev = 1, .st_ino = (ino_t)fd, .st_size = (off_t)(fd == REUSE_REGION_FD ? region.size : inflight.size)};
    return 0;
}

/* ---- descriptors ---------------------------------------------------------------------------------------------- */

static int open_fd(void)
{
    for (int i = 0; i < MAX_FDS; i++) {
        if (fds[i])
            continue;
        fds[i] = true;
        return FIRST_FD + i;
    }
    abort(); /* MAX_FDS is too small */
}

static bool is_open(int fd)
{
    return fd >= FIRST_FD && fd < FIRST_FD + MAX_FDS && fds[fd - FIRST_FD];
}

int __wrap_eventfd(unsigned int count, int flags)
{
    (void)count, (void)flags;
    return open_fd();
}

int __wrap_epoll_create1(int flags)
{
    (void)flags;
    return open_fd();
}

/* Nothing: the loop that would wait is in the fuzzer, which knows when there is work. */
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    (void)operation, (void)event;
    PROMISE(is_open(epoll_fd) && is_open(fd));
    return 0;
}

ssize_t __wrap_write(int fd, const void *from, size_t size)
{
    PROMISE(is_open(fd) && from != NULL && size == sizeof(uint64_t));
    return (ssize_t)size;
}

int __wrap_close(int fd)
{
    PROMISE(is_open(fd));
    fds[fd - FIRST_FD] = false;
    return 0;
}

/* ---- random numbers ------------------------------------------------------------------------------------------- */

/* Repeats its numbers in each run, so that an input does one thing whenever it runs (SplitMix64). */
ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags)
{
    (void)flags;
    PROMISE(size % sizeof(uint64_t) == 0);
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t value = random_state += UINT64_C(0x9e3779b97f4a7c15);
        value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
        value ^= value >> 31;
        memcpy((uint8_t *)to + at, &value, sizeof(value));
    }
    return (ssize_t)size;
}

#pragma clang attribute pop
