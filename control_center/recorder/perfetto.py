"""Export of a recording in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Processes are ``host/gpu/vm``, threads are processing elements (PEs). A block is a slice; where several blocks run on a
PE at once (CUDA), each has a track of its own. Programs of a VM that mark ranges are processes ``host/vm/program``, their
threads' nested ranges are slices, other ranges tracks of their own. Counters and load samples are counter tracks; events, faults, logs and
prints are instants. A block whose end was not recorded is an instant that says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from control_center.recorder.entry import DamagedError, Kind, unpack_body
from control_center.recorder.rows import Moment, command_row, event_row, plain
from virtio_proto.control.records import Function, Record, describe
from virtio_proto.control.selector import FUNCTIONS

MAX_TRACKS: Final = 64
"""Most blocks of one PE that are shown side by side."""
MAX_PROGRAMS: Final = 1024
"""Most programs with marks that have processes of their own, each with as many threads: guests choose the names."""
_BEGIN, _END, _GAUGE, _SAMPLE = 1, 2, 4, 5
_INSTANT_SCOPE: Final = "t"


@dataclass(slots=True)
class _Element:
    """Blocks that run on one PE, by launch and number, each on a track."""

    running: dict[tuple[int, int], tuple[int, float, str]] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)

    def free_track(self) -> int:
        taken = {track for track, *_ in self.running.values()}
        return next(track for track in range(MAX_TRACKS + 1) if track not in taken)


class Trace:
    """Turns moments, oldest first, into trace events. Holds only the blocks that run at a time."""

    def __init__(self) -> None:
        self._pids: dict[tuple[str, str, str], int] = {}
        self._elements: dict[tuple[int, int], _Element] = {}
        self._programs: dict[tuple[str, str, str], set[int]] = {}
        """Threads of the programs that have marks."""
        self._ranges = 0

    def events(self, moments: Iterable[Moment]) -> Iterator[dict[str, Any]]:
        for moment in moments:
            match moment.entry.kind:
                case Kind.BATCH:
                    yield from self._record(moment)
                case Kind.SNAPSHOT:
                    yield from self._instant_of_host(moment, "snapshot", {"name": moment.entry.name})
                case Kind.LOAD:
                    yield from self._load(moment)
                case Kind.COMMAND:
                    row = command_row(moment.entry)
                    rest = {"user": row["user"], "arguments": row["arguments"], "error": row["error"]}
                    yield from self._instant_of_host(moment, f"command {row['verb']}", rest)
                case _ if moment.mark is not None:
                    yield from self._mark(moment, *moment.mark)
                case _:
                    row_ = event_row(moment)
                    yield from self._instant_of_host(moment, row_["event"], row_["detail"])
        yield from self._unfinished()

    # ---- processes and threads -------------------------------------------------------------------

    def _process(self, host: str, gpu: str, vm: str) -> tuple[int, list[dict[str, Any]]]:
        key = (host, gpu, vm)
        if key in self._pids:
            return self._pids[key], []
        pid = self._pids[key] = len(self._pids) + 1
        name = "/".join(part for part in key if part) or "recording"
        return pid, [_metadata("process_name", pid, 0, name)]

    def _thread(self, pid: int, pe: int, track: int) -> tuple[int, list[dict[str, Any]]]:
        element = self._elements.setdefault((pid, pe), _Element())
        tid = pe * (MAX_TRACKS + 1) + track + 1
        if track in element.named:
            return tid, []
        element.named.add(track)
        name = f"PE {pe}" + (f" block {track + 1}" if track else "")
        order = {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
        return tid, [_metadata("thread_name", pid, tid, name), order]

    # ---- records ---------------------------------------------------------------------------------

    def _record(self, moment: Moment) -> Iterator[dict[str, Any]]:
        record, entry = moment.record, moment.entry
        assert record is not None
        pid, news = self._process(entry.host, entry.gpu, entry.vm)
        yield from news
        words = record.words()
        if record.function is Function.PERF and record.type == _BEGIN and len(words) >= 2:
            yield from self._begin(moment, record, pid)
        elif record.function is Function.PERF and record.type == _END and len(words) >= 3:
            yield from self._end(moment, record, pid)
        elif record.function in (Function.PERF, Function.LOAD) and record.type == _SAMPLE_TYPES[record.function]:
            yield from _counters(moment, record, pid)
        else:
            tid, named = self._thread(pid, entry.pe, 0)
            yield from named
            yield _instant(moment, record, pid, tid)

    def _begin(self, moment: Moment, record: Record, pid: int) -> Iterator[dict[str, Any]]:
        element = self._elements.setdefault((pid, moment.entry.pe), _Element())
        kernel, launch = record.words()[:2]
        if len(element.running) >= MAX_TRACKS:
            yield from self._lost_end(pid, moment.entry.pe, next(iter(element.running)))
        element.running.pop((launch, record.block), None)
        element.running[launch, record.block] = (element.free_track(), _us(moment.time_ns), _kernel(moment, kernel))

    def _end(self, moment: Moment, record: Record, pid: int) -> Iterator[dict[str, Any]]:
        element = self._elements.setdefault((pid, moment.entry.pe), _Element())
        kernel, launch, duration_ns = record.words()[:3]
        end_us = _us(moment.time_ns)
        unseen = (element.free_track(), max(0.0, end_us - duration_ns / 1e3), _kernel(moment, kernel))
        track, start_us, name = element.running.pop((launch, record.block), unseen)
        tid, named = self._thread(pid, moment.entry.pe, track)
        yield from named
        yield {
            "ph": "X",
            "name": name,
            "cat": "block",
            "pid": pid,
            "tid": tid,
            "ts": start_us,
            "dur": end_us - start_us,
            "args": {"block": record.block, "launch": launch, "duration_ns": duration_ns},
        }

    def _lost_end(self, pid: int, pe: int, block: tuple[int, int]) -> Iterator[dict[str, Any]]:
        track, start_us, name = self._elements[pid, pe].running.pop(block)
        tid, named = self._thread(pid, pe, track)
        yield from named
        args = {"launch": block[0], "block": block[1], "end": "not recorded"}
        where = {"pid": pid, "tid": tid, "ts": start_us}
        yield {
            "ph": "i",
            "s": _INSTANT_SCOPE,
            "name": f"{name} (end not recorded)",
            "cat": "block",
            **where,
            "args": args,
        }

    def _unfinished(self) -> Iterator[dict[str, Any]]:
        for (pid, pe), element in self._elements.items():
            for block in list(element.running):
                yield from self._lost_end(pid, pe, block)

    # ---- marks of programs -----------------------------------------------------------------------

    def _mark(self, moment: Moment, name: str, detail: dict[str, Any]) -> Iterator[dict[str, Any]]:
        pid, tid, news = self._program(moment, detail)
        yield from news
        text = str(detail.get("text") or name)[:256]
        at = {"name": text, "cat": str(detail.get("domain") or "nvtx"), "pid": pid, "tid": tid}
        rest = {**at, "ts": _us(moment.time_ns), "args": plain(detail)}
        duration_ns = detail.get("duration_ns")
        if not isinstance(duration_ns, int):
            yield {"ph": "i", "s": _INSTANT_SCOPE, **rest}
        elif detail.get("nested"):
            yield {"ph": "X", "dur": duration_ns / 1e3, **rest}
        else:
            self._ranges += 1
            yield {"ph": "b", "id": self._ranges, **rest}
            yield {"ph": "e", "id": self._ranges, **at, "ts": _us(moment.time_ns + duration_ns)}

    def _program(self, moment: Moment, detail: dict[str, Any]) -> tuple[int, int, list[dict[str, Any]]]:
        entry, thread = moment.entry, detail.get("thread")
        key = (entry.host, entry.vm, str(detail.get("program")))
        if key not in self._programs and len(self._programs) >= MAX_PROGRAMS:
            key = (entry.host, entry.vm, "other programs")
        threads = self._programs.setdefault(key, set())
        pid, news = self._process(*key)
        tid = thread if isinstance(thread, int) and (thread in threads or len(threads) < MAX_PROGRAMS) else 0
        name = str(detail.get("thread_name") or f"thread {tid}" if tid else "other threads")
        if tid not in threads:
            threads.add(tid)
            news = [*news, _metadata("thread_name", pid, tid, name)]
        return pid, tid, news

    # ---- hosts -----------------------------------------------------------------------------------

    def _instant_of_host(self, moment: Moment, name: str, args: dict[str, Any]) -> Iterator[dict[str, Any]]:
        pid, news = self._process(moment.entry.host, "", moment.entry.vm)
        yield from news
        at = {"pid": pid, "tid": 0, "ts": _us(moment.time_ns)}
        yield {"ph": "i", "s": "p", "name": name, "cat": moment.entry.kind.name.lower(), **at, "args": plain(args)}

    def _load(self, moment: Moment) -> Iterator[dict[str, Any]]:
        pid, news = self._process(moment.entry.host, "", "")
        yield from news
        try:
            load = unpack_body(moment.entry.body)
        except DamagedError:
            return
        at = {"pid": pid, "tid": 0, "ts": _us(moment.time_ns)}
        yield {"ph": "C", "name": "load", **at, "args": {"host": plain(load["host"])}}
        if load["vms"]:
            yield {"ph": "C", "name": "load of VMs", **at, "args": plain(load["vms"])}


_SAMPLE_TYPES: Final = {Function.PERF: _SAMPLE, Function.LOAD: 1}
_SAMPLE_NAMES: Final = {
    Function.PERF: ("blocks", "warps", "busy_ns", "stall_ns"),
    Function.LOAD: ("busy_ns", "blocks", "launches"),
}


def _us(time_ns: int) -> float:
    return time_ns / 1e3


def _metadata(name: str, pid: int, tid: int, value: str) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {"name": value}}


def _kernel(moment: Moment, key: int) -> str:
    return (moment.texts or {}).get(key) or f"kernel {key:#x}"


def _counters(moment: Moment, record: Record, pid: int) -> Iterator[dict[str, Any]]:
    for name, value in zip(_SAMPLE_NAMES[record.function], record.words(), strict=False):
        track = {"name": f"PE {moment.entry.pe} {name}", "pid": pid, "ts": _us(moment.time_ns)}
        yield {"ph": "C", **track, "args": {name: value}}


def _instant(moment: Moment, record: Record, pid: int, tid: int) -> dict[str, Any]:
    text = describe(record, moment.texts or {})
    fn = FUNCTIONS[record.function]
    args = {
        "text": text,
        "level": record.level,
        "block": record.block,
        "warp": record.warp,
        "sequence": record.sequence,
    }
    at = {"pid": pid, "tid": tid, "ts": _us(moment.time_ns)}
    return {
        "ph": "i",
        "s": _INSTANT_SCOPE,
        "name": f"{fn}: {text[:80]}",
        "cat": f"{fn} {record.kind}",
        **at,
        "args": args,
    }


def export(moments: Iterable[Moment]) -> Iterator[bytes]:
    """Writes the trace as JSON, in pieces."""
    yield b'{"displayTimeUnit":"ns","traceEvents":['
    separator = b"\n"
    for event in Trace().events(moments):
        yield separator + json.dumps(event, separators=(",", ":")).encode()
        separator = b",\n"
    yield b"\n]}\n"
