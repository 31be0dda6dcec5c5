"""Output of commands: tables and lines for people, JSON for programs. Colours only on a terminal."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TextIO

from control_center import marks

COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "grey": "90", "bold": "1"}
LEVELS: Final = ("off", "critical", "error", "warning", "info", "debug")
_LEVEL_COLOURS: Final = {1: "red", 2: "red", 3: "yellow", 5: "grey"}
_SAMPLES: Final = {
    "perf": ("blocks", "warps", "busy_ns", "stall_ns"),
    "load": ("busy_ns", "blocks", "launches", "since_ns"),
}
"""Names of the numbers in a sample."""
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}
"""Control characters, shown as escapes: guests' texts must not move the terminal's cursor, or do worse."""
_TURNING: Final = (0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
"""Characters of text direction and zero width, shown as escapes: guests' texts must not reorder or hide text."""
_SHOWN: Final = _CONTROL | {code: f"\\u{code:04x}" for code in _TURNING}
_PAINT: Final = re.compile(r"(\x1b\[(?:0|1|3[1-4]|90)m)")


def harmless(text: str) -> str:
    """`text` with control characters as escapes, safe to print on a terminal."""
    return text.translate(_SHOWN)


def one_line(text: str) -> str:
    """Harmless text without ends of lines: a guest's text must not look like the next line, which is of another VM."""
    return harmless(text).replace("\n", "\\n").replace("\t", " ")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


class Output:
    """Prints a command's results; `as_json` is True if a program reads them."""

    def __init__(
        self, *, as_json: bool = False, colour: bool | None = None, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.as_json = as_json
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        for stream in (self._out, self._err):
            if isinstance(stream, io.TextIOWrapper):  # for terminals whose encoding lacks a character
                stream.reconfigure(errors="replace")
        self.is_terminal = self._out.isatty()
        self._colour = (self.is_terminal and "NO_COLOR" not in os.environ) if colour is None else colour

    def paint(self, text: str, colour: str | None) -> str:
        return f"\x1b[{COLOURS[colour]}m{harmless(text)}\x1b[0m" if self._colour and colour else text

    def line(self, text: str = "") -> None:
        """Prints a line, or several. All but our own colours is made harmless: names come from hosts and guests, too."""
        parts = _PAINT.split(text) if self._colour else [text]
        shown = (part if index % 2 else harmless(part) for index, part in enumerate(parts))
        print("".join(shown), file=self._out, flush=True)

    def write(self, text: str) -> None:
        """Writes `text` unchanged, without an end of line."""
        self._out.write(text)
        self._out.flush()

    def note(self, text: str) -> None:
        """Prints a remark to standard error, beside the results."""
        print(harmless(text), file=self._err, flush=True)

    def error(self, text: str) -> None:
        print(
            self.paint("vgcctl:", "red") if self._err.isatty() else "vgcctl:",
            harmless(text),
            file=self._err,
            flush=True,
        )

    def json(self, value: Any, *, indent: int | None = None) -> None:
        self.line(json.dumps(value, default=_plain, indent=indent))

    def rows(self, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, title: str = "") -> None:
        """Prints a table of `rows`; with ``--json`` the rows themselves."""
        found = list(rows)
        if self.as_json:
            self.json(found, indent=2 if self.is_terminal else None)
            return
        if title:
            self.line(self.paint(title, "bold"))
        self.line(table(columns, found, self.paint) if found else "(none)")

    def clear_screen(self) -> None:
        """Clears the terminal for the next picture of a live view; without a terminal, does nothing."""
        if self.is_terminal:
            self.write("\x1b[H\x1b[2J")


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], paint: Any = lambda text, _colour: text) -> str:
    """Table with columns as wide as their contents; numbers are aligned to the right."""
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[i]) for line in cells)) for i, column in enumerate(columns)]
    right = [all(isinstance(row.get(column), int | float | None) for row in rows) for column in columns]

    def join(parts: Sequence[str]) -> str:
        aligned = (part.rjust(w) if r else part.ljust(w) for part, w, r in zip(parts, widths, right, strict=True))
        return "  ".join(aligned).rstrip()

    head = join([column.replace("_", " ") for column in columns])
    return "\n".join([paint(head, "bold"), *(join(line) for line in cells)])


def cell(value: Any) -> str:
    """Text of a value for a table's cell, in one line."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case list() | tuple():
            return " ".join(map(cell, value)) or "-"
        case dict():
            return " ".join(f"{cell(key)}={cell(item)}" for key, item in value.items()) or "-"
    return one_line(str(value))


# ---- formats -------------------------------------------------------------------------------------


def clock(time_ns: int) -> str:
    """Local time of day, to the microsecond."""
    when = datetime.fromtimestamp(time_ns // 10**9).astimezone()
    return f"{when:%H:%M:%S}.{time_ns % 10**9 // 1000:06d}"


def date(time_ns: int) -> str:
    when = datetime.fromtimestamp(time_ns // 10**9).astimezone()
    return f"{when:%Y-%m-%d %H:%M:%S}"


def size(count: float) -> str:
    """Number of bytes with a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def over(recorder: Mapping[str, Any]) -> str:
    """Clause about a recorder's last failure that is over; "" if it had none since its start, or one that lasts."""
    failure = recorder["failure"]
    if failure is None or failure["to_ns"] is None:
        return ""
    span = f"from {date(failure['from_ns'])} to {date(failure['to_ns'])}"
    return one_line(f"; it could not write {span}: {failure['error']}")


def duration(span_ns: float) -> str:
    for unit, length in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(span_ns) >= length:
            return f"{span_ns / length:.4g} {unit}"
    return f"{span_ns:g} ns"


def ranges(numbers: Sequence[int] | None) -> str:
    """Numbers in the syntax of selectors: ``0-3|8`` for 0 1 2 3 8."""
    if numbers is None:
        return "*"
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return "|".join(str(a) if a == b else f"{a}-{b}" for a, b in parts) or "-"


def record_line(row: Mapping[str, Any], out: Output) -> str:
    """Line of a record: ``host/vm/pe fn level time text``."""
    level = row["level"]
    name = LEVELS[level] if 0 <= level < len(LEVELS) else str(level)
    where = one_line(f"{row['host']}/{row['vm']}/{row['pe']} {row['fn']}")
    text = one_line(row["text"].rstrip("\n"))
    if row["kind"] == "sample" and row["fn"] in _SAMPLES:
        text = " ".join(f"{name}={value}" for name, value in zip(_SAMPLES[row["fn"]], text.split(), strict=False))
    kind = "" if row["kind"] in ("text", "format") else f"{one_line(row['kind'])} "
    shown = out.paint(f"{name:7}", _LEVEL_COLOURS.get(level))
    return f"{where} {shown} {clock(row['time_ns'])} {kind}{text}"


def event_line(message: Mapping[str, Any], out: Output) -> str:
    """Line of an event: ``host[/vm] event time detail``; of marks of programs, a line for each."""
    if message["event"] == marks.EVENT:
        found = marks.marks_of(message.get("detail") or {})
        each = [{**message, "time_ns": at_ns, "event": name, "detail": detail} for at_ns, name, detail in found]
        return "\n".join(event_line(one, out) for one in each)
    where = "/".join(part for part in (message.get("host"), message.get("vm")) if part) or "-"
    what = cell(message.get("detail") or {})
    return f"{one_line(where)} {out.paint(one_line(message['event']), 'blue')} {clock(message['time_ns'])} {what}"
