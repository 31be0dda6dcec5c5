"""The Python side of the guest's driver: declarations, arguments, arrays, the doctor."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver import _lib, arguments, cli, doctor, errors, runner
from guest_driver.arguments import Param, ParamKind
from guest_driver.steps import Steps
from tests.fakes.device import FakeDevice, FakeFunction
from tests.fakes.guest import REPOSITORY
from tests.unit.guest_rig import dev, fake, link
from virtio_proto.schema import Opcode, Status

__all__ = ["dev", "fake", "link"]

# ---- declarations --------------------------------------------------------------------------------


def test_library_exports_what_the_header_declares_and_nothing_else() -> None:
    declared = set(re.findall(r"^VGC_API .*?(\w+)\(", _lib.HEADER.read_text(), flags=re.MULTILINE))
    listing = subprocess.run(["nm", "-D", "--defined-only", _lib.library_path()], capture_output=True, check=True)
    exported = {line.split()[-1] for line in listing.stdout.decode().splitlines()}
    assert {name for name in exported if not name.startswith("_")} == declared  # linker and sanitizers add symbols
    assert all(hasattr(_lib.lib, name) for name in declared)


def test_header_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no \\[cdef\\] marks"):
        _lib.declarations("int f(void);")


def test_missing_library_is_explained() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import guest_driver"],
        check=False,
        cwd=REPOSITORY,
        env={"VGC_LIBRARY": "/nowhere/libvgc.so"},
        capture_output=True,
        text=True,
    )
    assert "libvgc cannot be loaded from /nowhere/libvgc.so" in done.stderr
    assert "make -C guest_driver/libvgc" in done.stderr


def test_each_result_of_the_library_has_an_exception_of_its_own() -> None:
    listed = re.search(r"enum vgc_result \{(.*?)\};", _lib.HEADER.read_text(), flags=re.DOTALL)
    assert listed is not None
    results = {name: int(number) for name, number in re.findall(r"VGC_(\w+) = (\d+)", listed[1])}
    assert len(results) > len(Status)
    kinds = {name: type(errors.from_result(number, "")) for name, number in results.items() if name != "OK"}
    assert vgc.VgcError not in kinds.values()
    assert len(set(kinds.values())) == len(kinds)
    assert {int(status) for status in Status} <= set(results.values())


def test_result_names_match_the_wires_statuses() -> None:
    assert [_lib.text(_lib.lib.vgc_result_name(status)) for status in Status] == [status.name for status in Status]


def test_c_and_cpp_programs_can_include_the_header(tmp_path: Path) -> None:
    source = tmp_path / "use.c"
    source.write_text('#include "vgc.h"\nint main(void) { return vgc_last_error() == 0; }\n')
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", str(_lib.HEADER.parent), str(source)]
    for language in (["-xc", "-std=c11"], ["-xc++", "-std=c++11"]):
        subprocess.run(["cc", *language, *flags], check=True)


# ---- arguments -----------------------------------------------------------------------------------


def param(size: int, kind: ParamKind = ParamKind.UNKNOWN) -> Param:
    return Param(0, size, kind)


@pytest.mark.parametrize(
    ("value", "size", "expected"),
    [
        (5, 4, b"\5\0\0\0"),
        (-1, 2, b"\xff\xff"),
        (2**64 - 1, 8, b"\xff" * 8),
        (True, 1, b"\1"),
        (1.0, 4, np.float32(1).tobytes()),
        (1.0, 8, np.float64(1).tobytes()),
        (1.0, 2, np.float16(1).tobytes()),
        (np.int16(7), 2, b"\7\0"),
        (np.array(7, np.uint8), 1, b"\7"),
        (b"abc", 3, b"abc"),
    ],
)
def test_values_are_packed_for_a_parameter_of_known_size(value: Any, size: int, expected: bytes) -> None:
    assert arguments.pack(value, param(size)) == expected


@pytest.mark.parametrize(
    ("value", "size", "words"),
    [
        (256, 1, "256 does not fit 1 bytes"),
        (-129, 1, "-129 does not fit"),
        (1.5, 1, "floats have 2, 4 or 8"),
        (1e39, 4, r"1e\+39 does not fit a float of 4 bytes"),
        (np.float64(1), 4, "float64 has 8 bytes, the parameter has 4"),
        (np.zeros(3), 8, "in the guest's memory: put it on the device with to_device"),
        (b"ab", 4, "bytes has 2 bytes"),
        ("text", 8, "a str; allowed: device arrays"),
        (None, 8, "a NoneType"),
        (vgc.In(b"12345678"), 8, "In, Out and InOut are for Device.call"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, size: int, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        arguments.pack(value, param(size))


@pytest.mark.parametrize(
    ("value", "size", "kind", "expected"),
    [
        (2, 4, ParamKind.FLOAT, np.float32(2).tobytes()),
        (-3, 8, ParamKind.FLOAT, np.float64(-3).tobytes()),
        (7, 2, ParamKind.FLOAT, np.float16(7).tobytes()),
        (2**100, 4, ParamKind.FLOAT, np.float32(2**100).tobytes()),
        (True, 4, ParamKind.FLOAT, np.float32(1).tobytes()),
        (0.1, 4, ParamKind.FLOAT, np.float32(0.1).tobytes()),
        (np.float16(0.5), 2, ParamKind.FLOAT, np.float16(0.5).tobytes()),
        (np.float64(0.5), 8, ParamKind.FLOAT, np.float64(0.5).tobytes()),
        (-2, 4, ParamKind.INTEGER, np.int32(-2).tobytes()),
        (2**127, 16, ParamKind.INTEGER, bytes(15) + b"\x80"),
        (np.uint64(2), 8, ParamKind.INTEGER, np.uint64(2).tobytes()),
        (np.bool_(True), 1, ParamKind.INTEGER, b"\1"),
        (0x1000, 8, ParamKind.POINTER, np.uint64(0x1000).tobytes()),
        (np.uint64(0x1000), 8, ParamKind.POINTER, np.uint64(0x1000).tobytes()),
        (b"12345678", 8, ParamKind.POINTER, b"12345678"),
        (b"1234", 4, ParamKind.FLOAT, b"1234"),
        (b"123", 3, ParamKind.OTHER, b"123"),
        (np.complex64(1), 8, ParamKind.OTHER, np.complex64(1).tobytes()),
        (np.array((1, 2.0), "i4,f4"), 8, ParamKind.OTHER, np.int32(1).tobytes() + np.float32(2).tobytes()),
    ],
)
def test_values_are_converted_to_the_parameters_kind(value: Any, size: int, kind: ParamKind, expected: bytes) -> None:
    assert arguments.pack(value, param(size, kind)) == expected


@pytest.mark.parametrize(
    ("value", "size", "kind", "words"),
    [
        (2.0, 4, ParamKind.INTEGER, "the float 2.0, but the parameter is an integer of 4 bytes; allowed: int, bool"),
        (np.float32(2), 4, ParamKind.INTEGER, "float32, but the parameter is an integer of 4 bytes; .*numpy.int32"),
        (np.int64(2), 4, ParamKind.INTEGER, "int64 has 8 bytes, the parameter has 4"),
        (2**32, 4, ParamKind.INTEGER, "4294967296 does not fit 4 bytes"),
        (np.int32(2), 4, ParamKind.FLOAT, "int32, but the parameter is a float of 4 bytes; allowed: float, int, numpy"),
        (np.float64(2), 4, ParamKind.FLOAT, "float64 has 8 bytes, the parameter has 4"),
        (np.complex64(2), 8, ParamKind.FLOAT, "complex64, but the parameter is a float of 8 bytes"),
        (2**128, 4, ParamKind.FLOAT, "does not fit a float of 4 bytes"),
        (10**400, 8, ParamKind.FLOAT, "does not fit a float of 8 bytes"),
        (2.0, 8, ParamKind.POINTER, "the float 2.0, but the parameter is a pointer; allowed: device arrays, int"),
        (np.float64(2), 8, ParamKind.POINTER, "float64, but the parameter is a pointer"),
        (np.uint32(2), 8, ParamKind.POINTER, "uint32 has 4 bytes, the parameter has 8"),
        (
            vgc.In(b"12345678"),
            8,
            ParamKind.POINTER,
            "In, Out and InOut are for Device.call: put the array on",
        ),
        (0, 8, ParamKind.OTHER, "the int 0, but the parameter is 8 bytes that are neither a number nor a pointer"),
        (np.zeros(2, np.float32), 8, ParamKind.OTHER, "in the guest's memory"),
        (b"12", 3, ParamKind.OTHER, "bytes has 2 bytes, the parameter has 3"),
        ("text", 8, ParamKind.FLOAT, "a str, but the parameter is a float of 8 bytes"),
        (None, 8, ParamKind.POINTER, "a NoneType, but the parameter is a pointer"),
    ],
)
def test_values_of_another_kind_than_the_parameter_are_refused(
    value: Any, size: int, kind: ParamKind, words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        arguments.pack(value, param(size, kind))


@pytest.mark.parametrize("kind", [ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.OTHER])
def test_device_memory_goes_to_pointers_only(dev: vgc.Device, kind: ParamKind) -> None:
    x = dev.empty(4)
    assert arguments.pack(x, param(8, ParamKind.POINTER)) == arguments.pack(x, param(8))
    with pytest.raises(TypeError, match=r"device memory, but the parameter is .*; allowed: "):
        arguments.pack(x, param(8, kind))


def test_kernel_shows_its_parameters(dev: vgc.Device) -> None:
    assert repr(dev.compile("source").saxpy) == (
        "<kernel saxpy(an integer of 4 bytes, a float of 4 bytes, a pointer, a pointer)>"
    )


def test_wrong_arguments_name_the_kernel_and_the_place(dev: vgc.Device, fake: FakeDevice) -> None:
    program, x = dev.compile("source"), dev.empty(4)
    with pytest.raises(TypeError, match="saxpy takes 4 arguments, not 3"):
        program.saxpy[1, 1](1, 2.0, x)
    with pytest.raises(TypeError, match="argument 1 of saxpy: float64 has 8 bytes, the parameter has 4"):
        program.saxpy[1, 1](1, np.float64(2), x, x)
    with pytest.raises(
        TypeError, match=r"argument 0 of saxpy: the float 1.0, but the parameter is an integer of 4 bytes"
    ):
        program.saxpy[1, 1](1.0, 2.0, x, x)
    with pytest.raises(TypeError, match="argument 0 of saxpy: a buffer, but the parameter is an integer of 4 bytes"):
        dev.call("saxpy", grid=1, block=1, args=[vgc.In(b"1234"), 2.0, x, x])
    x.free()
    with pytest.raises(TypeError, match="argument 2 of saxpy: device memory that was freed"):
        program.saxpy[1, 1](1, 2.0, x, x)
    assert Opcode.LAUNCH not in fake.opcodes()


def test_buffer_for_a_parameter_of_unknown_kind_needs_the_size_of_a_pointer(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.functions = [FakeFunction("f", (8, 4))]
    dev.compile("source")
    dev.call("f", grid=1, block=1, args=[vgc.In(b"12345678"), 1])
    with pytest.raises(TypeError, match="argument 1 of f: a buffer, but the parameter has 4 bytes and is no pointer"):
        dev.call("f", grid=1, block=1, args=[vgc.In(b"12345678"), vgc.In(b"1234")])


def test_int_for_a_float_parameter_arrives_as_a_float(dev: vgc.Device, fake: FakeDevice) -> None:
    x = dev.empty(4)
    dev.compile("source").saxpy[1, 1](1024, 2, x, x)
    launch = next(ask for ask in fake.seen if ask.opcode is Opcode.LAUNCH)
    assert launch.rest[:8] == np.int32(1024).tobytes() + np.float32(2).tobytes()


def test_cooperative_launches_and_calls_say_so(dev: vgc.Device, fake: FakeDevice) -> None:
    x = dev.empty(4)
    kernel = dev.compile("source").saxpy
    stream = dev.stream()
    for cooperative in (False, True):
        kernel.launch(1, 1, 1, 2.0, x, x, cooperative=cooperative)
        kernel.launch_async(1, 1, 1, 2.0, x, x, stream=stream, cooperative=cooperative).wait()
        dev.call("saxpy", grid=1, block=1, args=[1, 2.0, x, x], cooperative=cooperative)
    flags = [ask.body.flags for ask in fake.seen if ask.opcode in (Opcode.LAUNCH, Opcode.CALL) and ask.body is not None]
    assert flags == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("geometry", [1, (1,), (1, 1, 0, None, 5)])
def test_geometry_of_the_wrong_form_is_refused(dev: vgc.Device, geometry: Any) -> None:
    with pytest.raises(TypeError, match="two to four values"):
        dev.compile("source").empty[geometry]


def test_geometry_with_too_many_dimensions_is_refused(dev: vgc.Device) -> None:
    with pytest.raises(TypeError, match="a grid of 4 dimensions"):
        dev.compile("source").empty[(1, 1, 1, 1), 1]()


# ---- arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), 7, (3, 4, 5)])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "complex128"])
def test_arrays_round_trip(dev: vgc.Device, shape: Any, dtype: str) -> None:
    array = np.random.default_rng(1).random(shape).astype(dtype)
    array = np.asarray(array)
    back = dev.to_device(array).get()
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)


def test_arrays_of_another_order_are_put_into_c_order(dev: vgc.Device) -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4).T
    assert np.array_equal(dev.to_device(array).get(), array)


def test_fill_and_zeros_set_every_element(dev: vgc.Device) -> None:
    assert (dev.zeros((5, 7), "int16").get() == 0).all()
    array = dev.empty((5, 7), "int16")
    array.fill(-3)
    assert (array.get() == -3).all()
    with pytest.raises(TypeError, match="cannot fill elements of complex128"):
        dev.empty(3, "complex128").fill(1)


def test_array_of_another_shape_or_type_is_refused(dev: vgc.Device) -> None:
    array = dev.empty((2, 3), "float32")
    with pytest.raises(ValueError, match=r"float64 with shape \(2, 3\); on the device it is float32"):
        array.set(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"shape \(3, 2\)"):
        array.get(np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("shape", [-3, (4, -1), (-1, -1)])
def test_shapes_below_zero_are_refused(dev: vgc.Device, fake: FakeDevice, shape: Any) -> None:
    with pytest.raises(ValueError, match="allowed: extents of 0 and more"):
        dev.empty(shape, "float32")
    assert Opcode.ALLOC not in fake.opcodes()


def test_ranges_outside_of_memory_are_refused(dev: vgc.Device, fake: FakeDevice) -> None:
    memory = dev.alloc(100)
    for offset, size in ((90, 11), (-1, 5), (101, 0)):
        with pytest.raises(ValueError, match="of device memory that has 100"):
            memory.read(size, offset)
    assert Opcode.COPY_OUT not in fake.opcodes()


def test_buffers_that_cannot_be_used_are_explained(dev: vgc.Device) -> None:
    memory = dev.alloc(100)
    with pytest.raises(TypeError, match="not C-contiguous"):
        memory.write(np.zeros((10, 10), np.uint8)[:, ::2])
    with pytest.raises(TypeError, match="read-only"):
        memory.read_into(bytes(100))
    with pytest.raises(TypeError, match="int is no buffer"):
        memory.write(5)


def test_memory_without_references_is_freed(dev: vgc.Device, fake: FakeDevice) -> None:
    memory = dev.alloc(100)
    memory.free()
    memory.free()
    assert fake.opcodes().count(Opcode.FREE) == 1
    with pytest.raises(ValueError, match="was freed"):
        memory.read()
    array = dev.empty(10)
    del array
    assert fake.memory == {}


def test_objects_of_a_closed_device_send_nothing(dev: vgc.Device, fake: FakeDevice) -> None:
    memory, stream, event, program = dev.alloc(8), dev.stream(), dev.event(), dev.compile("source")
    job = memory.fill_bytes(b"x", stream)
    dev.close()
    sent = len(fake.opcodes())
    assert job is not None
    for use in (memory.read, job.wait, event.record, stream.synchronize, lambda: program["empty"]):
        with pytest.raises(ValueError, match="closed"):
            use()
    memory.free()
    stream.close()
    event.close()
    program.unload()
    assert len(fake.opcodes()) == sent


# ---- command -------------------------------------------------------------------------------------


def test_doctor_distinguishes_unloaded_and_missing_modules(tmp_path: Path) -> None:
    drivers, modules = tmp_path / "drivers", tmp_path / "modules"
    drivers.mkdir()
    missing = doctor.kernel_driver(drivers, modules)
    assert not missing.well
    assert "linux-image-" in missing.hint
    module = modules / platform.release() / "kernel" / "uio_pci_generic.ko.xz"
    module.parent.mkdir(parents=True)
    module.touch()
    assert doctor.kernel_driver(drivers, modules).hint == "modprobe uio_pci_generic"
    (drivers / "uio_pci_generic").mkdir()
    assert doctor.kernel_driver(drivers, modules).well


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the path; empty."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("MYNVCC_CLANG", raising=False)
    return folder


def add_program(folder: Path, name: str, script: str = "exit 0") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_doctor_of_another_machine_names_no_compiler_to_install(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    finding = str(doctor.cuda_programs([programs]))
    assert finding == "[ -- ] CUDA programs: none, as their compiler and libraries are for x86_64 alone"


def test_doctor_takes_a_vm_that_compiles_no_cuda_programs_for_well(programs: Path) -> None:
    finding = doctor.cuda_programs([programs])
    assert str(finding).startswith("[ -- ] CUDA programs: no mynvcc")
    assert "make install-guest" in str(finding)


@pytest.mark.parametrize(
    ("clang", "script", "text"),
    [
        ("clang++-17", "echo Debian clang version 17.0.6", "clang++-17 compile them"),
        ("clang++", "echo clang version 14.0.6", "clang++ compile them"),
        ("clang++", "echo clang version 21.1.0", "clang++ is version 21"),
        ("clang++", "exit 1", "clang++ does not run"),
        ("clang++-19", '[ "$1" = --version ] && echo clang version 19', "finds no headers of C++"),
        ("g++", "exit 0", "none is installed"),
    ],
)
def test_doctor_examines_the_clang_that_mynvcc_takes(programs: Path, clang: str, script: str, text: str) -> None:
    add_program(programs, "mynvcc")
    add_program(programs, clang, script)
    finding = doctor.cuda_programs([])
    assert text in finding.text
    assert finding.well == ("compile them" in text)
    assert finding.well or "apt install" in finding.hint


def test_doctor_prefers_the_newest_tested_clang_and_the_one_that_is_named(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mynvcc", "clang++-14", "clang++-19", "clang++", "mine"):
        add_program(programs, name, "echo clang version 19")
    assert "clang++-19 compile" in doctor.cuda_programs([]).text
    monkeypatch.setenv("MYNVCC_CLANG", str(programs / "mine"))
    assert "mine compile" in doctor.cuda_programs([]).text


def test_doctor_finds_a_toolkit_that_is_not_on_the_path(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "cuda" / "bin").mkdir(parents=True)
    add_program(tmp_path / "cuda" / "bin", "mynvcc")
    add_program(programs, "clang++", "echo clang version 19")
    assert doctor.cuda_programs([tmp_path / "cuda"]).hint == f"export PATH=$PATH:{tmp_path}/cuda/bin"


def test_doctor_reports_a_device_that_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_MEMFD", "nonsense")
    findings = doctor.examine(None)
    assert not findings[-1].well
    assert "the device does not work" in str(findings[-1])
    assert "-> first mend the problems above, if any" in str(findings[-1])


def test_grant_by_another_user_than_root_says_who_may(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_group: int, _address: str) -> None:
        raise vgc.VgcError("cannot open the configuration space: Permission denied")

    monkeypatch.setattr(cli, "grant", refuse)
    for user, told in ((0, "vgc: 0000:00:03.0: cannot open the configuration"), (1000, "vgc: only root can give the")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert cli.main(["--device", "0000:00:03.0", "grant", "4242"]) == 1
        assert capsys.readouterr().err.startswith(told)


@pytest.mark.parametrize(
    ("spec", "value"),
    [("int:-5", np.int32(-5)), ("uint:5", np.uint32(5)), ("long:1", np.int64(1)), ("double:0.5", np.float64(0.5))],
)
def test_values_on_the_command_line_have_the_named_type(spec: str, value: Any) -> None:
    parsed = runner.parse(spec).value
    assert parsed == value
    assert parsed.dtype == value.dtype


def test_arrays_on_the_command_line_are_parsed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    assert np.array_equal(runner.parse(f"in:{tmp_path}/a.npy").value, np.arange(3))
    both = runner.parse(f"inout:{tmp_path}/a.npy:{tmp_path}/b.npy")
    assert both.is_output
    assert both.save_to == tmp_path / "b.npy"
    assert runner.parse("out:int16:2x3").value.shape == (2, 3)
    assert runner.parse("rand:uint8:100").value.max() > 50


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.ptx", "", "ptx"),
        ("a.fatbin", "", "fatbin"),
        ("a.txt", "// made by hand\n/* for\n*/\n.version 8.0\n", "ptx"),
        ("a.PTX", ".version 8.0\n", "ptx"),
        ("a.cu", "// .version 8.0\n__global__ void k() {}\n", "cuda"),
    ],
)
def test_kind_of_a_program(tmp_path: Path, name: str, content: str, kind: str) -> None:
    (tmp_path / name).write_text(content)
    assert runner.kind_of(tmp_path / name) == kind


@pytest.mark.parametrize("spec", ["", "int", "int:", "int:x", "out:float32", "float32:1", "in:a:b", "rand:nothing:3"])
def test_malformed_arguments_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=f"--arg {spec}: .*vgc run --help"):
        runner.parse(spec)


def test_steps_show_their_share() -> None:
    steps = Steps([("one", "here", 0.003), ("another", "", 0.001)])
    assert str(steps).splitlines()[1:] == [
        "one        3.000 ms  75.0%  here",
        "another    1.000 ms  25.0%",
        "total      4.000 ms",
    ]
