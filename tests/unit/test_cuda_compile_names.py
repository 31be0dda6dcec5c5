"""Names of kernels and variables: the same with NVIDIA's compilers as with clang, under whose names guests look for them."""

from __future__ import annotations

import pytest

from tests.fakes.units import Unit, pack
from tests.unit.cpu_rig import rig
from tests.unit.cuda_compile_rig import compile_whole, needs_nvcc, needs_nvrtc
from vhost_backend.engines.cuda import cubin, names, table, toolchain
from vhost_backend.engines.cuda.table import AmbiguousNameError

pytestmark = needs_nvrtc

KERNELS = """
    static __device__ int hidden_counter;
    __device__ int counter;
    static __constant__ float table[4];
    namespace solver { static __device__ int depth = 3; __device__ int steps; static __global__ void step(int *p) { *p = depth + steps; } }
    namespace {
        __device__ int secret = 1;
        struct Pair { int x, y; };
        enum { ONE, TWO };
        __global__ void unnamed(Pair pair, int *p) { *p = pair.x + secret; }
        template <class T> __global__ void unnamed_of(T *p) { *p = T(); }
        template __global__ void unnamed_of<float>(float *);
    }
    static __global__ void twice(float *p, int n) { p[n] *= table[n] + hidden_counter + counter; }
    extern "C" __global__ void plain(int *p) { *p = 1; }
    template <class T> static __global__ void fill(T *p, T value) { *p = value; }
    template __global__ void fill<double>(double *, double);
    template <int *P> __global__ void into(int n) { *P = n; }
    template __global__ void into<&hidden_counter>(int);
    static __device__ void note(int n) { counter = n; }
    template <void (*F)(int)> __global__ void call(int n) { F(n); }
    template __global__ void call<note>(int);
"""
HOST_CODE = """
    #include <cstdio>
    #include <vector>
    template <class F> __global__ void apply(F f, int n) { f(n); }
    template <class T> __global__ void copy(const T *from, T *to) { *to = *from; }
    template <class T> void launch_copy(T *p) { copy<T><<<1, 1>>>(p, p); }
    int main() {
        std::vector<int> host(3);
        int *p = nullptr;
        cudaMalloc(&p, 4);
        apply<<<1, 1>>>([=] __device__(int i) { p[i] = 1; }, 1);
        apply<<<1, 1>>>([=] __device__(int i) { p[i] = 2; }, 1);
        apply<<<1, 1>>>([=] __host__ __device__(long i) { p[i] = 3; }, 1);
        launch_copy((float *)p);
        launch_copy(p);
        std::printf("%d\\n", host[0]);
    }
"""
LAMBDAS = "--extended-lambda"
COMPILERS = ["nvrtc", pytest.param("nvcc", marks=needs_nvcc)]


def names_on_the_software_gpu(source: str) -> tuple[set[str], set[str]]:
    """Names of kernels, which clang has given them, and of variables in a program of the software GPU."""
    with rig(pes=1) as gpu:
        program = gpu.load(source)
        return {info.name for info in program.functions}, {info.name for info in program.globals}


def names_for_guests(source: str | bytes, *options: str, **settings: str) -> tuple[list[str], list[str]]:
    """Names of kernels and of variables in the function table of the CUDA engine."""
    image, declared = compile_whole(source, options, **settings)
    parsed = cubin.parse(image)
    return (
        [named.name for named in table.kernels(parsed, declared)],
        [named.name for named in table.variables(parsed, declared)],
    )


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("hooks", ["off", "on"])
def test_kernels_have_the_names_that_clang_gives_them(compiler: str, hooks: str) -> None:
    """Two of the kernels are internal by their arguments, and so may be static as far as the image tells."""
    kernels, _ = names_on_the_software_gpu(KERNELS)
    found, _ = names_for_guests(KERNELS, compiler=compiler, hooks=hooks)
    assert len(kernels) == 8
    assert kernels <= set(found)
    assert {name for name in found if name not in kernels} <= {
        "_ZL4intoIXadL_ZL14hidden_counterEEEvi",
        "_ZL4callIXadL_ZL4noteiEEEvi",
    }


