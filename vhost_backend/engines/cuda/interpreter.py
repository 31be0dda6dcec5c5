"""Python for the compile program (``compiler/``), and what the sandbox shows of it: only the modules that are needed.

A whole library would show a guest, by ``#include``, where and how Python was installed. The modules are compiled here,
under neutral names; so the program also starts without compiling them.
"""

from __future__ import annotations

import functools
import py_compile
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.compiler.job import INSIDE
from vhost_backend.errors import HostError
from vhost_backend.sandbox.terms import Bind

PROGRAM: Final = Path(__file__).resolve().parent / "compiler"

_START: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); from compiler.main import main; sys.exit(main(sys.argv[1:]))"
)
_FIND: Final = """
import sys; sys.path.append(sys.argv[1])
import os, ctypes
for name in os.listdir(sys.argv[1] + "/compiler"):
    if name.endswith(".py"):
        __import__("compiler." + name[:-3])
print(sys.base_prefix)
for module in list(sys.modules.values()):
    print(getattr(module, "__file__", None) or "")
try:
    ctypes.CDLL("libzstd.so.1")
    print(*{line.split()[-1] for line in open("/proc/self/maps") if "/libzstd.so" in line})
except OSError:
    pass
"""
"""Prints Python's folder, the files of all modules that the program imports, and the library that it opens at times."""
_OPENED: Final = INSIDE / "lib" / "libzstd.so.1"
_PYTHON: Final = INSIDE / "python"
_ISOLATED: Final = ("-I", "-S", "-c")
"""Options of a Python without site-packages and user settings, which starts in 5 ms."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Command of the compile program, to which arguments are added, and the files that it needs."""

    command: tuple[str | Path, ...]
    visible: tuple[Bind, ...]


@functools.cache
def interpreter() -> Interpreter:
    """Makes the library of modules, kept until this process ends. Takes 0.2 s the first time.

    :raise HostError: Python does not start.
    """
    executable = Path(sys.executable).resolve()
    prefix, files = _needed(executable)
    library = Path(_folder().name)
    for path in PROGRAM.glob("*.py"):
        _compile(path, library / "compiler", INSIDE / "compiler")
    binds = []
    for path in files:
        if not path.is_relative_to(prefix) or path.suffix not in (".py", ".so"):
            binds.append(Bind(path, _OPENED))
        elif path.suffix == ".py":
            place = path.relative_to(prefix).parent
            _compile(path, library / "python" / place, _PYTHON / place)
        else:
            place = path.relative_to(prefix)
            (library / "python" / place.parent).mkdir(parents=True, exist_ok=True)
            (library / "python" / place).touch()  # mount point
            binds.append(Bind(path, _PYTHON / place))
    folders = (Bind(folder, _PYTHON / folder.name) for folder in (library / "python").iterdir())
    return Interpreter(
        (executable, *_ISOLATED, _START, library),
        (
            Bind(executable, _PYTHON / "bin" / executable.name),
            Bind(library / "compiler", INSIDE / "compiler"),
            *folders,
            *binds,
        ),
    )


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Folder that is deleted when this process ends. Everybody may read it, as compilers have an id of their own."""
    folder = tempfile.TemporaryDirectory(prefix="vgc-python-")
    Path(folder.name).chmod(0o755)
    return folder


def _needed(executable: Path) -> tuple[Path, list[Path]]:
    """Folder in which Python is installed, and files of it, or of the system, that the compile program needs.

    :raise HostError: Python does not start.
    """
    argv = [str(executable), *_ISOLATED, _FIND, str(PROGRAM.parent)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={"LANG": "C.UTF-8"})
    if done.returncode != 0:
        raise HostError(f"{executable} does not start: {done.stderr.strip()}")
    prefix, *files = (Path(line) for line in done.stdout.splitlines() if line)
    return prefix, [path for path in files if not path.is_relative_to(PROGRAM)]


def _compile(module: Path, folder: Path, name: Path) -> None:
    """Compiles a module into `folder`, which the program sees as `name`; tracebacks name that."""
    py_compile.compile(
        str(module),
        str(folder / f"{module.stem}.pyc"),
        str(name / module.name),
        doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
