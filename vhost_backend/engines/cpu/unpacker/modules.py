"""PTX modules in fatbins that a device of the software GPU's compute capability would load."""

from __future__ import annotations

from ...containers import elf, fatbin
from ...containers.errors import CompileError
from ...containers.fatbin import PTX, Entry

ARCHITECTURE = 80
"""Compute capability of the software GPU, times ten."""
_TO_LINK = "__nv_relfatbin"
"""Section of host objects and programs in which nvcc leaves fatbins that are to be linked (-rdc=true)."""
_COMPLETE = ".nv_fatbin"
"""Section of all other fatbins, among them the cubin that nvcc has linked."""


def is_container(program: bytes) -> bool:
    """True for what may have fatbins: a fatbin, or a host object."""
    return program.startswith((fatbin.START, elf.MAGIC))


def modules_of(program: bytes) -> list[bytes]:
    """PTX of all fatbins in a fatbin or host object. NVIDIA's tools end the text with a zero byte.

    :raise CompileError: the program is damaged, has no fatbin, or one without PTX for the software GPU.
    """
    containers = _of_object(program) if program.startswith(elf.MAGIC) else fatbin.split(program)
    found: list[bytes] = []
    left = fatbin.MAX_BYTES
    for container in containers:
        for entry in chosen(container):
            found.append(entry.payload(container))
            left -= len(found[-1])
            if left < 0:
                raise CompileError(f"the fatbins hold more than {fatbin.MAX_BYTES} bytes of PTX for one program")
    return found


def _of_object(program: bytes) -> list[bytes]:
    """Fatbins of a host object or program; what nvcc has linked of others is left out, as it is no PTX."""
    names = (_TO_LINK, _COMPLETE)
    found = {one.name: one for one in elf.sections(program, "host object") if one.name in names}
    to_link = fatbin.split(found[_TO_LINK].content) if _TO_LINK in found else []
    complete = fatbin.split(found[_COMPLETE].content) if _COMPLETE in found else []
    if to_link:
        complete = [container for container in complete if any(_suits(entry) for entry in fatbin.entries(container))]
    if not to_link + complete:
        raise CompileError(f"the host object has no fatbin, which would be in a section {_TO_LINK} or {_COMPLETE}")
    return [*to_link, *complete]


def chosen(container: bytes) -> list[Entry]:
    """Entries of the newest PTX that the software GPU can run: several, if they are to be linked.

    :raise CompileError: the container has no such module; the text lists what it has.
    """
    found = fatbin.entries(container)
    usable = [entry for entry in found if _suits(entry)]
    if not usable:
        raise CompileError(
            f"the fatbin has no PTX for the software GPU, which has compute capability {ARCHITECTURE / 10}; it holds "
            f"{fatbin.listed(found)} (nvcc -gencode arch=compute_{ARCHITECTURE},code=compute_{ARCHITECTURE} adds PTX)"
        )
    newest = max(entry.arch for entry in usable)
    return [entry for entry in usable if entry.arch == newest]


def _suits(entry: Entry) -> bool:
    return entry.kind == PTX and entry.arch <= ARCHITECTURE and not (entry.is_exact or entry.is_for_family)
