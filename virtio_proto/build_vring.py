"""Builds ``virtio_proto._vring``: both sides of a virtqueue for Python (tests, fuzzers, fakes).

``python -m virtio_proto.build_vring`` compiles it next to this file. ``VGC_SANITIZE=address,undefined`` builds
it with sanitizers; run it under the sanitizer's runtime.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig
import tempfile
from pathlib import Path

import cffi

from virtio_proto import codegen

PACKAGE_DIR = Path(__file__).resolve().parent
INCLUDE_DIR = PACKAGE_DIR / "include"
SOURCES = (PACKAGE_DIR / "src" / "vring.c",)


def cflags() -> list[str]:
    """Returns the compiler flags of the project's C extensions; ``VGC_SANITIZE`` names sanitizers."""
    common = ["-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    sanitizers = os.environ.get("VGC_SANITIZE")
    if not sanitizers:
        return ["-O2", *common]
    return [
        "-O1",
        *common,
        f"-fsanitize={sanitizers}",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
    ]


def ldflags() -> list[str]:
    """Returns the linker flags that go with :func:`cflags`."""
    sanitizers = os.environ.get("VGC_SANITIZE")
    return [f"-fsanitize={sanitizers}"] if sanitizers else []


def ffibuilder() -> cffi.FFI:
    """Describes the extension module, ready to compile."""
    ffi = cffi.FFI()
    ffi.cdef(codegen.cdef())
    ffi.cdef(codegen.declarations(INCLUDE_DIR / "vgc_vring.h"))
    ffi.set_source(
        "virtio_proto._vring",
        '#include "vgc_vring.h"\n',
        sources=[str(path) for path in SOURCES],
        include_dirs=[str(INCLUDE_DIR)],
        extra_compile_args=cflags(),
        extra_link_args=ldflags(),
    )
    return ffi


def compiled(ffi: cffi.FFI, folder: Path) -> Path:
    """Compiles `ffi` in `folder`; returns the extension module, which names no folder of this machine's libraries.

    Some Pythons have extensions linked with a search path of their own folders (pyenv does), which other machines lack. A linker
    that the environment names by LDSHARED stays as it is.
    """
    words = shlex.split(sysconfig.get_config_var("LDSHARED") or "")
    if words:
        os.environ.setdefault("LDSHARED", shlex.join(word for word in words if not word.startswith("-Wl,-rpath")))
    return Path(ffi.compile(tmpdir=str(folder)))


def compile_beside(ffi: cffi.FFI, package_dir: Path) -> Path:
    """Compiles `ffi` in a temporary folder and puts the extension module next to the package's sources."""
    with tempfile.TemporaryDirectory() as build_dir:
        built = compiled(ffi, Path(build_dir))
        fresh = package_dir / f".{built.name}.new"
        shutil.copy(built, fresh)
    return fresh.rename(package_dir / built.name)  # atomically: other processes may be importing the old module


def main() -> None:
    """Builds the extension module beside this file."""
    compile_beside(ffibuilder(), PACKAGE_DIR)


if __name__ == "__main__":
    main()
