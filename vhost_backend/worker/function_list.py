"""Payload of a FUNCTION_LIST response: functions that every context of the VM finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from vhost_backend.engines.base import FunctionInfo
from vhost_backend.errors import DriverError
from vhost_backend.worker.plane import DataPlane
from vhost_backend.worker.programs import Function, LoadedEntry, Strings, param_entries
from vhost_backend.worker.registrations import Registration, Registrations, name_in
from virtio_proto import schema
from virtio_proto.control.latency import quantile_ns
from virtio_proto.schema import FunctionFlag, FunctionOrigin, Status

_P99: Final = 0.99
_MOST: Final = 1000
"""Functions of one response at most, so that the worker serves others in between."""


@dataclass(frozen=True, slots=True)
class _Listed:
    program: int
    """0: it is the host's."""
    flags: int
    function: Function | None
    """None: the program is broken."""
    name: str
    text: str
    origin: FunctionOrigin = FunctionOrigin.VM


def list_payload(
    registrations: Registrations, built_in: Iterable[Function], plane: DataPlane, first: int, room: int
) -> bytes:
    """Functions of the VM and then those of the host, from number `first` on, as many as fit into `room` bytes.

    :raise DriverError: not even one fits.
    """
    header = schema.FUNCTION_LIST
    parts = _Parts(plane, room - header.size_bytes)
    following = 0
    functions = islice(_functions(registrations, built_in), first, None)
    for number, listed in enumerate(functions, first):
        if parts.count == _MOST or not parts.add(listed):
            following = number
            break
    if following and not parts.count:
        raise DriverError(Status.INVALID_ARGUMENT, f"room for {room} bytes; allowed: enough for one function")
    fields = {"num_functions": parts.count, "num_params": parts.num_params, "strings_len": len(parts.strings.data)}
    return bytes(header.construct.build({**fields, "next": following}) + parts.data)


def _functions(registrations: Registrations, built_in: Iterable[Function]) -> Iterator[_Listed]:
    for registration, entry in registrations:
        yield from _functions_of(registration, entry)
    for function in built_in:
        yield _Listed(0, FunctionFlag(0), function, function.info.name, "", FunctionOrigin.HOST)


def _functions_of(registration: Registration, entry: LoadedEntry | None) -> Iterator[_Listed]:
    flags = FunctionFlag.KEPT if registration.keep else FunctionFlag(0)
    if entry is None:
        flags |= FunctionFlag.BROKEN
        for signature in registration.signatures or ("?",):
            yield _Listed(registration.program, flags, None, name_in(signature), registration.problem)
        return
    for function in entry.functions:
        yield _Listed(entry.id, flags, function, function.info.short_name, "")


class _Parts:
    """Parts of the payload behind its header."""

    def __init__(self, plane: DataPlane, room: int) -> None:
        self._plane = plane
        self._room = room
        self._entries = bytearray()
        self._params = bytearray()
        self.strings = Strings()
        self.count = 0

    @property
    def num_params(self) -> int:
        return len(self._params) // schema.PARAM_ENTRY.size_bytes

    @property
    def data(self) -> bytes:
        return bytes(self._entries + self._params + self.strings.data)

    def add(self, listed: _Listed) -> bool:
        """Adds a function; false, and nothing is added, if it does not fit."""
        info = None if listed.function is None else listed.function.info
        params = b"" if info is None else param_entries(info)
        texts = ("" if info is None else info.name, listed.name, listed.text)
        needed = schema.LISTED_FUNCTION.size_bytes + len(params) + sum(len(text.encode()) for text in texts)
        if len(self._entries) + len(self._params) + len(self.strings.data) + needed > self._room:
            return False
        self._entries += self._entry(listed, info, texts)
        self._params += params
        self.count += 1
        return True

    def _entry(self, listed: _Listed, info: FunctionInfo | None, texts: tuple[str, str, str]) -> bytes:
        places = [self.strings.add(text) for text in texts]
        fields: dict[str, int] = {"launches": 0, "busy_ns": 0, "p99_ns": 0}
        if listed.function is not None:
            work = self._plane.function_work(listed.function.id)
            p99 = quantile_ns(work.times, _P99)
            fields = {"launches": work.launches, "busy_ns": work.busy_ns, "p99_ns": p99 or 0}
        for (offset, length), what in zip(places, ("name", "short", "text"), strict=True):
            fields |= {f"{what}_off": offset, f"{what}_len": length}
        return schema.LISTED_FUNCTION.construct.build(
            {
                "id": 0 if listed.function is None else listed.function.id,
                "program": listed.program,
                "origin": listed.origin,
                "flags": int(listed.flags),
                "first_param": self.num_params,
                "num_params": 0 if info is None else len(info.params),
                **fields,
            }
        )
