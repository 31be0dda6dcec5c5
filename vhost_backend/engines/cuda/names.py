"""Names of kernels and variables: those of the source, and those that clang gives them.

Kernels are functions in namespaces: no members, operators or constructors. Their names use a small part of the Itanium
C++ ABI's mangling [https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling]::

    _Z [L] NAME ...                      twice(int*)                _Z5twicePi, _ZL5twicePi
    _Z N (St | [L] NAME [B TAG])* E ...  solver::v2::step(int)      _ZN6solver2v24stepEi

where NAME is a length and characters, ``L`` means internal linkage and ``I`` begins template arguments, after which the
kernel's name has ended.

A guest's programs register kernels and variables under clang's names, and NVIDIA's compilers choose others for what is
internal to a source: they write no ``L``, name unnamed namespaces after the source, and put a prefix before names in
relocatable code (observed in NVRTC and nvcc 13.5)::

    static void twice(int *)              clang _ZL5twicePi           nvcc _Z5twicePi, a local symbol
    static int n, in namespace ns         clang _ZN2nsL1nE            nvcc _ZN30_INTERNAL_d567a967_4_a_cu_main2ns1nE
    static int n                          clang _ZL1n                 nvcc n
    void f(), in an unnamed namespace     clang _ZN12_GLOBAL__N_11fEv nvcc _ZN32_GLOBAL__N__d567a967_4_a_cu_main1fEv
    static void twice(int *), -rdc=true   clang _ZL5twicePi           nvcc __nv_static_21__d567a967_4_a_cu_main__Z5twicePi

Closure types have the same names. A name whose numbered substitutions would change (an internal function or variable
within template arguments, with a later reference to a part of its name) cannot be told here and stays nvcc's.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Parts", "function_names", "parts", "short_name", "variable_names"]

_PART: Final = re.compile(r"St|(?P<tag>B)?L?(?P<length>[1-9][0-9]{0,5})")
_PREFIX: Final = re.compile(r"__nv_static_(?P<length>[1-9][0-9]{0,5})_")
_UNIT: Final = re.compile(r"_[0-9a-f]{8}_[0-9]+_unit([0-9]{1,3})_cu")
"""Beginning of the module's name, which nvcc makes of the name of the source (``compiler/units.py``)."""
_OF_SOURCE: Final = re.compile(r"(?P<length>[0-9]+)(?P<kind>_GLOBAL__N__|_INTERNAL_)(?=[0-9a-f]{8}_[0-9])")
_UNNAMED: Final = "12_GLOBAL__N_1"
_COMPONENT: Final = re.compile(r"([1-9][0-9]{0,5})")
_INTERNAL_ARGUMENT: Final = re.compile(r"_GLOBAL__N_1|L_ZL|L_ZN|U[tl]")
"""Template arguments that may be why a kernel is internal, though it is not ``static``."""


class Parts(NamedTuple):
    """An nvcc name without its prefix for internal names of relocatable code, and what the prefix tells."""

    name: str
    is_static: bool
    unit: int | None
    """Number of the source of a program of several."""


def parts(name: str) -> Parts:
    """Takes the prefix off a name."""
    prefix = _PREFIX.match(name)
    if prefix is None:
        return Parts(name, is_static=False, unit=None)
    end = prefix.end() + int(prefix["length"])
    if name[end : end + 1] != "_":
        return Parts(name, is_static=False, unit=None)
    unit = _UNIT.match(name, prefix.end())
    return Parts(name[end + 1 :], is_static=True, unit=int(unit[1]) if unit else None)


def function_names(name: str, *, is_local: bool) -> tuple[str, ...]:
    """Names that clang may have given to a kernel, the likely one first. `is_local`: its symbol is.

    More than one if the kernel may be ``static``, or is internal by its template arguments.
    """
    plain = _common(name)
    marked = _marked(plain) if is_local else plain
    if marked == plain:
        return (plain,)
    if _INTERNAL_ARGUMENT.search(plain, _end_of_name(plain)):
        return plain, marked
    return (marked,)


