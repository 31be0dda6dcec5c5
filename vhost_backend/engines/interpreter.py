"""Python for the engines' compile programs, and what the sandbox shows of it: only the modules that are needed.

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

ENGINES: Final = Path(__file__).resolve().parent
_SHARED: Final = "containers"
"""Package that all programs have."""

_START: Final = "import sys; sys.path.append(sys.argv.pop(1)); from engines.{program}.main import main; sys.exit(main(sys.argv[1:]))"
_FIND: Final = """
import sys, types
import os, ctypes
engines = sys.argv[1]
for package in ("", *sys.argv[2:]):
    names = ["engines", *filter(None, package.split("."))]
    for depth in range(1, len(names) + 1):
        name = ".".join(names[:depth])
        if name not in sys.modules:
            module = sys.modules[name] = types.ModuleType(name)
            module.__path__ = [os.path.join(engines, *names[1:depth])]
    for file in os.listdir(os.path.join(engines, *names[1:])) if package else ():
        if file.endswith(".py"):
            __import__("engines." + package + "." + file[:-3])
print(sys.base_prefix)
for module in list(sys.modules.values()):
    print(getattr(module, "__file__", None) or "")
try:
    ctypes.CDLL("libzstd.so.1")
    print(*{line.split()[-1] for line in open("/proc/self/maps") if "/libzstd.so" in line})
except OSError:
    pass
"""
"""Prints Python's folder, the files of all modules that the program imports, and the library that it opens at times.

Packages are made without their ``__init__``: those above the program are this project's, and not for the sandbox.
"""
_OPENED: Final = INSIDE / "lib" / "libzstd.so.1"
_PYTHON: Final = INSIDE / "python"
_ISOLATED: Final = ("-I", "-S", "-c")
"""Options of a Python without site-packages and user settings, which starts in 5 ms."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Command of the compile program, to which arguments are added, and the files that it needs."""

    command: tuple[str | Path, ...]
    visible: tuple[Bind, ...]


def sources(program: str) -> tuple[Path, ...]:
    """Files of this project that a program consists of."""
    return tuple(path for name in (program, _SHARED) for path in sorted(_package(name).glob("*.py")))


@functools.cache
def interpreter(program: str) -> Interpreter:
    """Makes the library of modules, kept until this process ends. Takes 0.2 s the first time.

    :param program: package below this folder (``cuda.compiler``) whose module ``main`` has a function `main`, which takes
        the arguments. It imports nothing of this project but itself and ``containers``, by relative names.

    :raise HostError: Python does not start.
    """
    executable = Path(sys.executable).resolve()
    prefix, files = _needed(executable, program)
    library = Path(_folder(program).name)
    for path in sources(program):
        place = Path("engines") / path.parent.relative_to(ENGINES)
        _compile(path, library / place, INSIDE / place)
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
        (executable, *_ISOLATED, _START.format(program=program), library),
        (
            Bind(executable, _PYTHON / "bin" / executable.name),
            Bind(library / "engines", INSIDE / "engines"),
            *folders,
            *binds,
        ),
    )


def _package(name: str) -> Path:
    return ENGINES.joinpath(*name.split("."))


@functools.cache
def _folder(_program: str) -> tempfile.TemporaryDirectory[str]:
    """Folder that is deleted when this process ends. Everybody may read it, as compilers have an id of their own."""
    folder = tempfile.TemporaryDirectory(prefix="vgc-python-")
    Path(folder.name).chmod(0o755)
    return folder


def _needed(executable: Path, program: str) -> tuple[Path, list[Path]]:
    """Folder in which Python is installed, and files of it, or of the system, that the compile program needs.

    :raise HostError: Python does not start.
    """
    argv = [str(executable), *_ISOLATED, _FIND, str(ENGINES), program, _SHARED]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={"LANG": "C.UTF-8"})
    if done.returncode != 0:
        raise HostError(f"{executable} does not start: {done.stderr.strip()}")
    prefix, *files = (Path(line) for line in done.stdout.splitlines() if line)
    return prefix, [path for path in files if not path.is_relative_to(ENGINES)]


def _compile(module: Path, folder: Path, name: Path) -> None:
    """Compiles a module into `folder`, which the program sees as `name`; tracebacks name that."""
    py_compile.compile(
        str(module),
        str(folder / f"{module.stem}.pyc"),
        str(name / module.name),
        doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
