"""Programs of several sources on the CUDA engine: what they share, and which do not fit together."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.units import Unit, pack
from tests.limits import HANGS_AFTER_S
from tests.unit.cuda_compile_rig import (
    CompileError,
    compile_image,
    compile_whole,
    compiled_kinds,
    log_of,
    needs_nvcc,
    toolkit,
)  # fmt: skip
from vhost_backend.engines.cuda import cubin, kinds
from vhost_backend.engines.cuda.toolkits import host_compiler
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


SQUARE: Final = r"""
// device code of another compiler
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 result) _Z6squarei(.param .b32 x)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [x]; mul.lo.s32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
.visible .const .align 4 .b32 factors[4] = {1, 2, 3, 4};
.visible .entry other(.param .u64 p) { ret; }
"""


def made_by_nvcc(folder: Path, *words: str) -> bytes:
    """Device code of `CALLEE` as the guest's own nvcc makes it."""
    kit, host = toolkit(), host_compiler()
    assert kit is not None
    assert host is not None
    source, made = folder / "callee.cu", folder / "made"
    source.write_text(CALLEE)
    command = [kit.nvcc, "-ccbin", host, "-rdc=true", *words, source, "-o", made]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=HANGS_AFTER_S)
    return made.read_bytes()


def test_ptx_is_linked_with_cuda_c_and_its_kernels_are_there() -> None:
    image, declared = compile_whole(pack([Unit("a.cu", CALLER), Unit("b.ptx", SQUARE)]), kind="CUDA_UNITS")
    parsed = cubin.parse(image)
    assert {kernel.name for kernel in parsed.kernels} == {"_Z1kPif", "other"}
    assert [(variable.name, variable.size) for variable in parsed.variables] == [("factors", 16)]
    assert kinds.is_source(declared)
    assert kinds.unit_name(declared, 1) == "b.ptx"


def test_units_may_all_be_ptx() -> None:
    caller = SQUARE.partition(".visible")[0] + ".extern .func (.param .b32 result) _Z6squarei(.param .b32 x);\n"
    caller += """.visible .entry calls(.param .f32 f, .param .u64 p) {
        .reg .b32 %r<2>; { .param .b32 a; .param .b32 b; st.param.b32 [a], 3; call (b), _Z6squarei, (a); } ret; }"""
    image, declared = compile_whole(pack([Unit("a", caller), Unit("b", SQUARE)]), kind="CUDA_UNITS")
    assert {kernel.name for kernel in cubin.parse(image).kernels} == {"calls", "other"}
    assert kinds.param_kinds("calls", [4, 8], declared)[0] == ParamKind.FLOAT
    assert not kinds.is_source(declared)
    one, _ = compile_whole(pack([Unit("b", SQUARE)]), kind="CUDA_UNITS")  # as a linker is given it with one input
    assert [kernel.name for kernel in cubin.parse(one).kernels] == ["other"]


@pytest.mark.parametrize(
    "words",
    [
        ("-cubin", "-arch=sm_90"),
        ("-fatbin", "-gencode", "arch=compute_80,code=compute_80"),
        ("-fatbin", "-gencode", "arch=compute_90,code=sm_90"),
    ],
    ids=["cubin", "fatbin with PTX", "fatbin with a cubin"],
)
def test_what_nvcc_has_made_is_linked(tmp_path: Path, words: tuple[str, ...]) -> None:
    units = [Unit("a.cu", CALLER), Unit("b", made_by_nvcc(tmp_path, *words))]
    image, _ = compile_whole(pack(units), kind="CUDA_UNITS")
    assert [kernel.name for kernel in cubin.parse(image).kernels] == ["_Z1kPif"]


def test_what_is_no_source_needs_the_hosts_leave() -> None:
    units = pack([Unit("a.cu", CALLER), Unit("b.ptx", SQUARE)])
    with pytest.raises(
        CompileError, match=r"unit 'b\.ptx' is no CUDA C, and this VM's programs are compiled from source"
    ):
        compile_whole(units, kind="CUDA_UNITS", binaries="off")
    with pytest.raises(CompileError, match=r"unit 'b\.ptx' is no CUDA C"):
        compile_image(units, kind="CUDA_UNITS", compiler="auto")


def test_a_unit_that_cannot_be_linked_is_named(tmp_path: Path) -> None:
    linked, _ = compile_whole("__global__ void k() {}")
    older = made_by_nvcc(tmp_path, "-cubin", "-arch=sm_75")
    for code, words in (
        (linked, r"unit 'b': the cubin is linked already \(allowed: "),
        (older, "unit 'b': the cubin is made for sm_75, and this device is sm_90"),
        (b"\x7fELF\x02\x01", "unit 'b': the cubin is 6 bytes long"),
        (SQUARE.replace("mul.lo", "bogus").encode(), "bogus"),
    ):
        with pytest.raises(CompileError, match=words):
            compile_whole(pack([Unit("a.cu", CALLER), Unit("b", code)]), kind="CUDA_UNITS")


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
