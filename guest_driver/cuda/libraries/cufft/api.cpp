// cuFFT's functions: handles, argument checks, and the forms of making a plan.
#include <map>
#include <memory>
#include <mutex>

#include "handles.h"

namespace vgc_fft
{
namespace
{
std::mutex mutex;
std::map<cufftHandle, std::shared_ptr<Plan>> &plans()
{
    static auto *const map =
        new std::map<cufftHandle, std::shared_ptr<Plan>>; // outlives static destructors that use plans
    return *map;
}
int next_handle = 1;

void release_work(Plan &plan)
{
    if (plan.owns_work)
        cudaFree(plan.work);
    plan.work = nullptr;
    plan.owns_work = false;
}

bool is_type(cufftType type)
{
    return type == CUFFT_R2C || type == CUFFT_C2R || type == CUFFT_C2C || type == CUFFT_D2Z || type == CUFFT_Z2D ||
           type == CUFFT_Z2Z;
}

Layout layout_of(const Shape &shape, const long long *embed, long long stride, long long dist, int kind)
{
    Layout layout;
    layout.kind = kind;
    layout.batch = dist;
    for (int d = shape.rank - 1; d >= 0; d--) {
        layout.stride[d] = stride;
        stride *= embed[d];
    }
    return layout;
}

cufftResult describe(Plan &plan, const Shape &shape)
{
    if (!is_type(shape.type))
        return CUFFT_INVALID_TYPE;
    if (shape.rank < 1 || shape.rank > 3 || !shape.n)
        return CUFFT_INVALID_VALUE;
    if (shape.batch < 1 || shape.batch > 0x7fffffff)
        return CUFFT_INVALID_SIZE;
    plan.type = shape.type;
    plan.storage = shape.storage;
    plan.rank = shape.rank;
    plan.batch = (int)shape.batch;
    double total = (double)shape.batch;
    for (int d = 0; d < shape.rank; d++) {
        if (shape.n[d] < 1 || shape.n[d] >= 1 << 29)
            return CUFFT_INVALID_SIZE;
        plan.n[d] = (int)shape.n[d];
        total *= (double)shape.n[d];
    }
    if (total >= 0x1p31)
        return CUFFT_INVALID_SIZE;
    plan.default_layout = !shape.inembed || !shape.onembed;
    if (!plan.default_layout) {
        if (shape.istride < 1 || shape.ostride < 1)
            return CUFFT_INVALID_VALUE;
        plan.in = layout_of(shape, shape.inembed, shape.istride, shape.idist,
                            plan.from_real() ? VGC_FFT_REAL : VGC_FFT_COMPLEX);
        plan.out = layout_of(shape, shape.onembed, shape.ostride, shape.odist,
                             plan.to_real() ? VGC_FFT_REAL : VGC_FFT_COMPLEX);
    }
    return CUFFT_SUCCESS;
}

} // namespace

std::shared_ptr<Plan> plan_of(cufftHandle handle)
{
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = plans().find(handle);
    return found == plans().end() ? nullptr : found->second;
}

cufftResult make(cufftHandle handle, const Shape &shape, size_t *work_size)
{
    const auto plan = plan_of(handle);
    if (!plan || plan->made)
        return CUFFT_INVALID_PLAN;
    const OnDevice current(*plan);
    cufftResult result = describe(*plan, shape);
    if (result == CUFFT_SUCCESS)
        result = prepare(*plan, true);
    if (result == CUFFT_SUCCESS)
        result = prepare_devices(*plan, work_size);
    if (result == CUFFT_SUCCESS && plan->automatic && plan->work_bytes()) {
        if (cudaMalloc((void **)&plan->work, plan->work_bytes()) != cudaSuccess)
            result = CUFFT_ALLOC_FAILED;
        plan->owns_work = result == CUFFT_SUCCESS;
    }
    if (result == CUFFT_ALLOC_FAILED)
        cudaGetLastError(); // the caller learns it from the status
    plan->made = result == CUFFT_SUCCESS;
    if (work_size)
        *work_size = plan->made ? plan->work_bytes() : 0;
    return result;
}

cufftResult estimate(const Shape &shape, size_t *work_size)
{
    if (!work_size)
        return CUFFT_INVALID_VALUE;
    Plan plan;
    cufftResult result = describe(plan, shape);
    if (result == CUFFT_SUCCESS)
        result = prepare(plan, false);
    *work_size = result == CUFFT_SUCCESS ? plan.work_bytes() : 0;
    return result;
}

cufftResult run(const Plan &plan, void *input, void *output, int direction)
{
    if (!input || !output || (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE))
        return CUFFT_INVALID_VALUE;
    if (plan.work_bytes() && !plan.work)
        return CUFFT_NO_WORKSPACE;
    return execute(plan, input, output, direction);
}

namespace
{
cufftResult make_new(cufftHandle *handle, const Shape &shape)
{
    if (const cufftResult result = cufftCreate(handle))
        return result;
    const cufftResult result = make(*handle, shape, nullptr);
    if (result != CUFFT_SUCCESS)
        cufftDestroy(*handle);
    return result;
}

cufftResult exec(cufftHandle handle, void *input, void *output, cufftType type, int direction)
{
    const auto plan = plan_of(handle);
    if (!plan || !plan->made || plan->devices.size() > 1)
        return CUFFT_INVALID_PLAN;
    return plan->type == type && !plan->is_narrow() ? run(*plan, input, output, direction) : CUFFT_INVALID_TYPE;
}

// Plans of 32-bit sizes, widened.
struct Wide {
    long long n[3] = {}, inembed[3] = {}, onembed[3] = {};
    Shape shape;

