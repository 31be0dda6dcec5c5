"""Firmware management: staging, changing a few elements first, rolling back failed changes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.fakes.keeper import FakeKeeper
from tests.fakes.strict_event_bus import StrictEventBus
from tests.limits import ANSWERS_WITHIN_S
from vhost_backend.compiler.job import Target
from vhost_backend.compiler.service import CompileResult
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import FirmwareChanged, FirmwareReported, FirmwareTold, WorkerLost, WorkerReady
from vhost_backend.control.firmware import build, manager, signing, unit
from vhost_backend.control.firmware.manager import MAX_IMAGES, SOON_S, FirmwareManager
from vhost_backend.control.links.channel_port import Loss
from vhost_backend.control.links.firmware import ElementFound, FirmwareError, FirmwareFound, FirmwareReport, SlotState
from vhost_backend.log import get_logger
from vhost_backend.sandbox import memfd
from virtio_proto.control.firmware import Manifest
from virtio_proto.schema import ProgramKind

KEY = Ed25519PrivateKey.generate()
KEYS = {signing.key_id(KEY.public_key()): KEY.public_key()}
BUILT_IN = build.built_in()


def image(version: str = "2.0.0", source: str = "good", abi: int | None = None) -> bytes:
    made = Manifest(version, build.abi() if abi is None else abi, "test", 0, next(iter(KEYS)))
    return signing.sign(made, source, KEY)


class FakeCompiler:
    """Compiles everything but sources with ``error`` in them."""

    def submit(
        self, vm: str, kind: ProgramKind, source_fd: int, options: tuple[str, ...], target: Target
    ) -> asyncio.Future[CompileResult]:
        source = memfd.read(source_fd, 1 << 20)
        os.close(source_fd)
        assert (vm, kind, options) == ("control system", ProgramKind.CUDA_SOURCE, ())
        ok = b"error" not in source
        fd = memfd.sealed("image", target.engine.encode() + b":" + source) if ok else None
        done: asyncio.Future[CompileResult] = asyncio.get_running_loop().create_future()
        done.set_result(CompileResult(ok, fd, "" if ok else "firmware.cu:1: error", False, 0.0))
        return done

    async def close(self) -> None:
        pass


class SlowCompiler(FakeCompiler):
    """Finishes compiling when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._results: list[tuple[asyncio.Future[CompileResult], CompileResult]] = []

    def submit(
        self, vm: str, kind: ProgramKind, source_fd: int, options: tuple[str, ...], target: Target
    ) -> asyncio.Future[CompileResult]:
        waiting: asyncio.Future[CompileResult] = asyncio.get_running_loop().create_future()
        self._results.append((waiting, super().submit(vm, kind, source_fd, options, target).result()))
        self.asked.set()
        return waiting

    def finish(self) -> None:
        for waiting, result in self._results:
            waiting.set_result(result)


@dataclass
class FakeElements:
    """Elements that report at once what the test set."""

    vm: str
    bus: EventBus
    num_pes: int = 4
    gpu: str = "cpu"
    target: Target = field(default_factory=lambda: Target("cpu"))
    failing: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    dies_when_activated: bool = False
    loaded: dict[int, bytes] = field(default_factory=dict)
    hanging: set[int] = field(default_factory=set)
    asked: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)

    async def stage_firmware(self, slot: int, version: int, image_fd: int) -> None:
        self.loaded[slot] = memfd.read(image_fd, 1000)
        assert version >> 32 >= 2

    async def activate_firmware(self, slot: int, pes: Collection[int]) -> None:
        self.asked.append((slot, tuple(pes)))
        if self.dies_when_activated:
            self.bus.publish(WorkerLost(self.vm, 1, Loss("killed")))
            return
        for pe in pes:
            if pe in self.silent:
                continue
            self.bus.publish(FirmwareReported(self.vm, FirmwareReport(pe, slot, 0, SlotState.STAGED, 0)))
            if pe in self.hanging:
                continue
            bad = slot == 1 and pe in self.failing
            state = SlotState.ROLLED_BACK if bad else SlotState.ACTIVE
            self.bus.publish(FirmwareReported(self.vm, FirmwareReport(pe, slot, 0, state, 7 if bad else 0)))

    async def replace_worker(self, reason: str) -> None:
        self.replaced.append(reason)
        self.bus.publish(WorkerLost(self.vm, 1, Loss(reason)))


