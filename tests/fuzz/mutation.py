"""Fuzzing of code in Python: ``python -m tests.fuzz.mutation TARGET --seconds N``, or ``... TARGET FILE`` to repeat an input.

Inputs are seeds of the target, and what came of them, changed at random. One that the code under test answers in a way
not seen before, numbers and quoted texts aside, joins them, and is kept in ``found-TARGET`` for later runs. A target
ends an input with its answer; any exception is a broken promise, whose input goes into a file ``crash-TARGET-...``. So is
an input that takes more than 10 s of the processor.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import random
import re
import resource
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol, cast

import msgpack

TARGETS: Final = ("worker_link", "control_frames", "configuration", "disk_cache")
LONGEST_INPUT_S: Final = 10
MEMORY_BYTES: Final = 4 << 30
MAX_BYTES: Final = 8 << 10
MAX_VALUE_BYTES: Final = 96 << 10
"""Longest input that a changed value makes: more than a packet may have, less than a socket takes at once."""
MAX_KEPT: Final = 4096
CRASH_STATUS: Final = 77
NUMBERS: Final = (
    0,
    1,
    2,
    -1,
    127,
    128,
    255,
    256,
    32767,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**64 - 1,
)
TEXTS: Final = (
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x80",
    b"\xc1",
    b"\xdd\xff\xff\xff\xff",
    b"\xed\xa0\x80",
    b"-1",
    b"1e999",
    b"{",
    b"[",
    b"]",
    b"\n",
)


class FuzzTarget(Protocol):
    """Module with a fuzz target."""

    IS_MESSAGEPACK: bool
    """True if inputs are MessagePack, so that values in them are changed, too."""

    def seeds(self) -> list[bytes]:
        """Inputs to begin with."""
        ...

    def run(self, data: bytes) -> str:
        """Gives an input to the code under test; returns what that answers. Raises anything if a promise is broken."""
        ...


class TooLongError(Exception):
    """An input took longer than any may."""


def target_named(name: str) -> FuzzTarget:
    return cast("FuzzTarget", importlib.import_module(f"tests.fuzz.{name}"))


# --------------------------------------------------------------------------------------------------
# Changing inputs
# --------------------------------------------------------------------------------------------------


def changed_bytes(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Makes one change, which may put in a piece of another input."""
    at, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
    end = min(end, at + 64)
    match chance.randrange(7):
        case 0:
            return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:end] + data[at:end] * chance.choice((1, 1, 2, 16)) + data[end:]
        case 3:
            return data[:at] + chance.choice(TEXTS) + data[chance.choice((at, end)) :]
        case 4:
            begin = chance.randint(0, len(other))
            return data[:at] + other[begin : begin + chance.randrange(1, 64)] + data[chance.choice((at, end)) :]
        case 5:
            numbers = list(re.finditer(rb"\d+", data))
            if not numbers:
                return data
            found = chance.choice(numbers)
            return data[: found.start()] + str(chance.choice(NUMBERS)).encode() + data[found.end() :]
        case _:
            place = chance.randint(0, len(data))
            return data[:at] + data[end:place] + data[at:end] + data[max(place, end) :]


def changed_value(value: Any, chance: random.Random) -> Any:
    """Changes one thing in a value of MessagePack."""
    if isinstance(value, list) and value and chance.randrange(8):
        at = chance.randrange(len(value))
        return [*value[:at], changed_value(value[at], chance), *value[at + 1 :]]
    if isinstance(value, dict) and value and chance.randrange(8):
        key = chance.choice(list(value))
        return {**value, key: changed_value(value[key], chance)}
    match chance.randrange(6):
        case 0:
            return chance.choice(NUMBERS)
        case 1:
            return chance.choice(
                (None, True, False, "", "x" * chance.choice((1, 100, 5000)), b"", [], {}, 0.5, float("nan"))
            )
        case 2 if isinstance(value, list):
            return value + value[: chance.randrange(len(value) + 1)] * chance.choice((1, 8))
        case 3 if isinstance(value, int) and -(2**62) < value < 2**62:
            return value + chance.choice((-1, 1, 256))
        case 4:
            return [value]
        case _:
            return {str(chance.choice(NUMBERS)): value}


