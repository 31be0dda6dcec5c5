/* NVIDIA's libraries: cuBLAS for products of matrices, cuFFT for Fourier transforms.
 *
 * A library is loaded and its handle made before the guest's first request, as both take memory and load modules. All
 * scratch memory is the call's workspace, so it counts towards the VM's quota; a plan's tables and a library's code do
 * not, which is why plans are few. A plan is made when the first call of its shape arrives: NVIDIA does not say whether
 * that waits for running kernels.
 *
 * The same call gives the same bits: cuBLAS promises that for one GPU and number of SMs if each stream has a workspace
 * of its own, which is of the same size for all calls of a VM, and atomic operations stay off, as they are by default.
 */
#include "cuda_engine.h"

#include "vhost_backend/builtins/vgc_builtins.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* cuBLAS's workspace. NVIDIA recommends 32 MiB for the largest GPUs and 4 MiB for others; a small VM spares less. */
#define BLAS_MOST_BYTES (UINT64_C(32) << 20)
#define BLAS_LEAST_BYTES (UINT64_C(64) << 10)
enum { BLAS_PART = 64 };

_Static_assert((int)BLAS_SUCCESS == 0 && (int)FFT_SUCCESS == 0, "both libraries' errors are other numbers");

#define SYMBOL_OF(type, name) {#name, offsetof(struct type, name)},
#define BLAS_SYMBOL(name, parameters) SYMBOL_OF(cuda_blas, name)
#define FFT_SYMBOL(name, parameters) SYMBOL_OF(cuda_fft, name)
static const struct cuda_symbol BLAS_SYMBOLS[] = {BLAS_FUNCTIONS(BLAS_SYMBOL)};
static const struct cuda_symbol FFT_SYMBOLS[] = {FFT_FUNCTIONS(FFT_SYMBOL)};

/* ---- loading ----------------------------------------------------------------------------------------------------- */

