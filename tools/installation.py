"""``make install-guest``: files of the guest's side of the project, and their places below a prefix.

The guest image, ``make install-guest`` and the Debian packages take them from here. Standard library only, so that a
guest needs no Python environment to install them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import build
from tools.common import REPOSITORY, die, say
from virtio_proto.version import VERSION

GUEST: Final = REPOSITORY / "guest_driver"
TOOLKIT: Final = GUEST / "cuda" / "build" / "toolkit"
PYTHON_PACKAGES: Final = ("guest_driver", "virtio_proto")
NOT_PYTHON: Final = GUEST / "cuda"
"""Folder in a Python package of the guest whose Python files only build the CUDA toolkit."""

VGC: Final = """#!/bin/sh
# Command of the driver: runs the Python package that was installed with it. In a virtual environment, whose Python may
# lack what the package needs, it runs by the distribution's. The programs that it runs see neither this choice nor the folder.
self=$(readlink -f "$0")
exec python3 -c '
import os, sys
folder, distribution = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, folder)
try:
    from guest_driver.cli import main
except ImportError as error:
    if os.access(distribution, os.X_OK):
        code = sys.orig_argv[sys.orig_argv.index("-c") + 1]
        os.execv(distribution, [distribution, "-c", code, folder, "", *sys.argv[1:]])
    sys.exit(f"vgc: Python lacks {{error.name}}; Debian: apt-get install python3-cffi python3-construct")
sys.exit(main())
' "${{self%/*}}/{python}" /usr/bin/python3 "$@"
"""


@dataclass(frozen=True, slots=True)
class Link:
    """Symbolic link; `target` is relative to the link's folder."""

    target: str


LIBRARY: Final = "libvgc.so.1"
"""Name by which programs find libvgc when they run."""

GROUP: Final = "vgc"
"""Group of the users who may use the device, once the boot-time unit has given it to them."""

UNIT: Final = """[Unit]
Description=Give the group {group} the virtio-gpu-compute devices of this VM
Wants=modprobe@uio_pci_generic.service
After=modprobe@uio_pci_generic.service systemd-modules-load.service systemd-sysusers.service

[Service]
Type=oneshot
ExecStart={prefix}/bin/vgc grant {group}
# The kernel shows all of a function's configuration space to CAP_SYS_ADMIN alone; the others give files to a group, also those
# of its members.
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE
NoNewPrivileges=yes
# Writes to sysfs and to the state of devices, nowhere else.
ProtectSystem=strict
ReadWritePaths=/run
DevicePolicy=closed
DeviceAllow=char-uio rw
DeviceAllow=char-dax rw
ProtectHome=read-only
PrivateTmp=yes
PrivateMounts=yes
PrivateNetwork=yes
RestrictAddressFamilies=none
IPAddressDeny=any
RestrictNamespaces=yes
SystemCallFilter=@system-service
SystemCallFilter=~@resources
SystemCallErrorNumber=EPERM
SystemCallArchitectures=native
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
ProcSubset=pid
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
KeyringMode=private
UMask=0077
"""
"""The rules of udev start it."""

RULES: Final = """# virtio-gpu-compute: a device that arrives is given to the group {group}, as at boot.
ACTION=="add", SUBSYSTEM=="pci", ATTR{{vendor}}=="0x1af4", ATTR{{device}}=="0x1066", TAG+="systemd", \
  ENV{{SYSTEMD_WANTS}}+="vgc-grant.service"
SUBSYSTEM=="uio", ATTRS{{vendor}}=="0x1af4", ATTRS{{device}}=="0x1066", GROUP="{group}", MODE="0660"
"""

PKG_CONFIG: Final = """prefix={prefix}
libdir=${{prefix}}/{libraries}
includedir=${{prefix}}/include

Name: vgc
Description: GPU computing on the host of this virtual machine
Version: {version}
Libs: -L${{libdir}} -lvgc
Libs.private: -pthread
Cflags: -I${{includedir}}
"""

Files = Mapping[str, "Path | Link | bytes"]
"""Files by their path below the prefix: a file here (or a folder, which is made empty), a link, or a text."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Folders below the prefix, which distributions name differently."""

    prefix: str = "/usr/local"
    """The prefix itself, as files that are installed name it."""
    libraries: str = "lib"
    python: str = "lib/vgc/python"
    cuda: str = "lib/vgc/cuda"
    """The CUDA toolkit as a whole: `bin`, `include`, `lib64`."""


@dataclass(frozen=True, slots=True)
class Built:
    """Folders of what was compiled for a guest's machine."""

    libvgc: Path
    toolkit: Path | None
    """None: it was not built for this machine."""


def built_here() -> Built:
    """Folders of what is compiled in place, for this machine."""
    return Built(GUEST / "libvgc" / "build", TOOLKIT)


def runtime(layout: Layout, built: Built | None = None) -> Files:
    """Files that running programs need: libvgc, `vgc`, the Python packages, libraries of the CUDA toolkit.

    `built`: None for what is compiled in place.
    """
    built = built or built_here()
    library = f"{layout.libraries}/{LIBRARY}"
    package = f"{layout.python}/guest_driver/libvgc"
    python = os.path.relpath(layout.python, "bin")
    files: dict[str, Path | Link | bytes] = {
        library: built.libvgc / "libvgc.so",
        f"{package}/vgc.h": GUEST / "libvgc" / "vgc.h",
        f"{package}/build/libvgc.so": Link(os.path.relpath(library, f"{package}/build")),
        f"{layout.python}/guest_driver/py.typed": GUEST / "py.typed",
        "bin/vgc": VGC.format(python=python).encode(),
        "lib/systemd/system/vgc-grant.service": UNIT.format(group=GROUP, prefix=layout.prefix).encode(),
        "lib/udev/rules.d/70-virtio-gpu-compute.rules": RULES.format(group=GROUP).encode(),
        "lib/sysusers.d/virtio-gpu-compute.conf": f"g {GROUP} -\n".encode(),
        "lib/modules-load.d/virtio-gpu-compute.conf": b"uio_pci_generic\n",
    }
    files |= {f"{layout.python}/{path.relative_to(REPOSITORY)}": path for path in python_files()}
    return files | {path: entry for path, entry in _toolkit(layout, built) if _is_for_running(path)}


