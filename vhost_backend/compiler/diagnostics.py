"""Order of a compiler's messages: where not all of them have room, errors come before warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

SHORT: Final = 2_000
"""Characters of a log that has room everywhere, in its own order."""
_BEGIN: Final = re.compile(
    r"^(?:In file included from |\S.*?: (?:fatal )?(?:error|warning|remark):|\S.*?\): (?:error|warning)|\[|error:|fatal)"
)
_WARNING: Final = re.compile(r": (?:warning|remark):|\): warning")
_INCLUDED: Final = "In file included from "


def errors_first(log: str) -> str:
    """The log of a compilation that failed; if it is long, with its warnings behind everything else."""
    if len(log) <= SHORT:
        return log
    messages = list(_messages(log))
    warnings = [message for message in messages if _WARNING.search(message)]
    others = [message for message in messages if not _WARNING.search(message)]
    return "".join(others + warnings)


def _messages(log: str) -> Iterator[str]:
    """Messages with the lines that go with them: whence the file was included before, the source and notes behind."""
    message, is_open = "", False
    for line in log.splitlines(keepends=True):
        begins = _BEGIN.match(line) is not None
        if begins and message and not is_open:
            yield message
            message = ""
        message += line
        is_open = line.startswith((_INCLUDED, "                 from "))
    if message:
        yield message
