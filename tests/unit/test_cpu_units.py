"""Programs of several sources on the software GPU: what units share, what they keep, and which do not fit together."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import numpy as np
import pytest

from tests.fakes.units import Unit, pack
from tests.unit.cpu_rig import CompileError, LaunchError, link_bytes, link_image, rig
from virtio_proto.schema import LIMITS

KERNEL = 'extern "C" __global__ void f(int *out) { out[threadIdx.x] = 1; }\n'


def run(units: Sequence[Unit], *options: str, threads: int = 4, name: str = "f", shared: int = 0) -> list[int]:
    """Values that kernel `name` leaves, one of each thread."""
    with rig(pes=1) as gpu:
        gpu.link(*units, options=options)
        out = gpu.array(threads, np.int32)
        gpu.launch(name, 1, threads, out, shared=shared)
        return [int(value) for value in out]


def log_of(*units: Unit, options: Sequence[str] = ()) -> str:
    with pytest.raises(CompileError) as caught:
        link_image(*units, options=options)
    return str(caught.value)


def forged_log(program: bytes) -> str:
    with pytest.raises(CompileError) as caught:
        link_bytes(program)
    return str(caught.value)


def assert_survives(program: bytes) -> None:
    """Asserts that the compiler makes an image, or says what is wrong with the program."""
    try:
        image, log = link_bytes(program)
    except CompileError as error:
        image, log = b"", str(error)
    assert image[:4] == b"\x7fELF" or "error: " in log
    assert "defect of the compiler" not in log


# ---- what units share ----------------------------------------------------------------------------


def test_device_functions_are_called_across_units() -> None:
    a = """
        __device__ int square(int);
        namespace deep { __device__ int twice(int); }
        extern "C" __global__ void f(int *out) { out[threadIdx.x] = deep::twice(square(threadIdx.x)); }"""
    b = "__device__ int square(int x) { return x * x; } namespace deep { __device__ int twice(int x) { return 2 * x; } }"
    assert run([Unit("a.cu", a), Unit("b.cu", b)]) == [0, 2, 8, 18]
    assert run([Unit("b.cu", b), Unit("a.cu", a)]) == [0, 2, 8, 18]


def test_barriers_work_in_functions_of_another_unit() -> None:
    a = """
        __device__ int sum(int);
        extern "C" __global__ void f(int *out) { out[threadIdx.x] = sum(threadIdx.x); }"""
    b = """
        __device__ int sum(int x) {
            __shared__ int all[64];
            all[threadIdx.x] = x;
            __syncthreads();
            int total = 0;
            for (unsigned i = 0; i < blockDim.x; i++) total += all[i];
            return total + __shfl_sync(~0u, x, 3);
        }"""
    assert run([Unit("a.cu", a), Unit("b.cu", b)], threads=64) == [63 * 32 + 3] * 32 + [63 * 32 + 35] * 32


def test_variables_are_shared() -> None:
    a = """
        extern __device__ int counter;
        extern __device__ int table[];
        extern __constant__ int scale[2];
        extern "C" __global__ void f(int *out) { out[threadIdx.x] = table[threadIdx.x] * scale[1] + counter; }"""
    b = "__device__ int counter = 5; __device__ int table[4] = {1, 2, 3, 4}; __constant__ int scale[2] = {0, 10};"
    with rig(pes=1) as gpu:
        program = gpu.link(Unit("a.cu", a), Unit("b.cu", b))
        assert sorted(variable.name for variable in program.globals) == ["counter", "scale", "table"]
        out = gpu.array(4, np.int32)
        gpu.launch("f", 1, 4, out)
        assert out.tolist() == [15, 25, 35, 45]


def test_shared_variables_are_shared() -> None:
    """Both those of the launch, whose size no unit knows, and those that one unit defines."""
    a = """
        extern __shared__ int dynamic[];
        __shared__ int fixed[4];
        __device__ void fill();
        extern "C" __global__ void f(int *out) {
            fill();
            __syncthreads();
            out[threadIdx.x] = dynamic[threadIdx.x] + fixed[threadIdx.x];
        }"""
    b = """
        extern __shared__ int dynamic[];
        extern __shared__ int fixed[4];
        __device__ void fill() { dynamic[threadIdx.x] = 10 * threadIdx.x; fixed[threadIdx.x] = 1; }"""
    assert run([Unit("a.cu", a), Unit("b.cu", b)], shared=16) == [1, 11, 21, 31]


def test_templates_and_inline_functions_become_one() -> None:
    common = """
        inline __device__ int *place() { static __device__ int value; return &value; }
        template <typename T> __device__ T one() { return T(1); }
        template <typename T> __global__ void fill(T *out) { out[threadIdx.x] = one<T>(); }
        """
    a = (
        common
        + 'template __global__ void fill<int>(int *); __device__ void set(); extern "C" __global__ void f(int *out)'
    )
    a += " { set(); out[threadIdx.x] = *place() + one<int>(); }"
    b = common + "template __global__ void fill<int>(int *); __device__ void set() { *place() = 41; }"
    units = [Unit("a.cu", a), Unit("b.cu", b)]
    assert run(units) == [42] * 4
    assert run(units, name="fill") == [1] * 4


def test_heap_is_one() -> None:
    """Memory that one unit allocates is freed by another."""
    a = """
        __device__ void drop(int *);
        extern "C" __global__ void f(int *out) {
            int *mine = new int(threadIdx.x);
            out[threadIdx.x] = *mine;
            drop(mine);
        }"""
    b = "__device__ void drop(int *memory) { delete memory; }"
    with rig(pes=1) as gpu:
        program = gpu.link(Unit("a.cu", a), Unit("b.cu", b), options=["--malloc-heap-size=65536"])
        assert not program.globals
        out = gpu.array(4, np.int32)
        for _ in range(5000):  # more than the heap has room for
            gpu.launch("f", 1, 4, out)
        assert out.tolist() == [0, 1, 2, 3]


def test_function_pointers_and_virtual_functions_go_across_units() -> None:
    common = "struct Shape { __device__ virtual int area() const; int side; };"
    a = (
        common
        + """
        typedef int (*Step)(int);
        extern __device__ Step step;
        __device__ Shape *make(void *);
        extern "C" __global__ void f(int *out) {
            alignas(8) char room[64];
            out[threadIdx.x] = step(threadIdx.x) + make(room)->area();
        }"""
    )
    b = (
        common
        + """
        struct Square : Shape { __device__ int area() const override { return 100; } };
        __device__ int Shape::area() const { return 0; }
        __device__ int add(int x) { return x + 7; }
        __device__ int (*step)(int) = add;
        __device__ Shape *make(void *room) { return new (room) Square; }"""
    )
    assert run([Unit("a.cu", a), Unit("b.cu", b)]) == [107, 108, 109, 110]


def test_kernel_of_another_unit_is_launched() -> None:
    a = """
        extern __global__ void child(int *out, int value);
        extern "C" __global__ void f(int *out) { if (threadIdx.x == 0) child<<<1, 4>>>(out, 9); }"""
    b = "__global__ void child(int *out, int value) { out[threadIdx.x] = value + threadIdx.x; }"
    assert run([Unit("a.cu", a), Unit("b.cu", b)]) == [9, 10, 11, 12]


# ---- what units keep -----------------------------------------------------------------------------


def test_static_and_anonymous_names_stay_apart() -> None:
    texts = [
        f"""
        static __device__ int mine = {number};
        namespace {{ struct Tag {{ static const int value = {number}; }};
                    __device__ int own() {{ return 10 * Tag::value; }} }}
        template <typename T> __device__ int tagged() {{ return 100 * T::value; }}
        static __device__ int helper() {{ return mine + own() + tagged<Tag>(); }}
        extern "C" __global__ void f{number}(int *out) {{ out[threadIdx.x] = helper(); }}"""
        for number in (1, 2)
    ]
    units = [Unit(f"{number}.cu", text) for number, text in enumerate(texts, 1)]
    assert run(units, name="f1") == [111] * 4
    assert run(units, name="f2") == [222] * 4


def test_static_names_of_several_units_carry_the_unit() -> None:
    texts = [
        f"""
        static __device__ int mine = {number};
        static __device__ int only{number} = 0;
        static __global__ void fill(int *out) {{ out[threadIdx.x] = mine + only{number}; }}
        namespace {{ __global__ void hidden(int *out) {{ out[threadIdx.x] = 10 * mine; }} }}
        void *host() {{ return (void *)fill; }}
        void *other() {{ return (void *)hidden; }}"""
        for number in (1, 2)
    ]
    with rig(pes=1) as gpu:
        program = gpu.link(*(Unit(f"{number}.cu", text) for number, text in enumerate(texts, 1)))
        assert sorted(variable.name for variable in program.globals) == ["mine@1.cu", "mine@2.cu", "only1", "only2"]
        out = gpu.array(4, np.int32)
        for name, value in {"fill@1.cu": 1, "fill@2.cu": 2, "hidden@1.cu": 10, "_ZL4fillPi@2.cu": 2}.items():
            gpu.launch(name, 1, 4, out)
            assert out.tolist() == [value] * 4, name


@pytest.mark.parametrize(
    "variable", ["static __device__ int mine", "static __constant__ int mine", "namespace { __device__ int mine; }"]
)
def test_own_variables_that_host_code_uses_behind_the_kernels_are_linked(variable: str) -> None:
    texts = [
        f"""#include <cuda_runtime.h>
        {variable};
        extern "C" __global__ void f{number}(int *out) {{ out[threadIdx.x] = mine; }}
        void host{number}(int value) {{ cudaMemcpyToSymbol(mine, &value, sizeof value); }}"""
        for number in (1, 2)
    ]
    with rig(pes=1) as gpu:
        gpu.link(*(Unit(f"{number}.cu", text) for number, text in enumerate(texts, 1)))
        for number in (1, 2):
            gpu.variable(f"mine@{number}.cu").view(np.int32)[:] = 10 * number
        for number in (1, 2):
            out = gpu.array(4, np.int32)
            gpu.launch(f"f{number}", 1, 4, out)
            assert out.tolist() == [10 * number] * 4


def test_units_have_options_of_their_own() -> None:
    text = 'extern "C" __global__ void NAME(int *out) { out[threadIdx.x] = VALUE + COMMON; }'
    units = [Unit("a.cu", text, ("-DNAME=f", "-DVALUE=1")), Unit("b.cu", text, ("-D", "NAME=g", "-DVALUE=2"))]
    assert run(units, "-DCOMMON=10") == [11] * 4
    assert run(units, "-DCOMMON=10", name="g") == [12] * 4


def test_options_of_nvcc_for_units_are_taken() -> None:
    assert run([Unit("a.cu", KERNEL, ("-dc",))], "-rdc=true") == [1] * 4


def test_checks_see_through_units() -> None:
    """Reports name the line in the kernel, and the kernel's unit."""
    a = "__device__ int at(int *values, int index) {\n    return values[index];\n}"
    b = '__device__ int at(int *, int);\nextern "C" __global__ void f(int *out) { out[0] = at(out, 400); }'
    with rig(pes=1) as gpu:
        gpu.link(Unit("a.cu", a), Unit("folder/b.cu", b), options=["--memcheck"])
        out = gpu.array(4, np.int32)
        with pytest.raises(LaunchError, match=r"folder/b\.cu:2:51: read of 4 bytes"):
            gpu.launch("f", 1, 1, out)


