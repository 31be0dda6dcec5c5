/* Measures null requests through libvgc, in the guest. Prints one time in ns per line.
 *
 *     null polled|sleeping COUNT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "vgc.h"

enum { WARM_UP = 100, REST_NS = 1000000 }; /* rest: until the device sleeps as well */

static void must(int result, const char *what)
{
    if (result != VGC_OK) {
        fprintf(stderr, "%s: %s\n", what, vgc_last_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3 || (strcmp(argv[1], "polled") != 0 && strcmp(argv[1], "sleeping") != 0)) {
        fprintf(stderr, "usage: %s polled|sleeping COUNT\n", argv[0]);
        return 2;
    }
    struct vgc_options options;
    vgc_options_init(&options);
    options.spin_ns = strcmp(argv[1], "polled") == 0 ? UINT64_MAX : 1;
    struct vgc_device *device = NULL;
    must(vgc_open(&options, &device), "open");
    long count = strtol(argv[2], NULL, 10);
    for (long i = -WARM_UP; i < count; i++) {
        if (options.spin_ns != UINT64_MAX)
            vgcb_rest(REST_NS);
        uint64_t start = vgcb_now_ns();
        must(vgc_nop(device, 0, NULL), "nop");
        if (i >= 0)
            printf("%llu\n", (unsigned long long)(vgcb_now_ns() - start));
    }
    vgc_close(device);
    return 0;
}