int cuda_libraries_open(struct cuda_engine *engine, const struct vgc_cuda_setup *setup, char *why)
{
    snprintf(why, VGC_CUDA_WHY, "cuBLAS and cuFFT are required, and one of them is not named");
    if (setup->cublas != NULL)
        engine->blas.library = cuda_library_load(setup->cublas, BLAS_SYMBOLS,
                                                 sizeof(BLAS_SYMBOLS) / sizeof(*BLAS_SYMBOLS), &engine->blas, why);
    if (setup->cufft != NULL)
        engine->fft.library =
            cuda_library_load(setup->cufft, FFT_SYMBOLS, sizeof(FFT_SYMBOLS) / sizeof(*FFT_SYMBOLS), &engine->fft, why);
    cuda_dnn_open(engine, setup, why);
    bool has_both = engine->blas.library != NULL && engine->fft.library != NULL;
    return setup->libraries_required == 0 || has_both ? 0 : -1;
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

/* Half products are summed as floats, and no more SMs are counted on than the VM has. */
static blas_result make_handle(struct cuda_engine *engine)
{
    struct cuda_blas *blas = &engine->blas;
    blas_result error = blas->cublasCreate_v2(&blas->handle);
    if (error != BLAS_SUCCESS) {
        blas->handle = NULL;
        return error;
    }
    error = blas->cublasSetMathMode(blas->handle, BLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    if (error == BLAS_SUCCESS)
        error = blas->cublasSetSmCountTarget(blas->handle, (int)engine->base.num_pes);
    return error;
}

static void close_blas(struct cuda_blas *blas)
{
    if (blas->handle != NULL)
        blas->cublasDestroy_v2(blas->handle);
    if (blas->library != NULL)
        dlclose(blas->library);
    *blas = (struct cuda_blas){.library = NULL};
}

int cuda_libraries_start(struct cuda_engine *engine, char *why)
{
    blas_result error = engine->blas.library != NULL ? make_handle(engine) : BLAS_SUCCESS;
    if (error == BLAS_SUCCESS) {
        drv_result error_of_dnn = cuda_dnn_start(engine);
        return error_of_dnn == DRV_SUCCESS ? 0 : cuda_why(engine, why, "cuDNN does not start", error_of_dnn);
    }
    close_blas(&engine->blas);
    drv_result lost = cuda_library_context_error(engine, engine->alloc_stream);
    if (lost != DRV_SUCCESS)
        return cuda_why(engine, why, "cuBLAS does not start", lost);
    snprintf(why, VGC_CUDA_WHY, "cuBLAS does not start: its error %u", error);
    return engine->setup.libraries_required == 0 ? 0 : -1;
}

static void end_plan(const struct cuda_fft *fft, struct cuda_fft_plan *plan)
{
    if (plan->shape.batch != 0)
        fft->cufftDestroy(plan->handle);
    *plan = (struct cuda_fft_plan){.work_bytes = 0};
}

void cuda_libraries_close(struct cuda_engine *engine)
{
    struct cuda_fft *fft = &engine->fft;
    cuda_dnn_close(engine);
    close_blas(&engine->blas);
    for (uint32_t i = 0; i < CUDA_FFT_PLANS; i++)
        end_plan(fft, &fft->plans[i]);
    if (fft->library != NULL)
        dlclose(fft->library);
    fft->library = NULL;
}

bool cuda_library_is_used(const struct cuda_engine *engine, enum cuda_library library)
{
    return (library == CUDA_LIBRARY_BLAS && engine->blas.library != NULL) ||
           (library == CUDA_LIBRARY_FFT && engine->fft.library != NULL) ||
           (library == CUDA_LIBRARY_DNN && engine->dnn.library != NULL);
}

uint32_t vgc_cuda_engine_libraries(const struct vgc_engine *base)
{
    const struct cuda_engine *engine = (const struct cuda_engine *)base;
    return (engine->blas.library != NULL ? VGC_CUDA_CUBLAS : 0) | (engine->fft.library != NULL ? VGC_CUDA_CUFFT : 0) |
           (engine->dnn.library != NULL ? VGC_CUDA_CUDNN : 0);
}

/* ---- plans of transforms ----------------------------------------------------------------------------------------- */

/* Numbers of axes, of the type that cuFFT takes. */
struct axes {
    long long numbers[VGC_CUFFT_RANK];
};

static struct axes axes_of(const int64_t *numbers)
{
    return (struct axes){{numbers[0], numbers[1], numbers[2]}};
}

static bool make_plan(const struct cuda_fft *fft, const struct cuda_fft_shape *shape, struct cuda_fft_plan *plan)
{
    const struct vgc_cufft_layout *in = &shape->in, *out = &shape->out;
    struct axes lengths = axes_of(shape->lengths), from = axes_of(in->embed), to = axes_of(out->embed);
    bool is_packed = in->stride == 0;
    size_t work_bytes = 0;
    fft_plan handle;
    if (fft->cufftCreate(&handle) != FFT_SUCCESS)
        return false;
    fft_result error = fft->cufftSetAutoAllocation(handle, 0);
    if (error == FFT_SUCCESS)
        error = fft->cufftMakePlanMany64(handle, (int)shape->rank, lengths.numbers, is_packed ? NULL : from.numbers,
                                         is_packed ? 1 : in->stride, in->distance, is_packed ? NULL : to.numbers,
                                         is_packed ? 1 : out->stride, out->distance, shape->transform, shape->batch,
                                         &work_bytes);
    if (error != FFT_SUCCESS) {
        fft->cufftDestroy(handle);
        return false;
    }
    *plan = (struct cuda_fft_plan){.shape = *shape, .handle = handle, .work_bytes = work_bytes};
    return true;
}

/* The plan of a shape, or the one to replace by it: none, or the one that has not been used for longest. */
static struct cuda_fft_plan *place_of(struct cuda_fft *fft, const struct cuda_fft_shape *shape)
{
    struct cuda_fft_plan *place = &fft->plans[0];
    for (uint32_t i = 0; i < CUDA_FFT_PLANS; i++) {
        if (memcmp(&fft->plans[i].shape, shape, sizeof(*shape)) == 0)
            return &fft->plans[i];
        if (fft->plans[i].used < place->used)
            place = &fft->plans[i];
    }
    return place;
}

/* The plan of a shape, which is made if it is missing; NULL: cuFFT makes no such plan. */
static const struct cuda_fft_plan *plan_of(struct cuda_engine *engine, const struct cuda_fft_shape *shape)
{
    struct cuda_fft *fft = &engine->fft;
    struct cuda_fft_plan *plan = place_of(fft, shape);
    if (memcmp(&plan->shape, shape, sizeof(*shape)) != 0) {
        end_plan(fft, plan);
        if (!make_plan(fft, shape, plan)) {
            cuda_check(engine, cuda_library_context_error(engine, engine->alloc_stream));
            return NULL;
        }
    }
    plan->used = ++fft->uses;
    return plan;
}

bool cuda_library_bytes(struct cuda_engine *engine, const struct cuda_library_call *call, uint64_t *bytes)
{
    uint64_t part = engine->setup.memory_bytes / BLAS_PART / CUDA_ALIGN * CUDA_ALIGN;
    if (call->library == CUDA_LIBRARY_BLAS) {
        *bytes = part < BLAS_MOST_BYTES ? part : BLAS_MOST_BYTES;
        return part >= BLAS_LEAST_BYTES;
    }
    if (call->library == CUDA_LIBRARY_DNN)
        return cuda_dnn_bytes(engine, call, bytes);
    const struct cuda_fft_plan *plan = plan_of(engine, &call->shape);
    *bytes = plan != NULL ? plan->work_bytes : 0;
    return plan != NULL;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

/* Sets what a product needs; setting the stream takes the workspace away. */
static blas_result prepare_blas(const struct cuda_blas *blas, drv_stream stream, drv_address work, uint64_t bytes)
{
    blas_result error = blas->cublasSetStream_v2(blas->handle, stream);
    return error == BLAS_SUCCESS ? blas->cublasSetWorkspace_v2(blas->handle, pointer(work), bytes) : error;
}

/* A guest's own call of cuBLAS, in the math mode of its handle. */
static blas_result submit_product(const struct cuda_blas *blas, drv_stream stream, const struct cuda_library_call *call,
                                  drv_address work, uint64_t bytes)
{
    const struct vgc_cublas_gemm_params *p = &call->product;
    const bool is_double = p->compute == BLAS_COMPUTE_64F || p->compute == BLAS_COMPUTE_64F_PEDANTIC;
    const double alpha[] = {p->alpha, p->alpha_imaginary}, beta[] = {p->beta, p->beta_imaginary};
    const float alpha_single[] = {(float)alpha[0], (float)alpha[1]}, beta_single[] = {(float)beta[0], (float)beta[1]};
    blas_result error = prepare_blas(blas, stream, work, bytes);
    if (error == BLAS_SUCCESS)
        error = blas->cublasSetMathMode(blas->handle, (unsigned int)p->math);
    if (error != BLAS_SUCCESS)
        return error;
    error = blas->cublasGemmStridedBatchedEx_64(
        blas->handle, (unsigned int)p->op_a, (unsigned int)p->op_b, p->m, p->n, p->k,
        is_double ? (const void *)alpha : alpha_single, pointer(p->a), (unsigned int)p->in_type, p->lda, p->stride_a,
        pointer(p->b), (unsigned int)p->in_type, p->ldb, p->stride_b, is_double ? (const void *)beta : beta_single,
        pointer(p->c), (unsigned int)p->out_type, p->ldc, p->stride_c, p->batch, (unsigned int)p->compute,
        BLAS_GEMM_DEFAULT);
    blas_result restored = blas->cublasSetMathMode(blas->handle, BLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    return error != BLAS_SUCCESS ? error : restored;
}

/* A row-major product is that of the swapped operands in columns. */
static blas_result submit_gemm(const struct cuda_blas *blas, drv_stream stream, const struct cuda_library_call *call,
                               drv_address work, uint64_t bytes)
{
    static const unsigned int TYPES[] = {
        [VGC_TYPE_F16] = BLAS_R_16F, [VGC_TYPE_F32] = BLAS_R_32F, [VGC_TYPE_F64] = BLAS_R_64F};
    const struct vgc_gemm_params *p = &call->gemm;
    float alpha = (float)p->alpha, beta = (float)p->beta;
    bool is_double = call->type == VGC_TYPE_F64;
    unsigned int type = TYPES[call->type];
    blas_result error = prepare_blas(blas, stream, work, bytes);
    if (error != BLAS_SUCCESS)
        return error;
    return blas->cublasGemmStridedBatchedEx_64(
        blas->handle, p->transpose_b ? BLAS_OP_T : BLAS_OP_N, p->transpose_a ? BLAS_OP_T : BLAS_OP_N, p->n, p->m, p->k,
        is_double ? (const void *)&p->alpha : &alpha, pointer(p->b), type, p->ldb, p->stride_b, pointer(p->a), type,
        p->lda, p->stride_a, is_double ? (const void *)&p->beta : &beta, pointer(p->c), type, p->ldc, p->stride_c,
        p->batch, is_double ? BLAS_COMPUTE_64F : BLAS_COMPUTE_32F, BLAS_GEMM_DEFAULT);
}

static fft_result execute(const struct cuda_fft *fft, fft_plan plan, const struct cuda_library_call *call)
{
    int direction = call->inverse ? FFT_INVERSE : FFT_FORWARD;
    void *in = pointer(call->in), *out = pointer(call->out);
    switch (call->shape.transform) {
    case FFT_C2C:
        return fft->cufftExecC2C(plan, in, out, direction);
    case FFT_Z2Z:
        return fft->cufftExecZ2Z(plan, in, out, direction);
    case FFT_R2C:
        return fft->cufftExecR2C(plan, in, out);
    case FFT_D2Z:
        return fft->cufftExecD2Z(plan, in, out);
    case FFT_C2R:
        return fft->cufftExecC2R(plan, in, out);
    default:
        return fft->cufftExecZ2D(plan, in, out);
    }
}

static fft_result submit_fft(struct cuda_engine *engine, drv_stream stream, const struct cuda_library_call *call,
                             drv_address work)
{
    const struct cuda_fft *fft = &engine->fft;
    const struct cuda_fft_plan *plan = plan_of(engine, &call->shape);
    if (plan == NULL)
        return FFT_INTERNAL_ERROR;
    fft_result error = fft->cufftSetStream(plan->handle, stream);
    if (error == FFT_SUCCESS && plan->work_bytes != 0)
        error = fft->cufftSetWorkArea(plan->handle, pointer(work));
    return error == FFT_SUCCESS ? execute(fft, plan->handle, call) : error;
}

enum cuda_library_result cuda_library_submit(struct cuda_engine *engine, drv_stream stream,
                                             const struct cuda_library_call *call, drv_address work, uint64_t bytes)
{
    uint32_t error;
    bool may_have_begun;
    if (call->library == CUDA_LIBRARY_BLAS) {
        error = call->function == VGC_FN_CUBLAS_GEMM ? submit_product(&engine->blas, stream, call, work, bytes)
                                                     : submit_gemm(&engine->blas, stream, call, work, bytes);
        may_have_begun = error == BLAS_MAPPING_ERROR || error == BLAS_EXECUTION_FAILED || error == BLAS_INTERNAL_ERROR;
    } else if (call->library == CUDA_LIBRARY_DNN) {
        error = cuda_dnn_submit(engine, stream, call, work, bytes);
        may_have_begun = error >= DNN_INTERNAL_ERROR;
    } else {
        error = submit_fft(engine, stream, call, work);
        may_have_begun = error == FFT_INTERNAL_ERROR || error == FFT_EXEC_FAILED;
    }
    if (error == 0)
        return CUDA_LIBRARY_DONE;
    cuda_check(engine, cuda_library_context_error(engine, stream));
    return may_have_begun ? CUDA_LIBRARY_FAILED : CUDA_LIBRARY_REFUSED;
}
