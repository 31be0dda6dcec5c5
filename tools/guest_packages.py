"""``make deb``: Debian packages of the guest's side, in build/packages/.

===================================  ==============================================================================
``virtio-gpu-compute-guest``         libvgc, ``vgc``, the Python packages, CUDA libraries that programs load
``virtio-gpu-compute-guest-dev``     vgc.h, static libraries, mynvcc with its headers
``virtio-gpu-compute-guest-nvcc``    mynvcc by the name of nvcc, for programs whose builds call it so
===================================  ==============================================================================

The files are those of `tools.installation`, with Debian's names of folders. dpkg-deb is all it takes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import installation
from tools.common import BUILD, REPOSITORY, die, say
from tools.installation import Layout, Link
from virtio_proto.version import VERSION

OUTPUT: Final = BUILD / "packages"
PREFIX: Final = "usr"
RUNTIME: Final = "virtio-gpu-compute-guest"
DEVELOPMENT: Final = f"{RUNTIME}-dev"
NVCC: Final = f"{RUNTIME}-nvcc"
MAINTAINER: Final = "virtio-gpu-compute <virtio-gpu-compute@localhost>"
CLANGS: Final = " | ".join(["clang-19", "clang", *(f"clang-{version}" for version in range(18, 13, -1))])
CXX_LIBRARIES: Final = {30: "12", 31: "13.1", 32: "13.2", 33: "14"}
"""Releases of libstdc++ by the minor version of the first symbols that they brought (GLIBCXX_3.4.N) since release 12."""

ELF_MAGIC: Final = b"\x7fELF"
CONFIGURE: Final = f"""#!/bin/sh
set -e
if [ "$1" = configure ] && command -v py3compile >/dev/null; then py3compile -p {RUNTIME}; fi
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemd-sysusers virtio-gpu-compute.conf || true
  systemctl daemon-reload || true
  udevadm control --reload || true
  udevadm trigger --action=add --subsystem-match=pci --attr-match=vendor=0x1af4 --attr-match=device=0x1066 || true
fi
"""
PREPARE: Final = """#!/bin/sh
set -e
if [ "$1" = configure ]; then mynvcc --prepare 2>/dev/null || true; fi # else each user's first compilation does
"""
CLEAN_PREPARED: Final = """#!/bin/sh
set -e
rm -rf /usr/lib/vgc/cuda/prepared
"""
CLEAN_PYTHON: Final = f"""#!/bin/sh
set -e
if command -v py3clean >/dev/null; then py3clean -p {RUNTIME}; fi
"""


@dataclass(frozen=True, slots=True)
class Package:
    """Debian package; `files` by their path below the root."""

    name: str
    summary: str
    description: str
    depends: Sequence[str]
    files: installation.Files
    fields: Sequence[str] = ()
    scripts: Sequence[tuple[str, str]] = ()
    """Maintainer scripts and other files of the control archive, with their texts."""

    @property
    def file_name(self) -> str:
        return f"{self.name}_{VERSION}_{_architecture()}.deb"

    def control(self, size_bytes: int) -> str:
        """Returns the text of the control file."""
        lines = [
            f"Package: {self.name}",
            f"Version: {VERSION}",
            f"Architecture: {_architecture()}",
            f"Maintainer: {MAINTAINER}",
            "Section: misc",
            "Priority: optional",
            f"Installed-Size: {-(-size_bytes // 1024)}",
            f"Depends: {', '.join(self.depends)}",
            *self.fields,
            f"Description: {self.summary}",
            *(f" {line}" for line in self.description.splitlines()),
        ]
        return "\n".join(lines) + "\n"


def packages() -> list[Package]:
    """Describes the packages of the parts that were built."""
    layout = Layout(prefix=f"/{PREFIX}", libraries=f"lib/{_multiarch()}", python="lib/python3/dist-packages")
    described = [_runtime(layout), _development(layout)]
    return [*described, _nvcc(layout)] if installation.has_toolkit() else described


def build(package: Package, folder: Path) -> Path:
    """Writes the .deb file of `package` into `folder`; returns its path."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        licence = {f"{PREFIX}/share/doc/{package.name}/copyright": REPOSITORY / "LICENSE"}
        installation.install({**package.files, **licence}, root)
        contents = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
        control = root / "DEBIAN"
        control.mkdir()
        (control / "control").write_text(package.control(sum(path.stat().st_size for path in contents)))
        sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in contents]
        (control / "md5sums").write_text("".join(sums))
        for name, text in package.scripts:
            (control / name).write_text(text)
            (control / name).chmod(0o755 if text.startswith("#!") else 0o644)
        for path in (root, *(path for path in root.rglob("*") if path.is_dir())):
            path.chmod(0o755)
        built = folder / package.file_name
        options = ("--root-owner-group", "-Zxz")  # xz: older releases cannot read what Ubuntu's dpkg-deb writes else
        subprocess.run(["dpkg-deb", *options, "--build", root, built], stdout=subprocess.DEVNULL, check=True)
        return built


