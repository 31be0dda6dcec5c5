"""Whole programs, host code included, on the CUDA engine: which compiler they get, and what their host code may use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.cuda_compile_rig import (
    CompileError,
    compile_image,
    compile_whole,
    kernels,
    log_of,
    needs_nvcc,
    needs_nvrtc,
)
from vhost_backend.engines.cuda import cubin, host_code, toolchain, toolkits

pytestmark = [needs_nvrtc, needs_nvcc]

SETTINGS = {"arch": "sm_90", "driver": "13.5", "compiler": "auto", "hooks": "off"}
KERNEL = "__global__ void k(int *p) { *p = 1; }\n"


def compiler_of(source: str) -> str:
    """Compiler that a source gets."""
    words = toolchain.compile_job("CUDA_SOURCE", source.encode(), (), SETTINGS).argv
    return next(str(word) for word in words if word in ("nvrtc", "nvcc"))


@pytest.mark.parametrize(
    "source",
    [
        "void f(int *p) { k<<<1, 1>>>(p); }",
        "void f(int *p) { k<< <1, 1>> >(p); }",
        "int main () { }",
        "void f(void **p) { cudaMalloc(p, 4); }",
        "#include <vector>\n",
        '  #  include "iostream"\n',
        "void f() { thrust :: sort(0, 0); }",
    ],
)
def test_sources_with_signs_of_host_code_get_nvcc(source: str) -> None:
    assert compiler_of(KERNEL + source) == "nvcc"


@pytest.mark.parametrize(
    "source",
    [
        "",
        "#include <cuda_fp16.h>\n#include <stdint.h>\n",
        "#include <vgc.h>\n",
        "__device__ int shifted(int x) { return 1 << x; }",
    ],
)
def test_kernels_alone_get_nvrtc(source: str) -> None:
    assert compiler_of(KERNEL + source) == "nvrtc"


@pytest.mark.parametrize("name", ["/etc/passwd", "../../../etc/passwd", "a" * 300, "\x01", "."])
def test_odd_names_of_headers_are_looked_up_without_harm(name: str) -> None:
    assert host_code.is_likely(f"#include <{name}>\n".encode(), [Path("/etc")]) is (len(name) <= 200)


@pytest.mark.parametrize("hooks", ["off", "on"])
def test_a_program_of_kernels_and_host_code_is_compiled(hooks: str) -> None:
    source = """
        #include <algorithm>
        #include <iostream>
        #include <map>
        #include <string>
        #include <thread>
        #include <vector>
        #include <unistd.h>
        #include <sys/time.h>
        #include <cuda_runtime.h>
        template <class T, int N> __global__ void scale(T *p, T by) { p[threadIdx.x] *= by + N; }
        template <class T> void run(std::vector<T> &host) {
            T *p;
            if (cudaMalloc(&p, host.size() * sizeof(T)) != cudaSuccess) std::cerr << "no memory" << std::endl;
            scale<T, 3><<<dim3(1), dim3(32), 0, cudaStreamPerThread>>>(p, T(2));
        }
        int main(int argc, char **argv) {
            std::vector<float> floats(10);
            std::map<std::string, std::vector<double>> more{{argv[0], {1, 2}}};
            run(floats);
            run(more[argv[argc]]);
            return cudaDeviceSynchronize();
        }"""
    assert kernels(source, compiler="auto") == {"_Z5scaleIfLi3EEvPT_S0_", "_Z5scaleIdLi3EEvPT_S0_"}
    assert compile_image(source, compiler="auto", hooks=hooks)[1] == ""


def test_host_code_without_a_sign_is_given_to_nvcc_when_nvrtc_refuses_it() -> None:
    source = KERNEL + "int roll() { return rand() + drand48(); }\n"
    assert compiler_of(source) == "nvrtc"
    assert kernels(source, compiler="auto") == {"_Z1kPi"}
    assert "rand" in log_of(source, compiler="nvrtc")


def test_errors_of_a_source_that_both_compilers_refuse_are_told_once() -> None:
    assert log_of(KERNEL + "__device__ int f() { return oops; }\n", compiler="auto").count('"oops" is undefined') == 1


@pytest.mark.parametrize("hooks", ["off", "on"])
def test_host_code_written_for_cuda_12_is_compiled(hooks: str) -> None:
    source = (
        KERNEL
        + """
        #include <cuda_profiler_api.h>
        int main() {
            cudaDeviceProp prop = {0};
            struct cudaDeviceProp *other = &prop;
            cudaGetDeviceProperties(&prop, 0);
            int sum = prop.clockRate + other->memoryClockRate + prop.deviceOverlap + prop.mpsEnabled + prop.computeMode;
            cudaMemPrefetchAsync(other, 4, 0);
            cudaMemPrefetchAsync(other, 4, cudaCpuDeviceId, 0);
            cudaMemAdvise(other, 4, cudaMemAdviseSetReadMostly, 0);
            cudaThreadSynchronize();
            cudaProfilerStart();
            k<<<1, 1>>>(&sum);
        }"""
    )
    for standard in ("-std=c++11", "-std=c++20"):
        assert compile_image(source, [standard], compiler="auto", hooks=hooks)[1] == ""


def test_thrust_is_compiled_as_the_standard_that_it_needs() -> None:
    """Headers that older releases of others included are there."""
    source = """
        #include <thrust/device_vector.h>
        #include <thrust/fill.h>
        int main() {
            thrust::device_vector<int> v(4);
            thrust::fill(v.begin(), v.end(), 1);
            thrust::pair<int, int> ends(thrust::distance(v.begin(), v.end()), 0);
            thrust::tuple<int, float> both;
        }"""
    image, log = compile_image(source, ["-std=c++14"], compiler="auto", hooks="off")
    names = [kernel.name for kernel in cubin.parse(image).kernels]
    assert any("N6thrust8cuda_cub20" in name for name in names)  # without a namespace for release and architecture
    assert log.startswith("vgc-cudacc: note: compiled as c++17, not c++14")


def test_lambdas_and_constant_expressions_are_device_code_without_an_option() -> None:
    """Names of the closures are those that the guest's half has."""
    source = """
        template <class F> __global__ void for_each(F f) { f(threadIdx.x); }
        constexpr int twice(int n) { return 2 * n; }
        int main()
        {
            int *x = nullptr;
            float shift = 1;
            for_each<<<1, 1>>>([=] __device__(int i) { x[i] = twice(i); });
            for_each<<<1, 1>>>([=] __device__(int i) { x[i] = i + shift; });
        }"""
    for options in ([], ["--extended-lambda"]):
        image, _ = compile_image(source, options, compiler="auto", hooks="off")
        names = {kernel.name for kernel in cubin.parse(image).kernels}
        assert names == {"_Z8for_eachIZ4mainEUliE_EvT_", "_Z8for_eachIZ4mainEUliE0_EvT_"}


