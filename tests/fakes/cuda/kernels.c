/* Kernels as C functions, found by the kernel's name. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

/* A parameter of the launch, as a value of `type`. */
#define FAKE_PARAM(launch, type, offset) (*(type *)memcpy(&(type){0}, (launch)->params + (offset), sizeof(type)))

/* Memory that a kernel uses: `size` bytes at the address in the parameter at `offset`. */
struct use {
    void *bytes;
    struct fake_memory *memory;
};

static struct use use(const struct fake_launch *launch, size_t offset, size_t size)
{
    struct use use = {0};
    if (size)
        use.bytes = fake_memory_pin(FAKE_PARAM(launch, CUdeviceptr, offset), size, &use.memory);
    return use;
}

static void done(struct use use)
{
    if (use.memory)
        fake_memory_unpin(use.memory);
}

static CUresult run_empty(struct fake_launch *launch)
{
    (void)launch;
    return CUDA_SUCCESS;
}

static CUresult run_add_one(struct fake_launch *launch)
{
    unsigned int count = FAKE_PARAM(launch, unsigned int, 8);
    struct use data = use(launch, 0, count * sizeof(unsigned int));
    if (count && !data.bytes)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (unsigned int i = 0; i < count; i++)
        ((unsigned int *)data.bytes)[i]++;
    done(data);
    return CUDA_SUCCESS;
}

/* Runs a piece of a long kernel; at its end the kernel can be interrupted. */
static void run_piece(uint64_t us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
    pthread_mutex_lock(&fake.lock);
    fake_turn_leave();
    fake_turn_enter();
    pthread_mutex_unlock(&fake.lock);
}

/* Runs for a time that grows with the number of blocks, up to a limit. */
static CUresult run_slow(struct fake_launch *launch)
{
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    struct use data = use(launch, 0, sizeof(unsigned int));
    if (!data.bytes)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t us = blocks < 20000 ? 5000 + blocks : 25000; us; us -= us < 1000 ? us : 1000)
        run_piece(us < 1000 ? us : 1000);
    *(unsigned int *)data.bytes += FAKE_PARAM(launch, unsigned int, 8);
    done(data);
    return CUDA_SUCCESS;
}

