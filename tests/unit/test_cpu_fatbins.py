"""Fatbins and host objects of nvcc on the software GPU: which PTX is chosen, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.units import Unit, pack
from tests.limits import HANGS_AFTER_S
from tests.unit.cpu_rig import CompileError, Rig, compile_bytes, rig
from tests.unit.cuda_compile_rig import needs_nvcc
from tests.unit.ptx_compilers import nvcc
from vhost_backend.compiler.run import CompileLimits, run_compile
from vhost_backend.engines.containers import elf, fatbin
from vhost_backend.engines.containers.errors import CompileError as CompileProblem
from vhost_backend.engines.containers.units import Unit as Packed
from vhost_backend.engines.containers.units import packed, split
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.engines.cpu.unpacker import modules
from vhost_backend.sandbox import build

pytestmark = needs_nvcc

WHOLE = """
#ifdef __CUDA_ARCH__
enum { MADE_FOR = __CUDA_ARCH__ };
#else
enum { MADE_FOR = 0 };
#endif
extern "C" __global__ void f(int *out) { out[threadIdx.x] = MADE_FOR; }
"""
PARTS = (
    """
    extern __device__ int value;
    __device__ int twice(int);
    extern "C" __global__ void f(int *out) { out[threadIdx.x] = twice(value); }
    """,
    "__device__ int value = 21; __device__ int twice(int x) { return 2 * x; }",
)
PTX = "-gencode=arch=compute_{0},code=compute_{0}"
CUBIN = "-gencode=arch=compute_{0},code=sm_{0}"


@functools.cache
def made(sources: tuple[str, ...], *options: str) -> bytes:
    """Output of nvcc for sources: ``0.cu``, ``1.cu`` and so on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, source in enumerate(sources):
            (folder / f"{number}.cu").write_text(source)
        nvcc(folder, *options, "-o", "made", *(f"{number}.cu" for number in range(len(sources))))
        return (folder / "made").read_bytes()


def fat(*parts: str, mode: str = "default") -> bytes:
    return made((WHOLE,), "-fatbin", f"--compress-mode={mode}", *parts)


def load(gpu: Rig, program: bytes, kind: str = "FATBIN") -> list[int]:
    """Values that kernel `f` leaves."""
    gpu.load_image(compile_bytes(kind, program)[0])
    out = gpu.array(2, np.int32)
    gpu.launch("f", 1, 2, out)
    return [int(value) for value in out]


def result(program: bytes, kind: str = "FATBIN") -> list[int]:
    with rig(pes=1) as gpu:
        return load(gpu, program, kind)


def log_of(program: bytes, kind: str = "FATBIN") -> str:
    with pytest.raises(CompileError) as caught:
        compile_bytes(kind, program)
    return str(caught.value)


@pytest.mark.parametrize("mode", ["none", "speed", "size", "balance", "default"])
def test_ptx_is_found_however_it_is_compressed(mode: str) -> None:
    assert result(fat("-arch=compute_80", mode=mode)) == [800, 800]


def test_lz4_and_zstd_are_both_there() -> None:
    flags = {
        mode: fatbin.entries(fat("-arch=compute_80", mode=mode))[0].flags & 0xA000 for mode in ("none", "speed", "size")
    }
    assert flags["none"] == 0
    assert len(set(flags.values())) == 3


@pytest.mark.parametrize(
    ("parts", "chosen"),
    [
        ((PTX.format(75), PTX.format(80), PTX.format(90)), 800),
        ((PTX.format(80), PTX.format(75)), 800),
        ((PTX.format(75), CUBIN.format(80), PTX.format(86)), 750),
        ((CUBIN.format(80), PTX.format(75), PTX.format("90a"), PTX.format("100f")), 750),
        (("-arch=sm_80",), 800),
    ],
)
def test_the_newest_ptx_that_runs_is_chosen(parts: tuple[str, ...], chosen: int) -> None:
    assert result(fat(*parts)) == [chosen] * 2


def test_what_is_there_is_listed_if_nothing_runs() -> None:
    log = log_of(fat(CUBIN.format(80), PTX.format(90), PTX.format("90a"), PTX.format("100f")))
    assert "has no PTX for the software GPU, which has compute capability 8.0" in log
    for words in ("a cubin for sm_80", "PTX for sm_90,", "PTX for sm_90a", "PTX for sm_100f", "code=compute_80 adds"):
        assert words in log


def test_errors_in_the_ptx_have_their_lines() -> None:
    container = fat("-arch=compute_80", mode="none")
    assert "module.ptx:" in log_of(container.replace(b"st.global", b"st.glopal"))


def test_modules_of_one_fatbin_are_linked() -> None:
    """Such as fatbinary makes of several PTX files of one architecture."""
    head = fat("-arch=compute_80")[:16]
    entries = b"".join(made((part,), "-fatbin", "-rdc=true", "-arch=compute_80")[16:] for part in PARTS)
    assert result(head[:8] + len(entries).to_bytes(8, "little") + entries) == [42, 42]


def test_fatbins_in_a_row_are_linked() -> None:
    first, second = (made((part,), "-fatbin", "-rdc=true", "-arch=sm_80") for part in PARTS)
    assert result(first + bytes(24) + second) == [42, 42]


