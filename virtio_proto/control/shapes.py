"""Checks data of peers against types (`TypedDict`, `msgspec.Struct`), and makes JSON schemas of these types.

msgspec does the checking. After a refusal the wrong value is searched for, to say where it is and what is allowed.
"""

from __future__ import annotations

import functools
import math
import reprlib
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as _is_typeddict

import msgspec

from virtio_proto.control import frames

MAX_DEPTH: Final = 32
"""Deepest nesting of data that no type describes."""
_NAMES: Final[Mapping[Any, str]] = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    bytes: "bytes",
    type(None): "null",
}
_SHOWN: Final = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80


class ShapeError(ValueError):
    """A value does not fit its type; the text names the place, the value and what is allowed."""


def checked(value: Any, shape: Any, where: str, *, from_json: bool = False) -> Any:
    """Converts `value` to `shape`: a map becomes a Struct; unknown fields of a TypedDict are dropped.

    `where` names the value in errors; if it ends with a space, names of fields follow it directly, without a dot.
    `from_json`: bytes come as base64.

    :raise ShapeError: the value does not fit.
    """
    try:
        return _convert(value, shape, from_json)
    except (msgspec.ValidationError, RecursionError):
        raise ShapeError(_problem(value, shape, where, from_json)) from None


def decoded(body: bytes | msgspec.Raw, shape: Any, where: str) -> Any:
    """Decodes MessagePack straight to `shape`: as `checked` of what `frames.unpack` finds, for a fifth of the cost.

    :raise ShapeError: `body` is not MessagePack, or does not fit.
    """
    for alternative in _tables_of(shape):
        try:
            return _decoder(alternative).decode(body)
        except (msgspec.MsgspecError, RecursionError):
            continue
    try:
        value = frames.unpack(memoryview(body))
    except frames.FrameError as error:
        raise ShapeError(f"{where} is {error}") from None
    return checked(value, shape, where)


