"""Base of the guest image, read-only: Debian's kernel and packages, unpacked into an ext4 file system.

There are two for each machine (`tools.architecture`), for guests that run programs and for those that compile them, too.
Each lies in the cache and is rebuilt only when this file or one of its helpers changes.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import architecture, debian, ext4
from tools.architecture import X86_64, Architecture
from tools.common import cached, digest_of, say

SUITE: Final = "trixie"
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

EARLY_MODULES: Final = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "overlay")
"""Kernel modules in the initramfs, where the kernel does not have them built in, because mounting the base needs them; the
others are loaded from the base."""

BUSYBOX: Final = "usr/bin/busybox"
TOOLS: Final = ("busybox-static", "python3")
"""Packages that make the base of a machine whose programs do not run here: byte code is the same on all machines."""

NVDIMM: Final = ("drivers/acpi/nfit", "drivers/nvdimm", "drivers/dax")
"""Kernel modules of NVDIMMs, as which a guest may have its region, too."""

KEPT_MODULES: Final = ("drivers/uio", "drivers/block", "drivers/char/virtio_console", *POWER_BUTTON, *NVDIMM)
"""Kernel modules of the base, and folders of such, beside those that these and the early ones need."""

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


def folder(base: Base = RUNTIME, machine: Architecture = X86_64) -> Path:
    """Folder with kernel, early modules and base file system; built if this file or its helpers changed.

    Early modules are named ``00-NAME.ko``, ``01-NAME.ko`` and so on in the order in which they load.
    """
    sources = [Path(module) for module in (__file__, architecture.__file__, debian.__file__, ext4.__file__)]
    name = base.name if machine == X86_64 else f"{machine.name}-{base.name}"
    made = f"the guest's {name} image from Debian {SUITE}"
    return cached(name, digest_of(sources), made, lambda built: _build(base, machine, built))


def _build(base: Base, machine: Architecture, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    root, tools = partial / "root", partial / "tools"
    with debian.private_apt(SUITE, architecture=machine.debian) as apt:
        kernel = apt.fetch_alone(apt.first_dependency(machine.kernel))
        packages = apt.fetch(base.packages)
        say(f"unpacking {len(packages)} packages into a file system")
        debian.unpack([*packages, kernel], root)
    if machine == X86_64:
        tools = root
    else:
        with debian.private_apt(SUITE) as apt:
            debian.unpack(apt.fetch(TOOLS), tools)
    (vmlinuz,) = (root / "boot").glob("vmlinu[xz]-*")
    shutil.copy(vmlinuz, partial / "vmlinuz")
    _keep_modules(root, tools / BUSYBOX, partial / "modules")
    shutil.copy(root / BUSYBOX, partial / "busybox")
    _finish_root(root, tools / BUSYBOX, machine)
    _compile_python(root, tools)
    for name in base.unused:
        shutil.rmtree(root / name, ignore_errors=True)
    ext4.make(root, partial / "base.ext4")
    shutil.rmtree(root)
    shutil.rmtree(tools, ignore_errors=True)
    partial.rename(folder)


def _keep_modules(root: Path, busybox: Path, early: Path) -> None:
    """Drops kernel modules that our guests do not use; unpacks the others, because busybox reads only plain ones."""
    (release,) = (root / "usr/lib/modules").iterdir()
    for module in release.rglob("*.ko.xz"):
        module.with_suffix("").write_bytes(lzma.decompress(module.read_bytes()))
        module.unlink()
    depmod: list[str | Path] = [busybox, "depmod", "-b", root, release.name]
    subprocess.run(depmod, check=True)
    needs = _needs(release / "modules.dep")
    by_name = {Path(path).stem: path for path in needs}
    order = _with_needs([by_name[name] for name in EARLY_MODULES if name in by_name], needs)
    early.mkdir()
    for number, path in enumerate(order):
        shutil.copy(release / path, early / f"{number:02}-{Path(path).name}")
    wanted = tuple(f"kernel/{name}" for name in KEPT_MODULES)
    kept = {*order, *_with_needs([path for path in needs if path.startswith(wanted)], needs)}
    for path in needs.keys() - kept:
        (release / path).unlink()
    subprocess.run(depmod, check=True)


def _needs(listing: Path) -> dict[str, list[str]]:
    """Modules that each module needs, by their paths, from depmod's modules.dep."""
    pairs = (line.split(":", 1) for line in listing.read_text().splitlines())
    return {path: needed.split() for path, needed in pairs}


def _with_needs(paths: Iterable[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Modules and those that they need, in an order in which they load."""
    order: dict[str, None] = {}
    for path in paths:
        order |= dict.fromkeys([*_with_needs(needs[path], needs), path])
    return list(order)


def _finish_root(root: Path, busybox: Path, machine: Architecture) -> None:
    """Does the parts of package scripts and an installer that the guest needs."""
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "etc"):
        (root / name).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    applets = subprocess.run([busybox, "--list-full"], capture_output=True, text=True, check=True)
    for applet in applets.stdout.split():
        link = root / "usr" / applet.removeprefix("usr/")
        if not link.exists() and not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/usr/bin/busybox")
    for name, program in ALTERNATIVES.items():
        if (root / "usr/bin" / program).exists():
            (root / "usr/bin" / name).symlink_to(program)
    libraries = root / "usr/lib" / machine.triplet
    for name in ("blas", "lapack"):  # Debian finds these through update-alternatives
        for library in (libraries / name).glob("*.so.*"):
            (libraries / library.name).symlink_to(f"{name}/{library.name}")


def _compile_python(root: Path, tools: Path) -> None:
    """Byte-compiles the guest's Python modules, which would else take seconds at every boot, with the Python in `tools`."""
    (python,) = (tools / "usr/bin").glob("python3.[0-9]*")
    argv: list[str | Path] = [
        tools / "lib64/ld-linux-x86-64.so.2",
        "--library-path",
        tools / "usr/lib/x86_64-linux-gnu",
        python,
    ]
    argv += ["-m", "compileall", "-qq", "-s", root, "-p", "/", "--invalidation-mode", "unchecked-hash"]
    folders = [root / "usr/lib" / python.name, root / "usr/lib/python3/dist-packages"]
    subprocess.run([*argv, *folders], env={"PYTHONHOME": str(tools / "usr")}, check=True)
