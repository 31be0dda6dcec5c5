"""Reader of a worker's record socket, and of the records that a dead worker left; trusts none of them.

`vhost_backend.channels.packets` parses the packets. A channel's section counts only if the daemon has that channel open
in this worker, with this generation. A worker that sends faster than the daemon can pass on is read within a budget of
time (`vhost_backend.worker_protocol.budgets`): its rings fill up and count their losses, and other VMs are served as before.
"""

from __future__ import annotations

import array
import fcntl
import socket
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from vhost_backend._dataplane import lib
from vhost_backend.channels import packets
from vhost_backend.channels.area import ControlArea, Salvage
from vhost_backend.channels.packets import PacketError, Section
from vhost_backend.control.links.channel_port import (
    MAX_COUNT,
    Batch,
    Binding,
    DeviceClock,
    ElementFigures,
    ElementState,
    Listener,
)
from vhost_backend.control.links.firmware import ElementFound, FirmwareFound, FirmwareReport, SlotState
from vhost_backend.log import Logger
from vhost_backend.worker_protocol.budgets import BACKLOG_S, RECORD_SHARE, PacedReader, TimeBudget
from virtio_proto.control.firmware import version_text
from virtio_proto.control.records import Function

FEWEST_SLOTS: Final = int(lib.VGC_CONTROL_FEWEST_SLOTS)
MAX_NAMES: Final = 1 << 14
MAX_NAME_CHARS: Final = 63
"""Longest name that a threshold can have. With this bound, figures of thousands of counters fit an answer."""


@dataclass(frozen=True, slots=True)
class _Open:
    """Channel that is bound in the worker."""

    function: Function
    binding: Binding
    slots: int
    """Most slots of its ring."""


@dataclass(slots=True)
class _Snapshot:
    """Snapshot that is being taken. The worker is not trusted: each processing element counts once, and times outside of
    the snapshot are cut to it.
    """

    asked_ns: int
    """Time of the request, CLOCK_MONOTONIC."""
    pes: set[int] = field(default_factory=set)
    states: list[ElementState] = field(default_factory=list)


