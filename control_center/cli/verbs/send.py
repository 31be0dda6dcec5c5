"""Console: sends input to kernels on processing elements (PEs), and shows what they print.

Without TEXT and --file, each line typed on the terminal is sent, and the end of input (Ctrl-D), too. With TEXT or
--file, the input is sent as fast as the kernels read it. Then prints are shown until all input was read and the kernels
have been silent for --linger, for at most --for. The command fails, and says which, if a PE's kernel has not read all of
its input by then: it reads no input, or no kernel runs there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Final, TypeAlias

from control_center.cli.context import Context, add_selector, opened, place
from control_center.cli.link import Object, Wanted
from control_center.cli.output import harmless
from control_center.cli.problems import FAILED, OK, CommandError, RefusalError, UsageError
from control_center.cli.times import length_s
from virtio_proto.control.api import MAX_INPUT_BYTES
from virtio_proto.control.selector import Selector, parse
from virtio_proto.control.verbs.channels import Send

EXAMPLES: Final = """\
  vgcctl send 'vm=web1,pe=0'                 a console
  vgcctl send 'vm=web1,pe=0' '42\\n'          a line
  vgcctl send vm=web1 --file input.txt --eof      one file to every PE of a VM
"""
LIVE: Final = True
CHUNK: Final = MAX_INPUT_BYTES // 4
"""Bytes that are sent at a time: less than the ring of input holds, so that they fit before all of it is read."""
PATIENCE_S: Final = 10.0
"""Time after which sending to a kernel that reads nothing fails."""
_RETRY_S: Final = 0.05
"""Pause before input for a full ring is sent again."""
_LINES_AHEAD: Final = 256
"""Most lines that are read from standard input before they are sent."""
Place: TypeAlias = tuple[str, str, int]
"""A PE: host, VM and number."""
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser, needed=True)
    parser.add_argument("text", nargs="?", metavar="TEXT", help=r"text to send; \n, \t and \\ are escapes")
    parser.add_argument("--file", type=Path, metavar="FILE", help="send this file; - is standard input")
    parser.add_argument("--eof", action="store_true", help="then send the end of input")
    parser.add_argument(
        "--linger", type=length_s, default=2.0, metavar="TIME", help="end after this time without prints (default: 2s)"
    )
    parser.add_argument(
        "--for",
        dest="time",
        type=length_s,
        default=10.0,
        metavar="TIME",
        help="longest wait for prints, and for a kernel to read its input (default: 10s)",
    )


async def run(context: Context) -> int:
    given = context.given
    chosen = parse(given.selector)
    if chosen.fn not in (None, ("stdio",)):
        raise UsageError(f"selector {given.selector!r}: input is for fn=stdio; allowed: that, or no fn")
    text = str(Selector(chosen.host, chosen.gpu, chosen.vm, chosen.pe, ("stdio",)))
    data = _data(given)
    async with opened(context, text, (), {"policy": "wait"}) as instances:  # a console loses nothing
        console = Console(context, instances, patience_s=given.time)
        async with console.printing():
            if data is None:
                async for line in _lines():
                    await console.send(line)
                await console.send(b"", eof=True)
            else:
                await console.send(data, eof=given.eof)
            await console.all_read(given.time)
            await console.silence(given.linger, given.time)
            unread = console.unread()
    for problem in unread:
        context.out.error(problem)
    return FAILED if unread else OK


def _data(given: argparse.Namespace) -> bytes | None:
    """Input from TEXT or --file; None: lines are sent as they are typed.

    :raise UsageError: the file cannot be read, or both a text and a file are given.
    """
    if given.file is not None and given.text is not None:
        raise UsageError("both a text and --file; allowed: one of them")
    if given.file is not None:
        try:
            return sys.stdin.buffer.read() if str(given.file) == "-" else bytes(given.file.read_bytes())
        except OSError as error:
            raise UsageError(f"{given.file}: {error.strerror}") from None
    if given.text is None:
        return None
    text: str = given.text
    for written, meant in _ESCAPES.items():
        text = text.replace(written, meant)
    return text.encode()


async def _lines() -> AsyncIterator[bytes]:
    """Yields lines of standard input as they come. A thread reads them, since not every standard input (a file) can be
    polled, and does so past Python's buffer: the interpreter needs that buffer's lock when it exits.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue(_LINES_AHEAD)
    source = sys.stdin.fileno()

    def put(line: bytes) -> None:
        work = lines.put(line)
        try:
            asyncio.run_coroutine_threadsafe(work, loop).result()
        except RuntimeError:  # the loop has ended
            work.close()
            raise

    def read() -> None:
        rest = b""
        with contextlib.suppress(RuntimeError, CancelledError):
            while piece := os.read(source, CHUNK):
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    put(line + b"\n")
                if len(rest) > CHUNK:
                    put(rest)
                    rest = b""
            for line in (rest, b"") if rest else (b"",):
                put(line)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while line := await lines.get():
        yield line


