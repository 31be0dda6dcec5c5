"""A trace in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Threads of the program have its calls of CUDA and their sleeps as slices. Requests are tracks below their process, as many
are on their way at once. Each device is a process of its own, in which the streams are threads and the work on the device
slices: when it began and how long it took is the host's word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from guest_driver.trace.lines import Request, Trace
from virtio_proto.schema import Opcode

FIRST_DEVICE: Final = 1 << 22
"""Number of the first device's process: above all that Linux gives."""

WORK: Final = frozenset(
    {
        Opcode.LAUNCH,
        Opcode.CALL,
        Opcode.GRAPH_LAUNCH,
        Opcode.COPY_IN,
        Opcode.COPY_OUT,
        Opcode.COPY_DEVICE,
        Opcode.COPY_BOX,
        Opcode.FILL,
    }
)
"""Operations that a stream has in its order."""


def export(trace: Trace) -> Iterator[dict[str, Any]]:
    """The events, in microseconds from the first one on."""
    zero = trace.begins_ns()
    yield from _threads(trace, zero)
    for number, request in enumerate(trace.requests):
        yield from _request(request, number, zero)
    yield from _devices(trace, zero)


def _slice(name: str, category: str, place: tuple[int, int], start_ns: int, length_ns: int) -> dict[str, Any]:
    pid, thread = place
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": thread,
        "ts": start_ns / 1e3,
        "dur": max(length_ns, 0) / 1e3,
    }


def _label(kind: str, place: tuple[int, int], name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": place[0], "tid": place[1], "args": {"name": name}}


def _threads(trace: Trace, zero: int) -> Iterator[dict[str, Any]]:
    for call in trace.calls:
        yield _slice(call.name, "call", (call.pid, call.thread), call.start_ns - zero, call.end_ns - call.start_ns)
    for sleep in trace.sleeps:
        place = (sleep.pid, sleep.thread)
        yield _slice("sleep", "sleep", place, sleep.start_ns - zero, sleep.end_ns - sleep.start_ns)
    for pid in sorted({entry.pid for entry in trace.entries()}):
        yield _label("process_name", (pid, pid), "process")


def _request(request: Request, number: int, zero: int) -> Iterator[dict[str, Any]]:
    common = {"name": request.kind, "cat": "request", "id": number, "pid": request.pid, "tid": request.thread}
    told = {
        "function": request.name,
        "device": request.device,
        "queue": request.queue,
        "stream": request.stream,
        "queued_us": request.queued_ns / 1e3,
        "exec_us": request.exec_ns / 1e3,
        "result": request.result,
    }
    yield common | {"ph": "b", "ts": (request.start_ns - zero) / 1e3, "args": told}
    yield common | {"ph": "e", "ts": (request.end_ns - zero) / 1e3}


def _devices(trace: Trace, zero: int) -> Iterator[dict[str, Any]]:
    devices = sorted({request.device for request in trace.requests})
    streams: dict[tuple[str, int, int], int] = {}
    ends: dict[tuple[int, int], int] = {}
    for number, device in enumerate(devices):
        yield _label("process_name", (FIRST_DEVICE + number, 0), f"device {device}")
    for request in sorted(trace.requests, key=lambda request: request.start_ns + request.queued_ns):
        if request.opcode not in WORK or request.exec_ns == 0:
            continue
        key = (request.device, request.pid, request.stream)
        is_new = key not in streams
        thread = streams.setdefault(key, len(streams) + 1)
        place = (FIRST_DEVICE + devices.index(request.device), thread)
        if is_new:
            yield _label("thread_name", place, f"stream {request.stream} of process {request.pid}")
        start_ns = max(request.start_ns + request.queued_ns - zero, ends.get(place, 0))
        ends[place] = start_ns + request.exec_ns
        yield _slice(request.name or request.kind, "device", place, start_ns, request.exec_ns)
