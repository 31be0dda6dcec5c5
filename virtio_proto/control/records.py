"""Records of channels, as workers, daemons, control centres and recordings exchange them.

A batch is a sequence of records, each packed as 24 bytes (`HEADER`) and its payload, padded with zeros to a multiple
of 8. ``kernels/control/vgc_control.h`` defines the numbers; a test compares this module with it. Guest code may have
written any byte: only the layout is checked here, and contents are shown, never trusted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from virtio_proto.control.selector import FUNCTIONS

HEADER: Final = struct.Struct("<QBBHHHII")
MAX_PAYLOAD: Final = 1024
_U64: Final = struct.Struct("<Q")
_I64: Final = struct.Struct("<q")
_F64: Final = struct.Struct("<d")
_CONVERSION: Final = re.compile(r"%([-+ #0]*)(\d+|\*)?(?:\.(\d+|\*))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")
_BITS: Final = {"hh": 8, "h": 16, None: 32, "l": 64, "ll": 64, "j": 64, "z": 64, "t": 64, "L": 64}


class Function(IntEnum):
    """Control function, ``enum vgc_ctl_function``."""

    STDIO = 0
    PERF = 1
    LOG = 2
    FAULT = 3
    LOAD = 4
    FIRMWARE = 5
    SNAPSHOT = 6


class Level(IntEnum):
    """Severity of a record, ``enum vgc_ctl_level``."""

    OFF = 0
    CRITICAL = 1
    ERROR = 2
    WARNING = 3
    INFO = 4
    DEBUG = 5


TYPES: Final[Mapping[Function, Mapping[int, str]]] = {
    Function.STDIO: {1: "text", 2: "format", 3: "wants", 4: "took"},
    Function.PERF: {1: "block_begin", 2: "block_end", 3: "event", 4: "gauge", 5: "sample"},
    Function.LOG: {1: "format"},
    Function.FAULT: {1: "text", 2: "format"},
    Function.LOAD: {1: "sample"},
    Function.FIRMWARE: {1: "state"},
    Function.SNAPSHOT: {1: "state"},
}
"""Names of ``enum vgc_ctl_type``, by function."""


_SAMPLES: Final = frozenset(
    (function, kind) for function, names in TYPES.items() for kind, name in names.items() if name == "sample"
)


class RecordError(ValueError):
    """A batch is torn or has an impossible record."""


@dataclass(frozen=True, slots=True)
class Record:
    """Record of a channel. `time_ns` is in the device's clock; the batch relates that to the host's clock."""

    time_ns: int
    function: Function
    level: int
    type: int
    pe: int
    warp: int
    block: int
    sequence: int
    payload: bytes

    @property
    def kind(self) -> str:
        """Name of the type; a number if it has none."""
        return TYPES[self.function].get(self.type, str(self.type))

    def words(self) -> tuple[int, ...]:
        """Payload as unsigned 64-bit words, without the last bytes if they fill no word."""
        count = len(self.payload) // 8
        return struct.unpack_from(f"<{count}Q", self.payload)


def unpack(batch: bytes) -> Iterator[Record]:
    """Unpacks the records of a batch, in order.

    :raise RecordError: the batch ends in the middle of a record, or a record has an unknown function or is too long.
    """
    at = 0
    while at < len(batch):
        if at + HEADER.size > len(batch):
            raise RecordError(f"{len(batch) - at} bytes at the end of a batch; a record has at least {HEADER.size}")
        time_ns, function_level, kind, length, pe, warp, block, sequence = HEADER.unpack_from(batch, at)
        at += HEADER.size
        end = at + length
        if function_level >> 4 >= len(FUNCTIONS) or length > MAX_PAYLOAD or end > len(batch):
            raise RecordError(f"function {function_level >> 4} with {length} bytes of payload, {len(batch) - at} left")
        level = function_level & 15
        yield Record(time_ns, Function(function_level >> 4), level, kind, pe, warp, block, sequence, batch[at:end])
        at = (end + 7) & ~7


def count(batch: bytes) -> int:
    """Number of records in a well-formed batch."""
    number, at = 0, 0
    while at < len(batch):
        number, at = number + 1, at + HEADER.size + (HEADER.unpack_from(batch, at)[3] + 7 & ~7)
    return number


def has_sample(batch: bytes) -> bool:
    """True if a batch begins with a sample, which its worker has made: no processing element counts that as a record."""
    if len(batch) < HEADER.size:
        return False
    _, function_level, kind, *_ = HEADER.unpack_from(batch)
    return (function_level >> 4, kind) in _SAMPLES


def pack(record: Record) -> bytes:
    """Packs a record as part of a batch: for tests, fakes and records of the host itself."""
    function_level = record.function << 4 | record.level
    numbers = (function_level, record.type, len(record.payload), record.pe, record.warp, record.block, record.sequence)
    return HEADER.pack(record.time_ns, *numbers) + record.payload + bytes(-len(record.payload) % 8)


# --------------------------------------------------------------------------------------------------
# Formats
# --------------------------------------------------------------------------------------------------


def expand(template: str, arguments: bytes) -> str:
    """Formats `arguments` (8 bytes each, in order) by `template`, a format of C's printf.

    A string argument's 8 bytes are its length (high half) and its offset in `arguments` (low half); integers are
    sign-extended by the device, floats are doubles. Missing or misplaced arguments are shown as ``<?>``.
    """
    position = 0

    def take() -> int | None:
        nonlocal position
        if position + 8 > len(arguments):
            return None
        (word,) = _U64.unpack_from(arguments, position)
        position += 8
        return int(word)

    def replace(match: re.Match[str]) -> str:
        flags, width, precision, size, conversion = match.groups()
        if conversion == "%":
            return "%"
        width, precision = (_at_most_255(take() if part == "*" else part) for part in (width, precision))
        word = take()
        if word is None:
            return "<?>"
        spec = "%" + flags + (width or "") + ("." + precision if precision is not None else "")
        return _convert(spec, size, conversion, word, arguments)

    return _CONVERSION.sub(replace, template)


def _at_most_255(part: str | int | None) -> str | None:
    """Bounds a width or precision, which the guest chooses."""
    return None if part is None else str(min(int(part), 255))


def _convert(spec: str, size: str | None, conversion: str, word: int, arguments: bytes) -> str:
    bits = _BITS[size]
    if conversion in "di":
        value = word & (1 << bits) - 1
        return (spec + "d") % (value - (1 << bits) if value >> bits - 1 else value)
    if conversion == "o":
        return (spec.replace("#", "") + "s") % (("0" if "#" in spec else "") + format(word & (1 << bits) - 1, "o"))
    if conversion in "uxX":
        return (spec + ("d" if conversion == "u" else conversion)) % (word & (1 << bits) - 1)
    if conversion == "c":
        return (spec + "c") % chr(word & 0xFF)
    if conversion == "p":
        return (spec + "s") % hex(word)
    if conversion == "s":
        length, offset = word >> 32, word & 0xFFFFFFFF
        text = arguments[offset : offset + length] if offset + length <= len(arguments) else b"<?>"
        return (spec + "s") % text.decode(errors="replace")
    number = struct.unpack("<d", _U64.pack(word))[0]
    return float.hex(number) if conversion in "aA" else (spec + conversion) % number


def describe(record: Record, dictionary: Mapping[int, str]) -> str:
    """Formats a record's contents for people, in one line or as the text that it carries.

    `dictionary` maps device addresses to the formats and names that lie there; others are shown as addresses.
    """
    words = record.words()
    match record.function, record.type:
        case (Function.STDIO, 1 | 4):
            return record.payload.decode(errors="replace")
        case (Function.STDIO, 2) | (Function.LOG, 1) if words:
            return expand(_name(words[0], dictionary), record.payload[8:])
        case (Function.FAULT, 1) if words:
            return record.payload[8:].decode(errors="replace")
        case (Function.FAULT, 2) if len(words) > 1:
            return expand(_name(words[1], dictionary), record.payload[16:])
        case (Function.PERF, 1 | 2) if len(words) > 2:
            unit = "threads" if record.type == 1 else "ns"
            return f"{_name(words[0], dictionary)}, launch {words[1]}, block {record.block}: {words[2]} {unit}"
        case (Function.PERF, 3) if len(words) > 1:
            return f"{_name(words[0], dictionary)} {_I64.unpack_from(record.payload, 8)[0]}"
        case (Function.PERF, 4) if len(words) > 2:
            value, threshold = (_F64.unpack_from(record.payload, at)[0] for at in (8, 16))
            return f"{_name(words[0], dictionary)} {value:g} crosses {threshold:g}"
    return " ".join(str(word) for word in words)


def _name(address: int, dictionary: Mapping[int, str]) -> str:
    return dictionary.get(address, f"<{address:#x}>")
