/* A guest's program for the tests on Windows, which also runs on Linux:
 *
 *     guest open | copy BYTES | hold | trips COUNT REST_US | threads COUNT | processes
 *
 * It writes a line for each step, and the name of what failed with the library's message. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vgc.h"

enum { THREADS = 4 };

static void must(int result, const char *what)
{
    if (result == VGC_OK)
        return;
    printf("%s: %s: %s\n", what, vgc_result_name(result), vgc_last_error());
    exit(1);
}

static void say(const char *word)
{
    printf("%s\n", word);
    fflush(stdout);
}

static struct vgc_device *open_device_that_spins(unsigned spin_ns)
{
    struct vgc_device *device;
    struct vgc_options options;
    vgc_options_init(&options);
    options.spin_ns = spin_ns;
    must(vgc_open(&options, &device), "open");
    return device;
}

static struct vgc_device *open_device(void)
{
    return open_device_that_spins(0); /* as long as the library thinks best */
}

static void copy(size_t bytes)
{
    struct vgc_device *device = open_device();
    unsigned char *out = malloc(bytes), *back = calloc(bytes, 1);
    uint64_t address;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(i * 7 + i / 251);
    must(vgc_alloc(device, bytes, &address), "alloc");
    must(vgc_copy_in(device, address, out, bytes, 0, NULL), "copy in");
    must(vgc_copy_out(device, back, address, bytes, 0, NULL), "copy out");
    must(vgc_free(device, address), "free");
    vgc_close(device);
    say(memcmp(out, back, bytes) == 0 ? "right" : "wrong");
}

/* Leaves what it holds to the next process if it is killed. */
static void hold(void)
{
    struct vgc_device *device = open_device();
    uint64_t address;
    char line[16];
    must(vgc_alloc(device, 4096, &address), "alloc");
    say("up");
    (void)!fgets(line, sizeof(line), stdin);
    must(vgc_nop(device, 0, NULL), "nop");
    vgc_close(device);
    say("closed");
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + (double)now.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Prints the median of `count` round trips; with a rest before each, both sides sleep until they are woken. */
static void trips(unsigned count, unsigned rest_us)
{
    const struct timespec rest = {0, 1000 * (long)rest_us};
    double *us = calloc(count + 1, sizeof(*us));
    struct vgc_device *device = open_device_that_spins(rest_us != 0 ? 1 : 0);
    for (unsigned i = 0; i < count / 10; i++)
        must(vgc_nop(device, 0, NULL), "nop");
    for (unsigned i = 0; i < count; i++) {
        if (rest_us != 0)
            (void)nanosleep(&rest, NULL);
        double begin = now_us();
        must(vgc_nop(device, 0, NULL), "nop");
        us[i] = now_us() - begin;
    }
    vgc_close(device);
    qsort(us, count, sizeof(*us), by_size);
    printf("%.1f us\n", us[count / 2]);
    free(us);
}

struct work {
    struct vgc_device *device;
    unsigned count;
};

static void *send_many(void *data)
{
    struct work *work = data;
    for (unsigned i = 0; i < work->count; i++)
        must(vgc_nop(work->device, 0, NULL), "nop");
    return NULL;
}

static void threads(unsigned count)
{
    pthread_t all[THREADS];
    struct work work = {open_device(), count};
    for (int i = 0; i < THREADS; i++)
        pthread_create(&all[i], NULL, send_many, &work);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    vgc_close(work.device);
    say("done");
}

static void processes(void)
{
    struct vgc_process all[8];
    size_t count;
    struct vgc_device *device = open_device();
    must(vgc_processes(device, all, 8, &count), "processes");
    printf("%zu\n", count);
    vgc_close(device);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    unsigned number = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    if (strcmp(verb, "copy") == 0) {
        copy(number);
    } else if (strcmp(verb, "hold") == 0) {
        hold();
    } else if (strcmp(verb, "trips") == 0) {
        trips(number, argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0);
    } else if (strcmp(verb, "threads") == 0) {
        threads(number);
    } else if (strcmp(verb, "processes") == 0) {
        processes();
    } else {
        vgc_close(open_device());
        say("opened");
    }
    return 0;
}
