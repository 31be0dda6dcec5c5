"""Firmware of one VM: the images in the slots, and the slot that each processing element runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from vhost_backend.control.firmware.records import MAX_TEXTS, UnitRecord
from vhost_backend.control.links.firmware import (
    SLOTS,
    Element,
    Elements,
    FirmwareError,
    FirmwareFound,
    FirmwareReport,
    SlotState,
)
from virtio_proto.control import firmware
from virtio_proto.control.api import FirmwareState, PeFirmware

SELF_TEST_S: Final = 3.0
"""Time that an image's self test may take on a processing element; it needs microseconds once its thread is scheduled."""
DIED_OF: Final = 256
"""Offset of signal numbers in the codes of images that died of a signal."""
_STATES: Final[Mapping[SlotState, FirmwareState]] = {
    SlotState.STAGED: "staged",
    SlotState.ACTIVE: "active",
    SlotState.ROLLED_BACK: "rolled back",
}


def what_failed(code: int) -> str:
    """Describes the code with which a processing element rolled back."""
    if code < DIED_OF:
        return f"failed its self test with code {code}"
    try:
        name = signal.Signals(code - DIED_OF).name
    except ValueError:
        name = f"signal {code - DIED_OF}"
    return f"died of {name}"


@dataclass(frozen=True, slots=True)
class Activation:
    """Outcome of changing processing elements to a slot."""

    changed: tuple[int, ...]
    refused: tuple[int, ...]
    """Processing elements that tried the image and rolled back by themselves."""
    silent: tuple[int, ...]
    """Processing elements that came to no poll point in time, so that their change was cancelled."""
    hung: tuple[int, ...] = ()
    """Processing elements whose self test of the image did not return."""
    died: bool = False
    """True if the worker died meanwhile: all its elements count as refused."""

    @property
    def failed(self) -> tuple[int, ...]:
        """Processing elements that do not run the image."""
        return (*self.refused, *self.silent, *self.hung)


@dataclass(frozen=True, slots=True)
class _Change:
    """Change of a processing element to another slot, under way."""

    begun: asyncio.Future[None]
    over: asyncio.Future[FirmwareReport]

    def note(self, report: FirmwareReport) -> None:
        if not self.begun.done():
            self.begun.set_result(None)
        if report.state != SlotState.STAGED and not self.over.done():
            self.over.set_result(report)

    def cancel(self) -> None:
        self.begun.cancel()
        self.over.cancel()


