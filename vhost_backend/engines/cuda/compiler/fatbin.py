"""Choice of a program in a fat binary."""

from __future__ import annotations

from ...containers.fatbin import CUBIN, PTX, Entry, entries, listed
from . import cubin
from .errors import CompileError


def suits(entry: Entry, device: int) -> bool:
    """True if the entry has code for `device`, or PTX from which it can be made."""
    if entry.is_exact:
        return entry.arch == device
    if entry.kind == PTX and not entry.is_for_family:
        return entry.arch <= device
    return cubin.runs_on(entry.arch, device)


def choose(found: list[Entry], arch: str) -> Entry:
    """Best entry for `arch`: machine code that runs there, else the newest PTX from which it can be made.

    :raise CompileError: no entry is usable; the text lists the entries.
    """
    device = cubin.number_of(arch)
    suitable = [entry for entry in found if suits(entry, device)]
    code = [entry for entry in suitable if entry.kind == CUBIN]
    usable = code or [entry for entry in suitable if entry.kind == PTX]
    if not usable:
        raise CompileError(f"the fatbin has nothing for {arch}; it holds {listed(found)}")
    return max(usable, key=lambda entry: entry.arch)


def take(container: bytes, arch: str) -> tuple[bool, bytes]:
    """Best program for `arch`: True if it is PTX, and its bytes."""
    entry = choose(entries(container), arch)
    return entry.kind == PTX, entry.payload(container)