# ---- what does not fit together ------------------------------------------------------------------


def test_errors_name_the_unit_and_line() -> None:
    log = log_of(Unit("a.cu", KERNEL), Unit("lib/b.cu", "\n__device__ int g() { return undeclared; }"))
    assert "lib/b.cu:2:29: error: use of undeclared identifier 'undeclared'" in log


def test_undefined_symbols_are_named_with_the_unit_that_uses_them() -> None:
    a = """
        __device__ int outside(int);
        extern __device__ int table[];
        extern "C" __global__ void f(int *out) { out[0] = outside(1) + table[1]; }"""
    log = log_of(Unit("a.cu", a), Unit("b.cu", "__device__ int other;"))
    assert "'outside(int)', which unit 'a.cu' uses, is defined in no unit" in log
    assert "'table', which unit 'a.cu' uses, is defined in no unit" in log


def test_symbols_that_two_units_define_are_named_with_both() -> None:
    text = "__device__ int value; namespace n { __device__ int twice(int x) { return 2 * x; } }\n"
    log = log_of(Unit("a.cu", text + KERNEL), Unit("c.cu", "__device__ int x;"), Unit("b.cu", text))
    assert "'value' is defined in unit 'a.cu' and in unit 'b.cu'" in log
    assert "'n::twice(int)' is defined in unit 'a.cu' and in unit 'b.cu'" in log
    assert "'x'" not in log


