"""The engine's own declarations of cuBLAS' and cuFFT's interfaces agree with NVIDIA's headers and libraries."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from tools import pytorch

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "vhost_backend/engines/cuda"
CHECK = ROOT / "tests/unit/cuda_libraries_abi_check.c"
HEADERS = ("cublas_v2.h", "cufft.h", "cuda_runtime_api.h")


def found(pattern: str) -> list[Path]:
    """Files of NVIDIA's wheels."""
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return [path for folder in folders for path in sorted(Path(folder).glob(pattern))]


def include_dirs() -> list[Path]:
    """Folders of the wheels' headers; skips the test without them."""
    headers = {name: found(f"*/include/{name}") for name in HEADERS}
    missing = [name for name, paths in headers.items() if not paths]
    if missing:
        pytest.skip(f"nvidia-cublas and nvidia-cufft are not installed: there is no {', '.join(missing)}")
    return [paths[0].parent for paths in headers.values()]


def compile_check(abi_dir: Path) -> subprocess.CompletedProcess[str]:
    folders = [f"-I{abi_dir}", f"-I{ENGINE}", *(f"-isystem{folder}" for folder in include_dirs())]
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *folders, str(CHECK)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_numbers_and_functions_match_the_headers() -> None:
    done = compile_check(ENGINE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("ours", "wrong", "complaint"),
    [
        ("BLAS_COMPUTE_32F = 68", "BLAS_COMPUTE_32F = 77", "BLAS_COMPUTE_32F is not"),
        ("int64_t m, int64_t n", "int32_t m, int64_t n", "cublasGemmStridedBatchedEx_64 has another type"),
        ("float *in, struct float2 *out", "double *in, struct float2 *out", "cufftExecR2C has another type"),
    ],
)
def test_a_difference_is_found(tmp_path: Path, ours: str, wrong: str, complaint: str) -> None:
    header = (ENGINE / "cuda_libraries_abi.h").read_text()
    assert ours in header
    (tmp_path / "cuda_libraries_abi.h").write_text(header.replace(ours, wrong, 1))
    assert complaint in compile_check(tmp_path).stderr


@pytest.mark.parametrize("name", ["libraries", "dnn"])
def test_every_number_is_compared(name: str) -> None:
    checks = CHECK.with_name(f"cuda_{name}_abi_check.c").read_text()
    for number in re.findall(r"\b((?:BLAS|FFT|DNN)_\w+) = -?\w+", (ENGINE / f"cuda_{name}_abi.h").read_text()):
        assert f"SAME({number}," in checks, number


@pytest.mark.parametrize(
    ("check", "folder"),
    [("cuda_dnn_abi_check.c", ENGINE), ("cudnn_numbers_check.c", ROOT / "guest_driver/cuda/libraries/cudnn")],
)
def test_cudnns_numbers_and_functions_match_its_headers(check: str, folder: Path) -> None:
    """Those of the host's side, and of the guest's. NVIDIA's headers are in the environment that has PyTorch."""
    python, runtime = pytorch.python(), found("*/include/cuda_runtime_api.h")
    headers = sorted(python.parents[1].glob("lib/python3*/site-packages/nvidia/cudnn/include")) if python else []
    if not headers or not runtime:
        pytest.skip("needs `make frameworks-pytorch` and NVIDIA's headers of the runtime")
    folders = [f"-I{folder}", *(f"-isystem{one}" for one in (headers[0], runtime[0].parent))]
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Wno-deprecated-declarations", "-Werror", "-fsyntax-only"]
    words = [*command, *folders, str(CHECK.with_name(check))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("pattern", "prefix"), [("*/lib/libcublas.so.1[23]", "cublas"), ("*/lib/libcufft.so.1[12]", "cufft")]
)
def test_the_libraries_export_every_function(pattern: str, prefix: str) -> None:
    libraries = found(pattern)
    if not libraries:
        pytest.skip(f"nvidia-{prefix} is not installed: there is no library to look into")
    done = subprocess.run(["nm", "-D", "--defined-only", libraries[0]], capture_output=True, text=True, check=True)
    exported = {line.split()[2].partition("@")[0] for line in done.stdout.splitlines()}
    names = re.findall(rf"X\(({prefix}\w+)", (ENGINE / "cuda_libraries_abi.h").read_text())
    assert names
    assert set(names) <= exported
