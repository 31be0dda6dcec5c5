"""Bounds and types of messages about programs, of whatever module."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

NUM_SOURCES: Final = 4
"""Number of a worker's source files, and so of a VM's programs that compile at a time."""
MAX_OPTIONS: Final = 256
MAX_OPTION_CHARS: Final = 4096

Option: TypeAlias = Annotated[str, Meta(max_length=MAX_OPTION_CHARS, pattern=r"\A[^\0]*\Z")]
"""Argument of a compiler: a text without NUL, which no argument can hold."""
Options: TypeAlias = Annotated[tuple[Option, ...], Meta(max_length=MAX_OPTIONS)]
SourceNumber: TypeAlias = Annotated[int, Meta(ge=0, le=NUM_SOURCES - 1)]
