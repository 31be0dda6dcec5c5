/* Computes y += a * x on the device, from C:
 *
 *     cc -I guest_driver/libvgc examples/saxpy.c -o saxpy guest_driver/libvgc/build/libvgc.a -pthread
 */
#include <stdio.h>
#include <stdlib.h>

#include "vgc.h"

enum { COUNT = 1 << 20, BLOCK = 256 };

static const char SOURCE[] = "extern \"C\" __global__ void saxpy(int n, float a, const float *x, float *y)\n"
                             "{\n"
                             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < n)\n"
                             "        y[i] += a * x[i];\n"
                             "}\n";

static void must(int result, const char *what)
{
    if (result == VGC_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, vgc_last_error());
    exit(1);
}

/* Allocates device memory with the contents of `values`. */
static uint64_t on_device(struct vgc_device *device, const float *values)
{
    uint64_t address;
    must(vgc_alloc(device, COUNT * sizeof(float), &address), "alloc");
    must(vgc_copy_in(device, address, values, COUNT * sizeof(float), 0, NULL), "copy in");
    return address;
}

static void run(struct vgc_device *device, int n, float a, uint64_t x, uint64_t y)
{
    struct vgc_program *program;
    struct vgc_function *saxpy;
    struct vgc_geometry geometry = {.grid = {(COUNT + BLOCK - 1) / BLOCK, 1, 1}, .block = {BLOCK, 1, 1}};
    void *args[] = {&n, &a, &x, &y};
    must(vgc_program_load(device, VGC_SOURCE_CUDA, SOURCE, sizeof(SOURCE) - 1, NULL, 0, &program), "compile");
    must(vgc_program_function(program, "saxpy", &saxpy), "saxpy");
    must(vgc_launch(saxpy, &geometry, args, 4, NULL), "launch");
    must(vgc_program_unload(program), "unload");
}

int main(void)
{
    static float x[COUNT], y[COUNT];
    struct vgc_device *device;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    must(vgc_open(NULL, &device), "open");
    uint64_t on_x = on_device(device, x), on_y = on_device(device, y);
    run(device, COUNT, 2, on_x, on_y);
    must(vgc_copy_out(device, y, on_y, sizeof(y), 0, NULL), "copy out");
    vgc_close(device);
    for (int i = 0; i < COUNT; i++)
        if (y[i] != 1 + 2 * x[i]) {
            fprintf(stderr, "y[%d] is %g, not %g\n", i, (double)y[i], (double)(1 + 2 * x[i]));
            return 1;
        }
    printf("saxpy of %d elements: right\n", COUNT);
    return 0;
}
