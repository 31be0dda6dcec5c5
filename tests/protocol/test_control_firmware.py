"""Firmware end to end: images as operators make them, the real daemon, a real worker, kernels that run meanwhile."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.api_caller import Reader
from tests.fakes.api_client import ApiRefusedError
from tests.protocol.firmware_rig import BUILT_IN, PES, TEST, UNHEALTHY, VM, Change, Factory, Stage, daemon_with_guest
from tests.waiting import until
from vhost_backend.control.firmware import signing, unit
from virtio_proto.control.firmware import Manifest
from virtio_proto.control.records import Level, Record

NEW_WARP: Final = 4096
NUMBERED: Final[Change] = ("head.warp = (uint16_t)unit->warp;", f"head.warp = (uint16_t)(unit->warp + {NEW_WARP});")
"""Change for an image whose records are recognisable."""
BEGIN: Final = "VGC_CTL_FN void vgc_ctl_block_begin(const struct vgc_ctl_unit *unit)\n{\n"
FAULTY: Final[Change] = (TEST, TEST + "    *(volatile int *)8 = 1;\n")
ENDLESS: Final[Change] = (TEST, TEST + "    for (volatile int round = 0;; round++)\n        ;\n")
DEADLY: Final[Change] = (BEGIN, BEGIN + "    if (unit->place->num_channels > 2)\n        *(volatile int *)8 = 1;\n")
"""Change for an image that dies in kernels, but passes its self test, which has two channels."""
STUCK: Final[Change] = (
    BEGIN,
    BEGIN + "    if (unit->place->num_channels > 2)\n        for (volatile int round = 0;; round++)\n            ;\n",
)
"""Change for an image whose hook never returns in kernels, but does in its self test."""
COMMIT: Final = "    vgc_ctl_release64(&first->commit, position + 1);\n"
BREAKING_OFF: Final[Change] = (COMMIT, "    if (link->mask > 1)\n        *(volatile int *)8 = 1;\n" + COMMIT)
"""Change for an image that dies between claiming and filling a slot, but not in its self test, whose link has two."""
BROKEN: Final[Change] = (BEGIN, BEGIN + "    this is no source;\n")


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> Factory:
    return Factory(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of compiled images, shared by all daemons of these tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def stage(tmp_path: Path, cache: Path, factory: Factory) -> Iterator[Stage]:
    with daemon_with_guest(tmp_path, cache, factory) as made:
        yield made


class Speaking:
    """A kernel of few blocks that print as many lines as they are told to: at least one element has nothing to do."""

    def __init__(self, stage: Stage, blocks: int = PES - 1) -> None:
        self._wanted, self._made, self._out = (stage.device.zeros(count, "int32") for count in (1, blocks, blocks))
        arrays = (self._wanted, self._made, self._out)
        self._job = stage.program["speaks"].launch_async(blocks, 1, *arrays, stream=stage.stream)
        self._lines = 0

    def say(self, lines: int) -> None:
        """Has each block print that many more lines, and waits until it has."""
        self._lines += lines
        self._wanted.set(np.array([self._lines], np.int32))
        while min(self._made.get()) < self._lines:
            pass

    def end(self) -> list[int]:
        """Ends the kernel and returns its results."""
        self._wanted.set(np.array([-1], np.int32))
        self._job.wait()
        return [int(value) for value in self._out.get()]


# ---- upgrades ------------------------------------------------------------------------------------


def test_all_elements_change_while_a_kernel_runs_and_no_record_is_lost_or_doubled(
    stage: Stage, factory: Factory
) -> None:
    prints = Reader(stage.caller, stage.caller.open(f"vm={VM},fn=stdio"))
    perf = Reader(stage.caller, stage.caller.open(f"vm={VM},fn=perf", level=Level.INFO))
    speaking = Speaking(stage)
    speaking.say(20)
    staged = stage.stage(factory.image("2.0.0", NUMBERED))
    assert [(pe["active"], pe["other"]) for pe in staged["pes"]] == [(BUILT_IN, "2.0.0")] * PES
    done = stage.activate("2.0.0")
    assert (done["state"], done["problems"]) == ("active", [])
    assert [(pe["active"], pe["other"], pe["state"]) for pe in done["pes"]] == [("2.0.0", BUILT_IN, "active")] * PES
    speaking.say(20)
    assert speaking.end() == [4000, 4001]
    stage.numbers(16)
    said = [prints.next() for _ in range(80)]
    assert Counter(text for _, text in said) == Counter(
        f"line {line} of block {block}\n" for line in range(40) for block in range(2)
    )
    assert all((record.warp >= NEW_WARP) == (int(text.split()[1]) >= 20) for record, text in said)
    blocks: list[Record] = []
    while len(blocks) < 2 * (2 + 16):
        blocks += [record for record, _ in [perf.next()] if record.kind != "sample"]
    assert Counter(record.kind for record in blocks) == {"block_begin": 18, "block_end": 18}
    for pe in range(PES):
        sequences = [record.sequence for record in blocks if record.pe == pe]
        assert sequences == list(range(len(sequences)))
    for info in stage.caller.ask("ls")["instances"]:
        assert {(channel["lost"], channel["forged"]) for channel in info["channels"]} == {(0, 0)}


def test_unchanged_image_of_this_installation_takes_over_and_goes_back(stage: Stage, factory: Factory) -> None:
    stage.stage(factory.image("2.0.0"))
    assert stage.activate("2.0.0")["state"] == "active"
    assert stage.caller.ask("topology")["vms"][0]["firmware"] == "2.0.0"
    stage.numbers()
    assert stage.roll_back()["state"] == "active"
    assert stage.active() == [BUILT_IN] * PES
    stage.numbers()


def test_upgrade_of_some_elements_leaves_the_others(stage: Stage, factory: Factory) -> None:
    stage.stage(factory.image("2.0.0"))
    stage.activate("2.0.0", f"vm={VM},pe=1")
    assert stage.active() == [BUILT_IN, "2.0.0", BUILT_IN]
    assert stage.caller.ask("topology")["vms"][0]["firmware"] == "mixed"


def test_worker_that_was_replaced_takes_the_image_again(stage: Stage, factory: Factory) -> None:
    stage.stage(factory.image("2.0.0"))
    stage.kill_worker(signal.SIGKILL)
    with pytest.raises(ApiRefusedError, match=r"has no firmware 2\.0\.0; allowed: .*, or stage it first"):
        stage.activate("2.0.0")
    stage.stage(factory.image("2.0.0"))
    assert stage.activate("2.0.0")["state"] == "active"
    stage.renew()
    stage.numbers()


# ---- images that are not healthy -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "change", "why"),
    [
        ("2.1.0", UNHEALTHY, "2.1.0 failed its self test with code 99"),
        ("2.1.1", FAULTY, "2.1.1 died of SIGSEGV"),
    ],
)
def test_image_that_fails_its_self_test_is_rolled_back(
    stage: Stage, factory: Factory, version: str, change: Change, why: str
) -> None:
    pid = stage.worker_pid()
    stage.stage(factory.image(version, change))
    done = stage.activate(version)
    assert (done["state"], done["problems"]) == ("rolled back", [{"vm": VM, "pe": 0, "text": why}])
    assert stage.active() == [BUILT_IN] * PES
    stage.numbers()
    assert stage.worker_pid() == pid


def test_image_that_dies_in_a_hook_is_rolled_back_and_its_worker_lives_on(stage: Stage, factory: Factory) -> None:
    pid = stage.worker_pid()
    stage.caller.open(f"vm={VM},fn=perf", level=Level.INFO)
    stage.stage(factory.image("2.2.0", DEADLY))
    assert stage.activate("2.2.0")["state"] == "active"
    stage.numbers()
    told = stage.caller.push(lambda f: f["push"] == "event" and "problem" in f["detail"])["detail"]
    assert told["version"] == "2.2.0"
    assert told["problem"].endswith("2.2.0 died of SIGSEGV")
    stage.caller.push(lambda f: f["push"] == "event" and f["detail"].get("active") == BUILT_IN)
    assert stage.active() == [BUILT_IN] * PES
    stage.numbers()
    assert stage.worker_pid() == pid


def test_record_that_killed_an_image_is_lost_and_delays_no_other(stage: Stage, factory: Factory) -> None:
    instance = stage.caller.open(f"vm={VM},fn=stdio")
    prints = Reader(stage.caller, instance)
    stage.stage(factory.image("2.5.0", BREAKING_OFF))
    assert stage.activate("2.5.0")["state"] == "active"
    speaking = Speaking(stage, blocks=1)
    speaking.say(5)
    assert prints.texts(4) == [f"line {line} of block 0\n" for line in range(1, 5)]
    assert speaking.end() == [500]
    closed = stage.caller.ask("close", instance=instance)
    assert sum(channel["records"] for channel in closed["channels"]) == 4
    assert sum(channel["lost"] for channel in closed["channels"]) == 1


def test_self_test_that_never_ends_has_only_the_worker_replaced(
    stage: Stage, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit, "SELF_TEST_S", 0.5)
    pid = stage.worker_pid()
    stage.stage(factory.image("2.3.0", ENDLESS))
    done = stage.activate("2.3.0")
    assert done["state"] == "rolled back"
    assert done["problems"] == [{"vm": VM, "pe": 0, "text": "2.3.0 does not come back from its self test"}]
    stage.caller.event("worker_ready")
    assert stage.worker_pid() != pid
    stage.renew()
    stage.numbers()
    assert stage.active() == [BUILT_IN] * PES


def test_crash_of_the_guests_code_soon_after_an_upgrade_leaves_the_upgrade(stage: Stage, factory: Factory) -> None:
    stage.stage(factory.image("2.0.0"))
    stage.activate("2.0.0")
    with pytest.raises(vgc.VgcError):
        stage.program["crashes"][1, 1]()
    told = stage.caller.push(lambda f: f["push"] == "event" and "problem" in f["detail"])["detail"]
    assert "not held against the image" in told["problem"]
    assert "kernel 'crashes'" in stage.caller.event("fault")["detail"]["text"]
    stage.caller.push(lambda f: f["push"] == "event" and f["event"] == "worker_ready")
    stage.renew()
    stage.numbers()
    until(lambda: stage.active() == ["2.0.0"] * PES)


def test_hook_that_never_returns_is_named_by_the_fault(tmp_path: Path, cache: Path, factory: Factory) -> None:
    with daemon_with_guest(tmp_path, cache, factory, deadline_ns=1_000_000_000) as stage:
        stage.caller.open(f"vm={VM},fn=perf", level=Level.INFO)
        stage.stage(factory.image("2.6.0", STUCK))
        assert stage.activate("2.6.0")["state"] == "active"
        with pytest.raises(vgc.VgcError, match="a hook of loaded firmware, called between blocks of kernel 'numbers'"):
            stage.numbers()
        stage.link.wait_ready(2)


# ---- malformed images ----------------------------------------------------------------------------


def test_source_that_does_not_compile_is_refused_with_the_compilers_log(stage: Stage, factory: Factory) -> None:
    with pytest.raises(ApiRefusedError, match=r"does not compile for cpu: (.|\n)*error: ") as refused:
        stage.stage(factory.image("2.4.0", BROKEN))
    assert refused.value.kind == "failed"
    assert stage.caller.ask("firmware")["images"] == []


def test_image_without_a_trusted_signature_is_refused(stage: Stage, factory: Factory, tmp_path: Path) -> None:
    good = factory.image("2.0.0").read_bytes()
    secret = signing.secret_key(factory.folder / "trusted" / "firmware.key")
    foreign = Manifest("2.0.0", 99, "foreign", 0, signing.key_id(secret.public_key()))
    images = {
        "signature is wrong": good[:-1] + bytes([good[-1] ^ 1]),
        "which this host does not trust": factory.image("2.0.0", key="other").read_bytes(),
        "abi 99; allowed: 1": signing.sign(foreign, "", secret),
        "not a firmware image": b"nonsense",
    }
    for why, data in images.items():
        (tmp_path / "image").write_bytes(data)
        with pytest.raises(ApiRefusedError, match=why):
            stage.stage(tmp_path / "image")
    assert stage.caller.ask("firmware")["images"] == []


# ---- by command ----------------------------------------------------------------------------------


def test_flash_shows_changes_and_reports_firmware(stage: Stage, factory: Factory) -> None:
    good, bad = factory.image("2.0.0"), factory.image("2.1.0", UNHEALTHY)
    staged = stage.vgcctl("flash", "stage", str(good), f"vm={VM}")
    assert (staged.code, "2.0.0" in staged.out) == (0, True)
    activated = stage.vgcctl("flash", "activate", "2.0.0", f"vm={VM}")
    assert (activated.code, f"{PES} of {PES} elements" in activated.err) == (0, True)
    listed = stage.vgcctl("flash", "ls", f"vm={VM}", "--json")
    assert {(pe["active"], pe["other"], pe["state"]) for pe in listed.json["pes"]} == {("2.0.0", BUILT_IN, "active")}
    assert stage.vgcctl("flash", "rollback", f"vm={VM}").code == 0
    assert stage.vgcctl("flash", "stage", str(bad), f"vm={VM}").code == 0
    refused = stage.vgcctl("flash", "activate", "2.1.0", f"vm={VM}")
    assert (refused.code, "2.1.0 failed its self test with code 99" in refused.err) == (1, True)
    unknown = stage.vgcctl("flash", "activate", "9.9.9", f"vm={VM}")
    assert (unknown.code, unknown.out, "has no firmware 9.9.9; allowed:" in unknown.err) == (3, "", True)
    assert stage.active() == [BUILT_IN] * PES
