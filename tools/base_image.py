"""Base of the guest image, read-only: Debian's kernel and packages, unpacked into an ext4 file system.

There are two, for guests that run programs and for those that compile them, too. Each lies in the cache and is rebuilt
only when this file or `tools.debian` changes.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import debian, ext4
from tools.common import cached, digest_of, say

SUITE: Final = "trixie"
KERNEL: Final = "linux-image-cloud-amd64"
PACKAGES: Final = (
    "busybox-static",
    "python3",
    "python3-cffi",
    "python3-construct",
    "python3-numpy",
    "python3-pil",
)
COMPILERS: Final = ("clang", "libomp-dev", "g++", "make", "cmake", "ccache")
"""Programs that build CUDA programs; clang brings the linker and the headers of C and C++ along, not OpenMP."""

ESSENTIALS: Final = (
    "bash",
    "coreutils",
    "dash",
    "diffutils",
    "dpkg",
    "findutils",
    "grep",
    "gzip",
    "libc-bin",
    "mawk",
    "sed",
    "tar",
)
"""Programs that every Debian has, and that Makefiles use in ways which busybox does not know."""

POWER_BUTTON: Final = ("drivers/acpi/button", "drivers/input/evdev")
"""Kernel modules that tell programs when the virtual machine's power button is pressed."""

EARLY_MODULES: Final = ("virtio_blk", "overlay")
"""Kernel modules in the initramfs, because mounting the base needs them; the others are loaded from the base."""

KEPT_MODULES: Final = ("drivers/uio", "drivers/block", "fs/overlayfs", *POWER_BUTTON)
UNUSED: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "boot")
ALTERNATIVES: Final = {"c++": "g++", "cc": "gcc"}
"""Names of programs that Debian links through update-alternatives."""


@dataclass(frozen=True, slots=True)
class Base:
    """Kind of base: `name` begins its folder's name in the cache."""

    name: str
    packages: tuple[str, ...]
    unused: tuple[str, ...]
    """Folders that its guests do without."""


RUNTIME: Final = Base("base", PACKAGES, (*UNUSED, "usr/include"))
DEVELOPMENT: Final = Base("development", (*PACKAGES, *COMPILERS, *ESSENTIALS), UNUSED)


def folder(base: Base = RUNTIME) -> Path:
    """Folder with kernel, early modules and base file system; built if this file or its helpers changed."""
    sources = [Path(module) for module in (__file__, debian.__file__, ext4.__file__)]
    made = f"the guest's {base.name} image from Debian {SUITE}"
    return cached(base.name, digest_of(sources), made, lambda built: _build(base, built))


def _build(base: Base, folder: Path) -> None:
    partial = folder.with_name(f"{base.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    root = partial / "root"
    with debian.private_apt(SUITE) as apt:
        kernel = apt.fetch_alone(apt.first_dependency(KERNEL))
        packages = apt.fetch(base.packages)
        say(f"unpacking {len(packages)} packages into a file system")
        debian.unpack([*packages, kernel], root)
    (vmlinuz,) = (root / "boot").glob("vmlinuz-*")
    shutil.copy(vmlinuz, partial / "vmlinuz")
    _keep_modules(root, partial / "modules")
    shutil.copy(root / "usr/bin/busybox", partial / "busybox")
    for name in base.unused:
        shutil.rmtree(root / name, ignore_errors=True)
    _finish_root(root)
    _compile_python(root)
    ext4.make(root, partial / "base.ext4")
    shutil.rmtree(root)
    partial.rename(folder)


def _keep_modules(root: Path, early: Path) -> None:
    """Drops kernel modules that our guests do not use; unpacks the others, because busybox reads only plain ones."""
    (release,) = (root / "usr/lib/modules").iterdir()
    wanted = tuple(str(release / "kernel" / name) for name in KEPT_MODULES)
    early.mkdir()
    for module in release.rglob("*.ko.xz"):
        if str(module).startswith(wanted):
            plain = module.with_suffix("")
            plain.write_bytes(lzma.decompress(module.read_bytes()))
            if plain.stem in EARLY_MODULES:
                shutil.copy(plain, early)
        module.unlink()
    subprocess.run([root / "usr/bin/busybox", "depmod", "-b", root, release.name], check=True)


def _finish_root(root: Path) -> None:
    """Does the parts of package scripts and an installer that the guest needs."""
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "etc"):
        (root / name).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    applets = subprocess.run([root / "usr/bin/busybox", "--list-full"], capture_output=True, text=True, check=True)
    for applet in applets.stdout.split():
        link = root / "usr" / applet.removeprefix("usr/")
        if not link.exists() and not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/usr/bin/busybox")
    for name, program in ALTERNATIVES.items():
        if (root / "usr/bin" / program).exists():
            (root / "usr/bin" / name).symlink_to(program)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    for name in ("blas", "lapack"):  # Debian finds these through update-alternatives
        for library in (libraries / name).glob("*.so.*"):
            (libraries / library.name).symlink_to(f"{name}/{library.name}")


def _compile_python(root: Path) -> None:
    """Byte-compiles Python modules with the guest's Python, which would else take seconds at every boot."""
    (python,) = (root / "usr/bin").glob("python3.[0-9]*")
    argv: list[str | Path] = [
        root / "lib64/ld-linux-x86-64.so.2",
        "--library-path",
        root / "usr/lib/x86_64-linux-gnu",
        python,
    ]
    argv += ["-m", "compileall", "-qq", "-s", root, "-p", "/", "--invalidation-mode", "unchecked-hash"]
    folders = [root / "usr/lib" / python.name, root / "usr/lib/python3/dist-packages"]
    subprocess.run([*argv, *folders], env={"PYTHONHOME": str(root / "usr")}, check=True)
