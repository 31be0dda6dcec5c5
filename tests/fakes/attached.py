"""A guest link whose device is a real daemon: does QEMU's part between the two."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.link import GuestLink
from tests.limits import ANSWERS_WITHIN_S
from virtio_proto import schema
from virtio_proto.schema import Health

REGION_BYTES: Final = 64 << 20
"""Default size of a VM's region."""


class AttachedLink(GuestLink):
    """Connects to the VM's socket, starts its queues, and keeps the configuration space up to date.

    `generation` can be waited for, as a guest would wait for the configuration interrupt.
    """

    def __init__(
        self,
        socket_path: Path,
        *,
        region_bytes: int = REGION_BYTES,
        num_queues: int = 2,
        folder: Path | None = None,
    ) -> None:
        super().__init__(region_bytes=region_bytes, num_queues=num_queues, ring_size=256, folder=folder)
        self.frontend = FakeFrontend.connect(socket_path, num_queues)
        self.frontend.negotiate()
        region = self.region
        self.frontend.start(self._setups(), [SharedFile(region.fd, region.size, region.gpa, region.uva)])
        self._changed = threading.Condition()
        self._speaking = threading.Lock()
        """One thread at a time asks the device and reads its answer."""
        self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self.refresh()
        self._thread = threading.Thread(target=self._follow, name="configuration")
        self._thread.start()

    def _setups(self) -> list[RingSetup]:
        uva = self.region.uva
        return [
            RingSetup(index, at.num, uva + at.desc, uva + at.avail, uva + at.used, kick, call)
            for index, (at, kick, call) in enumerate(zip(self.rings, self.kick_fds, self.call_fds, strict=True))
        ]

    def refresh(self) -> None:
        """Reads the configuration space anew."""
        with self._speaking:
            data = self.frontend.config_read()
        with self._changed:
            self.set_config_bytes(data)
            self._space: Any = schema.CONFIG.construct.parse(data)
            self._changed.notify_all()

    def _follow(self) -> None:
        assert self.frontend.backend_channel is not None
        channel = self.frontend.backend_channel.fileno()
        while self._stop_fd not in select.select([channel, self._stop_fd], [], [])[0]:
            self.frontend.wait_config_change()
            self.refresh()

    def wait_ready(self, generation: int = 1) -> None:
        """Waits until a worker of at least this generation serves the device."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: self._space.health == Health.READY and self._space.generation >= generation, ANSWERS_WITHIN_S
            ), f"the device stays {self._space}"

    def set_config_bytes(self, data: bytes) -> None:
        """Replaces all but the guest's acknowledgement, which it may write at the same time."""
        at = next(field for field in schema.fields(schema.CONFIG) if field.name == "driver_ack")
        end = at.offset_bytes + at.size_bytes
        os.pwrite(self.config_fd, data[: at.offset_bytes], 0)
        os.pwrite(self.config_fd, data[end:].ljust(schema.LIMITS["CONFIG_SIZE"] - end, b"\0"), end)

    def pass_on_acknowledgement(self) -> None:
        """Writes to the device what the guest has written into its configuration space."""
        at = next(field for field in schema.fields(schema.CONFIG) if field.name == "driver_ack").offset_bytes
        with self._speaking:
            self.frontend.config_write(self.acknowledged.to_bytes(4, "little"), at)

    def close(self) -> None:
        os.eventfd_write(self._stop_fd, 1)
        self._thread.join()
        os.close(self._stop_fd)
        self.frontend.close()
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
