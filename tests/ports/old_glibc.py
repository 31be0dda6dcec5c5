"""Programs with glibc 2.31, of Debian 11, the oldest that Debian's mirrors still have; they run beside this machine's."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.limits import HANGS_AFTER_S
from tests.ports.machines import LIBVGC, STRICT
from tools import debian
from tools.common import cached, digest_of

SUITE: Final = "bullseye"
VERSION: Final = "2.31"
PACKAGES: Final = ("libc6", "libc6-dev", "linux-libc-dev")


@dataclass(frozen=True, slots=True)
class OldGlibc:
    """Folder with the C library, its headers and its loader."""

    root: Path

    @property
    def libraries(self) -> Path:
        """Folder of the shared libraries."""
        return self.root / "lib/x86_64-linux-gnu"

    @property
    def loader(self) -> Path:
        """Loader of programs."""
        return self.libraries / f"ld-{VERSION}.so"

    def compile(self, output: Path, source: Path, libvgc: Path) -> Path:
        """Links a program with this C library and the libvgc.so in `libvgc`; nothing of this machine's C library gets in."""
        headers = subprocess.run(
            ["gcc", "-print-file-name=include"], check=True, capture_output=True, text=True, timeout=HANGS_AFTER_S
        ).stdout.strip()
        places = [headers, self.root / "usr/include", self.root / "usr/include/x86_64-linux-gnu"]
        searched = [word for place in places for word in ("-isystem", str(place))]
        parts = self.root / "usr/lib/x86_64-linux-gnu"
        own = [self.libraries / "libpthread.so.0", self.libraries / "libc.so.6", parts / "libc_nonshared.a"]
        argv = ["gcc", *STRICT, "-nostdinc", *searched, f"-I{LIBVGC}", "-nostdlib", "-no-pie", "-o", str(output)]
        argv += [str(parts / "crt1.o"), str(parts / "crti.o"), str(source), str(libvgc / "libvgc.so"), *map(str, own)]
        argv += [str(self.loader), f"-Wl,-rpath-link,{self.libraries}", str(parts / "crtn.o")]
        subprocess.run(argv, check=True, timeout=HANGS_AFTER_S)
        return output

    def argv(self, program: Path, libvgc: Path) -> list[str]:
        """Command that runs a program with this C library and the libvgc.so.1 in `libvgc`."""
        return [str(self.loader), "--library-path", f"{self.libraries}:{libvgc}", str(program)]


def old_glibc() -> OldGlibc:
    """Downloads the packages when it is first needed, and keeps them in the cache."""
    sources = [Path(__file__), Path(debian.__file__)]
    return OldGlibc(cached("old-glibc", digest_of(sources), f"a folder with Debian {SUITE}'s C library", _fetch))


def _fetch(built: Path) -> None:
    root = built.with_name("old-glibc.partial")
    shutil.rmtree(root, ignore_errors=True)
    with debian.private_apt(SUITE) as apt:
        debian.unpack([apt.fetch_alone(name) for name in PACKAGES], root)
    root.rename(built)