class RecordReader:
    """Owns the daemon's end of a record socket. Calls the listener on the loop."""

    def __init__(self, sock: socket.socket, log: Logger, time_budget: TimeBudget | None = None) -> None:
        """`time_budget`: for reading the records of all workers of the VM; None: the worker has one of its own."""
        sock.setblocking(False)
        self._sock = sock
        self._log = log
        self._reader = PacedReader(sock, self._read_one, time_budget or TimeBudget(RECORD_SHARE))
        self._listener: Listener | None = None
        self._bound: dict[int, _Open] = {}
        self._taken: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._snapshots: dict[int, _Snapshot] = {}
        self._closed = False
        self._rows = 0
        self.num_pes = 0
        """Number of processing elements that the device has reported; 0: no report yet."""

    def begin(self, listener: Listener, rows: int) -> None:
        """Starts to read. `rows`: number of processing elements that the control area has room for."""
        self._listener = listener
        self._rows = rows
        self._reader.start()

    def fileno(self) -> int:
        """Descriptor of the socket, which stays the reader's."""
        return self._sock.fileno()

    def close(self) -> None:
        """Stops reading; nothing happens the second time."""
        if self._closed:
            return
        self._closed = True
        self._reader.stop()
        self._sock.close()

    # ---- channels --------------------------------------------------------------------------------

    def expect(self, function: Function, slots: int, bindings: Sequence[Binding]) -> None:
        """Accepts records of channels that are being opened; their rings have at most `slots` slots."""
        for binding in bindings:
            self._bound[binding.channel] = _Open(function, binding, max(slots, FEWEST_SLOTS))
            self._taken[binding.channel] = 0

    def forget(self, channels: Sequence[int]) -> None:
        """Ignores records of channels from now on: they are closed, or could not be opened."""
        for channel in channels:
            self._bound.pop(channel, None)
            self._taken.pop(channel, None)

    @contextmanager
    def snapshot(self, number: int) -> Iterator[list[ElementState]]:
        """Collects the states that processing elements report for a snapshot, in the block."""
        snapshot = self._snapshots[number] = _Snapshot(time.monotonic_ns())
        try:
            yield snapshot.states
        finally:
            del self._snapshots[number]

    # ---- reading ---------------------------------------------------------------------------------

    def drain(self) -> None:
        """Reads what has been sent so far, but not what the worker sends meanwhile: that might never end."""
        left = 0 if self._closed else _waiting_bytes(self._sock)
        until = time.thread_time() + BACKLOG_S
        while left > 0 and not self._closed:
            size = self._read_one()
            left = left - size if size else 0
            if left > 0 and time.thread_time() > until:
                self._log.warning("records_not_read", left_bytes=left, reason="they took too long", guest=True)
                return

    def _read_one(self) -> int:
        """Reads a packet; returns its length, or 0 if no packet is waiting or the worker has closed the socket."""
        try:
            packet = self._sock.recv(packets.MAX_PACKET_BYTES + 1)
        except BlockingIOError:
            return 0
        except OSError:
            packet = b""
        if not packet:
            self._reader.stop()
            return 0
        try:
            self._take(packet)
        except PacketError as error:
            self._log.warning("control_packet_refused", error=str(error), guest=True)
        return len(packet)

    def _take(self, packet: bytes) -> None:
        """:raise PacketError: `packet` is malformed, or has impossible values."""
        if self._listener is None:
            return
        match packets.parse(packet):
            case packets.Records(sections):
                for section in sections:
                    self._pass_on(section)
            case packets.Texts(texts):
                self._note(texts)
                self._listener.on_texts(texts)
            case packets.Snapshot() as seen:
                self._collect(seen)
            case packets.Event(event, fields):
                self._log.info("control_worker", said=event, fields=dict(fields), guest=True)
            case other:
                self._take_figures(self._listener, other)

    def _take_figures(
        self,
        listener: Listener,
        packet: packets.Figures
        | packets.Samples
        | packets.FirmwareStates
        | packets.FirmwareSlots
        | packets.DeviceState,
    ) -> None:
        match packet:
            case packets.Figures(time_ns, elements):
                at_ns = min(time_ns, time.monotonic_ns()) + offset_ns()
                listener.on_figures(at_ns, [self._figures(element) for element in elements])
            case packets.Samples(changes):
                known = {channel: sample for channel, generation, sample in changes if self._has(channel, generation)}
                listener.on_samples(known)
            case packets.FirmwareStates(states):
                for state in states:
                    listener.on_firmware(_report(*state))
            case packets.FirmwareSlots() as seen:
                listener.on_firmware_found(_found(seen))
            case packets.DeviceState() as state:
                self.num_pes = max(self.num_pes, min(state.num_pes, self._rows))
                listener.on_device(_clock(state), state.num_pes)

    def _has(self, channel: int, generation: int) -> bool:
        bound = self._bound.get(channel)
        return bound is not None and bound.binding.generation == generation

    def _pass_on(self, section: Section) -> None:
        if self._listener is None or not self._has(section.channel, section.generation):
            return
        self._taken[section.channel] = section.taken
        self._listener.on_batch(
            Batch(
                channel=section.channel,
                generation=section.generation,
                records=section.taken,
                lost=section.lost,
                skipped=section.skipped,
                forged=section.forged,
                cost_ns=section.cost_ns,
                clock_ns=offset_ns(),
                data=section.records,
            )
        )

    def _note(self, texts: Mapping[int, str]) -> None:
        for address, text in texts.items():
            self._names.pop(address, None)
            self._names[address] = _printable(text)
        while len(self._names) > MAX_NAMES:
            del self._names[next(iter(self._names))]

    def _name(self, address: int) -> str:
        return self._names.get(address, f"<{address:#x}>")

    def _figures(self, counts: packets.ElementCounts) -> ElementFigures:
        return ElementFigures(
            pe=counts.pe,
            blocks=counts.blocks,
            warps=counts.warps,
            launches=counts.launches,
            busy_ns=counts.busy_ns,
            stall_ns=counts.stall_ns,
            faults=counts.faults,
            counters={self._name(address): value for address, value in counts.counters.items()},
            gauges={self._name(address): value for address, value in counts.gauges.items()},
        )

    def _collect(self, seen: packets.Snapshot) -> None:
        snapshot = self._snapshots.get(seen.number)
        if snapshot is None:
            return
        clock_ns, now_ns = offset_ns(), time.monotonic_ns()
        for state in seen.states:
            if state.answered and state.pe not in snapshot.pes:
                snapshot.pes.add(state.pe)
                at_ns = min(max(state.at_ns, snapshot.asked_ns), now_ns)
                snapshot.states.append(
                    ElementState(
                        pe=state.pe,
                        kernel=self._name(state.kernel) if state.kernel else None,
                        launch=state.launch,
                        block=state.block,
                        warps=state.warps,
                        since_ns=min(state.since_ns, at_ns) + clock_ns if state.since_ns else 0,
                        last_record_ns=min(state.last_record_ns, at_ns) + clock_ns if state.last_record_ns else 0,
                        at_ns=at_ns + clock_ns,
                    )
                )

    # ---- after the worker's death ----------------------------------------------------------------

    def salvage(self, area: ControlArea, num_channels: int) -> None:
        """Passes on the records in a dead worker's channels that it had not sent."""
        if not self._bound:
            return
        try:
            num_slots = sum(item.slots for item in self._bound.values())
            with Salvage(area.fd, area.size_bytes, self._rows, num_channels, num_slots=num_slots) as left:
                for number, item in self._bound.items():
                    generation, pe = item.binding.generation, item.binding.pe
                    for section in left.drain(number, generation, item.function, pe, self._taken[number]):
                        self._pass_on(section)
        except ValueError as error:
            self._log.warning("control_area_lost", error=str(error), guest=True)


