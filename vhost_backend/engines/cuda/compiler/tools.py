"""Runs tools, ptxas among them; reads and writes files."""

from __future__ import annotations

import os

from .errors import CompileError, ToolError
from .options import GuestOptions

_PTX = "source.ptx"
_BUILT = "vgc.cubin"


def run(command: list[str], output: str = "") -> None:
    """Runs a program whose output goes to the log, or to a file.

    :raise ToolError: the program failed, and has logged the reason.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    opened = [(os.POSIX_SPAWN_OPEN, fd, output, flags, 0o600) for fd in (1, 2)] if output else []
    try:
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=opened)
    except OSError as error:
        raise CompileError(f"cannot run {command[0]}: {error.strerror}") from error
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        raise CompileError(f"{command[0]} was killed by signal {-code}")
    if code > 0:
        raise ToolError


def ptxas(program: str, arch: str, text: bytes, options: GuestOptions, *further: str) -> bytes:
    """Assembles PTX text to a cubin. `further`: options of ours."""
    write(_PTX, text.rstrip(b"\0"))
    known = ("--maxrregcount", "--device-debug", "--generate-line-info", "--fmad=")
    words = [word for word in options.common if word.startswith(known)]
    words += [word.partition("=")[2] for word in options.common if word.startswith("--ptxas-options=")]
    run([program, f"-arch={arch}{_variant(text, arch)}", *words, *further, _PTX, "-o", _BUILT])
    return read(_BUILT)


def _variant(text: bytes, arch: str) -> str:
    """Suffix of the architecture that PTX for ``sm_90a`` or ``sm_100f`` needs."""
    target = text.partition(b".target")[2].lstrip()[:16].split(b",")[0].split()
    if target and target[0] == f"{arch}a".encode():
        return "a"
    return "f" if target and target[0].startswith(b"sm_") and target[0].endswith(b"f") else ""


def make_folder(path: str) -> None:
    """Makes a folder and those above it, unless it exists."""
    os.makedirs(path, exist_ok=True)  # noqa: PTH103  pathlib takes 5 ms to load


def read(path: str) -> bytes:
    """Reads a whole file."""
    with open(path, "rb") as file:
        return file.read()


def write(path: str, content: bytes) -> None:
    """Makes a new file and replaces an existing one, as the guest's source cannot be written to."""
    if os.path.lexists(path):
        os.unlink(path)  # noqa: PTH108  pathlib takes 5 ms to load
    with open(path, "wb") as file:
        file.write(content)
