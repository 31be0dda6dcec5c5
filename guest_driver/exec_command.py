"""``vgc exec``: runs a program with this toolkit's CUDA in front of NVIDIA's.

Python packages bring libraries of NVIDIA's that look for NVIDIA's driver, and open them by name before they look
elsewhere. A library of that name that is loaded already is taken in their place.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from guest_driver import doctor, exec_headers
from guest_driver.errors import InvalidArgument

HELP: Final = """Runs a program that finds libcuda, NVRTC, nvJitLink, the CUDA runtime, nvcc and ptxas of this toolkit, also if
its packages bring NVIDIA's own, for example:

    vgc exec python train.py
    vgc exec --cuda 12 ./program   for CUDA 12; others are for CUDA 13
    vgc exec --show                what is set for the program, for a shell: eval "$(vgc exec --show)"
"""
_BUILT: Final = Path(__file__).parent / "cuda" / "build" / "toolkit"
_MARK: Final = Path("lib64") / "libcuda.so.1"
RELEASES: Final = ("13", "12")
"""Releases of CUDA for which programs are built; the first counts unless told otherwise."""
_LOADED: Final = ("libcudart.so.{0}", "libcuda.so.1", "libnvrtc.so.{0}", "libnvJitLink.so.{0}")
"""Libraries that are loaded with the program; others are found by their folder."""
_SEPARATORS: Final = " :;$"
"""Characters that the loader's lists of paths cannot have within a path."""
_SEARCH: Final = "libvgc_search.so"
"""Has the loader take libraries of the toolkit also where a package names the path of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what `vgc exec` understands."""
    parser.add_argument("--show", action="store_true", help="print what is set for programs, for a shell, and run none")
    add_program(parser)


def add_program(parser: argparse.ArgumentParser) -> None:
    """Adds a program, and the release of CUDA that it is for."""
    parser.add_argument(
        "--cuda",
        choices=RELEASES,
        default=RELEASES[0],
        help="release of CUDA that the program is for (default: %(default)s)",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")


def toolkit(folders: Sequence[Path] = (*doctor.TOOLKITS, _BUILT)) -> Path:
    """The folder of this toolkit: that of ``$VGC_TOOLKIT``, or the first of `folders` that has the library of the driver API.

    :raise InvalidArgument: it is not installed, or in a folder that no list of the loader's can name.
    """
    named = os.environ.get("VGC_TOOLKIT")
    for folder in [Path(named).absolute()] if named else folders:
        if (folder / _MARK).exists():
            return _nameable(folder)
    places = named or ", ".join(map(str, folders))
    if named is None and platform.machine() != doctor.TOOLKIT_MACHINE:
        raise InvalidArgument(
            f"this toolkit's libraries are for {doctor.TOOLKIT_MACHINE} alone, and this machine is {platform.machine()}; "
            "allowed here: programs of libvgc and of the Python package"
        )
    raise InvalidArgument(
        f"this toolkit's {_MARK} is not in {places}: install it (make install-guest in the project's folder, or the package"
        " vgc-guest), or name the toolkit's folder in $VGC_TOOLKIT"
    )


def _nameable(folder: Path) -> Path:
    found = [mark for mark in _SEPARATORS if mark in str(folder)]
    if found:
        raise InvalidArgument(
            f"the toolkit's folder is {str(folder)!r}, and the loader's lists of libraries end a path at {found[0]!r}: move it,"
            " or name a link to it in $VGC_TOOLKIT"
        )
    return folder


def settings(folder: Path, release: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for a program built for a release of CUDA, which is to find the toolkit in `folder`, in addition to those of
    `environment`.
    """
    libraries = folder / "lib64"
    loaded = [str(path) for name in _LOADED if (path := libraries / name.format(release)).exists()]
    ptxas = str(folder / "bin" / "ptxas")
    search = libraries / _SEARCH
    return {
        "PATH": _before(str(folder / "bin"), environment.get("PATH", os.defpath)),
        "LD_LIBRARY_PATH": _before(str(libraries), environment.get("LD_LIBRARY_PATH", "")),
        "LD_PRELOAD": _before(":".join(loaded), environment.get("LD_PRELOAD", "")),
        **({"LD_AUDIT": _before(str(search), environment.get("LD_AUDIT", ""))} if search.exists() else {}),
        # This toolkit's cuDNN has no attention, which PyTorch would leave to it on some GPUs.
        "TORCH_CUDNN_SDPA_DEPRIORITIZED": environment.get("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1"),
        "CUDA_HOME": str(folder),
        "CUDA_PATH": str(folder),
        "TRITON_PTXAS_PATH": ptxas,
        "TRITON_PTXAS_BLACKWELL_PATH": ptxas,
        "TRITON_LIBCUDA_PATH": str(libraries),
    }


def _before(first: str, rest: str) -> str:
    """A list of paths with one more in front, unless it is there already."""
    return rest if rest == first or rest.startswith(f"{first}:") else f"{first}:{rest}" if rest else first


def show(release: str) -> str:
    """Commands for a shell that set the variables."""
    found = _all_settings("", release)
    return "\n".join(f"export {name}={_quoted(value)}" for name, value in found.items())


def _quoted(text: str) -> str:
    """A word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _all_settings(program: str, release: str) -> dict[str, str]:
    folder = toolkit()
    return settings(folder, release, os.environ) | exec_headers.flags(folder, program, os.environ)


def run(program: Sequence[str], release: str) -> int:
    """Runs a program in this process's place; returns only if it cannot.

    :raise InvalidArgument: no program is given, or it does not exist.
    """
    if not program:
        raise InvalidArgument("no program; allowed: vgc exec python train.py")
    environment = dict(os.environ) | _all_settings(program[0], release)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, which the program would inherit
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(program[0], list(program), environment)  # noqa: S606  what the user asks for
    except OSError as error:
        raise cannot_run(program[0], error) from error


def cannot_run(program: str, error: OSError) -> InvalidArgument:
    """The error of a program that did not start. Distributions have a `python` in virtual environments alone."""
    is_named_otherwise = (
        program == "python" and isinstance(error, FileNotFoundError) and shutil.which("python3") is not None
    )
    hint = "; there is python3" if is_named_otherwise else ""
    return InvalidArgument(f"cannot run {program}: {error.strerror}{hint}")
