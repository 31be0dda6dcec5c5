"""Machines and C libraries for which libvgc is built, and how their programs run here."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tools.common import BUILD
from tools.cross import make_libvgc

LIBVGC: Final = REPOSITORY / "guest_driver" / "libvgc"
WIRE: Final = REPOSITORY / "virtio_proto"
STRICT: Final = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine, or C library, as its compiler and what runs its programs."""

    name: str
    compiler: str
    package: str
    """Debian package of the compiler."""
    emulator: str = ""
    """Program that runs its programs; "" if this machine does."""
    archiver: str = "ar"

    def require(self) -> None:
        """Skips the test unless programs can be made and run."""
        if shutil.which(self.compiler) is None:
            pytest.skip(f"no {self.compiler} in PATH: install {self.package}")
        if self.emulator and shutil.which(self.emulator) is None:
            pytest.skip(f"no {self.emulator} in PATH: install qemu-user-static")

    def argv(self, program: Path) -> list[str]:
        """Command that runs a program that was linked statically."""
        return [self.emulator, str(program)] if self.emulator else [str(program)]

    def compile(self, output: Path, *sources: Path, flags: tuple[str, ...] = ()) -> Path:
        """Compiles a static program, with all warnings as errors."""
        includes = (f"-I{LIBVGC}", f"-I{WIRE / 'include'}")
        inputs = [*map(str, sources), "-static"]
        argv = [self.compiler, *STRICT, *includes, *flags, "-o", str(output), *inputs]
        subprocess.run(argv, check=True, timeout=HANGS_AFTER_S)
        return output

    def errors(self, source: Path) -> str:
        """Compiles a source that must not compile, and returns the compiler's messages."""
        argv = [self.compiler, *STRICT, f"-I{WIRE / 'include'}", "-fsyntax-only", str(source)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
        assert done.returncode != 0, f"{source} compiles"
        return done.stderr

    def run(self, program: Path, *arguments: str, stdin: bytes = b"") -> bytes:
        """Runs a static program, and returns what it prints.

        :raise AssertionError: its exit status is not 0; the text is what it has printed.
        """
        done = subprocess.run(
            [*self.argv(program), *arguments],
            check=False,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=HANGS_AFTER_S,
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        )
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
        return done.stdout

    def libvgc(self, variant: str = "", flags: str = "") -> Path:
        """Builds libvgc, if a source of it has changed, and returns the folder with libvgc.a and libvgc.so."""
        return self._make(f"-{variant}" if variant else "", f"CFLAGS={flags}")

    def portable_libvgc(self, flags: str = "") -> Path:
        """Builds the libvgc.so that runs with old versions of glibc, likewise.

        :raise subprocess.CalledProcessError: the C library is a different one.
        """
        return self._make("-portable", "PORTABLE=1", f"CFLAGS={flags}")

    def _make(self, suffix: str, *variables: str) -> Path:
        folder = BUILD / "ports" / f"{self.name}{suffix}"
        make_libvgc(folder, self.compiler, self.archiver, "SANITIZE=", *variables)
        return folder


def _debian(name: str, triplet: str) -> Machine:
    return Machine(name, f"{triplet}-gcc", f"gcc-{triplet}", f"qemu-{name}-static", f"{triplet}-ar")


MACHINES: Final = {
    machine.name: machine
    for machine in (
        Machine("x86_64", "gcc", "gcc"),
        Machine("musl", "musl-gcc", "musl-tools"),
        _debian("aarch64", "aarch64-linux-gnu"),
        _debian("riscv64", "riscv64-linux-gnu"),
        _debian("s390x", "s390x-linux-gnu"),
    )
}
"""Machines by name: this one, this one with another C library, and others; s390x is big-endian."""
