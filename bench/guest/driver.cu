/* Measures CUDA's driver API and NVRTC in a guest beside libvgc's own calls on the same device, in turn.
 *
 *     driver ROUNDS
 *
 * Prints lines "NAME SUBJECT NANOSECONDS", one per round, subject and figure; SUBJECT is driver or libvgc. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <cuda.h>
#include <nvrtc.h>

#include "clock.h"
#include "vgc.h"

namespace
{

const char *const SOURCE = "extern \"C\" __global__ void empty() {}\n";
const char *const COMPILED = "extern \"C\" __global__ void scale(float *x, float factor, int count)\n"
                             "{\n"
                             "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < count)\n"
                             "        x[i] *= factor;\n"
                             "}\n";
constexpr int LAUNCHES = 500;
constexpr int SINGLE = 200;

void must(bool is_done, const char *what)
{
    if (is_done)
        return;
    std::fprintf(stderr, "%s: %s\n", what, vgc_last_error());
    std::exit(1);
}

struct Plain { // through libvgc
    vgc_device *device;
    vgc_program *program;
    vgc_function *empty;
    vgc_geometry one = {};

    Plain()
    {
        const std::string source = SOURCE;
        must(vgc_open(nullptr, &device) == VGC_OK, "open");
        must(vgc_program_load(device, VGC_SOURCE_CUDA, source.data(), source.size(), nullptr, 0, &program) == VGC_OK,
             "load");
        must(vgc_program_function(program, "empty", &empty) == VGC_OK, "function");
        for (int i = 0; i < 3; i++)
            one.grid[i] = one.block[i] = 1;
    }
    ~Plain()
    {
        vgc_close(device);
    }
};

/* A program that NVRTC compiles, and that is destroyed again. */
std::string compile(const std::string &source)
{
    nvrtcProgram program;
    size_t size = 0;
    must(nvrtcCreateProgram(&program, source.c_str(), "bench.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS, "program");
    must(nvrtcCompileProgram(program, 0, nullptr) == NVRTC_SUCCESS, "compilation");
    must(nvrtcGetPTXSize(program, &size) == NVRTC_SUCCESS, "size");
    std::string image(size, '\0');
    must(nvrtcGetPTX(program, image.data()) == NVRTC_SUCCESS, "image");
    must(nvrtcDestroyProgram(&program) == NVRTC_SUCCESS, "end of the program");
    return image;
}

struct Driver {
    CUcontext context;
    CUmodule module;
    CUfunction empty;

    Driver()
    {
        must(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS, "context");
        must(cuCtxSetCurrent(context) == CUDA_SUCCESS, "current context");
        must(cuModuleLoadData(&module, compile(SOURCE).c_str()) == CUDA_SUCCESS, "module");
        must(cuModuleGetFunction(&empty, module, "empty") == CUDA_SUCCESS, "function");
    }
    void launch() const
    {
        must(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS, "launch");
    }
};

/* Prints the median of `times` runs. */
template <class Work> void report(const char *name, const char *subject, int times, Work work)
{
    std::vector<uint64_t> taken(times);
    for (uint64_t &one : taken) {
        const uint64_t start = vgcb_now_ns();
        work();
        one = vgcb_now_ns() - start;
    }
    std::nth_element(taken.begin(), taken.begin() + times / 2, taken.end());
    std::printf("%s %s %llu\n", name, subject, (unsigned long long)taken[times / 2]);
}

/* A source that was never compiled before. */
std::string fresh()
{
    static unsigned count = 0;
    return COMPILED + ("// " + std::to_string(vgcb_now_ns())) + " " + std::to_string(count++) + "\n";
}

void launches(Plain &plain, const Driver &driver)
{
    const auto launch = [&](vgc_job **job) {
        must(vgc_launch(plain.empty, &plain.one, nullptr, 0, job) == VGC_OK, "launch");
    };
    const auto synchronize = [] { must(cuCtxSynchronize() == CUDA_SUCCESS, "synchronization"); };
    report("launch", "driver", SINGLE, [&] {
        driver.launch();
        synchronize();
    });
    report("launch", "libvgc", SINGLE, [&] { launch(nullptr); });
    report("pipelined", "driver", 1, [&] {
        for (int i = 0; i < LAUNCHES; i++)
            driver.launch();
        synchronize();
    });
    report("pipelined", "libvgc", 1, [&] {
        for (int i = 0; i < LAUNCHES; i++)
            launch(VGC_DETACHED);
        must(vgc_synchronize(plain.device) == VGC_OK, "synchronization");
    });
}

void compilations(Plain &plain)
{
    report("compile", "driver", 1, [] { compile(fresh()); });
    report("compile", "libvgc", 1, [&] {
        vgc_program *program;
        const std::string source = fresh();
        must(vgc_program_load(plain.device, VGC_SOURCE_CUDA, source.data(), source.size(), nullptr, 0, &program) ==
                 VGC_OK,
             "compilation");
        must(vgc_program_unload(program) == VGC_OK, "end of the program");
    });
}

} // namespace

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
    Plain plain;
    const Driver driver;
    for (int i = 0; i <= rounds; i++) {
        launches(plain, driver);
        compilations(plain);
    }
    return 0;
}
