/* Both sides of a ring in two threads that sleep whenever they may: a lost wake-up, a torn entry or a missing barrier
 * shows as a wait that nobody ends, or as a wrong token. Prints the number of sleeps of each side.
 *
 * argv: requests, EVENT_IDX (0 or 1)
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vgc_vring.h"

enum { NUM = 16, REGION = 1 << 16, AVAIL = 0x1000, USED = 0x2000, DATA = 0x4000, HANG_MS = 20000 };
static const uint64_t GPA = 0x10000;

static struct vgc_vq_device device;
static struct vgc_vq_driver driver;
static struct vgc_mem mem;
static uint8_t *region;
static int kick_fd, call_fd;
static uint64_t requests;

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void ring_bell(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof(one)) != sizeof(one))
        die("eventfd");
}

static void sleep_on(int fd, const char *who)
{
    uint64_t count;
    struct pollfd event = {fd, POLLIN, 0};
    if (poll(&event, 1, HANG_MS) != 1 || read(fd, &count, sizeof(count)) != sizeof(count))
        die(who);
}

/* Adds one to the number that each request carries. */
static void serve(const struct vgc_chain *chain)
{
    uint64_t value;
    if (chain->num_readable != 1 || chain->num_writable != 1)
        die("the device popped a chain that nobody added");
    __builtin_memcpy(&value, chain->spans[0].base, sizeof(value));
    value++;
    __builtin_memcpy(chain->spans[1].base, &value, sizeof(value));
}

static void *device_main(void *unused)
{
    static struct vgc_chain chain;
    uint64_t *sleeps = unused;
    for (uint64_t done = 0; done < requests;) {
        int result = vgc_vq_pop(&device, &mem, &chain);
        if (result == 1) {
            serve(&chain);
            vgc_vq_push(&device, chain.head, sizeof(uint64_t));
            done++;
            if (vgc_vq_should_call(&device))
                ring_bell(call_fd);
        } else if (result < 0) {
            die("the device found a bad chain");
        } else if (!vgc_vq_enable_kick(&device)) {
            sleep_on(kick_fd, "the device sleeps and nobody kicks");
            ++*sleeps;
        }
    }
    return NULL;
}

/* Request `serial` has a slot of the region of its own. */
static bool add(uint64_t serial)
{
    uint64_t slot = DATA + serial % NUM * 64;
    struct vgc_sg sg[] = {{GPA + slot, 8}, {GPA + slot + 32, 8}};
    if (driver.num_free < 2)
        return false;
    __builtin_memcpy(region + slot, &serial, sizeof(serial));
    if (vgc_vq_add(&driver, sg, 1, 1, NULL, 0, (void *)serial) < 0)
        die("add");
    return true;
}

static int take(uint64_t expected)
{
    void *token;
    uint32_t len;
    uint64_t value;
    int result = vgc_vq_take(&driver, &token, &len);
    if (result < 1)
        return result;
    __builtin_memcpy(&value, region + DATA + (uint64_t)token % NUM * 64 + 32, sizeof(value));
    if ((uint64_t)token != expected || len != sizeof(value) || value != expected + 1)
        die("the driver took something else than the device pushed");
    return 1;
}

static uint64_t driver_main(void)
{
    uint64_t sleeps = 0, added = 0, taken = 0;
    while (taken < requests) {
        uint64_t burst = 1 + added % 5;
        while (burst-- > 0 && added < requests && add(added))
            added++;
        if (vgc_vq_should_kick(&driver))
            ring_bell(kick_fd);
        int result;
        while ((result = take(taken)) == 1)
            taken++;
        if (result < 0)
            die("the driver found a bad used entry");
        bool wait = taken < added && (added == requests || driver.num_free < 2 || added % 3 == 0);
        if (wait && !vgc_vq_enable_call(&driver)) {
            sleep_on(call_fd, "the driver sleeps and nobody calls");
            sleeps++;
        }
    }
    return sleeps;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage: sleeping_sides REQUESTS EVENT_IDX");
    requests = strtoull(argv[1], NULL, 0);
    bool event_idx = atoi(argv[2]);
    region = aligned_alloc(4096, REGION);
    __builtin_memset(region, 0, REGION);
    mem = (struct vgc_mem){1, {{GPA, GPA, REGION, region}}};
    struct vgc_ring ring = {(void *)region, (void *)(region + AVAIL), (void *)(region + USED), NUM};
    if (vgc_vq_driver_init(&driver, ring, event_idx) ||
        vgc_vq_device_init(&device, &mem, NUM, GPA, GPA + AVAIL, GPA + USED, 0, event_idx, true))
        die("init");
    kick_fd = eventfd(0, EFD_CLOEXEC);
    call_fd = eventfd(0, EFD_CLOEXEC);
    pthread_t thread;
    uint64_t device_sleeps = 0;
    if (pthread_create(&thread, NULL, device_main, &device_sleeps))
        die("pthread_create");
    uint64_t driver_sleeps = driver_main();
    pthread_join(thread, NULL);
    printf("%llu %llu\n", (unsigned long long)device_sleeps, (unsigned long long)driver_sleeps);
    free(region);
    return 0;
}
