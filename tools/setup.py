"""Prepares a bare Debian 12 or 13: packages, then a Python environment in ``.venv``. Standard library only.

``python3 -m tools.setup`` installs only missing packages, and asks for root rights only if packages are missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from tools.common import REPOSITORY, die, say

VENV: Final = REPOSITORY / ".venv"
OLDEST_PYTHON: Final = (3, 11)
PACKAGES: Final = {
    "clang-19": "compiles the CPU engine's compiler; headers of kernels",
    "llvm-19-dev": "code generator in that compiler",
    "libclang-19-dev": "front end in it",
    "liblld-19-dev": "linker in it",
    "lld-19": "links it",
    "zlib1g-dev": "library of LLVM",
    "libzstd-dev": "library of LLVM",
    "libclang-rt-19-dev": "functions that compiled kernels call; sanitizers and libFuzzer",
    "clang-format-19": "make check",
    "git": "lists the sources to check and to mirror",
    "gcc": "C extension modules",
    "g++": "C++ headers of the programs that the CPU engine compiles; baselines of the benchmarks",
    "libc6-dev": "C headers, of these programs too",
    "make": "built-in functions, guest's libraries",
    "gcc-mingw-w64-x86-64-posix": "guest's library for Windows",
    "wine64": "its tests",
    "libhwy-dev": "sorting in built-in functions",
    "librandom123-dev": "random numbers in them",
    "chromium": "tests of the control centre's page",
    "fonts-dejavu-core": "text in it",
    "postgresql": "tests of recordings in PostgreSQL",
    "prometheus": "promtool, for tests of the alert rules",
    "e2fsprogs": "the guest's file system",
    "dpkg": "unpacks the guest's packages",
    "debian-archive-keyring": "authenticates the guest's packages",
    "ca-certificates": "pip",
    "systemd": "tests of the shipped units",
    "lintian": "tests of the Debian packages",
    "apparmor": "tests of the rules for AppArmor that are shipped",
    "checkpolicy": "tests of the policy module for SELinux",
    "libvirt-dev": "libvirt's Python package",
    "pkgconf": "finds it",
    "mmdebstrap": "the disk image for clouds of a test of the guest's packages",
    "qemu-utils": "the same",
    "uidmap": "tests of a daemon that is not root",
    "gcc-aarch64-linux-gnu": "libvgc for other machines, in tests",
    "libc6-dev-arm64-cross": "C headers there",
    "gcc-riscv64-linux-gnu": "likewise",
    "libc6-dev-riscv64-cross": "likewise",
    "gcc-s390x-linux-gnu": "likewise; this one is big-endian",
    "libc6-dev-s390x-cross": "likewise",
    "qemu-user-static": "runs it",
    "musl-tools": "libvgc with another C library, in tests",
    "bubblewrap": "containers in guests, in tests",
}
SYSTEM_PYTHON_PACKAGES: Final = {
    "python3-venv": "the Python environment",
    "python3-dev": "C extension modules",
}
"""Packages that only Debian's Python needs; other builds of Python include their contents."""


def main() -> None:
    if sys.version_info < OLDEST_PYTHON:
        die(f"this is Python {sys.version.split()[0]}", hint="Python 3.11 or newer is needed; Debian 12 has it")
    install_packages()
    make_environment()


def install_packages() -> None:
    """Installs the Debian packages that are missing."""
    wanted = PACKAGES | (SYSTEM_PYTHON_PACKAGES if sys.base_prefix == "/usr" else {})
    if shutil.which("apt-get") is None:
        tell_what_is_needed(wanted)
        return
    missing = [name for name in wanted if not is_installed(name)]
    if not missing:
        return
    say(f"installing Debian packages: {' '.join(missing)}")
    apt_get("update", "-q")
    apt_get("install", "-q", "--yes", "--no-install-recommends", *missing)


def tell_what_is_needed(wanted: dict[str, str]) -> None:
    """Lists the packages that this tool cannot install on other distributions."""
    say("no apt-get here; install what these Debian packages hold, under your distribution's names:")
    for name, purpose in wanted.items():
        say(f"    {name:24} {purpose}")


def is_installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout == "installed"


def apt_get(*arguments: str) -> None:
    """Runs apt-get as root, after any running apt-get has finished."""
    argv = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *arguments]
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            die("root rights are needed and there is no sudo", hint=f"as root: {' '.join(argv)}")
        argv = ["sudo", *argv]
    done = subprocess.run(argv, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, check=False)
    if done.returncode != 0:
        die(f"{' '.join(argv)} failed", hint="its own message is above")


def make_environment() -> None:
    """Creates ``.venv`` and installs the project's dependencies into it."""
    python = VENV / "bin" / "python"
    if not python.exists():
        say(f"creating the Python environment {VENV}")
        venv.create(VENV, with_pip=True)
    say("installing Python packages")
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--editable", f"{REPOSITORY}[dev,cuda,control,postgres,kubernetes,libvirt]"], check=False
    )
    if done.returncode != 0:
        die("pip could not install the project's dependencies", hint="its own message is above")


if __name__ == "__main__":
    main()