def variable_names(name: str, *, is_local: bool, is_static: bool) -> tuple[str, ...]:
    """Names that clang may have given to a variable, and the source's if it is internal, as of the software GPU.

    Without relocatable code, all variables are local symbols; then one of the source's global scope may be internal.
    """
    plain = _common(name)
    if not plain.startswith("_Z"):
        marked = f"_ZL{len(plain)}{plain}"
        return (marked, plain) if is_static else (plain, marked) if is_local else (plain,)
    marked = _marked(plain) if is_static else plain
    at = _last_component(marked)
    is_internal = at is not None and (marked[at] == "L" or "_GLOBAL__N_1" in marked)
    return (marked, short_name(marked)) if is_internal else (marked,)


def _common(name: str) -> str:
    """Name with clang's names of unnamed namespaces and of what is internal, as far as nvcc's tell."""
    if not name.startswith("_Z"):
        return name
    at = 0
    while (found := _OF_SOURCE.search(name, at)) is not None:
        start, end = _extent(name, found)
        if found["kind"] == "_GLOBAL__N__":
            name = f"{name[:start]}{_UNNAMED}{name[end:]}"
            at = start + len(_UNNAMED)
        else:
            name, at = _without_module(name, start, end)
    return name


def _extent(name: str, found: re.Match[str]) -> tuple[int, int]:
    """Range of a component of a name: its length, whose digits may follow those of another name, and characters."""
    begin = found.start("kind")
    for start in range(found.start("length"), begin):
        length = int(name[start:begin])
        if name[start] != "0" and length <= len(name) - begin and name[begin + length : begin + length + 1] != "_":
            return start, begin + length
    return found.start("length"), found.end()


def _without_module(name: str, start: int, end: int) -> tuple[str, int]:
    """Name without a component ``_INTERNAL_...`` of it, which makes the last component internal; where to go on."""
    components = []
    at = end
    while (found := _COMPONENT.match(name, at)) is not None:
        at = found.end() + int(found[1])
        components.append(name[found.start() : at])
    if name[start - 1 : start] != "N" or name[at : at + 1] != "E" or not components:
        return name, end
    if "_GLOBAL__N__" in "".join(components):
        return name[:start] + name[end:], start
    nested = len(components) > 1
    last = "".join([*components[:-1], "L", components[-1]])
    inner = f"N{last}E" if nested else last
    return f"{name[: start - 1]}{inner}{name[at + 1 :]}", start - 1 + len(inner)


def _marked(plain: str) -> str:
    """Name with the mark of internal linkage, unless an unnamed namespace makes that known."""
    at = _last_component(plain)
    if at is None or plain[at] == "L" or "_GLOBAL__N_1" in plain[: _end_of_name(plain)]:
        return plain
    return f"{plain[:at]}L{plain[at:]}"


def _last_component(mangled: str) -> int | None:
    """Offset of the last component of a mangled name, whose template arguments do not count."""
    last = None
    for at, _end, is_tag in _components(mangled):
        last = last if is_tag else at
    return last


def _end_of_name(mangled: str) -> int:
    """Offset behind the last component of a mangled name."""
    return max((end for _, end, _ in _components(mangled)), default=0)


def _components(mangled: str) -> list[tuple[int, int, bool]]:
    """Begin and end of each component of a mangled name, and whether that is a tag; none if it has another form."""
    nested = mangled.startswith("_ZN")
    at = 3 if nested else 2
    found: list[tuple[int, int, bool]] = []
    while mangled.startswith("_Z") and (part := _PART.match(mangled, at)) and (nested or not found):
        end = part.end() + int(part["length"] or 0)
        if end > len(mangled):
            return []
        found.append((at, end, not part["length"] or bool(part["tag"])))
        at = end
    return found


def short_name(mangled: str) -> str:
    """Unqualified name without arguments; a name that is not mangled (``extern "C"``) or not a kernel's is returned as
    is.
    """
    nested = mangled.startswith("_ZN")
    at = 3 if nested else 2
    name = ""
    while mangled.startswith("_Z") and (part := _PART.match(mangled, at)) and (nested or not name):
        at = part.end() + int(part["length"] or 0)
        if at > len(mangled):
            return mangled
        if part["length"] and not part["tag"]:
            name = mangled[part.end() : at]
    return name or mangled
