"""Faults, policies, snapshots and migrations of the control system, over fake VMs."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_client import Client
from tests.fakes.control_vm import CLOCK_NS, FakeControlledVm
from tests.fakes.keeper import FakeKeeper
from tests.unit.registry_rig import ManualClock, Rig, rig
from vhost_backend.config.control import PolicyConfig
from vhost_backend.control.events import DeviceError
from vhost_backend.control.faults import book as fault_book
from vhost_backend.control.faults.book import Fault, FaultBook
from vhost_backend.control.faults.policies import Policies
from vhost_backend.control.links.channel_port import ElementFigures, ElementState
from vhost_backend.keeper.client import MAX_PACKET_BYTES
from virtio_proto.control.api import PolicyAction, Trigger
from virtio_proto.control.records import Function, Level, Record

Story = Callable[[Rig, Client], Awaitable[None]]
SECOND = 1_000_000_000


def tell(folder: Path, story: Story, *vms: FakeControlledVm, **config: Any) -> None:
    async def told() -> None:
        async with rig(folder, *vms, **config) as made:
            client = await made.client()
            await client.ask("subscribe", events=True)
            await story(made, client)

    asyncio.run(told())


def fault(rig: Rig, pe: int, code: int, said: str) -> Record:
    """A record of the fault function, timed by the rig's clock."""
    payload = struct.pack("<Q", code) + said.encode()
    return Record(rig.clock.now_ns - CLOCK_NS, Function.FAULT, Level.ERROR, 1, pe, 0, 0, 0, payload)


def state(rig: Rig, pe: int, block: int = 5, for_s: float = 0.0, kernel: str | None = "spin") -> ElementState:
    now_ns = rig.clock.now_ns
    return ElementState(pe, kernel, 1, block, 8, now_ns - int(for_s * SECOND), 0, now_ns)


# ---- the fault book ------------------------------------------------------------------------------


