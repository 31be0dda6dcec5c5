"""Programs of several PTX modules on the software GPU, and of PTX and CUDA C: what is linked, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.units import Unit
from tests.unit.cpu_rig import CompileError, Rig, link_image, rig
from tests.unit.cuda_compile_rig import needs_nvcc
from tests.unit.ptx_compilers import nvcc_ptx

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNELS = r"""
struct Point { float x, y; int weights[3]; };
extern __device__ int counter;
extern __constant__ float scales[4];
extern __shared__ int dynamic[];
extern __shared__ int fixed[16];
__device__ int square(int);
__device__ Point moved(Point point, float by);
static __device__ int own = 4;
inline __device__ int *place() { static __device__ int value; return &value; }
__device__ void set_place();
static __global__ void hidden(int *out) { *out = own; }
void *host() { return (void *)hidden; }
__global__ void combine(int *out, Point *point) {
    if (threadIdx.x == 0) { *point = moved(*point, 2.0f); set_place(); }
    dynamic[threadIdx.x] = square(threadIdx.x) + counter + (int)scales[1] + own;
    __syncthreads();
    out[threadIdx.x] = dynamic[threadIdx.x ^ 1] + *place() + fixed[threadIdx.x % 16];
}
"""
FUNCTIONS = r"""
struct Point { float x, y; int weights[3]; };
__device__ int counter = 5;
__constant__ float scales[4] = {1, 2};
__shared__ int fixed[16];
static __device__ int own = 100;
inline __device__ int *place() { static __device__ int value; return &value; }
__device__ Point moved(Point point, float by) { point.x += by; point.weights[2]++; return point; }
__device__ int square(int x) { fixed[threadIdx.x % 16] = 1000 * own; return x * x; }
__device__ void set_place() { *place() = 7; }
static __global__ void hidden(int *out) { *out = own; }
void *host() { return (void *)hidden; }
"""
SCALARS = r"""
__device__ signed char narrow(signed char c, bool b, short s, unsigned short u, float f, double d, int *p, long long l);
__device__ float half_of(float x);
extern "C" __global__ void scalars(int *out) {
    out[0] = narrow(out[1], out[2] != 0, out[3], 65535, 1.5f, 2.25, out, 1ll << 40);
    out[1] = (int)(4 * half_of(out[3]));
}
"""
SCALAR_FUNCTIONS = r"""
__device__ signed char narrow(signed char c, bool b, short s, unsigned short u, float f, double d, int *p, long long l) {
    return (signed char)(c + b + s + (u == 65535 ? 3 : 50) + (int)(2 * f) + (int)(4 * d) + (p[3] == s ? 7 : 60) +
                         (l >> 40 == 1 ? -80 : 90));
}
__device__ float half_of(float x) { return x / 2; }
"""


def ptx(text: str, name: str = "b.ptx") -> Unit:
    return Unit(name, HEADER + text)


def log_of(*units: Unit) -> str:
    with pytest.raises(CompileError) as caught:
        link_image(*units)
    return str(caught.value)


def check_combined(gpu: Rig) -> None:
    out, point = gpu.array(32, np.int32), gpu.array(5, np.float32, [1, 2, 0, 0, 0])
    gpu.launch("combine", 1, 32, out, point, shared=128)
    assert out.tolist() == [(thread ^ 1) ** 2 + 5 + 2 + 4 + 7 + 100000 for thread in range(32)]
    assert point[:2].tolist() == [3, 2]
    assert point.view(np.int32)[4] == 1


@needs_nvcc
def test_modules_of_nvcc_are_linked_in_any_order() -> None:
    """Functions with structs, variables, shared variables, internals of inline functions, and names of each unit's own."""
    modules = [Unit("a.ptx", nvcc_ptx(KERNELS, "-rdc=true")), Unit("b.ptx", nvcc_ptx(FUNCTIONS, "-rdc=true"))]
    for units in (modules, modules[::-1]):
        with rig(pes=2) as gpu:
            program = gpu.link(*units)
            check_combined(gpu)
            hidden = [function.name for function in program.functions if "hidden" in function.name]
            out, values = gpu.array(1, np.int32), []
            for name in hidden:
                gpu.launch(name, 1, 1, out)
                values.append(int(out[0]))
            assert sorted(values) == [4, 100]


