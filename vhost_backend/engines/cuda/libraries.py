"""cuBLAS, cuFFT and cuDNN of this host: in NVIDIA's wheels in this environment, and in installed toolkits.

Found by the daemon, which shows their folders to workers and names the files in the options ``cublas``, ``cufft``
and ``cudnn``; `libraries.c` loads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.engines.cuda.toolkits import Version, library_folders

_CUBLAS: Final = {13: "libcublas.so.13", 12: "libcublas.so.12"}
_CUFFT: Final = {13: "libcufft.so.12", 12: "libcufft.so.11"}
_CUDNN: Final = {13: "libcudnn.so.9", 12: "libcudnn.so.9"}
"""Names of the libraries of each major version of CUDA, newest first."""


@dataclass(frozen=True, slots=True)
class Library:
    """One of NVIDIA's libraries."""

    option: str
    """Option of the engine that has its path."""
    name: str
    where: Path | None
    """Path of the file; None: the host has none for its driver."""
    hint: str
    """Command that installs it."""
    is_optional: bool = False
    """True: also ``libraries: on`` does without."""


def find(driver: Version) -> tuple[Library, ...]:
    """Finds cuBLAS, cuFFT and cuDNN for a driver of that CUDA version: those of the newest major version that it runs."""
    suffix = "" if driver[0] > 12 else "-cu12"
    return (
        Library("cublas", "cuBLAS", _first(_CUBLAS, driver), f"pip install nvidia-cublas{suffix}"),
        Library("cufft", "cuFFT", _first(_CUFFT, driver), f"pip install nvidia-cufft{suffix}"),
        Library(
            "cudnn",
            "cuDNN",
            _first(_CUDNN, driver),
            f"pip install nvidia-cudnn-cu{min(driver[0], 13)}",
            is_optional=True,
        ),
    )


def _first(names: dict[int, str], driver: Version) -> Path | None:
    return next(_candidates(names, driver), None)


def _candidates(names: dict[int, str], driver: Version) -> Iterator[Path]:
    for major, name in names.items():
        if major <= driver[0]:
            yield from (folder / name for folder in library_folders() if (folder / name).exists())
