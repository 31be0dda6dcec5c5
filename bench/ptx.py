"""PTX of the benchmarks' kernels, made by NVRTC, for a device whose compiler then starts from it."""

from __future__ import annotations

from functools import cache

from bench.device import Device
from bench.results import SkipRow
from vhost_backend.engines.cuda.compiler.nvrtc import Nvrtc
from vhost_backend.engines.cuda.toolkits import Toolkit, installed
from virtio_proto.schema import ProgramKind


@cache
def _toolkit() -> Toolkit:
    """The newest toolkit with NVRTC.

    :raise SkipRow: none is installed.
    """
    found = next((kit for kit in installed() if kit.nvrtc is not None), None)
    if found is None:
        raise SkipRow("NVRTC is not installed: vgcd doctor says how to get it")
    return found


@cache
def module(source: str) -> str:
    """The PTX module of CUDA C, for compute capability 8.0.

    :raise SkipRow: NVRTC is not installed.
    """
    kit = _toolkit()
    options = ["-arch=compute_80", "-std=c++17", *(f"-I{folder}" for folder in kit.include_dirs)]
    text, _ = Nvrtc(str(kit.nvrtc)).ptx(source.encode(), "source.cu", options, [])
    return text.rstrip(b"\0").decode()


def load(device: Device, source: str) -> int:
    """Loads CUDA C as PTX; returns the program's id.

    :raise SkipRow: NVRTC is not installed. :raise RequestError: the device does not take the module.
    """
    return device.load(module(source), ProgramKind.PTX)
