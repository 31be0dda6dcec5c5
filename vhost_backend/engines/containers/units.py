"""Programs of several units, in the form of ``vgc_units`` and ``vgc_unit`` (`virtio_proto/schema.py`)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from .errors import CompileError

_HEAD = struct.Struct("<II")
_ENTRY = struct.Struct("<IIQ")
_MAX_UNITS = 256
_MAX_NAME = 255


class Unit(NamedTuple):
    """A source of a program."""

    name: str
    options: list[str]
    text: bytes


def split(program: bytes) -> list[Unit]:
    """Takes a program apart.

    :raise CompileError: it is malformed.
    """
    if len(program) < _HEAD.size:
        raise CompileError(f"the program has {len(program)} bytes, and its head alone {_HEAD.size}")
    count, reserved = _HEAD.unpack_from(program)
    if reserved != 0:
        raise CompileError(f"the program's head has {reserved} in a reserved field (allowed: 0)")
    if not 1 <= count <= _MAX_UNITS:
        raise CompileError(f"the program has {count} units (allowed: 1 to {_MAX_UNITS})")
    at = _HEAD.size + count * _ENTRY.size
    if at > len(program):
        raise CompileError("the program ends in the middle of the list of units")
    units: list[Unit] = []
    for number in range(count):
        unit, at = _unit(program, number, at)
        if any(unit.name == other.name for other in units):
            raise CompileError(f"two units have the name '{unit.name}'")
        units.append(unit)
    if at != len(program):
        raise CompileError(f"{len(program) - at} bytes follow the last unit (allowed: 0)")
    return units


def _unit(program: bytes, number: int, at: int) -> tuple[Unit, int]:
    """A source, whose parts begin at an offset, and the offset behind them."""
    name_len, options_len, text_len = _ENTRY.unpack_from(program, _HEAD.size + number * _ENTRY.size)
    if not 1 <= name_len <= _MAX_NAME:
        raise CompileError(f"unit {number} has a name of {name_len} bytes (allowed: 1 to {_MAX_NAME})")
    options_at = at + name_len
    text_at = options_at + options_len
    end = text_at + text_len
    if end > len(program):
        raise CompileError(f"the program ends in the middle of unit {number}: {end} bytes announced")
    name = _name(program[at:options_at], number)
    words = program[options_at:text_at]
    if words and not words.endswith(b"\0"):
        raise CompileError(f"the last option of unit '{name}' does not end in NUL")
    options = words.decode(errors="surrogateescape").split("\0")[:-1]
    return Unit(name, options, program[text_at:end]), end


def _name(raw: bytes, number: int) -> str:
    """Name of a source, which errors show."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        name = ""
    if not name or not name.isprintable() or name.startswith("-") or '"' in name or "\\" in name:
        raise CompileError(
            f"unit {number} has a name that is not allowed (allowed: UTF-8 without control characters, quotes and"
            " backslashes, that does not begin with '-')"
        )
    return name


def packed(units: list[Unit]) -> bytes:
    """A program of units, as `split` takes it apart."""
    options = [b"".join(word.encode(errors="surrogateescape") + b"\0" for word in unit.options) for unit in units]
    names = [unit.name.encode() for unit in units]
    parts = [_HEAD.pack(len(units), 0)]
    for unit, name, words in zip(units, names, options, strict=True):
        parts.append(_ENTRY.pack(len(name), len(words), len(unit.text)))
    for unit, name, words in zip(units, names, options, strict=True):
        parts += [name, words, unit.text]
    return b"".join(parts)
