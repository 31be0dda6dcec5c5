"""Opening a device: what libvgc accepts and refuses, its errors, and closing."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import guest_driver as vgc
from tests.fakes.device import SILENCE, Answer, FakeDevice, FakeFunction
from tests.fakes.guest import TIMEOUT_S, GuestProcess, open_device
from tests.fakes.link import GuestLink
from tests.limits import TIME_TO_ANSWER_S
from tests.unit.guest_rig import dev, fake, link
from virtio_proto import schema
from virtio_proto.schema import Health, Opcode, Status

__all__ = ["dev", "fake", "link"]


def test_open_makes_a_context_and_close_destroys_it(dev: vgc.Device, fake: FakeDevice) -> None:
    assert fake.contexts == {dev.info().context}
    dev.close()
    assert not fake.contexts


def test_info_is_what_the_configuration_space_says(dev: vgc.Device, link: GuestLink) -> None:
    info = dev.info()
    assert (info.engine_name, info.vm_name, info.engine, info.health) == ("fake engine", "fake vm", "null", "ready")
    assert (info.memory_bytes, info.queue_depth, info.processing_elements) == (1 << 24, 64, 2)
    assert info.region_bytes == link.region.size
    assert info.read_bytes_per_s > 0


def swapped_fingerprint() -> int:
    """The fingerprint, as a driver reads it that has the bytes in the other order."""
    return int.from_bytes(schema.FINGERPRINT.to_bytes(8, "little"), "big")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"magic": 1}, "not a virtio-gpu-compute device"),
        ({"version": 2}, "version 2"),
        ({"fingerprint": 0xABCD}, "fingerprint 000000000000abcd"),
        ({"magic": 0x56475043}, "differ in byte order: the configuration's magic reads as 0x56475043"),
        ({"fingerprint": swapped_fingerprint()}, "differ in byte order: the device's fingerprint"),
        ({"region_size": 1 << 30}, "belongs to another device"),
        ({"num_queues": 0}, "0 queues"),
        ({"queue_depth": 0}, "queue depth 0"),
    ],
)
def test_unfit_configuration_is_refused(config: dict[str, Any], words: str, tmp_path: Path) -> None:
    with GuestLink(**config) if "num_queues" not in config else GuestLink() as link:
        link.set_config(**config)
        with FakeDevice(link) as fake:
            with pytest.raises(vgc.Incompatible, match=words):
                open_device(link, tmp_path)
            assert fake.opcodes() == []


def test_region_too_small_for_its_rings_is_refused(tmp_path: Path) -> None:
    too_small = pytest.raises(vgc.Incompatible, match="too small for 4 queues")
    with GuestLink(region_bytes=256 << 10, num_queues=4) as link, FakeDevice(link), too_small:
        open_device(link, tmp_path)


def test_device_that_never_answers_is_reported(link: GuestLink, tmp_path: Path) -> None:
    """QEMU reports no error even when the backend refused the rings."""
    with pytest.raises(vgc.NoAnswer, match="does not answer"):
        open_device(link, tmp_path, open_timeout_s=0.05)
    link.set_config(health=Health.FAILED)
    with pytest.raises(vgc.NoAnswer, match="no engine that works for this VM"):
        open_device(link, tmp_path, open_timeout_s=0.05)


def test_worker_that_is_not_ready_is_waited_for_and_reported(link: GuestLink, tmp_path: Path) -> None:
    with FakeDevice(link):
        link.set_config(health=Health.STARTING)
        with pytest.raises(vgc.NoAnswer, match="not ready"):
            open_device(link, tmp_path, open_timeout_s=TIME_TO_ANSWER_S)
        link.set_config(health=Health.FAILED)
        with pytest.raises(vgc.DeviceLost, match="keeps failing"):
            open_device(link, tmp_path)


def test_failed_open_leaves_nothing_behind(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    fake.override[Opcode.CONTEXT_CREATE] = lambda _: Answer(Status.RESOURCES_EXHAUSTED, b"too many contexts")
    for _ in range(len(link.rings) + 1):
        with pytest.raises(vgc.ResourcesExhausted, match="too many contexts"):
            open_device(link, tmp_path)
    fake.override.clear()
    open_device(link, tmp_path).close()


def test_driver_announces_its_wire_format(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with open_device(link, tmp_path):
        (create,) = (ask for ask in fake.seen if ask.opcode is Opcode.CONTEXT_CREATE)
        assert create.body.fingerprint == schema.FINGERPRINT


def test_each_handle_has_a_queue_and_all_queues_can_be_used_up(
    link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    with open_device(link, tmp_path), open_device(link, tmp_path):
        assert len(fake.contexts) == 2
        with pytest.raises(vgc.ResourcesExhausted, match="all 2 queues of vm are in use"):
            open_device(link, tmp_path)
    open_device(link, tmp_path).close()


def test_use_of_a_closed_device_is_an_error(dev: vgc.Device) -> None:
    dev.close()
    with pytest.raises(ValueError, match="closed"):
        dev.info()


@pytest.mark.parametrize(
    ("value", "words"), [("nonsense", "not key=value"), ("colour=red", "unknown key 'colour'"), ("kick=1:2", "0 call")]
)
def test_bad_description_of_a_memfd_device_is_explained(
    value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGC_MEMFD", value)
    with pytest.raises(vgc.InvalidArgument, match=words):
        vgc.Device()


def test_error_without_a_device_names_what_was_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VGC_MEMFD", raising=False)
    if vgc.devices():
        pytest.skip("this machine has a device")
    with pytest.raises(vgc.NoDevice, match="1af4:1066"):
        vgc.Device()


# ---- the state file ------------------------------------------------------------------------------


@pytest.mark.usefixtures("fake")
def test_state_file_of_another_user_is_refused(link: GuestLink, tmp_path: Path) -> None:
    """Members of a group may write into the folder, and would lead root's processes to regions of their choice."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    state = tmp_path / "vm.state"
    state.touch()
    os.chown(state, 12345, 12345)
    with pytest.raises(vgc.NoPermission, match=r"vm\.state was made by another user.*Remove it"):
        open_device(link, tmp_path)
    assert state.stat().st_size == 0
    os.chown(tmp_path, 12345, 12345)
    open_device(link, tmp_path).close()