def test_declarations_that_contradict_each_other_are_survived() -> None:
    """A function here, a variable there."""
    a = 'extern "C" __device__ int thing(int); extern "C" __global__ void f(int *out) { out[0] = thing(1); }'
    b = 'extern "C" { __device__ int thing = 3; }'
    assert_survives(pack([Unit("a.cu", a), Unit("b.cu", b)]))


@pytest.mark.parametrize("option", ["-ftz=true", "--lockstep", "--memcheck", "--malloc-heap-size=65536"])
def test_options_of_the_whole_program_must_agree(option: str) -> None:
    log = log_of(Unit("a.cu", KERNEL, (option,)), Unit("b.cu", ""))
    assert "units 'a.cu' and 'b.cu' differ in " + option.split("=", maxsplit=1)[0] in log
    assert run([Unit("a.cu", KERNEL, (option,)), Unit("b.cu", "", (option,))]) == [1] * 4


def test_option_that_is_not_allowed_is_refused() -> None:
    assert "option '-I/etc' is not allowed" in log_of(Unit("a.cu", KERNEL, ("-I/etc",)))


def test_template_is_asked_of_its_unit() -> None:
    template = "template <int N> __global__ void f(int *out) { out[threadIdx.x] = N; }"
    units = [Unit("a.cu", template, ("--name-expression=f<5>",)), Unit("b.cu", "")]
    assert run(units) == [5] * 4
    assert "allowed: for the unit that has the template" in log_of(*units, options=["--name-expression=f<5>"])