@needs_nvcc
@pytest.mark.parametrize("kernels_are_ptx", [False, True])
def test_ptx_and_cuda_c_call_one_another(*, kernels_are_ptx: bool) -> None:
    """Small integers, floats and pointers as arguments and results."""
    sources = [SCALARS, SCALAR_FUNCTIONS]
    units = [Unit("a.cu", SCALARS), Unit("b.cu", SCALAR_FUNCTIONS)]
    index = 0 if kernels_are_ptx else 1
    units[index] = Unit("m.ptx", nvcc_ptx(sources[index], "-rdc=true"))
    with rig(pes=1) as gpu:
        gpu.link(*units)
        out = gpu.array(4, np.int32, [0, -5, 8, -20])
        gpu.launch("scalars", 1, 1, out)
        assert out.tolist() == [-5 + 1 - 20 + 3 + 3 + 9 + 7 - 80, -40, 8, -20]


@needs_nvcc
def test_results_that_a_function_lacks_are_zero() -> None:
    """PTX of numba expects one of each function of CUDA C, whatever it returns."""
    kernel = """
        .extern .func (.param .b32 r) keep(.param .b64 p);
        .visible .entry k(.param .u64 p) {
            .reg .b64 %a; .reg .b32 %v; .param .b64 x; .param .b32 r;
            ld.param.u64 %a, [p]; st.param.b64 [x], %a; call (r), keep, (x);
            ld.param.b32 %v, [r]; st.global.u32 [%a + 4], %v; ret; }"""
    source = 'extern "C" __device__ void keep(int *place) { *place = 42; }'
    with rig(pes=1) as gpu:
        gpu.link(ptx(kernel), Unit("a.cu", source))
        out = gpu.array(2, np.int32)
        gpu.launch("k", 1, 1, out)
        assert out.tolist() == [42, 0]


def test_structs_are_not_passed_between_ptx_and_cuda_c() -> None:
    log = log_of(Unit("a.ptx", nvcc_ptx(KERNELS, "-rdc=true")), Unit("b.cu", FUNCTIONS))
    assert "function 'moved(Point, float)' of unit 'b.cu' cannot be used by unit 'a.ptx'" in log
    assert "square" not in log


def test_variables_of_cuda_c_are_those_of_ptx() -> None:
    kernel = """
        .extern .global .u32 counter;
        .visible .const .u32 given = 8;
        .visible .entry k(.param .u64 out) {
            .reg .b32 r; .reg .b64 d;
            ld.param.u64 d, [out]; ld.global.u32 r, [counter]; st.u32 [d], r; st.global.u32 [counter], 9; ret; }"""
    source = """extern "C" { __device__ int counter = 5; extern __constant__ int given; }
        extern "C" __global__ void read(int *out) { out[1] = counter + given; }"""
    with rig(pes=1) as gpu:
        gpu.link(ptx(kernel), Unit("a.cu", source))
        out = gpu.array(2, np.int32)
        gpu.launch("k", 1, 1, out)
        gpu.launch("read", 1, 1, out)
        assert out.tolist() == [5, 17]


CALLS_OF_UNDERSCORES = """
    .extern .func (.param .b32 r) __other(.param .b32 x);
    .visible .func (.param .b32 r) __mine(.param .b32 x) {
        .reg .b32 %v; ld.param.u32 %v, [x]; add.u32 %v, %v, 1; st.param.b32 [r], %v; ret; }
    .visible .entry k(.param .u64 p) {
        .reg .b64 %a; .reg .b32 %v; .param .b32 x; .param .b32 r;
        ld.param.u64 %a, [p]; mov.b32 %v, 20; st.param.b32 [x], %v; call (r), __other, (x);
        ld.param.b32 %v, [r]; st.global.u32 [%a], %v; ret; }
"""


def test_ptx_and_cuda_c_share_names_that_begin_with_two_underscores() -> None:
    """Such are those of functions that numba calls."""
    source = """extern "C" __device__ int __mine(int);
        extern "C" __device__ int __other(int x) { return 2 * __mine(x); }"""
    with rig(pes=1) as gpu:
        gpu.link(ptx(CALLS_OF_UNDERSCORES), Unit("a.cu", source))
        out = gpu.array(1, np.int32)
        gpu.launch("k", 1, 1, out)
        assert out.tolist() == [42]


