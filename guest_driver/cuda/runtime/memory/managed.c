/* Managed memory: device memory, and memory of this process at the same address, with the data on one side or both.
 *
 * The process's pages are those of a memfd that is mapped twice: for the program, with the access that the state of a
 * granule allows, and for this file, always readable and writable (`alias`), so that other threads never see a granule
 * that is half filled. Work of the device takes everything along; the host gets it back when it looks (faults.c), in
 * runs of granules that grow, or at a synchronisation if it is small: system calls do not fault, they fail.
 *
 * As on GPUs without concurrentManagedAccess, only that a host that looks while the device works waits. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "managed.h"

enum { LARGE_BLOCK = 1 << 20, LARGE_GRANULE = 64 << 10, EAGER_BYTES = 1 << 20, LONGEST_RUN = 8 << 20 };
enum { SMALL_RUN = 64 << 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken before the addresses' and a device's */
static _Thread_local unsigned depth;                     /* of this thread's holding it */
static struct rt_block *blocks;
static _Atomic size_t num_blocks;
static _Atomic uint64_t sequence; /* of work sent */
static uint64_t last_work[RT_MAX_DEVICES][RT_MAX_STREAMS];
static uint32_t own_stream[RT_MAX_DEVICES]; /* + 1: of the device, for moving data */
static uint32_t own_contexts[RT_MAX_DEVICES];
static bool sent_detached[RT_MAX_DEVICES]; /* in stream 0, and other streams have not waited for it */
static pid_t owner;                        /* a child of fork() has none of this memory */

void rt_managed_lock(void)
{
    if (depth++ == 0)
        (void)pthread_mutex_lock(&lock);
}

void rt_managed_unlock(void)
{
    if (--depth == 0)
        (void)pthread_mutex_unlock(&lock);
}

struct rt_block *rt_managed_block(const void *address)
{
    for (struct rt_block *block = blocks; block != NULL; block = block->next)
        if ((uintptr_t)address - (uintptr_t)block->begin < block->size)
            return block;
    return NULL;
}

/* ---- states --------------------------------------------------------------------------------- */

static const int PROTECTIONS[] = {
    [RT_ON_HOST] = PROT_READ | PROT_WRITE, [RT_SHARED] = PROT_READ, [RT_ON_DEVICE] = PROT_NONE};

/* Gives granules [first, end) to a side. False: they stay. */
static bool set_state(struct rt_block *block, size_t first, size_t end, enum rt_holder state)
{
    size_t from = first * block->granule;
    size_t to = RT_MIN(end * block->granule, block->size);
    if (mprotect(block->begin + from, to - from, PROTECTIONS[state]) != 0)
        return false; /* more mappings than the kernel allows a process */
    for (size_t i = first; i < end; i++)
        block->count[block->sides[i]]--;
    memset(block->sides + first, state, end - first);
    block->count[state] += end - first;
    return true;
}

static size_t run_end(const struct rt_block *block, size_t first, size_t limit)
{
    size_t end = first + 1;
    while (end < limit && block->sides[end] == block->sides[first])
        end++;
    return end;
}

/* ---- moving --------------------------------------------------------------------------------- */

/* Stream for copies that must not wait for kernels. With the default stream alone, its order does. */
static uint32_t moving_stream(struct rt_device *device, bool *must_wait)
{
    struct vgc_device *opened = atomic_load(&device->device);
    uint32_t *own = &own_stream[device->ordinal];
    *must_wait = device->streams != NULL;
    if (!*must_wait)
        return 0;
    if (*own == 0 || own_contexts[device->ordinal] != device->contexts) {
        uint32_t number;
        *own = vgc_stream_create(opened, &number) == VGC_OK ? number + 1 : 1;
        own_contexts[device->ordinal] = device->contexts;
    }
    return *own - 1;
}

static int send_span(struct rt_block *block, size_t from, size_t to, bool zeroes)
{
    bool must_wait;
    uint32_t stream = moving_stream(block->device, &must_wait);
    struct vgc_device *opened = atomic_load(&block->device->device);
    must_wait |= rt_falls_back(); /* and knows that the data have come, if the device is lost */
    struct vgc_job **job = must_wait ? NULL : VGC_DETACHED;
    uint64_t address = (uint64_t)(uintptr_t)block->begin + from;
    sent_detached[block->device->ordinal] |= !must_wait;
    if (zeroes)
        return vgc_fill(opened, address, 0, 1, to - from, stream, job);
    return vgc_copy_in(opened, address, block->alias + from, to - from, stream, job);
}

