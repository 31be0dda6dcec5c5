"""Smaller arguments: programs that time a kernel call it hundreds of times, on data for a large GPU; neither is needed to check it.

As a script it is the LAUNCHER of a Makefile's target `run`: `shrink.py DIVISOR PLACES PROGRAM ARGUMENT...`, or
`shrink.py --with ARGUMENTS PROGRAM ARGUMENT...`, which runs the program with the given arguments in place of the Makefile's.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ARGUMENTS: Final = Path(__file__).with_name("arguments.toml")
LARGE: Final = 1000
SAID: Final = "run with"
"""Begins the line that tells the arguments, if they are others than the Makefile's."""
_SUFFIXES: Final = frozenset({".cu", ".cpp", ".cc", ".c", ".h", ".hpp", ".cuh"})
_COUNT: Final = (
    r"(?:max(?:imum)? |kernel |i)?(?:num(?:ber)?[ _]?(?:of[ _])?|n[_ ]?)?(?:kernel |timing |benchmark )?"
    r"(?:repeat(?:s|ed)?|repetitions?|reps|iterations?|iters?|loops?|runs?|trials?|times)(?:[ _](?:count|times))?"
)
_COUNT_NAME: Final = re.compile(_COUNT, re.IGNORECASE)
_OPTION_NAME: Final = re.compile(rf"--?(?:{_COUNT}|passes)", re.IGNORECASE)
_ASSIGNED: Final = re.compile(rf"^(--?(?:{_COUNT}|passes)=)[1-9]\d*$", re.IGNORECASE)
_USAGE: Final = re.compile(r"usage\b[^;]{0,400}", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"<([^<>\"]+)>")
_OPTION: Final = re.compile(r"[\s\[]-{1,2}[A-Za-z]")
_READ: Final = re.compile(
    rf"\b{_COUNT}\s*=\s*(?:\(\w+\)\s*)?(?:std::)?(?:ato[il]l?|sto[iul]l?l?|strtou?ll?)\s*\(\s*argv\[(\d+)\]",
    re.IGNORECASE,
)


def _in_usage(text: str) -> Iterator[int]:
    for message in _USAGE.findall(text):
        if not _OPTION.search(message):
            for place, name in enumerate(_PLACEHOLDER.findall(message), 1):
                if _COUNT_NAME.fullmatch(name.strip()):
                    yield place


def repeat_places(folder: Path) -> list[int]:
    """Places of the program's arguments, from 1, that its usage message, or the variable read from them, calls repeat counts."""
    found: set[int] = set()
    for path in folder.rglob("*"):
        if path.suffix in _SUFFIXES and path.is_file():
            text = path.read_text(errors="replace")
            found.update(_in_usage(text), map(int, _READ.findall(text)))
    return sorted(found)


def shrunk(words: list[str], places: Iterable[int], divisor: int = 1) -> list[str]:
    """A program and its arguments, the counts at `places` and those after options such as --repeat being 1.

    Other numbers of at least LARGE are divided. A divisor that is a power of two leaves powers of two what they are.
    """
    counts = set(places)
    counts.update(place for place, word in enumerate(words, 1) if _OPTION_NAME.fullmatch(word))
    return [
        _one(word) if place in counts else _divided(_ASSIGNED.sub(r"\g<1>1", word), divisor)
        for place, word in enumerate(words)
    ]


def given(corpus: str, path: Path = ARGUMENTS) -> dict[str, str]:
    """Arguments, by program, of those of a corpus that need ones of their own to be small."""
    found: dict[str, str] = tomllib.loads(path.read_text()).get(corpus, {})
    return found


def launched(words: list[str]) -> list[str]:
    """The command that the script runs, by its own arguments."""
    if words[0] == "--with":
        return [words[2], *shlex.split(words[1])]
    divisor, places, *command = words
    return shrunk(command, map(int, filter(None, places.split(","))), int(divisor))


def _one(word: str) -> str:
    return "1" if word.isdecimal() and int(word) > 1 else word


def _divided(word: str, divisor: int) -> str:
    return str(int(word) // divisor) if word.isdecimal() and int(word) >= LARGE else word


if __name__ == "__main__":
    command = launched(sys.argv[1:])
    if command != sys.argv[3:]:
        print(SAID, *command[1:], flush=True)
    os.execvp(command[0], command)
