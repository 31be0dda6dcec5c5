"""What a kernel's parameters are, as far as its mangled name says.

A cubin tells sizes but no types; a C++ name has the types [https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling].
Read are those that kernels have: numbers, pointers, structs and enumerations, types of template parameters, and whatever
was named before (``S_``). Nothing is known of other names (``extern "C"``), and of names whose types do not have the sizes
that the cubin tells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from virtio_proto.schema import ParamKind

__all__ = ["param_kinds"]

_INTEGERS: Final = {"b": 1, "c": 1, "a": 1, "h": 1, "s": 2, "t": 2, "i": 4, "j": 4, "l": 8, "m": 8, "x": 8, "y": 8}
_FLOATS: Final = {"f": 4, "d": 8}
_SIZES: Final = _INTEGERS | _FLOATS
_POINTERS: Final = frozenset("PRO")
_HALF: Final = "__half"

_NUMBER: Final = re.compile(r"[0-9]+")
_LENGTH: Final = re.compile(r"[1-9][0-9]{0,5}")
_BACK: Final = re.compile(r"S([0-9A-Z]*)_")
_TEMPLATE_PARAM: Final = re.compile(r"T([0-9]*)_")
_QUALIFIERS: Final = re.compile(r"[rVK]+")
_VALUE: Final = re.compile(r"L[a-z]n?[0-9]+E|XT[0-9]*_E")
"""A number, or a parameter that is one."""
_MAX_DEPTH: Final = 64


class _UnreadError(Exception):
    """The name has something that kernels seldom have."""


def param_kinds(mangled: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """`ParamKind` of each parameter of these sizes, or () where nothing is known of any."""
    try:
        types = _Name(mangled).params()
    except _UnreadError:
        return ()
    if types == ["v"]:
        types = []
    if len(types) != len(sizes):
        return ()
    kinds = tuple(_kind(type_, size) for type_, size in zip(types, sizes, strict=True))
    return () if None in kinds else tuple(int(kind) for kind in kinds if kind is not None)


def _kind(type_: str, size: int) -> ParamKind | None:
    """Of a type as `_Name.type` gives it; None if it does not have that size."""
    if type_ in _SIZES and _SIZES[type_] != size:
        return None
    if type_ in _INTEGERS:
        return ParamKind.INTEGER
    if type_ in _FLOATS or (type_ == _HALF and size == 2):
        return ParamKind.FLOAT
    if type_ in _POINTERS:
        return ParamKind.POINTER if size == 8 else None
    return ParamKind.UNKNOWN if size in {1, 2, 4, 8} else ParamKind.OTHER  # by its size, it could be an enumeration


class _Name:
    """A mangled name that is read from left to right. A type is its letter, a struct's name, or "" if it matters not."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._named: list[str] = []
        """What ``S_``, ``S0_`` and so on stand for."""
        self._template: list[str] = []

    def params(self) -> list[str]:
        """Types of the function's parameters.

        :raise _UnreadError: it is no function's name, or has types that are not read here.
        """
        self._take("_Z")
        if self._function_name():
            self.type()  # only templates have their result's type
        types = []
        while self._at < len(self._text):
            types.append(self.type())
        return types

    # ---- names -------------------------------------------------------------------------------------------

    def _function_name(self) -> bool:
        """Reads it; is it a template? Namespaces, and a template without its arguments, count as named."""
        nested = self._skip("N")
        self._function_part()
        while nested and not self._sees("E", "I"):
            self._named.append("")
            self._function_part()
        is_template = self._sees("I")
        if is_template:
            self._named.append("")
            self._template = self._arguments()
        if nested:
            self._take("E")
        return is_template

    def _function_part(self) -> None:
        self._skip("St")
        self._skip("L")
        self._source_name()

    def _source_name(self) -> str:
        length = self._match(_LENGTH)
        end = self._at + int(length[0])
        if end > len(self._text):
            raise _UnreadError
        name, self._at = self._text[self._at : end], end
        return name

    def _class_name(self) -> str:
        """A struct's or enumeration's, in namespaces or not; "" if it is one of a template."""
        nested = self._skip("N")
        name = self._class_part()
        while self._sees("I") or (nested and not self._sees("E")):
            name = self._class_part()
        if nested:
            self._take("E")
        return name

    def _class_part(self) -> str:
        """A namespace, a name or arguments; with what is before it, it counts as named."""
        if self._sees("S") and not self._sees("St"):
            return self._back()
        if self._sees("I"):
            self._arguments()
            return self._remember("")
        self._skip("St")
        return self._remember(self._source_name())

    def _back(self) -> str:
        digits = self._match(_BACK)[1]
        index = int(digits, 36) + 1 if digits else 0
        if index >= len(self._named):
            raise _UnreadError
        return self._named[index]

    # ---- types -------------------------------------------------------------------------------------------

    def type(self) -> str:
        """Reads a type."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _UnreadError
        found = self._type()
        self._depth -= 1
        return found

    def _type(self) -> str:
        letter = self._peek()
        if letter in _SIZES or letter == "v":
            self._at += 1
            return letter
        if letter.isdigit() or self._sees("N", "St"):
            return self._class_name()
        if letter == "S":
            return self._again()
        return self._remember(self._compound(letter))

    def _again(self) -> str:
        """A type that was named before, or a template of which there are arguments now."""
        found = self._back()
        if not self._sees("I"):
            return found
        self._arguments()
        return self._remember("")

    def _compound(self, letter: str) -> str:
        if letter in _POINTERS:
            self._at += 1
            self.type()
            return letter
        if letter in "rVK":
            self._match(_QUALIFIERS)
            return self.type()
        if letter == "T":
            digits = self._match(_TEMPLATE_PARAM)[1]
            index = int(digits) + 1 if digits else 0
            if index >= len(self._template):
                raise _UnreadError
            return self._template[index]
        if self._skip("A"):
            self._match(_NUMBER)
            self._take("_")
            self.type()
            return ""
        self._take("F")
        while not self._skip("E"):
            self.type()
        return ""

    def _arguments(self) -> list[str]:
        """Of a template: types, and "" for values."""
        self._take("I")
        found = []
        while not self._skip("E"):
            if self._sees("L", "X"):
                self._match(_VALUE)
                found.append("")
            else:
                found.append(self.type())
        return found

    def _remember(self, type_: str) -> str:
        self._named.append(type_)
        return type_

    # ---- characters --------------------------------------------------------------------------------------

    def _peek(self) -> str:
        """The next character.

        :raise _UnreadError: there is none.
        """
        if self._at >= len(self._text):
            raise _UnreadError
        return self._text[self._at]

    def _sees(self, *texts: str) -> bool:
        return self._text.startswith(texts, self._at)

    def _skip(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _take(self, text: str) -> None:
        if not self._skip(text):
            raise _UnreadError

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _UnreadError
        self._at = found.end()
        return found
