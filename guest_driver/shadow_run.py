"""``vgc shadow``: runs an unmodified CUDA program on two devices, and compares what each copy from the device brings.

The program runs twice, in two processes, each with one device (``VGC_DEVICE``). libcudart writes the bytes of each copy
to a pipe (``guest_driver/cuda/runtime/process/shadow.c``); they are compared in order while both go on. Only the first process
has the terminal: the second one reads nothing and prints nothing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import IO, Final

from guest_driver.comparison import ATOL, RTOL, find
from guest_driver.device import devices
from guest_driver.errors import InvalidArgument, ShadowMismatch

HELP: Final = """Runs a CUDA program on two devices of this VM, and compares what each copy from the device brings.

  vgc shadow ./program arguments
  vgc shadow --on 0000:00:03.0,0000:00:05.0 --as float64 ./program

Copies are compared as the type that --as names. By default those whose bytes differ are read as float32 and as float64,
and are equal if either is within the tolerance. The exit status is the program's, or 1 if anything differs."""

_MAGIC: Final = 0x31534756
_HEADER: Final = 16
_TYPES: Final = ("float32", "float64", "float16", "bytes")
_GUESSED: Final = ("float32", "float64")
_SHOWN: Final = 10
"""Differing copies that are shown; the others are counted."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy from the device, and the kernels that were launched last before it."""

    kernels: tuple[str, ...]
    data: bytes


@dataclass(slots=True)
class Report:
    """Result of a run in shadow mode. `lines` tell of copies that differ."""

    copies: int = 0
    differing: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.differing += 1
        if self.differing <= _SHOWN:
            self.lines.append(text)


def read_copies(pipe: IO[bytes]) -> Iterator[Copy]:
    """Copies that a process writes, until it ends.

    :raise ShadowMismatch: the stream is not one of libcudart's.
    """
    while header := pipe.read(_HEADER):
        names_len, size = int.from_bytes(header[4:8], "little"), int.from_bytes(header[8:16], "little")
        if len(header) < _HEADER:
            return  # the process was ended in the middle of a record
        if int.from_bytes(header[:4], "little") != _MAGIC:
            raise ShadowMismatch("a process wrote something else into the pipe of its copies")
        names = pipe.read(names_len).decode(errors="replace").split("\n")[:-1]
        data = pipe.read(size)
        if len(data) < size:
            return
        yield Copy(tuple(names), data)


def difference(first: bytes, second: bytes, types: Sequence[str], *, rtol: float, atol: float) -> str:
    """Describes how two copies differ; "" if they are equal as one of `types`."""
    import numpy as np

    if first == second:
        return ""
    if len(first) != len(second):
        return f"{len(first)} bytes and {len(second)} bytes"
    found = []
    for name in types:
        dtype = np.dtype(np.uint8 if name == "bytes" else name)
        if len(first) % dtype.itemsize:
            continue
        sides = (np.frombuffer(first, dtype), np.frombuffer(second, dtype))
        differs = find(sides[0], sides[1], rtol=rtol, atol=atol)
        if differs is None:
            return ""
        found.append(f"as {name}: {differs}")
    sides = (np.frombuffer(first, np.uint8), np.frombuffer(second, np.uint8))
    return found[0] if found else f"as bytes: {find(sides[0], sides[1], rtol=rtol, atol=atol)}"


def compare(
    pipes: tuple[IO[bytes], IO[bytes]], types: Sequence[str], *, rtol: float = RTOL, atol: float = ATOL
) -> Report:
    """Compares the copies of two processes, in order, until both have ended."""
    report = Report()
    first, second = (read_copies(pipe) for pipe in pipes)
    while True:
        ours, theirs = next(first, None), next(second, None)
        if ours is None and theirs is None:
            return report
        if ours is None or theirs is None:
            report.add(
                f"copy {report.copies + 1}: the {'first' if ours is None else 'second'} process has ended before it"
            )
            for rest in (first, second):
                for _ in rest:
                    pass
            return report
        report.copies += 1
        text = difference(ours.data, theirs.data, types, rtol=rtol, atol=atol)
        if text:
            kernels = ", ".join(dict.fromkeys(ours.kernels)) or "no kernel"
            report.add(f"copy {report.copies} ({len(ours.data)} bytes, after {kernels}): {text}")


def environments(on: str | None) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Environment variables that choose the device of each process.

    :raise InvalidArgument: there are not two devices.
    """
    if "VGC_MEMFD" in os.environ and "VGC_SHADOW_MEMFD" in os.environ:
        return {}, {"VGC_MEMFD": os.environ["VGC_SHADOW_MEMFD"]}
    addresses = on.split(",") if on else [found.address for found in devices()][:2]
    if len(addresses) != 2:
        raise InvalidArgument(
            f"{len(addresses)} device{'s' * (len(addresses) != 1)}; allowed: two, such as --on 0000:00:03.0,0000:00:05.0"
        )
    return {"VGC_DEVICE": addresses[0]}, {"VGC_DEVICE": addresses[1]}


def run(
    argv: Sequence[str], on: str | None, as_type: str | None, *, rtol: float = RTOL, atol: float = ATOL
) -> tuple[Report, int]:
    """Runs a program in shadow mode. Returns the comparison, and the exit status of the process that has the terminal.

    :raise InvalidArgument: there are not two devices, or no such type.
    :raise OSError: the program cannot be started.
    """
    if as_type is not None and as_type not in _TYPES:
        raise InvalidArgument(f"--as {as_type}; allowed: {', '.join(_TYPES)}")
    with ExitStack() as stack:
        processes, pipes = [], []
        for number, chosen in enumerate(environments(on)):
            reader, writer = os.pipe()
            pipes.append(stack.enter_context(os.fdopen(reader, "rb")))
            environment = os.environ | chosen | {"VGC_SHADOW_FD": str(writer)}
            quiet = subprocess.DEVNULL if number else None
            try:
                process = subprocess.Popen(
                    list(argv),
                    env=environment,
                    pass_fds=(writer, *_descriptors(environment)),
                    stdin=quiet,
                    stdout=quiet,
                    stderr=quiet,
                )
            finally:
                os.close(writer)
            stack.callback(_end, process)
            processes.append(process)
        report = compare((pipes[0], pipes[1]), (as_type,) if as_type else _GUESSED, rtol=rtol, atol=atol)
        first, second = (process.wait() for process in processes)
    if first != second:
        report.add(f"exit status {first} on the first device, {second} on the second")
    return report, first


def _descriptors(environment: Mapping[str, str]) -> tuple[int, ...]:
    """Descriptors that $VGC_MEMFD names, which the process needs."""
    numbers = []
    for part in environment.get("VGC_MEMFD", "").split(","):
        name, _, value = part.partition("=")
        if name in {"region", "config", "kick", "call"}:
            numbers += [int(number) for number in value.split(":")]
    return tuple(numbers)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()
