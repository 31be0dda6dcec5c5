"""Types to the kernels of processing elements, and shows what they print: a console.

Without TEXT or --file each line of the terminal is sent; the end of input (Ctrl-D) is sent too. With them, it is sent at
once, as the kernels read it; then what they print is shown until they have been silent for --linger, but not for longer
than --for. Kernels that read nothing for --for end it, too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Final

from control_center.cli.context import Context, add_selector, opened
from control_center.cli.link import Object, Wanted
from control_center.cli.output import harmless
from control_center.cli.problems import OK, CommandError, RefusalError, UsageError
from control_center.cli.times import length_s
from virtio_proto.control.api import MAX_INPUT_BYTES
from virtio_proto.control.selector import Selector, parse

EXAMPLES: Final = """\
  vgcctl send 'vm=web1,pe=0'                 a console
  vgcctl send 'vm=web1,pe=0' '42\\n'          a line
  vgcctl send vm=web1 --file input.txt --eof      the same to all elements of a VM
"""
LIVE: Final = True
CHUNK: Final = MAX_INPUT_BYTES // 4
"""Bytes that are sent at a time: there is room for them when most was read."""
PATIENCE_S: Final = 10.0
_RETRY_S: Final = 0.05
_LINES_AHEAD: Final = 256
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser, needed=True)
    parser.add_argument("text", nargs="?", metavar="TEXT", help=r"\n, \t and \\ are understood")
    parser.add_argument("--file", type=Path, metavar="FILE", help="what to send; - is standard input")
    parser.add_argument("--eof", action="store_true", help="and then say that there will be no more")
    parser.add_argument("--linger", type=length_s, default=2.0, metavar="TIME", help="see above (default: 2s)")
    parser.add_argument(
        "--for", dest="time", type=length_s, default=10.0, metavar="TIME", help="see above (default: 10s)"
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
            await console.silence(given.linger, given.time)
    return OK


def _data(given: argparse.Namespace) -> bytes | None:
    """What is to be sent at once; None: lines, as they are typed.

    :raise UsageError: the file cannot be read, or there is a text, too.
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
    """Lines of standard input as they come, no more of them at a time than are sent; read in a thread, as a terminal
    cannot be waited for in another way, and past Python's own buffer, whose lock a program that ends must have.
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
    """Instances of stdio: sends to them, prints what comes back, knows when that was."""

    def __init__(
        self,
        context: Context,
        instances: list[Object],
        on_record: Callable[[Object], None] = lambda _row: None,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`on_record` is told of every record, prints and wishes for input. Sending fails after `patience_s` in which
        an element that has no room reads nothing.
        """
        self._patience_s = patience_s
        self._context = context
        self._instances = instances
        self._on_record = on_record
        self._several = sum(len(item["channels"]) for item in instances) > 1
        self._last_s = 0.0
        self._line_start = True

    async def send(self, data: bytes, *, vm: str | None = None, pe: int | None = None, eof: bool = False) -> None:
        """Sends in pieces to each element; waits where an element has no room.

        :raise RefusalError: it is refused for another reason, or there is no such element.
        """
        pieces = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)] or [b""]
        targets = [
            (instance["instance"], channel["vm"], channel["pe"])
            for instance in self._instances
            for channel in instance["channels"]
            if vm in (None, channel["vm"]) and pe in (None, channel["pe"])
        ]
        if not targets:
            raise RefusalError(f"no element {vm or '*'}/{'*' if pe is None else pe} has a channel now", "unknown")
        await asyncio.gather(*(self._send_pieces(target, pieces, eof=eof) for target in targets))
        self._last_s = asyncio.get_running_loop().time()

    async def _send_pieces(self, target: tuple[str, str, int], pieces: Sequence[bytes], *, eof: bool) -> None:
        """To one element: what one has no room for now must not be sent to others again."""
        for index, piece in enumerate(pieces):
            await self._send_piece(*target, piece, eof=eof and index == len(pieces) - 1)

    async def _send_piece(self, instance: str, vm: str, pe: int, piece: bytes, *, eof: bool) -> None:
        """:raise CommandError: the element has read nothing for too long."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._patience_s
        while True:
            try:
                await self._context.link.send(instance, piece, vm=vm, pe=pe, eof=eof)
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
                self._on_record(message)
                if self._context.out.as_json:
                    self._context.out.json(message)
                elif message["kind"] in ("text", "format"):
                    self._show(message)

    def _show(self, row: Object) -> None:
        """Text as it was printed; with several elements each line says whose it is."""
        text = harmless(row["text"])
        if not self._several:
            self._context.out.write(text)
            return
        for line in text.splitlines(keepends=True) or [""]:
            where = f"{row['vm']}/{row['pe']}| " if self._line_start else ""
            self._context.out.write(where + line)
            self._line_start = line.endswith("\n")

    async def silence(self, seconds: float, limit_s: float) -> None:
        """Returns when nothing was printed or sent for so long, or after `limit_s`."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + limit_s
        while (rest := min(self._last_s + seconds, end_s) - loop.time()) > 0:  # noqa: ASYNC110  what is waited for is nothing
            await asyncio.sleep(rest)
