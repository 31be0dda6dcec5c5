"""Search for cuBLAS and cuFFT on hosts with made-up wheels and toolkits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cuda_kits import forget, put, use
from vhost_backend.engines.cuda import libraries


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A host whose wheels are in ``wheels``, and whose only toolkit is ``cuda-13.0``."""
    (tmp_path / "wheels" / "nvidia").mkdir(parents=True)
    use(monkeypatch, [tmp_path / "wheels"], [tmp_path / "cuda-13.0"])
    yield tmp_path
    forget()


def where(driver: tuple[int, int]) -> list[Path | None]:
    """Paths of cuBLAS and cuFFT."""
    return [library.where for library in libraries.find(driver)][:2]


def test_missing_libraries_are_named_with_their_packages(host: Path) -> None:  # noqa: ARG001
    for driver, suffix in (((13, 0), ""), ((12, 4), "-cu12")):
        cublas, cufft, cudnn = libraries.find(driver)
        assert (cublas.option, cublas.name, cublas.where) == ("cublas", "cuBLAS", None)
        assert (cufft.option, cufft.name, cufft.where) == ("cufft", "cuFFT", None)
        assert [cublas.hint, cufft.hint] == [f"pip install nvidia-cublas{suffix}", f"pip install nvidia-cufft{suffix}"]
        assert (cudnn.option, cudnn.name, cudnn.where, cudnn.is_optional) == ("cudnn", "cuDNN", None, True)
        assert cudnn.hint == f"pip install nvidia-cudnn-cu{driver[0]}"


def test_wheels_come_before_toolkits(host: Path) -> None:
    tree, toolkit = host / "wheels/nvidia/cu13/lib", host / "cuda-13.0/lib64"
    put(toolkit / "libcublas.so.13", toolkit / "libcufft.so.12")
    assert where((13, 0)) == [toolkit / "libcublas.so.13", toolkit / "libcufft.so.12"]
    put(tree / "libcublas.so.13")
    assert where((13, 0)) == [tree / "libcublas.so.13", toolkit / "libcufft.so.12"]


def test_a_driver_gets_the_newest_libraries_that_it_runs(host: Path) -> None:
    """Wheels of CUDA 12 have a folder each."""
    wheels = host / "wheels/nvidia"
    twelve = [wheels / "cublas/lib/libcublas.so.12", wheels / "cufft/lib/libcufft.so.11"]
    thirteen = [wheels / "cu13/lib/libcublas.so.13", wheels / "cu13/lib/libcufft.so.12"]
    put(*twelve)
    assert where((13, 0)) == where((12, 8)) == twelve
    put(*thirteen)
    assert where((12, 8)) == twelve
    assert where((13, 0)) == where((14, 1)) == thirteen


def test_cudnn_is_found_beside_the_others(host: Path) -> None:
    put(host / "wheels/nvidia/cudnn/lib/libcudnn.so.9")
    assert libraries.find((13, 0))[2].where == host / "wheels/nvidia/cudnn/lib/libcudnn.so.9"
