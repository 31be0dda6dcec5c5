"""Headers of the host's C and C++ libraries, over which the device headers lie, as nvcc takes a host compiler's.

The compiler, which has clang in it, says in which folders clang looks for headers. Of these, compilers see what belongs to the C and C++ libraries alone: no
header tells a guest what else is installed on the host.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.compiler.job import INSIDE
from vhost_backend.errors import HostError
from vhost_backend.sandbox.terms import Bind

HINT: Final = "apt-get install libclang-common-19-dev g++ libc6-dev"
_ASK_S: Final = 60
_VERSIONS: Final = ("bits/c++config.h", "features.h")
"""Headers that tell the version of their library."""
_C_FOLDERS: Final = ("arpa", "asm", "asm-generic", "bits", "gnu", "linux", "net", "netinet", "sys")
_C_HEADERS: Final = (
    *("alloca", "assert", "byteswap", "complex", "cpio", "ctype", "dirent", "dlfcn", "elf", "endian", "err", "errno"),
    *("error", "execinfo", "fcntl", "features", "features-time64", "fenv", "fnmatch", "fpu_control", "ftw", "getopt"),
    *("glob", "grp", "iconv", "ieee754", "inttypes", "langinfo", "libgen", "libintl", "limits", "link", "locale"),
    *("malloc", "math", "memory", "monetary", "mqueue", "netdb", "nl_types", "poll", "pthread", "pwd", "regex"),
    *("sched", "search", "semaphore", "setjmp", "signal", "spawn", "stab", "stdc-predef", "stdint", "stdio"),
    *("stdio_ext", "stdlib", "string", "strings", "syscall", "sysexits", "syslog", "tar", "termios", "tgmath"),
    *("threads", "time", "uchar", "ucontext", "ulimit", "unistd", "utime", "values", "wait", "wchar", "wctype"),
    "wordexp",
)
"""Headers of C and POSIX."""


@dataclass(frozen=True, slots=True)
class HostHeaders:
    """Folders in the order of the search, and what a compiler sees of them."""

    folders: tuple[Path, ...]
    visible: tuple[Bind, ...]
    identity: str
    """Digest of the libraries' versions, and of the times at which folders and files were last changed."""


@functools.cache
def host_headers(compiler: Path, llvm: Path) -> HostHeaders:
    """Asks ``vgc-cpucc`` where the headers are.

    :raise HostError: it cannot be run, or finds no headers of C or C++.
    """
    folders = tuple(_search_list(compiler, llvm))
    cxx = [folder for folder in folders if (folder / "bits" / "c++config.h").exists() or (folder / "cmath").exists()]
    libc = [folder for folder in folders if folder.name == "include" and not folder.is_relative_to(llvm)]
    libc += [folder for folder in folders if folder.parent in libc and folder not in cxx]
    for folder_of, name, library in ((cxx, "cmath", "C++"), (libc, "stdlib.h", "C")):
        if not any((folder / name).exists() for folder in folder_of):
            raise HostError(f"the headers of the {library} library are missing: clang finds no {name}", HINT)
    seen = [folder for folder in folders if any(folder.is_relative_to(root) for root in (*cxx, llvm)) or folder in libc]
    paths = [*cxx, *(path for folder in libc for path in _of_libc(folder))]
    visible = tuple(Bind(path, INSIDE / "host" / path.relative_to("/")) for path in paths)
    return HostHeaders(tuple(seen), visible, _identity(paths, seen))


def _search_list(compiler: Path, llvm: Path) -> Iterator[Path]:
    argv: list[str | Path] = [compiler, "--host-headers", "--llvm", llvm]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_ASK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"the compiler cannot be asked for its headers: {error}", HINT) from error
    listed = dict.fromkeys(Path(line).resolve() for line in done.stdout.splitlines())
    return (path for path in listed if path.exists() and not path.is_relative_to("/usr/local"))


def _of_libc(folder: Path) -> Iterator[Path]:
    for name in (*_C_FOLDERS, *(f"{name}.h" for name in _C_HEADERS)):
        if (folder / name).exists():
            yield folder / name


def _identity(paths: list[Path], folders: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    for version in (folder / name for folder in folders for name in _VERSIONS):
        if version.exists():
            digest.update(version.read_bytes())
    return digest.hexdigest()