def test_units_may_be_fatbins_host_objects_ptx_and_sources() -> None:
    relocatable = made(PARTS[1:], "-fatbin", "-rdc=true", "-arch=sm_80")
    forms = {
        "b.fatbin": relocatable,
        "b.o": made(PARTS[1:], "-dc", "-arch=sm_80"),
        "b.ptx": made(PARTS[1:], "-ptx", "-rdc=true", "-arch=sm_80"),
        "b.cu": PARTS[1].encode(),
    }
    kernels = made(PARTS[:1], "-fatbin", "-rdc=true", "-arch=sm_80")
    for name, content in forms.items():
        program = packed([Packed("a.fatbin", [], kernels), Packed(name, [], content)])
        assert result(program, "CUDA_UNITS") == [42, 42], name
    assert "'value', which unit 'a.fatbin' uses, is defined in no unit" in log_of(
        packed([Packed("a.fatbin", [], kernels), Packed("c.cu", [], b"")]), "CUDA_UNITS"
    )


def test_host_objects_are_taken_apart() -> None:
    assert result(made((WHOLE,), "-c", "-arch=sm_80")) == [800, 800]
    assert "variable 'value' is not defined in this module" in log_of(made(PARTS[:1], "-dc", "-arch=sm_80"))


def test_program_that_nvcc_has_linked_is_linked_anew() -> None:
    """It has the modules, and a cubin that nvcc has made of them."""
    program = made((*PARTS, "int main() {}"), "-rdc=true", "-arch=sm_80")
    assert result(program) == [42, 42]


def test_host_object_without_fatbin_is_refused() -> None:
    assert "the host object has no fatbin" in log_of(made(("int x;",), "-c", "-x=c++"))


def test_units_with_a_fatbin_that_does_not_run_are_named() -> None:
    program = packed([Packed("a.cu", [], b""), Packed("b.fatbin", [], fat(CUBIN.format(80)))])
    assert "unit 'b.fatbin': the fatbin has no PTX" in log_of(program, "CUDA_UNITS")


def test_units_are_packed_as_guests_do() -> None:
    given = [Unit("a.cu", "text", ("-DX=1", "-w")), Unit("b.ptx", "")]
    assert packed(split(pack(given))) == pack(given)


@pytest.mark.parametrize("program", [b"", b"x", b"\x7fELF\x02\x01" + bytes(20), b"\x50\xed\x55\xba" + bytes(12)])
def test_what_is_no_fatbin_is_refused(program: bytes) -> None:
    assert "vgc-cpucc: error: the " in log_of(program)


def test_damaged_containers_are_survived() -> None:
    chance = random.Random(5)
    programs = [fat("-arch=sm_80", mode=mode) for mode in ("none", "speed", "size")]
    programs.append(made(PARTS[:1], "-dc", "-arch=sm_80"))
    for _ in range(2000):
        damaged = bytearray(chance.choice(programs))
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(min(len(damaged), chance.choice((100, 1 << 20))))] = chance.randrange(256)
        with contextlib.suppress(CompileProblem):  # nothing else is raised
            assert modules.modules_of(bytes(damaged))


@pytest.mark.parametrize("mode", ["speed", "size"])
def test_fatbins_are_taken_apart_in_the_sandbox(mode: str) -> None:
    build.main()
    limits = CompileLimits(wall_seconds=HANGS_AFTER_S, cpu_seconds=HANGS_AFTER_S)
    program = fat("-arch=sm_80", mode=mode)
    job = CpuEngine.compile_job("FATBIN", program, (), {})
    outcome = asyncio.run(run_compile(job, program, limits, "strict"))
    assert outcome.ok, outcome.log
    assert outcome.image_fd is not None
    os.close(outcome.image_fd)
    outcome = asyncio.run(run_compile(job, program[:100], limits, "strict"))
    assert not outcome.ok
    assert "the fatbin is damaged" in outcome.log


def test_all_modules_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    program = fat("-arch=compute_80", mode="none")
    (text,) = modules.modules_of(program)
    monkeypatch.setattr(fatbin, "MAX_BYTES", 2 * len(text))
    assert modules.modules_of(program * 2) == [text] * 2
    with pytest.raises(CompileProblem, match=rf"hold more than {2 * len(text)} bytes of PTX for one program"):
        modules.modules_of(program * 3)


def test_many_sections_that_claim_the_whole_file_take_no_memory() -> None:
    """60,000 copies of 10 MiB would take minutes."""
    sections, names = 60_000, 1
    header = elf.HEADER.pack(elf.MAGIC + bytes(10), 1, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, sections, names)
    whole = struct.pack("<IIQQQQIIQQ", 5, 1, 0, 0, 0, 1 << 40, 0, 0, 0, 0)
    with pytest.raises(CompileProblem, match="the host object has no fatbin"):
        modules.modules_of(header + whole * sections + b"A" * (10 << 20))


def test_only_programs_with_containers_are_taken_apart() -> None:
    def command(kind: str, program: bytes) -> str:
        return str(CpuEngine.compile_job(kind, program, (), {}).argv[0])

    plain = pack([Unit("a.cu", "")])
    assert command("PTX", b"").endswith("vgc-cpucc")
    assert command("CUDA_UNITS", plain).endswith("vgc-cpucc")
    assert not command("CUDA_UNITS", plain + b"\x50\xed\x55\xba").endswith("vgc-cpucc")
    assert not command("FATBIN", b"").endswith("vgc-cpucc")
