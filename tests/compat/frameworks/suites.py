"""Frameworks and their own test suites: where the tests come from, and what they need to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

Source = Literal["sdist", "wheel", "checkout"]
"""Tests lie in the sources on PyPI, in the installed package, or in the repository alone, of which a checkout is given."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests of one framework, with one way in which it computes."""

    package: str
    """Name of the package on PyPI, which tells the version."""
    source: Source
    patterns: tuple[str, ...]
    """Files of tests, below the source's folder."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Files that are not run, and why."""
    variables: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Packages that its tests import."""
    programs: tuple[str, ...] = ()
    """Programs that its tests run."""
    wants_torch: bool = False
    """Its tests compare with PyTorch's results on the CPU."""
    options: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    """Folders of a checkout, or of sources, that are the package itself, and would be imported in the installed one's place."""
    how: str = ""
    """Words that tell suites of one framework apart."""

    def files(self, folder: Path) -> Iterator[str]:
        """Files of tests below the source's folder, by path."""
        found = {str(path.relative_to(folder)) for pattern in self.patterns for path in folder.glob(pattern)}
        return (file for file in sorted(found) if file not in self.left_out)


_TINYGRAD: Final = Suite(
    "tinygrad",
    "checkout",
    ("test/test_tiny.py", "test/backend/test_*.py", "test/opt/test_*.py"),
    {
        "test/backend/test_multitensor.py": "left out by tinygrad's own tests of this backend, too: it needs several devices"
    },
    {"PARALLEL": "0", "RUN_SLOW": "1", "TEST_TIMEOUT": "100000"},
    ("hypothesis", "z3-solver<4.15.4"),
    ("clang",),
    wants_torch=True,
    shadows=("tinygrad",),
)


def _tinygrad(device: str) -> Suite:
    """Its suite with one value of the variable by which it takes a device."""
    return replace(_TINYGRAD, variables=dict(_TINYGRAD.variables) | {"DEV": device}, how=f"DEV={device}")


_PYTEST: Final = ("pytest-benchmark", "pytest-repeat", "pytest-rerunfailures", "pytest-timeout")
"""Plugins of pytest that the tests of CUDA Python use."""

SUITES: Final[Mapping[str, Suite]] = {
    "cuda-bindings": Suite(
        "cuda-bindings",
        "checkout",
        ("cuda_bindings/tests/**/test_*.py",),
        {
            "cuda_bindings/tests/cython/test_cython.py": "needs extensions that its authors build beside the tests",
            "cuda_bindings/tests/cudla/test_cudla_bindings.py": "needs an accelerator of Jetson boards",
            "cuda_bindings/tests/test_cufile.py": "tests cuFile, NVIDIA's library for files, which no guest has",
        },
        needs=(*_PYTEST, "numpy"),
    ),
    "cuda-core": Suite(
        "cuda-core",
        "checkout",
        ("cuda_core/tests/**/test_*.py",),
        {"cuda_core/tests/cython/test_cython.py": "needs extensions that its authors build beside the tests"},
        needs=(*_PYTEST, "numpy", "cffi", "cloudpickle", "ml_dtypes", "psutil"),
    ),
    "tinygrad-ptx": _tinygrad("CUDA:PTX"),
    "tinygrad": _tinygrad("CUDA"),
    "pycuda": Suite("pycuda", "sdist", ("test/test_*.py",), shadows=("pycuda",)),
    "numba-cuda": Suite(
        "numba-cuda",
        "wheel",
        ("numba_cuda/numba/cuda/tests/**/test_*.py",),
        {"numba_cuda/numba/cuda/tests/benchmarks/test_kernel_launch.py": "measures times, and tests nothing"},
        needs=("cffi", "psutil", "ml_dtypes", "filecheck"),
        options=("--import-mode=importlib",),
    ),
    "cupy": Suite(
        "cupy",
        "checkout",
        ("tests/cupy_tests/core_tests/test_*.py",),
        needs=("hypothesis",),
        shadows=("cupy", "cupy_backends", "cupyx"),
    ),
    "taichi": Suite(
        "taichi",
        "checkout",
        ("tests/python/test_*.py",),
        variables={"TI_WANTED_ARCHS": "cuda", "TI_OFFLINE_CACHE": "0"},
        needs=("pytest-rerunfailures", "requests", "psutil", "pillow"),
        shadows=("python",),
    ),
}
