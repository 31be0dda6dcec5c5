/* Marks of the program in time, on their way to the time line of the host's control system: kept for a moment, so that
 * many go in one request, and left out and counted when they are more than the host would take. */
#include <time.h>

#include "runtime.h"

enum { KEEP_NS = 100 * 1000 * 1000, SECOND_NS = 1000 * 1000 * 1000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all that follows; nothing is locked before it */
static struct vgc_marks kept;
static _Atomic uint64_t oldest_ns; /* when the first of `kept` came; 0: nothing is kept */
static uint64_t second_ns;         /* when the second began in which `num_taken` marks came */
static uint32_t num_taken;

uint64_t rt_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* The first device that the program has opened; a program that uses none has no time line. */
static struct vgc_device *find_device(void)
{
    for (int i = 0; i < rt_opened_devices(); i++) {
        struct vgc_device *device = atomic_load(&rt_device_at(i)->device);
        if (device != NULL)
            return device;
    }
    return NULL;
}

/* With the mutex. */
static void send(struct vgc_device *device)
{
    if (device != NULL && kept.count > 0 && vgc_marks_send(device, &kept) == VGC_OK)
        atomic_store_explicit(&oldest_ns, 0, memory_order_relaxed);
}

/* Is there room for one more in this second? With the mutex. */
static bool take_turn(uint64_t now_ns)
{
    if (now_ns - second_ns >= SECOND_NS) {
        second_ns = now_ns;
        num_taken = 0;
    }
    return num_taken++ < VGC_MARKS_AT_ONCE;
}

void rt_note_mark(const struct vgc_mark_info *mark)
{
    if (rt_is_forked)
        return;
    uint64_t now_ns = mark->end_ns;
    (void)pthread_mutex_lock(&mutex);
    if (!take_turn(now_ns)) {
        kept.dropped++;
    } else if (!vgc_marks_add(&kept, mark)) {
        send(find_device());
        if (!vgc_marks_add(&kept, mark))
            kept.dropped++;
    }
    uint64_t none = 0;
    (void)atomic_compare_exchange_strong(&oldest_ns, &none, now_ns);
    (void)pthread_mutex_unlock(&mutex);
    rt_marks_settle();
}

void rt_marks_settle(void)
{
    uint64_t since_ns = atomic_load_explicit(&oldest_ns, memory_order_relaxed);
    if (since_ns == 0 || rt_is_forked || rt_clock_ns() - since_ns < KEEP_NS)
        return;
    (void)pthread_mutex_lock(&mutex);
    send(find_device());
    (void)pthread_mutex_unlock(&mutex);
}

void rt_marks_end(struct vgc_device *device)
{
    (void)pthread_mutex_lock(&mutex);
    send(device);
    (void)pthread_mutex_unlock(&mutex);
}
