"""CUB, Thrust and libcu++ for programs that `vgc exec` has build: the toolkit's, in front of a package's own.

The host compiles device code with one release of these headers, which is that of the toolkit (or of NVIDIA's wheel) in the
guest. Host code that is compiled with another release asks for kernels by other names.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "NVCC_PREPEND_FLAGS"
_MARK: Final = Path("thrust", "version.h")
_SYSTEM: Final = Path("/usr")


def flags(toolkit: Path, program: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Options for mynvcc, in addition to those that `environment` has, by the name of their variable; none without the headers."""
    folder = next((found for found in _folders(toolkit, program, environment) if (found / _MARK).exists()), None)
    if folder is None:
        return {}
    option = f"-I{folder}"
    given = environment.get(VARIABLE, "")
    return {VARIABLE: given if option in _words(given) else f"{shlex.quote(option)} {given}".strip()}


def _words(given: str) -> list[str]:
    """Words of a shell; none of a text with a quote that does not end, which is mynvcc's to refuse."""
    try:
        return shlex.split(given)
    except ValueError:
        return []


def _folders(toolkit: Path, program: str, environment: Mapping[str, str]) -> Iterator[Path]:
    """Folders where mynvcc looks, too, and those of the Python that the program belongs to."""
    yield toolkit / "include" / "cccl"
    found = shutil.which(program, path=environment.get("PATH"))
    home = environment.get("HOME")
    for prefix in (
        environment.get("VIRTUAL_ENV"),
        Path(found).absolute().parent.parent if found else None,
        Path(home) / ".local" if home else None,
        _SYSTEM / "local",
        _SYSTEM,
    ):
        if prefix:
            yield from _of_wheels(Path(prefix))


def _of_wheels(prefix: Path) -> Iterator[Path]:
    """Folders of NVIDIA's wheels: since CUDA 13, the newest first, and earlier."""
    for packages in sorted(prefix.glob("lib/python3*/*-packages/nvidia"), reverse=True):
        yield from sorted(packages.glob("cu1*/include/cccl"), reverse=True)
        yield packages / "cuda_cccl" / "include"
