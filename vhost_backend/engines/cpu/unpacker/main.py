"""Command line of the program::

    INPUT KIND COMPILER [words of the compiler]

with KIND ``FATBIN`` (a fatbin, several of them in a row, or a host object or program that has some) or ``CUDA_UNITS``
(several units, of which some may be such). The PTX of all of them becomes the compiler's input.
"""

from __future__ import annotations

import os

from ...containers import units
from ...containers.errors import CompileError
from ...containers.units import Unit
from .modules import is_container, modules_of

_MODULE = "module.ptx"
_UNITS = "modules"


def main(words: list[str]) -> int:
    """Becomes the compiler; returns the exit status if there is nothing to compile."""
    source, kind, *compiler = words
    try:
        with open(source, "rb") as file:
            form = unpacked(file.read(), kind)
        os.execv(compiler[0], [compiler[0], *form, *compiler[1:]])
    except CompileError as error:
        say(str(error))
    except (OSError, MemoryError) as error:
        say(str(error) or "out of memory")
    return 1


def unpacked(program: bytes, kind: str) -> list[str]:
    """Writes the compiler's input; returns the compiler's options for it.

    :raise CompileError: the program is malformed, or has no PTX for the software GPU.
    """
    if kind == "FATBIN":
        modules = modules_of(program)
        if len(modules) == 1:
            write(_MODULE, modules[0])
            return ["--ptx", "--input", _MODULE]
        found = [Unit(f"module{number}.ptx", [], text) for number, text in enumerate(modules, 1)]
    else:
        found = [module for unit in units.split(program) for module in expanded(unit)]
    write(_UNITS, units.packed(found))
    return ["--units", "--input", _UNITS]


def expanded(unit: Unit) -> list[Unit]:
    """The unit itself, or the modules of a unit that is a container.

    :raise CompileError: it is malformed, or has no PTX for the software GPU.
    """
    if not is_container(unit.text):
        return [unit]
    try:
        modules = modules_of(unit.text)
    except CompileError as error:
        raise CompileError(f"unit '{unit.name}': {error}") from error
    if len(modules) == 1:
        return [unit._replace(text=modules[0])]
    return [unit._replace(name=f"{unit.name}:{number}", text=text) for number, text in enumerate(modules, 1)]


def write(name: str, content: bytes) -> None:
    """Leaves a file for the compiler."""
    with open(name, "wb") as file:
        file.write(content)


def say(text: str) -> None:
    """Writes an error to the log."""
    os.write(2, f"vgc-cpucc: error: {text}\n".encode(errors="replace"))
