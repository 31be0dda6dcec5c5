/* Calls a function by its name, on the device or on this VM's CPU, whichever is faster for the size, from C:
 *
 *     cc -I guest_driver/libvgc examples/call_by_name.c -o call_by_name guest_driver/libvgc/build/libvgc.a -pthread
 *     ./call_by_name && vgc explain smooth
 *
 * A call takes its buffers along: one request has inputs, kernel and outputs. Without a device all calls run here.
 */
#include <stdio.h>
#include <stdlib.h>

#include "vgc.h"

enum { MOST = 1 << 20, ROUNDS = 30, BLOCK = 256 };

static const char SOURCE[] = "extern \"C\" __global__ void smooth(int n, const float *x, float *y)\n"
                             "{\n"
                             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < n)\n"
                             "        y[i] = (x[i > 0 ? i - 1 : 0] + 2 * x[i] + x[i + 1 < n ? i + 1 : i]) / 4;\n"
                             "}\n";

/* Local version, for the CPU. It gets the arguments of the call. */
static int smooth(void *user, const struct vgc_geometry *geometry, const struct vgc_arg *args, uint32_t num_args)
{
    (void)user, (void)geometry, (void)num_args;
    int n = *(const int *)args[0].data;
    const float *x = args[1].data;
    float *y = args[2].data;
    for (int i = 0; i < n; i++)
        y[i] = (x[i > 0 ? i - 1 : 0] + 2 * x[i] + x[i + 1 < n ? i + 1 : i]) / 4;
    return 0;
}

static void must(int result, const char *what)
{
    if (result == VGC_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, vgc_last_error());
    exit(1);
}

static struct vgc_choice call(struct vgc_device *device, int n, float *x, float *y)
{
    const struct vgc_choice_options options = {.falls_back = true}; /* go on here if the device is full or lost */
    const struct vgc_geometry geometry = {.grid = {(uint32_t)(n + BLOCK - 1) / BLOCK, 1, 1}, .block = {BLOCK, 1, 1}};
    const struct vgc_arg args[] = {
        {.direction = VGC_ARG_VALUE, .size = sizeof(n), .data = &n},
        {.direction = VGC_ARG_IN, .size = (uint64_t)n * sizeof(float), .data = x},
        {.direction = VGC_ARG_OUT, .size = (uint64_t)n * sizeof(float), .data = y},
    };
    struct vgc_choice choice;
    must(vgc_call_named(device, "smooth", &geometry, args, 3, &options, &choice), "smooth");
    return choice;
}

static bool is_right(int n, const float *y)
{
    for (int i = 1; i + 1 < n; i++)
        if (y[i] != (float)i)
            return false;
    return true;
}

int main(void)
{
    static float x[MOST], y[MOST];
    struct vgc_device *device;
    struct vgc_program *program;
    for (int i = 0; i < MOST; i++)
        x[i] = (float)i;
    if (vgc_open(NULL, &device) == VGC_OK)
        must(vgc_program_load(device, VGC_SOURCE_CUDA, SOURCE, sizeof(SOURCE) - 1, NULL, 0, &program), "compile");
    else
        printf("no device: %s\n", vgc_last_error());
    must(vgc_local_register(device, "smooth", smooth, NULL), "register"); /* without a device it is NULL */
    for (int n = 64; n <= MOST; n *= 4) {
        int on_cpu = 0;
        for (int i = 0; i < ROUNDS; i++) {
            on_cpu += call(device, n, x, y).side == VGC_SIDE_CPU;
            if (!is_right(n, y)) {
                fprintf(stderr, "%d elements: wrong\n", n);
                return 1;
            }
        }
        printf("%7d elements: %d calls on the device, %d on the CPU: right\n", n, ROUNDS - on_cpu, on_cpu);
    }
    vgc_close(device); /* keeps the measured times for the next run */
    return 0;
}
