"""Replays a recording, sends its input again to a new run, exports it, or lists how much was recorded when.

The recording is the control centre's; --recording reads a recording on this machine without a control centre.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from control_center.cli.connect import choose, connected
from control_center.cli.context import Context, add_selector, opened, positive
from control_center.cli.link import Object, Recordings, Span, Target
from control_center.cli.output import Output, date, harmless
from control_center.cli.problems import OK, CommandError, UsageError
from control_center.cli.times import length_s, moment_ns, speed
from control_center.cli.verbs.send import Console
from control_center.cli.verbs.tail import show
from virtio_proto.control.selector import Selector

if TYPE_CHECKING:
    from control_center.recorder.feed import Place, Script

EXAMPLES: Final = """\
  vgcctl replay --list                                   how much was recorded when
  vgcctl replay vm=web1 --from 10m --speed 10x
  vgcctl replay vm=web1 --from 2026-11-21T07:30:00 --feed --as web1=web2
                                                         the input that web1 got, to web2
  vgcctl replay vm=web1 --export perfetto -o trace.json  for ui.perfetto.dev
  vgcctl replay --recording sqlite:///var/lib/vgc/recording.db --export csv
"""
LIVE: Final = True
_BARS: Final = "▁▂▃▄▅▆▇█"


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser)
    parser.add_argument(
        "--from", dest="from_ns", type=moment_ns, metavar="TIME", help="2026-11-21T07:30:00, or 5m for five minutes ago"
    )
    parser.add_argument("--to", dest="to_ns", type=moment_ns, metavar="TIME", help="end, not included")
    parser.add_argument("--recording", metavar="URL", help="read this recording, such as sqlite:///path")
    parser.add_argument("--speed", type=speed, default=1.0, help="0.1x to 1000x, or max (default: 1x)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="how much was recorded when")
    what.add_argument("--feed", action="store_true", help="send recorded input again")
    what.add_argument("--export", choices=("perfetto", "csv"), metavar="FORMAT", help="perfetto or csv")
    parser.add_argument(
        "--bins", type=positive, default=60, metavar="N", help="with --list: number of bars (default: 60)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="with --export (default: standard output)")
    parser.add_argument(
        "--as",
        dest="rename",
        nargs="+",
        default=[],
        metavar="OLD=NEW",
        help="with --feed: send the input of VM OLD to VM NEW",
    )
    parser.add_argument(
        "--timed", action="store_true", help="with --feed: at the recorded times, not when kernels ask for input"
    )
    parser.add_argument(
        "--linger",
        type=length_s,
        default=2.0,
        metavar="TIME",
        help="with --feed: end after this time without prints (default: 2s)",
    )
    parser.add_argument(
        "--for",
        dest="time",
        type=length_s,
        default=10.0,
        metavar="TIME",
        help="with --feed: end this time after the last piece, or when no kernel asks for input (default: 10s)",
    )


async def run_alone(given: argparse.Namespace, out: Output, asked: Target) -> int:
    """Opens the recording, a control centre, or for ``--feed`` a recording and the server whose kernels get the input."""
    if given.from_ns is not None and given.to_ns is not None and given.from_ns >= given.to_ns:
        raise UsageError("--from is not before --to; allowed: an earlier time")
    span = Span(given.selector, given.from_ns, given.to_ns)
    async with contextlib.AsyncExitStack() as stack:
        link = None
        if given.feed or not given.recording:
            link = await stack.enter_async_context(connected(choose(asked)))
        source = link.recordings if link is not None else None
        if given.recording:
            from control_center.cli.recording import opened_recording

            source = await stack.enter_async_context(opened_recording(given.recording))
        if source is None:
            raise UsageError("a daemon keeps no recordings; allowed: --centre URL, or --recording URL")
        if given.list:
            await _list(out, source, span, given.bins)
        elif given.export:
            await _export(out, source, span, given)
        elif given.feed:
            assert link is not None
            await _feed(Context(given, out, link), source, span)
        else:
            await _play(given, out, source.recorded(span))
    return OK


async def _list(out: Output, source: Recordings, span: Span, bins: int) -> None:
    state, pieces, vms = await source.recorder(), await source.timeline(span, bins), await source.visible()
    if out.as_json:
        out.json({"recorder": state, "timeline": pieces, "vms": vms})
        return
    if state is not None:
        out.line(f"{state['url']}: {state['records']} records, {state['bytes']} bytes, {state['left_out']} left out")
    if vms is not None:
        out.line(
            f"you may see of the recording: {', '.join(vms) or 'no VM'}, without events and commands that are of no VM"
        )
    if not pieces:
        out.line("nothing is recorded")
        return
    counts = [sum(piece["records"].values()) for piece in pieces]
    most = max(counts) or 1
    bars = "".join(" " if count == 0 else _BARS[min(7, count * 8 // (most + 1))] for count in counts)
    out.line(f"{date(pieces[0]['start_ns'])} [{bars}] {date(pieces[-1]['end_ns'])}")
    functions = sorted({fn for piece in pieces for fn in piece["records"]})
    names = sorted({name for piece in pieces for name in piece["events"]})
    rows = [{"what": fn, "count": sum(piece["records"].get(fn, 0) for piece in pieces)} for fn in functions]
    rows += [
        {"what": f"event {name}", "count": sum(piece["events"].get(name, 0) for piece in pieces)} for name in names
    ]
    rows += [{"what": key, "count": sum(piece[key] for piece in pieces)} for key in ("commands", "lost")]
    out.rows(("what", "count"), rows)


async def _export(out: Output, source: Recordings, span: Span, given: argparse.Namespace) -> None:
    if given.output is None:
        async for piece in source.export(span, given.export):
            text = piece.decode(errors="replace")
            out.write(harmless(text) if out.is_terminal else text)
        return
    try:
        with given.output.open("wb") as file:
            async for piece in source.export(span, given.export):
                file.write(piece)
    except OSError as error:
        raise UsageError(f"{given.output}: {error.strerror or error}") from None
    out.note(f"{given.output}: {given.output.stat().st_size} bytes")


async def _play(given: argparse.Namespace, out: Output, messages: AsyncIterator[Object]) -> None:
    """Replays a recording: its rows come as fast as they can be read, and are shown when their time has come."""
    from control_center.recorder.player import Player
    from control_center.recording_port import Query, Row

    async def rows(_query: Query) -> AsyncIterator[Row]:
        async for message in messages:
            yield cast("Row", (message["type"], message))

    async for _, row in Player(rows, Query(), speed=given.speed).rows():
        show(out, cast("Object", row))


# ---- feeding -------------------------------------------------------------------------------------


def _renamed(pairs: list[str]) -> dict[str, str]:
    wrong = [pair for pair in pairs if pair.count("=") != 1 or not all(pair.split("="))]
    if wrong:
        raise UsageError(f"--as {wrong[0]!r}; allowed: OLD=NEW, the recorded VM and the VM that gets its input")
    return dict(pair.split("=") for pair in pairs)


async def _feed(context: Context, source: Recordings, span: Span) -> None:
    """Sends recorded input again, over channels that are opened for it, and prints what the kernels print."""
    from control_center.recorder.feed import plan

    given = context.given
    messages = [message async for message in source.recorded(span) if message["type"] == "event"]
    scripts = plan(messages, _renamed(given.rename))
    if not scripts:
        raise CommandError("no input is recorded there; allowed: a selector and times for which input was recorded")
    vms, pes = sorted({vm for vm, _ in scripts}), sorted({pe for _, pe in scripts})
    chosen = Selector(vm="|".join(vms), pe=tuple((pe, pe) for pe in pes), fn=("stdio",))
    async with opened(context, str(chosen), (), {}) as instances:
        feeder = Feeder(context, instances, scripts)
        async with feeder.console.printing():
            await (feeder.at_recorded_times(given.speed) if given.timed else feeder.when_asked(given.time))
            await feeder.console.silence(given.linger, given.time)
    left = sum(len(script.pieces) - script.sent for script in scripts.values())
    pieces = sum(script.sent for script in scripts.values())
    context.out.note(f"{pieces} pieces were sent again" + (f"; {left} were not asked for" if left else ""))


class Feeder:
    """Sends the scripts of `control_center.recorder.feed` to kernels."""

    def __init__(self, context: Context, instances: list[Object], scripts: dict[Place, Script]) -> None:
        self.console = Console(context, instances, self._record)
        self._scripts = scripts
        self._wishes: asyncio.Queue[Place] = asyncio.Queue()

    def _record(self, row: Object) -> None:
        if row["kind"] == "wants":
            self._wishes.put_nowait((row["vm"], row["pe"]))

    async def when_asked(self, patience_s: float) -> None:
        """Sends each piece when its PE's kernel asks for input; ends when all are sent, or when no kernel has asked for
        `patience_s`.
        """
        while not all(script.is_done for script in self._scripts.values()):
            try:
                async with asyncio.timeout(patience_s):
                    place = await self._wishes.get()
            except TimeoutError:
                return
            script = self._scripts.get(place)
            piece = None if script is None else script.next()
            if piece is not None:
                await self.console.send(piece.data, vm=piece.vm, pe=piece.pe, eof=piece.eof)

    async def at_recorded_times(self, speed_: float) -> None:
        """Sends each piece at its recorded distance from the first one, divided by `speed_`; 0: all at once."""
        loop = asyncio.get_running_loop()
        pieces = sorted(
            (piece for script in self._scripts.values() for piece in script.pieces), key=lambda p: p.time_ns
        )
        begin_s, begin_ns = loop.time(), pieces[0].time_ns
        for piece in pieces:
            if speed_:
                await asyncio.sleep((piece.time_ns - begin_ns) / 1e9 / speed_ - (loop.time() - begin_s))
            await self.console.send(piece.data, vm=piece.vm, pe=piece.pe, eof=piece.eof)
            self._scripts[piece.vm, piece.pe].next()
