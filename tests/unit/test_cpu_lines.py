"""Lines of the source in images of the CPU engine: what -lineinfo adds, what faults say, what broken tables do."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.units import Unit
from tests.unit.cpu_rig import LaunchError, compile_image, link_image, rig

FEATURES = Path(__file__).with_name("cpu_features.cu").read_text()

TRAPS = """
__device__ void stop(int n) {
    if (n == 3)
        __trap(); // here
}
extern "C" __global__ void barriers(float *a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < n; i++)
        a[threadIdx.x] += sqrtf(s[i]);
    stop(n);
}
"""


def section(image: bytes, wanted: str) -> tuple[int, int] | None:
    """Place and size of a section in an ELF file of 64 bits."""
    at, count, texts = struct.unpack_from("<Q12xHH", image, 40)[0], *struct.unpack_from("<HH", image, 60)
    headers = [struct.unpack_from("<IIQQQQ", image, at + 64 * index) for index in range(count)]
    for name, _, _, _, offset, size in headers:
        start = headers[texts][4] + name
        if image[start : image.index(b"\0", start)] == wanted.encode():
            return offset, size
    return None


def trap(image: bytes) -> str:
    with rig() as gpu:
        gpu.load_image(image)
        with pytest.raises(LaunchError) as error:
            gpu.launch("barriers", 1, 64, gpu.array(64, np.float32, 1), np.int32(3))
        return str(error.value)


def test_images_have_lines_if_asked_for() -> None:
    plain, lines = compile_image(TRAPS)[0], compile_image(TRAPS, ("-lineinfo",))[0]
    assert section(plain, ".debug_line") is None
    assert section(lines, ".debug_line") is not None
    assert trap(plain).startswith("__trap() in kernel 'barriers'")


TWINS = """

extern "C" __global__ void steps(int n) {
    __shared__ int s[32];
    s[threadIdx.x] = 0;
    __syncthreads();
    { s[threadIdx.x] += 1; __syncthreads(); if (s[threadIdx.x] == n) __trap(); }
    { s[threadIdx.x] += 1; __syncthreads(); if (s[threadIdx.x] == n) __trap(); }
    { s[threadIdx.x] += 1; __syncthreads(); if (s[threadIdx.x] == n) __trap(); }
}
"""


@pytest.mark.parametrize("n", [1, 2, 3])
def test_equal_code_of_several_lines_keeps_each_line(n: int) -> None:
    with rig() as gpu:
        gpu.load_image(compile_image(TWINS, ("-lineinfo",))[0])
        with pytest.raises(LaunchError, match=rf"at source\.cu:{6 + n}\b"):
            gpu.launch("steps", 1, 32, np.int32(n))


@pytest.mark.parametrize("option", ["-lineinfo", "--profile"])
def test_lines_of_units_have_the_units_names(option: str) -> None:
    kernel = 'extern __device__ void stop(int); extern "C" __global__ void f() { stop(1); }'
    units = [
        Unit("a.cu", kernel, (option,)),
        Unit("b.cu", "\n__device__ void stop(int n) { if (n) __trap(); }", (option,)),
    ]
    with rig() as gpu:
        gpu.load_image(link_image(*units)[0])
        with pytest.raises(LaunchError, match=r"at b\.cu:2"):
            gpu.launch("f", 1, 1)


@pytest.mark.parametrize("option", ["-lineinfo", "--generate-line-info", "-G", "--profile"])
def test_traps_name_their_line(option: str) -> None:
    where = TRAPS[: TRAPS.index("// here")].count("\n") + 1
    assert trap(compile_image(TRAPS, (option,))[0]).startswith(f"__trap() at source.cu:{where} in kernel 'barriers'")


@pytest.mark.parametrize("options", [(), ("--memcheck", "--racecheck"), ("--lockstep",)])
def test_lines_survive_regions_and_checks(options: tuple[str, ...]) -> None:
    image, log = compile_image(FEATURES, ("-lineinfo", *options))
    assert log == compile_image(FEATURES, options)[1]
    assert section(image, ".debug_line") is not None


def test_code_is_the_same_with_lines() -> None:
    def text(image: bytes) -> bytes:
        found = section(image, ".text")
        assert found is not None
        return image[found[0] : found[0] + found[1]]

    with_lines, without = (text(compile_image(TRAPS, options)[0]) for options in (("-lineinfo",), ()))
    assert len(with_lines) == len(without)


def test_images_name_no_path_of_the_host() -> None:
    source = "#include <cmath>\n#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n" + FEATURES
    image = compile_image(source, ("-lineinfo",))[0]
    for word in (b"/usr", b"/tmp", b"/home", b"include/", str(Path(__file__).parents[2]).encode()):
        assert word not in image


@pytest.mark.parametrize(
    ("marker", "shown"),
    [
        ('#line 40 "kernel.cu"', r"kernel\.cu:40"),
        ('#line 40 "../../etc/\\033[31mred\\nnext.cu"', r"\?\[31mred\?next\.cu:40"),
        (f'#line 7 "{"x" * (1 << 20)}.cu"', r"x{20,160}\.cu:7"),
        ('#line 2147483647 "late.cu"', r"late\.cu:2147483647"),
        ('# 12 "/usr/include/stdio.h" 3', r"stdio\.h:\d+"),
    ],
)
def test_markers_of_lines_are_shown_and_do_no_harm(marker: str, shown: str) -> None:
    source = TRAPS.replace("        __trap(); // here", f"{marker}\n        __trap();")
    text = trap(compile_image(source, ("-lineinfo",))[0])
    assert text.isprintable()
    assert re.match(rf"__trap\(\) at {shown} in kernel 'barriers'", text), text


def test_broken_tables_do_no_harm() -> None:
    image = compile_image(TRAPS, ("-lineinfo",))[0]
    found = section(image, ".debug_line")
    assert found is not None
    offset, size = found
    chance = random.Random(1)
    for attempt in range(150):
        broken = bytearray(image)
        for _ in range(1 + attempt % 20):
            broken[offset + chance.randrange(min(size, 40) if attempt % 3 == 0 else size)] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        text = trap(bytes(broken))
        assert re.match(r"__trap\(\)( at [ -~]+:\d+)? in kernel 'barriers'", text), text


@pytest.mark.parametrize("cut", ["sections", "offset", "names"])
def test_sections_outside_of_the_image_are_no_lines(cut: str) -> None:
    image = bytearray(compile_image(TRAPS, ("-lineinfo",))[0])
    where, value = {"sections": (60, b"\xff\xff"), "offset": (40, b"\xf8\xff\xff\xff"), "names": (62, b"\xff\xff")}[cut]
    image[where : where + len(value)] = value
    assert trap(bytes(image)).startswith("__trap() in kernel 'barriers'")
