/* Conversion of the GPU's global timer to CLOCK_MONOTONIC, for the times of records.
 *
 * Hooks stamp records with %globaltimer, which is only documented to count nanoseconds [PTX ISA: %globaltimer]. Some
 * drivers set it to the time since 1970 when the GPU starts; afterwards it is not adjusted. Therefore every program
 * with hooks has a kernel that reads it (CLOCK_KERNEL in compiler/hooks.py), and a *reading* is a launch of that
 * between two readings of the host's clock. The error of a reading is at most half of its duration, and grows with its
 * age, as the clocks drift.
 *
 * The first readings are made when the first program with hooks is loaded, before any of its kernels makes a record;
 * the best of them is used. While the VM's kernels run, the timer is read every quarter of a second, in a stream of its
 * own, for which no kernel waits. An idle VM makes no records, and its timer is not read.
 *
 * Threads: all functions run in the data plane's thread, with the engine entered; other threads read base.control_*. */
#include "cuda_engine.h"

#include <string.h>

#define FIRST_LIMIT_NS UINT64_C(50000000)
#define PERIOD_NS UINT64_C(250000000)

enum {
    FIRST_READINGS = 8,
    SPIN_NS = 30000,      /* longest time that a reading is polled for at once */
    RESOLUTION_NS = 1024, /* coarsest resolution of the timer: 32 ns on Hopper, a microsecond on older GPUs */
};

/* Result of CLOCK_KERNEL in pinned memory: it writes `sm_ids` first, then `timer` with release semantics. */
struct answer {
    uint64_t timer; /* 0: not yet */
    uint64_t sm_ids;
};
static const char CLOCK_KERNEL[] = "__vgc_clock";

/* ---- evaluating readings ------------------------------------------------------------------------------------ */

/* Largest error of the published clock offset at now_ns. */
static uint64_t error_at(const struct vgc_engine *base, uint64_t now_ns)
{
    uint64_t error_ns = atomic_load_explicit(&base->control_clock_error_ns, memory_order_relaxed);
    uint64_t age_ns = now_ns - atomic_load_explicit(&base->control_clock_read_ns, memory_order_relaxed);
    return error_ns == VGC_CLOCK_UNKNOWN ? error_ns : error_ns + age_ns / VGC_CLOCK_DRIFT;
}

static void publish(struct cuda_engine *engine, int64_t difference_ns, uint64_t error_ns, uint64_t now_ns)
{
    struct vgc_engine *base = &engine->base;
    atomic_store_explicit(&base->control_clock_ns, difference_ns, memory_order_relaxed);
    atomic_store_explicit(&base->control_clock_error_ns, error_ns, memory_order_relaxed);
    atomic_store_explicit(&base->control_clock_read_ns, now_ns, memory_order_relaxed);
    cuda_mirror_clock(&engine->control.mirror, difference_ns);
}

/* Publishes a reading if its error is smaller than that of the published one by now, or if the two contradict each
 * other because the timer was set meanwhile. */
static void note(struct cuda_engine *engine, uint64_t asked_ns, uint64_t now_ns, uint64_t timer_ns)
{
    uint64_t half_ns = (now_ns - asked_ns + 1) / 2;
    uint64_t error_ns = half_ns + RESOLUTION_NS;
    uint64_t old_error_ns = error_at(&engine->base, now_ns);
    int64_t difference_ns = (int64_t)(asked_ns + half_ns - timer_ns);
    int64_t old_ns = atomic_load_explicit(&engine->base.control_clock_ns, memory_order_relaxed);
    uint64_t apart_ns = difference_ns > old_ns ? (uint64_t)difference_ns - (uint64_t)old_ns
                                               : (uint64_t)old_ns - (uint64_t)difference_ns;
    bool was_set = old_error_ns != VGC_CLOCK_UNKNOWN && apart_ns > error_ns + old_error_ns;
    if (error_ns <= old_error_ns || was_set)
        publish(engine, difference_ns, error_ns, now_ns);
}

/* ---- readings ----------------------------------------------------------------------------------------------- */

/* Takes the result of the reading in progress, if it has arrived; true if no reading is in progress any more. */
static bool hear(struct cuda_engine *engine)
{
    struct cuda_timer *timer = &engine->timer;
    struct answer *answer = timer->answer;
    if (timer->asked_ns == 0)
        return true;
    uint64_t timer_ns = __atomic_load_n(&answer->timer, __ATOMIC_ACQUIRE);
    if (timer_ns == 0)
        return false;
    note(engine, timer->asked_ns, cuda_now_ns(), timer_ns);
    atomic_store_explicit(&engine->base.control_sm_ids, (uint32_t)answer->sm_ids, memory_order_relaxed);
    timer->asked_ns = 0;
    return true;
}

static bool hear_within(struct cuda_engine *engine, uint64_t limit_ns)
{
    uint64_t until_ns = cuda_now_ns() + limit_ns;
    while (!hear(engine)) {
        if (cuda_now_ns() > until_ns)
            return false;
        __builtin_ia32_pause();
    }
    return true;
}

