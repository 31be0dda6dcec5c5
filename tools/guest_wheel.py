"""``make guest-wheel``: the guest's driver as a wheel, in build/packages/: libvgc, the Python binding, ``vgc``.

For guests whose Python packages come by pip. It has neither mynvcc nor CUDA's libraries, which `make install-guest` and the
Debian packages bring.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from tools import installation
from tools.common import BUILD, REPOSITORY, die, say
from virtio_proto.version import VERSION

OUTPUT: Final = BUILD / "packages"
NAME: Final = "virtio-gpu-compute-guest"
_LIBRARY: Final = "libvgc/build/libvgc.so"
_DATA: Final = ("py.typed", "libvgc/vgc.h", _LIBRARY)
"""Files of guest_driver that are no Python."""

_OLDEST_GLIBC: Final = {"x86_64": "2_17", "aarch64": "2_17", "s390x": "2_17", "riscv64": "2_27"}
"""Version with which the portable libvgc runs (guest_driver/libvgc/portable.h), by machine, as platform tags have it."""

_PROJECT: Final = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "GPU computing on the host of this virtual machine: libvgc, its Python binding, and vgc"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["cffi>=1.15", "construct>=2.10"]

[project.optional-dependencies]
arrays = ["numpy"]

[project.scripts]
vgc = "guest_driver.cli:main"

[tool.setuptools]
packages = {packages}

[tool.setuptools.package-data]
guest_driver = {data}
"""


def _portable(scratch: Path) -> tuple[Path, str]:
    """Path of a libvgc.so for other systems, and pip's tag of those. Where the C library is not glibc, it is the one that was
    built for this system.
    """
    oldest = _OLDEST_GLIBC.get(platform.machine())
    if oldest is None or platform.libc_ver()[0] != "glibc":
        return installation.GUEST / _LIBRARY, sysconfig.get_platform().replace("-", "_").replace(".", "_")
    argv = ["make", "-s", f"-j{os.cpu_count() or 1}", "-C", str(installation.GUEST / "libvgc")]
    subprocess.run([*argv, "PORTABLE=1", f"BUILD={scratch}"], check=True)
    return scratch / "libvgc.so", f"manylinux_{oldest}_{platform.machine()}"


def build(folder: Path) -> Path:
    """Writes the wheel into `folder`; returns its path. libvgc must have been built."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        library, system = _portable(Path(scratch) / "libvgc")
        sources = list(installation.python_files())
        for path in [*sources, *(installation.GUEST / name for name in _DATA)]:
            copy = tree / path.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(library if path == installation.GUEST / _LIBRARY else path, copy)
        shutil.copyfile(REPOSITORY / "docs" / "guest.md", tree / "README.md")
        packages = sorted({".".join(path.relative_to(REPOSITORY).parent.parts) for path in sources})
        text = _PROJECT.format(name=NAME, version=VERSION, packages=packages, data=list(_DATA))
        (tree / "pyproject.toml").write_text(text)
        settings = f"--config-settings=--build-option=--plat-name={system}"  # any Python's, but this machine's library
        argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", settings, "."]
        made = tree / "wheel"
        subprocess.run([*argv, "--wheel-dir", str(made)], cwd=tree, check=True)
        (wheel,) = made.glob("*.whl")
        return Path(shutil.copy(wheel, folder / wheel.name))


def main() -> None:
    installation.build_parts()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for old in OUTPUT.glob("*.whl"):
        old.unlink()
    try:
        say(f"{build(OUTPUT).relative_to(REPOSITORY)}")
    except subprocess.CalledProcessError as error:
        die(f"the wheel was not built: {error}", hint="it takes pip and setuptools, as in the project's environment")


if __name__ == "__main__":
    main()