class Rig:
    """A manager, a clock that is moved by hand, and the changes that it published."""

    def __init__(self, keeper: FakeKeeper | None = None, keys: signing.Keys = KEYS) -> None:
        self.keeper = keeper or FakeKeeper()
        self.now_s = 1000.0
        self.told: list[FirmwareChanged] = []
        self.elements: dict[str, FakeElements] = {}
        self._news = asyncio.Event()
        self._tasks = BackgroundTasks(get_logger())
        self.bus = StrictEventBus(get_logger())
        self.bus.subscribe(FirmwareChanged, self._changed)
        self.manager = FirmwareManager(
            keys,
            FakeCompiler(),
            self.bus,
            self._tasks,
            elements_of=self.elements.__getitem__,
            clock_ns=lambda: int(self.now_s * 1e9),
            shelf=self.keeper.shelf("firmware"),
        )

    def _changed(self, event: FirmwareChanged) -> None:
        self.told.append(event)
        self._news.set()

    async def until(self, vm: str, detail: dict[str, Any]) -> None:
        """Waits until the manager has published a change with these fields."""
        while FirmwareChanged(vm, detail) not in self.told:
            self._news.clear()
            await self._news.wait()

    async def add(self, vm: str, generation: int = 1, **options: Any) -> FakeElements:
        """Gives a VM a worker, and waits until the manager has its elements."""
        elements = self.elements[vm] = FakeElements(vm, self.bus, **options)
        self.bus.publish(WorkerReady(vm, generation, elements.num_pes))
        await asyncio.gather(*self._tasks._tasks)
        return elements

    async def take_over(self, keys: signing.Keys = KEYS, **found: FirmwareFound | None) -> Rig:
        """Manager of the next daemon, to which the workers of VMs tell their firmware; None: what this one has of it."""
        after = Rig(self.keeper, keys)
        after.now_s = self.now_s
        for vm, told in found.items():
            rows = self.manager._units[vm]
            states = tuple(ElementFound(one.slot, one.state, 0) for one in rows.pes)
            after.bus.publish(FirmwareTold(vm, told or FirmwareFound(tuple(rows.versions), states)))
            elements = after.elements[vm] = self.elements[vm]
            elements.bus = after.bus
            after.bus.publish(WorkerReady(vm, 1, elements.num_pes))
        await after.settle()
        return after

    async def settle(self) -> None:
        while self._tasks._tasks:
            await asyncio.gather(*self._tasks._tasks)

    def lose(self, vm: str, *, died: bool = True) -> None:
        self.bus.publish(WorkerLost(vm, 1, Loss("killed", died=died)))

    def report(self, vm: str, report: FirmwareReport) -> None:
        self.bus.publish(FirmwareReported(vm, report))

    def active(self, vm: str = "web1") -> list[str]:
        return [row["active"] for row in self.manager.info()["pes"] if row["vm"] == vm]


def run(test: Callable[[Rig], Awaitable[None]]) -> None:
    async def inside() -> None:
        await test(Rig())

    asyncio.run(inside())


def test_elements_begin_with_the_built_in_firmware() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1", num_pes=2)
        assert rig.active() == [BUILT_IN] * 2
        assert rig.manager.active("web1") == BUILT_IN
        assert rig.manager.active("web2") == ""

    run(test)


def test_staged_image_is_compiled_for_each_engine_and_changes_nothing_yet() -> None:
    async def test(rig: Rig) -> None:
        soft, hard = await rig.add("web1"), await rig.add("web2", target=Target("cuda", (("arch", "sm_90"),)))
        data = image()
        assert await rig.manager.stage(data, ["web1", "web2"]) == {"version": "2.0.0", "vms": ["web1", "web2"]}
        assert (soft.loaded, hard.loaded) == ({1: b"cpu:good"}, {1: b"cuda:good"})
        assert rig.active() == [BUILT_IN] * 4
        (shown,) = rig.manager.info()["images"]
        assert (shown["version"], shown["engine"], shown["key"]) == ("2.0.0", "cpu|cuda", next(iter(KEYS)))
        assert shown["sha256"] == hashlib.sha256(data).hexdigest()

    run(test)


