/* Plans of calls that cuBLAS, cuFFT and cuDNN compute. */
#include "library_calls.h"

#include "calls.h"
#include "planners.h"

#include "vhost_backend/engines/cuda/cuda_libraries_abi.h"

static bool plan_library_gemm(const struct vgc_gemm_params *p, struct cuda_library_call *call)
{
    if (p->m == 0 || p->n == 0 || p->k == 0 || p->batch == 0 || p->alpha == 0)
        return false; /* nothing to do, or a and b are not read: cuBLAS promises neither */
    call->gemm = *p;
    call->keeps_input = p->beta == 0;
    return true;
}

/* ---- transforms ------------------------------------------------------------------------------------------------- */

static uint64_t rows_of(const struct vgc_fft_params *p)
{
    uint64_t lengths[] = {(uint64_t)p->batch, (uint64_t)p->n0, (uint64_t)p->n1}, rows = 1;
    for (int32_t i = 0; i < p->rank; i++)
        rows *= lengths[i];
    return rows;
}

static double scale_of(const struct cuda_fft_shape *shape)
{
    double elements = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        elements *= (double)shape->lengths[i];
    return 1 / elements;
}

/* Divides the results of an inverse transform, as cuFFT does not. */
static void add_scale(struct plan *plan, const struct cuda_library_call *call)
{
    uint64_t elements = (uint64_t)call->shape.batch;
    for (uint32_t i = 0; i < call->shape.rank; i++)
        elements *= (uint64_t)call->shape.lengths[i];
    struct fft_pass_call pass = {.in = call->out, .out = call->out, .done = 1, .inverse = 1};
    struct kernel_name kernel = plan_kernel_of("fft_pass_1", plan_type(call->type), NULL);
    pass.lines = (struct fft_lines){elements, 1, 1};
    pass.scale = scale_of(&call->shape);
    plan_add(plan, &kernel, plan_blocks(plan, elements, THREADS), 0, &pass, sizeof(pass));
}

/* Copies the input of a transform to real numbers, which cuFFT overwrites, and in which it expects mirrored numbers to
 * be conjugated exactly; divides it, too. */
static void add_hermitian(struct plan *plan, const struct vgc_fft_params *p, struct cuda_library_call *call)
{
    uint64_t last = (uint64_t)call->shape.lengths[call->shape.rank - 1], half = last / 2 + 1;
    struct kernel_name kernel = plan_kernel_of("fft_hermitian", plan_type(call->type), NULL);
    struct fft_hermitian_call copy = {.in = p->in, .length = last, .rows = rows_of(p), .lengths = {1, 1}};
    for (uint32_t i = 0; i + 1 < call->shape.rank; i++)
        copy.lengths[i] = (uint64_t)call->shape.lengths[i];
    copy.scale = scale_of(&call->shape);
    copy.out = call->in = plan_take(plan, copy.rows * half * 2 * vgc_builtin_type_bytes(call->type));
    plan_add(plan, &kernel, plan_blocks(plan, copy.rows * half, THREADS), 0, &copy, sizeof(copy));
}

static uint32_t transform_of(uint32_t function, uint32_t type)
{
    bool is_double = type == VGC_TYPE_F64;
    switch (function) {
    case VGC_FN_FFT_C2C:
        return is_double ? FFT_Z2Z : FFT_C2C;
    case VGC_FN_FFT_R2C:
        return is_double ? FFT_D2Z : FFT_R2C;
    default:
        return is_double ? FFT_Z2D : FFT_C2R;
    }
}

static bool plan_library_fft(struct plan *before, struct plan *behind, const struct vgc_fft_params *p,
                             struct cuda_library_call *call)
{
    uint32_t function = before->builtin->function;
    uint64_t complex_bytes = 2 * vgc_builtin_type_bytes(call->type);
    if (p->batch == 0 || p->in % complex_bytes != 0 || p->out % complex_bytes != 0)
        return false; /* cuFFT wants even real numbers aligned like complex ones */
    call->shape = (struct cuda_fft_shape){transform_of(function, call->type),
                                          (uint32_t)p->rank,
                                          p->batch,
                                          {p->n0, p->n1, p->n2},
                                          {.stride = 0},
                                          {.stride = 0}};
    call->in = p->in;
    call->out = p->out;
    call->inverse = p->inverse != 0;
    call->keeps_input = p->in != p->out;
    if (function == VGC_FN_FFT_C2R)
        add_hermitian(before, p, call);
    else if (call->inverse)
        add_scale(behind, call);
    return true;
}

