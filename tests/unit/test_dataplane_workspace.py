"""Memory that launches need while they run: charged, shared within a stream, and given back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.fakes.driver import Pending
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from vhost_backend._dataplane import lib
from virtio_proto.schema import Opcode, Status

QUOTA = LIMITS.memory_bytes
BYTES = QUOTA // 4
PROGRAM = f"""
kernel held behaviour=hold workspace={BYTES}
kernel larger behaviour=hold workspace={2 * BYTES}
kernel too_large workspace={QUOTA + 1}
kernel endless workspace={(1 << 64) - 1}
kernel release behaviour=release
kernel spoils behaviour=spoil workspace={BYTES}
"""


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig(replace(LIMITS, max_streams=lib.VGC_MAX_STREAMS)) as made:
        yield made


class Vm:
    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.context = rig.context()
        self.functions = rig.load(self.context, PROGRAM)
        self.streams = 0
        self.before = rig.usage().memory_used_bytes

    def used(self) -> int:
        return self.rig.usage().memory_used_bytes - self.before

    def launch(self, name: str, stream: int = 0) -> Pending:
        body = {"function": self.functions[name], "grid": [1, 1, 1], "block": [1, 1, 1]}
        return self.rig.driver.submit(Opcode.LAUNCH, body, context=self.context, stream=stream, writable_len=4096)

    def status(self, pending: Pending) -> Status:
        return self.rig.driver.wait(pending).status

    def release(self) -> None:
        body = {"function": self.functions["release"], "grid": [1, 1, 1], "block": [1, 1, 1]}
        self.rig.ok(Opcode.LAUNCH, body, context=self.context, stream=self.stream())

    def stream(self) -> int:
        """A stream that was not used before."""
        self.streams += 1
        return self.streams


@pytest.fixture
def vm(rig: Rig) -> Vm:
    return Vm(rig)


def settled(vm: Vm, *pending: Pending) -> None:
    """Ends the launches that are held, and asserts that they succeed."""
    vm.release()
    assert [vm.status(one) for one in pending] == [Status.OK] * len(pending)


def test_launches_of_a_stream_share_a_workspace(vm: Vm) -> None:
    pending = [vm.launch("held") for _ in range(20)]
    settled(vm, *pending)
    assert vm.used() == BYTES, "kept for later launches"


def test_streams_have_workspaces_of_their_own(vm: Vm) -> None:
    pending = [vm.launch("held", vm.stream()) for _ in range(3)]
    vm.rig.ok(Opcode.ALLOC, {"size": 4096}, context=vm.context)
    assert vm.used() == 3 * BYTES + 4096
    settled(vm, *pending)


def test_a_larger_launch_gets_a_larger_one(vm: Vm) -> None:
    pending = [vm.launch("held"), vm.launch("larger"), vm.launch("held")]
    vm.rig.ok(Opcode.ALLOC, {"size": 4096}, context=vm.context)
    assert vm.used() == 3 * BYTES + 4096
    settled(vm, *pending)


def test_kept_workspaces_give_way_to_allocations(vm: Vm) -> None:
    settled(vm, vm.launch("held"))
    vm.rig.ok(Opcode.ALLOC, {"size": QUOTA - vm.before}, context=vm.context)


def test_a_spoilt_workspace_is_not_kept(vm: Vm) -> None:
    assert vm.status(vm.launch("spoils")) is Status.OK
    assert vm.used() == 0
    pending = [vm.launch("held"), vm.launch("spoils"), vm.launch("held")]
    settled(vm, *pending)
    assert vm.used() == 0


@pytest.mark.parametrize("name", ["too_large", "endless"])
def test_a_launch_beyond_the_quota_is_refused(vm: Vm, name: str) -> None:
    reply = vm.rig.driver.wait(vm.launch(name))
    assert reply.status is Status.OUT_OF_MEMORY
    assert "bytes while it runs" in reply.text
    assert vm.used() == 0
    settled(vm, vm.launch("held"))


def test_quota_refuses_one_stream_and_leaves_the_others(vm: Vm) -> None:
    pending = [vm.launch("held", vm.stream()) for _ in range(QUOTA // BYTES)]
    assert vm.status(vm.launch("held", vm.stream())) is Status.OUT_OF_MEMORY
    settled(vm, *pending)


def test_a_call_has_a_workspace_too(vm: Vm) -> None:
    body = {"function": vm.functions["too_large"], "grid": [1, 1, 1], "block": [1, 1, 1]}
    reply = vm.rig.driver.request(Opcode.CALL, body, context=vm.context, writable_len=4096)
    assert reply.status is Status.OUT_OF_MEMORY
    assert "bytes while it runs" in reply.text
    body["function"] = vm.functions["held"]
    pending = vm.rig.driver.submit(Opcode.CALL, body, context=vm.context, writable_len=4096)
    settled(vm, pending)


def test_a_destroyed_context_gives_them_back(vm: Vm) -> None:
    pending = [vm.launch("held"), vm.launch("held", vm.stream())]
    assert vm.rig.cold(Opcode.CONTEXT_DESTROY, context=vm.context).status is Status.OK
    assert [vm.status(one) for one in pending] == [Status.CANCELLED] * 2
    context = vm.rig.context()
    vm.rig.ok(Opcode.ALLOC, {"size": QUOTA}, context=context)
    assert vm.rig.usage().memory_used_bytes == QUOTA
