"""Headers and names that nvcc's programs expect: the host's C and C++ libraries in host and device code, and CUDA's API."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cpu_rig import CompileError, LaunchError, compile_image, rig
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.engines.cpu.host_headers import host_headers
from vhost_backend.engines.cpu.toolchain import COMPILER, INCLUDE_DIR, LLVM_DIR
from vhost_backend.errors import HostError
from virtio_proto.schema import Status

EMPTY = 'extern "C" __global__ void f() {}\n'
WHOLE_UNIT = r"""
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <cuda_runtime.h>
template <class T> __global__ void scale(T *x, T by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
__constant__ float weights[4];
#define CHECK(call) do { cudaError_t error = (call); if (error != cudaSuccess) { \
    std::cerr << cudaGetErrorString(error) << std::endl; exit(EXIT_FAILURE); } } while (0)
int main(int argc, char **argv) try {
    std::vector<float> host(64, 2.0f);
    std::mt19937 engine(1);
    std::generate(host.begin(), host.end(), [&] { return std::uniform_real_distribution<float>(0, 1)(engine); });
    auto start = std::chrono::steady_clock::now();
    float *device;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaMalloc(&device, 64 * sizeof(float)));
    CHECK(cudaMemcpyToSymbol(weights, host.data(), sizeof weights));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    scale<<<dim3(1), 64, 0, stream>>>(device, 0.5f, 64);
    scale<double> << < 1, 64 >> > ((double *)device, 0.5, 64);
    int blocks, size;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &size, scale<float>));
    CHECK(cudaFuncSetAttribute(scale<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 15));
    printf("%s %d %f\n", properties.name, max(blocks, size), fminf(1.0f, rsqrtf(2.0f)));
    throw std::runtime_error("never");
} catch (const std::exception &error) { return RAND_MAX; }
"""


def run_floats(source: str, *options: str, count: int = 4) -> list[float]:
    with rig(pes=1) as gpu:
        gpu.load(source, options)
        out = gpu.array(count, np.float32)
        gpu.launch("f", 1, count, out)
        return [float(value) for value in out]


def kernel(body: str, before: str = "") -> str:
    return f'{before}\nextern "C" __global__ void f(float *out) {{ int t = threadIdx.x; {body} }}\n'


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20"])
def test_whole_program_compiles(standard: str) -> None:
    with rig(pes=1) as gpu:
        functions = gpu.load(WHOLE_UNIT, [f"-std={standard}"]).functions
        assert sorted(function.short_name for function in functions) == ["scale", "scale"]
        x = gpu.array(4, np.float32, 3)
        name = next(function.name for function in functions if "IfE" in function.name)
        gpu.launch(name, 1, 32, x, np.float32(0.5), np.int32(3))
        assert x.tolist() == [1.5, 1.5, 1.5, 3]


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ("limits", "out[t] = std::numeric_limits<short>::max();", [32767] * 4),
        ("type_traits", "out[t] = std::is_same<std::decay_t<const int &>, int>::value ? 3 : 4;", [3] * 4),
        ("array", "std::array<float, 4> a{1, 2, 4, 8}; out[t] = a[t] + a.size();", [5, 6, 8, 12]),
        ("tuple", "auto x = std::make_tuple(t, 2.5f); out[t] = std::get<0>(x) + std::get<1>(x);", [2.5, 3.5, 4.5, 5.5]),
        ("utility", "float a = t, b = 9; std::swap(a, b); out[t] = a - b;", [9, 8, 7, 6]),
        ("utility", "auto p = std::make_pair(t, 0.5f); out[t] = p.first * p.second;", [0, 0.5, 1, 1.5]),
        ("algorithm", "out[t] = std::max(std::min(t, 2), 1);", [1, 1, 2, 2]),
        ("algorithm", "int a[4] = {4, 1, 3, 2}; out[t] = *std::max_element(a, a + t + 1);", [4] * 4),
        ("numeric", "int a[4] = {4, 1, 3, 2}; out[t] = std::accumulate(a, a + t + 1, 0);", [4, 5, 8, 10]),
        ("functional", "out[t] = std::plus<int>()(t, 2);", [2, 3, 4, 5]),
        ("complex", "std::complex<float> z(t, 1); z = z * z + 1.0f; out[t] = z.real();", [0, 1, 4, 9]),
        ("cmath", "out[t] = std::sqrt(float(t * t)) + std::pow(2.0f, t) + std::abs(-1.5f);", [2.5, 4.5, 7.5, 12.5]),
        ("cmath", "float x = t ? NAN : 1; out[t] = std::isnan(x) + isnan(x) + std::isfinite(x);", [1, 2, 2, 2]),
        ("math.h", "out[t] = fabs(-0.5) + M_PI_2 - M_PI / 2 + floorf(t + 0.5f);", [0.5, 1.5, 2.5, 3.5]),
        ("cstdint", "std::uint8_t x = 255; x += t; out[t] = x;", [255, 0, 1, 2]),
        ("cstring", "int a; memset(&a, 0, 4); std::memcpy(&a, &t, 4); out[t] = a;", [0, 1, 2, 3]),
        ("cfloat", "out[t] = FLT_MAX > 1e38f && DBL_DIG == 15;", [1] * 4),
        ("climits", "out[t] = INT_MAX == 2147483647 && CHAR_BIT == 8;", [1] * 4),
        ("new", "alignas(8) char room[8]; int *x = new (room) int(t); out[t] = *x;", [0, 1, 2, 3]),
        ("initializer_list", "out[t] = 0; for (int x : {1, 2, t}) out[t] += x;", [3, 4, 5, 6]),
        ("iterator", "int a[4] = {4, 1, 3, 2}; out[t] = *std::next(std::begin(a), t);", [4, 1, 3, 2]),
    ],
)
def test_device_code_uses_the_libraries(headers: str, body: str, expected: list[float]) -> None:
    assert run_floats(kernel(body, f"#include <{headers}>")) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("uint a = t; ushort b = 1; ulong c = 2; out[t] = a + b + c;", [3, 4, 5, 6]),
        ('out[t] = isinf(INFINITY) && isnan(nanf("")) && NULL == 0;', [1] * 4),
        ("clock_t a = clock(); size_t b = 1; out[t] = clock() - a >= 0 ? b : 0;", [1] * 4),
        ("out[t] = max(t, 2u) + min(1.5, 2.0f) + abs(-t) + warpSize;", [35.5, 36.5, 37.5, 39.5]),
        ("int a = 0; memcpy(&a, &t, sizeof a); out[t] = a;", [0, 1, 2, 3]),
        ("out[t] = std::max(t, 1) + std::fabs(-1.0f);", [2, 2, 3, 4]),
        ("out[t] = M_PI > 3 && CUDART_VERSION >= 12000 && __CUDACC_VER_MAJOR__ >= 12;", [1] * 4),
        ("out[t] = EXIT_FAILURE + RAND_MAX / 2147483647;", [2] * 4),
    ],
)
def test_names_need_no_header(body: str, expected: list[float]) -> None:
    assert run_floats(kernel(body)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (kernel("int n[] = {t * 1.5f, 2u}; register int r = n[0]; out[t] = r;"), [0, 1, 3, 4]),
        (kernel("out[t] = g(t);", "__device__ int g(int x) { if (x >= 0) return x; }"), [0, 1, 2, 3]),
        (kernel('char *s = "abcd"; out[t] = s[t] - 97;'), [0, 1, 2, 3]),
        (kernel("out[t] = twice(t);", "constexpr int twice(int x) { return 2 * x; }"), [0, 2, 4, 6]),
        (
            kernel("out[t] = t * 3 / inverse();", "__device__ constexpr double inverse() { return 3 / ::exp(0.0); }"),
            [0, 1, 2, 3],
        ),
        (kernel("out[t] = A{t}.x;", "struct A { int x; __host__ __device__ ~A() = default; };"), [0, 1, 2, 3]),
        (kernel("auto add = [=] __device__(int x) { return x + t; }; out[t] = add(1);"), [1, 2, 3, 4]),
        (kernel("out[t] = table[t];", "const int table[4] = {3, 1, 4, 1};"), [3, 1, 4, 1]),
        (
            "template <int N> __global__ void __launch_bounds__(N) g(float *x) { x[threadIdx.x] = N; }\n"
            "void host(float *x) {\n#if __CUDA_ARCH__ >= 500\ng<64><<<1, 64>>>(x);\n#endif\n}\n"
            + kernel("out[t] = 1;"),
            [1] * 4,
        ),
        (kernel("out[t] = t;").replace('extern "C" ', 'extern "C"'), [0, 1, 2, 3]),
        (
            kernel(
                "out[t] = 0;\n UNROLL\n for (int i = 0; i < t; i++) out[t] += i;",
                "#define UNROLL #pragma unroll (2 + 2)",
            ),
            [0, 0, 1, 3],
        ),
        (kernel('const char *s = "ab"DIGITS; out[t] = s[t] - 48;', '#define DIGITS "12"'), [49, 50, 1, 2]),
    ],
    ids=[
        "narrowing",
        "no-return",
        "string",
        "constexpr",
        "never-constant",
        "defaulted",
        "lambda",
        "const-array",
        "bounds",
        "joined-linkage",
        "pragma-in-a-macro",
        "joined-text",
    ],
)
def test_nvccs_leniency(source: str, expected: list[float]) -> None:
    assert run_floats(source, "--expt-relaxed-constexpr", "--extended-lambda") == expected


@pytest.mark.parametrize("preprocessor", ["g++", "clang++-19"])
@pytest.mark.parametrize("markers", [(), ("-P",)], ids=["markers", "bare"])
def test_text_preprocessed_elsewhere_compiles(tmp_path: Path, preprocessor: str, markers: tuple[str, ...]) -> None:
    """The text has the declarations of the C and C++ libraries in it."""
    (tmp_path / "unit.cpp").write_text(
        "#include <algorithm>\n#include <cassert>\n#include <cmath>\n#include <cstdio>\n#include <stdlib.h>\n"
        "#include <string.h>\n#include <time.h>\n#include <vector>\n"
        "template <class T> __global__ void fill(T *x) { *x = std::min<T>(sin(*x), std::sqrt(*x)); }\n"
        'int main() { std::vector<float> x(1); fill<<<1, 1>>>(x.data()); printf("%f", sin(1.0)); }\n'
        + kernel("assert(t < 3 || t > 3); out[t] = std::max(pow(2.0, t), sqrt(4.0)) + std::abs(-1.0f);")
    )
    argv = [preprocessor, "-E", *markers, "-x", "c++", "-std=c++17", "unit.cpp"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S)
    with rig(pes=1) as gpu:
        gpu.load(done.stdout)
        out = gpu.array(3, np.float32)
        gpu.launch("f", 1, 3, out)
        assert out.tolist() == [3, 3, 5]
        with pytest.raises(LaunchError, match="t < 3") as caught:
            gpu.launch("f", 1, 4, gpu.array(4, np.float32))
        assert caught.value.status == Status.ASSERT


@pytest.mark.parametrize("standard", ["c++14", "c++17", "c++20"])
def test_functions_for_both_may_swap_what_only_the_host_copies(standard: str) -> None:
    """Host code instantiates them, also for device code: Thrust's containers swap their allocators so."""
    source = """
        #include <memory>
        #include <string>
        #include <utility>
        #include <vector>
        template <class T> struct Holder { T x; __host__ __device__ void swap(Holder &other) { using std::swap; swap(x, other.x); } };
        template <class T> __host__ __device__ void turn(T &a, T &b) { std::swap(a, b); }
        int main() {
            Holder<std::allocator<char>> a, b;
            Holder<std::vector<int>> c, d;
            std::string e, f;
            a.swap(b), c.swap(d), turn(e, f), std::swap(e, f);
        }
    """
    body = "float a = t, b = 9; turn(a, b); Holder<float> c{a}, d{b}; c.swap(d); out[t] = c.x - d.x;"
    assert run_floats(source + kernel(body), f"-std={standard}") == [-9, -8, -7, -6]


