"""Fake VM: region, driver and frontend together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.fakes.driver import FakeDriver
from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.region import Region

REGION_BYTES: Final = 16 << 20


class FakeVm:
    """A driver whose queues a backend serves. Owns region, driver and frontend."""

    def __init__(
        self,
        socket_path: Path,
        *,
        num_queues: int = 1,
        region_bytes: int = REGION_BYTES,
        others: Sequence[SharedFile] = (),
        at_once: bool = False,
    ) -> None:
        """Connects, negotiates and starts the queues; does not wait until the device is ready.

        `others`: further memory that the frontend shares; `at_once`: in one table.
        """
        self.region = Region(region_bytes)
        self.driver = FakeDriver(self.region, num_queues=num_queues)
        self.frontend = FakeFrontend.connect(socket_path, num_queues)
        self.file = SharedFile(self.region.fd, self.region.size, self.region.gpa, self.region.uva)
        self.frontend.negotiate()
        files = [*others, self.file]
        if at_once:
            self.frontend.set_memory(files)
        self.frontend.start(self.rings(), () if at_once else files)

    def rings(self, bases: list[int] | None = None) -> list[RingSetup]:
        """The driver's queues as the frontend describes them; `bases` are the indices at which they go on."""
        uva = self.region.uva
        return [
            RingSetup(
                index,
                queue.at.num,
                uva + queue.at.desc,
                uva + queue.at.avail,
                uva + queue.at.used,
                queue.kick_fd,
                queue.call_fd,
                bases[index] if bases else 0,
            )
            for index, queue in enumerate(self.driver.queues)
        ]

    def close(self) -> None:
        self.frontend.close()
        self.driver.close()
        self.region.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
