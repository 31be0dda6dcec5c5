"""A guest's own headers, which stand before its source: the compiler sees no file of the guest's.

The form is described beside the software GPU's reader of it (``cpu/compiler/guest_headers.h``).
"""

from __future__ import annotations

from typing import NamedTuple

from .errors import CompileError

_HEAD = b"//# vgc headers "
_MAX_FOLDERS, _MAX_FILES, _MAX_PATH, _MAX_DIGITS = 256, 16384, 1024, 9


class Headers(NamedTuple):
    """Folders in the order of their search, and texts by their paths; all absolute."""

    folders: list[str]
    files: dict[str, bytes]


def split(source: bytes) -> tuple[Headers, bytes]:
    """Takes the headers, if there are any, from the front of a source.

    :raise CompileError: the list is malformed.
    """
    headers = Headers([], {})
    if not source.startswith(_HEAD):
        return headers, source
    counts, at = _line(source, len(_HEAD))
    numbers = [_number(word) for word in counts.split(b" ")]
    if len(numbers) != 2 or numbers[0] > _MAX_FOLDERS or numbers[1] > _MAX_FILES:
        raise CompileError(
            f"the list of the source's headers has no numbers that are allowed (allowed: up to {_MAX_FOLDERS} folders,"
            f" up to {_MAX_FILES} files)"
        )
    for _ in range(numbers[0]):
        line, at = _line(source, at)
        headers.folders.append(_path(line))
    for _ in range(numbers[1]):
        line, at = _line(source, at)
        size, _, name = line.partition(b" ")
        path, end = _path(name), at + _number(size)
        if end > len(source):
            raise CompileError(f"the header {path} ends early: {end - at} bytes announced, {len(source) - at} there")
        if path in headers.files:
            raise CompileError(f"two headers of the source have the path {path}")
        headers.files[path] = source[at:end]
        at = end
    return headers, source[at:]


def _line(source: bytes, at: int) -> tuple[bytes, int]:
    """The line at an offset, and the offset behind it."""
    end = source.find(b"\n", at)
    if end < 0:
        raise CompileError("the list of the source's headers ends in the middle of a line")
    return source[at:end], end + 1


def _number(word: bytes) -> int:
    if not word.isdigit() or len(word) > _MAX_DIGITS:
        raise CompileError(f"the list of the source's headers has {word[:20]!r} in the place of a number")
    return int(word)


def _path(line: bytes) -> str:
    """A plain absolute path: each file has one name, and none lies elsewhere than its name says."""
    path = line[: _MAX_PATH + 1].decode(errors="replace")
    parts = path.split("/")
    is_plain = (
        path.startswith("/")
        and len(line) <= _MAX_PATH
        and not any(part in ("", ".", "..") for part in parts[1:])
        and not any(ord(c) < ord(" ") or c in '"\\\x7f\ufffd' for c in path)
    )
    if not is_plain:
        raise CompileError(
            f"a header or folder of the source is called {path[:_MAX_PATH]!r} (allowed: absolute paths of up to"
            f" {_MAX_PATH} bytes without '.', '..', control characters, quotes and backslashes)"
        )
    return path
