"""Commands of the control system, executed by its thread: one method each."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from typing import Final

from vhost_backend._dataplane import lib
from vhost_backend.channels import packets
from vhost_backend.channels.driver import Driver, DriverError
from vhost_backend.worker.channels.record_pipe import RecordPipe
from vhost_backend.worker_protocol.control_messages import (
    ControlClose,
    ControlConfine,
    ControlFirmware,
    ControlMessage,
    ControlOpen,
    ControlSend,
    ControlSet,
    ControlSnapshot,
    ControlThreshold,
)

LET_GO_S: Final = 0.25
"""Patience with elements that still hold a released channel: longer than a hook takes if its thread is scheduled."""
SEND_ALL_S: Final = 5.0
"""Time the daemon gets to read the remaining records of channels that it has closed."""
THRESHOLD_PERIOD_S: Final = 0.05

_BUILT_IN: Final = lib.VGC_CTL_BUILT_IN_MAJOR << 32 | lib.VGC_CTL_BUILT_IN_MINOR << 16 | lib.VGC_CTL_BUILT_IN_PATCH
"""Version with which elements begin, as a number (`virtio_proto.control.firmware.version_number`)."""

LoadFirmware = Callable[[int, int, int], None]
"""Loads a firmware image: (slot, version, the image's fd). Raises DriverError."""


class Commands:
    """Executes commands on a driver. To be used on the control system's thread only."""

    def __init__(self, driver: Driver, pipe: RecordPipe, load_firmware: LoadFirmware) -> None:
        self._driver = driver
        self._pipe = pipe
        self._load_firmware = load_firmware
        self._thresholds: dict[str, _Threshold] = {}
        self._look_at = 0.0
        self._changing: set[int] = set()
        """Elements that have not yet reached the poll point at which they change their firmware."""
        self._channels: set[int] = set()
        """Channels that are open."""
        self._is_confined = False
        self._versions = [_BUILT_IN, 0]
        """Versions of firmware in the slots; 0: the slot is empty."""
        self._changed = False
        """True once any element was told to change firmware: from then on an element may also fall back by itself."""

    @property
    def waiting(self) -> bool:
        """True while `follow_up` has work even if no channel is open."""
        return bool(self._changing)

    def execute(self, message: ControlMessage, fds: Sequence[int]) -> None:
        """Executes one command to its end. `fds` stay the caller's.

        :raise DriverError: the command cannot be executed; nothing has changed.
        """
        match message:
            case ControlOpen():
                self._open(message)
            case ControlClose():
                self._close(message.channels)
            case ControlSet():
                self._driver.set(message.channels, message.level, message.sample)
            case ControlSend():
                self._driver.send(message.channel, message.data, eof=message.eof)
            case ControlThreshold():
                self._threshold(message)
            case ControlSnapshot():
                self._snapshot(message)
            case ControlConfine():
                self._confine(message.pes)
            case ControlFirmware():
                self._firmware(message, fds)

    def follow_up(self) -> None:
        """Finishes earlier commands: bounds gauges that exist by now, reports elements that have changed firmware."""
        if self._changed and (states := self._driver.firmware()):
            found = packets.FIRMWARE.iter_unpack(states)
            self._changing -= {pe for pe, _slot, state, *_ in found if state != lib.VGC_CTL_FW_STAGED}
            self._pipe.send_within([bytes([packets.Kind.FIRMWARE]) + states], SEND_ALL_S)
        now = time.monotonic()
        if self._thresholds and now >= self._look_at:
            self._look_at = now + THRESHOLD_PERIOD_S
            self._apply_thresholds()

    # ---- channels --------------------------------------------------------------------------------

    def _open(self, message: ControlOpen) -> None:
        counts = {len(message.pes), len(message.channels), len(message.generations)}
        if len(counts) != 1:
            raise DriverError(errno.EINVAL, f"{sorted(counts)} elements, channels, generations; allowed: equal counts")
        self._driver.open(message.terms, message.pes, message.channels, message.generations)
        self._channels.update(message.channels)

    def start_over(self) -> None:
        """Closes all channels, forgets all thresholds, lets all elements take work, and tells of their firmware."""
        self._thresholds.clear()
        if self._channels:
            self._close(tuple(self._channels))
        if self._is_confined:
            self._confine(())
        self._pipe.send_within([packets.firmware_slots((*self._versions,), self._driver.slots())], SEND_ALL_S)

    def _confine(self, pes: Sequence[int]) -> None:
        self._driver.confine(pes)
        self._is_confined = bool(pes)

    def _close(self, channels: Sequence[int]) -> None:
        """Unbinds channels, waits until no element holds one and every record was sent, and frees them."""
        self._channels.difference_update(channels)
        self._driver.unbind(channels)
        let_go_by = time.monotonic() + LET_GO_S
        send_by = time.monotonic() + SEND_ALL_S
        nap_s = 0.00005
        while self._driver.unsettled():
            _, all_sent = self._pipe.records()
            now = time.monotonic()
            if now >= (let_go_by if all_sent else send_by):
                break
            if all_sent:
                time.sleep(nap_s)
                nap_s = min(2 * nap_s, 0.005)
            else:
                self._pipe.wait(send_by - now)
        unsettled = self._driver.unsettled()
        held = self._driver.close_channels(channels)
        if unsettled or held:
            usage = self._driver.usage()
            fields = {"held": held, "unsettled": unsettled, "quarantined_bytes": usage.quarantined_bytes}
            self._pipe.send_within([packets.event("released_late", fields)], LET_GO_S)

    # ---- thresholds ------------------------------------------------------------------------------

    def _threshold(self, message: ControlThreshold) -> None:
        wrong = [pe for pe in message.pes if pe >= self._driver.num_pes]
        if wrong:
            raise DriverError(errno.EINVAL, f"element {wrong[0]}; allowed: 0..{self._driver.num_pes - 1}")
        if message.name not in self._thresholds and len(self._thresholds) >= MAX_THRESHOLDS:
            raise DriverError(errno.ENOSPC, f"thresholds for {MAX_THRESHOLDS} names already; allowed: no more")
        threshold = self._thresholds.setdefault(message.name, _Threshold())
        threshold.bounds.update(dict.fromkeys(message.pes, (message.low, message.high)))
        threshold.applied.difference_update(message.pes)
        self._apply_thresholds()

    def _apply_thresholds(self) -> None:
        """Sets the bounds of gauges that did not exist yet when their threshold came."""
        waiting = {pe for each in self._thresholds.values() for pe in each.bounds.keys() - each.applied}
        for pe in waiting:
            for gauge, address in enumerate(self._driver.gauges(pe)):
                threshold = self._thresholds.get(self._driver.text(address) or "") if address > 1 else None
                if threshold is not None and pe in threshold.bounds and pe not in threshold.applied:
                    self._driver.bound_gauge(pe, gauge, *threshold.bounds[pe])
                    threshold.applied.add(pe)

    # ---- snapshots and firmware ------------------------------------------------------------------

    def _snapshot(self, message: ControlSnapshot) -> None:
        began_ns = time.monotonic_ns()
        if not self._driver.can_look:
            self._driver.ask(on=True)
            time.sleep(message.deadline_ms / 1000)
        states, _ = self._driver.look(began_ns)
        if not self._driver.can_look:
            self._driver.ask(on=False)
        ended_ns = time.monotonic_ns()
        parts = packets.snapshot(message.number, began_ns, ended_ns, states)
        if not self._pipe.texts() or not self._pipe.send_within(parts, SEND_ALL_S):
            raise DriverError(errno.EAGAIN, "the daemon does not read its record socket")

    def _firmware(self, message: ControlFirmware, fds: Sequence[int]) -> None:
        if message.action == "stage":
            self._load_firmware(message.slot, message.version, fds[0])
            self._versions[message.slot] = message.version
            return
        self._driver.activate(message.pes, message.slot)
        self._changing.update(message.pes)
        self._changed = True


MAX_THRESHOLDS: Final = 64


class _Threshold:
    """Bounds of the gauges of one name, by element."""

    def __init__(self) -> None:
        self.bounds: dict[int, tuple[float, float]] = {}
        self.applied: set[int] = set()
