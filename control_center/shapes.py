"""Shapes of data, from the classes that describe them (TypedDict): checking what others sent, and JSON schemas.

What a daemon answers and what a client asks is of nobody we know. `checker` makes, once per shape, a function that
looks at a value and says where it is wrong; it is written for many small values, as thousands of channels are listed.
"""

from __future__ import annotations

import functools
import math
import reprlib
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NotRequired, Required, TypeAlias, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as _is_typeddict

Checker: TypeAlias = Callable[[Any, str], None]
MAX_ITEMS: Final = 1 << 20
MAX_DEPTH: Final = 32
"""Of what has no shape of its own."""
_SCALARS: Final[Mapping[Any, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "text"),
    int: ((int,), "an integer"),
    float: ((float, int), "a number"),
    bool: ((bool,), "true or false"),
    bytes: ((bytes,), "bytes"),
    type(None): ((type(None),), "null"),
}
_SCHEMAS: Final[Mapping[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    type(None): {"type": "null"},
    Any: {},
}


class ShapeError(ValueError):
    """A value is not of the shape that it should have; the text names the place, the value and what is allowed."""


@functools.cache
def checker(shape: Any, *, strict: bool = False) -> Checker:
    """A function ``check(value, where)`` that raises `ShapeError`; `strict`: keys that are not known are wrong, too."""
    if shape is Any:
        return _check_plain
    if shape in _SCALARS:
        return _sendable(_scalar(*_SCALARS[shape])) if strict else _scalar(*_SCALARS[shape])
    if _is_typeddict(shape):
        return _table(shape, strict)
    origin, args = get_origin(shape), get_args(shape)
    if origin in (NotRequired, Required):
        return checker(args[0], strict=strict)
    if origin is Literal:
        return _literal(args)
    if origin is list:
        return _list(checker(args[0], strict=strict))
    if origin is dict:
        return _dict(checker(args[1], strict=strict))
    if origin in (Union, types.UnionType):
        return _union([checker(arg, strict=strict) for arg in args])
    raise TypeError(f"no shape: {shape!r}")


def check(value: Any, shape: Any, where: str, *, strict: bool = False) -> None:
    """:raise ShapeError: `value` is not of `shape`."""
    checker(shape, strict=strict)(value, where)


_SHOWN: Final = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80


def _wrong(where: str, value: Any, allowed: str) -> ShapeError:
    return ShapeError(f"{where} is {_SHOWN.repr(value)[:80]}; allowed: {allowed}")


def _scalar(allowed: tuple[type, ...], name: str) -> Checker:
    def check_scalar(value: Any, where: str) -> None:
        if type(value) not in allowed:  # not isinstance: True is no integer
            raise _wrong(where, value, name)

    return check_scalar


def _sendable(check_type: Checker) -> Checker:
    """A scalar that can go on to a daemon: JSON has numbers and texts that MessagePack does not."""

    def check_sendable(value: Any, where: str) -> None:
        check_type(value, where)
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _wrong(where, value, "text without halves of characters") from None
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            raise _wrong(where, value, "a number of 64 bits")
        elif isinstance(value, float) and not math.isfinite(value):
            raise _wrong(where, value, "a finite number")

    return check_sendable


def _check_plain(value: Any, where: str, depth: int = 0) -> None:
    """What has no shape of its own is plain data all the same, which JSON has a form for."""
    if value is None or isinstance(value, str | int | float | bytes):
        return
    if depth >= MAX_DEPTH:
        raise ShapeError(f"{where} is nested deeper than {MAX_DEPTH}")
    if isinstance(value, list):
        for one in value:
            _check_plain(one, where, depth + 1)
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for one in value.values():
            _check_plain(one, where, depth + 1)
    else:
        raise _wrong(where, value, "numbers, texts, bytes, lists and maps with text as keys")


def _literal(allowed: tuple[Any, ...]) -> Checker:
    def check_literal(value: Any, where: str) -> None:
        if not isinstance(value, str | int) or value not in allowed:
            raise _wrong(where, value, " or ".join(map(str, allowed)))

    return check_literal


def _list(item: Checker) -> Checker:
    def check_list(value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise _wrong(where, value, "a list")
        place = f"{where}[]"
        for one in value:
            item(one, place)

    return check_list


def _dict(item: Checker) -> Checker:
    def check_dict(value: Any, where: str) -> None:
        if not isinstance(value, dict) or len(value) > MAX_ITEMS or not all(isinstance(key, str) for key in value):
            raise _wrong(where, value, "a map with text as keys")
        place = f"{where}.*"
        for one in value.values():
            item(one, place)

    return check_dict


def _union(alternatives: list[Checker]) -> Checker:
    def check_union(value: Any, where: str) -> None:
        problems = []
        for alternative in alternatives:
            try:
                alternative(value, where)
            except ShapeError as error:
                problems.append(str(error).partition("allowed: ")[2])
            else:
                return
        raise _wrong(where, value, " or ".join(problems))

    return check_union


def _is_required(hint: Any) -> bool:
    """``__required_keys__`` is wrong where annotations are text (PEP 563), as everywhere in this project."""
    return get_origin(hint) is not NotRequired


def _table(shape: Any, strict: bool) -> Checker:
    hints = get_type_hints(shape, include_extras=True)
    checks = [(key, checker(hint, strict=strict), _is_required(hint)) for key, hint in hints.items()]
    allowed = ", ".join(hints)

    def check_table(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, value, f"a map with {allowed}")
        there = 0
        for key, check_item, required in checks:
            if key in value:
                there += 1
                check_item(value[key], f"{where}.{key}")
            elif required:
                raise ShapeError(f"{where}.{key} is missing; allowed: a map with {allowed}")
        if len(value) > there:
            _check_more(value, value.keys() - hints.keys(), where, None if not strict else allowed or "none")

    return check_table


def _check_more(value: dict[Any, Any], more: Collection[Any], where: str, allowed: str | None) -> None:
    """Fields that the shape does not know: none, if it says what is `allowed`; else plain data."""
    if allowed is not None:
        name = min(map(str, more))[:80].encode("ascii", "backslashreplace").decode()
        raise ShapeError(f"{where}.{name} is no field; allowed: {allowed}")
    _check_plain({key: value[key] for key in more}, where)


# ---- JSON schemas --------------------------------------------------------------------------------


def schema(shape: Any, components: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema (2020-12, as OpenAPI 3.1 has it) of a shape; tables go to `components` by name."""
    if shape is Any or shape in _SCHEMAS:
        return dict(_SCHEMAS[shape])
    if _is_typeddict(shape):
        return _table_schema(shape, components)
    origin, args = get_origin(shape), get_args(shape)
    if origin in (NotRequired, Required):
        return schema(args[0], components)
    if origin is Literal:
        return {"enum": list(args)}
    if origin is list:
        return {"type": "array", "items": schema(args[0], components)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(args[1], components)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema(arg, components) for arg in args]}
    raise TypeError(f"no shape: {shape!r}")


def _table_schema(shape: Any, components: dict[str, Any]) -> dict[str, Any]:
    name = shape.__name__
    if name not in components:
        components[name] = {}  # before its fields, one of which may be of the same kind
        hints = get_type_hints(shape, include_extras=True)
        components[name] = {
            "type": "object",
            "description": (shape.__doc__ or name).strip(),
            "properties": {key: schema(hint, components) for key, hint in hints.items()},
            "required": sorted(key for key, hint in hints.items() if _is_required(hint)),
        }
    return {"$ref": f"#/components/schemas/{name}"}
