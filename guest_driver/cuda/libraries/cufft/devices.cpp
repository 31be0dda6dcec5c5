// cuFFT's plans whose data is on several devices. The first one transforms what all hold: it gathers their parts and
// hands them back. Parts are of the first dimension (of batches: of the batch), and of the second one in data that is
// shuffled, as transforms leave and take it in turn.
#include <algorithm>

#include "handles.h"

namespace vgc_fft
{
namespace
{
constexpr size_t MOST_DEVICES = 16;

// Where a device's part lies in the whole: rows of `width` bytes, each `pitch` behind the one before.
struct Part {
    size_t offset, width, pitch, rows;
    size_t bytes() const
    {
        return width * rows;
    }
};

size_t whole_bytes(const Plan &plan)
{
    size_t total = (size_t)plan.batch * plan.stored_pair_bytes();
    for (int d = 0; d < plan.rank; d++)
        total *= (size_t)plan.complex_count(d);
    return total;
}

bool can_shuffle(const Plan &plan)
{
    return plan.rank > 1 && plan.batch == 1;
}

Part part_of(const Plan &plan, size_t device, bool is_shuffled)
{
    const bool by_second = is_shuffled && can_shuffle(plan);
    const size_t rows = by_second ? (size_t)plan.complex_count(0) : 1, pitch = whole_bytes(plan) / rows;
    const size_t count = (size_t)(by_second        ? plan.complex_count(1)
                                  : plan.batch > 1 ? plan.batch
                                                   : plan.complex_count(0));
    const size_t devices = plan.devices.size(), each = count / devices, more = count % devices, item = pitch / count;
    const size_t first = device * each + std::min(device, more);
    return {first * item, (each + (device < more)) * item, pitch, rows};
}

cufftResult result_of(cudaError_t error)
{
    return error == cudaSuccess ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
}

bool is_shuffled(const cudaLibXtDesc &data)
{
    return data.subFormat == CUFFT_XT_FORMAT_INPLACE_SHUFFLED;
}

void set_format(const Plan &plan, cudaLibXtDesc &data, bool shuffled)
{
    data.subFormat = shuffled ? CUFFT_XT_FORMAT_INPLACE_SHUFFLED : CUFFT_XT_FORMAT_INPLACE;
    for (size_t device = 0; device < plan.devices.size(); device++)
        data.descriptor->size[device] = part_of(plan, device, shuffled).bytes();
}

bool belongs(const Plan &plan, const cudaLibXtDesc *data)
{
    return data && data->descriptor && data->library == LIB_FORMAT_CUFFT &&
           data->descriptor->nGPUs == (int)plan.devices.size() &&
           std::equal(plan.devices.begin(), plan.devices.end(), data->descriptor->GPUs);
}

cufftResult copy_host(const Plan &plan, cudaLibXtDesc &data, char *host, bool to_device)
{
    for (size_t device = 0; device < plan.devices.size(); device++) {
        const Part part = part_of(plan, device, is_shuffled(data));
        void *const there = data.descriptor->data[device];
        const OnDevice current(plan.devices[device]);
        cudaError_t error = cudaDeviceSynchronize();
        if (error == cudaSuccess && to_device)
            error = cudaMemcpy2D(there, part.width, host + part.offset, part.pitch, part.width, part.rows,
                                 cudaMemcpyHostToDevice);
        else if (error == cudaSuccess)
            error = cudaMemcpy2D(host + part.offset, part.pitch, there, part.width, part.width, part.rows,
                                 cudaMemcpyDeviceToHost);
        if (error != cudaSuccess)
            return result_of(error);
    }
    return CUFFT_SUCCESS;
}

// Copies the parts to the whole on the first device, or from there.
cufftResult copy_whole(const Plan &plan, cudaLibXtDesc &data, bool gathers)
{
    for (size_t device = 0; device < plan.devices.size(); device++) {
        const Part part = part_of(plan, device, is_shuffled(data));
        const cudaPitchedPtr whole =
            make_cudaPitchedPtr(plan.gathered + part.offset, part.pitch, part.width, part.rows);
        const cudaPitchedPtr there =
            make_cudaPitchedPtr(data.descriptor->data[device], part.width, part.width, part.rows);
        cudaMemcpy3DPeerParms copy = {};
        copy.srcPtr = gathers ? there : whole;
        copy.srcDevice = plan.devices[gathers ? device : 0];
        copy.dstPtr = gathers ? whole : there;
        copy.dstDevice = plan.devices[gathers ? 0 : device];
        copy.extent = make_cudaExtent(part.width, part.rows, 1);
        if (const cudaError_t error = cudaMemcpy3DPeer(&copy))
            return result_of(error);
    }
    return CUFFT_SUCCESS;
}

cufftResult copy_devices(const Plan &plan, cudaLibXtDesc &to, cudaLibXtDesc &from)
{
    const OnDevice current(plan);
    if (plan.devices.size() == 1) {
        set_format(plan, to, false);
        return result_of(cudaMemcpyAsync(to.descriptor->data[0], from.descriptor->data[0], whole_bytes(plan),
                                         cudaMemcpyDeviceToDevice, plan.stream));
    }
    const cufftResult result = copy_whole(plan, from, true);
    if (result != CUFFT_SUCCESS)
        return result;
    set_format(plan, to, false);
    return copy_whole(plan, to, false);
}

cufftResult run_parts(const Plan &plan, cudaLibXtDesc &in, cudaLibXtDesc &out, int direction)
{
    const OnDevice current(plan);
    const bool shuffles = plan.batch == 1 && !is_shuffled(in);
    cufftResult result = CUFFT_SUCCESS;
    if (plan.devices.size() == 1) {
        void *const data = out.descriptor->data[0];
        if (&in != &out)
            result = result_of(cudaMemcpyAsync(data, in.descriptor->data[0], whole_bytes(plan),
                                               cudaMemcpyDeviceToDevice, plan.stream));
        if (result == CUFFT_SUCCESS)
            result = run(plan, data, data, direction);
        if (result == CUFFT_SUCCESS)
            set_format(plan, out, shuffles);
        return result;
    }
    result = copy_whole(plan, in, true);
    if (result == CUFFT_SUCCESS)
        result = run(plan, plan.gathered, plan.gathered, direction);
    if (result != CUFFT_SUCCESS)
        return result;
    set_format(plan, out, shuffles);
    return copy_whole(plan, out, false);
}

cufftResult exec(cufftHandle handle, cudaLibXtDesc *in, cudaLibXtDesc *out, int type, int direction)
{
    const auto plan = plan_of(handle);
    if (!plan || !plan->made || plan->devices.empty())
        return CUFFT_INVALID_PLAN;
    if (type >= 0 && (plan->type != (cufftType)type || plan->is_narrow()))
        return CUFFT_INVALID_TYPE;
    if (!belongs(*plan, in) || !belongs(*plan, out))
        return CUFFT_INVALID_VALUE;
    if (plan->from_real() || plan->to_real()) // the type says it
        direction = plan->from_real() ? CUFFT_FORWARD : CUFFT_INVERSE;
    return run_parts(*plan, *in, *out, direction);
}

cufftResult allocate(const Plan &plan, cudaLibXtDesc &data)
{
    cudaXtDesc &parts = *data.descriptor;
    parts.version = data.version = CUDA_XT_DESCRIPTOR_VERSION;
    data.library = LIB_FORMAT_CUFFT;
    for (const int device : plan.devices) {
        const size_t place = (size_t)parts.nGPUs++;
        const OnDevice current(device);
        parts.GPUs[place] = device;
        const size_t bytes = std::max(part_of(plan, place, false).bytes(), part_of(plan, place, true).bytes());
        if (cudaMalloc(&parts.data[place], bytes) != cudaSuccess) {
            cudaGetLastError(); // the caller learns it from the status
            return CUFFT_ALLOC_FAILED;
        }
    }
    return CUFFT_SUCCESS;
}
} // namespace

// Takes what a plan of several devices needs; `work_size` has a place for each.
cufftResult prepare_devices(Plan &plan, size_t *work_size)
{
    const size_t devices = plan.devices.size();
    if (devices == 0)
        return CUFFT_SUCCESS;
    if (!plan.default_layout)
        return CUFFT_NOT_SUPPORTED;
    const int first = plan.batch > 1 ? plan.batch : plan.complex_count(0);
    const int second = can_shuffle(plan) ? plan.complex_count(1) : first;
    if (devices > (size_t)std::min(first, second))
        return CUFFT_INVALID_SIZE;
    if (work_size)
        std::fill(work_size, work_size + devices, 0);
    if (devices > 1 && cudaMalloc((void **)&plan.gathered, whole_bytes(plan)) != cudaSuccess)
        return CUFFT_ALLOC_FAILED;
    return CUFFT_SUCCESS;
}
} // namespace vgc_fft

