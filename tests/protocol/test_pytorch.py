"""PyTorch's CUDA wheel, unchanged from PyPI, in a guest: on the CUDA engine over the fake driver, and on the software GPU."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

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
