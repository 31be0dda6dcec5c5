"""Fake frontend that behaves as Linux does where it is the frontend (User-Mode Linux, ``virtio_uml.c`` of 6.1).

Unlike QEMU it sends SET_OWNER first, takes few of the offered features, wants a reply to every SET_ message from the one
on that negotiates replies, sends its one region in a table of two, has no err descriptors, gives a socket for calls,
and stops rings by SET_VRING_ENABLE alone.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.fakes.driver import FakeDriver
from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.region import Region
from tests.fakes.vm import REGION_BYTES
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.messages import OFFERED_FEATURES, ProtocolFeature, Request

WANTED: Final = int(ProtocolFeature.REPLY_ACK | ProtocolFeature.BACKEND_REQ | ProtocolFeature.CONFIG)
TABLE_ENTRIES: Final = 2
ENTRY_BYTES: Final = 32


class KernelFrontend(FakeFrontend):
    """A connection of the kernel's; the descriptors of its rings stay the caller's."""

    def negotiate(self, features: int = OFFERED_FEATURES, protocol: int = WANTED) -> None:
        """Does what the kernel does when the device appears."""
        self.send(Request.SET_OWNER)
        self.features = int.from_bytes(self.call(Request.GET_FEATURES), "little") & features
        offered = int.from_bytes(self.call(Request.GET_PROTOCOL_FEATURES), "little")
        self.protocol_features = offered & protocol
        self.must(Request.SET_PROTOCOL_FEATURES, messages.u64(self.protocol_features))
        self._give_backend_channel()

    def set_memory(self, files: Iterable[SharedFile]) -> None:
        """Sends the regions in a table of fixed size."""
        files = list(files)
        table = messages.mem_table(tuple(file.as_region() for file in files))
        padding = bytes(ENTRY_BYTES * (TABLE_ENTRIES - len(files)))
        self.must(Request.SET_MEM_TABLE, table + padding, [file.fd for file in files])

    def set_up(self, ring: RingSetup) -> None:
        """Sends the messages of one ring but those that start it."""
        self.set_event(Request.SET_VRING_CALL, ring.index, ring.call_fd)
        self.must(Request.SET_VRING_NUM, messages.vring_state(ring.index, ring.size))
        self.must(Request.SET_VRING_BASE, messages.vring_state(ring.index, ring.base))
        self.must(Request.SET_VRING_ADDR, messages.vring_addr(ring.index, ring.desc, ring.used, ring.avail))

    def start(self, rings: Sequence[RingSetup], files: Iterable[SharedFile] = ()) -> None:
        """Acts as the kernel when a driver has found its queues: features, memory, rings, and only these enabled."""
        self.must(Request.SET_FEATURES, messages.u64(self.features))
        self.set_memory(files)
        for ring in rings:
            self.set_up(ring)
        for ring in rings:
            self.set_event(Request.SET_VRING_KICK, ring.index, ring.kick_fd)
            self.enable(ring.index)

    def stop(self, rings: Sequence[RingSetup]) -> list[int]:
        """Disables the rings, and does no more when a driver lets go of the device; there are no bases to return."""
        for ring in reversed(rings):
            self.enable(ring.index, enabled=False)
        self.synchronise()
        return []


class KernelVm:
    """A driver whose queues a backend serves, on a region that such a frontend shares. Owns all three."""

    def __init__(self, socket_path: Path, *, num_queues: int = 2, region_bytes: int = REGION_BYTES) -> None:
        """Connects, negotiates and starts the queues; does not wait until the device is ready."""
        self.region = Region(region_bytes)
        self.file = SharedFile(self.region.fd, self.region.size, self.region.gpa, self.region.uva)
        self.frontend = KernelFrontend.connect(socket_path, num_queues)
        self._num_queues = num_queues
        self._calls: list[socket.socket] = []
        self.frontend.negotiate()
        self.bind()

    def bind(self) -> None:
        """Lets a new driver take the device, with new rings."""
        self.driver = FakeDriver(self.region, num_queues=self._num_queues)
        for queue in self.driver.queues:
            reading, writing = socket.socketpair()
            self._calls.append(writing)
            queue.replace_call(reading.detach())
        self.frontend.start(self.rings(), [self.file])

    def unbind(self) -> None:
        """Lets the driver give up the device."""
        self.frontend.stop(self.rings())
        self.driver.close()
        self._close_calls()

    def rings(self) -> list[RingSetup]:
        uva = self.region.uva
        return [
            RingSetup(
                index,
                queue.at.num,
                uva + queue.at.desc,
                uva + queue.at.avail,
                uva + queue.at.used,
                queue.kick_fd,
                call.fileno(),
            )
            for index, (queue, call) in enumerate(zip(self.driver.queues, self._calls, strict=True))
        ]

    def _close_calls(self) -> None:
        for call in self._calls:
            call.close()
        self._calls = []

    def close(self) -> None:
        self.frontend.close()
        self.driver.close()
        self._close_calls()
        self.region.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