using namespace vgc_fft;

API cufftResult cufftXtSetGPUs(cufftHandle handle, int count, int *devices)
{
    const auto plan = plan_of(handle);
    if (!plan || plan->made)
        return CUFFT_INVALID_PLAN;
    int there = 0;
    if (count < 1 || count > (int)MOST_DEVICES || !devices)
        return CUFFT_INVALID_VALUE;
    if (cudaGetDeviceCount(&there) != cudaSuccess)
        return CUFFT_SETUP_FAILED;
    for (int i = 0; i < count; i++)
        if (devices[i] < 0 || devices[i] >= there || std::count(devices, devices + i, devices[i]))
            return CUFFT_INVALID_DEVICE;
    plan->devices.assign(devices, devices + count);
    return CUFFT_SUCCESS;
}
API cufftResult cufftXtSetWorkArea(cufftHandle plan, void **work_areas)
{
    return work_areas ? cufftSetWorkArea(plan, work_areas[0]) : CUFFT_INVALID_VALUE;
}

API cufftResult cufftXtMalloc(cufftHandle handle, cudaLibXtDesc **descriptor, cufftXtSubFormat format)
{
    const auto plan = plan_of(handle);
    if (!plan || !plan->made || plan->devices.empty())
        return CUFFT_INVALID_PLAN;
    if (!descriptor || (format != CUFFT_XT_FORMAT_INPLACE && format != CUFFT_XT_FORMAT_INPLACE_SHUFFLED))
        return CUFFT_INVALID_VALUE;
    cudaLibXtDesc *const data = new cudaLibXtDesc();
    data->descriptor = new cudaXtDesc();
    const cufftResult result = allocate(*plan, *data);
    if (result != CUFFT_SUCCESS) {
        cufftXtFree(data);
        return result;
    }
    set_format(*plan, *data, format == CUFFT_XT_FORMAT_INPLACE_SHUFFLED);
    *descriptor = data;
    return CUFFT_SUCCESS;
}
API cufftResult cufftXtFree(cudaLibXtDesc *data)
{
    if (!data || !data->descriptor)
        return CUFFT_INVALID_VALUE;
    for (int device = 0; device < data->descriptor->nGPUs; device++)
        cudaFree(data->descriptor->data[device]);
    delete data->descriptor;
    delete data;
    return CUFFT_SUCCESS;
}
API cufftResult cufftXtMemcpy(cufftHandle handle, void *to, void *from, cufftXtCopyType type)
{
    const auto plan = plan_of(handle);
    if (!plan || !plan->made || plan->devices.empty())
        return CUFFT_INVALID_PLAN;
    cudaLibXtDesc *const target = type == CUFFT_COPY_DEVICE_TO_HOST ? nullptr : (cudaLibXtDesc *)to;
    cudaLibXtDesc *const source = type == CUFFT_COPY_HOST_TO_DEVICE ? nullptr : (cudaLibXtDesc *)from;
    if (type < CUFFT_COPY_HOST_TO_DEVICE || type > CUFFT_COPY_DEVICE_TO_DEVICE || !to || !from ||
        (target && !belongs(*plan, target)) || (source && !belongs(*plan, source)))
        return CUFFT_INVALID_VALUE;
    if (target && source)
        return copy_devices(*plan, *target, *source);
    return target ? copy_host(*plan, *target, (char *)from, true) : copy_host(*plan, *source, (char *)to, false);
}