static int send(struct rt_block *block, size_t from, size_t to, bool zeroes)
{
    if (block->spans == NULL)
        return send_span(block, from, to, zeroes);
    int result = VGC_OK;
    for (size_t i = 0; i < block->num_spans && result == VGC_OK; i++) {
        size_t begin = RT_MAX(from, block->spans[i].from);
        size_t end = RT_MIN(to, block->spans[i].to);
        if (begin < end)
            result = send_span(block, begin, end, zeroes);
    }
    return result;
}

static int fetch(struct rt_block *block, struct vgc_device *opened, size_t from, size_t to)
{
    bool must_wait;
    const struct rt_span all = {from, to};
    const struct rt_span *spans = block->spans != NULL ? block->spans : &all;
    uint32_t stream = moving_stream(block->device, &must_wait);
    int result = VGC_OK;
    for (size_t i = 0; i < (block->spans != NULL ? block->num_spans : 1) && result == VGC_OK; i++) {
        size_t begin = RT_MAX(from, spans[i].from);
        size_t end = RT_MIN(to, spans[i].to);
        if (begin < end)
            result = vgc_copy_out(opened, block->alias + begin, (uint64_t)(uintptr_t)block->begin + begin, end - begin,
                                  stream, NULL);
    }
    return result;
}

/* Bytes [from, to) of a block that nobody but the host has used: what was never written is a hole of the file. */
static int send_fresh(struct rt_block *block, size_t from, size_t to)
{
    int result = VGC_OK;
    while (from < to && result == VGC_OK) {
        off_t data = lseek(block->fd, (off_t)from, SEEK_DATA);
        size_t begin = data < 0 ? to : RT_MIN((size_t)data, to);
        if (begin > from)
            result = send(block, from, begin, true);
        off_t hole = begin < to ? lseek(block->fd, (off_t)begin, SEEK_HOLE) : (off_t)to;
        size_t end = hole < 0 ? to : RT_MIN((size_t)hole, to);
        if (result == VGC_OK && end > begin)
            result = send(block, begin, end, false);
        from = RT_MAX(begin, end);
    }
    return result;
}

/* Makes granules [first, end) the same on both sides or, with `take`, the device's alone. */
static cudaError_t push(struct rt_block *block, size_t first, size_t end, bool take)
{
    if (block->is_spare)
        return cudaSuccess;
    for (size_t at = first; at < end && block->count[RT_ON_HOST] > 0;) {
        size_t next = run_end(block, at, end);
        if (block->sides[at] == RT_ON_HOST) {
            size_t from = at * block->granule;
            size_t to = RT_MIN(next * block->granule, block->size);
            if (!set_state(block, at, next, RT_SHARED)) /* before reading: other threads may write */
                return rt_explain(cudaErrorOperatingSystem, "mprotect() of managed memory: %s", strerror(errno));
            int result = block->is_fresh ? send_fresh(block, from, to) : send(block, from, to, false);
            if (result != VGC_OK) {
                (void)set_state(block, at, next, RT_ON_HOST);
                return rt_fault(block->device, rt_error(result));
            }
        }
        at = next;
    }
    if (first == 0 && end == block->num_granules)
        block->is_fresh = false;
    if (take && !set_state(block, first, end, RT_ON_DEVICE))
        return rt_explain(cudaErrorOperatingSystem, "mprotect() of managed memory: %s", strerror(errno));
    return cudaSuccess;
}

static bool is_busy(const struct rt_device *device)
{
    for (int i = 0; i < RT_MAX_STREAMS; i++)
        if (last_work[device->ordinal][i] != 0)
            return true;
    return false;
}

void rt_managed_busy(struct rt_device *device)
{
    last_work[device->ordinal][0] = rt_next_turn();
}

cudaError_t rt_managed_push(struct rt_block *block)
{
    return push(block, 0, block->num_granules, true);
}

bool rt_managed_keep(struct rt_block *block)
{
    block->is_spare = set_state(block, 0, block->num_granules, RT_ON_HOST);
    return block->is_spare;
}

static void wait_for(struct rt_device *device)
{
    struct vgc_device *opened = atomic_load(&device->device);
    if (opened == NULL || !is_busy(device))
        return;
    (void)vgc_synchronize(opened);
    memset(last_work[device->ordinal], 0, sizeof(last_work[0]));
}

