"""What a kernel's parameters are, read out of the linker's name of it.

C++ function names carry the types of their parameters: the Itanium C++ ABI's mangling
[https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling]. This reads as much of it as names of kernels contain:
types of every shape, templates, substitutions, packs. What it does not read (expressions, local and unnamed types,
vendor extensions) makes the answer None. A name alone does not tell an enumeration from a struct, so either is UNKNOWN,
but for the types that every CUDA program has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from virtio_proto.schema import ParamKind

__all__ = ["param_kinds", "param_kinds_of_sizes"]

Kinds: TypeAlias = tuple[ParamKind, ...]

_INTEGER, _FLOAT, _POINTER = ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.POINTER
_OTHER, _UNKNOWN = ParamKind.OTHER, ParamKind.UNKNOWN

_BUILTINS: Final[dict[str, ParamKind]] = (
    dict.fromkeys("wbcahstijlmxyno", _INTEGER)
    | dict.fromkeys(("Di", "Ds", "Du"), _INTEGER)
    | dict.fromkeys(("f", "d", "Dh", "DF16_", "DF32_", "DF64_"), _FLOAT)
    | dict.fromkeys(("v", "Dn", "DF16b"), _OTHER)
    | dict.fromkeys("eg", _UNKNOWN)  # long double: double on a GPU
)
_BUILTIN: Final = re.compile(r"DF[0-9]+[_b]|D[isuhn]|[a-z]")

_VECTOR_BASES: Final = ("char", "short", "int", "long", "longlong")
_KNOWN: Final[dict[str, ParamKind]] = {
    f"{base}{count}": _OTHER
    for base in (*_VECTOR_BASES, *(f"u{base}" for base in _VECTOR_BASES), "float", "double")
    for count in "1234"
} | {"__half": _FLOAT, "__half2": _OTHER, "__nv_bfloat16": _OTHER, "__nv_bfloat162": _OTHER, "dim3": _OTHER}
"""Types of CUDA's headers. A __half is a struct in form and a number in fact."""

_SIZES: Final = {_INTEGER: (1, 2, 4, 8, 16), _FLOAT: (2, 4, 8), _POINTER: (8,)}
_ENUMERATIONS: Final = (1, 2, 4, 8)
"""Their sizes: what has another one is a struct."""
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}|0")
_SEQUENCE: Final = re.compile(r"[ST]([0-9A-Z]{0,6})_")
_LITERAL: Final = re.compile(r"n?[0-9]+E")
_MOST_NESTED: Final = 100
_BASE: Final = 36


class _UnsureError(Exception):
    """The name is not mangled, or has something in it that is not read here."""