def test_cuda_h_brings_the_integers_of_c() -> None:
    assert run_floats("#include <cuda.h>\n" + kernel("uint8_t x = 255; x += t; out[t] = x;")) == [255, 0, 1, 2]


def test_programs_may_have_a_global_timer_of_their_own() -> None:
    timer = "__device__ __forceinline__ unsigned long long __globaltimer() { return 7; }"
    assert run_floats(kernel("out[t] = __globaltimer();", timer)) == [7] * 4


def test_kernels_that_launch_nothing_have_errors_and_their_texts() -> None:
    with rig(pes=1) as gpu:
        gpu.load(
            """#include <cstdio>
            #define CHECK(call) do { cudaError_t e = (call); printf("%s %s\\n", cudaGetErrorName(e), cudaGetErrorString(e)); } while (0)
            __host__ __device__ void check() { CHECK(cudaGetLastError()); }
            extern "C" __global__ void f() { check(); CHECK(cudaErrorInvalidValue); CHECK(cudaErrorFileNotFound);
                CHECK(cudaErrorContextIsDestroyed); CHECK((cudaError_t)12345); }
            int main() { check(); f<<<1, 1>>>(); CHECK(cudaDeviceSynchronize()); }"""
        )
        gpu.launch("f", 1, 1)
        assert gpu.take_output()[0].splitlines() == [
            "cudaSuccess no error",
            "cudaErrorInvalidValue invalid argument",
            "cudaErrorFileNotFound file not found",
            "cudaErrorContextIsDestroyed context is destroyed",
            "unrecognized error code unrecognized error code",
        ]


