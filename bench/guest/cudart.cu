/* Measures CUDA's runtime in a guest beside libvgc's own calls on the same device, in turn.
 *
 *     cudart ROUNDS [graphs | managed]
 *
 * With `graphs`, it compares a graph of launches with the launches instead, with `managed`, managed memory with copies.
 * Prints lines "NAME SUBJECT NANOSECONDS", one per round, subject and figure; SUBJECT is cudart or libvgc; of graphs,
 * graph or launches; of managed memory, managed or copies. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#include "clock.h"
#include "vgc.h"

__global__ void empty()
{
}

__global__ void add_one(unsigned *numbers, size_t count)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        numbers[i]++;
}

namespace
{

const char *const SOURCE = "extern \"C\" __global__ void empty() {}";
constexpr int LAUNCHES = 500;
constexpr int IN_GRAPH = 20;
constexpr int SINGLE = 200;
constexpr size_t LARGEST = 256u << 20;

void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

void must_vgc(int result, const char *what)
{
    if (result == VGC_OK)
        return;
    std::fprintf(stderr, "%s: %s\n", what, vgc_last_error());
    std::exit(1);
}

struct Plain { // the same through libvgc
    vgc_device *device;
    vgc_program *program;
    vgc_function *empty;
    vgc_geometry one;

    Plain()
    {
        must_vgc(vgc_open(nullptr, &device), "open");
        must_vgc(vgc_program_load(device, VGC_SOURCE_CUDA, SOURCE, std::strlen(SOURCE), nullptr, 0, &program), "load");
        must_vgc(vgc_program_function(program, "empty", &empty), "function");
        one = {};
        for (int i = 0; i < 3; i++)
            one.grid[i] = one.block[i] = 1;
    }
    ~Plain()
    {
        vgc_close(device);
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

void launches(Plain &plain)
{
    empty<<<1, 1>>>();
    must(cudaGetLastError(), "the first launch"); // a launch that fails would be the fastest
    report("launch", "cudart", SINGLE, [] {
        empty<<<1, 1>>>();
        must(cudaDeviceSynchronize(), "launch");
    });
    report("launch", "libvgc", SINGLE,
           [&] { must_vgc(vgc_launch(plain.empty, &plain.one, nullptr, 0, nullptr), "launch"); });
    report("pipelined", "cudart", 1, [] {
        for (int i = 0; i < LAUNCHES; i++)
            empty<<<1, 1>>>();
        must(cudaDeviceSynchronize(), "launches");
    });
    report("pipelined", "libvgc", 1, [&] {
        for (int i = 0; i < LAUNCHES; i++)
            must_vgc(vgc_launch(plain.empty, &plain.one, nullptr, 0, VGC_DETACHED), "launch");
        must_vgc(vgc_synchronize(plain.device), "synchronize");
    });
}

/* A graph of launches, one behind the other, beside the same launches. */
void graphs(int rounds)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    const auto launch_all = [&] {
        for (int i = 0; i < IN_GRAPH; i++)
            empty<<<1, 1, 0, stream>>>();
    };
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    launch_all();
    must(cudaStreamEndCapture(stream, &graph), "end of the capture");
    must(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    for (int i = 0; i < rounds; i++) {
        report("graph", "graph", SINGLE, [&] {
            must(cudaGraphLaunch(exec, stream), "launch of the graph");
            must(cudaStreamSynchronize(stream), "graph");
        });
        report("graph", "launches", SINGLE, [&] {
            launch_all();
            must(cudaStreamSynchronize(stream), "launches");
        });
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

/* The host writes all, a kernel changes all, the host reads all: in managed memory, and with explicit copies. */
void managed(int rounds, size_t size)
{
    const size_t count = size / sizeof(unsigned);
    const unsigned blocks = (unsigned)((count + 255) / 256);
    unsigned *shared, *device;
    std::vector<unsigned> host(count);
    char name[64];
    volatile unsigned sum;
    must(cudaMallocManaged(&shared, size), "managed memory");
    must(cudaMalloc(&device, size), "malloc");
    const auto write = [&](unsigned *at) { std::memset(at, 1, size); };
    const auto read = [&](const unsigned *at) {
        unsigned total = 0;
        for (size_t i = 0; i < count; i++)
            total += at[i];
        sum = total;
    };
    std::snprintf(name, sizeof(name), "managed_%zu", size);
    const int times = size >= (1u << 20) ? 3 : SINGLE;
    for (int i = 0; i < rounds; i++) {
        report(name, "managed", times, [&] {
            write(shared);
            add_one<<<blocks, 256>>>(shared, count);
            must(cudaDeviceSynchronize(), "kernel");
            read(shared);
        });
        report(name, "copies", times, [&] {
            write(host.data());
            must(cudaMemcpy(device, host.data(), size, cudaMemcpyHostToDevice), "copy");
            add_one<<<blocks, 256>>>(device, count);
            must(cudaMemcpy(host.data(), device, size, cudaMemcpyDeviceToHost), "copy");
            read(host.data());
        });
    }
    (void)sum;
    cudaFree(shared);
    cudaFree(device);
}

void events(Plain &plain)
{
    cudaEvent_t start, end;
    must(cudaEventCreate(&start), "event");
    must(cudaEventCreate(&end), "event");
    float milliseconds;
    report("event", "cudart", SINGLE, [&] {
        cudaEventRecord(start);
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        must(cudaEventElapsedTime(&milliseconds, start, end), "elapsed");
    });
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    struct vgc_event *first, *last;
    int64_t elapsed_ns;
    must_vgc(vgc_event_create(plain.device, &first), "event");
    must_vgc(vgc_event_create(plain.device, &last), "event");
    report("event", "libvgc", SINGLE, [&] {
        vgc_event_record(first, 0);
        vgc_event_record(last, 0);
        must_vgc(vgc_event_elapsed(first, last, &elapsed_ns), "elapsed");
    });
    vgc_event_destroy(first);
    vgc_event_destroy(last);
}

struct Buffers { // pageable and pinned, of both subjects
    std::vector<char> pageable = std::vector<char>(LARGEST, 1);
    void *pinned = nullptr;
    void *region = nullptr;
    void *device = nullptr;
    uint64_t address = 0;
};

void copies(Plain &plain, Buffers &buffers, size_t size)
{
    char name[64];
    const int times = size >= (16u << 20) ? 1 : size >= (1u << 20) ? 8 : SINGLE;
    std::snprintf(name, sizeof(name), "to_device_%zu", size);
    report(name, "cudart", times,
           [&] { must(cudaMemcpy(buffers.device, buffers.pageable.data(), size, cudaMemcpyHostToDevice), "copy"); });
    report(name, "libvgc", times, [&] {
        must_vgc(vgc_copy_in(plain.device, buffers.address, buffers.pageable.data(), size, 0, nullptr), "copy");
    });
    std::snprintf(name, sizeof(name), "from_device_%zu", size);
    report(name, "cudart", times,
           [&] { must(cudaMemcpy(buffers.pageable.data(), buffers.device, size, cudaMemcpyDeviceToHost), "copy"); });
    report(name, "libvgc", times, [&] {
        must_vgc(vgc_copy_out(plain.device, buffers.pageable.data(), buffers.address, size, 0, nullptr), "copy");
    });
    if (buffers.region == nullptr || size > (16u << 20))
        return;
    std::snprintf(name, sizeof(name), "pinned_to_device_%zu", size);
    report(name, "cudart", times,
           [&] { must(cudaMemcpy(buffers.device, buffers.pinned, size, cudaMemcpyHostToDevice), "copy"); });
    report(name, "libvgc", times,
           [&] { must_vgc(vgc_copy_in(plain.device, buffers.address, buffers.region, size, 0, nullptr), "copy"); });
    std::snprintf(name, sizeof(name), "pinned_from_device_%zu", size);
    report(name, "cudart", times,
           [&] { must(cudaMemcpy(buffers.pinned, buffers.device, size, cudaMemcpyDeviceToHost), "copy"); });
    report(name, "libvgc", times,
           [&] { must_vgc(vgc_copy_out(plain.device, buffers.region, buffers.address, size, 0, nullptr), "copy"); });
}

} // namespace

int main(int argc, char **argv)
{
    const bool is_graphs = argc == 3 && std::strcmp(argv[2], "graphs") == 0;
    const bool is_managed = argc == 3 && std::strcmp(argv[2], "managed") == 0;
    if (argc != 2 && !is_graphs && !is_managed) {
        std::fprintf(stderr, "usage: %s ROUNDS [graphs | managed]\n", argv[0]);
        return 2;
    }
    if (is_managed) {
        for (size_t size : {size_t(4096), size_t(1) << 20, size_t(64) << 20})
            managed(std::atoi(argv[1]), size);
        return 0;
    }
    if (is_graphs) {
        graphs(std::atoi(argv[1]));
        return 0;
    }
    Plain plain;
    Buffers buffers;
    must(cudaMalloc(&buffers.device, LARGEST), "malloc");
    must(cudaMallocHost(&buffers.pinned, 16u << 20), "pinned memory");
    must_vgc(vgc_alloc(plain.device, LARGEST, &buffers.address), "alloc");
    must_vgc(vgc_region_alloc(plain.device, 16u << 20, &buffers.region), "region");
    const int rounds = std::atoi(argv[1]);
    for (int i = 0; i < rounds; i++) {
        launches(plain);
        events(plain);
        for (size_t size : {size_t(4), size_t(4096), size_t(256) << 10, size_t(4) << 20, size_t(16) << 20, LARGEST})
            copies(plain, buffers, size);
    }
    return 0;
}
