/* The two races behind every lost wake-up, run again and again with no system call in between:
 *
 *   driver: add, should_kick        device: enable_kick         one of the two must see the other
 *   device: push, should_call       driver: enable_call
 *
 * argv: rounds, EVENT_IDX (0 or 1). Prints how often each outcome was seen.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "vgc_vring.h"

enum { NUM = 8, REGION = 1 << 14, AVAIL = 0x1000, USED = 0x2000, DATA = 0x3000 };
static const uint64_t GPA = 0x10000;

static struct vgc_vq_device device;
static struct vgc_vq_driver driver;
static struct vgc_mem mem;
static struct vgc_chain chain;
static uint64_t rounds;
static bool seen_by_device; /* what the device's thread saw in this round */
static _Alignas(64) atomic_uint_fast64_t gate;

/* Both threads leave it at about the same time. */
static void meet(uint64_t *passed)
{
    uint32_t spins = 0;
    *passed += 2;
    atomic_fetch_add(&gate, 1);
    while (atomic_load_explicit(&gate, memory_order_acquire) < *passed)
        if (++spins % 1024 == 0)
            sched_yield();
}

static void *device_main(void *unused)
{
    uint64_t passed = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        meet(&passed);
        seen_by_device = vgc_vq_enable_kick(&device);
        meet(&passed); /* the driver's thread judges, and pops the chain */
        meet(&passed);
        vgc_vq_push(&device, chain.head, 0);
        seen_by_device = vgc_vq_should_call(&device);
        meet(&passed);
    }
    return unused;
}

static void must(bool kept, const char *promise)
{
    if (!kept) {
        fprintf(stderr, "%s\n", promise);
        exit(1);
    }
}

static void driver_main(uint64_t outcomes[4])
{
    struct vgc_sg sg = {GPA + DATA, 16};
    uint64_t passed = 0;
    void *token;
    uint32_t len;
    for (uint64_t i = 0; i < rounds; i++) {
        meet(&passed);
        vgc_vq_add(&driver, &sg, 1, 0, NULL, 0, NULL);
        bool kick = vgc_vq_should_kick(&driver);
        meet(&passed);
        must(kick || seen_by_device, "a chain was added: no kick, and the device fell asleep");
        outcomes[kick]++;
        must(vgc_vq_pop(&device, &mem, &chain) == 1, "pop");
        vgc_vq_disable_kick(&device);

        meet(&passed);
        bool used = vgc_vq_enable_call(&driver);
        meet(&passed);
        must(used || seen_by_device, "a chain was returned: no call, and the driver fell asleep");
        outcomes[2 + used]++;
        must(vgc_vq_take(&driver, &token, &len) == 1, "take");
        vgc_vq_disable_call(&driver);
    }
}

int main(int argc, char **argv)
{
    must(argc == 3, "usage: lost_wakeups ROUNDS EVENT_IDX");
    rounds = strtoull(argv[1], NULL, 0);
    bool event_idx = atoi(argv[2]);
    uint8_t *region = aligned_alloc(4096, REGION);
    __builtin_memset(region, 0, REGION);
    mem = (struct vgc_mem){1, {{GPA, GPA, REGION, region}}};
    struct vgc_ring ring = {(void *)region, (void *)(region + AVAIL), (void *)(region + USED), NUM};
    must(!vgc_vq_driver_init(&driver, ring, event_idx), "driver init");
    must(!vgc_vq_device_init(&device, &mem, NUM, GPA, GPA + AVAIL, GPA + USED, 0, event_idx, true), "device init");
    vgc_vq_disable_kick(&device);
    vgc_vq_disable_call(&driver);
    pthread_t thread;
    must(!pthread_create(&thread, NULL, device_main, NULL), "pthread_create");
    uint64_t outcomes[4] = {0};
    driver_main(outcomes);
    pthread_join(thread, NULL);
    for (int i = 0; i < 4; i++)
        printf("%llu ", (unsigned long long)outcomes[i]);
    printf("\n");
    free(region);
    return 0;
}
