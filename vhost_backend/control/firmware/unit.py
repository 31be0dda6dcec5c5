"""One VM's firmware: which image is in which slot, and what each element runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from vhost_backend.control.firmware.elements import (
    SLOTS,
    Element,
    Elements,
    FirmwareError,
    FirmwareReport,
    SlotState,
)
from virtio_proto.control import firmware

SELF_TEST_S: Final = 3.0
"""How long an image's self test may take on an element: it needs microseconds, if its thread is scheduled."""
DIED_OF: Final = 256
"""Added to a signal's number in the code of an image that died."""


def what_failed(code: int) -> str:
    """What an element's code for going back means."""
    if code < DIED_OF:
        return f"failed its self test with code {code}"
    try:
        name = signal.Signals(code - DIED_OF).name
    except ValueError:
        name = f"signal {code - DIED_OF}"
    return f"died of {name}"


@dataclass(frozen=True, slots=True)
class Activation:
    """How changing some elements to a slot went."""

    changed: tuple[int, ...]
    refused: tuple[int, ...]
    """Tried, and went back by themselves."""
    silent: tuple[int, ...]
    """Came to no poll point in time: their switch was taken back."""
    hung: tuple[int, ...] = ()
    """Began the image's self test, and did not come back from it."""

    @property
    def failed(self) -> tuple[int, ...]:
        """All that do not run what they should."""
        return (*self.refused, *self.silent, *self.hung)


@dataclass(frozen=True, slots=True)
class _Change:
    """An element on its way to another slot."""

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
    """The elements of one VM while one worker lives."""

    def __init__(self, elements: Elements, built_in: str) -> None:
        self.elements = elements
        self.versions: list[str | None] = [built_in, None]
        """By slot."""
        self.proven = {built_in}
        """Versions that have run here."""
        self.pes = [Element(slot=0) for _ in range(elements.num_pes)]
        self._changing: dict[int, _Change] = {}

    def spare_slot(self) -> int:
        """The slot that no element runs.

        :raise FirmwareError: both are run.
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
        """Where a version is.

        :raise FirmwareError: nowhere.
        """
        if version not in self.versions:
            there = ", ".join(version for version in self.versions if version is not None)
            raise FirmwareError(
                "unknown", f"{self.elements.vm} has no firmware {version}; allowed: {there}, or stage it first"
            )
        return self.versions.index(version)

    async def stage(self, slot: int, version: str, image_fd: int) -> None:
        """Puts an image into a slot that no element runs.

        :raise FirmwareError: it does not go in.
        """
        await self.elements.stage_firmware(slot, firmware.version_number(version), image_fd)
        self.versions[slot] = version

    async def activate(self, slot: int, pes: Collection[int], within_s: float) -> Activation:
        """Changes elements to a slot and waits for what they report.

        An element that comes to no poll point within `within_s` is told to stay. One that has has `SELF_TEST_S` more
        to come back from the image's self test.

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
        """For elements to change; those that have not begun to, and those that have begun and do not come to an end."""
        changes = {pe: self._changing[pe] for pe in wanted}
        if changes:
            await asyncio.wait([change.begun for change in changes.values()], timeout=within_s)
        testing = [change.over for change in changes.values() if change.begun.done()]
        if testing:
            await asyncio.wait(testing, timeout=SELF_TEST_S)
        left = {pe: change.begun.done() for pe, change in changes.items() if not change.over.done()}
        return tuple(pe for pe, begun in left.items() if not begun), tuple(pe for pe, begun in left.items() if begun)

    async def _stay(self, silent: Iterable[int]) -> None:
        """Takes a switch back that has not happened; an element that makes it meanwhile says so, and is believed."""
        for slot in range(SLOTS):
            staying = [pe for pe in silent if self.pes[pe].slot == slot]
            for pe in staying:
                self.pes[pe].text = "came to no poll point in time"
            if staying:
                await self.elements.activate_firmware(slot, staying)

    def lose(self) -> None:
        """The worker is gone: nobody will report any more."""
        for change in self._changing.values():
            change.cancel()

    def reported(self, report: FirmwareReport) -> str | None:
        """Takes note of what an element said; the version that it has gone back from by itself, if that is what it is.

        A worker is believed nothing but about its own elements.
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
        """The version that runs on all elements, or ``mixed``."""
        used = {element.slot for element in self.pes}
        return "mixed" if len(used) != 1 else str(self.versions[used.pop()])

    def table(self) -> list[dict[str, object]]:
        """A row per element, as the control API shows them."""
        names = {SlotState.STAGED: "staged", SlotState.ACTIVE: "active", SlotState.ROLLED_BACK: "rolled back"}
        about = {"vm": self.elements.vm, "gpu": self.elements.gpu}
        return [
            about
            | {
                "pe": pe,
                "active": self.versions[element.slot],
                "other": self.versions[1 - element.slot],
                "state": names[element.state],
                "text": element.text,
            }
            for pe, element in enumerate(self.pes)
        ]