REFERENCES = """
texture<uchar4, 2, cudaReadModeNormalizedFloat> image;
static texture<int> ints;
surface<void, 2> out;
extern "C" __global__ void k(float *p)
{
    float old;
    surf2Dread(&old, out, 8, 1);
    p[0] = tex2D(image, 1.5f, 2.5f).x + tex1Dfetch(ints, 3) + old;
    surf2Dwrite(p[0], out, 4, 5);
}
"""
BINDING = """
int main()
{
    ints.filterMode = cudaFilterModePoint;
    cudaArray_t array = nullptr;
    cudaBindTexture(nullptr, ints, nullptr, 64);
    cudaBindTextureToArray(image, array);
    k<<<1, 1>>>(nullptr);
}
"""


@pytest.mark.parametrize("host_code", ["", BINDING])
def test_texture_references_are_variables_that_begin_with_their_object(host_code: str) -> None:
    """NVIDIA's compilers have none since CUDA 12: a header brings them back."""
    image, _ = compile_image(REFERENCES + host_code, compiler="auto", hooks="off")
    assert {variable.name for variable in cubin.parse(image).variables} == {"image", "ints", "out"}
    assert all(variable.size >= 8 for variable in cubin.parse(image).variables)


@pytest.mark.parametrize("host_code", ["", "int main() { old<<<1, 32>>>(nullptr); }"])
def test_warp_functions_without_a_mask_are_there(host_code: str) -> None:
    """NVIDIA's headers have none for GPUs since sm_70."""
    source = """
        __global__ void old(int *out)
        {
            int lane = threadIdx.x;
            float half = __shfl_xor(0.5f * lane, 1) + __shfl_up(1.0f, 2u);
            out[lane] = __shfl_down(lane, 4) + __shfl(3, 0, 16) + __all (lane < 3) + __any(lane) + (half < 1);
            out[32] = __ballot(lane);
        }"""
    image, log = compile_image(source + host_code, compiler="auto", hooks="off")
    assert [kernel.name for kernel in cubin.parse(image).kernels] == ["_Z3oldPi"]
    assert log == ""


def test_errors_are_in_the_sources_lines_although_it_has_references() -> None:
    log = log_of("texture<float, 1> ref;\n__global__ void k(float *p) { *p = tex1Dfetch(reg, 1); }\n", compiler="auto")
    assert re.search(r"\(2\): error: identifier \"reg\" is undefined", log)


def test_architecture_is_the_gpus_and_not_the_programs() -> None:
    source = KERNEL + "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900\n#error no\n#endif\nint main() {}\n"
    image, _ = compile_whole(source, ["-arch=sm_70", "-gencode", "arch=compute_80,code=sm_80"])
    assert cubin.parse(image).arch == "sm_90"


def test_managed_variables_are_variables_of_the_program() -> None:
    source = "__managed__ int total[3];\n__global__ void k() { total[0]++; }\nint main() { k<<<1, 1>>>(); return total[0]; }\n"
    image, _ = compile_whole(source)
    assert [(variable.name, variable.size) for variable in cubin.parse(image).variables] == [("total", 12)]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("nvcc", "this host has no nvcc for a driver of CUDA 13.5: pip install"),
        ("g++", "no C++ compiler for nvcc: apt-get"),
    ],
)
def test_host_code_on_a_host_without_nvcc_gets_advice(
    program: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "g++":
        monkeypatch.setattr(toolkits, "host_compiler", lambda: None)
    else:
        monkeypatch.setattr(toolkits.Toolkit, "nvcc", None)
    toolchain._source_tool.cache_clear()
    try:
        with pytest.raises(CompileError) as caught:
            compile_whole(KERNEL + "int main() { k<<<1, 1>>>(0); }\n")
    finally:
        monkeypatch.undo()
        toolchain._source_tool.cache_clear()
    assert "note: if this is host code, it needs nvcc, and" in str(caught.value)
    assert words in str(caught.value)