def test_one_element_goes_first_and_the_others_follow() -> None:
    async def test(rig: Rig) -> None:
        elements = await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        result = await rig.manager.activate("2.0.0", {"web1": [0, 1, 3]})
        assert result["state"] == "active"
        assert elements.asked == [(1, (0,)), (1, (1, 3))]
        assert rig.active() == ["2.0.0", "2.0.0", BUILT_IN, "2.0.0"]
        assert rig.manager.active("web1") == "mixed"

    run(test)


def test_failed_self_test_of_the_first_element_spares_the_others() -> None:
    async def test(rig: Rig) -> None:
        elements = await rig.add("web1", failing={0})
        await rig.manager.stage(image(), ["web1"])
        result = await rig.manager.activate("2.0.0", {"web1": range(4)})
        assert result["state"] == "rolled back"
        assert result["problems"] == [
            {"vm": "web1", "pe": 0, "text": "2.0.0 failed its self test with code 7"},
        ]
        assert all(slot == 0 or pes == (0,) for slot, pes in elements.asked)
        assert rig.active() == [BUILT_IN] * 4

    run(test)


def test_failed_self_test_of_one_element_rolls_its_vm_back_and_no_other() -> None:
    """A guest could forge it, and is to have no say in the firmware of others."""

    async def test(rig: Rig) -> None:
        await rig.add("web1", failing={2})
        await rig.add("web2")
        await rig.manager.stage(image(), ["web1", "web2"])
        result = await rig.manager.activate("2.0.0", {"web1": range(4), "web2": range(4)})
        assert result["state"] == "rolled back"
        assert [(row["vm"], row["pe"]) for row in result["problems"]] == [("web1", 2)]
        assert (rig.active("web1"), rig.active("web2")) == ([BUILT_IN] * 4, ["2.0.0"] * 4)

    run(test)


def test_element_without_poll_point_is_named_and_told_to_stay() -> None:
    async def test(rig: Rig) -> None:
        elements = await rig.add("web1", silent={1})
        await rig.manager.stage(image(), ["web1"])
        result = await rig.manager.activate("2.0.0", {"web1": range(4)}, within_s=0.01)
        assert result["problems"] == [{"vm": "web1", "pe": 1, "text": "came to no poll point in time"}]
        assert (0, (1,)) in elements.asked
        assert rig.active() == [BUILT_IN] * 4

    run(test)


def test_self_test_that_never_ends_has_the_worker_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit, "SELF_TEST_S", 0.01)

    async def test(rig: Rig) -> None:
        hanging, other = await rig.add("web1", hanging={0}), await rig.add("web2")
        await rig.manager.stage(image(), ["web1", "web2"])
        result = await rig.manager.activate("2.0.0", {"web1": range(4), "web2": range(4)})
        why = "2.0.0 does not come back from its self test"
        assert result["problems"] == [{"vm": "web1", "pe": 0, "text": why}]
        assert hanging.replaced == [f"firmware 2.0.0: element 0: {why}"]
        assert (other.replaced, rig.active("web2")) == ([], ["2.0.0"] * 4)
        await rig.add("web1")
        assert rig.active("web1") == [BUILT_IN] * 4
        await rig.manager.stage(image(), ["web1"])
        assert (await rig.manager.activate("2.0.0", {"web1": range(4)}))["state"] == "active"

    run(test)


def test_image_that_dies_in_a_hook_leaves_the_worker_and_is_tried_by_the_next() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.add("web2")
        await rig.manager.stage(image(), ["web1", "web2"])
        await rig.manager.activate("2.0.0", {"web1": range(4), "web2": range(4)})
        rig.report("web1", FirmwareReport(2, 1, 0, SlotState.ROLLED_BACK, 256 + signal.SIGSEGV))
        problem = {"version": "2.0.0", "problem": "element 2: 2.0.0 died of SIGSEGV"}
        await rig.until("web1", problem)
        await rig.until("web1", {"version": "2.0.0", "state": "rolled back", "active": BUILT_IN})
        assert rig.active("web1") == [BUILT_IN] * 4
        assert rig.active("web2") == ["2.0.0"] * 4
        rig.lose("web1", died=False)
        await rig.add("web1")
        assert rig.active("web1") == ["2.0.0"] * 4

    run(test)


