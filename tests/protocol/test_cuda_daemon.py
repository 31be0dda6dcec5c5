"""The daemon and GPUs: choice of an engine, settings of the worker, permitted programs. Workers are doubles."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_caller import ApiCaller
from tests.fakes.api_client import ApiRefusedError
from tests.fakes.daemon import DaemonThread
from tests.fakes.frontend import FakeFrontend
from tests.fakes.worker import WorkerDouble, WorkerHost
from vhost_backend.config.daemon import ControlConfig, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.config.engine import EngineName
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.gpus import Gpu, Survey
from vhost_backend.daemon.server import Daemon
from vhost_backend.worker_protocol import protocol
from virtio_proto import schema
from virtio_proto.schema import EngineKind, Health, ProgramKind
from virtio_proto.yaml_values import Scalar

UUIDS = [f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in range(2)]
TWO = Survey(
    tuple(Gpu(i, uuid, f"GPU {i}", "sm_90", 132, 1 << 37, 8, 8, 1 << 17) for i, uuid in enumerate(UUIDS)), "13.0"
)
NONE = Survey(problem="libcuda.so.1 not found: install NVIDIA's driver")


class Stage:
    """A daemon on a host with these GPUs."""

    def __init__(
        self,
        folder: Path,
        found: Survey,
        vms: tuple[VmConfig, ...],
        unhooked: str = "",
        control: ControlConfig | None = None,
    ) -> None:
        async def survey(_driver: str | None, _device: str | None) -> Survey:
            return found

        self._folder = folder
        self.opened: list[FakeFrontend] = []
        self.workers = WorkerHost(folder)
        self.engines = Engines(survey, lambda *_: None, has_control=bool(unhooked), hooks_problem=lambda *_: unhooked)
        self.daemon = DaemonThread(
            DaemonConfig(vms, control=control or ControlConfig()), self.workers.command, engines=self.engines
        )
        self.daemon.__enter__()

    def attach(self, name: str) -> FakeFrontend:
        frontend = FakeFrontend.connect(self._folder / name)
        self.opened.append(frontend)
        frontend.negotiate()
        return frontend

    def set_up(self, name: str) -> tuple[protocol.Setup, WorkerDouble]:
        frontend = self.attach(name)
        worker = self.workers.next()
        setup = worker.setup()
        frontend.wait_health(Health.READY)
        return setup, worker

    def close(self) -> None:
        for frontend in self.opened:
            frontend.close()
        self.daemon.__exit__(None, None, None)
        self.workers.__exit__(None, None, None)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    stages: list[Stage] = []

    def make_stage(found: Survey, *vms: VmConfig, unhooked: str = "", control: ControlConfig | None = None) -> Stage:
        stages.append(Stage(tmp_path, found, vms, unhooked, control))
        return stages[-1]

    yield make_stage
    for stage in stages:
        stage.close()


@pytest.fixture
def vm(tmp_path: Path) -> Callable[..., VmConfig]:
    def make_vm(name: str, kind: EngineName, pes: int | None = None, **options: Scalar) -> VmConfig:
        engine, quota = EngineConfig(kind, options), QuotaConfig(pes=pes)
        return VmConfig(name, vm_uuid(name), tmp_path / name, engine=engine, quota=quota, num_queues=4)

    return make_vm


def space_of(frontend: FakeFrontend) -> Any:
    return schema.CONFIG.construct.parse(frontend.config_read())


def load(worker: WorkerDouble, kind: ProgramKind) -> protocol.Program:
    return worker.compile(b"a program", protocol.Compile(1, 0, kind, (), 0))


def test_gpus_of_the_host_are_logged_once(
    make: Callable[..., Stage], vm: Callable[..., VmConfig], logs: io.StringIO
) -> None:
    stage = make(TWO, vm("a", "cuda"), vm("b", "auto"))
    stage.set_up("a")
    stage.set_up("b")
    (line,) = (line for line in logs.getvalue().splitlines() if "gpus_found" in line)
    assert "['0: GPU 0', '1: GPU 1']" in line
    assert "driver=13.0" in line


def test_worker_gets_the_gpu_and_its_share_as_settings(make: Callable[..., Stage], vm: Callable[..., VmConfig]) -> None:
    stage = make(TWO, vm("a", "cuda", 48, device=1, heap=1 << 20))
    setup, _ = stage.set_up("a")
    assert setup.engine == protocol.EngineSetup("cuda", {"device": UUIDS[1], "heap": 1 << 20})
    assert setup.quota.pes == 48


def test_workers_of_a_gpu_have_a_gate_and_others_none(make: Callable[..., Stage], vm: Callable[..., VmConfig]) -> None:
    stage = make(TWO, vm("a", "cuda"), vm("b", "cpu"))
    assert stage.set_up("a")[0].gate
    assert not stage.set_up("b")[0].gate


def test_turns_follow_the_present_weight(make: Callable[..., Stage], vm: Callable[..., VmConfig]) -> None:
    stage = make(TWO, vm("a", "cuda", device=0))
    stage.set_up("a")

    def weigh(daemon: Daemon) -> tuple[int, int]:
        (member,) = stage.engines.gates.turns(UUIDS[0]).members
        before, config = member.weight(), daemon.vms["a"].config
        assert daemon.vms["a"].change_limits(replace(config, quota=replace(config.quota, weight=50)))
        return before, member.weight()

    assert stage.daemon.ask(weigh) == (100, 50)


def test_a_worker_that_ends_leaves_its_place(make: Callable[..., Stage], vm: Callable[..., VmConfig]) -> None:
    stage = make(TWO, vm("a", "cuda", device=0))
    _, worker = stage.set_up("a")
    (first,) = stage.engines.gates.turns(UUIDS[0]).members
    worker.die()
    assert stage.workers.next().setup().gate
    (second,) = stage.daemon.ask(lambda _: stage.engines.gates.turns(UUIDS[0]).members)
    assert second is not first


def test_vm_without_a_quota_gets_all_of_its_gpu(make: Callable[..., Stage], vm: Callable[..., VmConfig]) -> None:
    stage = make(TWO, vm("a", "auto"))
    setup, _ = stage.set_up("a")
    assert (setup.engine.kind, setup.quota.pes) == ("cuda", 132)


def test_configuration_space_shows_the_engine_and_its_share(
    make: Callable[..., Stage], vm: Callable[..., VmConfig], logs: io.StringIO
) -> None:
    """The worker double reports three processing elements, whatever was asked for."""
    stage = make(TWO, vm("a", "cuda", 48))
    frontend = stage.attach("a")
    assert (space_of(frontend).engine_kind, space_of(frontend).quota_pes) == (EngineKind.CUDA, 48)
    stage.workers.next().setup()
    frontend.wait_health(Health.READY)
    assert space_of(frontend).quota_pes == 3
    ready = next(line for line in logs.getvalue().splitlines() if "worker_ready" in line)
    assert "asked=48" in ready
    assert "pes=3" in ready


def test_vms_are_spread_over_gpus_and_shares_are_freed(make: Callable[..., Stage], vm: Callable[..., VmConfig]) -> None:
    """When "a" comes back, its GPU is the emptier one; if its share were still counted, it would be the fuller one."""
    stage = make(TWO, vm("a", "cuda", 64), vm("b", "cuda", 32), vm("c", "cuda", 8))
    devices = [stage.set_up(name)[0].engine.options["device"] for name in "abc"]
    assert devices == [UUIDS[0], UUIDS[1], UUIDS[1]]
    stage.opened[0].close()
    assert stage.set_up("a")[0].engine.options["device"] == UUIDS[0]


def test_auto_without_a_gpu_computes_on_the_cpu_and_says_why(
    make: Callable[..., Stage], vm: Callable[..., VmConfig], logs: io.StringIO
) -> None:
    stage = make(NONE, vm("a", "auto", binaries=True))
    setup, _ = stage.set_up("a")
    assert setup.engine == protocol.EngineSetup("cpu", {})
    chosen = next(line for line in logs.getvalue().splitlines() if "engine_chosen" in line)
    assert "libcuda.so.1 not found" in chosen
    assert "engine=cpu" in chosen


def test_vm_that_needs_a_missing_gpu_fails_and_others_serve(
    make: Callable[..., Stage], vm: Callable[..., VmConfig], logs: io.StringIO
) -> None:
    stage = make(NONE, vm("a", "cuda"), vm("b", "cpu"))
    failed = stage.attach("a")
    space = space_of(failed)
    assert (space.health, space.engine_kind) == (Health.FAILED, EngineKind.CUDA)
    stage.set_up("b")
    assert space_of(failed).health == Health.FAILED
    complaint = next(line for line in logs.getvalue().splitlines() if "engine_unavailable" in line)
    assert "libcuda.so.1 not found: install NVIDIA's driver" in complaint
    assert any("warning" in line and "gpus_found" in line for line in logs.getvalue().splitlines())


def test_missing_hooks_are_warned_of_once_for_a_vm(
    make: Callable[..., Stage], vm: Callable[..., VmConfig], logs: io.StringIO
) -> None:
    """One warning, however many programs and sessions the VM has."""
    stage = make(TWO, vm("a", "cuda"), unhooked="no ptxas for nvrtc of CUDA 13.0")
    for _ in range(2):
        _, worker = stage.set_up("a")
        assert load(worker, ProgramKind.CUDA_SOURCE).ok
        stage.opened.pop().close()
    (line,) = (line for line in logs.getvalue().splitlines() if "programs_without_hooks" in line)
    assert "warning" in line
    assert "no ptxas for nvrtc of CUDA 13.0" in line


def test_vm_that_needs_missing_hooks_fails(
    make: Callable[..., Stage], vm: Callable[..., VmConfig], logs: io.StringIO
) -> None:
    stage = make(TWO, vm("a", "cuda", hooks="on"), unhooked="no ptxas for nvrtc of CUDA 13.0")
    assert space_of(stage.attach("a")).health == Health.FAILED
    (line,) = (line for line in logs.getvalue().splitlines() if "engine_unavailable" in line)
    assert "'hooks: on' cannot be had: no ptxas for nvrtc of CUDA 13.0" in line


@pytest.mark.parametrize("kind", [ProgramKind.PTX, ProgramKind.CUBIN, ProgramKind.FATBIN])
def test_binary_is_refused_unless_the_configuration_allows_it(
    make: Callable[..., Stage], vm: Callable[..., VmConfig], kind: ProgramKind
) -> None:
    stage = make(TWO, vm("a", "cuda"), vm("b", "cuda", binaries=True))
    refused = load(stage.set_up("a")[1], kind)
    assert not refused.ok
    assert f"may not load a {kind.name}" in refused.log
    assert "'binaries: true'" in refused.log
    assert load(stage.set_up("b")[1], kind).ok


def test_source_needs_no_permission(make: Callable[..., Stage], vm: Callable[..., VmConfig]) -> None:
    stage = make(TWO, vm("a", "cuda"))
    assert load(stage.set_up("a")[1], ProgramKind.CUDA_SOURCE).ok


def test_limits_of_a_gpu_change_but_for_its_partition_and_pool(
    make: Callable[..., Stage], vm: Callable[..., VmConfig]
) -> None:
    """The worker's SMs, and the size of the pool that it takes memory from, are what they were at its start."""
    mine = vm("a", "cuda", 48)
    stage = make(TWO, mine)
    setup, worker = stage.set_up("a")

    def change(**limits: Any) -> bool:
        wanted = replace(mine, quota=replace(mine.quota, **limits))
        return stage.daemon.ask(lambda daemon: daemon.vms["a"].change_limits(wanted))

    most = setup.quota.memory_bytes
    assert not change(pes=47)
    assert not change(memory_bytes=most + 1)
    assert change(pes=47, memory_bytes=most // 2, contexts=9)
    first, second = worker.expect(protocol.Limits), worker.expect(protocol.Limits)
    assert (first.quota.memory_bytes, second.quota.memory_bytes) == (most, most // 2)
    assert (second.quota.pes, second.max_contexts) == (3, 9)  # the elements that the double says it has
    assert change(memory_bytes=most, contexts=9)
    raised, announced = worker.expect(protocol.Limits), worker.expect(protocol.Limits)
    assert (raised.quota.memory_bytes, announced.allotment) == (most, raised.allotment + 1)


def test_migrations_of_a_vm_on_a_gpu_are_refused_when_they_are_asked_for(
    make: Callable[..., Stage], vm: Callable[..., VmConfig], tmp_path: Path
) -> None:
    stage = make(TWO, vm("a", "cuda", device=0), control=ControlConfig(socket=tmp_path / "control"))
    stage.set_up("a")
    refused = "VMs on the engine cuda cannot be migrated yet; allowed: VMs on the engines cpu and null"
    with ApiCaller(tmp_path / "control") as caller:
        for verb, fields in (
            ("migrate", {"vm": "a", "gpu": "1"}),
            ("migrate", {"vm": "a", "gpu": "7"}),
            ("migrate", {"vm": "a", "pes": "0-3"}),
            ("confine", {"vm": "a", "pes": "0-3"}),
            ("set_policies", {"policies": [{"name": "p", "action": "migrate"}]}),
        ):
            with pytest.raises(ApiRefusedError, match=refused):
                caller.ask(verb, **fields)
        assert caller.ask("migrations")["migrations"] == []
        assert caller.ask("balance")["moves"] == []
