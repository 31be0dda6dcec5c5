"""Programs that the guest compiled itself: taken where the configuration allows it, refused elsewhere."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import GpuHost, gpu_host, vm
from vhost_backend.engines.cuda.toolkits import host_compiler, parse_version, usable

SOURCE = """
extern "C" __global__ void add_one(unsigned *data, unsigned count)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        data[i] += 1;
}
"""


FORMS = {"ptx": ("-ptx", "compute"), "cubin": ("-cubin", "sm"), "fatbin": ("-fatbin", "sm")}
"""nvcc's option for each kind, and the kind of architecture that the option takes."""


@cache
def binary(kind: str, gpu: Gpu) -> bytes:
    """The source in one of the forms that nvcc makes; skips the test where there is no nvcc."""
    kits = [kit for kit in usable(parse_version(gpu.driver_version)) if kit.nvcc is not None]
    if not kits or host_compiler() is None:
        pytest.skip("nvcc or a C++ compiler for it is not installed")
    option, architecture = FORMS[kind]
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "source.cu"), Path(folder, "made")
        source.write_text(SOURCE)
        target = f"-arch={gpu.arch.replace('sm', architecture)}"
        subprocess.run([str(kits[0].nvcc), option, target, "-o", str(made), str(source)], check=True)
        return made.read_bytes()


@pytest.fixture(scope="module")
def host(any_gpu: Gpu) -> Iterator[GpuHost]:
    trusted = vm(any_gpu, "trusted", engine=any_gpu.engine(binaries=True))
    with gpu_host(trusted, vm(any_gpu, "other")) as made:
        yield made


@pytest.mark.parametrize("kind", FORMS)
def test_allowed_binary_computes(host: GpuHost, any_gpu: Gpu, kind: str) -> None:
    with host.open("trusted") as dev:
        numbers = dev.zeros(1000, "uint32")
        dev.compile(binary(kind, any_gpu), kind=kind)["add_one"].launch(4, 64, numbers, np.uint32(1000))
        assert (numbers.get() == 1).all()


@pytest.mark.parametrize("kind", FORMS)
def test_binary_is_refused_unless_allowed(host: GpuHost, any_gpu: Gpu, kind: str) -> None:
    with host.open("other") as dev, pytest.raises(vgc.VgcError, match="binaries"):
        dev.compile(binary(kind, any_gpu), kind=kind)


@pytest.mark.parametrize("kind", FORMS)
def test_bytes_that_are_no_program_are_refused_with_a_reason(host: GpuHost, kind: str) -> None:
    with host.open("trusted") as dev, pytest.raises(vgc.CompileError) as caught:
        dev.compile(b"this is no program at all", kind=kind)
    assert str(caught.value)
