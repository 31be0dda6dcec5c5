// cuFFT's plans: sizes, layouts, tables and work areas.
#pragma once
#include <vector>

#include "cufft.h"
#include "pass.h"

cudaError_t vgc_fft_launch_single(const vgc_fft_pass &pass, unsigned blocks, dim3 threads, size_t shared_bytes,
                                  cudaStream_t stream);
cudaError_t vgc_fft_launch_double(const vgc_fft_pass &pass, unsigned blocks, dim3 threads, size_t shared_bytes,
                                  cudaStream_t stream);
cudaError_t vgc_fft_launch_half(const vgc_fft_pass &pass, unsigned blocks, dim3 threads, size_t shared_bytes,
                                cudaStream_t stream);
cudaError_t vgc_fft_launch_bfloat(const vgc_fft_pass &pass, unsigned blocks, dim3 threads, size_t shared_bytes,
                                  cudaStream_t stream);

namespace vgc_fft
{

// How transforms of one length are made: in up to three levels, each short enough for shared memory; lengths with a
// large prime factor as a convolution of a power of two (Bluestein's chirp).
struct Length {
    int n = 0, padded = 0; // padded: of the convolution, or n
    bool chirp = false;
    std::vector<int> levels;
    size_t table[3] = {}, fine[2] = {}, coarse[2] = {}, chirp_table = 0, filter = 0; // places in the plan's tables
    int shift[2] = {};
};

// What the caller's numbers are: of the plan's type, or narrower.
enum class Storage { same, half, bfloat };

// Strides in elements of the kind, slowest dimension first.
struct Layout {
    void *data = nullptr;
    int kind = VGC_FFT_COMPLEX;
    bool callers = false; // and not in a work area
    long long stride[3] = {}, batch = 0;
};

struct Plan {
    bool made = false, automatic = true, default_layout = true, needs_copy = false;
    cufftType type = CUFFT_C2C;
    Storage storage = Storage::same;
    int rank = 0, n[3] = {}, batch = 0;
    Length lengths[3];
    Layout in, out;
    cudaStream_t stream = nullptr;
    const void *host = nullptr; // its cuFFT transforms, with work areas and tables of its own; null: kernels do
    char *tables = nullptr, *work = nullptr;
    bool owns_work = false;
    std::vector<int> devices;                             // of cufftXtSetGPUs; the first one computes
    char *gathered = nullptr;                             // of several: the whole data, on the first one
    size_t area_split = 0, area_chirp = 0, area_copy = 0; // in complex numbers

    bool is_double() const
    {
        return type == CUFFT_D2Z || type == CUFFT_Z2D || type == CUFFT_Z2Z;
    }
    bool from_real() const
    {
        return type == CUFFT_R2C || type == CUFFT_D2Z;
    }
    bool to_real() const
    {
        return type == CUFFT_C2R || type == CUFFT_Z2D;
    }
    size_t pair_bytes() const
    {
        return is_double() ? 16 : 8;
    }
    bool is_narrow() const
    {
        return storage != Storage::same;
    }
    size_t stored_pair_bytes() const
    {
        return is_narrow() ? 4 : pair_bytes();
    }
    size_t element_bytes(const Layout &layout) const
    {
        const size_t pair = layout.callers ? stored_pair_bytes() : pair_bytes();
        return layout.kind == VGC_FFT_REAL ? pair / 2 : pair;
    }
    int half() const
    {
        return n[rank - 1] / 2 + 1;
    }
    // Numbers of complex elements of dimension d, as the passes across other dimensions see it.
    int complex_count(int d) const
    {
        return d == rank - 1 && (from_real() || to_real()) ? half() : n[d];
    }
    size_t work_bytes() const
    {
        return (area_split + area_chirp + area_copy) * pair_bytes();
    }
};

// Makes a plan's first device, if it has any, the current one for a while.
class OnDevice
{
  public:
    explicit OnDevice(int device)
    {
        cudaGetDevice(&before);
        cudaSetDevice(device);
    }
    explicit OnDevice(const Plan &plan)
    {
        cudaGetDevice(&before);
        if (!plan.devices.empty())
            cudaSetDevice(plan.devices[0]);
    }
    ~OnDevice()
    {
        cudaSetDevice(before);
    }
    OnDevice(const OnDevice &) = delete;

  private:
    int before = 0;
};

// The host's function that transforms as the plan says; null: it has none.
const void *host_function(const Plan &plan);
cufftResult run_on_host(const Plan &plan, const Layout &in, const Layout &out, int direction);
Layout packed_layout(const Plan &plan, int kind, bool padded);
Length length_of(int n, bool is_double, std::vector<double> &tables);
// Sets lengths and areas, and with `upload` puts the tables on the device.
cufftResult prepare(Plan &plan, bool upload);
cufftResult execute(const Plan &plan, void *input, void *output, int direction);
cufftResult prepare_devices(Plan &plan, size_t *work_size);

} // namespace vgc_fft