/* Brings granules [first, end), which are the device's, to the host. If the device has failed, the host goes on with
 * what it last had: the program's next call tells. */
static bool pull(struct rt_block *block, size_t first, size_t end, enum rt_holder state)
{
    size_t from = first * block->granule;
    size_t to = RT_MIN(end * block->granule, block->size);
    struct vgc_device *opened = atomic_load(&block->device->device);
    if (opened != NULL && block->contexts == block->device->contexts) {
        int result = fetch(block, opened, from, to);
        if (result != VGC_OK) {
            atomic_store(&block->device->has_lost_work, true);
            (void)rt_fault(block->device, rt_error(result));
        }
    }
    return set_state(block, first, end, state);
}

/* Brings all that kernels may have changed to the host, and shows it to `vgc shadow`. */
static void show(struct rt_device *device)
{
    for (struct rt_block *block = blocks; block != NULL; block = block->next) {
        if (block->device != device || block->count[RT_ON_DEVICE] == 0)
            continue;
        for (size_t at = 0, next; at < block->num_granules; at = next) {
            next = run_end(block, at, block->num_granules);
            if (block->sides[at] == RT_ON_DEVICE && !pull(block, at, next, RT_SHARED))
                return;
        }
        for (size_t i = 0; i < block->num_spans; i++)
            rt_shadow_copied(block->alias + block->spans[i].from, block->spans[i].to - block->spans[i].from);
        if (block->spans == NULL)
            rt_shadow_copied(block->alias, block->size);
    }
}

/* ---- the host looks ------------------------------------------------------------------------- */

/* Granules to treat at once: more each time, while the program goes on where the last ones ended. */
static size_t run_length(struct rt_block *block, size_t first)
{
    size_t least = RT_MAX((size_t)SMALL_RUN / block->granule, (size_t)1);
    size_t most = LONGEST_RUN / block->granule;
    block->ahead = first == block->expected ? RT_MIN(block->ahead * 2, most) : least;
    return block->ahead;
}

static bool resolve(void *address, bool writes)
{
    if (depth > 0 || num_blocks == 0 || getpid() != owner)
        return false;
    rt_managed_lock();
    struct rt_block *block = rt_managed_block(address);
    bool resolved = block != NULL;
    size_t first = resolved ? (size_t)((uint8_t *)address - block->begin) / block->granule : 0;
    if (resolved && block->sides[first] != RT_ON_HOST) {        /* else another thread was faster */
        const size_t wanted = first + run_length(block, first); /* which grows with each call */
        const size_t end = run_end(block, first, RT_MIN(wanted, block->num_granules));
        block->expected = end;
        if (block->sides[first] == RT_SHARED) {
            resolved = set_state(block, first, end, RT_ON_HOST);
        } else {
            wait_for(block->device);
            if (rt_is_shadowed())
                show(block->device);
            resolved = block->sides[first] != RT_ON_DEVICE || pull(block, first, end, writes ? RT_ON_HOST : RT_SHARED);
        }
    }
    rt_managed_unlock();
    return resolved;
}

void rt_managed_watch(void)
{
    rt_managed_lock();
    owner = getpid();
    rt_faults_install(resolve);
    rt_managed_unlock();
}

/* ---- the device works ------------------------------------------------------------------------- */

static void note_work(struct rt_device *device, uint32_t stream)
{
    if (stream != 0 && sent_detached[device->ordinal]) {
        (void)vgc_stream_synchronize(atomic_load(&device->device), 0);
        sent_detached[device->ordinal] = false;
    }
    last_work[device->ordinal][stream % RT_MAX_STREAMS] = rt_next_turn();
}

cudaError_t rt_managed_enter(struct rt_device *device, uint32_t stream)
{
    cudaError_t error = cudaSuccess;
    if (atomic_load(&num_blocks) == 0 && depth == 0)
        return cudaSuccess;
    rt_managed_lock();
    note_work(device, stream);
    for (struct rt_block *block = blocks; block != NULL && error == cudaSuccess; block = block->next)
        if (block->device == device && block->count[RT_ON_DEVICE] < block->num_granules)
            error = push(block, 0, block->num_granules, true);
    rt_faults_install(resolve);
    return error;
}

