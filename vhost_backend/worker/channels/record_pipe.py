"""Worker's end of the record socket.

Records that the daemon does not read stay in the rings of the control area, where elements count those that find no
room. Nothing here blocks for longer than its caller allows.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeAlias

from vhost_backend.channels import packets
from vhost_backend.channels.driver import MAX_CHANGES, Driver

Buffer: TypeAlias = bytes | memoryview

MAX_PACKETS_PER_TURN: Final = 32
_FLAGS: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


class RecordPipe:
    """Sends packets (see `packets`) and what a driver has to report. Takes `sock` over."""

    def __init__(self, sock: socket.socket, driver: Driver) -> None:
        self._sock = sock
        self._driver = driver
        self._poller = select.poll()
        self._poller.register(sock, select.POLLOUT)
        self.sent_bytes = 0
        self._device = b""
        self._sampling: dict[int, bytes] = {}  # changes that the daemon has not been sent, by channel

    def send(self, packet: Buffer) -> bool:
        """Sends one packet; False if the socket is full because the daemon does not read, or if the daemon is gone."""
        try:
            self._sock.send(packet, _FLAGS)
        except OSError:
            return False
        self.sent_bytes += len(packet)
        return True

    def send_within(self, parts: Iterable[bytes], seconds: float) -> bool:
        """Sends all packets, waiting for the daemon to read; False if it has not read them in that time."""
        deadline = time.monotonic() + seconds
        return all(self._send_by(part, deadline) for part in parts)

    def wait(self, seconds: float) -> None:
        """Waits until the socket takes a packet, at most `seconds`."""
        self._poller.poll(max(0, int(seconds * 1000)))

    def _send_by(self, packet: bytes, deadline: float) -> bool:
        while not self.send(packet):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.wait(left)
            if time.monotonic() < deadline and self._is_broken():
                return False
        return True

    def _is_broken(self) -> bool:
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in self._poller.poll(0))

    # ---- what the driver reports -----------------------------------------------------------------

    def records(self) -> tuple[bool, bool]:
        """Sends records from the links, at most `MAX_PACKETS_PER_TURN` packets: (any was sent, all were sent)."""
        for number in range(MAX_PACKETS_PER_TURN):
            packet = self._driver.drain(time.monotonic_ns())
            if packet is None:
                return number > 0, True
            sent = self.texts() and self.send(packet)
            self._driver.drained(sent=sent)
            if not sent:
                return number > 0, False
        return True, False

    def figures(self) -> bool:
        """Sends the figures that are due; False if the socket did not take them all."""
        while (packet := self._driver.figures(time.monotonic_ns())) is not None:
            sent = self.texts() and self.send(packet)
            self._driver.figured(sent=sent)
            if not sent:
                return False
        return True

    def device(self) -> None:
        """Sends the device's state if it has changed since it was sent last."""
        state = self._driver.device_state()
        if state != self._device and self.send(packets.device_state(state)):
            self._device = state

    def sampling(self, changes: bytes) -> None:
        """Sends the governor's `changes`. The last change of each channel that the socket did not take is sent again."""
        for channel, *rest in packets.CHANGE.iter_unpack(changes):
            self._sampling[channel] = packets.CHANGE.pack(channel, *rest)
        while self._sampling:
            batch = dict(islice(self._sampling.items(), MAX_CHANGES))
            if not self.send(bytes([packets.Kind.GOVERNOR]) + b"".join(batch.values())):
                return
            for channel in batch:
                del self._sampling[channel]

    def texts(self) -> bool:
        """Sends texts that the driver's last packet refers to for the first time; False if the socket is full."""
        unknown = self._driver.unknown()
        known = {address: text for address, text in unknown.items() if text is not None}
        if not all(self.send(packet) for packet in packets.texts(known)):
            return False
        self._driver.know(list(unknown))
        return True