class Unit:
    """Processing elements of a VM during one worker's life."""

    def __init__(self, elements: Elements, built_in: str) -> None:
        self.elements = elements
        self.versions: list[str | None] = [built_in, None]
        """Versions by slot."""
        self.proven = {built_in}
        """Versions that have run on this VM."""
        self.left: set[str] = set()
        """Versions that the worker has gone back from by itself, and that were not activated again since."""
        self.pes = [Element(slot=0) for _ in range(elements.num_pes)]
        self._changing: dict[int, _Change] = {}

    # ---- for another daemon ----------------------------------------------------------------------

    def record(self, generation: int) -> UnitRecord:
        """Firmware of the worker with this generation, for another daemon."""
        texts = ((pe, element.text) for pe, element in enumerate(self.pes) if element.text)
        return UnitRecord(
            generation,
            tuple(self.versions),
            tuple(sorted(self.proven)),
            tuple(sorted(self.left)),
            bytes(element.slot | element.state << 1 for element in self.pes),
            dict(islice(texts, MAX_TEXTS)),
        )

    def restore(self, record: UnitRecord) -> None:
        """Goes on where another daemon's unit was; `correct` brings what has changed since."""
        self.versions = list(record.versions)
        self.proven, self.left = set(record.proven), set(record.left)
        for pe, (element, known) in enumerate(zip(self.pes, record.elements, strict=False)):
            element.slot, element.state = known & 1, SlotState(known >> 1)
            element.text = record.texts.get(pe, "")

    def correct(self, found: FirmwareFound) -> set[str]:
        """Notes the firmware that the worker has; returns versions from which elements have gone back unnoticed."""
        self.versions = list(found.versions)
        gone = set()
        for element, now in zip(self.pes, found.elements, strict=False):
            state = now.state or SlotState.ACTIVE
            if (element.slot, element.state) == (now.slot, state):
                continue
            element.slot, element.state, element.text = now.slot, state, ""
            if state == SlotState.ROLLED_BACK:
                version = str(self.versions[1 - now.slot])
                element.text = f"{version} {what_failed(now.code)}"
                gone.add(version)
            elif state == SlotState.ACTIVE:
                self.proven.add(str(self.versions[now.slot]))
        return gone

    # ----------------------------------------------------------------------------------------------

    def spare_slot(self) -> int:
        """Slot that no processing element runs.

        :raise FirmwareError: both slots are run.
        """
        used = {element.slot for element in self.pes}
        if len(used) == SLOTS:
            raise FirmwareError(
                "busy",
                f"elements of {self.elements.vm} run {self.versions[0]} and {self.versions[1]}; "
                "allowed: staging when one version runs on all of them: activate or roll back the rest first",
            )
        return 1 - used.pop()

    def slot_of(self, version: str) -> int:
        """Slot of a version.

        :raise FirmwareError: the version is in no slot.
        """
        if version not in self.versions:
            there = ", ".join(version for version in self.versions if version is not None)
            raise FirmwareError(
                "unknown", f"{self.elements.vm} has no firmware {version}; allowed: {there}, or stage it first"
            )
        return self.versions.index(version)

    async def stage(self, slot: int, version: str, image_fd: int) -> None:
        """Loads an image into a slot that no processing element runs.

        :raise FirmwareError: the worker refused the image, or is lost.
        """
        await self.elements.stage_firmware(slot, firmware.version_number(version), image_fd)
        self.versions[slot] = version

    async def activate(self, slot: int, pes: Collection[int], within_s: float) -> Activation:
        """Changes processing elements to a slot and waits for their reports.

        A processing element that comes to no poll point within `within_s` is told to stay on its slot. After that,
        self tests that have begun get `SELF_TEST_S` to return.

        :raise FirmwareError: the worker refused, is lost, or the elements are changing already.
        """
        if busy := sorted(set(pes) & self._changing.keys()):
            raise FirmwareError("busy", f"elements {busy[:8]} of {self.elements.vm} are changing already; try again")
        wanted = [pe for pe in pes if self.pes[pe].slot != slot]
        loop = asyncio.get_running_loop()
        self._changing |= {pe: _Change(loop.create_future(), loop.create_future()) for pe in wanted}
        try:
            await self.elements.activate_firmware(slot, wanted)
            silent, hung = await self._wait(wanted, within_s)
            for pe in hung:
                self.pes[pe].text = f"{self.versions[slot]} does not come back from its self test"
            await self._stay(silent)
        finally:
            for pe in wanted:
                del self._changing[pe]
        changed = tuple(pe for pe in pes if self.pes[pe].slot == slot)
        refused = tuple(pe for pe in wanted if pe not in (*changed, *silent, *hung))
        return Activation(changed, refused, tuple(pe for pe in silent if pe not in changed), hung)

    async def _wait(self, wanted: Sequence[int], within_s: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Waits for changes; returns the processing elements that did not begin, and those that did not finish."""
        changes = {pe: self._changing[pe] for pe in wanted}
        if changes:
            await asyncio.wait([change.begun for change in changes.values()], timeout=within_s)
        testing = [change.over for change in changes.values() if change.begun.done()]
        if testing:
            await asyncio.wait(testing, timeout=SELF_TEST_S)
        left = {pe: change.begun.done() for pe, change in changes.items() if not change.over.done()}
        return tuple(pe for pe, begun in left.items() if not begun), tuple(pe for pe, begun in left.items() if begun)

    async def _stay(self, silent: Iterable[int]) -> None:
        """Cancels changes that have not begun. A processing element that changes meanwhile reports so, which counts."""
        for slot in range(SLOTS):
            staying = [pe for pe in silent if self.pes[pe].slot == slot]
            for pe in staying:
                self.pes[pe].text = "came to no poll point in time"
            if staying:
                await self.elements.activate_firmware(slot, staying)

    def lose(self) -> None:
        """Cancels all waits for reports: the worker is gone."""
        for change in self._changing.values():
            change.cancel()

    def reported(self, report: FirmwareReport) -> str | None:
        """Notes a report; returns the version if a processing element has rolled back from it without a command.

        Reports about processing elements or slots that do not exist are ignored: the worker may be hostile.
        """
        if not (0 <= report.pe < len(self.pes) and 0 <= report.slot < SLOTS):
            return None
        element = self.pes[report.pe]
        element.state = report.state
        match report.state:
            case SlotState.ACTIVE:
                element.slot, element.text = report.slot, ""
                self.proven.add(str(self.versions[report.slot]))
            case SlotState.ROLLED_BACK:
                element.slot = 1 - report.slot
                element.text = f"{self.versions[report.slot]} {what_failed(report.code)}"
        change = self._changing.get(report.pe)
        if change is None:
            return self.versions[report.slot] if report.state == SlotState.ROLLED_BACK else None
        change.note(report)
        return None

    def active(self) -> str:
        """Version that runs on all processing elements, or ``mixed``."""
        used = {element.slot for element in self.pes}
        return "mixed" if len(used) != 1 else str(self.versions[used.pop()])

    def table(self) -> list[PeFirmware]:
        """Rows for the control API, one for each processing element."""
        return [
            {
                "vm": self.elements.vm,
                "gpu": self.elements.gpu,
                "pe": pe,
                "active": self.versions[element.slot] or "",
                "other": self.versions[1 - element.slot],
                "state": _STATES[element.state],
                "text": element.text,
            }
            for pe, element in enumerate(self.pes)
        ]
