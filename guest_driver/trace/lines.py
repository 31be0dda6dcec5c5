"""Files that processes write while they are traced (``libvgc/src/trace.c``): lines of words with tabs between them.

    request  THREAD DEVICE QUEUE OPCODE STREAM START END QUEUED EXEC RESULT NAME
    sleep    THREAD DEVICE QUEUE START END
    call     THREAD START END NAME
    lost     NUMBER of lines for which there was no room

A file for which there was no room at all is empty. There may be NULs between lines. Times are in nanoseconds, START and END
of the guest's CLOCK_MONOTONIC. A file is called ``PID-COPY.trace``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from virtio_proto.schema import Opcode

NUMBER_BITS: Final = 64
_NAME: Final = re.compile(r"([0-9]{1,10})-[0-9]+\.trace")


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the device; `start_ns` is when it was sent, `end_ns` when its answer was taken.

    It waited on the host for `queued_ns` and was worked on for `exec_ns` then. `name`: the function that it runs, or "".
    """

    pid: int
    thread: int
    device: str
    queue: int
    opcode: int
    stream: int
    start_ns: int
    end_ns: int
    queued_ns: int
    exec_ns: int
    result: int
    name: str

    @property
    def kind(self) -> str:
        """Name of the operation; its number, if this version does not know it."""
        try:
            return Opcode(self.opcode).name
        except ValueError:
            return f"{self.opcode:#x}"


@dataclass(frozen=True, slots=True)
class Sleep:
    """A wait for the device in which the thread did not run."""

    pid: int
    thread: int
    device: str
    queue: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of CUDA's."""

    pid: int
    thread: int
    start_ns: int
    end_ns: int
    name: str


@dataclass
class Trace:
    """All that was written, in no order. `lost`: lines that make no sense, as a process was killed while it wrote. `unwritten`:
    lines for which there was no room, or at least as many.
    """

    requests: list[Request] = field(default_factory=list)
    sleeps: list[Sleep] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    lost: int = 0
    unwritten: int = 0

    def add(self, pid: int, line: str) -> None:
        """Adds what a line of a process says."""
        kind, *words = line.split("\t")
        try:
            match kind, len(words):
                case "request", 11:
                    self.requests.append(_request(pid, words))
                case "sleep", 5:
                    thread, device, *numbers = words
                    queue, start, end = map(_number, numbers)
                    self.sleeps.append(Sleep(pid, _number(thread), sys.intern(device), queue, start, end))
                case "call", 4:
                    *numbers, name = words
                    thread_id, start, end = map(_number, numbers)
                    self.calls.append(Call(pid, thread_id, start, end, sys.intern(name)))
                case "lost", 1:
                    self.unwritten += _number(words[0])
                case _:
                    self.lost += 1
        except ValueError:
            self.lost += 1

    def begins_ns(self) -> int:
        """The earliest moment in it; 0 if it is empty."""
        return min((entry.start_ns for entry in self.entries()), default=0)

    def entries(self) -> Iterator[Request | Sleep | Call]:
        yield from self.requests
        yield from self.sleeps
        yield from self.calls


def _request(pid: int, words: Sequence[str]) -> Request:
    thread, device, *numbers, name = words
    queue, opcode, stream, start, end, queued, executed, result = map(_number, numbers)
    return Request(
        pid=pid,
        thread=_number(thread),
        device=sys.intern(device),
        queue=queue,
        opcode=opcode,
        stream=stream,
        start_ns=start,
        end_ns=end,
        queued_ns=queued,
        exec_ns=executed,
        result=result,
        name=sys.intern(name),
    )


def _number(word: str) -> int:
    """A number of 64 bits.

    :raise ValueError: the word is something else.
    """
    number = int(word)
    if number.bit_length() > NUMBER_BITS:
        raise ValueError(word)
    return number


def read(folder: Path) -> Trace:
    """Reads the files of all processes. The folder may have others, as the program can write there."""
    trace = Trace()
    for path in sorted(folder.iterdir()):
        name = _NAME.fullmatch(path.name)
        if name is None or path.is_symlink() or not path.is_file():
            continue
        pid = int(name[1])
        trace.unwritten += path.stat().st_size == 0
        with path.open(errors="replace") as lines:
            for line in lines:
                text = line.strip("\0\n")  # parts of the file that have no line
                if text:
                    trace.add(pid, text)
    return trace
