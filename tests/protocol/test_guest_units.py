"""Programs of several sources as a guest builds them: by `vgc run`, and in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocol.guest_host import GuestHost, guest_host

KERNELS = """
__device__ int twice(int);
static __device__ int calls;
extern "C" __global__ void double_all(int *values) {
    values[threadIdx.x] = twice(values[threadIdx.x]);
    atomicAdd(&calls, 1);
}
"""
FUNCTIONS = "static __device__ int calls; __device__ int twice(int x) { calls = 1; return 2 * x; }\n"

PYTHON = f"""
import numpy as np
import guest_driver as vgc
device = vgc.Device()
units = [vgc.Unit("kernels.cu", {KERNELS!r}), vgc.Unit("functions.cu", {FUNCTIONS!r})]
program = device.link(units, ["-std=c++17"])
values = device.to_device(np.arange(4, dtype="int32"))
program.double_all[1, 4](values)
print(values.get().tolist(), program.variable("calls@kernels.cu").size_bytes)
try:
    device.link(units[:1])
except vgc.CompileError as error:
    print(error.log)
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_command_links_several_files(host: GuestHost, tmp_path: Path) -> None:
    kernels, functions = tmp_path / "kernels.cu", tmp_path / "functions.cu"
    kernels.write_text(KERNELS)
    functions.write_text(FUNCTIONS)
    words = ["--kernel", "double_all", "--block", "8", "--arg", "rand:int32:8"]
    done = host.python("-m", "guest_driver", "run", kernels, functions, *words)
    assert done.returncode == 0, done.stderr
    alone = host.python("-m", "guest_driver", "run", kernels, *words)
    assert alone.returncode == 1
    assert "'twice(int)' is not defined" in alone.stderr
    binary = host.python("-m", "guest_driver", "run", kernels, tmp_path / "code.ptx", *words)
    assert "code.ptx: a ptx cannot be linked with other files; allowed: CUDA sources" in binary.stderr


def test_python_links_units(host: GuestHost) -> None:
    done = host.python("-c", PYTHON)
    assert done.returncode == 0, done.stderr
    assert "[0, 2, 4, 6] 4" in done.stdout
    assert "'twice(int)', which unit 'kernels.cu' uses, is defined in no unit" in done.stdout