    Wide(int rank, const int *sizes, const int *in, int istride, int idist, const int *out, int ostride, int odist,
         cufftType type, long long batch)
        : shape{rank,
                sizes ? n : nullptr,
                in ? inembed : nullptr,
                out ? onembed : nullptr,
                istride,
                idist,
                ostride,
                odist,
                batch,
                type,
                Storage::same}
    {
        for (int d = 0; d < rank && d < 3; d++) {
            n[d] = sizes ? sizes[d] : 0;
            inembed[d] = in ? in[d] : 0;
            onembed[d] = out ? out[d] : 0;
        }
    }
    Wide(const Wide &) = delete; // `shape` points into it
};
struct Simple {
    int sizes[3];
    Wide wide;
    Simple(int rank, int x, int y, int z, cufftType type, int batch)
        : sizes{x, y, z}, wide(rank, sizes, nullptr, 1, 0, nullptr, 1, 0, type, batch)
    {
    }
};
} // namespace
} // namespace vgc_fft

using namespace vgc_fft;

API cufftResult cufftCreate(cufftHandle *handle)
{
    if (!handle)
        return CUFFT_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(mutex);
    plans()[ *handle = next_handle++] = std::make_shared<Plan>();
    return CUFFT_SUCCESS;
}
API cufftResult cufftDestroy(cufftHandle handle)
{
    std::shared_ptr<Plan> plan;
    {
        const std::lock_guard<std::mutex> lock(mutex);
        const auto found = plans().find(handle);
        if (found == plans().end())
            return CUFFT_INVALID_PLAN;
        plan = found->second;
        plans().erase(found);
    }
    release_work(*plan);
    cudaFree(plan->tables);
    cudaFree(plan->gathered);
    return CUFFT_SUCCESS;
}

#define MANY_INT                                                                                                       \
    int rank, int *n, int *inembed, int istride, int idist, int *onembed, int ostride, int odist, cufftType type,      \
        int batch
#define MANY_64                                                                                                        \
    int rank, long long *n, long long *inembed, long long istride, long long idist, long long *onembed,                \
        long long ostride, long long odist, cufftType type, long long batch
#define WIDE Wide(rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch).shape
#define SHAPE_64                                                                                                       \
    Shape                                                                                                              \
    {                                                                                                                  \
        rank, n, inembed, onembed, istride, idist, ostride, odist, batch, type, Storage::same                          \
    }

API cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch)
{
    return make_new(plan, Simple(1, nx, 1, 1, type, batch).wide.shape);
}
API cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type)
{
    return make_new(plan, Simple(2, nx, ny, 1, type, 1).wide.shape);
}
API cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type)
{
    return make_new(plan, Simple(3, nx, ny, nz, type, 1).wide.shape);
}
API cufftResult cufftPlanMany(cufftHandle *plan, MANY_INT)
{
    return make_new(plan, WIDE);
}

API cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t *work_size)
{
    return make(plan, Simple(1, nx, 1, 1, type, batch).wide.shape, work_size);
}
API cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *work_size)
{
    return make(plan, Simple(2, nx, ny, 1, type, 1).wide.shape, work_size);
}
API cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *work_size)
{
    return make(plan, Simple(3, nx, ny, nz, type, 1).wide.shape, work_size);
}
API cufftResult cufftMakePlanMany(cufftHandle plan, MANY_INT, size_t *work_size)
{
    return make(plan, WIDE, work_size);
}
API cufftResult cufftMakePlanMany64(cufftHandle plan, MANY_64, size_t *work_size)
{
    return make(plan, SHAPE_64, work_size);
}