/* Runs until it is released. */
CUresult fake_kernel_hang(struct fake_launch *launch)
{
    pthread_mutex_lock(&fake.lock);
    fake.hanging++;
    fake_turn_leave();
    pthread_cond_broadcast(&fake.progress);
    while (fake.released == launch->op.since && !fake.ending)
        fake_wait();
    fake.hanging--;
    fake_turn_enter();
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

/* Hangs and uses memory meanwhile. */
static CUresult run_hang_on(struct fake_launch *launch)
{
    struct use data = use(launch, 0, sizeof(unsigned int));
    if (!data.bytes)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    CUresult result = fake_kernel_hang(launch);
    done(data);
    return result;
}

static CUresult run_saxpy(struct fake_launch *launch)
{
    unsigned int count = FAKE_PARAM(launch, unsigned int, 0);
    float a = FAKE_PARAM(launch, float, 4);
    struct use x = use(launch, 8, count * sizeof(float)), y = use(launch, 16, count * sizeof(float));
    bool good = !count || (x.bytes && y.bytes);
    for (unsigned int i = 0; good && i < count; i++)
        ((float *)y.bytes)[i] += a * ((float *)x.bytes)[i];
    done(x);
    done(y);
    return good ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult run_vector_add(struct fake_launch *launch)
{
    unsigned int count = FAKE_PARAM(launch, unsigned int, 24);
    size_t size = count * sizeof(float);
    struct use a = use(launch, 0, size), b = use(launch, 8, size), c = use(launch, 16, size);
    bool good = !count || (a.bytes && b.bytes && c.bytes);
    for (unsigned int i = 0; good && i < count; i++)
        ((float *)c.bytes)[i] = ((float *)a.bytes)[i] + ((float *)b.bytes)[i];
    done(a);
    done(b);
    done(c);
    return good ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* Copies a texel of a texture or surface to memory, as it is. */
static CUresult run_read_texel(struct fake_launch *launch)
{
    size_t bytes = 0;
    char texel[16];
    unsigned int x = FAKE_PARAM(launch, unsigned int, 8), y = FAKE_PARAM(launch, unsigned int, 12);
    pthread_mutex_lock(&fake.lock);
    const char *from =
        fake_object_texel(FAKE_PARAM(launch, uint64_t, 0), x, y, FAKE_PARAM(launch, unsigned int, 16), &bytes);
    if (from)
        memcpy(texel, from, bytes);
    pthread_mutex_unlock(&fake.lock);
    struct use to = use(launch, 24, bytes);
    if (!from || !to.bytes)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    memcpy(to.bytes, texel, bytes);
    done(to);
    return CUDA_SUCCESS;
}

static CUresult run_prints(struct fake_launch *launch)
{
    unsigned int lines = FAKE_PARAM(launch, unsigned int, 0);
    pthread_mutex_lock(&fake.lock);
    for (unsigned int i = 0; i < lines; i++) {
        char line[32];
        snprintf(line, sizeof line, "hello %u\n", i);
        fake_context_print(launch->op.context, line);
    }
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

/* Fails an assertion, which the driver reports at the next synchronisation. */
static CUresult run_fails(struct fake_launch *launch)
{
    pthread_mutex_lock(&fake.lock);
    launch->op.context->primary->assertion =
        "source.cu:20: void fails(): block: [0,0,0], thread: [0,0,0] Assertion `threadIdx.x != 0` failed.\n";
    pthread_mutex_unlock(&fake.lock);
    return CUDA_ERROR_ASSERT;
}

#define FAKE_FAULT(name, error)                                                                                        \
    static CUresult run_##name(struct fake_launch *launch)                                                             \
    {                                                                                                                  \
        (void)launch;                                                                                                  \
        return error;                                                                                                  \
    }
FAKE_FAULT(illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS)
FAKE_FAULT(misaligned, CUDA_ERROR_MISALIGNED_ADDRESS)
FAKE_FAULT(illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION)
FAKE_FAULT(trap, CUDA_ERROR_LAUNCH_FAILED)
FAKE_FAULT(timeout, CUDA_ERROR_LAUNCH_TIMEOUT)
FAKE_FAULT(ecc, CUDA_ERROR_ECC_UNCORRECTABLE)
FAKE_FAULT(stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR)

static const struct fake_kernel kernels[] = {
    {"add_one", 12, run_add_one},
    {"slow", 12, run_slow},
    {"saxpy", 24, run_saxpy},
    {"vector_add", 28, run_vector_add},
    {"read_texel", 32, run_read_texel},
    {"prints", 4, run_prints},
    {"empty", 0, run_empty},
    {"hang", 0, fake_kernel_hang},
    {"hang_on", 8, run_hang_on},
    {"fails", 0, run_fails},
    {"illegal_address", 0, run_illegal_address},
    {"misaligned", 0, run_misaligned},
    {"illegal_instruction", 0, run_illegal_instruction},
    {"trap", 0, run_trap},
    {"timeout", 0, run_timeout},
    {"ecc", 0, run_ecc},
    {"stack_error", 0, run_stack_error},
};

const struct fake_kernel *fake_kernel_find(const char *name, uint32_t param_bytes)
{
    char plain[FAKE_NAME];
    if (strncmp(name, "_Z", 2) == 0) { /* _Z7add_onePjj */
        char *rest;
        unsigned long len = strtoul(name + 2 + (name[2] == 'L'), &rest, 10);
        if (len < sizeof plain && len <= strlen(rest)) {
            memcpy(plain, rest, len);
            plain[len] = 0;
            name = plain;
        }
    }
    const struct fake_kernel *other = fake_bench_kernel_find(name, param_bytes);
    if (!other)
        other = fake_watched_kernel_find(name);
    if (!other)
        other = fake_builtin_kernel_find(name);
    for (size_t i = 0; !other && i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].name, name) == 0)
            other = &kernels[i];
    return other;
}