class Console:
    """Instances of stdio: sends input to them, prints their records, and notes when the last one came."""

    def __init__(
        self,
        context: Context,
        instances: list[Object],
        on_record: Callable[[Object], None] = lambda _row: None,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`on_record` gets every record: prints, and kernels' requests for input. Sending fails when a full ring of
        input has had no room for `patience_s`.
        """
        self._patience_s = patience_s
        self._context = context
        self._instances = instances
        self._on_record = on_record
        self._sent: Counter[Place] = Counter()
        self._taken: Counter[Place] = Counter()
        """Bytes by PE."""
        self._took = asyncio.Event()
        self._several = sum(len(item["channels"]) for item in instances) > 1
        self._last_s = 0.0
        self._line_start = True

    async def send(self, data: bytes, *, vm: str | None = None, pe: int | None = None, eof: bool = False) -> None:
        """Sends `data` in pieces to each PE; waits while a PE's ring of input has no room.

        :raise RefusalError: the server refuses for another reason, or no such PE has a channel.
        """
        pieces = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)] or [b""]
        targets = [
            (instance["instance"], channel["vm"], channel["pe"])
            for instance in self._instances
            for channel in instance["channels"]
            if vm in (None, channel["vm"]) and pe in (None, channel["pe"])
        ]
        if not targets:
            raise RefusalError(f"no PE {vm or '*'}/{'*' if pe is None else pe} has a channel now", "unknown")
        await asyncio.gather(*(self._send_pieces(target, pieces, eof=eof) for target in targets))
        self._last_s = asyncio.get_running_loop().time()

    async def _send_pieces(self, target: tuple[str, str, int], pieces: Sequence[bytes], *, eof: bool) -> None:
        """Sends to one PE only: a piece that one PE has no room for must not reach the others twice."""
        for index, piece in enumerate(pieces):
            await self._send_piece(*target, piece, eof=eof and index == len(pieces) - 1)

    async def _send_piece(self, instance: str, vm: str, pe: int, piece: bytes, *, eof: bool) -> None:
        """:raise CommandError: the PE had no room for `patience_s`."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._patience_s
        while True:
            try:
                host, number = place(instance)
                await self._context.link.ask(Send.Request(instance=number, data=piece, vm=vm, pe=pe, eof=eof), host)
                self._sent[host, vm, pe] += len(piece)
                return
            except RefusalError as error:
                if error.kind != "busy":
                    raise
                if loop.time() >= until_s:
                    raise CommandError(f"nothing was read for {self._patience_s:g} s: {error}") from None
                await asyncio.sleep(_RETRY_S)

    @contextlib.asynccontextmanager
    async def printing(self) -> AsyncIterator[None]:
        """Prints what the kernels print while the block runs."""
        stream = self._context.link.stream(Wanted([item["instance"] for item in self._instances]))
        task = asyncio.create_task(self._print(stream))
        await asyncio.sleep(0)
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _print(self, stream: AsyncIterator[Object]) -> None:
        async with contextlib.aclosing(stream) as messages:  # type: ignore[type-var]  # it is a generator
            async for message in messages:
                if message["type"] != "record" or message["fn"] != "stdio":
                    continue
                self._last_s = asyncio.get_running_loop().time()
                self._taken[message["host"], message["vm"], message["pe"]] += message.get("taken", 0)
                self._took.set()
                self._on_record(message)
                if self._context.out.as_json:
                    self._context.out.json(message)
                elif message["kind"] in ("text", "format"):
                    self._show(message)

    def _show(self, row: Object) -> None:
        """Writes printed text; with several PEs each line begins with its VM and PE."""
        text = harmless(row["text"])
        if not self._several:
            self._context.out.write(text)
            return
        for line in text.splitlines(keepends=True) or [""]:
            where = f"{row['vm']}/{row['pe']}| " if self._line_start else ""
            self._context.out.write(where + line)
            self._line_start = line.endswith("\n")

    async def all_read(self, limit_s: float) -> None:
        """Waits until kernels have read all that was sent, at most `limit_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self.unread():
                    self._took.clear()
                    await self._took.wait()

    def unread(self) -> list[str]:
        """A line for each PE that has not read all of its input; empty if all have. Guests may forge that they have."""
        return [
            f"{host}/{vm}/{pe} has read {self._taken[host, vm, pe]} of {sent} bytes: no kernel that reads input runs there, "
            "or it waits for something else"
            for (host, vm, pe), sent in sorted(self._sent.items())
            if self._taken[host, vm, pe] < sent
        ]

    async def silence(self, seconds: float, limit_s: float) -> None:
        """Waits until nothing was printed or sent for `seconds`, at most `limit_s`."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + limit_s
        while (rest := min(self._last_s + seconds, end_s) - loop.time()) > 0:  # noqa: ASYNC110  silence has no event
            await asyncio.sleep(rest)
