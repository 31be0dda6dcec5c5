"""Programs that a guest's user runs: the examples and the `vgc` command, on the real daemon and the CPU engine."""

from __future__ import annotations

import codecs
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.fakes.guest import REPOSITORY
from tests.protocol.guest_host import GuestHost, guest_host

EXAMPLES = REPOSITORY / "examples"
LIBVGC = REPOSITORY / "guest_driver" / "libvgc"
SAXPY = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""

ADD_PTX = """.version 7.8
.target sm_80
.address_size 64
.visible .entry add(.param .u64 .ptr .global x, .param .u32 n) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<5>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mad.wide.u32 %rd2, %r2, 4, %rd1;
  ld.global.u32 %r3, [%rd2];
  add.u32 %r4, %r3, %r1;
  st.global.u32 [%rd2], %r4;
  ret;
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def vgc(host: GuestHost, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return host.python("-m", "guest_driver", *arguments)


def test_photograph_is_filtered_as_numpy_would(host: GuestHost, tmp_path: Path) -> None:
    across, down = np.meshgrid(np.linspace(0, 12, 97), np.linspace(0, 9, 61))
    waves = [128 + 100 * np.sin(across * factor) * np.cos(down) for factor in (1, 2, 3)]
    picture = tmp_path / "waves.png"
    Image.fromarray(np.stack(waves, axis=-1).astype(np.uint8)).save(picture)
    done = host.python(EXAMPLES / "photo.py", picture, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == [
        "waves-blur",
        "waves-equalised",
        "waves-original",
        "waves-sobel",
    ]
    for step in ("compile", "copy in", "launch sobel", "copy out", "total"):
        assert step in done.stdout


def test_picture_of_one_colour_is_filtered(host: GuestHost, tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", np.full((40, 50, 3), 77, np.uint8))
    done = host.python(EXAMPLES / "photo.py", tmp_path / "plain.npy", "--output", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_matrices_are_multiplied(host: GuestHost) -> None:
    done = host.python(EXAMPLES / "matmul.py", "--size", "100")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right" in done.stdout


def test_picture_is_rotated_by_a_texture(host: GuestHost) -> None:
    done = host.python(EXAMPLES / "rotate.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right" in done.stdout


@pytest.mark.parametrize("library", ["libvgc.a", "libvgc.so"])
def test_c_program_links_the_driver(host: GuestHost, tmp_path: Path, library: str) -> None:
    program, built = tmp_path / "saxpy", LIBVGC / "build" / library
    flags = f"-std=c11 -Wall -Wextra -Werror -pedantic -I{LIBVGC} -Wl,-rpath,{built.parent}".split()
    if sanitizers := os.environ.get("VGC_SANITIZE"):  # the compiler with which the library was built
        flags.append(f"-fsanitize={sanitizers}")
    subprocess.run(["cc", *flags, str(EXAMPLES / "saxpy.c"), str(built), "-pthread", "-o", str(program)], check=True)
    done = host.run(program)
    assert (done.returncode, done.stdout) == (0, "saxpy of 1048576 elements: right\n"), done.stderr


def test_programs_of_the_readme_run(host: GuestHost) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert programs
    for program in programs:
        done = host.python("-c", program)
        assert done.returncode == 0, done.stderr
        assert "[1.000e+00 3.000e+00 5.000e+00 ... 2.043e+03 2.045e+03 2.047e+03]" in done.stdout


# ---- vgc -----------------------------------------------------------------------------------------


def test_info_names_engine_and_share(host: GuestHost) -> None:
    done = vgc(host, "info")
    assert done.returncode == 0, done.stderr
    assert "(cpu), ready, generation 1" in done.stdout
    assert "2 processing elements, 64 MiB of device memory" in done.stdout


def test_doctor_finds_no_fault_with_a_working_device(host: GuestHost) -> None:
    done = vgc(host, "doctor")
    assert done.returncode == 0, done.stdout
    assert "answers in" in done.stdout
    assert "[ !! ]" not in done.stdout


def test_run_executes_one_kernel(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "saxpy.cu").write_text(SAXPY)
    np.save(tmp_path / "x.npy", np.arange(1000, dtype=np.float32))
    arguments = ["int:1000", "float:2.0", f"in:{tmp_path}/x.npy", f"out:float32:10x100:{tmp_path}/y.npy"]
    done = vgc(
        host,
        *("run", tmp_path / "saxpy.cu", "--kernel", "saxpy", "--grid", "4", "--block", "256"),
        *(word for argument in arguments for word in ("--arg", argument)),
    )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy").ravel(), 2 * np.arange(1000))
    assert "copy out" in done.stdout


GRID = """
#include <cooperative_groups.h>
extern "C" __global__ void rotate(int *cells) {
    int cell = cells[(blockIdx.x + 1) % gridDim.x];
    cooperative_groups::this_grid().sync();
    cells[blockIdx.x] = cell;
}
extern "C" __global__ void large(int *cells) {
    __shared__ int kept[10000];
    kept[0] = cells[blockIdx.x];
    cooperative_groups::this_grid().sync();
    cells[blockIdx.x] = kept[0];
}
"""


def test_run_of_a_kernel_that_waits_for_its_grid(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "grid.cu").write_text(GRID)
    np.save(tmp_path / "cells.npy", np.arange(5000, dtype=np.int32))
    argument = ("--arg", f"inout:{tmp_path}/cells.npy:{tmp_path}/out.npy")
    done = vgc(host, "run", tmp_path / "grid.cu", "--kernel", "rotate", "--grid", "5000", "--cooperative", *argument)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "out.npy"), np.roll(np.arange(5000), -1))
    done = vgc(host, "run", tmp_path / "grid.cu", "--kernel", "large", "--grid", "5000", "--cooperative", *argument)
    assert done.returncode != 0
    assert "bytes while it runs" in done.stderr


def test_run_shows_what_the_kernel_prints(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "hello.cu").write_text('__global__ void hello() { printf("hello from %d\\n", threadIdx.x); }')
    done = vgc(host, "run", tmp_path / "hello.cu", "--kernel", "hello", "--block", "2")
    assert done.returncode == 0, done.stderr
    assert {"hello from 0", "hello from 1"} <= set(done.stdout.splitlines())


def test_run_of_a_ptx_module(host: GuestHost, tmp_path: Path) -> None:
    """The software GPU takes PTX from every VM."""
    (tmp_path / "add.ptx").write_text(ADD_PTX)
    np.save(tmp_path / "x.npy", np.arange(100, dtype=np.uint32))
    array = f"inout:{tmp_path}/x.npy:{tmp_path}/y.npy"
    words = ("--kernel", "add", "--block", "100", "--arg", array, "--arg", "uint:5")
    done = vgc(host, "run", tmp_path / "add.ptx", *words)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.arange(5, 105))
    (tmp_path / "add.ptx").write_text(ADD_PTX.replace("add.u32", "append.u32"))
    done = vgc(host, "run", tmp_path / "add.ptx", *words)
    assert done.returncode != 0
    assert f"{tmp_path}/add.ptx:10:3: PTX instruction 'append.u32' is not known" in done.stderr


def test_run_of_ptx_with_a_mark_of_utf_8(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "add.txt").write_bytes(codecs.BOM_UTF8 + ADD_PTX.encode())
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.uint32))
    words = ("--kernel", "add", "--block", "4", "--arg", f"inout:{tmp_path}/x.npy:{tmp_path}/y.npy", "--arg", "uint:5")
    done = vgc(host, "run", tmp_path / "add.txt", *words)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "y.npy").tolist() == [5, 6, 7, 8]


def test_a_reader_that_has_enough_is_no_error(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "talk.cu").write_text('__global__ void talk() { printf("%d of many lines\\n", threadIdx.x); }')
    shell = f"{sys.executable} -m guest_driver run {tmp_path}/talk.cu --kernel talk --grid 64 --block 1024 | head -1"
    done = host.run("sh", "-c", shell)
    assert done.stdout.endswith("of many lines\n")
    assert "Broken pipe" not in done.stderr


@pytest.mark.parametrize("suffix", ["cubin", "fatbin"])
def test_run_tells_the_kind_of_a_file_by_its_suffix(host: GuestHost, tmp_path: Path, suffix: str) -> None:
    """The CPU engine takes no cubin, and this is no fatbin; its errors name the kind."""
    (tmp_path / f"program.{suffix}").write_bytes(b"x")
    done = vgc(host, "run", tmp_path / f"program.{suffix}", "--kernel", "x")
    assert done.returncode != 0
    assert suffix in done.stderr.lower()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kernel", "daxpy"], "no kernel 'daxpy'; it has, for one, saxpy"),
        (["--kernel", "saxpy"], "saxpy takes 4 arguments, not 0"),
        (["--kernel", "saxpy", "--arg", "thing:5"], "--arg thing:5: not understood"),
        (["--kernel", "saxpy", "--arg", "int:3000000000"], "--arg int:3000000000: "),
        (["--kernel", "saxpy", "--arg", "uint:-1"], "--arg uint:-1: "),
        (
            ["--kernel", "saxpy", *["--arg=double:1"] * 4],
            "--arg double:1: parameter 0 of saxpy is an integer of 4 bytes; allowed: int:N, uint:N",
        ),
        (
            ["--kernel", "saxpy", *["--arg=int:1"] * 4],
            "--arg int:1: parameter 1 of saxpy is a float of 4 bytes; allowed: float:N",
        ),
        (
            ["--kernel", "saxpy", "--arg=int:1", *["--arg=float:1"] * 3],
            "--arg float:1: parameter 2 of saxpy is a pointer; allowed: long:N, in, inout, out, rand",
        ),
        (
            ["--kernel", "saxpy", "--arg=rand:int32:1", *["--arg=float:1"] * 3],
            "--arg rand:int32:1: parameter 0 of saxpy is an integer of 4 bytes; allowed: int:N, uint:N",
        ),
        (
            ["--kernel", "saxpy", "--block", "2000", "--arg=int:1", "--arg=float:1", *["--arg=long:1"] * 2],
            "resources exhausted",
        ),
    ],
)
def test_run_explains_what_is_wrong(host: GuestHost, tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "saxpy.cu").write_text(SAXPY)
    done = vgc(host, "run", tmp_path / "saxpy.cu", *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_bench_prints_a_row_for_each_measurement(host: GuestHost) -> None:
    done = vgc(host, "bench", "--seconds", "0.02")
    assert done.returncode == 0, done.stderr
    for row in ("null request, polling", "null request, sleeping", "copy in", "copy out", "launch of an empty kernel"):
        assert row in done.stdout
    assert "not measured" not in done.stdout


def test_without_a_device_vgc_says_so_and_fails() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "guest_driver", "info"], check=False, cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("vgc: ")
