/* Kernels of built-in functions: some as C functions, for processes of their own; all others run where a test says, as
 * its own process can run them on the software GPU. Parameters are those of vhost_backend/engines/cuda/builtins. */
#include <string.h>

#include "../../../vhost_backend/engines/cuda/builtins/calls.h"
#include "fake.h"

static const CUdeviceptr WINDOW = 0x200000000000ULL;

static _Atomic(fake_outside) outside;

/* Bytes at an address, which a kernel uses until it ends; NULL if nothing is there. */
static void *at(u64 address, size_t size, struct fake_memory **memory)
{
    return fake_memory_pin(address, size, memory);
}

static CUresult run_axpy(struct fake_launch *launch)
{
    struct vector_call call;
    struct fake_memory *xs = NULL, *ys = NULL;
    memcpy(&call, launch->params, sizeof call);
    const float *x = at(call.x, call.n * call.incx * sizeof *x, &xs);
    float *y = at(call.y, call.n * call.incy * sizeof *y, &ys);
    for (u64 i = 0; x && y && i < call.n; i++)
        y[i * call.incy] += (float)call.alpha * x[i * call.incx];
    if (xs)
        fake_memory_unpin(xs);
    if (ys)
        fake_memory_unpin(ys);
    return x && y ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult run_clear(struct fake_launch *launch)
{
    struct count_call call;
    struct fake_memory *all = NULL, *word = NULL;
    memcpy(&call, launch->params, sizeof call);
    void *counts = at(call.counts, call.bins * sizeof(u64), &all);
    u32 *status = call.status ? at(call.status, sizeof *status, &word) : NULL;
    if (counts)
        memset(counts, 0, call.bins * sizeof(u64));
    if (status)
        *status = 0;
    if (all)
        fake_memory_unpin(all);
    if (word)
        fake_memory_unpin(word);
    return counts && (status || !call.status) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult run_bincount(struct fake_launch *launch)
{
    struct count_call call;
    struct fake_memory *ins = NULL, *all = NULL, *word = NULL;
    memcpy(&call, launch->params, sizeof call);
    const i32 *in = at(call.in, call.n * sizeof *in, &ins);
    u64 *counts = at(call.counts, call.bins * sizeof *counts, &all);
    u32 *status = at(call.status, sizeof *status, &word);
    bool good = in && counts && status;
    for (u64 i = 0; good && i < call.n; i++) {
        if (in[i] < 0 || (u64)in[i] >= call.bins)
            *status = NO_BIN;
        else
            counts[in[i]]++;
    }
    if (ins)
        fake_memory_unpin(ins);
    if (all)
        fake_memory_unpin(all);
    if (word)
        fake_memory_unpin(word);
    return good ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static const struct fake_kernel KERNELS[] = {
    {"blas_axpy_f32", sizeof(struct vector_call), run_axpy},
    {"count_clear", sizeof(struct count_call), run_clear},
    {"count_bincount_i32", sizeof(struct count_call), run_bincount},
};

/* ---- outside ----------------------------------------------------------------------------------------------------- */

enum { MOST_USES = FAKE_MAX_PARAMS / 8 };

/* Makes the addresses of device memory among the parameters addresses of its bytes here; returns their number. */
static size_t translate(unsigned char *params, size_t size, struct fake_memory **used)
{
    size_t count = 0;
    for (size_t offset = 0; offset + 8 <= size; offset += 8) {
        u64 word;
        memcpy(&word, params + offset, 8);
        void *bytes = word >> 45 == WINDOW >> 45 ? fake_memory_pin(word, 1, &used[count]) : NULL;
        if (!bytes)
            continue;
        memcpy(params + offset, &bytes, 8);
        count++;
    }
    return count;
}

static CUresult run_outside(struct fake_launch *launch)
{
    fake_outside run = outside;
    struct fake_memory *used[MOST_USES];
    size_t size = launch->param_bytes, count = translate(launch->params, size, used);
    int failed = run ? run(launch->name, launch->grid[0], launch->block[0], launch->shared, launch->params, size) : 1;
    while (count)
        fake_memory_unpin(used[--count]);
    return failed ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

static const struct fake_kernel OUTSIDE = {"outside", 0, run_outside};

/* Has kernels that the fake does not know run outside; NULL: launches of them are misuse. */
FAKE_API void fake_cuda_run_outside(fake_outside run)
{
    outside = run;
}

const struct fake_kernel *fake_builtin_kernel_find(const char *name)
{
    for (size_t i = 0; !outside && i < sizeof KERNELS / sizeof KERNELS[0]; i++)
        if (strcmp(KERNELS[i].name, name) == 0)
            return &KERNELS[i];
    return NULL;
}

const struct fake_kernel *fake_outside_kernel(void)
{
    return outside ? &OUTSIDE : NULL;
}
