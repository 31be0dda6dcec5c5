"""Programs of several sources on the CUDA engine: what they share, and which do not fit together."""

from __future__ import annotations

import random
import struct

import pytest

from tests.fakes.units import Unit, pack
from tests.unit.cuda_compile_rig import CompileError, compile_image, compile_whole, compiled_kinds, log_of, needs_nvcc
from vhost_backend.engines.cuda import cubin
from virtio_proto.schema import LIMITS, ParamKind

pytestmark = needs_nvcc

CALLER = "__device__ int square(int);\nextern __constant__ int factors[4];\n__global__ void k(int *p, float f) { *p = square(factors[1]) * f; }\n"
CALLEE = "#include <vector>\n__device__ int square(int x) { return x * x; }\n__constant__ int factors[4];\nvoid host(std::vector<int> &);\n"


def log_of_units(*units: Unit) -> str:
    return log_of(pack(units), kind="CUDA_UNITS", compiler="auto")


def test_functions_and_variables_are_shared() -> None:
    image, _ = compile_whole(pack([Unit("a.cu", CALLER), Unit("b.cu", CALLEE)]), kind="CUDA_UNITS")
    parsed = cubin.parse(image)
    assert [kernel.name for kernel in parsed.kernels] == ["_Z1kPif"]
    assert [(variable.name, variable.size) for variable in parsed.variables] == [("factors", 16)]


def test_kinds_of_parameters_are_known() -> None:
    units = [
        Unit("a.cu", 'extern "C" ' + "__global__ void k(int n, float f) {}\n"),
        Unit("b.cu", "static __global__ void s(int *p) { *p = 1; }\n"),
    ]
    found = compiled_kinds(pack(units), kind="CUDA_UNITS", compiler="auto")
    assert found.pop("k") == (ParamKind.INTEGER, ParamKind.FLOAT)
    assert list(found.values()) == [(ParamKind.POINTER,)]


def test_a_units_options_follow_the_programs() -> None:
    source = "__device__ char sized[N];\n"
    units = [Unit("a.cu", source, ("-DN=5",)), Unit("b.cu", source.replace("sized", "other"))]
    image, _ = compile_whole(pack(units), ["-DN=3"], kind="CUDA_UNITS")
    assert {(variable.name, variable.size) for variable in cubin.parse(image).variables} == {("sized", 5), ("other", 3)}


def test_the_log_says_that_the_control_system_does_not_see_the_program() -> None:
    program = pack([Unit("a.cu", CALLER), Unit("b.cu", CALLEE)])
    _, log = compile_image(program, kind="CUDA_UNITS", compiler="auto", hooks="on")
    assert log == "vgc-cudacc: note: the control system will not see this program: it has several sources\n"


def test_errors_name_unit_and_line() -> None:
    log = log_of_units(Unit("a.cu", CALLER), Unit("folder/b 2.cu", "\n__device__ int square(int x) { return oops; }\n"))
    assert 'folder/b 2.cu(2): error: identifier "oops" is undefined' in log


def test_a_symbol_that_no_unit_defines_is_named_with_its_user() -> None:
    log = log_of_units(Unit("a.cu", CALLER), Unit("b.cu", "__constant__ int factors[4];\n"))
    assert "'_Z6squarei' in 'a.cu'" in log


def test_a_symbol_that_two_units_define_is_named_with_both() -> None:
    log = log_of_units(
        *(Unit(name, "__device__ int x;\n__global__ void k() { x = 1; }\n") for name in ("a.cu", "b.cu"))
    )
    assert "'x' in 'b.cu', first defined in 'a.cu'" in log


def assert_survives(program: bytes) -> None:
    """Asserts that the compiler makes an image, or says what is wrong with the program."""
    try:
        image, log = compile_image(program, kind="CUDA_UNITS", compiler="auto", hooks="off")
    except CompileError as error:
        image, log = b"", str(error)
    assert image[:4] == b"\x7fELF" or "error" in log
    assert "Traceback" not in log


HEAD = struct.Struct("<II")
ENTRY = struct.Struct("<IIQ")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (b"", "the program has 0 bytes, and its head alone 8"),
        (HEAD.pack(1, 7), "7 in a reserved field"),
        (HEAD.pack(0, 0), "0 units (allowed: 1 to 256)"),
        (HEAD.pack(257, 0), "257 units"),
        (HEAD.pack(1, 0), "ends in the middle of the list of units"),
        (HEAD.pack(1, 0) + ENTRY.pack(0, 0, 0), "unit 0 has a name of 0 bytes (allowed: 1 to 255)"),
        (HEAD.pack(1, 0) + ENTRY.pack(256, 0, 0), "unit 0 has a name of 256 bytes"),
        (HEAD.pack(1, 0) + ENTRY.pack(1, 0, 2**64 - 1) + b"a", "ends in the middle of unit 0"),
        (HEAD.pack(1, 0) + ENTRY.pack(1, 2, 0) + b"a-w", "the last option of unit 'a' does not end in NUL"),
        (HEAD.pack(1, 0) + ENTRY.pack(2, 0, 0) + b"-a", "unit 0 has a name that is not allowed"),
        (HEAD.pack(1, 0) + ENTRY.pack(2, 0, 0) + b'a"', "unit 0 has a name that is not allowed"),
        (HEAD.pack(1, 0) + ENTRY.pack(2, 0, 0) + b"a\n", "unit 0 has a name that is not allowed"),
        (HEAD.pack(1, 0) + ENTRY.pack(1, 0, 0) + b"\xff", "unit 0 has a name that is not allowed"),
        (HEAD.pack(1, 0) + ENTRY.pack(1, 0, 0) + b"a!", "1 bytes follow the last unit"),
        (HEAD.pack(2, 0) + ENTRY.pack(1, 0, 0) * 2 + b"aa", "two units have the name 'a'"),
    ],
)
def test_forged_programs_are_refused(program: bytes, words: str) -> None:
    assert words in log_of(program, kind="CUDA_UNITS", compiler="auto")


def test_options_of_a_unit_are_checked() -> None:
    log = log_of_units(Unit("a.cu", CALLER, ("-I/etc",)))
    assert "option '-I/etc' is not allowed" in log


def test_a_programs_own_name_expression_is_refused() -> None:
    with pytest.raises(CompileError, match="--name-expression is for the program"):
        compile_whole(pack([Unit("a.cu", CALLEE)]), ["--name-expression=f<1>"], kind="CUDA_UNITS")


def test_damaged_programs_are_read_without_harm() -> None:
    rng = random.Random(1)
    whole = pack([Unit("a.cu", CALLER, ("-w",)), Unit("b.cu", CALLEE)])
    for _ in range(8):
        raw = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            raw[rng.randrange(48)] = rng.randrange(256)
        assert_survives(bytes(raw))


def test_limits_of_the_wire_format_are_the_compilers() -> None:
    from vhost_backend.engines.containers import units

    assert (LIMITS["MAX_UNITS"], LIMITS["MAX_UNIT_NAME"]) == (units._MAX_UNITS, units._MAX_NAME)
