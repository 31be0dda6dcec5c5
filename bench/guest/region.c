/* Measures memory of the region from within a guest, through libvgc.
 *
 *     region ROUNDS
 *
 * Prints lines "NAME NUMBER": touch_ns and faults once, for the first touch of each page of TOUCHED bytes; copy_in_ns,
 * copy_out_ns and read_ns once per round, for COPIED bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "clock.h"
#include "vgc.h"

enum { TOUCHED = 16 << 20, COPIED = 8 << 20, PAGE = 4096 };

static void must(int result, const char *what)
{
    if (result != VGC_OK) {
        fprintf(stderr, "%s: %s\n", what, vgc_last_error());
        exit(1);
    }
}

static long faults(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void touch(volatile uint8_t *memory)
{
    long before = faults();
    uint64_t start = vgcb_now_ns();
    for (size_t at = 0; at < TOUCHED; at += PAGE)
        memory[at] = 1;
    printf("touch_ns %llu\nfaults %ld\n", (unsigned long long)(vgcb_now_ns() - start), faults() - before);
}

static void read_all(const volatile uint64_t *words)
{
    uint64_t start = vgcb_now_ns();
    for (size_t at = 0; at < COPIED / sizeof(*words); at++)
        (void)words[at];
    printf("read_ns %llu\n", (unsigned long long)(vgcb_now_ns() - start));
}

static void copy(struct vgc_device *device, void *memory, uint64_t address)
{
    uint64_t start = vgcb_now_ns();
    must(vgc_copy_in(device, address, memory, COPIED, 0, NULL), "copy in");
    uint64_t middle = vgcb_now_ns();
    must(vgc_copy_out(device, memory, address, COPIED, 0, NULL), "copy out");
    printf("copy_in_ns %llu\ncopy_out_ns %llu\n", (unsigned long long)(middle - start),
           (unsigned long long)(vgcb_now_ns() - middle));
}

int main(int argc, char **argv)
{
    struct vgc_device *device;
    void *memory;
    uint64_t address;
    if (argc != 2) {
        fprintf(stderr, "usage: %s ROUNDS\n", argv[0]);
        return 2;
    }
    must(vgc_open(NULL, &device), "open");
    must(vgc_region_alloc(device, TOUCHED, &memory), "region");
    must(vgc_alloc(device, COPIED, &address), "alloc");
    touch(memory);
    for (long i = 0; i < strtol(argv[1], NULL, 10); i++) {
        copy(device, memory, address);
        read_all(memory);
    }
    vgc_region_free(device, memory);
    vgc_close(device);
    return 0;
}
