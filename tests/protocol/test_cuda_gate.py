"""VMs that share a GPU take turns: real workers in their sandboxes on one fake GPU, and the daemon's gate."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes import attached
from tests.fakes.api_caller import ApiCaller
from tests.fakes.daemon import DaemonThread
from tests.fakes.vm import FakeVm
from tests.protocol.cuda_host import SOURCE, TEXT_BYTES, CudaGuest, Settings, cuda_daemon, driver_of
from tests.protocol.kept_vgcd import kept_vgcd
from tests.protocol.worker_rig import needs_walls
from vhost_backend.daemon.gpu_gate import DRAIN_NS, GpuTime
from virtio_proto.schema import Opcode, Status

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")

SLOW: Final = b'extern "C" __global__ void slow(unsigned *data, unsigned step) { *data += step; }'
"""The fake driver's kernel of this name takes 5 ms."""

SLOW_NS: Final = 5_000_000
LAUNCHES: Final = 40
DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class Guest:
    """Guest that launches `slow`."""

    cuda: CudaGuest
    function: int
    data: int

    @classmethod
    def of(cls, vm: FakeVm) -> Guest:
        cuda = CudaGuest(vm)
        assert cuda.load(SLOW).status == Status.OK
        found = cuda.ok(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": 4}, b"slow").value
        return cls(cuda, found, cuda.alloc(bytes(4)))

    def launch(self) -> Any:
        """Submits a launch, which adds one to the guest's number."""
        return submit(self.cuda, self.function, struct.pack("<QI", self.data, 1))

    def done(self, launch: Any) -> None:
        assert self.cuda.vm.driver.wait(launch).status == Status.OK

    @property
    def number(self) -> int:
        return int(struct.unpack("<I", self.cuda.read(self.data, 4))[0])


def submit(guest: CudaGuest, function: int, params: bytes = b"") -> Any:
    body = {"function": function, "grid": [1, 1, 1], "block": [1, 1, 1], "param_len": len(params)}
    return guest.vm.driver.submit(Opcode.LAUNCH, body, params, context=guest.context, writable_len=TEXT_BYTES)


def compete(guests: Sequence[Guest]) -> None:
    """Has all guests launch at the same time, each `DEPTH` ahead, `LAUNCHES` in all."""
    pending: list[deque[Any]] = [deque() for _ in guests]
    for _ in range(LAUNCHES):
        for guest, queue in zip(guests, pending, strict=True):
            queue.append(guest.launch())
            if len(queue) > DEPTH:
                guest.done(queue.popleft())
    for guest, queue in zip(guests, pending, strict=True):
        for launch in queue:
            guest.done(launch)


@contextmanager
def two_vms(folder: Path, *settings: Settings) -> Iterator[tuple[DaemonThread, FakeVm, FakeVm]]:
    with (
        cuda_daemon(folder, *settings) as daemon,
        FakeVm(folder / settings[0].name) as first,
        FakeVm(folder / settings[1].name) as second,
    ):
        yield daemon, first, second


def gpu_time(daemon: DaemonThread, name: str) -> GpuTime:
    return daemon.ask(lambda asked: asked.vms[name].gpu_time)


def test_vms_at_work_take_turns_and_all_work_is_done(tmp_path: Path) -> None:
    with two_vms(tmp_path, Settings("a"), Settings("b")) as (daemon, *vms):
        guests = [Guest.of(vm) for vm in vms]
        compete(guests)
        assert [guest.number for guest in guests] == [LAUNCHES, LAUNCHES]
        for name in ("a", "b"):
            time = gpu_time(daemon, name)
            assert time.held_ns > 0
            assert 0 < time.shared_ns <= time.used_ns
            assert time.shared_ns < time.shared_of_ns


@needs_walls
def test_vms_take_turns_after_their_daemon_was_replaced(tmp_path: Path) -> None:
    library = driver_of(tmp_path)
    engine = f"{{kind: cuda, options: {{driver: {library}}}}}"
    other = f"  b: {{socket: {tmp_path}/b, engine: {engine}, num_queues: 1, quota: {{pes: 48, memory: 16M}}}}\n"
    with (
        kept_vgcd(tmp_path, other, engine=engine, more=f"control: {{socket: {tmp_path}/control}}\n") as host,
        FakeVm(tmp_path / "a", num_queues=4, region_bytes=attached.REGION_BYTES) as first,
        FakeVm(tmp_path / "b", region_bytes=attached.REGION_BYTES) as second,
    ):
        guests = [Guest.of(vm) for vm in (first, second)]

        def held_ns() -> list[int]:
            with ApiCaller(tmp_path / "control") as caller:
                return [vm["gpu_held_ns"] for vm in caller.ask("topology")["vms"]]

        compete(guests)
        for number in (1, 2):
            host.kill_daemon()
            host.wait_for_takeovers(2 * number)
            before = held_ns()
            compete(guests)
            assert all(now > earlier for now, earlier in zip(held_ns(), before, strict=True))
        assert host.count("gpu_gate_missing") == 0
        assert [guest.number for guest in guests] == [3 * LAUNCHES] * 2
        assert host.count("worker_started") == 2


def test_a_vm_alone_on_the_gpu_is_not_held(tmp_path: Path) -> None:
    with two_vms(tmp_path, Settings("a"), Settings("b")) as (daemon, first, second):
        guest, _idle = Guest.of(first), Guest.of(second)
        for launch in [guest.launch() for _ in range(DEPTH)]:
            guest.done(launch)
        busy, idle = gpu_time(daemon, "a"), gpu_time(daemon, "b")
        assert busy.used_ns >= DEPTH * SLOW_NS
        assert busy.held_ns == 0
        assert idle.used_ns == 0


def test_a_vm_goes_on_after_the_worker_that_it_waits_for_is_gone(tmp_path: Path) -> None:
    with two_vms(tmp_path, Settings("dying", deadline_ns=3 * DRAIN_NS), Settings("b")) as (daemon, first, second):
        dying, other = CudaGuest(first), Guest.of(second)
        assert dying.load(SOURCE).status == Status.OK
        found = dying.ok(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": 4}, b"hang").value
        hang = submit(dying, found)
        pending = [other.launch() for _ in range(DEPTH)]
        assert dying.vm.driver.wait(hang).status == Status.TIMEOUT
        for launch in [*pending, *(other.launch() for _ in range(DEPTH))]:
            other.done(launch)
        assert other.number == 2 * DEPTH
        assert gpu_time(daemon, "dying").used_ns > 0
