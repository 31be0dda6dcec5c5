"""Debian packages: a description, and the .deb file that dpkg-deb makes of it."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tools import installation
from tools.common import REPOSITORY, die
from virtio_proto.version import VERSION

PREFIX: Final = "usr"
QUICK: Final = ("-Zgzip", "-z1")
XZ: Final = ("-Zxz", "-z3")
"""Compression that older releases can read, too, unlike that which Ubuntu's dpkg-deb chooses."""
MAINTAINER: Final = "virtio-gpu-compute maintainers <maintainers@virtio-gpu-compute.example>"
CXX_LIBRARIES: Final = {30: "12", 31: "13.1", 32: "13.2", 33: "14"}
"""Releases of libstdc++ by the minor version of the first symbols that they brought (GLIBCXX_3.4.N) since release 12."""

ELF_MAGIC: Final = b"\x7fELF"
_CHANGELOG: Final = """{name} ({version}) unstable; urgency=medium

  * See CHANGELOG.md.gz beside this file.

 -- {maintainer}  Thu, 01 Jan 2026 00:00:00 +0000
"""
_COPYRIGHT: Final = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: virtio-gpu-compute

Files: *
Copyright: 2026 the maintainers of virtio-gpu-compute
License: Apache-2.0
 On Debian systems, the full text is in /usr/share/common-licenses/Apache-2.0.
"""
_BUNDLED: Final = """
Files: {folder}/*
Copyright: the authors of these Python packages, see below
License: as-stated-there
 The folders {folder}/*.dist-info state author and licence of each.
"""


@dataclass(frozen=True, slots=True)
class Package:
    """Debian package; `files` by their path below the root."""

    name: str
    summary: str
    description: str
    depends: Sequence[str]
    files: installation.Files
    section: str = "misc"
    architecture: str = ""
    """``all`` for a package without machine code; "": that of this machine."""
    fields: Sequence[str] = ()
    scripts: Sequence[tuple[str, str]] = ()
    """Maintainer scripts and other files of the control archive, with their texts."""
    bundled: str = ""
    """Folder with Python packages of others; "": it has no such packages."""
    overrides: Sequence[str] = ()
    """Tags of lintian that do not count, each as lintian prints it after the package's name."""

    @property
    def file_name(self) -> str:
        return f"{self.name}_{VERSION}_{self.architecture or architecture()}.deb"

    def control(self, size_bytes: int) -> str:
        """Returns the text of the control file."""
        lines = [
            f"Package: {self.name}",
            f"Version: {VERSION}",
            f"Architecture: {self.architecture or architecture()}",
            f"Maintainer: {MAINTAINER}",
            f"Section: {self.section}",
            "Priority: optional",
            f"Installed-Size: {-(-size_bytes // 1024)}",
            *([f"Depends: {', '.join(self.depends)}"] if self.depends else []),
            *self.fields,
            f"Description: {self.summary}",
            *(f" {line}" for line in self.description.splitlines()),
        ]
        return "\n".join(lines) + "\n"


def build(package: Package, folder: Path, *, compress: bool = True) -> Path:
    """Writes the .deb file of `package` into `folder`; returns its path. Compression takes most of the time."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        installation.install({**package.files, **_documents(package)}, root)
        contents = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
        for path in contents:
            _strip(path)
        control = root / "DEBIAN"
        control.mkdir()
        (control / "control").write_text(package.control(sum(path.stat().st_size for path in contents)))
        sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in contents]
        (control / "md5sums").write_text("".join(sums))
        scripts = dict(package.scripts)
        if conffiles := [f"/{path}\n" for path in sorted(package.files) if path.startswith("etc/")]:
            scripts["conffiles"] = "".join(conffiles)
        for name, text in scripts.items():
            (control / name).write_text(text)
            (control / name).chmod(0o755 if text.startswith("#!") else 0o644)
        for path in (root, *(path for path in root.rglob("*") if path.is_dir())):
            path.chmod(0o755)
        built = folder / package.file_name
        options = ("--root-owner-group", *(XZ if compress else QUICK))
        subprocess.run(["dpkg-deb", *options, "--build", root, built], stdout=subprocess.DEVNULL, check=True)
        return built


def _documents(package: Package) -> installation.Files:
    """Files that every package of Debian has."""
    licence = _COPYRIGHT
    if package.bundled:
        licence += _BUNDLED.format(folder=package.bundled)
    changes = _CHANGELOG.format(name=package.name, version=VERSION, maintainer=MAINTAINER)
    folder = f"{PREFIX}/share/doc/{package.name}"
    documents: dict[str, bytes] = {
        f"{folder}/copyright": licence.encode(),
        f"{folder}/changelog.gz": _packed(changes.encode()),
        f"{folder}/CHANGELOG.md.gz": _packed((REPOSITORY / "CHANGELOG.md").read_bytes()),
    }
    if package.overrides:
        lines = "".join(f"{package.name}: {tag}\n" for tag in package.overrides)
        documents[f"{PREFIX}/share/lintian/overrides/{package.name}"] = lines.encode()
    return documents


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def _strip(path: Path) -> None:
    """Removes symbols that only debuggers read. A file without them stays as it is: precompiled headers know their compiler by its digest."""
    if not _is_elf(path):
        return
    if ".symtab" in _printed("readelf", "--wide", "--section-headers", str(path)):
        subprocess.run(["strip", "--strip-unneeded", path], check=True)
    path.chmod(0o644 if ".so" in path.name else 0o755)


def below_prefix(files: installation.Files) -> dict[str, Path | installation.Link | bytes]:
    return {f"{PREFIX}/{name}": entry for name, entry in files.items()}


def libraries(files: installation.Files) -> list[str]:
    """Dependencies on the C and C++ libraries, as new as the programs and libraries among `files` need them."""
    binaries = [entry for entry in files.values() if isinstance(entry, Path) and _is_elf(entry)]
    if not binaries:
        return []
    done = subprocess.run(["objdump", "-T", *binaries], capture_output=True, text=True, check=False)
    symbols = done.stdout
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


@cache
def architecture() -> str:
    return _printed("dpkg", "--print-architecture")


@cache
def multiarch() -> str:
    return _printed("gcc", "-print-multiarch")


def _printed(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