def python_files() -> Iterator[Path]:
    """Python files that a guest needs."""
    for name in PYTHON_PACKAGES:
        yield from (path for path in sorted((REPOSITORY / name).rglob("*.py")) if not path.is_relative_to(NOT_PYTHON))


def development(layout: Layout, built: Built | None = None, *, nvcc: bool = False) -> Files:
    """Files that only compiling programs need: vgc.h, static libraries, mynvcc; with `nvcc`, also by that name.

    `built`: None for what is compiled in place.
    """
    built = built or built_here()
    files: dict[str, Path | Link | bytes] = {
        "include/vgc.h": GUEST / "libvgc" / "vgc.h",
        f"{layout.libraries}/libvgc.so": Link(LIBRARY),
        f"{layout.libraries}/libvgc.a": built.libvgc / "libvgc.a",
        f"{layout.libraries}/pkgconfig/vgc.pc": PKG_CONFIG.format(
            prefix=layout.prefix, libraries=layout.libraries, version=VERSION
        ).encode(),
    }
    files |= {path: entry for path, entry in _toolkit(layout, built) if not _is_for_running(path)}
    for name in ("mynvcc", *(["nvcc"] if nvcc else [])):
        if f"{layout.cuda}/bin/{name}" in files:
            files[f"bin/{name}"] = Link(os.path.relpath(f"{layout.cuda}/bin/{name}", "bin"))
    return files


def has_toolkit() -> bool:
    """Tells if the CUDA toolkit was built."""
    return (TOOLKIT / "bin" / "mynvcc").exists()


def install(files: Files, root: Path) -> None:
    """Writes `files` below `root`. A file that is there already is replaced whole: a running program keeps its own."""
    for name, entry in files.items():
        path = root / name
        if isinstance(entry, Path) and entry.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.new")
        partial.unlink(missing_ok=True)
        match entry:
            case Link(target):
                partial.symlink_to(target)
            case Path():
                shutil.copyfile(entry, partial)
                partial.chmod(mode(entry))
            case bytes():
                partial.write_bytes(entry)
                partial.chmod(mode(entry))
        partial.replace(path)


def mode(entry: Path | bytes) -> int:
    """Permissions of an installed file: everybody reads it, and runs it if it is a script or can be run here."""
    if isinstance(entry, bytes):
        return 0o755 if entry.startswith(b"#!") else 0o644
    return 0o644 | entry.stat().st_mode & 0o111


def build_parts() -> None:
    """Builds the C and C++ parts of the guest's side."""
    for part in build.PARTS:
        if part.script.startswith("guest_driver/") and not build.bring_up_to_date(part):
            die(f"the {part.name} did not build", hint="it takes make, a C and a C++ compiler (Debian: make g++)")


def _is_for_running(path: str) -> bool:
    """True for shared libraries, and for the assembler, which frameworks run."""
    return ".so" in Path(path).name or Path(path).name == "ptxas"


def _toolkit(layout: Layout, built: Built) -> Iterator[tuple[str, Path | Link]]:
    """Files and empty folders of the CUDA toolkit. Its links stay links, but what they lead to outside is copied."""
    if built.toolkit is None:
        return
    top = built.toolkit.resolve()
    folders = [top] if top.is_dir() else []
    while folders:
        for path in sorted(folders.pop().iterdir()):
            name = f"{layout.cuda}/{path.relative_to(top)}"
            if path.name.startswith("."):
                continue  # settings of the tools that format these headers
            if path.is_symlink() and path.resolve().is_relative_to(top):
                yield name, Link(os.path.relpath(path.resolve(), path.parent))
            elif path.is_dir() and any(path.iterdir()):
                folders.append(path)
            else:
                yield name, path


def prepare(toolkit: Path) -> None:
    """Precompiles CUDA's headers for all users: a first compilation takes long in a guest without KVM."""
    done = subprocess.run([toolkit / "bin" / "mynvcc", "--prepare"], check=False, capture_output=True, text=True)
    if done.returncode == 0:
        say("CUDA's headers are precompiled")
    else:
        say(f"CUDA's headers are not precompiled, so each user's first compilation is slow: {done.stderr.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools.installation", description=__doc__)
    parser.add_argument("--prefix", type=Path, default=Path("/usr/local"), help="default: %(default)s")
    parser.add_argument("--destdir", default="", help="folder that is the guest's root; default: this machine's")
    parser.add_argument("--nvcc", action="store_true", help="install mynvcc as nvcc, too")
    arguments = parser.parse_args()
    build_parts()
    root = Path(f"{arguments.destdir}{arguments.prefix.absolute()}")
    layout = Layout(prefix=str(arguments.prefix.absolute()))
    files = {**runtime(layout), **development(layout, nvcc=arguments.nvcc)}
    try:
        install(files, root)
    except PermissionError as error:
        die(str(error), hint="as root, or with PREFIX=$HOME/.local")
    say(f"{len(files)} files installed in {root}")
    if has_toolkit() and not arguments.destdir:
        prepare(root / Layout().cuda)
    if not has_toolkit():
        say(f"without mynvcc: there is no CUDA toolkit at {TOOLKIT.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