/* Starts a reading. A guest's kernel may have the same name and other parameters, so the parameters' size is passed. */
static drv_result ask(struct cuda_engine *engine)
{
    struct cuda_timer *timer = &engine->timer;
    struct answer *answer = timer->answer;
    size_t size = sizeof(timer->answer_address);
    void *extra[] = {
        (void *)DRV_LAUNCH_PARAM_POINTER, &timer->answer_address, (void *)DRV_LAUNCH_PARAM_SIZE, &size,
        (void *)DRV_LAUNCH_PARAM_END,
    };
    *answer = (struct answer){0};
    timer->alone_ns = 0;
    timer->asked_ns = cuda_now_ns();
    drv_result error =
        engine->driver.cuLaunchKernel(timer->programs->clock, 1, 1, 1, 1, 1, 1, 0, timer->stream, NULL, extra);
    if (error != DRV_SUCCESS)
        timer->asked_ns = 0;
    return error;
}

void cuda_timer_turn(struct cuda_engine *engine, uint64_t now_ns)
{
    struct cuda_timer *timer = &engine->timer;
    if (!hear(engine) || timer->programs == NULL || engine->draining || now_ns - timer->tried_ns < PERIOD_NS)
        return;
    timer->tried_ns = now_ns;
    cuda_check(engine, ask(engine));
    (void)hear_within(engine, SPIN_NS);
}

/* A reading may wait for the VM's kernels, but ends soon after them, unless its kernel is a guest's: a cubin can have a
 * kernel of that name. The worker then ends. */
bool cuda_timer_is_quiet(struct cuda_engine *engine)
{
    struct cuda_timer *timer = &engine->timer;
    uint64_t now_ns = cuda_now_ns();
    if (hear(engine))
        return true;
    if (timer->alone_ns == 0)
        timer->alone_ns = now_ns;
    else if (now_ns - timer->alone_ns > engine->setup.stuck_ns)
        cuda_lost(engine, NULL, DRV_ERROR_LAUNCH_TIMEOUT);
    return false;
}

/* ---- programs ----------------------------------------------------------------------------------------------- */

static drv_result start(struct cuda_engine *engine)
{
    const struct cuda_driver *driver = &engine->driver;
    struct cuda_timer *timer = &engine->timer;
    void *answer = NULL;
    if (timer->answer != NULL)
        return DRV_SUCCESS;
    drv_result error = timer->stream == NULL ? cuda_urgent_stream(engine, &timer->stream) : DRV_SUCCESS;
    if (error == DRV_SUCCESS)
        error =
            driver->cuMemHostAlloc(&answer, sizeof(struct answer), DRV_HOST_ALLOC_PORTABLE | DRV_HOST_ALLOC_DEVICE_MAP);
    if (error == DRV_SUCCESS)
        error = driver->cuMemHostGetDevicePointer_v2(&timer->answer_address, answer, 0);
    if (error == DRV_SUCCESS)
        timer->answer = answer;
    else if (answer != NULL)
        driver->cuMemFreeHost(answer);
    return error;
}

/* Makes the first readings, within a limit: if another VM occupies the GPU, later readings must do. */
static drv_result read_first(struct cuda_engine *engine)
{
    uint64_t until_ns = cuda_now_ns() + FIRST_LIMIT_NS;
    drv_result error = DRV_SUCCESS;
    for (uint32_t i = 0; i < FIRST_READINGS && error == DRV_SUCCESS && hear(engine); i++) {
        error = ask(engine);
        uint64_t now_ns = cuda_now_ns();
        if (error != DRV_SUCCESS || now_ns >= until_ns || !hear_within(engine, until_ns - now_ns))
            break;
    }
    engine->timer.tried_ns = cuda_now_ns();
    return error;
}

void cuda_timer_learn(struct vgc_cuda_program *program)
{
    struct cuda_engine *engine = program->engine;
    int local_bytes = 0;
    drv_result error = engine->driver.cuModuleGetFunction(&program->clock, program->module, CLOCK_KERNEL);
    if (error == DRV_SUCCESS)
        error = engine->driver.cuFuncGetAttribute(&local_bytes, DRV_FUNC_LOCAL_BYTES, program->clock);
    if (error != DRV_SUCCESS || local_bytes > CUDA_STACK_BYTES) { /* a guest's kernel, whose stacks are not charged */
        program->clock = NULL;
        cuda_check(engine, error);
        return;
    }
    error = start(engine);
    cuda_check(engine, error);
    if (error != DRV_SUCCESS)
        return;
    program->next_clock = engine->timer.programs;
    engine->timer.programs = program;
    if (cuda_now_ns() - engine->timer.tried_ns >= PERIOD_NS)
        cuda_check(engine, read_first(engine));
}

/* Stops using a program's kernel. No work runs except, possibly, a reading, which is waited for. */
void cuda_timer_forget(struct vgc_cuda_program *program)
{
    struct cuda_engine *engine = program->engine;
    struct vgc_cuda_program **at = &engine->timer.programs;
    while (*at != NULL && *at != program)
        at = &(*at)->next_clock;
    if (*at == NULL)
        return;
    if (!hear_within(engine, engine->setup.stuck_ns))
        cuda_lost(engine, NULL, DRV_ERROR_LAUNCH_TIMEOUT);
    *at = program->next_clock;
}

void cuda_timer_close(struct cuda_engine *engine)
{
    struct cuda_timer *timer = &engine->timer;
    if (timer->stream != NULL)
        engine->driver.cuStreamDestroy_v2(timer->stream);
    if (timer->answer != NULL)
        engine->driver.cuMemFreeHost(timer->answer);
    *timer = (struct cuda_timer){0};
}
