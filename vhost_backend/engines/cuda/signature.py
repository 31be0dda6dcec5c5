"""Kinds of a kernel's parameters, from its mangled name.

A cubin has sizes but no types. Mangled C++ function names have the types of their parameters
[https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling]. This reads the parts of the grammar that kernels' names
contain: types of every shape, templates, substitutions, packs. For names with other parts (expressions, local and
unnamed types, vendor extensions) the result is None. A name does not tell an enumeration from a struct, so both are
UNKNOWN, except for types of CUDA's headers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from virtio_proto.schema import ParamKind

__all__ = ["kinds_in_name", "param_kinds"]

Kinds: TypeAlias = tuple[ParamKind, ...]

_INTEGER, _FLOAT, _POINTER = ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.POINTER
_OTHER, _UNKNOWN = ParamKind.OTHER, ParamKind.UNKNOWN


class _Value(NamedTuple):
    """Kind of a parameter, and its size in bytes; 0 if that is unknown."""

    kind: ParamKind
    size: int = 0


_BUILTINS: Final[dict[str, _Value]] = (
    {letter: _Value(_INTEGER, 1) for letter in ("b", "c", "a", "h", "Du")}
    | {letter: _Value(_INTEGER, 2) for letter in ("s", "t", "Ds")}
    | {letter: _Value(_INTEGER, 4) for letter in ("i", "j", "w", "Di")}
    | {letter: _Value(_INTEGER, 8) for letter in "lmxy"}
    | {letter: _Value(_INTEGER, 16) for letter in "no"}
    | {letter: _Value(_FLOAT, 2) for letter in ("Dh", "DF16_")}
    | {letter: _Value(_FLOAT, 4) for letter in ("f", "DF32_")}
    | {letter: _Value(_FLOAT, 8) for letter in ("d", "DF64_")}
    | {letter: _Value(_OTHER) for letter in ("v", "Dn", "DF16b")}
    | {letter: _Value(_UNKNOWN) for letter in "eg"}  # long double: double on a GPU
)
_BUILTIN: Final = re.compile(r"DF[0-9]+[_b]|D[isuhn]|[a-z]")

_VECTOR_BASES: Final = ("char", "short", "int", "long", "longlong")
_KNOWN: Final[dict[str, _Value]] = {
    f"{base}{count}": _Value(_OTHER)
    for base in (*_VECTOR_BASES, *(f"u{base}" for base in _VECTOR_BASES), "float", "double")
    for count in "1234"
} | {
    "__half": _Value(_FLOAT, 2),
    "__half2": _Value(_OTHER),
    "__nv_bfloat16": _Value(_OTHER),
    "__nv_bfloat162": _Value(_OTHER),
    "dim3": _Value(_OTHER),
}
"""Types of CUDA's headers. __half is a number, though a struct."""

_ENUMERATIONS: Final = (1, 2, 4, 8)
"""Sizes of enumerations; a type of another size is a struct."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}|0")
_SEQUENCE: Final = re.compile(r"[ST]([0-9A-Z]{0,6})_")
_LITERAL: Final = re.compile(r"n?[0-9]+E")
_MOST_NESTED: Final = 100
_POINTER_BYTES: Final = 8
_LONGEST: Final = 4096
"""Longest name that is read, in characters: packs multiply."""


class _UnsureError(Exception):
    """The name is not mangled, or has parts that are not read here."""


@dataclass(frozen=True, slots=True)
class _Type:
    """A type, a name that leads to a type, or a template's argument; for a pack, the values of its members."""

    values: tuple[_Value, ...]
    is_pack: bool = False

    def made(self, kind: ParamKind, size: int = 0) -> _Type:
        """Type of `kind` derived from this one, for example a pointer to it; for a pack, derived from each member."""
        return _Type((_Value(kind, size),) * len(self.values), self.is_pack)

    @property
    def value(self) -> _Value:
        if self.is_pack:
            raise _UnsureError
        return self.values[0]


