"""Checks of programs as a guest asks for them: by `vgc run`, in Python, by the VM's configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocol.guest_host import GuestHost, guest_host
from vhost_backend.config.daemon import EngineConfig

SOURCE = """
extern "C" __global__ void rows(const float *image, float *out, int cols) {
    out[threadIdx.x] = image[(int)threadIdx.x - cols];
}
extern "C" __global__ void reverse(int *o) {
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    o[threadIdx.x] = s[31 - threadIdx.x];
}
extern "C" __global__ void keep(int *o) {
    int *block = (int *)malloc(40);
    block[0] = o[threadIdx.x] = threadIdx.x;
    if (threadIdx.x % 2) free(block);
}
"""

PYTHON = f"""
import numpy as np
import guest_driver as vgc
device = vgc.Device()
program = device.compile({SOURCE!r}, checks=("memory", "races"))
image, out = device.to_device(np.ones(64, "float32")), device.zeros(64)
try:
    program.rows[1, 64](image, out, 16)
except vgc.errors.KernelFault as error:
    print("caught", error)
print(out.get()[14:18])
program.rows[1, 64](image, out, 0)
print(out.get().sum())
print(device.compile({SOURCE!r}, lockstep=True).reverse[1, 32](device.zeros(32, "int32")) is not None)
try:
    device.compile({SOURCE!r}, checks=("speed",))
except vgc.errors.InvalidArgument as error:
    print("refused", error)
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "checked.cu"
    path.write_text(SOURCE)
    return path


def test_memcheck_names_array_index_and_line(host: GuestHost, source: Path) -> None:
    words = [
        "--kernel",
        "rows",
        "--block",
        "64",
        "--arg",
        "rand:float32:64",
        "--arg",
        "out:float32:64",
        "--arg",
        "int:16",
    ]
    plain = host.python("-m", "guest_driver", "run", source, *words)
    assert "memcheck: " not in plain.stdout + plain.stderr
    done = host.python("-m", "guest_driver", "run", "--memcheck", source, *words)
    assert done.returncode == 1
    found = re.search(
        rf"memcheck: {re.escape(str(source))}:3:\d+: read of 4 bytes at 0x\w+, (.*), in kernel 'rows'", done.stderr
    )
    assert found is not None, done.stderr
    assert found[1] == "64 bytes before the array of 256 bytes that 'image' points to, index -16"


def test_leak_check_names_the_line_of_malloc(host: GuestHost, source: Path) -> None:
    words = ["--kernel", "keep", "--block", "8", "--arg", "out:int32:8"]
    done = host.python("-m", "guest_driver", "run", "--leak-check", source, *words)
    assert done.returncode == 0, done.stderr
    found = re.search(
        rf"leak-check: {re.escape(str(source))}:11:\d+: (.*), the first at 0x\w+ by kernel 'keep'\n", done.stdout
    )
    assert found is not None, done.stdout
    assert found[1] == "160 bytes in 4 blocks of malloc() were never freed"
    assert "leak-check: " not in host.python("-m", "guest_driver", "run", "--memcheck", source, *words).stdout


def test_racecheck_and_lockstep(host: GuestHost, source: Path) -> None:
    words = [str(source), *["--kernel", "reverse", "--block", "32", "--arg", "out:int32:32:"]]
    words[-1] += str(source.with_suffix(".npy"))
    done = host.python("-m", "guest_driver", "run", "--racecheck", *words)
    assert done.returncode == 1
    place = rf"{re.escape(str(source))}:[78]:"
    assert re.search(rf"racecheck: {place}.*conflicts with .* {place}.*no barrier or __syncwarp", done.stderr)
    assert host.python("-m", "guest_driver", "run", "--racecheck", "--lockstep", *words).returncode == 0


def test_warnings_of_programs_that_need_their_warps_in_step(host: GuestHost, source: Path) -> None:
    words = [str(source), *["--kernel", "reverse", "--block", "32", "--arg", "out:int32:32"]]
    warning = r"\S+\.cu:8:\d+: warning: reads what other threads of the warp write to 'reverse::s' at line 7"
    plain = host.python("-m", "guest_driver", "run", *words)
    assert plain.returncode == 0, plain.stderr
    assert re.search(str(source) + warning.removeprefix(r"\S+\.cu"), plain.stdout + plain.stderr)
    in_step = host.python("-m", "guest_driver", "run", "--lockstep", *words)
    assert "warning" not in in_step.stdout + in_step.stderr
    done = host.python("-c", f"import guest_driver as vgc; print(vgc.Device().compile({SOURCE!r}).log)")
    assert re.search(warning, done.stdout), done.stderr


def test_python_programs_ask_for_checks(host: GuestHost) -> None:
    done = host.python("-c", PYTHON)
    assert done.returncode == 0, done.stderr
    caught, edge, total, ran, refused = (line for line in done.stdout.splitlines() if not line.startswith("memcheck"))
    assert caught.startswith("caught FAULT: memcheck: source.cu:3:")
    assert (edge, total, ran) == ("[0. 0. 1. 1.]", "64.0", "True")
    assert "races" in refused


def test_vm_in_lockstep(tmp_path: Path, source: Path) -> None:
    with guest_host(tmp_path, engine=EngineConfig("cpu", {"lockstep": True})) as host:
        words = f"run --racecheck {source} --kernel reverse --block 32 --arg out:int32:32".split()
        done = host.python("-m", "guest_driver", *words)
        assert done.returncode == 0, done.stderr


def test_lines_of_traps_are_asked_for_with_a_flag(host: GuestHost, tmp_path: Path) -> None:
    source = tmp_path / "stop.cu"
    source.write_text('extern "C" __global__ void stop() {\n    __trap();\n}\n')
    plain = host.python("-m", "guest_driver", "run", source, "--kernel", "stop")
    assert (plain.returncode, f"{source}:2" in plain.stderr) == (1, False)
    for flag in ("-lineinfo", "--lineinfo"):
        done = host.python("-m", "guest_driver", "run", flag, source, "--kernel", "stop")
        assert done.returncode == 1
        assert "stop.cu:2 in kernel 'stop'" in done.stderr, done.stderr
