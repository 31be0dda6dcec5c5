"""``python -m tools.frameworks``: a Python environment with frameworks that compute on GPUs, most without one of their own.

2 GB, for tests/protocol/test_frameworks.py, for tests/vm/test_frameworks.py, whose guests have it on a disk, and for the
nightly tests that compile tests/ptx/triton and examples/ptx anew; whatever else runs those needs the PTX that is kept in the
repository only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools import ext4
from tools.common import BUILD, REPOSITORY, cache_folder, locked, say

PACKAGES: Final = ("triton==3.9.0", "numba-cuda[cu13]==0.30.4", "tinygrad==0.14.0")
"""Frameworks, in the versions whose PTX is kept."""

SOURCES: Final = ("pycuda==2026.1",)
"""Frameworks that PyPI has as sources only. They are built with this toolkit, which their setup finds by its nvcc."""

LIGHT: Final = ("tinygrad", "numpy", "numpy.libs")
"""A framework that this Python has, too, by the extra `dev`, with what it needs: folders of packages."""

DISK_PYTHON: Final = Path("bin", "python3")
"""The interpreter on a guest's disk. It finds its modules from there, wherever the disk is mounted."""

DISK_LIBRARIES: Final = Path("lib")
"""The folder of the interpreter's own shared library, if it has one."""

_TOOLKIT: Final = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit"
_STAMP: Final = "\n".join(PACKAGES + SOURCES)
_PACKAGES: Final = Path("lib", f"python{sysconfig.get_python_version()}", "site-packages")
_UNUSED: Final = shutil.ignore_patterns("test", "idlelib", "config-3*", "site-packages", "dist-packages")


def _folder() -> Path:
    return cache_folder() / "frameworks"


def python(framework: str = "") -> Path | None:
    """The interpreter of an environment with `framework`, or with all of them. None if they are not installed, or in other
    versions.
    """
    stamp = _folder() / "packages"
    if stamp.exists() and stamp.read_text() == _STAMP:
        return _folder() / "bin" / "python"
    return Path(sys.executable) if framework in LIGHT else None


def install() -> None:
    """Makes the environment anew, unless it is there."""
    with locked(_folder().with_suffix(".lock")):
        if python() is not None:
            return
        say(f"installing {', '.join(PACKAGES + SOURCES)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", _folder()], check=True)
        with_toolkit = os.environ | {"PATH": f"{_TOOLKIT / 'bin'}:{os.environ['PATH']}"}
        for packages, environment in ((PACKAGES, os.environ), (SOURCES, with_toolkit)):
            words = [_folder() / "bin" / "pip", "install", "--quiet", *packages]
            subprocess.run(words, check=True, env=environment)
        (_folder() / "packages").write_text(_STAMP)


def disk() -> Path:
    """Image of a disk for guests with this Python and the environment; with `LIGHT` alone if that is not installed."""
    is_whole = python() is not None
    image = _folder() / "disk.ext4" if is_whole else BUILD / "frameworks.ext4"
    with locked(image.with_suffix(".lock")):
        if not image.exists():
            say("writing frameworks to a disk for guests")
            own = Path(sysconfig.get_path("purelib"))
            _write_disk(image, (_folder() / _PACKAGES).iterdir() if is_whole else [own / name for name in LIGHT])
    return image


def _write_disk(image: Path, packages: Iterable[Path]) -> None:
    root, partial = image.with_suffix(".files"), image.with_suffix(".partial")
    shutil.rmtree(root, ignore_errors=True)
    _copy_python(root)
    for package in packages:
        copy = root / _PACKAGES / package.name
        if package.is_dir():
            shutil.copytree(package, copy, symlinks=True, copy_function=os.link)
        else:
            copy.hardlink_to(package)
    ext4.make(root, partial)
    shutil.rmtree(root)
    partial.rename(image)


def _copy_python(root: Path) -> None:
    """Copies what the environment has of its own Python through links only."""
    prefix = Path(sys.base_prefix)
    for folder in (DISK_PYTHON.parent, _PACKAGES):
        (root / folder).mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), root / DISK_PYTHON)
    places = sysconfig.get_paths("posix_prefix", {"base": str(prefix), "installed_base": str(prefix)})
    for place in (Path(places["stdlib"]), Path(places["include"])):
        if place.exists():
            shutil.copytree(place, root / place.relative_to(prefix), symlinks=True, ignore=_UNUSED, dirs_exist_ok=True)
    library = prefix / "lib" / str(sysconfig.get_config_var("INSTSONAME"))
    if library.exists():
        shutil.copy2(library, root / DISK_LIBRARIES)


if __name__ == "__main__":
    install()
