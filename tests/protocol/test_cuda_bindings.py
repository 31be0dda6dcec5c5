"""NVIDIA's Python package cuda-bindings, which has NVIDIA's runtime inside, on this toolkit's, with `vgc exec`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host, guest_variables

pytest.importorskip("cuda.bindings", reason="needs cuda-bindings")

COPIES: Final = """
import array
from cuda.bindings import driver, runtime

def take(answer):
    assert int(answer[0]) == 0, answer[0]
    return answer[1] if len(answer) > 1 else None

numbers, back = array.array("i", range(1024)), array.array("i", bytes(4096))
assert take(runtime.cudaGetDeviceCount()) == 1
device, stream = take(runtime.cudaMalloc(4096)), take(runtime.cudaStreamCreate())
to, fro = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
take(runtime.cudaMemcpyAsync(device, numbers.buffer_info()[0], 4096, to, stream))
take(driver.cuStreamSynchronize(driver.CUstream(int(stream))))  # both interfaces have the same streams and memory
take(driver.cuMemcpyDtoH(back.buffer_info()[0], driver.CUdeviceptr(int(device)), 4096))
assert back == numbers
take(runtime.cudaMemset(device, 0, 4096))
take(runtime.cudaMemcpy(back.buffer_info()[0], device, 4096, fro))
assert not any(back)
assert int(runtime.cudaFree(device + 4)[0]) == 1
take(runtime.cudaFree(device))
print("right")
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def run(
    host: GuestHost, program: str, *options: str, settings: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "guest_driver", "exec", *options, sys.executable, "-c", program],
        check=False,
        cwd=REPOSITORY,
        env=os.environ | guest_variables([host]) | dict(settings),
        pass_fds=host.link.fds,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )


@pytest.mark.parametrize("per_thread", ["0", "1"])
def test_its_runtime_computes_on_this_toolkit_s(host: GuestHost, per_thread: str) -> None:
    done = run(host, COPIES, settings={"CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM": per_thread})
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_a_runtime_of_a_different_release_is_left_alone(host: GuestHost) -> None:
    """Structures differ: the package's own runtime stays, which does not work here, and says why."""
    program = "from cuda.bindings import runtime\nprint(int(runtime.cudaGetDeviceCount()[0]) != 0)"
    done = run(host, program, "--cuda", "12")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "has NVIDIA's CUDA runtime inside" in done.stderr
