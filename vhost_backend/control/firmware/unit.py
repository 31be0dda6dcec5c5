"""One VM's firmware: which image is in which slot, and what each element runs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from vhost_backend.control.firmware.elements import (
    SLOTS,
    Element,
    Elements,
    FirmwareError,
    FirmwareReport,
    SlotState,
)
from virtio_proto.control import firmware


@dataclass(frozen=True, slots=True)
class Activation:
    """How changing some elements to a slot went."""

    changed: tuple[int, ...]
    refused: tuple[int, ...]
    """Tried, and went back by themselves."""
    silent: tuple[int, ...]
    """Came to no poll point in time: their switch was taken back."""


class Unit:
    """The elements of one VM while one worker lives."""

    def __init__(self, elements: Elements, built_in: str) -> None:
        self.elements = elements
        self.versions: list[str | None] = [built_in, None]
        """By slot."""
        self.pes = [Element(slot=0) for _ in range(elements.num_pes)]
        self._waiting: dict[int, asyncio.Future[FirmwareReport]] = {}

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
        """Changes elements to a slot and waits for what they report, at most `within_s`.

        An element that comes to no poll point in time is told to stay.

        :raise FirmwareError: the worker refused, is lost, or the elements are changing already.
        """
        if busy := sorted(set(pes) & self._waiting.keys()):
            raise FirmwareError("busy", f"elements {busy[:8]} of {self.elements.vm} are changing already; try again")
        wanted = [pe for pe in pes if self.pes[pe].slot != slot]
        answers = {pe: asyncio.get_running_loop().create_future() for pe in wanted}
        self._waiting |= answers
        try:
            await self.elements.activate_firmware(slot, wanted)
            if answers:
                await asyncio.wait(answers.values(), timeout=within_s)
            silent = tuple(pe for pe, answer in answers.items() if not answer.done())
            if silent:
                await self._stay(silent)
        finally:
            for pe in answers:
                del self._waiting[pe]
        changed = tuple(pe for pe in pes if self.pes[pe].slot == slot)
        refused = tuple(pe for pe in wanted if pe not in changed and pe not in silent)
        return Activation(changed, refused, tuple(pe for pe in silent if pe not in changed))

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
        for answer in self._waiting.values():
            if not answer.done():
                answer.cancel()

    def reported(self, report: FirmwareReport) -> None:
        """Takes note of what an element said. A worker is believed nothing but about its own elements."""
        if not (0 <= report.pe < len(self.pes) and 0 <= report.slot < SLOTS):
            return
        element = self.pes[report.pe]
        element.state = report.state
        match report.state:
            case SlotState.ACTIVE:
                element.slot, element.text = report.slot, ""
            case SlotState.ROLLED_BACK:
                element.slot = 1 - report.slot
                element.text = f"{self.versions[report.slot]} failed its self test with code {report.code}"
        answer = self._waiting.get(report.pe)
        if answer is not None and not answer.done() and report.state != SlotState.STAGED:
            answer.set_result(report)

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
