/* Which side runs a kernel that has a CPU version: the one that $VGC_EITHER_SIDE names for it, or the one that has been
 * faster with as many threads.
 *
 * Times are moving averages, and include bringing memory to the side. The device's are taken of a few launches only,
 * which are waited for. Each side is tried again now and then. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "versions.h"

enum { FIRST_SAMPLES = 3, TRY_EVERY = 64, TRY_FAR_EVERY = 1024, FAR = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_either *all; /* those that were looked up */

void rt_local_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void rt_local_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

uint64_t rt_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct rt_either *rt_local_known(void)
{
    return all;
}

/* ---- rules ---------------------------------------------------------------------------------- */

static bool is_named(const struct rt_either *either, const struct vgc_rule *rule)
{
    return vgc_rule_is_of(rule, either->function->name) ||
           (either->local.kernel != NULL && vgc_rule_is_of(rule, either->local.kernel->source_name));
}

/* The first rule that matches counts. */
static enum rt_rule rule_of(const struct rt_either *either)
{
    const char *list = getenv("VGC_EITHER_SIDE");
    struct vgc_rule rule;
    while (vgc_rule_next(&list, &rule)) {
        if (!is_named(either, &rule))
            continue;
        if (rule.side == VGC_RULE_WRONG || rule.has_conditions) { /* which are of buffers that a launch does not name */
            size_t len = (size_t)(rule.text + rule.len - rule.side_text);
            (void)fprintf(stderr, "virtio-gpu-compute: VGC_EITHER_SIDE: '%.*s' is no side; allowed: cpu, gpu, auto\n",
                          (int)len, rule.side_text);
            return RT_FASTER;
        }
        return rule.side == VGC_RULE_CPU ? RT_ALWAYS_CPU : rule.side == VGC_RULE_GPU ? RT_ALWAYS_GPU : RT_FASTER;
    }
    return RT_FASTER;
}

void rt_local_introduce(struct rt_either *either)
{
    either->rule = rule_of(either);
    either->next = all;
    all = either;
    rt_local_recall(either);
}

/* ---- the faster side -------------------------------------------------------------------------- */

static struct rt_measured *class_of(struct rt_either *either, const unsigned grid[3], const unsigned block[3])
{
    uint64_t threads = (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
    return &either->measured[63 - __builtin_clzll(threads | 1)];
}

static enum rt_side faster(const struct rt_measured *measured, uint32_t number)
{
    enum rt_side best = measured->times.ns[RT_CPU] < measured->times.ns[RT_GPU] ? RT_CPU : RT_GPU;
    enum rt_side other = best == RT_CPU ? RT_GPU : RT_CPU;
    bool is_far = measured->times.ns[other] / FAR > measured->times.ns[best];
    return number % (is_far ? TRY_FAR_EVERY : TRY_EVERY) == TRY_EVERY - 1 ? other : best;
}

enum rt_side rt_local_choose(struct rt_either *either, const struct rt_shape *shape, bool *is_sample)
{
    struct rt_measured *measured = class_of(either, shape->grid, shape->block);
    enum rt_side side = RT_GPU;
    *is_sample = false;
    if (either->rule != RT_FASTER) {
        side = either->rule == RT_ALWAYS_CPU ? RT_CPU : RT_GPU;
    } else {
        rt_local_lock();
        uint32_t number = measured->launches++;
        if (measured->times.samples[RT_GPU] >= FIRST_SAMPLES)
            side = measured->times.samples[RT_CPU] < FIRST_SAMPLES ? RT_CPU : faster(measured, number);
        *is_sample =
            side == RT_GPU && (measured->times.samples[RT_GPU] < FIRST_SAMPLES || number % TRY_EVERY == TRY_EVERY - 1);
        rt_local_unlock();
    }
    return side;
}

void rt_local_note(struct rt_either *either, const struct rt_shape *shape, enum rt_side side, uint64_t ns)
{
    struct rt_measured *measured = class_of(either, shape->grid, shape->block);
    rt_local_lock();
    vgc_times_note(&measured->times, (enum vgc_timed_side)side, ns);
    rt_local_unlock();
}