def test_printf_and_assert_of_the_c_library_are_the_engines() -> None:
    with rig(pes=1) as gpu:
        gpu.load(kernel('printf("%d ", t); std::printf("%s\\n", "x"); assert(out); (void)t;', "#include <cstdio>"))
        gpu.launch("f", 1, 2, gpu.array(4, np.float32))
        assert gpu.take_output()[0] == "0 x\n1 x\n"


def test_functions_that_are_only_declared_are_refused_by_name() -> None:
    with pytest.raises(CompileError, match="'elsewhere' is not defined, and not a function that kernels may call"):
        compile_image(kernel("out[t] = elsewhere();", 'extern "C" __device__ int elsewhere();'))


def test_kernel_without_headers_reads_none_of_the_host() -> None:
    """Its compilation stays quick."""
    with pytest.raises(CompileError, match=r"no (member|template) named 'vector' in namespace 'std'"):
        compile_image("namespace std { }\n" + kernel("std::vector<int> x;"))


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++20"])
def test_every_header_of_cuda_is_read_in_every_standard(standard: str) -> None:
    folder = INCLUDE_DIR
    names = sorted(path.relative_to(folder) for path in folder.rglob("*.h"))
    names = [name for name in names if not any(part.startswith("vgc_") for part in name.parts)]
    assert {"curand_kernel.h", "nvtx3/nvToolsExtCuda.h", "sm_61_intrinsics.h"} <= {str(name) for name in names}
    source = "".join(f"#include <{name}>\n" for name in names if "bits" not in name.parts)
    host = 'int main() { nvtxRangePush("x"); CUdeviceptr memory; return nvtxRangePop() + cuMemGetAddressRange(&memory, 0, 1); }'
    host += 'static_assert(CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED - 8, "");'
    assert compile_image(source + kernel("out[t] = 1;") + host, [f"-std={standard}"])


