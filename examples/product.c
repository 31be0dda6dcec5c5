/* Multiplies matrices by a built-in function of the host, from C, without a CUDA source:
 *
 *     cc -I guest_driver/libvgc examples/product.c -o product guest_driver/libvgc/build/libvgc.a -pthread -lm
 *
 * One request has both matrices, the call and the product. docs/functions.md has the functions and their parameters.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "vgc.h"

enum { MOST = 512 };

static void must(int result, const char *what)
{
    if (result == VGC_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, vgc_last_error());
    exit(1);
}

#define VALUE(variable) {.direction = VGC_ARG_VALUE, .size = sizeof(variable), .data = &(variable)}
#define BUFFER(way, array, bytes) {.direction = VGC_ARG_##way, .size = (bytes), .data = (array)}

/* c = a * b, all of them n x n, row by row. */
static void multiply(struct vgc_device *device, int64_t n, float *a, float *b, float *c)
{
    int32_t plain = 0; /* not transposed */
    double one = 1, none = 0;
    int64_t batch = 1, stride = 0, all = n * n;
    uint64_t bytes = (uint64_t)all * sizeof(float);
    const struct vgc_arg args[] = {
        VALUE(plain),
        VALUE(plain),
        VALUE(n),
        VALUE(n),
        VALUE(n),
        VALUE(one),
        BUFFER(IN, a, bytes),
        VALUE(n),
        BUFFER(IN, b, bytes),
        VALUE(n),
        VALUE(none),
        BUFFER(OUT, c, bytes),
        VALUE(n),
        VALUE(batch),
        VALUE(stride),
        VALUE(stride),
        VALUE(all),
    };
    must(vgc_call_named(device, "blas.gemm_f32", NULL, args, sizeof(args) / sizeof(args[0]), NULL, NULL), "product");
}

static bool is_right(int64_t n, const float *a, const float *b, const float *c)
{
    for (int64_t at = 0; at < n * n; at += n / 8 + 1) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += (double)a[at / n * n + k] * b[k * n + at % n];
        if (fabs(sum - c[at]) > 1e-3)
            return false;
    }
    return true;
}

int main(void)
{
    struct vgc_device *device;
    float *matrices[3];
    must(vgc_open(NULL, &device), "open");
    for (int i = 0; i < 3; i++) {
        matrices[i] = malloc(sizeof(float) * MOST * MOST);
        for (int at = 0; at < MOST * MOST; at++)
            matrices[i][at] = (float)(at * (i + 7) % 101) / 101 - 0.5f;
    }
    for (int n = 8; n <= MOST; n *= 4) {
        multiply(device, n, matrices[0], matrices[1], matrices[2]);
        if (!is_right(n, matrices[0], matrices[1], matrices[2])) {
            printf("%d x %d: wrong\n", n, n);
            return 1;
        }
        printf("%d x %d: right\n", n, n);
    }
    vgc_close(device);
    for (int i = 0; i < 3; i++)
        free(matrices[i]);
    return 0;
}
