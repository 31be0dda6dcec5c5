"""Hot lines of kernels: what programs that were compiled with ``--profile`` print when their launches end."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

OTHER: Final = "other code"
"""Place of samples in the runtime, in code without a line, and in lines that were too cold to be listed."""

_LINE: Final = re.compile(
    r"profile: (?P<place>.+): (?P<samples>\d+) of (?P<total>\d+) samples in kernel '(?P<kernel>.*)'"
)


class HotLines(io.TextIOBase):
    """Output of a device: keeps the lines of profiles, and passes all other text on to `file`."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._begun = ""
        self._samples: dict[tuple[str, str], int] = {}

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if not self._take(line):
                self._file.write(line + "\n")
        return len(text)

    def flush(self) -> None:
        if not self._begun.startswith("profile: "[: len(self._begun)]):
            self._file.write(self._begun)
            self._begun = ""
        self._file.flush()

    def _take(self, line: str) -> bool:
        found = _LINE.fullmatch(line)
        if found is not None:
            key = (found["kernel"], found["place"])
            self._samples[key] = self._samples.get(key, 0) + int(found["samples"])
        return found is not None

    def table(self, sources: Mapping[str, tuple[str, Sequence[str]]]) -> str:
        """Formats the samples for people: for each kernel its lines, the hottest first, with their text.

        :param sources: file name to show, and lines, of each source by the name under which the host compiles it.
        """
        rows = []
        for kernel in dict.fromkeys(kernel for kernel, _ in self._samples):
            places = {place: count for (of, place), count in self._samples.items() if of == kernel and count}
            total = sum(places.values())
            if total == 0:
                rows.append(f"no samples in kernel '{kernel}': it took less than some milliseconds")
                continue
            rows.append(f"hot lines of kernel '{kernel}', {total} samples:")
            for place, count in sorted(places.items(), key=lambda item: -item[1]):
                shown, text = _described(place, sources)
                rows.append(f"{count / total:7.1%}  {shown:<16}  {text}".rstrip())
        return "\n".join(rows) or "no profile: the program launched no kernel"


def _described(place: str, sources: Mapping[str, tuple[str, Sequence[str]]]) -> tuple[str, str]:
    file, _, number = place.rpartition(":")
    named = [name for name in sources if name.endswith(f"/{file}")]  # the host keeps the end of a long path
    if file not in sources and len(named) == 1:
        file = named[0]
    if file not in sources or not number.isdigit():
        return place, ""
    name, source = sources[file]
    line = int(number)
    return f"{name}:{line}", source[line - 1].strip() if 1 <= line <= len(source) else ""
