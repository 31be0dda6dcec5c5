"""Guest of the drill: computes without end, checks each result, resets its device when it is lost, and counts."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import guest_driver as vgc
from tests.drill.clock import now
from tests.fakes.attached import AttachedLink
from tests.fakes.guest import open_device

REGION_BYTES: Final = 16 << 20
_LAUNCHES: Final = 8
"""Launches of a program; then the sums are read and compared."""
_SOURCE: Final = """
extern "C" __global__ void add(int *sums, int what) {{ atomicAdd(&sums[threadIdx.x], what + {salt} - {salt}); }}
"""
_WIDTH: Final = 64
_BLOCKS: Final = 4
_RINGS: Final = 4
_ASKS_EACH_S: Final = 0.005


class Guest:
    """One VM's frontend, rings and program, in threads of this process. A context manager."""

    def __init__(self, name: str, folder: Path, salt: str) -> None:
        """`salt`: digits that no other guest has, so that its programs are really compiled."""
        self.name = name
        self.turn = threading.Lock()
        """Held during each request: its holder has the guest send nothing."""
        self.rounds = 0
        """Rounds of which all results were right."""
        self.lost: list[str] = []
        """Requests that ended with DEVICE_LOST, as their errors."""
        self.lost_at = 0.0
        """Time of the latest of them, on the drill's clock."""
        self.not_compiled: list[str] = []
        """Errors of programs that were not compiled."""
        self.wrong: list[str] = []
        """Errors that no fault explains."""
        self.spans: list[tuple[float, float]] = []
        """Start and end of each request that ended in success, on the drill's clock."""
        self.asked: list[tuple[float, float]] = []
        """Start and end of each message of its frontend that was answered."""
        self.has_array = False
        """True while it has its one array."""
        self.compile_anew = threading.Event()
        """Set: the next round compiles a program of its own."""
        self._salt = salt
        self._number = 0
        self._ends = threading.Event()
        self.link = AttachedLink(folder / name, region_bytes=REGION_BYTES, num_queues=_RINGS)
        try:
            self.link.wait_ready()
            self.device = open_device(self.link, folder / f"guest-{name}")
        except BaseException:
            self.link.close()
            raise
        self._threads = [threading.Thread(target=run, name=f"guest {name}") for run in (self._run, self._ask)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
        self.device.close()
        self.link.close()

    # ---- what it does ----------------------------------------------------------------------------

    def _run(self) -> None:
        add: vgc.Function | None = None
        while not self._ends.is_set():
            try:
                if add is None or self.compile_anew.is_set():
                    add = self._compile()
                self._round(add)
            except vgc.DeviceLost as error:
                self._lose(error)
                add = None
                self._reset()
            except vgc.CompileError as error:
                self.not_compiled.append(str(error))
            except Exception as error:  # noqa: BLE001  the drill tells
                self.wrong.append(repr(error))
                return
            finally:
                self.has_array = False

    def _lose(self, error: vgc.DeviceLost) -> None:
        self.lost_at = now()
        self.lost.append(str(error))

    def _reset(self) -> None:
        """Resets the device, until it stays: its worker may be lost again at once."""
        while not self._ends.is_set():
            try:
                with self.turn:
                    self.device.reset()
            except vgc.DeviceLost as error:
                self._lose(error)
            else:
                return

    def _compile(self) -> vgc.Function:
        self._number += 1
        with self.turn:
            start = now()
            self.compile_anew.clear()
            function = self.device.compile(_SOURCE.format(salt=f"{self._salt}{self._number}"))["add"]
        self.spans.append((start, now()))
        return function

    def _round(self, add: vgc.Function) -> None:
        with self.turn:
            sums = self.device.zeros(_WIDTH, "int32")
            self.has_array = True
        for number in range(_LAUNCHES):
            with self.turn:
                start = now()
                add[_BLOCKS, _WIDTH](sums, number + 1)
            self.spans.append((start, now()))
        with self.turn:
            found = set(sums.get().tolist())
            del sums
            self.has_array = False
        expected = _BLOCKS * sum(range(_LAUNCHES + 1))
        if found != {expected}:
            self.wrong.append(f"the sums are {sorted(found)}, and should be {expected}")
        self.rounds += 1

    def _ask(self) -> None:
        """Has the frontend read the configuration space again and again, as a guest's driver has QEMU do."""
        while not self._ends.wait(_ASKS_EACH_S):
            start = now()
            try:
                self.link.refresh()
            except Exception as error:  # noqa: BLE001  the drill tells
                self.wrong.append(f"a message of the frontend: {error!r}")
                return
            self.asked.append((start, now()))

    # ---- what is looked at -----------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Number of the worker that serves it."""
        return self.device.info().generation

    @property
    def indices(self) -> list[tuple[int, int]]:
        """Numbers of chains that the guest has given to each ring, and got back from it, modulo 2^16."""
        memory = self.link.region.memory
        return [
            (struct.unpack_from("<H", memory, ring.avail + 2)[0], struct.unpack_from("<H", memory, ring.used + 2)[0])
            for ring in self.link.rings
        ]

    @property
    def completed(self) -> int:
        """Chains that the guest has got back, modulo 2^16."""
        return sum(back for _, back in self.indices) % (1 << 16)