def test_forged_reports_bar_no_image() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        for _ in range(3):
            assert (await rig.manager.activate("2.0.0", {"web1": range(4)}))["state"] == "active"
            rig.told.clear()
            rig.report("web1", FirmwareReport(2, 1, 0, SlotState.ROLLED_BACK, 256 + signal.SIGSEGV))
            await rig.until("web1", {"version": "2.0.0", "state": "rolled back", "active": BUILT_IN})

    run(test)


def test_endless_reports_of_a_worker_are_handled_once() -> None:
    async def test(rig: Rig) -> None:
        elements = await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": (0, 1, 2, 3)})
        rig.told.clear()
        elements.asked.clear()
        for pe in [0, 1, 2, 3] * 250:
            rig.report("web1", FirmwareReport(pe, 1, 0, SlotState.ROLLED_BACK, 256 + signal.SIGSEGV))
        await rig.until("web1", {"version": "2.0.0", "state": "rolled back", "active": BUILT_IN})
        assert len(rig.told) == 2
        assert len(elements.asked) <= 1

    run(test)


def test_failed_change_does_not_alter_the_next_workers_firmware() -> None:
    async def test(rig: Rig) -> None:
        elements = await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        await rig.manager.stage(image("3.0.0", "three"), ["web1"])
        elements.silent = {0}
        assert (await rig.manager.activate("3.0.0", {"web1": range(4)}, within_s=0.01))["state"] == "rolled back"
        rig.lose("web1", died=False)
        await rig.add("web1")
        assert rig.active("web1") == ["2.0.0"] * 4

    run(test)


def test_rollback_goes_to_the_other_slot_and_back_again() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        assert (await rig.manager.roll_back({"web1": range(4)}))["versions"] == {"web1": BUILT_IN}
        assert rig.active() == [BUILT_IN] * 4
        await rig.manager.roll_back({"web1": range(4)})
        assert rig.active() == ["2.0.0"] * 4

    run(test)


def test_rollback_does_not_activate_a_staged_image() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        with pytest.raises(FirmwareError, match=r"web1 never ran 2\.0\.0; allowed: activate it"):
            await rig.manager.roll_back({"web1": range(4)})
        assert rig.active() == [BUILT_IN] * 4

    run(test)


