/* Requests and answers through a ring, as fast as two threads go, with no system call in between: the device checks
 * each word of a request that it pops, the driver each word of an answer that it takes. A descriptor, an entry or a
 * word that is older than the index that led to it ends the program with exit status 1.
 *
 * argv: requests, EVENT_IDX (0 or 1). Prints how often the device and the driver have looked in vain.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "vgc_vring.h"

enum {
    NUM = 16,
    SLOTS = NUM / 2,
    WORDS = 24,
    SLOT = 512,
    AVAIL = 0x1000,
    USED = 0x2000,
    DATA = 0x4000,
    REGION = 0x8000
};
static const uint64_t GPA = 0x10000;

static struct vgc_vq_device device;
static struct vgc_vq_driver driver;
static struct vgc_mem mem;
static uint64_t requests;

static void die(const char *who, uint64_t serial, const char *what)
{
    fprintf(stderr, "%s, at request %llu: %s\n", who, (unsigned long long)serial, what);
    exit(1);
}

static void look_again(uint64_t *looks)
{
    if (++*looks % 256 == 0) /* two threads on one processor get on, too */
        sched_yield();
}

static uint64_t *words_at(uint32_t offset)
{
    return (uint64_t *)(void *)(mem.regions[0].host + DATA + offset);
}

static void fill(uint64_t *words, uint64_t value)
{
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = value + i;
}

static void check(const uint64_t *words, uint64_t value, const char *who, uint64_t serial)
{
    for (uint32_t i = 0; i < WORDS; i++)
        if (words[i] != value + i)
            die(who, serial, "a word is older than the index");
}

/* Requests are numbered from 1 on; the answer is the complement. A chain's length tells its number, too. */
static void *device_main(void *looks)
{
    static struct vgc_chain chain;
    for (uint64_t serial = 1; serial <= requests;) {
        int result = vgc_vq_pop(&device, &mem, &chain);
        if (result == 0) {
            look_again(looks);
            continue;
        }
        if (result < 0 || chain.num_readable != 1 || chain.num_writable != 1 ||
            chain.spans[1].len != WORDS * 8 + (uint32_t)(serial % 64))
            die("device", serial, "a descriptor is older than the index");
        check((const uint64_t *)(const void *)chain.spans[0].base, serial, "device", serial);
        fill((uint64_t *)(void *)chain.spans[1].base, ~serial);
        (void)vgc_vq_push(&device, chain.head, (uint32_t)serial);
        (void)vgc_vq_should_call(&device);
        serial++;
    }
    return NULL;
}

static void add(uint64_t serial)
{
    uint32_t slot = (uint32_t)(serial % SLOTS) * 2 * SLOT;
    const struct vgc_sg sg[] = {{GPA + DATA + slot, WORDS * 8},
                                {GPA + DATA + slot + SLOT, WORDS * 8 + (uint32_t)(serial % 64)}};
    fill(words_at(slot), serial);
    if (vgc_vq_add(&driver, sg, 1, 1, NULL, 0, words_at(slot + SLOT)) < 0)
        die("driver", serial, "no room");
    (void)vgc_vq_should_kick(&driver);
}

static uint64_t driver_main(void)
{
    uint64_t looks = 0, added = 0, taken = 0;
    while (taken < requests) {
        void *token;
        uint32_t len;
        while (added < requests && added - taken < SLOTS)
            add(++added);
        int result = vgc_vq_take(&driver, &token, &len);
        if (result == 0) {
            look_again(&looks);
            continue;
        }
        taken++;
        if (result < 0 || len != (uint32_t)taken)
            die("driver", taken, "a used entry is older than the index");
        check(token, ~taken, "driver", taken);
    }
    return looks;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: message_passing REQUESTS EVENT_IDX\n");
        return 2;
    }
    requests = strtoull(argv[1], NULL, 0);
    bool event_idx = atoi(argv[2]);
    uint8_t *region = aligned_alloc(4096, REGION);
    __builtin_memset(region, 0, REGION);
    mem = (struct vgc_mem){1, {{GPA, GPA, REGION, region}}};
    struct vgc_ring ring = {(void *)region, (void *)(region + AVAIL), (void *)(region + USED), NUM};
    pthread_t thread;
    uint64_t looks = 0;
    if (vgc_vq_driver_init(&driver, ring, event_idx) != 0 ||
        vgc_vq_device_init(&device, &mem, NUM, GPA, GPA + AVAIL, GPA + USED, 0, event_idx, true) != 0 ||
        pthread_create(&thread, NULL, device_main, &looks) != 0)
        die("main", 0, "init");
    uint64_t driver_looks = driver_main();
    pthread_join(thread, NULL);
    printf("%llu %llu\n", (unsigned long long)looks, (unsigned long long)driver_looks);
    free(region);
    return 0;
}
