"""PTX, cubins and fat binaries become the cubin for the VM's architecture; errors give the reason."""

from __future__ import annotations

import functools
import random
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cuda_compile_rig import CompileError, compile_image, log_of, needs_nvcc, needs_nvrtc, toolkit
from vhost_backend.engines.containers import errors as compiler_errors
from vhost_backend.engines.containers import lz4, zstd
from vhost_backend.engines.containers.fatbin import entries
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.compiler import fatbin

pytestmark = [needs_nvrtc, needs_nvcc]

SOURCE = """
    __device__ int counter;
    extern "C" __global__ void scale(float *x, float a) { x[threadIdx.x] *= a; }
    extern "C" __global__ void many(float *x, int n) {
        for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) x[i] += x[k] * x[i + k] + sinf(x[i]) * counter;
    }
"""
CODE = "arch=compute_{0},code=sm_{0}"
PTX = "arch=compute_{0},code=compute_{0}"


@functools.cache
def nvcc(*options: str) -> bytes:
    """Compiles SOURCE with nvcc."""
    kit = toolkit()
    assert kit is not None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.cu").write_text(SOURCE)
        subprocess.run([str(kit.nvcc), *options, "a.cu", "-o", "made"], cwd=folder, check=True, timeout=HANGS_AFTER_S)
        return (Path(folder) / "made").read_bytes()


def fat(*parts: str, mode: str = "default") -> bytes:
    """Makes a fatbin from ``-gencode`` values."""
    return nvcc("-fatbin", f"--compress-mode={mode}", *(word for part in parts for word in ("-gencode", part)))


def image(container: bytes, kind: str = "FATBIN", arch: str = "sm_90") -> cubin.Cubin:
    """Converts a container; returns the cubin as the engine reads it."""
    return cubin.parse(compile_image(container, kind=kind, arch=arch)[0])


def names(found: cubin.Cubin) -> Sequence[str]:
    return sorted(kernel.name for kernel in found.kernels)


# ---- PTX -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_ptx_becomes_a_cubin(arch: str) -> None:
    found = image(nvcc("-ptx", "-arch=compute_80"), "PTX", arch)
    assert (found.capability, names(found)) == (int(arch[3:]), ["many", "scale"])


def test_ptx_for_one_architecture_is_taken_there_only() -> None:
    assert image(nvcc("-ptx", "-arch=compute_90a"), "PTX").capability == 90
    assert "SM version" in log_of(nvcc("-ptx", "-arch=compute_100a"), kind="PTX")


def test_malformed_ptx_is_refused() -> None:
    assert "source.ptx, line 1; fatal" in log_of("hello", kind="PTX")


def test_ptx_reads_no_file_of_the_host() -> None:
    text = nvcc("-ptx", "-arch=compute_80").replace(b".address_size 64", b'.address_size 64\n.include "/etc/passwd"')
    assert "Parsing error near '.include'" in log_of(text, kind="PTX")


def test_options_reach_ptxas() -> None:
    ptx = nvcc("-ptx", "-arch=compute_80")
    options = ["--maxrregcount=24", "-lineinfo", "-Xptxas=-v", "-DIGNORED", "-std=c++20"]
    assert "Used 24 registers" in compile_image(ptx, options, kind="PTX")[1]
    assert "option '-o' is not allowed" in log_of(ptx, "-o", "/tmp/x", kind="PTX")


@pytest.mark.parametrize("option", ["--fmad=false", "--ptxas-options=-fmad=false"])
def test_rounding_of_ptx_is_as_the_options_say(option: str) -> None:
    """A product and a sum, which are fused unless an option forbids it."""
    body = ".reg .b64 %p; .reg .f32 %f<4>; ld.param.u64 %p, [x]; ld.global.f32 %f0, [%p]; ld.global.f32 %f1, [%p+4];"
    body += " mul.f32 %f2, %f0, %f1; add.f32 %f3, %f2, %f1; st.global.f32 [%p], %f3; ret;"
    ptx = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry mix(.param .u64 x) {{ {body} }}\n"
    assert compile_image(ptx, [option], kind="PTX")[0] != compile_image(ptx, kind="PTX")[0]


