/* The kernels of bench/kernels, for tests of the benchmarks: in one thread; of the geometry only the grid's size
 * counts. */
#include <math.h>
#include <string.h>

#include "fake.h"

enum { MOST_ARRAYS = 3 };

/* Memory that a launch uses: `array` pins each array, `end` unpins all. */
struct arrays {
    const struct fake_launch *launch;
    struct fake_memory *memory[MOST_ARRAYS];
    unsigned int count;
    bool bad;
};

/* `count` floats at the address in the parameter at `offset`; NULL if there is no such memory. */
static float *array(struct arrays *arrays, size_t offset, uint64_t count)
{
    CUdeviceptr address;
    memcpy(&address, arrays->launch->params + offset, sizeof address);
    float *floats = (float *)(void *)fake_memory_pin(address, count * sizeof(float), &arrays->memory[arrays->count]);
    if (floats)
        arrays->count++;
    else
        arrays->bad = true;
    return floats;
}

static CUresult end(struct arrays *arrays)
{
    for (unsigned int i = 0; i < arrays->count; i++)
        fake_memory_unpin(arrays->memory[i]);
    return arrays->bad ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static uint64_t first_param(const struct fake_launch *launch)
{
    uint64_t value;
    memcpy(&value, launch->params, sizeof value);
    return value;
}

static float float_param(const struct fake_launch *launch, size_t offset)
{
    float value;
    memcpy(&value, launch->params + offset, sizeof value);
    return value;
}

/* saxpy(n, a, x, y) */
static CUresult run_saxpy(struct fake_launch *launch)
{
    struct arrays arrays = {.launch = launch};
    uint64_t n = first_param(launch);
    float a = float_param(launch, 8);
    const float *x = array(&arrays, 16, n);
    float *y = array(&arrays, 24, n);
    for (uint64_t i = 0; i < n && !arrays.bad; i++)
        y[i] = a * x[i] + y[i];
    return end(&arrays);
}

/* matmul_tiled(n, a, b, c) */
static CUresult run_matmul(struct fake_launch *launch)
{
    struct arrays arrays = {.launch = launch};
    uint64_t n = first_param(launch);
    const float *a = array(&arrays, 8, n * n);
    const float *b = array(&arrays, 16, n * n);
    float *c = array(&arrays, 24, n * n);
    for (uint64_t i = 0; i < n * n && !arrays.bad; i++) {
        float sum = 0;
        for (uint64_t k = 0; k < n; k++)
            sum += a[i / n * n + k] * b[k * n + i % n];
        c[i] = sum;
    }
    return end(&arrays);
}

/* reduce(n, x, sums): a sum per block */
static CUresult run_reduce(struct fake_launch *launch)
{
    struct arrays arrays = {.launch = launch};
    uint64_t n = first_param(launch);
    const float *x = array(&arrays, 8, n);
    float *sums = array(&arrays, 16, launch->grid[0]);
    for (uint64_t block = 0; block < launch->grid[0] && !arrays.bad; block++) {
        double sum = 0;
        for (uint64_t i = block; i < n; i += launch->grid[0])
            sum += (double)x[i];
        sums[block] = (float)sum;
    }
    return end(&arrays);
}

/* stencil(n, in, out) */
static CUresult run_stencil(struct fake_launch *launch)
{
    struct arrays arrays = {.launch = launch};
    uint64_t n = first_param(launch);
    const float *in = array(&arrays, 8, n * n);
    float *out = array(&arrays, 16, n * n);
    for (uint64_t i = 0; i < n * n && !arrays.bad; i++) {
        uint64_t x = i % n, y = i / n;
        bool inside = x > 0 && y > 0 && x < n - 1 && y < n - 1;
        out[i] = inside ? 0.25F * (in[i - n] + in[i - 1] + in[i + 1] + in[i + n]) : in[i];
    }
    return end(&arrays);
}

/* nbody(n, body, out): four floats per body */
static CUresult run_nbody(struct fake_launch *launch)
{
    struct arrays arrays = {.launch = launch};
    uint64_t n = first_param(launch);
    const float *body = array(&arrays, 8, 4 * n);
    float *out = array(&arrays, 16, 4 * n);
    for (uint64_t i = 0; i < n && !arrays.bad; i++) {
        float sum[4] = {0};
        for (uint64_t j = 0; j < n; j++) {
            const float *at = &body[4 * i], *other = &body[4 * j];
            float away[3] = {other[0] - at[0], other[1] - at[1], other[2] - at[2]};
            float inverse = 1.0F / sqrtf(away[0] * away[0] + away[1] * away[1] + away[2] * away[2] + 1e-3F);
            for (int k = 0; k < 3; k++)
                sum[k] += away[k] * other[3] * inverse * inverse * inverse;
        }
        memcpy(&out[4 * i], sum, sizeof sum);
    }
    return end(&arrays);
}

/* busy(rounds, a, b, out): all threads compute the same */
static CUresult run_busy(struct fake_launch *launch)
{
    struct arrays arrays = {.launch = launch};
    uint32_t rounds;
    memcpy(&rounds, launch->params, sizeof rounds);
    float a = float_param(launch, 4), b = float_param(launch, 8), x = 0;
    float *out = array(&arrays, 16, launch->grid[0]);
    for (uint32_t round = 0; round < rounds; round++)
        x = x * a + b;
    for (uint32_t block = 0; block < launch->grid[0] && !arrays.bad; block++)
        out[block] = x;
    return end(&arrays);
}

static const struct fake_kernel kernels[] = {
    {"saxpy", 32, run_saxpy},     {"matmul_tiled", 32, run_matmul}, {"reduce", 24, run_reduce},
    {"stencil", 24, run_stencil}, {"nbody", 24, run_nbody},         {"busy", 24, run_busy},
};

const struct fake_kernel *fake_bench_kernel_find(const char *name, uint32_t param_bytes)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].name, name) == 0 && kernels[i].param_bytes == param_bytes)
            return &kernels[i];
    return NULL;
}
