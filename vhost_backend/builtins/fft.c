/* Fourier transforms. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>

#define PARAMS(in_, out_, inverse_)                                                                                    \
    {                                                                                                                  \
        VGC_PARAM(vgc_fft_params, in, POINTER, IN, in_),                                                               \
        VGC_PARAM(vgc_fft_params, out, POINTER, OUT, out_),                                                            \
        VGC_PARAM(vgc_fft_params, batch, INTEGER, VALUE, "number of transforms"),                                      \
        VGC_PARAM(vgc_fft_params, n0, INTEGER, VALUE, "length of the first axis, 1 to 4194304"),                       \
        VGC_PARAM(vgc_fft_params, n1, INTEGER, VALUE, "length of the second axis; 1 if rank is 1"),                    \
        VGC_PARAM(vgc_fft_params, n2, INTEGER, VALUE, "length of the third axis; 1 if rank is 1 or 2"),                \
        VGC_PARAM(vgc_fft_params, rank, INTEGER, VALUE, "number of axes, 1 to 3"),                                     \
        VGC_PARAM(vgc_fft_params, inverse, INTEGER, VALUE, inverse_),                                                  \
    }

static const struct vgc_builtin_param C2C[] =
    PARAMS("complex (batch, n0, n1, n2)", "complex (batch, n0, n1, n2); may be in",
           "1: inverse, divided by the number of elements; 0: forward");
static const struct vgc_builtin_param R2C[] =
    PARAMS("real (batch, n0, n1, n2)", "complex: as in, with n // 2 + 1 instead of the last axis' length n",
           "0: these are forward");
static const struct vgc_builtin_param C2R[] =
    PARAMS("complex: as out, with n // 2 + 1 instead of the last axis' length n", "real (batch, n0, n1, n2)",
           "0: these are inverse by themselves");

static bool check_axes(struct vgc_check *check, const struct vgc_fft_params *p)
{
    if (p->rank < 1 || p->rank > 3)
        return vgc_check_refuse(check, "rank is %d; allowed: 1 to 3", p->rank);
    return vgc_check_number(check, &p->n0, 1, VGC_BUILTIN_AXES, "") &&
           vgc_check_number(check, &p->n1, 1, p->rank > 1 ? VGC_BUILTIN_AXES : 1, "") &&
           vgc_check_number(check, &p->n2, 1, p->rank > 2 ? VGC_BUILTIN_AXES : 1, "");
}

static bool check_direction(struct vgc_check *check, const struct vgc_fft_params *p)
{
    if (check->builtin->function == VGC_FN_FFT_C2C)
        return vgc_check_flag(check, &p->inverse);
    return p->inverse == 0 || vgc_check_refuse(check, "inverse is %d; allowed: 0, as the type says it", p->inverse);
}

/* Numbers of real and of complex elements of a transform; real ones have half as many complex ones, plus one. */
static bool count_elements(struct vgc_check *check, const struct vgc_fft_params *p, uint64_t *reals, uint64_t *halves)
{
    int64_t lengths[] = {p->batch, p->n0, p->n1, p->n2};
    if (!vgc_check_product(check, reals, "batch * n0 * n1 * n2", 4, lengths))
        return false;
    lengths[p->rank] = lengths[p->rank] / 2 + 1;
    return vgc_check_product(check, halves, "batch * n0 * n1 * n2", 4, lengths);
}

static int check_fft(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_fft_params *p = params;
    uint32_t real = vgc_builtin_type_bytes(builtin->type), complex = 2 * real;
    uint32_t function = builtin->function;
    uint64_t all, half;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    if (!check_axes(&check, p) || !check_direction(&check, p) || !vgc_check_length(&check, &p->batch) ||
        !count_elements(&check, p, &all, &half))
        return -EINVAL;
    bool is_allowed = vgc_check_array(&check, &p->in, function == VGC_FN_FFT_C2R ? half : all,
                                      function == VGC_FN_FFT_R2C ? real : complex) &&
                      vgc_check_array(&check, &p->out, function == VGC_FN_FFT_R2C ? half : all,
                                      function == VGC_FN_FFT_C2R ? real : complex) &&
                      vgc_check_apart(&check, function == VGC_FN_FFT_C2C ? &p->in : NULL, &p->out);
    return is_allowed ? 0 : -EINVAL;
}

#define ROW(name_, suffix, function_, type_, table, summary_, numpy_)                                                  \
    {.name = "fft." name_ "_" suffix,                                                                                  \
     .summary = summary_,                                                                                              \
     .numpy = numpy_,                                                                                                  \
     .limits = NULL,                                                                                                   \
     .tolerance = "a few roundings, growing with the logarithm of the length, of the root of the mean square",         \
     .function = VGC_FN_FFT_##function_,                                                                               \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_fft_params, table),                                                                                 \
     .check = check_fft}

#define ROWS(name, FUNCTION, table, summary, numpy)                                                                    \
    ROW(name, "f32", FUNCTION, F32, table, summary, numpy), ROW(name, "f64", FUNCTION, F64, table, summary, numpy)

static const struct vgc_builtin BUILTINS[] = {
    ROWS("c2c", C2C, C2C, "Fourier transforms of complex arrays, forward and inverse",
         "out = np.fft.fftn(a, axes=(1, 2, 3)); inverse: np.fft.ifftn"),
    ROWS("r2c", R2C, R2C, "Fourier transforms of real arrays", "out = np.fft.rfftn(a, axes=(1, 2, 3))"),
    ROWS("c2r", C2R, C2R, "inverse of these", "out = np.fft.irfftn(a, (n0, n1, n2), axes=(1, 2, 3))"),
};

const struct vgc_builtin_group vgc_builtin_fft = {
    "fft",
    "Fourier transforms; complex elements are pairs of real part and imaginary part",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