def test_vm_whose_worker_does_not_answer_delays_no_other() -> None:
    async def test(rig: Rig) -> None:
        stuck, _ = await rig.add("web1"), await rig.add("web2")
        asked = asyncio.Event()

        async def never(*_: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        stuck.stage_firmware = never  # type: ignore[method-assign,assignment]
        waiting = asyncio.create_task(rig.manager.stage(image(), ["web1"]))
        await asked.wait()
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            await rig.manager.stage(image(), ["web2"])
            assert (await rig.manager.activate("2.0.0", {"web2": range(4)}))["state"] == "active"
        waiting.cancel()

    run(test)


def test_rollback_without_another_version_is_refused() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        with pytest.raises(FirmwareError, match="without another version"):
            await rig.manager.roll_back({"web1": range(4)})

    run(test)


def test_third_version_waits_until_one_runs_everywhere() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": [0]})
        with pytest.raises(FirmwareError, match=r"run .* and .*activate or roll back the rest first") as refused:
            await rig.manager.stage(image("3.0.0"), ["web1"])
        assert refused.value.kind == "busy"

    run(test)


def test_new_worker_gets_the_old_ones_firmware() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        rig.now_s += SOON_S + 1
        rig.lose("web1")
        assert rig.manager.active("web1") == ""
        await rig.add("web1", num_pes=8)
        assert rig.active() == ["2.0.0"] * 8

    run(test)


def test_replacement_of_a_worker_condemns_no_image() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        rig.lose("web1", died=False)
        await rig.add("web1")
        assert rig.active() == ["2.0.0"] * 4

    run(test)


def test_image_that_was_compiled_for_one_worker_does_not_reach_the_next() -> None:
    async def test(rig: Rig) -> None:
        first = await rig.add("web1")
        compiler = SlowCompiler()
        rig.manager._compiler = compiler
        staging = asyncio.create_task(rig.manager.stage(image(), ["web1"]))
        await compiler.asked.wait()
        rig.lose("web1")
        second = await rig.add("web1")
        compiler.finish()
        with pytest.raises(FirmwareError, match="has lost its worker meanwhile") as refused:
            await staging
        assert (refused.value.kind, first.loaded, second.loaded) == ("busy", {}, {})

    run(test)


def test_death_of_a_worker_soon_after_a_change_is_told_and_takes_nothing_back() -> None:
    """A guest could die at that moment in every worker."""

    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        for _ in range(3):
            rig.told.clear()
            rig.lose("web1")
            (told,) = rig.told
            assert "the worker died within 10 s of the change, which is not held against the image" in str(told.detail)
            await rig.add("web1")
            assert rig.active() == ["2.0.0"] * 4
        rig.told.clear()
        rig.now_s += SOON_S + 1
        rig.lose("web1")
        assert rig.told == []

    run(test)


def test_worker_that_dies_while_it_changes_is_a_problem_and_the_next_changes() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1", dies_when_activated=True)
        await rig.add("web2")
        await rig.manager.stage(image(), ["web1", "web2"])
        result = await rig.manager.activate("2.0.0", {"web1": range(4), "web2": range(4)})
        assert result["problems"] == [
            {"vm": "web1", "pe": 0, "text": "its worker died, and the next one takes the version"}
        ]
        await rig.add("web1")
        assert rig.active("web1") == rig.active("web2") == ["2.0.0"] * 4
        with pytest.raises(FirmwareError, match=r"allowed: 2\.0\.0 or newer"):
            await rig.manager.stage(image("1.9.9", "old"), ["web1"])

    run(test)


def test_vm_whose_workers_die_at_once_is_rolled_back_without_one() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1", dies_when_activated=True)
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        await rig.add("web1", dies_when_activated=True)
        assert rig.manager.active("web1") == "", "the next worker has died, too"
        assert (await rig.manager.roll_back({"web1": ()}))["problems"] == []
        await rig.add("web1", dies_when_activated=True)
        assert rig.active("web1") == [BUILT_IN] * 4
        rig.lose("web1")
        with pytest.raises(FirmwareError, match="web1 has no worker now"):
            await rig.manager.roll_back({"web1": ()})

    run(test)


def test_source_that_does_not_compile_is_shown_with_the_compilers_words() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        with pytest.raises(FirmwareError, match=r"does not compile for cpu: firmware\.cu:1: error"):
            await rig.manager.stage(image(source="error"), ["web1"])
        assert rig.manager.info()["images"] == []

    run(test)


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"nonsense", "malformed", "not a firmware image"),
        (image()[:-1] + bytes([image()[-1] ^ 1]), "denied", "signature is wrong"),
        (image(abi=99), "malformed", "abi 99; allowed:"),
        (image(BUILT_IN), "malformed", "allowed: a new version"),
    ],
)
def test_unacceptable_image_is_refused_with_the_reason(data: bytes, kind: str, said: str) -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        with pytest.raises(FirmwareError, match=said) as refused:
            await rig.manager.stage(data, ["web1"])
        assert refused.value.kind == kind

    run(test)


def test_two_images_cannot_have_the_same_version() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.stage(image(), ["web1"])
        with pytest.raises(FirmwareError, match=r"another image has version 2\.0\.0"):
            await rig.manager.stage(image(source="other"), ["web1"])

    run(test)


def test_image_older_than_the_vm_has_run_is_refused_unless_forced() -> None:
    async def test(rig: Rig) -> None:
        elements = await rig.add("web1")
        await rig.add("web2")
        await rig.manager.stage(image("2.1.0", "two"), ["web1"])
        await rig.manager.activate("2.1.0", {"web1": range(4)})
        await rig.manager.roll_back({"web1": range(4)})
        loaded = dict(elements.loaded)
        with pytest.raises(FirmwareError, match=r"web1 has run firmware 2\.1\.0, and 2\.0\.9 is older") as refused:
            await rig.manager.stage(image("2.0.9"), ["web2", "web1"])
        assert (refused.value.kind, elements.loaded) == ("denied", loaded)
        await rig.manager.stage(image("2.0.9"), ["web2"])  # it has run nothing newer
        await rig.manager.stage(image("2.0.9"), ["web1"], force=True)
        assert rig.told[-1].detail == {"staged": "2.0.9", "vms": ["web1"], "forced": True}
        assert (await rig.manager.activate("2.0.9", {"web1": range(4)}))["state"] == "active"

    run(test)