def test_inline_functions_of_ptx_and_cuda_c_stay_apart() -> None:
    """Both kinds of units have a copy, and pass arguments in their own way."""
    module = """
        .weak .func (.param .b64 r) _Z4sameIiEPT_S1_(.param .b64 x) {
            .reg .b64 d; ld.param.b64 d, [x]; add.s64 d, d, 4; st.param.b64 [r], d; ret; }
        .visible .entry k(.param .u64 out) {
            .reg .b64 d; .param .b64 a; .param .b64 r;
            ld.param.u64 d, [out]; st.param.b64 [a], d; call (r), _Z4sameIiEPT_S1_, (a);
            ld.param.b64 d, [r]; st.u32 [d], 6; ret; }"""
    source = """template <typename T> __device__ __attribute__((noinline)) T *same(T *x) { return x + 1; }
        extern "C" __global__ void f(int *out) { *same(same(out)) = 5; }"""
    for units in ((ptx(module), Unit("a.cu", source)), (Unit("a.cu", source), ptx(module))):
        with rig(pes=1) as gpu:
            gpu.link(*units)
            out = gpu.array(3, np.int32)
            gpu.launch("k", 1, 1, out)
            gpu.launch("f", 1, 1, out)
            assert out.tolist() == [0, 6, 5]


def returning(name: str, value: int, linkage: str) -> str:
    """A function, and a kernel that writes what it returns."""
    return f"""
        {linkage} .func (.param .b32 r) number() {{ st.param.b32 [r], {value}; ret; }}
        .visible .entry {name}(.param .u64 out) {{
            .reg .b32 r; .reg .b64 d; .param .b32 n;
            call (n), number, (); ld.param.b32 r, [n]; ld.param.u64 d, [out]; st.u32 [d], r; ret; }}"""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("", "", [1, 2]), (".weak", ".weak", [1, 1]), (".weak", ".visible", [2, 2]), (".visible", "", [1, 2])],
)
def test_linkage_says_which_definition_counts(first: str, second: str, expected: list[int]) -> None:
    with rig(pes=1) as gpu:
        gpu.link(ptx(returning("f", 1, first), "a.ptx"), ptx(returning("g", 2, second)))
        out = gpu.array(1, np.int32)
        for name, value in zip("fg", expected, strict=True):
            gpu.launch(name, 1, 1, out)
            assert out[0] == value


def test_kernels_that_are_units_own_carry_the_unit() -> None:
    kernel = ".entry k(.param .u64 out) {{ .reg .b64 d; ld.param.u64 d, [out]; st.u32 [d], {}; ret; }}"
    with rig(pes=1) as gpu:
        gpu.link(ptx(kernel.format(1), "a.ptx"), ptx(kernel.format(2)), ptx(".global .u32 x;", "c.ptx"))
        out = gpu.array(1, np.int32)
        for name, value in {"k@a.ptx": 1, "k@b.ptx": 2}.items():
            gpu.launch(name, 1, 1, out)
            assert out[0] == value


def test_common_variables_become_one_as_large_as_the_largest() -> None:
    units = [ptx(".common .global .u32 room[2];", "a.ptx"), ptx(".common .global .u32 room[5];")]
    with rig(pes=1) as gpu:
        program = gpu.link(*units, ptx(".common .global .u32 room[3];", "c.ptx"))
        assert [(variable.name, variable.size) for variable in program.globals] == [("room", 20)]


def test_further_names_of_functions_are_linked() -> None:
    body = ".visible .func (.param .b32 r) base() { st.param.b32 [r], 3; ret; }\n"
    alias = ".visible .func (.param .b32 r) number();\n.alias number, base;"
    user = returning("f", 0, ".extern").replace("{ st.param.b32 [r], 0; ret; }", ";", 1)
    with rig(pes=1) as gpu:
        gpu.link(ptx(user, "a.ptx"), ptx(body + alias))
        out = gpu.array(1, np.int32)
        gpu.launch("f", 1, 1, out)
        assert out[0] == 3
    log = log_of(ptx(returning("f", 1, ".visible"), "a.ptx"), ptx(body + alias))
    assert "'number' is defined in unit 'a.ptx' and in unit 'b.ptx'" in log