API cufftResult cufftEstimate1d(int nx, cufftType type, int batch, size_t *work_size)
{
    return estimate(Simple(1, nx, 1, 1, type, batch).wide.shape, work_size);
}
API cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t *work_size)
{
    return estimate(Simple(2, nx, ny, 1, type, 1).wide.shape, work_size);
}
API cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type, size_t *work_size)
{
    return estimate(Simple(3, nx, ny, nz, type, 1).wide.shape, work_size);
}
API cufftResult cufftEstimateMany(MANY_INT, size_t *work_size)
{
    return estimate(WIDE, work_size);
}
API cufftResult cufftGetSize1d(cufftHandle plan, int nx, cufftType type, int batch, size_t *work_size)
{
    return plan_of(plan) ? cufftEstimate1d(nx, type, batch, work_size) : CUFFT_INVALID_PLAN;
}
API cufftResult cufftGetSize2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *work_size)
{
    return plan_of(plan) ? cufftEstimate2d(nx, ny, type, work_size) : CUFFT_INVALID_PLAN;
}
API cufftResult cufftGetSize3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *work_size)
{
    return plan_of(plan) ? cufftEstimate3d(nx, ny, nz, type, work_size) : CUFFT_INVALID_PLAN;
}
API cufftResult cufftGetSizeMany(cufftHandle plan, MANY_INT, size_t *work_size)
{
    return plan_of(plan) ? estimate(WIDE, work_size) : CUFFT_INVALID_PLAN;
}
API cufftResult cufftGetSizeMany64(cufftHandle plan, MANY_64, size_t *work_size)
{
    return plan_of(plan) ? estimate(SHAPE_64, work_size) : CUFFT_INVALID_PLAN;
}
API cufftResult cufftGetSize(cufftHandle handle, size_t *work_size)
{
    const auto plan = plan_of(handle);
    if (!plan || !plan->made)
        return CUFFT_INVALID_PLAN;
    if (!work_size)
        return CUFFT_INVALID_VALUE;
    *work_size = plan->work_bytes();
    return CUFFT_SUCCESS;
}

API cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream)
{
    const auto plan = plan_of(handle);
    if (!plan)
        return CUFFT_INVALID_PLAN;
    plan->stream = stream;
    return CUFFT_SUCCESS;
}
API cufftResult cufftSetAutoAllocation(cufftHandle handle, int automatic)
{
    const auto plan = plan_of(handle);
    if (!plan)
        return CUFFT_INVALID_PLAN;
    plan->automatic = automatic != 0;
    return CUFFT_SUCCESS;
}
API cufftResult cufftSetWorkArea(cufftHandle handle, void *area)
{
    const auto plan = plan_of(handle);
    if (!plan)
        return CUFFT_INVALID_PLAN;
    release_work(*plan);
    plan->work = (char *)area;
    return CUFFT_SUCCESS;
}

API cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *input, cufftComplex *output, int direction)
{
    return exec(plan, input, output, CUFFT_C2C, direction);
}
API cufftResult cufftExecR2C(cufftHandle plan, cufftReal *input, cufftComplex *output)
{
    return exec(plan, input, output, CUFFT_R2C, CUFFT_FORWARD);
}
API cufftResult cufftExecC2R(cufftHandle plan, cufftComplex *input, cufftReal *output)
{
    return exec(plan, input, output, CUFFT_C2R, CUFFT_INVERSE);
}
API cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *input, cufftDoubleComplex *output, int direction)
{
    return exec(plan, input, output, CUFFT_Z2Z, direction);
}
API cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal *input, cufftDoubleComplex *output)
{
    return exec(plan, input, output, CUFFT_D2Z, CUFFT_FORWARD);
}
API cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *input, cufftDoubleReal *output)
{
    return exec(plan, input, output, CUFFT_Z2D, CUFFT_INVERSE);
}
API cufftResult cufftGetVersion(int *version)
{
    if (!version)
        return CUFFT_INVALID_VALUE;
    *version = CUFFT_VERSION;
    return CUFFT_SUCCESS;
}
API cufftResult cufftGetProperty(libraryPropertyType type, int *value)
{
    if (!value || type > PATCH_LEVEL)
        return CUFFT_INVALID_VALUE;
    *value = type == MAJOR_VERSION ? CUFFT_VER_MAJOR : type == MINOR_VERSION ? CUFFT_VER_MINOR : CUFFT_VER_PATCH;
    return CUFFT_SUCCESS;
}
