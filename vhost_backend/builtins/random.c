/* Random numbers. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>
#include <math.h>

static const struct vgc_builtin_param RANDOM[] = {
    VGC_PARAM(vgc_random_params, out, POINTER, OUT, "array (n)"),
    VGC_PARAM(vgc_random_params, n, INTEGER, VALUE, "elements"),
    VGC_PARAM(vgc_random_params, seed, INTEGER, VALUE, "key of the generator"),
    VGC_PARAM(vgc_random_params, offset, INTEGER, VALUE, "place of out[0] in the sequence of this seed"),
};

static const struct vgc_builtin_param NORMAL[] = {
    VGC_PARAM(vgc_normal_params, out, POINTER, OUT, "array (n)"),
    VGC_PARAM(vgc_normal_params, n, INTEGER, VALUE, "elements"),
    VGC_PARAM(vgc_normal_params, seed, INTEGER, VALUE, "key of the generator"),
    VGC_PARAM(vgc_normal_params, offset, INTEGER, VALUE, "place of out[0] in the sequence of this seed"),
    VGC_PARAM(vgc_normal_params, mean, FLOAT, VALUE, "mean"),
    VGC_PARAM(vgc_normal_params, deviation, FLOAT, VALUE, "standard deviation, 0 or more"),
};

static int check_random(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_random_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->n) &&
                      vgc_check_array(&check, &p->out, (uint64_t)p->n, vgc_builtin_type_bytes(builtin->type));
    return is_allowed ? 0 : -EINVAL;
}

static int check_normal(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_normal_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    if (!isfinite(p->mean) || !isfinite(p->deviation) || p->deviation < 0) {
        vgc_check_refuse(&check, "mean is %g and deviation is %g; allowed: finite numbers, the latter not negative",
                         p->mean, p->deviation);
        return -EINVAL;
    }
    bool is_allowed = vgc_check_length(&check, &p->n) &&
                      vgc_check_array(&check, &p->out, (uint64_t)p->n, vgc_builtin_type_bytes(builtin->type));
    return is_allowed ? 0 : -EINVAL;
}

#define SEQUENCE "out[i] depends on seed and offset + i alone (modulo 2^64)"

#define ROW(name_, function_, type_, params_, table, check_, summary_, numpy_, limits_, tolerance_)                    \
    {.name = "random." name_,                                                                                          \
     .summary = summary_,                                                                                              \
     .numpy = numpy_,                                                                                                  \
     .limits = limits_,                                                                                                \
     .tolerance = tolerance_,                                                                                          \
     .function = VGC_FN_RANDOM_##function_,                                                                            \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(params_, table),                                                                                        \
     .check = check_}

static const struct vgc_builtin BUILTINS[] = {
    ROW("bits_u32", BITS, U32, vgc_random_params, RANDOM, check_random, "random bits: word j % 4 of block j // 4",
        "out = words(seed)[offset:][:n]", SEQUENCE, "exact"),
    ROW("uniform_f32", UNIFORM, F32, vgc_random_params, RANDOM, check_random, "random numbers from 0 to less than 1",
        "out = (words(seed)[offset:][:n] >> 8) * 2.0**-24", SEQUENCE, "exact"),
    ROW("uniform_f64", UNIFORM, F64, vgc_random_params, RANDOM, check_random, "random numbers from 0 to less than 1",
        "w = words(seed)[2 * offset:][:2 * n].view(np.uint64); out = (w >> 11) * 2.0**-53", SEQUENCE, "exact"),
    ROW("normal_f32", NORMAL, F32, vgc_normal_params, NORMAL, check_normal,
        "normally distributed numbers, by Box and Muller",
        "r = np.sqrt(-2 * np.log((w[0::2] + 1) * 2.0**-32)); t = 2 * np.pi * w[1::2] * 2.0**-32; "
        "pairs (r * cos(t), r * sin(t)) * deviation + mean, where w = words(seed)",
        SEQUENCE, "1e-6 of the deviation, times the number's distance from the mean in deviations"),
    ROW("normal_f64", NORMAL, F64, vgc_normal_params, NORMAL, check_normal,
        "normally distributed numbers, by Box and Muller",
        "as of floats, with w = words(seed).view(np.uint64) >> 11, and 2.0**-53 instead of 2.0**-32", SEQUENCE,
        "1e-14 of the deviation, times the number's distance from the mean in deviations"),
};

const struct vgc_builtin_group vgc_builtin_random = {
    "random",
    "random numbers of Philox 4x32-10: words(seed) are the outputs for the counters 0, 1, ... and the key seed",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