def test_floor_of_versions_outlasts_the_worker() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image("3.0.0", "three"), ["web1"])
        await rig.manager.activate("3.0.0", {"web1": range(4)})
        rig.now_s += SOON_S + 1
        rig.lose("web1")
        await rig.add("web1")
        with pytest.raises(FirmwareError, match=r"allowed: 3\.0\.0 or newer, or force"):
            await rig.manager.stage(image("2.0.0"), ["web1"])

    run(test)


def test_another_vm_of_the_name_inherits_no_firmware() -> None:
    async def test(rig: Rig) -> None:
        for vm in ("web1", "web2"):
            await rig.add(vm)
            await rig.manager.stage(image("3.0.0", "three"), [vm])
            await rig.manager.activate("3.0.0", {vm: range(4)})
            rig.lose(vm, died=False)
        rig.lose("web1")
        rig.manager.forget("web1")
        await rig.add("web1")
        await rig.add("web2")
        assert (rig.active("web1"), rig.active("web2")) == ([BUILT_IN] * 4, ["3.0.0"] * 4)
        await rig.manager.stage(image("2.0.0"), ["web1"])
        with pytest.raises(FirmwareError, match=r"web2 has run firmware 3\.0\.0"):
            await rig.manager.stage(image("2.0.0"), ["web2"])

    run(test)


def test_failed_change_raises_no_floor_and_a_later_failure_lowers_none() -> None:
    async def test(rig: Rig) -> None:
        elements = await rig.add("web1", failing={0})
        await rig.manager.stage(image("3.0.0", "three"), ["web1"])
        assert (await rig.manager.activate("3.0.0", {"web1": range(4)}))["state"] == "rolled back"
        await rig.manager.stage(image("2.0.0"), ["web1"])
        elements.failing.clear()
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        rig.lose("web1")
        await rig.add("web1")
        with pytest.raises(FirmwareError, match=r"allowed: 2\.0\.0 or newer, or force"):
            await rig.manager.stage(image("1.9.9", "old"), ["web1"])

    run(test)


def test_images_are_bounded() -> None:
    async def test(rig: Rig) -> None:
        for minor in range(MAX_IMAGES):
            await rig.manager.stage(image(f"2.{minor}.0"), [])
        await rig.add("web1")
        await rig.manager.stage(image("2.1.0"), ["web1"])
        await rig.manager.stage(image("3.0.0"), [])  # the oldest gives way
        await rig.manager.stage(image("3.1.0"), [])  # and the next that no VM has
        versions = [one["version"] for one in rig.manager.info()["images"]]
        assert versions == ["2.1.0", *(f"2.{minor}.0" for minor in range(3, MAX_IMAGES)), "3.0.0", "3.1.0"]

    run(test)


def test_images_that_vms_have_do_not_give_way() -> None:
    async def test(rig: Rig) -> None:
        for minor in range(MAX_IMAGES):
            await rig.add(f"vm{minor}")
            await rig.manager.stage(image(f"2.{minor}.0"), [f"vm{minor}"])
        with pytest.raises(FirmwareError, match="VMs have 16 images") as refused:
            await rig.manager.stage(image("3.0.0"), [])
        assert refused.value.kind == "quota"

    run(test)


# ---- another daemon ------------------------------------------------------------------------------


def test_next_daemon_has_the_firmware_of_running_workers() -> None:
    """Images, slots, failed changes with their reasons, and what can be rolled back to."""

    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.add("web2", failing={0})
        await rig.manager.stage(image(), ["web1", "web2"])
        await rig.manager.activate("2.0.0", {"web1": range(4), "web2": range(4)})
        after = await rig.take_over(web1=None, web2=None)
        assert after.manager.info() == rig.manager.info()
        assert "failed its self test with code 7" in str(after.manager.info())
        assert after.elements["web1"].loaded.keys() == {1}
        done = await after.manager.roll_back({"web1": range(4)})
        assert (done["state"], after.active()) == ("active", [BUILT_IN] * 4)
        third = await after.take_over(web1=None)
        assert (await third.manager.roll_back({"web1": range(4)}))["versions"] == {"web1": "2.0.0"}

    run(test)