_SOMETHING: Final = _Type((_Value(_UNKNOWN),))
_STRUCT: Final = _Type((_Value(_OTHER),))


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    depth: int = 0
    substitutions: list[_Type] = field(default_factory=list)
    arguments: list[_Type] | None = None
    """Arguments of the kernel's template, once they have been read."""

    def kernel(self) -> tuple[_Value, ...]:
        """``_Z NAME [RETURN_TYPE] PARAMETER...``; only templates have their return type in the name."""
        if not self._take("_Z"):
            raise _UnsureError
        self.arguments = self._function_name()
        if self.arguments is not None:
            self._type()
        found: list[_Value] = []
        if self._rest() == "v":
            return ()
        while True:
            is_expansion = self._sees("Dp")
            type_ = self._type()
            found += type_.values if is_expansion else (type_.value,)
            if self.at == len(self.text) or self.text[self.at] == ".":
                return tuple(found)

    # ---- characters ----------------------------------------------------------------------------------------------

    def _rest(self) -> str:
        """Rest of the name, without a suffix of the compiler."""
        return self.text[self.at :].partition(".")[0]

    def _sees(self, word: str) -> bool:
        return self.text.startswith(word, self.at)

    def _take(self, word: str) -> bool:
        found = self._sees(word)
        self.at += len(word) if found else 0
        return found

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _UnsureError
        self.at = found.end()
        return found[0]

    # ---- names ---------------------------------------------------------------------------------------------------

    def _source_name(self) -> str:
        """``[L] LENGTH CHARACTERS [B TAG]...``; L means internal linkage."""
        name = self._identifier()
        while self._take("B"):
            self._identifier()
        return name

    def _identifier(self) -> str:
        self._take("L")
        length = int(self._match(_NUMBER))
        name = self.text[self.at : self.at + length]
        if length == 0 or len(name) < length:
            raise _UnsureError
        self.at += length
        return name

    def _remember(self, type_: _Type) -> _Type:
        self.substitutions.append(type_)
        return type_

    def _function_name(self) -> list[_Type] | None:
        """Skips the kernel's name; returns its template's arguments if it is a template."""
        if self._take("N"):
            return self._nested()[1]
        self._take("St")
        self._source_name()
        if not self._sees("I"):
            return None
        self._remember(_SOMETHING)
        return self._template_arguments()

    def _nested(self) -> tuple[_Type, list[_Type] | None]:
        """``N PREFIX... E``, behind the N: the named type, and the template arguments at its end."""
        named = _SOMETHING
        arguments = None
        depth = 0
        while not self._take("E"):
            is_new = True
            if self._sees("I") and depth > 0:
                arguments = self._template_arguments()
                named = _STRUCT
            elif self._take("St"):
                is_new = False
            elif self._sees("S"):
                self._substitution()
                is_new, arguments = False, None
            elif self._sees("T"):
                self._template_parameter()
                is_new, arguments = False, None
            else:
                self._source_name()
                named, arguments = _SOMETHING, None
            depth += 1
            if is_new and not self._sees("E"):
                self._remember(named)
        return named, arguments

    def _template_arguments(self) -> list[_Type]:
        """``I ARGUMENT... E``."""
        self._match(re.compile("I"))
        return self._list_of_arguments()

    def _list_of_arguments(self) -> list[_Type]:
        found = []
        while not self._take("E"):
            found.append(self._argument())
        return found

    def _argument(self) -> _Type:
        if self._take("J"):
            self._descend()
            members = self._list_of_arguments()
            self.depth -= 1
            return _Type(tuple(member.value for member in members), is_pack=True)
        if self._take("X"):  # a parameter of the kernel's template that is a number: X T_ E
            self._index(10)
            if not self._take("E"):
                raise _UnsureError
            return _SOMETHING
        if self._take("L"):  # a number: L TYPE VALUE E
            self._type()
            self._match(_LITERAL)
            return _SOMETHING
        return self._type()

    def _descend(self) -> None:
        self.depth += 1
        if self.depth > _MOST_NESTED or self.at >= len(self.text):
            raise _UnsureError

    # ---- substitutions -------------------------------------------------------------------------------------------

    def _index(self, base: int) -> int:
        """Index of a substitution or template parameter: ``_`` is the first, ``0_`` the second."""
        digits = self._match(_SEQUENCE)[1:-1]
        try:
            return int(digits, base) + 1 if digits else 0
        except ValueError:
            raise _UnsureError from None

    def _substitution(self) -> _Type:
        if self.text[self.at + 1 : self.at + 2] in ("a", "b", "s", "i", "o", "d"):  # std::string and the like
            self.at += 2
            return _STRUCT
        index = self._index(36)
        if index >= len(self.substitutions):
            raise _UnsureError
        return self.substitutions[index]

    def _template_parameter(self) -> _Type:
        index = self._index(10)
        if self.arguments is None or index >= len(self.arguments):
            raise _UnsureError
        return self._remember(self.arguments[index])

    # ---- types ---------------------------------------------------------------------------------------------------

    def _type(self) -> _Type:
        self._descend()
        found = self._any_type()
        self.depth -= 1
        return found

    def _any_type(self) -> _Type:
        letter = self.text[self.at]
        if letter in "rVK":
            self._match(re.compile("r?V?K?"))
            return self._remember(self._type())
        if letter in "PRO":
            self.at += 1
            return self._remember(self._type().made(_POINTER, _POINTER_BYTES))
        if letter == "S" and not self._sees("St"):
            return self._templated(self._substitution())
        if letter == "T":
            return self._templated(self._template_parameter())
        if letter.isdigit() or letter in "NS":
            return self._class()
        if letter in "FMAC" or self._sees("Dv") or self._sees("Dp") or self._sees("Do"):
            return self._remember(self._compound())
        return self._builtin()

    def _builtin(self) -> _Type:
        value = _BUILTINS.get(self._match(_BUILTIN))
        if value is None:
            raise _UnsureError
        return _Type((value,))

    def _templated(self, found: _Type) -> _Type:
        """A substituted type, or a substituted template with other arguments."""
        if not self._sees("I"):
            return found
        self._template_arguments()
        return self._remember(_STRUCT)

    def _class(self) -> _Type:
        """A struct, union or enumeration; with template arguments it is not an enumeration."""
        if self._take("N"):
            return self._remember(self._nested()[0])
        in_std = self._take("St")
        name = self._source_name()
        found = self._remember(_SOMETHING if in_std or name not in _KNOWN else _Type((_KNOWN[name],)))
        return self._templated(found)

    def _compound(self) -> _Type:
        if self._take("Dp"):
            found = self._type()
            if not found.is_pack:
                raise _UnsureError
            return found
        if self._take("Do"):  # a function that does not throw
            if not self._sees("F"):
                raise _UnsureError
            return self._function()
        match self.text[self.at]:
            case "F":
                return self._function()
            case "M":  # a pointer to a member: its class, its type
                self.at += 1
                self._type()
                return self._type().made(_OTHER)
            case "C":
                self.at += 1
                return self._type().made(_OTHER)
            case _:  # Dv LENGTH _ TYPE, A [LENGTH] _ TYPE
                self._match(re.compile(r"(Dv[0-9]+|A[0-9]*)_"))
                return self._type().made(_OTHER)

    def _function(self) -> _Type:
        """``F [Y] TYPE... E``."""
        self.at += 1
        self._take("Y")
        while not self._take("E"):
            self._type()
        return _STRUCT


def _values(mangled: str) -> tuple[_Value, ...] | None:
    if len(mangled) > _LONGEST:
        return None
    try:
        return _Reader(mangled).kernel()
    except _UnsureError:
        return None


def kinds_in_name(mangled: str) -> Kinds | None:
    """Kinds of a function's parameters, in order.

    None if the name does not tell them (``extern "C"``), or has parts that are not read here.
    """
    values = _values(mangled)
    return None if values is None else tuple(value.kind for value in values)


def param_kinds(mangled: str, sizes: Sequence[int]) -> Kinds:
    """`ParamKind` of each parameter, with sizes from the cubin; () if all are unknown.

    Also () if a size does not fit its type. A type whose size an enumeration cannot have is a struct.
    """
    values = _values(mangled)
    if values is None or len(values) != len(sizes):
        return ()
    pairs = list(zip(values, sizes, strict=True))
    if any(value.size not in (0, size) for value, size in pairs):
        return ()
    return tuple(
        _OTHER if value.kind is _UNKNOWN and size not in _ENUMERATIONS else value.kind for value, size in pairs
    )