# ---- cubins --------------------------------------------------------------------------------------------------------


def test_cubin_passes_through() -> None:
    made = nvcc("-cubin", "-arch=sm_86")
    assert compile_image(made, kind="CUBIN", arch="sm_86")[0] == made
    assert compile_image(made, kind="CUBIN", arch="sm_89")[0] == made


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_cubin_for_another_device_is_refused(arch: str) -> None:
    with pytest.raises(CompileError, match=f"the cubin is made for sm_86, and this device is {arch}"):
        compile_image(nvcc("-cubin", "-arch=sm_86"), kind="CUBIN", arch=arch)


def test_unlinked_cubin_is_refused() -> None:
    assert "the cubin is not linked" in log_of(nvcc("-cubin", "-arch=sm_90", "-rdc=true"), kind="CUBIN")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"x" * 100, Path("/bin/true").read_bytes()])
def test_malformed_cubin_is_refused(content: bytes) -> None:
    assert "cubin" in log_of(content, kind="CUBIN")


def test_cubin_of_cuda_12() -> None:
    header = bytearray(nvcc("-cubin", "-arch=sm_90")[:64])
    header[7:9] = 0x33, 7
    struct.pack_into("<I", header, 48, 0x005A055A)
    assert compile_image(bytes(header), kind="CUBIN")[0] == bytes(header)
    assert "made for sm_90" in log_of_arch(bytes(header), "sm_80")


def log_of_arch(content: bytes, arch: str) -> str:
    with pytest.raises(CompileError) as caught:
        compile_image(content, kind="CUBIN", arch=arch)
    return str(caught.value)


# ---- fat binaries --------------------------------------------------------------------------------------------------

THREE = (CODE.format(80), CODE.format(90), PTX.format(90))