def test_faults_are_counted_announced_and_cleared(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        await client.ask("open", selector="vm=web1,fn=fault")
        channels.emit(1, fault(rig, 1, 1, "address 0x10"), fault(rig, 1, 1, "address 0x10"), fault(rig, 1, 300, "mine"))
        told = (await client.event("fault"))["detail"]
        assert (told["kind"], told["pe"], told["text"]) == ("kernel", 1, "address 0x10")
        listed = (await client.ask("faults"))["faults"]
        assert [(item["kind"], item["count"], item["text"]) for item in listed] == [
            ("kernel", 2, "address 0x10"),
            ("user", 1, "mine"),
        ]
        assert "buffers" in listed[0]["advice"]
        assert (await client.ask("faults", selector="gpu=7"))["faults"] == []
        assert (await client.ask("faults", selector=f"gpu={listed[0]['gpu']}"))["faults"] == listed
        assert await client.ask("clear_faults", faults=[]) == {"cleared": 0}
        assert await client.ask("clear_faults", selector="gpu=7") == {"cleared": 0}
        assert await client.ask("clear_faults", faults=[listed[0]["fault"]]) == {"cleared": 1}
        assert [item["kind"] for item in (await client.ask("faults"))["faults"]] == ["user"]
        assert len((await client.ask("faults", cleared=True))["faults"]) == 2
        channels.emit(1, fault(rig, 1, 1, "address 0x10"))
        assert [item["count"] for item in (await client.ask("faults", selector="pe=1"))["faults"]] == [1, 1]
        assert (await client.ask("faults", selector="pe=0"))["faults"] == []

    tell(tmp_path, story)


def test_record_with_an_unknown_code_makes_no_fault(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="vm=web1,fn=fault")
        rig.vms["web1"].channels.emit(
            0, fault(rig, 0, 200, "forged"), Record(0, Function.FAULT, 1, 1, 0, 0, 0, 0, b"x")
        )
        assert (await client.ask("faults"))["faults"] == []

    tell(tmp_path, story)


def test_death_of_a_worker_is_a_fault(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].channels.lose("kernel spin ran longer than 0.5 s", "deadline")
        (item,) = (await client.ask("faults"))["faults"]
        assert (item["kind"], item["pe"], item["vm"]) == ("deadline", None, "web1")
        assert "deadline" in item["advice"]

    tell(tmp_path, story)


def test_death_without_a_known_cause_is_a_fault_that_says_how(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        for _ in range(2):
            channels.lose("the worker was killed by SIGKILL")
            channels.come()
        assert (await client.event("fault"))["detail"]["kind"] == "death"
        (item,) = (await client.ask("faults"))["faults"]
        assert (item["kind"], item["pe"], item["text"], item["count"]) == (
            "death",
            None,
            "the worker was killed by SIGKILL",
            2,
        )
        assert "kernel log" in item["advice"]

    tell(tmp_path, story)


def test_death_after_a_reported_fault_adds_no_second_fault(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        await client.ask("open", selector="vm=web1,fn=fault")
        channels.emit(0, fault(rig, 0, 1, "address 0x10"))
        channels.lose("fault at address 0x10", "kernel")
        assert len((await client.ask("faults"))["faults"]) == 1

    tell(tmp_path, story)


def test_replaced_worker_makes_no_fault(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].channels.lose("the guest reset the device", died=False)
        assert (await client.ask("faults"))["faults"] == []

    tell(tmp_path, story)


def test_history_of_a_vm_is_bounded_and_displaces_no_other_vms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_book, "MAX_PER_VM", 3)
    seen: list[int] = []
    book = FaultBook(lambda _fault, count: seen.append(count))

    def add(vm: str, text: str) -> Fault:
        return book.add(gpu="cpu", vm=vm, pe=0, kind="user", text=text, time_ns=1)

    add("web2", "old")
    first = add("web1", "0")
    book.clear([add("web1", "1")])
    add("web1", "2")
    add("web1", "3")
    assert [item.text for item in book.of("web1", cleared=True)] == ["0", "2", "3"]
    add("web1", "4")
    assert [item.text for item in book.of("web1")] == ["2", "3", "4"]
    assert [item.text for item in book.of("web2")] == ["old"]
    assert add("web1", "0").number != first.number


def test_occurrences_are_counted_whatever_entries_are_pushed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_book, "MAX_PER_VM", 2)
    book = FaultBook(lambda _fault, _count: None)
    for number in range(5):
        book.add(gpu="cpu", vm="web1", pe=0, kind="user", text=str(number), time_ns=1, count=3)
    book.add(gpu="cpu", vm="web1", pe=0, kind="trap", text="", time_ns=1)
    assert len(book.of("web1", cleared=True)) == 2
    assert book.counts("web1") == {"user": 15, "trap": 1}
    assert book.counts("web2") == {}


def test_answer_has_the_counts_of_the_vms_that_are_asked_for(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        for name in ("web1", "web2"):
            rig.vms[name].channels.lose("the worker was killed by SIGKILL")
        both = [{"vm": name, "kind": "death", "count": 1} for name in ("web1", "web2")]
        assert (await client.ask("faults"))["totals"] == both
        assert (await client.ask("faults", selector="vm=web2"))["totals"] == both[1:]

    tell(tmp_path, story)


def test_vm_that_has_left_takes_its_faults_along(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].channels.lose("the worker was killed by SIGKILL")
        rig.system.dismiss("web1")
        rig.system.admit(FakeControlledVm("web1", 2))
        assert await client.ask("faults") == {"faults": [], "totals": []}

    tell(tmp_path, story)


def test_policies_that_were_set_hold_in_place_of_the_configurations() -> None:
    keeper = FakeKeeper()
    clock = ManualClock()
    own = [PolicyConfig("own")]

    def names() -> list[str]:
        return [policy.config.name for policy in Policies(own, clock, keeper.shelf("policies")).all]

    assert names() == ["own"]
    first = Policies(own, clock, keeper.shelf("policies"))
    wanted = [PolicyConfig("a", "vm=web1", ("trap",), "sustained", 3, 2.5, "reset"), PolicyConfig("b")]
    first.replace([PolicyConfig("before")])
    first.replace(wanted)
    after = Policies(own, clock, keeper.shelf("policies"))
    assert [policy.config for policy in after.all] == wanted
    after.replace([PolicyConfig("c")])
    assert names() == ["c"]
    after.replace([])
    assert names() == []
    assert len(keeper.entries) == 1  # none of those before is left


# ---- and at the keeper ---------------------------------------------------------------------------


def shown(book: FaultBook, *vms: str) -> list[Any]:
    """All that a book has about some VMs."""
    return [([fault.info() for fault in book.of(vm, cleared=True)], dict(book.counts(vm))) for vm in vms]


def test_next_daemon_has_the_book_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_book, "MAX_PER_VM", 40)
    keeper = FakeKeeper()
    book = FaultBook(lambda _fault, _count: None, keeper.shelf("faults"))
    for number in range(100):
        vm = "web2" if number % 10 == 0 else "web1"
        fault = book.add(gpu="cpu", vm=vm, pe=number, kind="user", text="x" * 1000, time_ns=number)
        if number % 3 == 0:
            book.clear([fault])
        if number % 7 == 0:
            book.save()
        assert (number % 7 != 0) or shown(
            FaultBook(lambda _fault, _count: None, keeper.shelf("faults")), "web1", "web2"
        ) == shown(book, "web1", "web2")
    book.forget("web2")
    book.save()
    after = FaultBook(lambda _fault, _count: None, keeper.shelf("faults"))
    assert shown(after, "web1", "web2") == shown(book, "web1", "web2")
    assert after.of("web2", cleared=True) == []
    known = after.of("web1")[-1]
    again = after.add(gpu="cpu", vm="web1", pe=known.pe, kind="user", text=known.text, time_ns=200)
    assert (again.number, again.count) == (known.number, 2)
    assert after.add(gpu="cpu", vm="web1", pe=0, kind="trap", text="new", time_ns=200).number == 101


def test_element_that_still_hangs_is_no_fault_of_the_next_daemon() -> None:
    keeper = FakeKeeper()
    book = FaultBook(lambda _fault, _count: None, keeper.shelf("faults"))
    assert book.is_new_hang("web1", 3, 1, 7)
    book.save()
    after = FaultBook(lambda _fault, _count: None, keeper.shelf("faults"))
    assert not after.is_new_hang("web1", 3, 1, 7)
    assert after.is_new_hang("web1", 3, 1, 8)
    after.forget_hangs("web1")
    assert after.is_new_hang("web1", 3, 1, 8)


def test_book_that_has_not_changed_is_not_left_again() -> None:
    keeper = FakeKeeper()
    book = FaultBook(lambda _fault, _count: None, keeper.shelf("faults"))
    book.add(gpu="cpu", vm="web1", pe=0, kind="trap", text="", time_ns=1)
    for _ in range(3):
        book.save()
    assert keeper.commits == 1


@pytest.mark.parametrize("char", ["x", "\N{GRINNING FACE}"])
def test_page_of_the_longest_faults_fits_a_packet_of_the_keepers(char: str) -> None:
    keeper = FakeKeeper()
    book = FaultBook(lambda _fault, _count: None, keeper.shelf("faults"))
    for number in range(fault_book.PAGE):
        book.add(gpu="cpu", vm="v" * 63, pe=number, kind="worker", text=char * 2000, time_ns=1, advice=char * 1000)
    book.save()
    assert max(len(key) + len(blob) for key, blob in keeper.entries.items()) < MAX_PACKET_BYTES - 4096


def test_error_of_a_device_is_a_fault_of_its_vms(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.bus.publish(DeviceError("gpu-1", 31))
        (item,) = (await client.ask("faults"))["faults"]
        assert (item["vm"], item["kind"], item["xid"], item["gpu"]) == ("web2", "device", 31, "1")
        assert "page fault" in item["text"]
        assert "compute-sanitizer" in item["advice"]

    tell(tmp_path, story, FakeControlledVm("web1", 2), FakeControlledVm("web2", 2, gpu="1"))


# ---- policies ------------------------------------------------------------------------------------


def times_acted(config: PolicyConfig, at_s: list[float], *, pe: int = 0) -> list[float]:
    """The times among `at` when a policy acts, if the same fault comes at each."""
    clock = ManualClock(0)
    policies = Policies([config], clock)
    acted: list[float] = []
    book = FaultBook(lambda item, count: acted.append(clock.now_ns / SECOND) if policies.due(item, count) else None)
    for moment in at_s:
        clock.now_ns = int(moment * SECOND)
        book.add(gpu="cpu", vm="web1", pe=pe, kind="kernel", text="x", time_ns=clock.now_ns)
    return acted


@pytest.mark.parametrize(
    ("trigger", "at_s", "acted"),
    [
        ("edge", [1, 2, 3], [1]),
        ("sustained", [1, 5, 9], [9]),
        ("sustained", [1, 5, 20, 25, 30], [30]),
        ("aggregate", [1, 2, 3, 4, 5, 6], [3, 6]),
        ("aggregate", [1, 8, 15, 22, 29], []),
    ],
)
def test_policy_acts_when_its_trigger_says(trigger: Trigger, at_s: list[float], acted: list[float]) -> None:
    assert times_acted(PolicyConfig("p", trigger=trigger, count=3, window_s=10), at_s) == acted


def test_policy_acts_on_faults_of_its_selector_and_kinds_only() -> None:
    assert times_acted(PolicyConfig("p", selector="vm=web2"), [1]) == []
    assert times_acted(PolicyConfig("p", selector="gpu=1"), [1]) == []
    assert times_acted(PolicyConfig("p", selector="pe=1"), [1], pe=0) == []
    assert times_acted(PolicyConfig("p", selector="pe=1"), [1], pe=1) == [1]
    assert times_acted(PolicyConfig("p", kinds=("hung",)), [1]) == []


@pytest.mark.parametrize("action", ["alert", "quiesce", "reset", "migrate"])
def test_action_acts_on_the_vm(tmp_path: Path, action: PolicyAction) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].channels.lose("fault", "kernel")
        detail = (await client.event("policy_acted"))["detail"]
        assert (detail["policy"], detail["action"]) == ("p", action)
        vm = rig.vms["web1"]
        done = {"quiesce": vm.quiesced, "reset": vm.resets == ["policy p"], "migrate": vm.gpu == "1", "alert": True}
        assert done[action], detail
        assert rig.vms["web2"].gpu == "cpu"
        assert not rig.vms["web2"].quiesced

    policy = PolicyConfig("p", action=action, target="1" if action == "migrate" else "")
    tell(tmp_path, story, policies=(policy,))


def test_failed_action_is_reported(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].move_problem = "there is no other GPU"
        rig.vms["web1"].channels.lose("fault", "kernel")
        assert "there is no other GPU" in (await client.event("policy_acted"))["detail"]["result"]

    tell(tmp_path, story, policies=(PolicyConfig("p", action="migrate"),))


def test_quiesced_vm_can_be_resumed(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("quiesce", vm="web1")
        assert [vm["quiesced"] for vm in (await client.ask("topology"))["vms"]] == [True, False]
        await client.ask("resume", vm="web1")
        assert not rig.vms["web1"].quiesced

    tell(tmp_path, story)


def test_policy_that_is_to_migrate_a_vm_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web2"].stays = "its engine cannot"
        error = await client.refusal("set_policies", policies=[{"name": "p", "action": "migrate"}])
        assert (error.kind, str(error)) == (
            "malformed",
            "malformed: policy p: it is to migrate web2: its engine cannot; or another action or selector",
        )
        for fields in ({"action": "migrate", "selector": "vm=web1"}, {"action": "reset"}):
            await client.ask("set_policies", policies=[{"name": "p", **fields}])

    tell(tmp_path, story)


def test_migration_that_can_never_succeed_is_refused_with_its_reason(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].stays = "its engine cannot"
        assert [vm.get("stays") for vm in (await client.ask("topology"))["vms"]] == ["its engine cannot", None]
        error = await client.refusal("migrate", vm="web1", gpu="1")
        assert (error.kind, str(error)) == ("busy", "busy: web1: its engine cannot")
        assert (await client.ask("migrations"))["migrations"] == []

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "name is missing"),
        ({"name": "p", "action": "pray"}, "action is 'pray'; allowed: alert or quiesce or reset or migrate"),
        ({"name": "p", "kinds": ["bad luck"]}, "kinds[] is 'bad luck'; allowed: kernel or assert"),
        ({"name": "p", "selector": "pe=x"}, "pe='x'"),
        ({"name": "p", "window_s": 0}, "window_s is 0"),
        ({"name": "p", "colour": 1}, "colour is no field"),
        ({"name": "p", "action": "migrate", "kinds": ["hung"]}, "policy p: action is migrate, which never works for"),
        ({"name": "p", "action": "migrate", "target": "1"}, "policy p: target is '1', a GPU"),
    ],
)
def test_wrong_policy_is_refused_and_the_old_ones_stay(tmp_path: Path, table: dict[str, Any], words: str) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        error = await client.refusal("set_policies", policies=[table])
        assert error.kind == "malformed"
        assert words in str(error)
        assert [policy["name"] for policy in (await client.ask("policies"))["policies"]] == ["old"]

    tell(tmp_path, story, policies=(PolicyConfig("old"),))


