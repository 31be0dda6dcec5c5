"""Packages of guests.

==================  =====================================================================================
``libvgc1``         libvgc, the library of the device
``libvgc-dev``      its header and static library
``python3-vgc``     the Python package ``guest_driver``
``vgc-guest``       ``vgc``, the device at boot (systemd, udev), CUDA libraries that programs load
``vgc-mynvcc``      mynvcc with its headers and static libraries
``vgc-nvcc``        mynvcc by the name of nvcc, for programs whose builds call it so
==================  =====================================================================================

The files are those of `tools.installation`, with Debian's names of folders. They fit Debian and Ubuntu releases whose C and C++
libraries are at least as new as those of the machine that built them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools import installation
from tools.debs.package import PREFIX, Package, below_prefix, libraries, multiarch
from tools.installation import Layout, Link
from virtio_proto.version import VERSION

CLANGS: Final = " | ".join(["clang-19", "clang", *(f"clang-{version}" for version in range(18, 13, -1))])
OLD: Final = "virtio-gpu-compute-guest"
"""Package that had all of these files, but for the compiler's."""
REPLACES: Final = (f"Replaces: {OLD}, {OLD}-dev, {OLD}-nvcc", f"Conflicts: {OLD}, {OLD}-dev, {OLD}-nvcc")

PYTHON: Final = """#!/bin/sh
set -e
if [ "$1" = configure ] && command -v py3compile >/dev/null; then py3compile -p python3-vgc; fi
"""
CLEAN_PYTHON: Final = """#!/bin/sh
set -e
if command -v py3clean >/dev/null; then py3clean -p python3-vgc; fi
"""
CONFIGURE: Final = """#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemd-sysusers virtio-gpu-compute.conf || true
  systemctl daemon-reload || true
  udevadm control --reload || true
  udevadm trigger --action=add --subsystem-match=pci --attr-match=vendor=0x1af4 --attr-match=device=0x1066 || true
fi
"""
RELOAD: Final = """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
"""
PREPARE: Final = """#!/bin/sh
set -e
if [ "$1" = configure ]; then mynvcc --prepare 2>/dev/null || true; fi # else each user's first compilation does
"""
CLEAN_PREPARED: Final = """#!/bin/sh
set -e
rm -rf /usr/lib/vgc/cuda/prepared
"""
LDCONFIG: Final = ("triggers", "activate-noawait ldconfig\n")


def packages() -> list[Package]:
    """Describes the packages of the parts that were built."""
    layout = Layout(prefix=f"/{PREFIX}", libraries=f"lib/{multiarch()}", python="lib/python3/dist-packages")
    running = below_prefix(installation.runtime(layout))
    compiling = below_prefix(installation.development(layout))
    described = [_library(layout, running), _headers(layout, compiling), _python(layout, running)]
    described.append(_guest(running))
    if installation.has_toolkit():
        described += [_mynvcc(compiling), _nvcc(layout)]
    return described


def _taken(files: dict[str, Path | Link | bytes], wanted: Callable[[str], bool]) -> dict[str, Path | Link | bytes]:
    """Takes the files whose paths are `wanted` out of `files`."""
    return {name: files.pop(name) for name in sorted(files) if wanted(name)}


def _library(layout: Layout, running: dict[str, Path | Link | bytes]) -> Package:
    files = _taken(running, lambda name: name == f"{PREFIX}/{layout.libraries}/{installation.LIBRARY}")
    return Package(
        "libvgc1",
        "GPU computing on the host of this virtual machine - library",
        "Driver for the virtio device of virtio-gpu-compute, in user space: it needs no\nkernel module of its own.",
        libraries(files),
        files,
        section="libs",
        fields=("Multi-Arch: same", *REPLACES),
        scripts=[LDCONFIG, ("shlibs", f"libvgc 1 libvgc1 (>= {VERSION})\n")],
    )


def _headers(layout: Layout, compiling: dict[str, Path | Link | bytes]) -> Package:
    own = f"{PREFIX}/{layout.libraries}/"
    files = _taken(compiling, lambda name: name.startswith(own) or name == f"{PREFIX}/include/vgc.h")
    return Package(
        "libvgc-dev",
        "GPU computing on the host of this virtual machine - headers",
        "The header vgc.h, and libvgc to link with.",
        [f"libvgc1 (= {VERSION})"],
        files,
        section="libdevel",
        fields=("Multi-Arch: same", *REPLACES),
    )


def _python(layout: Layout, running: dict[str, Path | Link | bytes]) -> Package:
    files = _taken(running, lambda name: name.startswith(f"{PREFIX}/{layout.python}/"))
    return Package(
        "python3-vgc",
        "GPU computing on the host of this virtual machine - Python",
        "The Python package guest_driver: arrays and kernels on the host's GPU.",
        ["python3 (>= 3.11)", "python3-cffi", "python3-construct", f"libvgc1 (= {VERSION})"],
        files,
        section="python",
        fields=("Recommends: python3-numpy", *REPLACES),
        scripts=[("postinst", PYTHON), ("prerm", CLEAN_PYTHON)],
    )


def _guest(running: dict[str, Path | Link | bytes]) -> Package:
    files = running | {"etc/ld.so.conf.d/virtio-gpu-compute.conf": b"/usr/lib/vgc/cuda/lib64\n"}
    return Package(
        "vgc-guest",
        "GPU computing on the host of this virtual machine",
        "The command vgc, the device for users of the group vgc from boot on, and libraries\nthat CUDA programs load.",
        ["python3", f"python3-vgc (= {VERSION})", *libraries(files)],
        files,
        fields=REPLACES,
        scripts=[("postinst", CONFIGURE), ("postrm", RELOAD), LDCONFIG],
        overrides=("custom-library-search-path *", "package-modifies-ld.so-search-path *"),
    )


def _mynvcc(compiling: dict[str, Path | Link | bytes]) -> Package:
    return Package(
        "vgc-mynvcc",
        "compiler for CUDA programs in a virtual machine without a GPU",
        "The compiler mynvcc with CUDA's headers and static libraries. The host compiles the\npart for the GPU.",
        [f"vgc-guest (= {VERSION})", f"libvgc-dev (= {VERSION})", CLANGS, *libraries(compiling)],
        compiling,
        section="devel",
        fields=REPLACES,
        scripts=[("postinst", PREPARE), ("prerm", CLEAN_PREPARED)],
        # Scripts of the linker by the names of archives, which CMake looks for.
        overrides=("no-code-sections *", "unpack-message-for-deb-data *", "custom-library-search-path *"),
    )


def _nvcc(layout: Layout) -> Package:
    return Package(
        "vgc-nvcc",
        "mynvcc by the name of nvcc",
        "For programs whose builds call the compiler so.",
        [f"vgc-mynvcc (= {VERSION})"],
        {f"{PREFIX}/bin/nvcc": Link(f"../{layout.cuda}/bin/nvcc")},
        section="devel",
        architecture="all",
        fields=(REPLACES[0], f"{REPLACES[1]}, nvidia-cuda-toolkit"),
    )