@pytest.mark.parametrize("mode", ["none", "speed", "size", "balance"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_100"])
def test_best_entry_of_a_fatbin_is_taken(arch: str, mode: str) -> None:
    found = image(fat(*THREE, mode=mode), arch=arch)
    assert names(found) == ["many", "scale"]
    assert found.capability == (80 if arch == "sm_86" else int(arch[3:]))


def test_nvcc_compresses_as_these_tests_assume() -> None:
    flags = {mode: {e.flags & 0xA000 for e in entries(fat(*THREE, mode=mode))} for mode in ("speed", "size")}
    assert 0x2000 in flags["speed"]
    assert 0x8000 in flags["size"]


def test_machine_code_is_preferred_to_ptx() -> None:
    container = fat(PTX.format(80), CODE.format(80))
    assert fatbin.choose(entries(container), "sm_86").kind == 2
    assert image(container, arch="sm_86").capability == 80


def test_newest_ptx_is_taken() -> None:
    container = fat(PTX.format(75), PTX.format(80), PTX.format(100))
    assert fatbin.choose(entries(container), "sm_90").arch == 80
    assert image(container).capability == 90


def test_entries_for_an_architecture_or_a_family_are_matched() -> None:
    container = fat(CODE.format("90a"), CODE.format("100f"), CODE.format("120a"), PTX.format("120a"))
    found = entries(container)
    assert fatbin.choose(found, "sm_90").arch == 90
    assert fatbin.choose(found, "sm_103").arch == 100
    assert image(container, arch="sm_120").capability == 120
    with pytest.raises(compiler_errors.CompileError, match="nothing for sm_121"):
        fatbin.choose(found, "sm_121")


def test_fatbin_without_a_matching_entry_is_refused() -> None:
    log = log_of(fat(CODE.format(80), PTX.format(100)), kind="FATBIN")
    assert "the fatbin has nothing for sm_90; it holds a cubin for sm_80, PTX for sm_100" in log.replace(
        "PTX for sm_100, a cubin for sm_80", "a cubin for sm_80, PTX for sm_100"
    )


@pytest.mark.parametrize("content", [b"", b"x" * 15, b"x" * 100, struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 60)])
def test_malformed_fatbin_is_refused(content: bytes) -> None:
    assert "vgc-cudacc: error: the " in log_of(content, kind="FATBIN")


@pytest.mark.parametrize("mode", ["none", "speed", "size"])
def test_damaged_fatbins_are_refused(mode: str) -> None:
    """Reading ends with the compiler's error or with bytes, never with a different exception."""
    container = fat(*THREE, mode=mode)
    rng = random.Random(mode)
    refused = 0
    for _ in range(400):
        damaged = bytearray(container[: rng.randrange(len(container))] if rng.random() < 0.3 else container)
        for _ in range(rng.randrange(1, 6)):
            at = rng.choice([rng.randrange(200), rng.randrange(len(container))])
            if at < len(damaged):
                damaged[at] = rng.choice([0, 1, 0x7F, 0xFF, rng.randrange(256)])
        try:
            fatbin.take(bytes(damaged), "sm_90")
        except compiler_errors.CompileError:
            refused += 1
    assert refused > 100


def test_entry_that_expands_beyond_the_limit_is_refused() -> None:
    container = bytearray(fat(PTX.format(80), mode="size"))
    struct.pack_into("<Q", container, 16 + 56, 1 << 40)
    assert "the fatbin holds 1099511627776 bytes in an entry; allowed: 268435456" in log_of(
        bytes(container), kind="FATBIN"
    )


# ---- LZ4 and zstd --------------------------------------------------------------------------------------------------


def lz4_block(literals: bytes, distance: int, match: int, rest: bytes) -> bytes:
    """A block of one literal run, one match and a last literal run, all shorter than 15."""
    return (
        bytes([len(literals) << 4 | match - 4])
        + literals
        + struct.pack("<H", distance)
        + bytes([len(rest) << 4])
        + rest
    )


def test_lz4_match_is_expanded() -> None:
    assert lz4.decompress(lz4_block(b"abcd", 4, 8, b"!"), 13) == b"abcdabcdabcd!"


def test_lz4_match_that_overlaps_itself_is_expanded() -> None:
    assert lz4.decompress(lz4_block(b"ab", 1, 7, b""), 9) == b"abbbbbbbb"


def test_lz4_long_runs_are_expanded() -> None:
    literals = bytes(range(256)) * 2
    block = b"\xff\xff" + bytes([len(literals) - 15 - 255]) + literals + struct.pack("<H", 256) + b"\xff\x10" + b"\x10!"
    assert lz4.decompress(block, 512 + 19 + 255 + 16 + 1) == literals + (literals[-256:] * 2)[: 19 + 255 + 16] + b"!"


@pytest.mark.parametrize(
    ("block", "size", "reason"),
    [
        (lz4_block(b"abcd", 5, 8, b""), 12, "before its beginning"),
        (lz4_block(b"abcd", 0, 8, b""), 12, "before its beginning"),
        (lz4_block(b"abcd", 4, 8, b""), 11, "expands to more than the entry's 11 bytes"),
        (lz4_block(b"abcd", 4, 8, b"!"), 14, "does not expand to the entry"),
        (b"\x40abcd\x04", 12, "ends in the middle"),
        (b"\xf0\xff\xff", 12, "ends in the middle"),
        (b"", 1, "does not expand to the entry"),
    ],
)
def test_damaged_lz4_is_refused(block: bytes, size: int, reason: str) -> None:
    with pytest.raises(compiler_errors.CompileError, match=reason):
        lz4.decompress(block, size)


@pytest.mark.parametrize(("frame", "size"), [(b"", 1), (b"nonsense", 8), (bytes.fromhex("28b52ffd0000010000"), 5)])
def test_damaged_zstd_is_refused(frame: bytes, size: int) -> None:
    with pytest.raises(compiler_errors.CompileError, match="the fatbin is damaged: its zstd data"):
        zstd.decompress(frame, size)


def test_zstd_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstd, "_LIBRARY", "libnowhere.so.1")
    with pytest.raises(
        compiler_errors.CompileError, match=r"no libnowhere\.so\.1 \(Debian: libzstd1\); nvcc --compress"
    ):
        zstd.decompress(b"", 1)