def test_heap_is_one() -> None:
    """Memory that a unit in PTX allocates is freed by one in CUDA C."""
    module = """
        .extern .func (.param .b64 r) malloc(.param .b64 size);
        .extern .func drop(.param .b64 memory);
        .visible .entry f(.param .u64 out) {
            .reg .b64 d; .reg .b32 r; .param .b64 a;
            st.param.b64 [a], 1024; call (a), malloc, (a); call drop, (a);
            ld.param.b64 d, [a]; cvt.u32.u64 r, d; ld.param.u64 d, [out]; st.u32 [d], r; ret; }"""
    source = 'extern "C" __device__ void drop(void *memory) { free(memory); }'
    with rig(pes=1) as gpu:
        program = gpu.link(ptx(module), Unit("a.cu", source), options=["--malloc-heap-size=65536"])
        assert not program.globals
        out = gpu.array(1, np.uint32)
        for _ in range(200):  # more than the heap has room for
            gpu.launch("f", 1, 1, out)
            assert out[0] != 0


CALL = ".extern .func f(.param .b32 x);\n.visible .entry k() { .param .b32 a; st.param.b32 [a], 1; call f, (a); ret; }"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".global .u32 x;", "'f', which unit 'a.ptx' uses, is defined in no unit"),
        (".visible .func __f() { ret; }\n.extern .func __g();\n.entry z() { call __g; }", "'__g', which unit 'b.ptx'"),
        (
            ".visible .func f(.param .b64 x) { ret; }",
            "function 'f' has other parameters or results in unit 'a.ptx' than in unit 'b.ptx', which defines it",
        ),
        (
            ".visible .global .u32 f;",
            "'f' is a function in unit 'a.ptx' and a variable in unit 'b.ptx', which defines it",
        ),
        (".visible .entry k() { ret; }", "'k' is defined in unit 'a.ptx' and in unit 'b.ptx'"),
        (".visible .func f(.param .b32 x) { call nobody; }", "b.ptx:4:40: there is no function 'nobody'"),
    ],
)
def test_units_that_do_not_fit_are_named(text: str, words: str) -> None:
    assert words in log_of(ptx(CALL, "a.ptx"), ptx(text))


@pytest.mark.parametrize(
    ("declared", "defined", "words"),
    [
        (".global .u32 x[2]", ".global .u32 x[3]", "has 8 bytes in unit 'a.ptx' and 12 in unit 'b.ptx'"),
        (".shared .u32 x[2]", ".global .u32 x[2]", "is shared in unit 'a.ptx' and not in unit 'b.ptx'"),
        (".global .u32 x[2]", ".shared .u32 x[2]", "is not shared in unit 'a.ptx' and in unit 'b.ptx'"),
    ],
)
def test_variables_that_do_not_fit_are_named(declared: str, defined: str, words: str) -> None:
    user = f".extern {declared};\n.visible .entry k() {{ .reg .b64 d; mov.u64 d, x; ret; }}"
    assert f"variable 'x' {words}, which defines it" in log_of(ptx(user, "a.ptx"), ptx(f".visible {defined};"))


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (".weak .global .u32 x;", ".weak .func x() { ret; }", "'x' is a function in unit 'b.ptx' and a variable in"),
        (
            ".visible .func x() { ret; }",
            ".common .global .u32 x;",
            "'x' is a variable in unit 'b.ptx' and a function in",
        ),
        (".weak .shared .u32 x;", ".weak .global .u32 x;", "variable 'x' is not shared in unit 'b.ptx' and in"),
        (".weak .shared .u32 x[4];", ".weak .shared .u32 x[9];", "variable 'x' has 36 bytes in unit 'b.ptx' and 16 in"),
        (
            ".weak .func x(.param .b32 a) { ret; }",
            ".visible .func x(.param .b64 a) { ret; }",
            "function 'x' has other parameters or results in unit 'b.ptx' than in",
        ),
    ],
)
def test_definitions_that_do_not_fit_one_another_are_named(first: str, second: str, words: str) -> None:
    """The linker would take one, for the other unit's code as well."""
    log = log_of(ptx(first, "a.ptx"), ptx(f"{second}\n.visible .entry k() {{ ret; }}"))
    assert f"{words} unit 'a.ptx', which defines it" in log


@pytest.mark.parametrize("name", ["k.cu", "k"])
def test_text_says_that_a_unit_is_ptx(name: str) -> None:
    module = Unit(name, f"// of a compiler\n/* .version */\n{HEADER}.visible .entry k() {{ ret; }}")
    with rig(pes=1) as gpu:
        gpu.link(module, Unit("a.cu", ""))
        gpu.launch("k", 1, 1)
