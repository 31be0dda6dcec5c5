"""Attacks on who reads a terminal: by guests whose texts are shown, by servers that answer nonsense."""

from __future__ import annotations

import io

import pytest

from control_center.cli.output import Output, event_line, harmless, one_line, record_line

ROW = {
    "host": "h1",
    "vm": "web1",
    "pe": 0,
    "fn": "log",
    "level": 2,
    "time_ns": 1_700_000_000 * 10**9,
    "kind": "format",
    "text": "all is well",
}
TRICKS = [
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[31mred",
    "\x9b31m",
    "\r overwritten",
    "\u202egnol si txet",
    "\u2066\u200bhidden\u2069",
    "\u2028next",
    "\x00\x7f\b",
]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(print_on: str, *, colour: bool) -> str:
    screen = Screen()
    out = Output(colour=colour, out=screen, err=screen)
    for field in ("host", "vm", "fn", "kind", "text"):
        out.line(record_line({**ROW, field: print_on}, out))
    out.line(
        event_line({"host": print_on, "vm": print_on, "event": print_on, "time_ns": 0, "detail": {"x": print_on}}, out)
    )
    out.line(out.paint(print_on, "green") + print_on)
    out.rows(("x",), [{"x": print_on}], title=print_on)
    out.note(print_on)
    out.error(print_on)
    return screen.getvalue()


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("colour", [True, False])
def test_no_text_steers_the_terminal(trick: str, colour: bool) -> None:
    found = shown(trick, colour=colour)
    ours = [f"\x1b[{code}m" for code in (0, 1, 31, 32, 33, 34, 90)] if colour else ["\x1b[31mvgcctl:\x1b[0m"]
    for sequence in [*ours, "\x1b[31m", "\x1b[0m"]:
        found = found.replace(sequence, "")
    assert found.replace("\n", "").isprintable()


def test_no_text_looks_like_another_line() -> None:
    out = Output(colour=False, out=io.StringIO(), err=io.StringIO())
    forged = f"fine\n{record_line({**ROW, 'vm': 'web2'}, out)}"
    assert len(record_line({**ROW, "text": forged}, out).splitlines()) == 1
    event = {"host": "h1", "vm": "web1", "event": "a\nb", "time_ns": 0, "detail": {"k\n": "v\n"}}
    assert len(event_line(event, out).splitlines()) == 1
    assert one_line("a\n\tb\u2028") == "a\\n b\\u2028"
    assert harmless("a\n\tb") == "a\n\tb"


def test_a_terminal_without_a_character_shows_another() -> None:
    raw = io.BytesIO()
    out = Output(colour=False, out=io.TextIOWrapper(raw, encoding="ascii"), err=io.StringIO())
    out.line("██ 50 % \ud800")
    assert raw.getvalue() == b"?? 50 % ?\n"