# ---- forged programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, LIMITS["MAX_UNITS"] + 1, 10_000, 2**32 - 1])
def test_number_of_units_is_bounded(count: int) -> None:
    assert f"the program has {count} units (allowed: 1 to {LIMITS['MAX_UNITS']})" in forged_log(
        struct.pack("<II", count, 0) + bytes(100)
    )


@pytest.mark.parametrize("name", ["-fplugin=x", "a\nb", 'a"b', "a\\b", "\x7f"])
def test_names_that_are_not_allowed_are_refused(name: str) -> None:
    assert "unit 1 has a name that is not allowed" in log_of(Unit("a.cu", KERNEL), Unit(name, ""))


def test_name_must_be_text() -> None:
    program = pack([Unit("name", KERNEL)]).replace(b"name", b"\xff\xfe\xfd\xfc")
    assert "unit 0 has a name that is not allowed" in forged_log(program)


@pytest.mark.parametrize("size", [0, LIMITS["MAX_UNIT_NAME"] + 1, 1 << 20])
def test_length_of_names_is_bounded(size: int) -> None:
    assert f"unit 0 has a name of {size} bytes (allowed: 1 to 255)" in log_of(Unit("n" * size, KERNEL))


def test_two_units_of_one_name_are_refused() -> None:
    assert "two units have the name 'a.cu'" in log_of(Unit("a.cu", KERNEL), Unit("a.cu", ""))


def test_bytes_behind_the_last_unit_are_refused() -> None:
    assert "1 bytes follow the last unit" in forged_log(pack([Unit("a.cu", KERNEL)]) + b"x")


def test_options_must_end() -> None:
    program = pack([Unit("a.cu", KERNEL, ("-w",))]).replace(b"-w\0", b"-wx")
    assert "the last option of unit 'a.cu' does not end in NUL" in forged_log(program)


def test_program_that_is_cut_short_is_refused() -> None:
    program = pack([Unit("a.cu", KERNEL, ("-w",)), Unit("b.cu", "")])
    sizes = [0, 7, 8, 23, 24, 39, 41, 44, len(program) - 1]
    for size in sizes:
        assert "the program ends in the middle of" in forged_log(program[:size]), size


def test_forged_bytes_never_crash_the_compiler() -> None:
    program = pack([Unit("a.cu", KERNEL, ("-w",)), Unit("b.cu", "__device__ int x;")])
    chance = random.Random(4)
    for _ in range(25):
        forged = bytearray(program)
        for _ in range(chance.randrange(1, 4)):
            forged[chance.randrange(60)] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        assert_survives(bytes(forged))
