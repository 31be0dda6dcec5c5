"""A worker gets its VM's region and nothing else of what the frontend shares."""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.frontend import RingSetup, SharedFile
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.protocol.conftest import GPA, UVA, Stage
from tests.protocol.conftest import REGION_BYTES as STAGE_REGION_BYTES
from vhost_backend.config.daemon import DaemonConfig, EngineConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker
from vhost_backend.worker_protocol import protocol
from virtio_proto.schema import Health, Opcode, Status

RAM_GPA, OTHER_GPA = 0, 0x20_0000_0000


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonThread]:
    vm = VmConfig(
        "a", vm_uuid("a"), tmp_path / "a", REGION_BYTES, engine=EngineConfig("null"), num_queues=4, sandbox=SANDBOX
    )
    config = DaemonConfig((vm,), cache=tmp_path / "cache")
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)) as daemon:
        yield daemon


@pytest.fixture
def others() -> Iterator[list[SharedFile]]:
    """Shared RAM as QEMU cuts it around a hole, one part as large as the region, and another device's region."""
    with ExitStack() as stack:

        def file(name: str, size: int) -> int:
            fd = os.memfd_create(name, os.MFD_CLOEXEC)
            stack.callback(os.close, fd)
            os.ftruncate(fd, size)
            return fd

        ram, other = file("ram", 4 * REGION_BYTES), file("other", REGION_BYTES)
        low = SharedFile(ram, 640 << 10, RAM_GPA, RAM_GPA)
        high = SharedFile(ram, REGION_BYTES, 2 * REGION_BYTES, 2 * REGION_BYTES, offset=2 * REGION_BYTES)
        yield [low, high, SharedFile(other, REGION_BYTES, OTHER_GPA, OTHER_GPA)]


def files_of(pid: int) -> set[str]:
    """Names of the memory files that a process and its descendants have mapped."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    mapped = set(re.findall(r"/memfd:(\w+) ", Path(f"/proc/{pid}/maps").read_text()))
    return mapped.union(*(files_of(int(child)) for child in children))


def worker_of(daemon: DaemonThread) -> int:
    pid = daemon.ask(lambda daemon: daemon.vms["a"].worker_pid)
    assert pid is not None
    return pid


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in a table"])
def test_worker_maps_the_region_and_no_other_shared_memory(
    daemon: DaemonThread, others: list[SharedFile], tmp_path: Path, at_once: bool
) -> None:
    with FakeVm(tmp_path / "a", num_queues=2, others=others, at_once=at_once) as vm:
        assert vm.driver.request(Opcode.NOP).status == Status.OK
        assert vm.driver.request(Opcode.NOP, queue=1).status == Status.OK
        worker = worker_of(daemon)
        assert files_of(worker) & {"region", "ram", "other"} == {"region"}
        os.kill(worker, signal.SIGKILL)
        vm.frontend.wait_for_config(lambda space: space.health == Health.READY and space.generation >= 2)
        assert vm.driver.request(Opcode.NOP).status == Status.OK
        assert files_of(worker_of(daemon)) & {"region", "ram", "other"} == {"region"}


def test_memory_of_another_device_stays_unmapped_while_the_region_moves(
    daemon: DaemonThread, others: list[SharedFile], tmp_path: Path
) -> None:
    with FakeVm(tmp_path / "a", others=others) as vm:
        assert vm.driver.request(Opcode.NOP).status == Status.OK
        vm.frontend.remove_memory(vm.file)
        vm.frontend.remove_memory(others[0])
        vm.frontend.add_memory(vm.file)
        assert vm.driver.request(Opcode.NOP).status == Status.OK
        assert files_of(worker_of(daemon)) & {"region", "ram", "other"} == {"region"}


# ---- refusals ------------------------------------------------------------------------------------


def test_ring_in_guest_ram_is_refused_and_says_what_to_do(
    stage: Stage, logs: io.StringIO, memory: SharedFile, ring: RingSetup
) -> None:
    other, _ = stage.attach("b")
    frontend, worker = stage.attach("a")
    frontend.start([ring], [replace(memory, size=memory.size // 2)])
    assert isinstance(worker.receive(), protocol.VringStart), "no memory is shared with the worker"
    (line,) = [line for line in logs.getvalue().splitlines() if "vring_not_served" in line]
    assert "the frontend shares 0.5 MiB, and no region; allowed: a whole file of 1 MiB" in line
    assert "-device ivshmem-plain" in line
    frontend.synchronise()
    other.synchronise()


def test_rings_in_two_files_are_refused(stage: Stage, logs: io.StringIO, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = stage.attach("a")
    fd = os.memfd_create("other", os.MFD_CLOEXEC)
    os.ftruncate(fd, STAGE_REGION_BYTES)
    shift = 1 << 40
    second = RingSetup(1, 64, ring.desc + shift, ring.avail + shift, ring.used + shift, None, None)
    frontend.start([ring, second], [memory, SharedFile(fd, STAGE_REGION_BYTES, GPA + shift, UVA + shift)])
    os.close(fd)
    tables: list[tuple[protocol.MemRegion, ...]] = []
    while len(tables) < 2:
        message = worker.receive()
        if isinstance(message, protocol.MemTable):
            tables.append(message.regions)
    assert tables == [(protocol.MemRegion(GPA, UVA, STAGE_REGION_BYTES, 0),), ()]
    assert "the rings lie in 2 shared files of 1 MiB each" in logs.getvalue()