cudaError_t rt_managed_enter_span(struct rt_device *device, const void *memory, size_t size, bool writes,
                                  uint32_t stream)
{
    if (atomic_load(&num_blocks) == 0 && depth == 0)
        return cudaSuccess;
    rt_managed_lock();
    struct rt_block *block = rt_managed_block(memory);
    if (block == NULL || block->device != device || size == 0)
        return cudaSuccess;
    note_work(device, stream);
    size_t offset = (size_t)((const uint8_t *)memory - block->begin);
    size_t end = RT_MIN(offset + size, block->size);
    rt_faults_install(resolve);
    return push(block, offset / block->granule, (end + block->granule - 1) / block->granule, writes);
}

void rt_managed_leave(void)
{
    if (depth > 0)
        rt_managed_unlock();
}

/* ---- synchronisation ------------------------------------------------------------------------ */

uint64_t rt_mark(void)
{
    return atomic_load(&sequence);
}

uint64_t rt_next_turn(void)
{
    return atomic_fetch_add(&sequence, 1) + 1;
}

/* Brings small blocks to the host. */
static void pull_eagerly(struct rt_device *device)
{
    size_t left = EAGER_BYTES;
    for (struct rt_block *block = blocks; block != NULL; block = block->next) {
        if (block->device != device || block->is_adopted || block->count[RT_ON_DEVICE] == 0 || block->size > left)
            continue;
        left -= block->size;
        for (size_t at = 0, next; at < block->num_granules; at = next) {
            next = run_end(block, at, block->num_granules);
            if (block->sides[at] == RT_ON_DEVICE && !pull(block, at, next, RT_SHARED))
                return;
        }
    }
}

void rt_managed_settle(struct rt_device *device, int stream, uint64_t mark)
{
    if (atomic_load(&num_blocks) == 0 || depth > 0)
        return;
    rt_managed_lock();
    uint64_t *last = last_work[device->ordinal];
    for (int i = 0; i < RT_MAX_STREAMS; i++)
        if ((stream == RT_ALL_STREAMS || stream == i) && last[i] <= mark)
            last[i] = 0;
    if (!is_busy(device) && atomic_load(&device->sticky) == cudaSuccess)
        rt_is_shadowed() ? show(device) : pull_eagerly(device);
    rt_managed_unlock();
}

cudaError_t rt_managed_prefetch(struct rt_device *device, const void *memory, size_t size, bool to_device,
                                uint32_t stream)
{
    if (to_device) {
        cudaError_t error = rt_managed_enter_span(device, memory, size, false, stream);
        rt_managed_leave();
        return error;
    }
    rt_managed_lock();
    struct rt_block *block = rt_managed_block(memory);
    size_t at = block == NULL ? 0 : (size_t)((const uint8_t *)memory - block->begin) / block->granule;
    size_t end = block == NULL
                     ? 0
                     : ((size_t)((const uint8_t *)memory - block->begin) + size + block->granule - 1) / block->granule;
    bool done = true;
    if (rt_is_shadowed()) {
        wait_for(device);
        show(device);
    }
    for (size_t next; at < end && done; at = next) {
        next = run_end(block, at, end);
        if (block->sides[at] != RT_ON_DEVICE)
            continue;
        wait_for(device);
        done = pull(block, at, next, RT_SHARED);
    }
    rt_managed_unlock();
    return done ? cudaSuccess : cudaErrorOperatingSystem;
}

/* ---- allocations ---------------------------------------------------------------------------- */

void rt_managed_add(struct rt_block *block)
{
    rt_managed_lock();
    owner = getpid();
    block->next = blocks;
    blocks = block;
    (void)atomic_fetch_add(&num_blocks, 1);
    rt_faults_install(resolve);
    rt_managed_unlock();
}

void rt_managed_remove(struct rt_block *block)
{
    rt_managed_lock();
    for (struct rt_block **at = &blocks; *at != NULL; at = &(*at)->next) {
        if (*at == block) {
            *at = block->next;
            (void)atomic_fetch_sub(&num_blocks, 1);
            break;
        }
    }
    rt_managed_unlock();
}

struct rt_block *rt_managed_first(const struct rt_device *device)
{
    struct rt_block *block = blocks;
    while (block != NULL && block->device != device)
        block = block->next;
    return block;
}

size_t rt_managed_granule(size_t size)
{
    return size >= LARGE_BLOCK ? (size_t)LARGE_GRANULE : (size_t)sysconf(_SC_PAGESIZE);
}