def offset_ns() -> int:
    """Present offset from CLOCK_MONOTONIC to CLOCK_REALTIME."""
    return time.time_ns() - time.monotonic_ns()


def _waiting_bytes(sock: socket.socket) -> int:
    """Number of unread bytes in a socket."""
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    return count[0]


def _clock(state: packets.DeviceState) -> DeviceClock:
    """Clock of a device; the reading's time is not in the future, and the error fits the API's numbers."""
    error_ns = None if state.clock_error_ns is None else min(state.clock_error_ns, MAX_COUNT)
    return DeviceClock(error_ns, min(state.clock_read_ns, time.monotonic_ns()))


def _report(pe: int, slot: int, version: int, state: int, code: int) -> FirmwareReport:
    """:raise PacketError: the slot or the state does not exist."""
    if slot > 1 or state not in set(SlotState):
        raise PacketError(
            f"firmware of element {pe} in slot {slot}, state {state}; allowed: slots 0 and 1, states 1 to 3"
        )
    return FirmwareReport(pe, slot, version, SlotState(state), code)


def _found(seen: packets.FirmwareSlots) -> FirmwareFound:
    """:raise PacketError: a slot, a state or a version does not exist."""
    elements = []
    for slot, state, code in seen.elements:
        if slot > 1 or state not in (0, *SlotState):
            raise PacketError(f"an element in slot {slot}, state {state}; allowed: slots 0 and 1, states 0 to 3")
        elements.append(ElementFound(slot, SlotState(state) if state else None, code))
    if any(number >> 48 for number in seen.versions):
        raise PacketError(f"firmware of versions {seen.versions}; allowed: below 1 << 48")
    return FirmwareFound(tuple(version_text(number) if number else None for number in seen.versions), tuple(elements))


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:MAX_NAME_CHARS])
