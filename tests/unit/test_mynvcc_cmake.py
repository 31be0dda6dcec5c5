"""CMake takes mynvcc for nvcc: detection, architectures, separable compilation, libraries, FindCUDAToolkit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.mynvcc_rig import Toolkit, fake_toolkit, toolkit
from tests.unit.test_mynvcc_relocatable import FIRST, SECOND, launched

__all__ = ["fake_toolkit", "toolkit"]

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(example LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(first STATIC first.cu)
add_executable(program second.cu)
set_target_properties(first program PROPERTIES CUDA_SEPARABLE_COMPILATION ON POSITION_INDEPENDENT_CODE ON)
target_link_libraries(program first)
add_executable(host host.cpp)
target_link_libraries(host CUDA::cudart)
file(WRITE ${CMAKE_BINARY_DIR}/found "${CMAKE_CUDA_COMPILER_ID} ${CMAKE_CUDA_COMPILER_VERSION} ${CMAKE_CUDA_ARCHITECTURES}")
"""


PYTHONS: Final = Path(sysconfig.get_path("scripts"))
"""Folder of the CMake and the Ninja that `make` has pip install; a system's CMake, such as Debian's 3.25, is tried too."""

CMAKES: Final = sorted(
    {str(PYTHONS / "cmake"), shutil.which("cmake", path="/usr/bin:/usr/local/bin") or str(PYTHONS / "cmake")}
)


@pytest.mark.parametrize("cmake", CMAKES)
@pytest.mark.parametrize(
    ("wanted", "architectures"), [(("-GNinja",), "80"), (("-DCMAKE_CUDA_ARCHITECTURES=native",), "native")]
)
def test_project_is_configured_and_built(
    toolkit: Toolkit, cmake: str, wanted: tuple[str, ...], architectures: str
) -> None:
    toolkit.write(
        CMakeLists_txt=PROJECT,
        first_cu=FIRST,
        second_cu=SECOND,
        host_cpp="#include <cuda_runtime.h>\nint main() { int device; return cudaGetDevice(&device); }\n",
    )
    path = f"{PYTHONS}:{os.environ['PATH']}"
    environment = {**os.environ, "CUDACXX": str(toolkit.top / "bin" / "nvcc"), "PATH": path}
    for words in (("-B", "build", *wanted), ("--build", "build")):
        done = subprocess.run(
            [cmake, *words],
            cwd=toolkit.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "failed" not in done.stdout
    assert (toolkit.folder / "build" / "found").read_text() == f"NVIDIA 12.6.20 {architectures}"
    assert launched(toolkit.output("build/program", LD_LIBRARY_PATH=str(toolkit.top / "lib64"))) == ["2", "1"]
    assert toolkit.output("build/host") == []
