"""The engine's own declarations of the driver's interface agree with NVIDIA's header."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from tests.fakes import cuda_driver
from tests.unit.cuda_rig import CHalf, fake_driver
from vhost_backend.errors import EngineError

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "vhost_backend/engines/cuda"
CHECK = ROOT / "tests/unit/cuda_abi_check.c"


def include_dir() -> Path:
    """Folder of the wheel nvidia-cuda-runtime's headers; skips the test without the wheel."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for header in sorted(Path(folder).glob("*/include/cuda.h")):
            return header.parent
    pytest.skip("nvidia-cuda-runtime is not installed: there is no cuda.h to compare with")


def compile_check(abi_dir: Path) -> subprocess.CompletedProcess[str]:
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    folders = [f"-I{abi_dir}", f"-isystem{include_dir()}"]
    return subprocess.run([*command, *folders, str(CHECK)], capture_output=True, text=True, check=False)


def test_numbers_structs_and_functions_match_the_header() -> None:
    done = compile_check(ENGINE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("ours", "wrong", "complaint"),
    [
        ("DRV_ERROR_ASSERT = 710", "DRV_ERROR_ASSERT = 711", "DRV_ERROR_ASSERT is not"),
        ("size_t max_size;", "uint32_t max_size;", "offsetof"),
        ("size_t count, drv_stream stream", "int count, drv_stream stream", "cuMemsetD8Async has another type"),
    ],
)
def test_a_difference_is_found(tmp_path: Path, ours: str, wrong: str, complaint: str) -> None:
    header = (ENGINE / "cuda_abi.h").read_text()
    assert ours in header
    (tmp_path / "cuda_abi.h").write_text(header.replace(ours, wrong, 1))
    assert complaint in compile_check(tmp_path).stderr


def test_every_number_is_compared() -> None:
    checks = CHECK.read_text()
    for name in re.findall(r"\b(DRV_\w+) = \d+", (ENGINE / "cuda_abi.h").read_text()):
        short = name.removeprefix("DRV_ERROR_")
        assert f"SAME({name}," in checks or f"ERROR({short});" in checks, name


def test_a_driver_without_a_function_is_refused_by_name() -> None:
    cuda_driver.FakeDriver()  # later loads of libcuda.so.1 in this process must find the complete one: the first
    path = cuda_driver.build(hidden=["cuStreamWriteValue32_v2"])
    with (
        fake_driver(path=path) as driver,
        pytest.raises(EngineError, match=r"of CUDA 13.0, lacks cuStreamWriteValue32_v2"),
    ):
        CHalf(driver)


def test_a_missing_driver_is_named() -> None:
    with (
        fake_driver() as driver,
        pytest.raises(EngineError, match=r"cannot be loaded: /nowhere/libcuda.so.1: .*No such file"),
    ):
        CHalf(driver, library="/nowhere/libcuda.so.1")
