"""Programs that NVIDIA's nvcc built with `-cudart shared`, on our libcudart.so.13."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.attached import AttachedLink
from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_host import Settings, cuda_link
from tests.protocol.cudart_rig import LIBRARIES
from tests.protocol.guest_host import guest_host
from tests.wheels import nvcc

MAIN: Final = r"""
#include <cstdio>
extern "C" __global__ void add_one(unsigned *data, unsigned count);
int main() {
    unsigned host[4] = {1, 2, 3, 4}, *data = nullptr;
    cudaMalloc(&data, sizeof(host));
    cudaMemcpy(data, host, sizeof(host), cudaMemcpyHostToDevice);
    add_one<<<1, 4>>>(data, 4);
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) error = cudaMemcpy(host, data, sizeof(host), cudaMemcpyDeviceToHost);
    printf("%s %u %u %u %u\n", cudaGetErrorName(error), host[0], host[1], host[2], host[3]);
}
"""
KERNEL: Final = """
extern "C" __global__ void add_one(unsigned *data, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i]++;
}
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of one file, one whose kernel is in another file (-rdc=true), and one with PTX for the software GPU."""
    compiler = nvcc()
    folder = tmp_path_factory.mktemp("nvcc")
    (folder / "libcudart.so").symlink_to(LIBRARIES / "libcudart.so.13")
    (folder / "whole.cu").write_text(KERNEL + MAIN)
    (folder / "main.cu").write_text(MAIN)
    (folder / "kernel.cu").write_text(KERNEL)
    options = ["-cudart", "shared", f"-L{folder}", "-Xlinker", f"-rpath={LIBRARIES}"]
    for words in (
        ["-arch=sm_90", "-o", "whole", "whole.cu"],
        ["-arch=sm_90", "-rdc=true", "-o", "parts", "main.cu", "kernel.cu"],
        ["-arch=sm_80", "-o", "older", "whole.cu"],
    ):
        subprocess.run([compiler, *options, *words], cwd=folder, check=True, timeout=HANGS_AFTER_S)
    return {name: folder / name for name in ("whole", "parts", "older")}


@pytest.mark.parametrize("name", ["whole", "parts"])
def test_the_software_gpu_says_what_the_program_brings_and_what_helps(
    programs: dict[str, Path], name: str, tmp_path: Path
) -> None:
    with guest_host(tmp_path) as host:
        done = host.run(programs[name])
        kept = host.python("-m", "guest_driver", "last-error").stdout
    assert done.stdout == "cudaErrorNoKernelImageForDevice 1 2 3 4\n", done.stderr
    assert "this program brings GPU code of NVIDIA's compiler (sm_90" in done.stderr
    assert "build it with mynvcc" in done.stderr
    assert "build it with mynvcc" in kept


def test_the_software_gpu_runs_the_ptx_that_the_program_brings(programs: dict[str, Path], tmp_path: Path) -> None:
    with guest_host(tmp_path) as host:
        done = host.run(programs["older"])
    assert done.stdout == "cudaSuccess 2 3 4 5\n", done.stderr


@dataclass(frozen=True)
class CudaGuest:
    """A guest of the CUDA engine, which may load binaries or not."""

    takes_binaries: bool
    link: AttachedLink
    state_dir: Path

    def run(self, program: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program],
            check=False,
            env=os.environ | {"VGC_MEMFD": self.link.description, "VGC_STATE_DIR": str(self.state_dir)},
            pass_fds=self.link.fds,
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
        )


@pytest.fixture(scope="module", params=[True, False], ids=["binaries", "sources"])
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CudaGuest]:
    takes_binaries = bool(request.param)
    folder = tmp_path_factory.mktemp("cuda")
    with cuda_link(folder, Settings(options={"binaries": takes_binaries})) as link:
        yield CudaGuest(takes_binaries, link, folder / "state")


@pytest.mark.parametrize("name", ["whole", "parts"])
def test_the_cuda_engine_runs_the_program_if_it_may_take_binaries(
    programs: dict[str, Path], name: str, guest: CudaGuest
) -> None:
    done = guest.run(programs[name])
    if guest.takes_binaries:
        assert done.stdout == "cudaSuccess 2 3 4 5\n", done.stderr
    else:
        assert done.stdout == "cudaErrorNoKernelImageForDevice 1 2 3 4\n"
        assert "'binaries: true' among the options of the VM's engine" in done.stderr
