"""Sources of the CUDA engine's built-in functions, compiled by NVRTC as the engine has them."""

from __future__ import annotations

import re

import pytest

from tests.unit.cuda_compile_rig import ARCHITECTURES, compile_image, needs_nvrtc
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.builtins import sources


@needs_nvrtc
@pytest.mark.parametrize("module", sources.MODULES)
def test_module_compiles_without_a_warning(module: str) -> None:
    image, log = compile_image(sources.source(module), arch=ARCHITECTURES[0], hooks="off")
    assert log == ""
    kernels = cubin.parse(image).kernels
    assert len(kernels) > 3
    assert all(len(kernel.params) == 1 and kernel.name.startswith(module) for kernel in kernels)


@pytest.mark.parametrize("module", sources.MODULES)
def test_module_is_in_one_piece(module: str) -> None:
    assert re.findall(r"^#include.*$", sources.source(module), re.MULTILINE) == ["#include <cuda_fp16.h>"]
