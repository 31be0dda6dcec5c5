/* Measures copies through libvgc of sixteen times the region, in one call, beside copies that fit: parts of half the
 * region, one after the other, of the same memory.
 *
 *     copies ROUNDS
 *
 * Prints lines "NAME SUBJECT NANOSECONDS", one per round, direction and subject: in or out, whole or parts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "vgc.h"

enum { TIMES = 16 };

struct sides {
    struct vgc_device *device;
    uint64_t address;
    uint8_t *host;
    uint64_t size;
};

static void must(int result, const char *what)
{
    if (result != VGC_OK) {
        fprintf(stderr, "%s: %s\n", what, vgc_last_error());
        exit(1);
    }
}

static void copy(const struct sides *sides, const char *direction, const char *subject, uint64_t part)
{
    uint64_t start = vgcb_now_ns();
    for (uint64_t at = 0; at < sides->size; at += part) {
        if (strcmp(direction, "in") == 0)
            must(vgc_copy_in(sides->device, sides->address + at, sides->host + at, part, 0, NULL), "copy in");
        else
            must(vgc_copy_out(sides->device, sides->host + at, sides->address + at, part, 0, NULL), "copy out");
    }
    printf("%s %s %llu\n", direction, subject, (unsigned long long)(vgcb_now_ns() - start));
}

static void fill(const struct sides *sides, uint32_t seed)
{
    for (uint64_t at = 0; at + sizeof(seed) <= sides->size; at += sizeof(seed)) {
        seed = seed * 1664525 + 1013904223;
        memcpy(sides->host + at, &seed, sizeof(seed));
    }
}

/* Do all bytes come back that were sent? */
static void check(const struct sides *sides)
{
    struct sides back = *sides;
    back.host = calloc(1, sides->size);
    if (back.host == NULL)
        exit(1);
    fill(sides, 1);
    must(vgc_copy_in(sides->device, sides->address, sides->host, sides->size, 0, NULL), "copy in");
    must(vgc_copy_out(sides->device, back.host, sides->address, sides->size, 0, NULL), "copy out");
    if (memcmp(sides->host, back.host, sides->size) != 0) {
        fprintf(stderr, "what comes back is not what was sent\n");
        exit(1);
    }
    free(back.host);
}

int main(int argc, char **argv)
{
    struct vgc_info info;
    struct sides sides;
    if (argc != 2) {
        fprintf(stderr, "usage: %s ROUNDS\n", argv[0]);
        return 2;
    }
    must(vgc_open(NULL, &sides.device), "open");
    must(vgc_info(sides.device, &info), "info");
    sides.size = TIMES * info.region_bytes;
    sides.host = malloc(sides.size);
    must(vgc_alloc(sides.device, sides.size, &sides.address), "alloc");
    if (sides.host == NULL)
        return 1;
    check(&sides);
    for (long i = 0; i <= strtol(argv[1], NULL, 10); i++) {
        for (int out = 0; out < 2; out++) {
            copy(&sides, out != 0 ? "out" : "in", "whole", sides.size);
            copy(&sides, out != 0 ? "out" : "in", "parts", info.region_bytes / 2);
        }
    }
    free(sides.host);
    vgc_close(sides.device);
    return 0;
}