@pytest.mark.parametrize("compiler", COMPILERS)
def test_variables_have_the_names_that_clang_gives_them(compiler: str) -> None:
    _, found = names_for_guests(KERNELS, compiler=compiler)
    assert {"counter", "_ZN6solver5stepsE"} <= set(found)
    assert {"_ZL14hidden_counter", "_ZL5table", "_ZN6solverL5depthE", "_ZN12_GLOBAL__N_16secretE"} <= set(found)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_variables_have_the_names_that_the_software_gpu_gives_them(compiler: str) -> None:
    """They are the source's, where a variable is internal."""
    _, variables = names_on_the_software_gpu(KERNELS)
    _, found = names_for_guests(KERNELS, compiler=compiler)
    assert {"hidden_counter", "depth", "secret"} < variables
    assert variables <= set(found)


@needs_nvcc
def test_kernels_that_host_code_instantiates_have_the_names_that_clang_gives_them() -> None:
    kernels, _ = names_on_the_software_gpu(HOST_CODE)
    found, _ = names_for_guests(HOST_CODE, LAMBDAS)
    assert kernels == set(found)
    assert len(kernels) == 5


@needs_nvcc
def test_kernels_of_several_sources_have_the_names_that_clang_gives_them() -> None:
    a = """
        __device__ int shared_counter; __device__ int square(int x) { return x * x; }
        static __device__ int own; static __global__ void fill(int *p) { *p = own; }
        namespace { __global__ void unnamed(int *p) { *p = 1; } }
        namespace deep { static __global__ void first(int *p) { *p = 1; } }"""
    b = """
        extern __device__ int shared_counter; __device__ int square(int);
        static __device__ int own; static __global__ void fill(int *p) { *p = own + 1; }
        namespace { __global__ void unnamed(int *p) { *p = 2; } }
        __global__ void both(int *p) { *p = square(shared_counter); }"""
    units = [Unit("a.cu", a), Unit("folder/b 2.cu", b)]
    with rig(pes=1) as gpu:
        program = gpu.link(*units)
        kernels = {info.name: info.short_name for info in program.functions}
        variables = {info.name for info in program.globals}
    image, declared = compile_whole(pack(units), kind="CUDA_UNITS")
    parsed = cubin.parse(image)
    assert {named.name: named.short_name for named in table.kernels(parsed, declared)} == kernels
    found = {named.name for named in table.variables(parsed, declared)}
    assert found == variables | {"_ZL3own@a.cu", "_ZL3own@folder/b 2.cu"}
    assert {"_ZL4fillPi@a.cu", "_ZL4fillPi@folder/b 2.cu", "_ZN4deepL5firstEPi"} < kernels.keys()


def test_a_kernels_further_names_are_no_names_of_the_source() -> None:
    """A guest that asks for the source's name would find two kernels otherwise."""
    image, declared = compile_whole(KERNELS, compiler="nvrtc")
    shorts = [named.short_name for named in table.kernels(cubin.parse(image), declared)]
    assert shorts.count("into") == 1


def test_names_in_a_guests_binary_stay() -> None:
    """Host code of a program that nvcc compiled asks for nvcc's names."""
    image, _ = compile_whole(KERNELS, compiler="nvrtc")
    parsed = cubin.parse(image)
    assert [named.name for named in table.kernels(parsed, {})] == [kernel.name for kernel in parsed.kernels]
    assert [named.name for named in table.variables(parsed, {})] == [variable.name for variable in parsed.variables]


def test_two_kernels_of_one_name_are_refused() -> None:
    source = """
        static __global__ void f() {}
        extern "C" __global__ void _ZL1fv() {}"""
    image, declared = compile_whole(source, compiler="nvrtc")
    with pytest.raises(AmbiguousNameError, match="two kernels or variables of the name _ZL1fv"):
        table.kernels(cubin.parse(image), declared)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_Z",
        "_ZN",
        "__nv_static_",
        "__nv_static_9_",
        "__nv_static_99999__1",
        "_ZN9_GLOBAL__N__12345678_1",
        "_ZN99999_INTERNAL_12345678_1_a2nsE",
        "_ZN30_INTERNAL_d567a967_4_a_cu_main",
        "_Z99999f",
    ],
)
def test_damaged_names_are_read_without_harm(name: str) -> None:
    plain, is_static, _ = names.parts(name)
    assert names.function_names(plain, is_local=True)
    assert names.variable_names(plain, is_local=True, is_static=is_static)


@needs_nvcc
def test_the_host_may_refuse_programs_of_several_sources() -> None:
    settings = {"arch": "sm_90", "driver": "13.5", "compiler": "nvrtc", "hooks": "off"}
    with pytest.raises(ValueError, match="several sources need nvcc, and this host compiles with nvrtc alone"):
        toolchain.compile_job("CUDA_UNITS", b"", (), settings)