def test_references_to_textures_are_bound_in_host_code() -> None:
    source = """
        texture<float, 1, cudaReadModeElementType> row;
        texture<uchar4, 2> image;
        surface<void, 2> plane;
        int main() {
            cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
            cudaBindTexture(nullptr, row, nullptr, 4);
            cudaBindTexture(nullptr, &row, nullptr, &format, 4);
            cudaBindTexture2D(nullptr, image, nullptr, format, 1, 1, 4);
            cudaBindTextureToArray(image, (cudaArray_t)nullptr, format);
            cudaBindSurfaceToArray(plane, (cudaArray_t)nullptr);
            return cudaUnbindTexture(row) + cudaUnbindTexture(&image);
        }
    """
    assert compile_image(source + kernel("out[t] = tex1Dfetch(row, t);"))


def test_folders_of_headers_are_in_the_order_of_their_search() -> None:
    found = host_headers(COMPILER, LLVM_DIR)
    cmath = next(place for place, folder in enumerate(found.folders) if (folder / "cmath").exists())
    libc = next(place for place, folder in enumerate(found.folders) if (folder / "features.h").exists())
    assert cmath < libc
    assert all(bind.source.exists() for bind in found.visible)


def test_missing_compiler_is_told_with_the_packages(tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        host_headers(tmp_path / "vgc-cpucc", LLVM_DIR)
    assert "apt-get install" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "source", ["#  include <cmath>\n", "%:include <cmath>\n", "// std ::max\n", "// f<< <1, 1>>>\n"]
)
def test_only_sources_that_may_need_them_see_headers_of_the_host(source: str) -> None:
    """Each costs a mount."""
    seen = {bind.source for bind in host_headers(COMPILER, LLVM_DIR).visible}
    jobs = [CpuEngine.compile_job("CUDA_SOURCE", text.encode(), (), {}) for text in (EMPTY, source + EMPTY)]
    assert [bool(seen & {bind.source for bind in job.visible}) for job in jobs] == [False, True]
    assert [any("/c++/" in str(word) for word in job.command(isolated=True)[2:]) for job in jobs] == [False, True]
    assert jobs[0].identity == jobs[1].identity
