"""PyTorch's CUDA wheel, unchanged from PyPI, in a guest: on the CUDA engine over the fake driver, and on the software GPU."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Final

import pytest

from tests.frameworks.pytorch_sizes import MARK_BYTES, STEPS
from tests.protocol.guest_host import guest_host
from tests.protocol.torch_host import TorchHost, needs_pytorch, torch_host

ONE_MORE = "import torch; print(torch.arange(4.0).cuda().cpu().tolist()); torch.ones(4, device='cuda') + 1"


def test_device_memory_kernels_streams_and_events(tmp_path: Path) -> None:
    """Every launch of `x * 2 + 1` reaches the driver: the kernel's name, the grid, and the bytes of its parameters."""
    with torch_host(tmp_path) as torch:
        said = torch.output("-m", "tests.frameworks.pytorch_basics").splitlines()
        assert said[0] == "True 1 9.0 Fake H200, 48 of 132 SMs"
        assert said[1] == "True True True"
        x, product, result = (int(address, 16) for address in said[2].split())
        times, plus = torch.launches()[-2:]
        assert not torch.lines("misuse")
    assert "vectorized_elementwise_kernel" in times.kernel
    assert "MulFunctorIf" in times.kernel
    assert "CUDAFunctorOnSelf_addIf" in plus.kernel
    for launch, number, to, source in ((times, 2.0, product, x), (plus, 1.0, result, product)):
        assert (launch.grid, launch.block) == ("5,1,1", "128,1,1")
        assert struct.unpack_from("<i", launch.params)[0] == 5000
        assert struct.pack("<f", number) in launch.params
        assert struct.unpack_from("<QQ", launch.params, len(launch.params) - 16) == (to, source)


def test_software_gpu_says_that_the_wheel_has_no_code_for_it(tmp_path: Path) -> None:
    needs_pytorch()
    with guest_host(tmp_path) as host:
        words = TorchHost(host, None).output("-c", ONE_MORE, fails=True)
    assert "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device" in words
    assert "brings GPU code of NVIDIA's compiler (sm_75, " in words
    assert "a GPU of the host runs it, in a VM with the option 'binaries: true'" in words


@pytest.mark.parametrize("library", ["libcudart.so.13", "libcublas.so.13", "libnvrtc.so.13"])
def test_libraries_are_this_toolkits_though_the_wheels_paths_go_first(library: str, tmp_path: Path) -> None:
    needs_pytorch()
    program = (
        "import torch; print([line.split()[-1] for line in open('/proc/self/maps') if line.endswith(f'{library}\\n')])"
    )
    with guest_host(tmp_path) as host:
        found = TorchHost(host, None).output("-c", f"library = {library!r}; {program}")
    assert "guest_driver/cuda/build/toolkit/lib64" in found
    assert "site-packages" not in found


def test_products_of_all_types_reach_the_driver(tmp_path: Path) -> None:
    with torch_host(tmp_path) as torch:
        said = torch.output("-m", "tests.frameworks.pytorch_products").split()
        kernels = [launch.kernel for launch in torch.launches()]
        assert not torch.lines("misuse")
    assert said == [f"torch.{name}" for name in ("float32", "float16", "bfloat16", "float64", "complex64")]
    for numbers in ("f", "6__half", "13__nv_bfloat16", "d"):
        assert any(name.startswith(f"_ZN4blas16product_of_smallI{numbers}") for name in kernels), numbers


MARK: Final = re.compile(rf"cuMemcpyHtoDAsync_v2\(\w+, \w+, {MARK_BYTES}, ")
WAITS: Final = ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuMemcpyDtoH")
CALLS: Final = {
    "cudnnConvolutionForward": 2,
    "cudnnConvolutionBackwardData": 1,  # the images have no gradient
    "cudnnConvolutionBackwardFilter": 2,
    "cublasGemmStridedBatchedEx_64": 3,
}
"""Calls of the host's libraries in a training step: of two convolutions and one layer of products."""


def test_hosts_libraries_compute_products_convolutions_and_transforms(tmp_path: Path) -> None:
    """Through PyTorch, cuDNN's, cuBLAS's and cuFFT's interfaces in the guest, and functions of the host by name."""
    with torch_host(tmp_path, "cublas", "cufft", "cudnn") as torch:
        said = torch.output("-m", "tests.frameworks.pytorch_libraries").splitlines()
        assert not torch.lines("misuse")
    assert len(said) == 7 * 2 * 2 + 4 * 2 + 3 * 3 * 4 + 2 * 3 + 6 * 2
    assert not [line for line in said if not line.endswith(" right")]


def test_training_steps_pass_and_wait_for_nothing(tmp_path: Path) -> None:
    """All calls of a step are served; none waits for the device before the loss is read."""
    with torch_host(tmp_path, "cublas", "cufft", "cudnn") as torch:
        said = torch.output("-m", "tests.frameworks.pytorch_training", "cuda").splitlines()
        lines = torch.lines()
        assert not torch.lines("misuse")
    assert [line.split()[0] for line in said] == ["sgd"] * STEPS + ["adam"] * STEPS
    marks = [number for number, line in enumerate(lines) if MARK.match(line)]
    assert len(marks) == 2 * 2 * STEPS
    steps = [lines[begin + 1 : end] for begin, end in zip(marks[::2], marks[1::2], strict=True)]
    for step in steps:
        counts = {name: sum(line.startswith(f"{name}(") for line in step) for name in CALLS}
        assert counts == CALLS
        assert not [line for line in step if line.startswith(WAITS)]
    kernels = [sum(line.startswith("launch ") for line in step) for step in (steps[STEPS - 1], steps[-1])]
    assert kernels == [22, 26]  # with SGD and Adam, once all is loaded
    assert not [line for line in steps[-1] if line.startswith(("cuModuleLoad", "cudnnGet"))]


def test_without_cudnn_the_guest_is_told_what_helps(tmp_path: Path) -> None:
    with torch_host(tmp_path) as torch:
        words = torch.output("-m", "tests.frameworks.pytorch_training", "cuda", fails=True)
        assert "CUDNN_STATUS_NOT_SUPPORTED" in words
        assert "torch.backends.cudnn.enabled = False" in words
        said = torch.output("-m", "tests.frameworks.pytorch_training", "cuda", "without-cudnn")
        assert not torch.lines("misuse")
    assert len(said.splitlines()) == 2 * STEPS