def changed(data: bytes, other: bytes, chance: random.Random, *, is_messagepack: bool) -> bytes:
    """Makes an input of `data` by a few changes; `other` may lend a piece."""
    if is_messagepack and chance.randrange(4):
        begin = chance.choice((0, data.find(b"\0") + 1))
        try:
            value = msgpack.unpackb(data[begin:])
            for _ in range(chance.choice((1, 1, 2, 4))):
                value = changed_value(value, chance)
            return (data[:begin] + cast("bytes", msgpack.packb(value)))[:MAX_VALUE_BYTES]
        except (ValueError, OverflowError, TypeError, msgpack.UnpackException):
            pass
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        data = changed_bytes(data, other, chance)
    return data[:MAX_BYTES]


def kinds_of(answer: str) -> set[str]:
    """Kinds of the answer's lines, without their numbers, quoted texts, and values that they show."""
    lines = answer[:4000].splitlines()[:64]
    short = (re.sub(r"(?s)( is | has ).*?(; |$)|: [^:]*$", r"\1\2", line) for line in lines)
    return {re.sub(r"'[^']*'?|\"[^\"]*\"?|\d+|\W+", " ", line)[:80] for line in short} or {""}


# --------------------------------------------------------------------------------------------------
# Running
# --------------------------------------------------------------------------------------------------


class Fuzzer:
    """Runs one target from its seeds and what earlier runs have found."""

    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self.name = name
        self.target = target_named(name)
        self.folder = folder
        self.chance = random.Random(seed)
        self.found = folder / f"found-{name}"
        self.found.mkdir(parents=True, exist_ok=True)
        self.corpus: list[bytes] = []
        self.kinds: set[str] = set()
        self.runs = 0
        self.is_over = False

    def run(self, seconds: int) -> int:
        """Fuzzes until the time is over; the exit status."""
        signal.signal(signal.SIGALRM, self._end)
        signal.alarm(seconds)
        return self.go_on()

    def go_on(self) -> int:
        """Fuzzes until `is_over`, or until an input breaks a promise; the exit status."""
        signal.signal(signal.SIGVTALRM, too_long)
        kept = [path.read_bytes() for path in sorted(self.found.iterdir())]
        for data in [*self.target.seeds(), *kept]:
            if not self.try_one(data, is_new=False):
                return CRASH_STATUS
        while not self.is_over:
            data, other = self.chance.choice(self.corpus), self.chance.choice(self.corpus)
            data = changed(data, other, self.chance, is_messagepack=self.target.IS_MESSAGEPACK)
            if not self.try_one(data, is_new=True):
                return CRASH_STATUS
        return 0

    def try_one(self, data: bytes, *, is_new: bool) -> bool:
        """Runs one input, and keeps it if its answer is of a new kind; False: it broke a promise."""
        self.runs += 1
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_INPUT_S)
            answer = self.target.run(data)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except Exception:  # noqa: BLE001  anything is a finding
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self._keep_crash(data)
            return False
        kinds = kinds_of(answer)
        if kinds <= self.kinds and is_new:
            return True
        if len(self.corpus) < MAX_KEPT:
            self.kinds |= kinds
            self.corpus.append(data)
            if is_new:
                (self.found / digest_of(data)).write_bytes(data)
        return True

    def _keep_crash(self, data: bytes) -> None:
        path = self.folder / f"crash-{self.name}-{digest_of(data)}"
        path.write_bytes(data)
        traceback.print_exc(file=sys.stdout)
        sys.stdout.write(f"ERROR: {self.name}: {sys.exc_info()[1]!r:.300}\nTest unit written to {path}\n")

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.is_over = True

    def report(self) -> str:
        return f"Done {self.runs} runs; corp: {len(self.corpus)}\nstat::number_of_executed_units: {self.runs}\n"


def too_long(_number: int, _frame: FrameType | None) -> None:
    raise TooLongError(f"an input has used {LONGEST_INPUT_S} s of the processor")


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:40]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mutation", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("input", nargs="?", type=Path, help="file with one input, to run it alone")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="for what is found")
    parser.add_argument("--seed", type=int, help="of the random changes (default: a new one, which is printed)")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if options.input is not None:
        sys.stdout.write(f"{target_named(options.target).run(options.input.read_bytes())}\n")
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    sys.stdout.write(f"seed {seed}\n")
    fuzzer = Fuzzer(options.target, options.folder, seed)
    status = fuzzer.run(options.seconds)
    sys.stdout.write(fuzzer.report())
    return status


if __name__ == "__main__":
    sys.exit(main())