@functools.cache
def _decoder(shape: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(shape)


def _convert(value: Any, shape: Any, from_json: bool) -> Any:
    alternatives = _tables_of(shape)
    for alternative in alternatives[:-1]:  # msgspec has no unions of tables
        try:
            return _convert(value, alternative, from_json)
        except msgspec.ValidationError:
            continue
    return msgspec.convert(value, alternatives[-1], builtin_types=None if from_json else (bytes,))


@functools.cache
def _tables_of(shape: Any) -> tuple[Any, ...]:
    """Alternatives of a union of tables, else the shape alone."""
    if get_origin(shape) in (Union, types.UnionType) and all(_is_table(arg) for arg in get_args(shape)):
        return get_args(shape)
    return (shape,)


def check_plain(value: Any, where: str, *, strict: bool = False, depth: int = 0) -> None:
    """Checks data that no type describes: numbers, texts, bytes, lists and maps with text as keys, not too deep.

    `strict`: numbers and texts must also be valid in MessagePack; not all of JSON's are.

    :raise ShapeError: the data holds something else, or is nested too deep.
    """
    if depth > MAX_DEPTH:
        raise ShapeError(f"{where} is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _wrong(where, value, "a map with text as keys")
            if strict:
                check_plain(item, _joined(where, _harmless(key)), strict=True, depth=depth + 1)
            else:
                check_plain(item, where, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_plain(item, f"{where}[]", strict=strict, depth=depth + 1)
    elif strict:
        _check_sendable(value, where)
    elif value is not None and not isinstance(value, str | int | float | bytes):
        raise _wrong(where, value, "numbers, texts, bytes, lists and maps with text as keys")


def _check_sendable(value: Any, where: str) -> None:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(where, value, "text without halves of characters") from None
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise _wrong(where, value, "a number of 64 bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise _wrong(where, value, "a finite number")


# ---- texts of errors -------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    return _SHOWN.repr(value)[:80]


def _wrong(where: str, value: Any, allowed: str) -> ShapeError:
    return ShapeError(f"{where.rstrip(': ')} is {_shown(value)}; allowed: {allowed}")


def _joined(where: str, name: str) -> str:
    return f"{where}{name}" if where.endswith(" ") else f"{where}.{name}"


def _harmless(name: object) -> str:
    """Name in printable ASCII."""
    return ascii(str(name)[:80])[1:-1]


def _inner(hint: Any) -> Any:
    """Type of a field without its NotRequired or Required."""
    return get_args(hint)[0] if get_origin(hint) in (NotRequired, Required) else hint


def _bare(shape: Any) -> tuple[Any, msgspec.Meta]:
    """Splits a type into the type without bounds, and the bounds."""
    if get_origin(shape) is Annotated:
        return get_args(shape)[0], next(item for item in shape.__metadata__ if isinstance(item, msgspec.Meta))
    return shape, msgspec.Meta()


def _is_table(shape: Any) -> bool:
    return _is_typeddict(shape) or (isinstance(shape, type) and issubclass(shape, msgspec.Struct))


@functools.cache
def _fields(table: Any) -> dict[str, tuple[Any, bool]]:
    """Fields of a table by name: type, and whether the field is required."""
    hints = get_type_hints(table, include_extras=True)
    if _is_typeddict(table):
        return {name: (_inner(hint), get_origin(hint) is not NotRequired) for name, hint in hints.items()}
    return {field.name: (hints[field.name], field.required) for field in msgspec.structs.fields(table)}


def _problem(value: Any, shape: Any, where: str, from_json: bool) -> str:
    """Finds the innermost wrong part of `value`, and describes it."""
    bare, meta = _bare(_alternative(value, shape))
    if _is_table(bare) and isinstance(value, dict):
        for name, (hint, _) in _fields(bare).items():
            if name in value and not _fits(value[name], hint, from_json):
                return _problem(value[name], hint, _joined(where, name), from_json)
        return _table_problem(value, bare, where, from_json)
    items, of, place = _items_of(value, bare)
    is_long = meta.max_length is not None and len(items) > meta.max_length
    if not is_long and not _fits(items, _list_of(of), from_json):
        return _problem(_first_wrong(items, of, from_json), of, f"{where}{place}", from_json)
    return str(_wrong(where, value, _allowed(bare, meta)))


def _fits(value: Any, shape: Any, from_json: bool) -> bool:
    try:
        _convert(value, shape, from_json)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


def _alternative(value: Any, shape: Any) -> Any:
    """Alternative of a union that is a list or a map, as the value is; without one, the union."""
    bare, _ = _bare(shape)
    if get_origin(bare) not in (Union, types.UnionType):
        return shape

    def is_like(alternative: Any) -> bool:
        inner, _ = _bare(alternative)
        if isinstance(value, dict):
            return get_origin(inner) is dict or (_is_table(inner) and any(name in value for name in _fields(inner)))
        return isinstance(value, list) and get_origin(inner) in (list, tuple)

    return next(filter(is_like, get_args(bare)), shape)


def _items_of(value: Any, shape: Any) -> tuple[list[Any], Any, str]:
    """Items of a list or of a map without declared keys: the items, their type, and what their place is called."""
    origin, args = get_origin(shape), get_args(shape)
    if isinstance(value, dict) and origin is dict and all(isinstance(key, str) for key in value):
        return list(value.values()), args[1], ".*"
    if isinstance(value, list) and origin in (list, tuple):
        return value, args[0], "[]"
    return [], Any, ""


def _list_of(shape: Any) -> Any:
    return types.GenericAlias(list, (shape,))


def _first_wrong(items: list[Any], of: Any, from_json: bool) -> Any:
    """Finds the first item that does not fit, by halves: a peer's list may have a million items."""
    while len(items) > 1:
        half = items[: len(items) // 2]
        items = items[len(half) :] if _fits(half, _list_of(of), from_json) else half
    return items[0]


def _table_problem(value: dict[Any, Any], table: Any, where: str, from_json: bool) -> str:
    """Describes what is wrong with a map whose fields are each valid."""
    fields = _fields(table)
    for name, (hint, required) in fields.items():
        if required and name not in value:
            return f"{_joined(where, name)} is missing; allowed: {_allowed(*_bare(hint))}"
    more = [name for name in value if name not in fields]
    if more and not _is_typeddict(table):
        return not_a_field(min(map(str, more)), where, fields)
    try:
        _convert(value, table, from_json)
    except msgspec.ValidationError as error:
        if error.__cause__ is not None:  # raised by the Struct's __post_init__, with a text of its own
            return f"{where.rstrip(': ')}: {error.__cause__}"
    return str(_wrong(where, value, _allowed(table, msgspec.Meta())))


def not_a_field(name: str, where: str, fields: Mapping[str, object]) -> str:
    """Error text for an unknown field."""
    return f"{_joined(where, _harmless(name))} is no field; allowed: {', '.join(fields) or 'none'}"


def _allowed(shape: Any, meta: msgspec.Meta) -> str:
    """Describes in words what a type allows."""
    if shape in _NAMES:
        return " ".join([_NAMES[shape], *_bounds(shape, meta)])
    if _is_table(shape):
        return f"a map with {', '.join(_fields(shape)) or 'nothing'}"
    origin, args = get_origin(shape), get_args(shape)
    if origin is Literal:
        return " or ".join(map(str, args))
    if origin in (list, tuple):
        most = "" if meta.max_length is None else f" of at most {meta.max_length}"
        return f"a list{most}"
    if origin is dict:
        return "a map with text as keys"
    if origin in (Union, types.UnionType):
        return " or ".join(_allowed(*_bare(arg)) for arg in args if arg is not msgspec.UnsetType)
    return "anything"


def _bounds(shape: Any, meta: msgspec.Meta) -> Iterator[str]:
    if meta.ge is not None and meta.le is not None:
        yield f"of {meta.ge} to {meta.le}" if shape is int else f"of {meta.ge:g} to {meta.le:g}"
    elif meta.ge is not None:
        yield f"of {meta.ge} or more"
    if meta.max_length is not None:
        unit = "" if shape is bytes else " characters"
        yield f"of {f'{meta.min_length} to' if meta.min_length else 'at most'} {meta.max_length}{unit}"


# ---- JSON schemas --------------------------------------------------------------------------------


def schema(shape: Any, components: dict[str, Any]) -> dict[str, Any]:
    """JSON schema (2020-12, as in OpenAPI 3.1) of a type; schemas of tables are added to `components` by name."""
    made = msgspec.json.schema_components([shape], ref_template="#/components/schemas/{name}")
    (found,), parts = msgspec.json.decode(msgspec.json.encode(made))  # defaults may be tuples, and become lists
    components.update(parts)
    return dict(found)