def test_new_worker_of_the_next_daemon_gets_the_version_that_stands() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        after = await rig.take_over(web1=None)
        after.lose("web1")
        await after.add("web1", generation=2)
        assert after.active() == ["2.0.0"] * 4
        without = Rig(rig.keeper)  # the worker has died while there was no daemon
        await without.add("web1", generation=3)
        assert without.active() == ["2.0.0"] * 4
        with pytest.raises(FirmwareError, match=r"allowed: 2\.0\.0 or newer, or force"):
            await without.manager.stage(image("1.9.9", "old"), ["web1"])

    run(test)


def test_what_has_come_of_a_change_meanwhile_counts() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        states = [ElementFound(1, SlotState.ACTIVE, 0), *[ElementFound(0, None, 0)] * 3]
        after = await rig.take_over(web1=FirmwareFound((BUILT_IN, "2.0.0"), tuple(states)))
        assert after.active() == ["2.0.0", BUILT_IN, BUILT_IN, BUILT_IN]
        assert (await after.manager.activate("2.0.0", {"web1": range(4)}))["state"] == "active"
        states = [
            ElementFound(0, SlotState.ROLLED_BACK, 256 + signal.SIGSEGV),
            *[ElementFound(1, SlotState.ACTIVE, 0)] * 3,
        ]
        third = await after.take_over(web1=FirmwareFound((BUILT_IN, "2.0.0"), tuple(states)))
        assert third.active() == [BUILT_IN] * 4  # all go back with it
        problem = {"version": "2.0.0", "problem": "2.0.0 died of SIGSEGV"}
        assert FirmwareChanged("web1", problem) in third.told

    run(test)


def test_worker_that_tells_nothing_is_waited_for_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "WITHIN_S", 0.01)

    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        after = Rig(rig.keeper)
        elements = after.elements["web1"] = FakeElements("web1", after.bus)
        after.bus.publish(WorkerReady("web1", 1, elements.num_pes))
        done = await after.manager.activate("2.0.0", {"web1": range(4)})
        assert (done["state"], after.active()) == ("active", ["2.0.0"] * 4)

    run(test)


def test_image_whose_key_was_withdrawn_is_left_out() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        after = await rig.take_over(keys={}, web1=None)
        assert after.manager.info()["images"] == []
        assert after.active() == ["2.0.0"] * 4

    run(test)


def test_vm_that_has_left_leaves_no_firmware_with_the_keeper() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.manager.stage(image(), ["web1"])
        await rig.manager.activate("2.0.0", {"web1": range(4)})
        rig.lose("web1", died=False)
        rig.manager.forget("web1")
        assert list(rig.keeper.entries) == ["firmware/image/2.0.0"]

    run(test)


def test_unknown_version_and_vm_without_worker_are_named() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        with pytest.raises(FirmwareError, match=f"has no firmware 9.9.9; allowed: {BUILT_IN}"):
            await rig.manager.activate("9.9.9", {"web1": [0]})
        with pytest.raises(FirmwareError, match="web2 has no worker now"):
            await rig.manager.activate("9.9.9", {"web2": [0]})

    run(test)


def test_reports_about_unknown_elements_change_nothing() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        for pe, slot in ((99, 1), (-1, 1), (0, 2)):
            rig.report("web1", FirmwareReport(pe, slot, 0, SlotState.ACTIVE, 0))
        rig.report("nobody", FirmwareReport(0, 1, 0, SlotState.ACTIVE, 0))
        assert rig.active() == [BUILT_IN] * 4

    run(test)


def test_vms_outside_of_the_callers_scope_are_left_out() -> None:
    async def test(rig: Rig) -> None:
        await rig.add("web1")
        await rig.add("web2")
        shown = rig.manager.info(lambda vm: vm == "web2")
        assert {row["vm"] for row in shown["pes"]} == {"web2"}

    run(test)