@pytest.mark.usefixtures("fake")
def test_state_file_that_is_also_a_file_elsewhere_is_refused(link: GuestLink, tmp_path: Path) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "state"
    precious.write_bytes(b"data")
    folder.mkdir()
    (folder / "vm.state").hardlink_to(precious)
    with pytest.raises(vgc.NoPermission, match="has a second name"):
        open_device(link, folder)
    assert precious.read_bytes() == b"data"


# ---- processes -----------------------------------------------------------------------------------


def test_context_and_queue_of_a_killed_process_are_freed(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with GuestProcess(link, tmp_path, "a = dev.alloc(1 << 20); say('up'); hear()") as process:
        process.expect("up")
        with open_device(link, tmp_path) as other:
            assert len(fake.contexts) == 2
            process.kill()
            with open_device(link, tmp_path):
                assert len(fake.contexts) == 2, "the dead process's context is gone"
            other.alloc(1 << 24)  # the whole quota, including the dead process's share


def test_memory_quota_of_a_killed_process_returns_when_it_is_needed(
    link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    with (
        open_device(link, tmp_path) as dev,
        GuestProcess(link, tmp_path, "a = dev.alloc(1 << 24); say('up'); hear()") as process,
    ):
        process.expect("up")
        with pytest.raises(vgc.OutOfMemory, match="asked 1, 0 of 16777216 bytes free"):
            dev.alloc(1)
        process.kill()
        dev.alloc(1 << 24)
        assert fake.opcodes().count(Opcode.CONTEXT_DESTROY) == 1


def call_in_a_stream(dev: vgc.Device) -> None:
    with dev.stream() as stream:
        dev.call("copy", grid=1, block=1, args=[vgc.In(bytes(2 << 20))], stream=stream)


def load_a_long_program(dev: vgc.Device) -> None:
    dev.compile(bytes(2 << 20))


@pytest.mark.parametrize("use", [lambda dev: dev.region_buffer(2 << 20), call_in_a_stream, load_a_long_program])
def test_region_memory_of_a_killed_process_returns_when_it_is_needed(
    link: GuestLink, fake: FakeDevice, tmp_path: Path, use: Callable[[vgc.Device], object]
) -> None:
    fake.functions = [FakeFunction("copy", (8,))]
    with (
        open_device(link, tmp_path) as dev,
        GuestProcess(link, tmp_path, "a = dev.region_buffer(2 << 20); say('up'); hear()") as process,
    ):
        dev.compile("source")
        process.expect("up")
        with pytest.raises(vgc.ResourcesExhausted, match="contiguous bytes left in the shared region"):
            use(dev)
        process.kill()
        use(dev)
        assert fake.opcodes().count(Opcode.CONTEXT_DESTROY) == 1


def test_region_memory_of_a_killed_process_can_hold_a_threads_queue(tmp_path: Path) -> None:
    script = """
held = []
try:
    while True:
        held.append(dev.region_buffer(64 << 10))
except vgc.ResourcesExhausted:
    say("full")
hear()
"""
    with (
        GuestLink(num_queues=3) as link,
        FakeDevice(link) as fake,
        open_device(link, tmp_path) as dev,
        GuestProcess(link, tmp_path, script) as process,
    ):
        process.expect("full")
        with pytest.raises(vgc.ResourcesExhausted, match="contiguous bytes left in the shared region"):
            dev.claim_queue()
        process.kill()
        dev.claim_queue()
        dev.nop()
        assert fake.opcodes().count(Opcode.CONTEXT_DESTROY) == 1
        dev.release_queue()


def test_cleanups_after_dead_processes_and_abandoned_jobs_do_not_conflict(
    link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    """Both free memory of the region, one of them with the state file locked."""
    with open_device(link, tmp_path) as dev:
        memory, stream = dev.alloc(100_000), dev.stream()
        with GuestProcess(link, tmp_path, "a = dev.alloc((1 << 24) - 100_000); say('up'); hear()") as process:
            process.expect("up")
        fake.override[Opcode.COPY_OUT] = lambda _: SILENCE
        job = memory.read_into(bytearray(100_000), stream=stream)
        stream.forget()
        del job
        fake.answer_silenced(Answer(payload=bytes(100_000)))
        dev.alloc((1 << 24) - 100_000)
        assert fake.opcodes().count(Opcode.CONTEXT_DESTROY) == 1


def test_queue_of_a_killed_process_is_not_reused_while_the_device_works_on_it(tmp_path: Path) -> None:
    with GuestLink(num_queues=1) as link, FakeDevice(link) as fake:
        fake.override[Opcode.FILL] = lambda _: SILENCE
        script = "a = dev.alloc(64); s = dev.stream(); a.fill_bytes(b'x', s); dev.nop(); say('up'); hear()"
        with GuestProcess(link, tmp_path, script) as process:
            process.expect("up")
        with pytest.raises(vgc.ResourcesExhausted, match="dead processes"):
            open_device(link, tmp_path, open_timeout_s=0.1)
        fake.answer_silenced(Answer())
        with open_device(link, tmp_path) as dev:
            assert fake.contexts == {dev.info().context}


def test_context_asked_for_by_a_process_that_died_before_the_answer_is_destroyed(
    link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    asked = threading.Event()

    def keep_first_waiting(_ask: Any) -> Answer | None:
        first = not asked.is_set()
        asked.set()
        return SILENCE if first else None

    fake.override[Opcode.CONTEXT_CREATE] = keep_first_waiting
    with GuestProcess(link, tmp_path, ""):
        assert asked.wait(TIMEOUT_S)
    fake.contexts.add(77)
    fake.answer_silenced(Answer(value=77))
    with open_device(link, tmp_path) as dev:
        assert fake.contexts == {dev.info().context}


def test_open_survives_a_worker_killed_by_a_dead_processs_kernel(
    link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    with GuestProcess(link, tmp_path, "say('up'); hear()") as process:
        process.expect("up")

    def lose_the_worker(_ask: Any) -> Answer:
        del fake.override[Opcode.CONTEXT_DESTROY]
        fake.contexts.clear()
        link.set_config(generation=2, health=Health.READY)
        return Answer(Status.DEVICE_LOST)

    fake.override[Opcode.CONTEXT_DESTROY] = lose_the_worker
    with open_device(link, tmp_path) as dev:
        dev.nop()
        assert fake.contexts == {dev.info().context}
    assert not fake.contexts, "the new context is known to be of the new worker, and destroyed"


@pytest.mark.usefixtures("fake")
def test_reset_under_a_live_process_is_noticed(link: GuestLink, tmp_path: Path) -> None:
    with GuestProcess(link, tmp_path, "say('up'); hear()") as process:
        process.expect("up")
        link.region.memory[8:16] = bytes(8)  # the cookie: a later bring-up's rings would lie here
        with pytest.raises(vgc.DeviceLost, match=f"process {process.process.pid} used it"):
            open_device(link, tmp_path)


def test_forked_child_must_open_the_device_itself(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    script = """
import os
pid = os.fork()
if pid == 0:
    try:
        dev.nop()
    except vgc.InvalidArgument as error:
        os._exit(42 if 'fork' in str(error) else 1)
    os._exit(2)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
dev.nop()
dev.close()
"""
    with GuestProcess(link, tmp_path, script) as process:
        process.expect("42")
        assert process.wait() == 0
    assert not fake.contexts


def test_forked_child_takes_nothing_of_the_region(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    """It would be the parent's, and nobody would give it back."""
    script = f"""
import os
memory, data = dev.alloc(1 << 20), bytes(1 << 20)
before = open({str(tmp_path / "vm.state")!r}, 'rb').read()
pid = os.fork()
if pid == 0:
    for copy in (lambda: memory.write(data), memory.read):
        try:
            copy()
        except vgc.InvalidArgument as error:
            if 'fork' in str(error):
                continue
        os._exit(1)
    os._exit(42)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
say(open({str(tmp_path / "vm.state")!r}, 'rb').read() == before)
dev.close()
"""
    with GuestProcess(link, tmp_path, script) as process:
        process.expect("42")
        process.expect("True")
        assert process.wait() == 0
    assert not fake.contexts


def test_forked_child_gives_nothing_of_its_parent_back(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    """The region's pages are shared: others, or the parent itself, would get those that the child frees."""
    script = """
import gc, os
size = dev.info().region_bytes // 8
kept = dev.region_buffer(size)
kept[:] = bytes([1]) * size
pid = os.fork()
if pid == 0:
    del kept
    gc.collect()
    os._exit(0)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
others = []
try:
    while True:
        others.append(dev.region_buffer(size))
        others[-1][:] = bytes([2]) * size
except vgc.VgcError:
    say(len(others) > 0 and bytes(kept[:]) == bytes([1]) * size)
del kept, others
dev.close()
"""
    with GuestProcess(link, tmp_path, script) as process:
        process.expect("0")
        process.expect("True")
        assert process.wait() == 0
    assert not fake.contexts


# ---- drivers of several versions -----------------------------------------------------------------


FOREIGN_STATE = b"VGstate9" + bytes(9992)
"""State file of a driver with another layout, larger than this one's."""

FIRST_CLIENT_LOCK = 1000
"""Byte of the state file whose lock shows that the first client lives (libvgc/src/state.c)."""


def lock_client(file: BinaryIO, client: int) -> None:
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, FIRST_CLIENT_LOCK + client, 1, 0)
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)


@pytest.mark.parametrize("client", [0, 63])
def test_state_of_a_driver_of_another_version_is_not_touched_while_it_lives(
    link: GuestLink, fake: FakeDevice, tmp_path: Path, client: int
) -> None:
    path = tmp_path / "vm.state"
    path.write_bytes(FOREIGN_STATE)
    with path.open("r+b") as other:
        lock_client(other, client)
        with pytest.raises(vgc.Incompatible, match=r"vm is in use by a driver of another version .*: end the process"):
            open_device(link, tmp_path)
        assert path.read_bytes() == FOREIGN_STATE
    with open_device(link, tmp_path) as dev:
        dev.nop()
    assert path.stat().st_size == len(FOREIGN_STATE), "another driver may have all of it mapped"
    assert fake.opcodes().count(Opcode.CONTEXT_CREATE) == 1