def test_policies_are_replaced(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        new = {"name": "new", "trigger": "sustained", "count": 2, "window_s": 1.5, "action": "reset", "kinds": ["hung"]}
        answer = await client.ask("set_policies", policies=[new])
        assert answer["policies"] == [new | {"selector": ""}]

    tell(tmp_path, story, policies=(PolicyConfig("old"),))


# ---- snapshots and hung elements -----------------------------------------------------------------


def test_snapshot_covers_all_vms_and_names_silent_elements(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].channels.states = [state(rig, pe) for pe in (0, 1, 3)]
        rig.vms["web2"].channels.refuse["snapshot"] = "no"
        seen = await client.ask("snapshot", deadline_ms=50)
        assert [(item["vm"], item["pe"], item["kernel"]) for item in seen["pes"]] == [
            ("web1", 0, "spin"),
            ("web1", 1, "spin"),
            ("web1", 3, "spin"),
        ]
        assert seen["silent"] == ["web1/2", "web2/0", "web2/1"]
        assert seen["coverage"] == 0.5

    tell(tmp_path, story)


def test_worker_that_never_answers_does_not_delay_a_snapshot(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web2"].channels.hold = asyncio.Event()
        rig.vms["web1"].channels.states = [state(rig, pe) for pe in range(4)]
        seen = await client.ask("snapshot", deadline_ms=1)
        assert seen["silent"] == ["web2/0", "web2/1"]

    tell(tmp_path, story)


def test_vm_without_a_worker_is_silent_as_a_whole(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        assert (await client.ask("snapshot"))["silent"] == ["off/*"]

    tell(tmp_path, story, FakeControlledVm("off", 3, ready=False))


def test_element_hung_in_a_block_is_reported_once(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        channels.states = [state(rig, 0, for_s=9), state(rig, 1, for_s=1), state(rig, 2, for_s=9, kernel=None)]
        watch, sides = rig.system.watch, list(rig.system.registry.sides.values())
        await watch.look(sides)
        await watch.look(sides)
        (item,) = (await client.ask("faults"))["faults"]
        assert (item["kind"], item["pe"], item["count"]) == ("hung", 0, 1)
        assert item["text"] == "in block 5 of spin, launch 1, for 9.0 s"
        channels.states = [state(rig, 0, block=6, for_s=9)]
        await watch.look(sides)
        assert len((await client.ask("faults"))["faults"]) == 2

    tell(tmp_path, story)


def test_policy_about_hung_elements_starts_snapshots(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].channels.states = [state(rig, 0, for_s=9)]
        await client.ask("set_policies", policies=[{"name": "p", "kinds": ["hung"], "selector": "vm=web1"}])
        assert (await client.event("policy_acted"))["vm"] == "web1"
        assert not [told for told in rig.vms["web2"].channels.told if told[0] == "snapshot"]

    tell(tmp_path, story)


def test_without_a_policy_about_hung_elements_no_snapshot_is_taken(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("set_policies", policies=[{"name": "p", "kinds": ["kernel"]}])
        await client.ask("topology")
        assert not any(told[0] == "snapshot" for vm in rig.vms.values() for told in vm.channels.told)

    tell(tmp_path, story)


# ---- figures, thresholds, migrations -------------------------------------------------------------


def test_figures_have_each_elements_busy_share_since_the_first_reading(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        instance = (await client.ask("open", selector="vm=web1,fn=perf"))["instance"]
        channels.figure(1 * SECOND, ElementFigures(0, busy_ns=10 * SECOND), ElementFigures(1))
        channels.figure(
            3 * SECOND, ElementFigures(0, 7, 56, 1, 11 * SECOND, 5, 0, {"rows": -3}, {"heat": 0.5}), ElementFigures(1)
        )
        first, second = (await client.ask("stat", selector="vm=web1"))["pes"]
        assert (first["blocks"], first["warps"], first["busy_share"]) == (7, 56, 0.5)
        assert (first["counters"], first["gauges"]) == ({"rows": -3}, {"heat": 0.5})
        assert second["busy_share"] == 0.0
        assert (await client.ask("stat", selector="pe=1"))["pes"] == [second]
        await client.ask("close", instance=instance)
        channels.figure(4 * SECOND, ElementFigures(0, busy_ns=12 * SECOND))
        assert (await client.ask("stat"))["pes"] == [], "it counts no more"
        await client.ask("open", selector="vm=web1,fn=load")
        channels.figure(8 * SECOND, ElementFigures(0, busy_ns=12 * SECOND))
        channels.figure(9 * SECOND, ElementFigures(0, busy_ns=13 * SECOND))
        (again,) = (await client.ask("stat"))["pes"]
        assert again["busy_share"] == 1.0

    tell(tmp_path, story)


def test_figures_that_no_frame_can_hold_are_refused(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="vm=web1,fn=perf")
        rig.vms["web1"].channels.figure(1, ElementFigures(0, blocks=1 << 64))
        assert "more than 64 bits" in str(await client.refusal("stat"))

    tell(tmp_path, story)


def test_crossed_threshold_is_announced(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        await client.ask("open", selector="vm=web1,fn=perf")
        assert await client.ask("threshold", selector="vm=web1,pe=0-1", name="heat", high=0.9) == {"elements": 2}
        assert ("threshold", (0, 1), "heat", -1e300, 0.9) in channels.told
        gauge = Record(5, Function.PERF, Level.WARNING, 4, 1, 0, 0, 0, struct.pack("<Qdd", 0x80, 0.95, 0.9))
        channels.emit(1, gauge, texts={0x80: "heat"})
        detail = (await client.event("threshold"))["detail"]
        assert detail == {"pe": 1, "name": "heat", "value": 0.95, "threshold": 0.9, "at_ns": 5 + CLOCK_NS}

    tell(tmp_path, story)


def test_migration_is_announced_step_by_step_and_listed(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        begun = await client.ask("migrate", vm="web1", gpu="1")
        assert (await client.event("migration"))["detail"]["state"] == "copying"
        done = (await client.event("migration"))["detail"]
        assert (done["state"], done["bytes"], done["migration"]) == ("done", 64, begun["migration"])
        assert (await client.ask("migrations"))["migrations"] == [done]
        assert rig.vms["web1"].gpu == "1"

    tell(tmp_path, story)


def test_confinement_also_holds_in_the_next_worker(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        assert (await client.ask("confine", vm="web1", pes="0-1|3"))["target"] == "elements 0-1|3"
        channels.lose()
        channels.told.clear()
        channels.come()
        await client.event("worker_ready")
        assert channels.told == [("confine", (0, 1, 3))]
        assert (await client.ask("topology"))["vms"][0]["confined_to"] == [0, 1, 3]
        await client.ask("confine", vm="web1", pes=None)
        assert channels.told[-1] == ("confine", ())
        assert "has not all of the elements 9" in str(await client.refusal("confine", vm="web1", pes="9"))

    tell(tmp_path, story)


def test_on_a_gpu_confinement_is_a_smaller_partition(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        await client.ask("confine", vm="web1", pes="0-1")
        assert (await client.push("event", lambda f: f["event"] == "migration" and f["detail"]["state"] == "done"))[
            "detail"
        ]["bytes"] == 64

    tell(tmp_path, story, FakeControlledVm("web1", 4, gpu="1"))


def test_vm_without_a_worker_cannot_be_migrated_confined_or_reset(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        for verb, fields in (("migrate", {}), ("confine", {"pes": "0"}), ("reset_worker", {})):
            assert (await client.refusal(verb, vm="off", **fields)).kind == "busy"

    tell(tmp_path, story, FakeControlledVm("off", 3, ready=False))