API cufftResult cufftXtExecDescriptor(cufftHandle plan, cudaLibXtDesc *input, cudaLibXtDesc *output, int direction)
{
    return exec(plan, input, output, -1, direction);
}
API cufftResult cufftXtExecDescriptorC2C(cufftHandle plan, cudaLibXtDesc *input, cudaLibXtDesc *output, int direction)
{
    return exec(plan, input, output, CUFFT_C2C, direction);
}
API cufftResult cufftXtExecDescriptorZ2Z(cufftHandle plan, cudaLibXtDesc *input, cudaLibXtDesc *output, int direction)
{
    return exec(plan, input, output, CUFFT_Z2Z, direction);
}
API cufftResult cufftXtExecDescriptorR2C(cufftHandle plan, cudaLibXtDesc *input, cudaLibXtDesc *output)
{
    return exec(plan, input, output, CUFFT_R2C, CUFFT_FORWARD);
}
API cufftResult cufftXtExecDescriptorC2R(cufftHandle plan, cudaLibXtDesc *input, cudaLibXtDesc *output)
{
    return exec(plan, input, output, CUFFT_C2R, CUFFT_INVERSE);
}
API cufftResult cufftXtExecDescriptorD2Z(cufftHandle plan, cudaLibXtDesc *input, cudaLibXtDesc *output)
{
    return exec(plan, input, output, CUFFT_D2Z, CUFFT_FORWARD);
}
API cufftResult cufftXtExecDescriptorZ2D(cufftHandle plan, cudaLibXtDesc *input, cudaLibXtDesc *output)
{
    return exec(plan, input, output, CUFFT_Z2D, CUFFT_INVERSE);
}