def _runtime(layout: Layout) -> Package:
    files: dict[str, Path | Link | bytes] = _below_prefix(installation.runtime(layout))
    files["etc/ld.so.conf.d/virtio-gpu-compute.conf"] = f"/{PREFIX}/{layout.cuda}/lib64\n".encode()
    return Package(
        RUNTIME,
        "GPU computing on the host of this virtual machine",
        "Driver for the virtio device of virtio-gpu-compute: libvgc, the command vgc,\n"
        "Python bindings, and libraries of CUDA programs. It needs no kernel module of its own.",
        ["python3 (>= 3.11)", "python3-cffi", "python3-construct", *_libraries(files)],
        files,
        ["Recommends: python3-numpy"],
        [
            ("postinst", CONFIGURE),
            ("prerm", CLEAN_PYTHON),
            ("triggers", "activate-noawait ldconfig\n"),
            ("conffiles", "/etc/ld.so.conf.d/virtio-gpu-compute.conf\n"),
        ],
    )


def _development(layout: Layout) -> Package:
    files = _below_prefix(installation.development(layout))
    return Package(
        DEVELOPMENT,
        "compiler for CUDA programs in a virtual machine without a GPU",
        "The compiler mynvcc with CUDA's headers and static libraries, and vgc.h.",
        [f"{RUNTIME} (= {VERSION})", CLANGS, *_libraries(files)],
        files,
        scripts=[("postinst", PREPARE), ("prerm", CLEAN_PREPARED)],
    )


def _nvcc(layout: Layout) -> Package:
    return Package(
        NVCC,
        "mynvcc by the name of nvcc",
        "For programs whose builds call the compiler so.",
        [f"{DEVELOPMENT} (= {VERSION})"],
        {f"{PREFIX}/bin/nvcc": Link(f"../{layout.cuda}/bin/nvcc")},
        ["Conflicts: nvidia-cuda-toolkit"],
    )


def _below_prefix(files: installation.Files) -> dict[str, Path | Link | bytes]:
    return {f"{PREFIX}/{name}": entry for name, entry in files.items()}


def _libraries(files: installation.Files) -> list[str]:
    """Dependencies on the C and C++ libraries, as new as the programs and libraries among `files` need them."""
    binaries = [entry for entry in files.values() if isinstance(entry, Path) and _is_elf(entry)]
    if not binaries:
        return []
    symbols = subprocess.run(["objdump", "-T", *binaries], capture_output=True, text=True, check=True).stdout
    needed = [f"libc6 (>= 2.{_newest(re.findall(r'GLIBC_2[.]([0-9]+)', symbols))})"]
    if minors := re.findall(r"GLIBCXX_3[.]4[.]?([0-9]*)", symbols):
        newest = max(_newest(minors), min(CXX_LIBRARIES))
        if newest not in CXX_LIBRARIES:
            die(f"no release of libstdc++ is known for GLIBCXX_3.4.{newest}", hint="add it to CXX_LIBRARIES")
        needed += [f"libstdc++6 (>= {CXX_LIBRARIES[newest]})", "libgcc-s1"]
    return needed


def _newest(minors: Iterable[str]) -> int:
    return max(int(minor or 0) for minor in minors)


def _is_elf(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(ELF_MAGIC)) == ELF_MAGIC


def _architecture() -> str:
    return _printed("dpkg", "--print-architecture")


def _multiarch() -> str:
    return _printed("gcc", "-print-multiarch")


def _printed(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    if shutil.which("dpkg-deb") is None:
        die("there is no dpkg-deb here", hint="`make install-guest` installs the same files on any distribution")
    installation.build_parts()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for old in OUTPUT.glob("*.deb"):
        old.unlink()
    for package in packages():
        say(f"{build(package, OUTPUT).relative_to(REPOSITORY)}")
    if not installation.has_toolkit():
        say(f"without mynvcc: there is no CUDA toolkit at {installation.TOOLKIT.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