@dataclass(frozen=True, slots=True)
class _Type:
    """A type, a name that leads to one, or a template's argument. Of a pack: one kind for each of its members."""

    kinds: Kinds
    is_pack: bool = False

    def made(self, kind: ParamKind) -> _Type:
        """Something of `kind` made of this: a pointer to it, say. Of a pack: of each of its members."""
        return _Type((kind,) * len(self.kinds), self.is_pack)

    @property
    def kind(self) -> ParamKind:
        if self.is_pack:
            raise _UnsureError
        return self.kinds[0]


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    depth: int = 0
    substitutions: list[_Type] = field(default_factory=list)
    arguments: list[_Type] | None = None
    """Of the kernel's template, once they have been read."""

    def kernel(self) -> Kinds:
        """``_Z NAME [RETURN_TYPE] PARAMETER...``; only templates tell their return type."""
        if not self._take("_Z"):
            raise _UnsureError
        self.arguments = self._function_name()
        if self.arguments is not None:
            self._type()
        kinds: list[ParamKind] = []
        if self._rest() == "v":
            return ()
        while True:
            is_expansion = self._sees("Dp")
            found = self._type()
            kinds += found.kinds if is_expansion else (found.kind,)
            if self.at == len(self.text) or self.text[self.at] == ".":
                return tuple(kinds)

    # ---- characters ----------------------------------------------------------------------------------------------

    def _rest(self) -> str:
        """Up to what compilers put behind names of their own making."""
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
        """``[L] LENGTH CHARACTERS [B TAG]...``: L says internal linkage."""
        self._take("L")
        length = int(self._match(_NUMBER))
        name = self.text[self.at : self.at + length]
        if length == 0 or len(name) < length:
            raise _UnsureError
        self.at += length
        while self._take("B"):
            self._source_name()
        return name

    def _remember(self, type_: _Type) -> _Type:
        self.substitutions.append(type_)
        return type_

    def _function_name(self) -> list[_Type] | None:
        """Reads over the kernel's name; its template's arguments if it is one."""
        if self._take("N"):
            return self._nested()[1]
        self._take("St")
        self._source_name()
        if not self._sees("I"):
            return None
        self._remember(_Type((_UNKNOWN,)))
        return self._template_arguments()

    def _nested(self) -> tuple[_Type, list[_Type] | None]:
        """``N PREFIX... E``, behind the N: what it names, and the template arguments that it ends with."""
        named = _Type((_UNKNOWN,))
        arguments = None
        depth = 0
        while not self._take("E"):
            is_new = True
            if self._sees("I") and depth > 0:
                arguments = self._template_arguments()
                named = _Type((_OTHER,))
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
                named, arguments = _Type((_UNKNOWN,)), None
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
            members = self._list_of_arguments()
            return _Type(tuple(member.kind for member in members), is_pack=True)
        if self._take("L"):  # a number: L TYPE VALUE E
            self._type()
            self._match(_LITERAL)
            return _Type((_UNKNOWN,))
        return self._type()

    # ---- what was there before -----------------------------------------------------------------------------------

    def _index(self) -> int:
        """``_`` is the first, ``0_`` the second, in base 36."""
        digits = self._match(_SEQUENCE)[1:-1]
        return int(digits, _BASE) + 1 if digits else 0

    def _substitution(self) -> _Type:
        if self.text[self.at + 1 : self.at + 2] in ("a", "b", "s", "i", "o", "d"):  # std::string and its like
            self.at += 2
            return _Type((_OTHER,))
        index = self._index()
        if index >= len(self.substitutions):
            raise _UnsureError
        return self.substitutions[index]

    def _template_parameter(self) -> _Type:
        index = self._index()
        if self.arguments is None or index >= len(self.arguments):
            raise _UnsureError
        return self._remember(self.arguments[index])

    # ---- types ---------------------------------------------------------------------------------------------------

    def _type(self) -> _Type:
        self.depth += 1
        if self.depth > _MOST_NESTED or self.at >= len(self.text):
            raise _UnsureError
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
            return self._remember(self._type().made(_POINTER))
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
        kind = _BUILTINS.get(self._match(_BUILTIN))
        if kind is None:
            raise _UnsureError
        return _Type((kind,))

    def _templated(self, found: _Type) -> _Type:
        """A type of before, or a template of before with other arguments."""
        if not self._sees("I"):
            return found
        self._template_arguments()
        return self._remember(_Type((_OTHER,)))

    def _class(self) -> _Type:
        """A struct, union or enumeration; with template arguments it is no enumeration."""
        if self._take("N"):
            return self._remember(self._nested()[0])
        in_std = self._take("St")
        name = self._source_name()
        found = self._remember(_Type((_UNKNOWN if in_std else _KNOWN.get(name, _UNKNOWN),)))
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
        return _Type((_OTHER,))


def param_kinds(mangled: str) -> Kinds | None:
    """The kinds of a function's parameters, in their order.

    None when the name does not tell (``extern "C"``), or has something in it that is not read here.
    """
    try:
        return _Reader(mangled).kernel()
    except _UnsureError:
        return None


def param_kinds_of_sizes(mangled: str, sizes: Sequence[int]) -> Kinds:
    """The kinds of a function's parameters, whose number and sizes are known for certain, say from its image.

    Whatever disagrees with the sizes is UNKNOWN, and what is too large for an enumeration is none.
    """
    kinds = param_kinds(mangled)
    if kinds is None or len(kinds) != len(sizes):
        return (_UNKNOWN,) * len(sizes)
    return tuple(_kind_of_size(kind, size) for kind, size in zip(kinds, sizes, strict=True))


def _kind_of_size(kind: ParamKind, size: int) -> ParamKind:
    if kind is _UNKNOWN:
        return _UNKNOWN if size in _ENUMERATIONS else _OTHER
    return kind if size in _SIZES.get(kind, (size,)) else _UNKNOWN