/* Layouts in which numbers that mean nothing are 0, as shapes are compared as bytes. */
static struct vgc_cufft_layout layout_of(const struct vgc_cufft_layout *given, const struct vgc_cufft_params *p)
{
    struct vgc_cufft_layout layout = {.stride = given->stride, .distance = given->distance};
    layout.embed[0] = p->n[0];
    for (int64_t i = 1; i < p->rank; i++)
        layout.embed[i] = given->embed[i];
    return layout;
}

static void plan_transform(const struct vgc_cufft_params *p, struct cuda_library_call *call)
{
    call->shape = (struct cuda_fft_shape){(uint32_t)p->type,           (uint32_t)p->rank,      p->batch,
                                          {p->n[0], p->n[1], p->n[2]}, layout_of(&p->from, p), layout_of(&p->to, p)};
    call->in = p->in;
    call->out = p->out;
    call->inverse = p->inverse != 0;
}

/* Calls that are the library's own go to it as they are, and nothing else can compute them. */
static bool plan_passed_on(const void *params, struct cuda_library_call *call)
{
    if (call->library == CUDA_LIBRARY_FFT)
        plan_transform(params, call);
    else if (call->function >= VGC_FN_CUDNN_NORMALIZE_TRAINING)
        call->normalization = *(const struct vgc_cudnn_normalization_params *)params;
    else if (call->library == CUDA_LIBRARY_DNN)
        call->convolution = *(const struct vgc_cudnn_convolution_params *)params;
    else
        call->product = *(const struct vgc_cublas_gemm_params *)params;
    return true;
}

enum cuda_library cuda_library_of(const struct vgc_builtin *builtin)
{
    switch (builtin->function) {
    case VGC_FN_GEMM:
    case VGC_FN_CUBLAS_GEMM:
        return CUDA_LIBRARY_BLAS;
    case VGC_FN_CUDNN_FORWARD:
    case VGC_FN_CUDNN_BACKWARD_DATA:
    case VGC_FN_CUDNN_BACKWARD_FILTER:
    case VGC_FN_CUDNN_NORMALIZE_TRAINING:
    case VGC_FN_CUDNN_NORMALIZE:
    case VGC_FN_CUDNN_NORMALIZE_BACKWARD:
        return CUDA_LIBRARY_DNN;
    case VGC_FN_FFT_C2C:
    case VGC_FN_FFT_R2C:
    case VGC_FN_FFT_C2R:
    case VGC_FN_CUFFT_TRANSFORM:
        return CUDA_LIBRARY_FFT;
    default:
        return CUDA_LIBRARY_NONE;
    }
}

bool cuda_library_plan(const struct vgc_builtin *builtin, const void *params, uint32_t num_sms, uint64_t workspace,
                       struct cuda_library_call *call)
{
    *call = (struct cuda_library_call){.library = cuda_library_of(builtin), .type = builtin->type};
    struct plan before = {builtin, "fft", num_sms, workspace, 0, 0, &call->before, 0};
    struct plan behind = {builtin, "fft", num_sms, workspace, 0, 0, &call->behind, 0};
    call->function = builtin->function;
    bool can = false;
    if (vgc_is_library_function(builtin))
        can = plan_passed_on(params, call);
    else if (call->library == CUDA_LIBRARY_BLAS)
        can = plan_library_gemm(params, call);
    else if (call->library == CUDA_LIBRARY_FFT)
        can = plan_library_fft(&before, &behind, params, call);
    call->scratch_bytes = before.most_bytes;
    call->num_before = before.num_launches;
    call->num_behind = behind.num_launches;
    return can;
}
