"""The states that a VM goes through, in order; each transition of the table is made by one of these tests."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.daemon import DaemonThread
from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.worker import WorkerDouble, WorkerHost
from tests.limits import HANGS_AFTER_S
from tests.protocol.conftest import Stage
from tests.protocol.test_daemon import running
from vhost_backend.config.daemon import DaemonConfig, VmConfig, vm_uuid
from vhost_backend.config.engine import EngineConfig, EngineName
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.gpus import Gpu, Survey
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.migration import MigrationError, MigrationReport
from vhost_backend.daemon.runstate import TABLE, Runstate, StateError
from vhost_backend.daemon.server import Daemon
from vhost_backend.daemon.supervisor import RestartPolicy
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.protocol import DaemonMessage
from virtio_proto.schema import Health

TIMEOUT_S: Final = HANGS_AFTER_S
IMPATIENT: Final = RestartPolicy(first_delay_s=0.001, longest_delay_s=0.002, failed_after=2)
A_GPU: Final = Gpu(0, "GPU-00000000-0000-0000-0000-000000000000", "GPU 0", "sm_90", 132, 1 << 37, 8, 8, 1 << 17)

QUICK: Final = Pace(period_s=0.005, late_s=0.01, shortest_s=HANGS_AFTER_S)

PATHS: Final = {
    "a session": "NO_FRONTEND STARTING READY DISCONNECTING NO_FRONTEND STARTING DISCONNECTING NO_FRONTEND CLOSED",
    "no engine": "NO_FRONTEND NO_ENGINE DISCONNECTING NO_FRONTEND",
    "a death": "NO_FRONTEND STARTING READY RECOVERING RECOVERING READY",
    "no recovery": "NO_FRONTEND STARTING READY RECOVERING DISCONNECTING NO_FRONTEND",
    "stillborn": "NO_FRONTEND STARTING FAILED FAILED READY",
    "fallback": "NO_FRONTEND STARTING FAILED FAILED RECOVERING READY",
    "a late answer": "NO_FRONTEND STARTING READY UNRESPONSIVE READY UNRESPONSIVE RECOVERING",
    "a reset of a silent worker": "NO_FRONTEND STARTING READY UNRESPONSIVE STARTING",
    "a silent worker at the end": "NO_FRONTEND STARTING READY UNRESPONSIVE DISCONNECTING NO_FRONTEND",
    "a reset": "NO_FRONTEND STARTING READY STARTING READY",
    "a reset of a recovering VM": "NO_FRONTEND STARTING READY RECOVERING STARTING READY",
    "a reset of a failed VM": "NO_FRONTEND STARTING READY RECOVERING FAILED STARTING FAILED DISCONNECTING NO_FRONTEND",
    "a migration that fails": "NO_FRONTEND STARTING READY MIGRATING READY",
    "a death in a migration": "NO_FRONTEND STARTING READY MIGRATING RECOVERING",
    "a reset in a migration": "NO_FRONTEND STARTING READY MIGRATING STARTING",
    "a disconnect in a migration": "NO_FRONTEND STARTING READY MIGRATING DISCONNECTING NO_FRONTEND",
    "an error at the end": "NO_FRONTEND STARTING DISCONNECTING CLOSED",
}
"""States that the VM "a" goes through, by the name of the story."""


def gone_through(logs: io.StringIO) -> str:
    """States of the VM "a" so far."""
    states = re.findall(r"state_changed .*\bnew=(\w+) .*\bvm=a\b", logs.getvalue())
    return " ".join(("NO_FRONTEND", *states))


def wait_for(daemon: DaemonThread, state: Runstate) -> None:
    while daemon.ask(lambda daemon: daemon.vms["a"].state.now) is not state:
        pass


def test_every_transition_of_the_table_is_made_by_a_test() -> None:
    made = {pair for path in PATHS.values() for pair in itertools.pairwise(path.split())}
    assert made == {(old.name, new.name) for old, row in TABLE.items() for new in row.leads_to}


def test_wrong_transition_fails_the_test_that_made_it(tmp_path: Path) -> None:
    """`DaemonThread` promises this to every test that uses it."""
    with WorkerHost(tmp_path) as workers:
        daemon = DaemonThread(config(tmp_path), workers.command)
        daemon.__enter__()
        daemon.ask(lambda daemon: daemon.vms["a"].state.enter(Runstate.READY))
        daemon.ask(lambda daemon: daemon.vms["a"].state.enter(Runstate.DISCONNECTING))
        with pytest.raises(StateError, match="from NO_FRONTEND to READY; allowed: STARTING, NO_ENGINE, CLOSED"):
            daemon.__exit__(None, None, None)


# ---- frontends -----------------------------------------------------------------------------------


def config(folder: Path, engine: EngineName = "cpu") -> DaemonConfig:
    return DaemonConfig((VmConfig("a", vm_uuid("a"), folder / "a", engine=EngineConfig(engine)),))


def test_states_while_frontends_come_and_go_and_the_daemon_ends(tmp_path: Path, logs: io.StringIO) -> None:
    with WorkerHost(tmp_path) as workers:
        with DaemonThread(config(tmp_path), workers.command) as daemon:
            with FakeFrontend.connect(tmp_path / "a") as frontend:
                workers.next().setup()
                wait_for(daemon, Runstate.READY)
                frontend.close()
            wait_for(daemon, Runstate.NO_FRONTEND)
            with FakeFrontend.connect(tmp_path / "a"):
                workers.next()  # never ready
            wait_for(daemon, Runstate.NO_FRONTEND)
        assert gone_through(logs) == PATHS["a session"]


def test_states_of_a_vm_without_its_engine(tmp_path: Path, logs: io.StringIO) -> None:
    with WorkerHost(tmp_path) as workers, DaemonThread(config(tmp_path, "cuda"), workers.command) as daemon:
        with FakeFrontend.connect(tmp_path / "a") as frontend:
            frontend.negotiate()
            frontend.wait_health(Health.FAILED)
            assert daemon.ask(lambda daemon: daemon.vms["a"].state.shown) == "failed"
        wait_for(daemon, Runstate.NO_FRONTEND)
        assert gone_through(logs) == PATHS["no engine"]


def test_states_after_an_error_while_a_frontend_disconnects(
    tmp_path: Path, logs: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory() -> None:
        raise OSError("no memory")

    with WorkerHost(tmp_path) as workers:
        daemon = DaemonThread(config(tmp_path), workers.command)
        daemon.__enter__()
        with FakeFrontend.connect(tmp_path / "a"):
            workers.next()
            monkeypatch.setattr("vhost_backend.daemon.rings.InflightMemory", no_memory)
        daemon.join()
        with pytest.raises(ExceptionGroup):
            daemon.__exit__(None, None, None)
    assert gone_through(logs) == PATHS["an error at the end"]


# ---- workers -------------------------------------------------------------------------------------


def test_states_while_workers_die(stage: Stage, logs: io.StringIO) -> None:
    frontend, worker = stage.attach()
    worker.die()
    stage.workers.next().die()
    stage.workers.next().setup()
    frontend.wait_for_config(lambda space: space.generation == 3)
    assert gone_through(logs) == PATHS["a death"]


def test_states_when_a_frontend_disconnects_without_a_worker(stage: Stage, logs: io.StringIO) -> None:
    frontend, worker = stage.attach()
    worker.die()
    stage.workers.next()  # never ready
    frontend.close()
    wait_for(stage.daemon, Runstate.NO_FRONTEND)
    assert gone_through(logs) == PATHS["no recovery"]


def test_states_when_workers_end_before_they_are_ready(make_stage: Callable[..., Stage], logs: io.StringIO) -> None:
    stage = make_stage(IMPATIENT)
    frontend = stage.connect()
    frontend.negotiate()
    for _ in range(3):
        stage.workers.next().die()
    stage.workers.next().setup()
    frontend.wait_health(Health.READY)
    assert gone_through(logs) == PATHS["stillborn"]


def silent(daemon: DaemonThread, workers: WorkerHost) -> tuple[WorkerDouble, protocol.Ping]:
    """A worker that has been asked and does not answer."""
    worker = workers.next()
    worker.setup()
    ping = worker.ping()
    wait_for(daemon, Runstate.UNRESPONSIVE)
    return worker, ping


def wake(daemon: Daemon) -> None:
    """Has the heartbeat of the VM "a" look again, as after a guest's kick."""
    frontend = daemon.vms["a"]._frontend
    assert frontend is not None
    frontend.slot._watch.wake()


def test_states_while_a_worker_is_late_and_silent(tmp_path: Path, logs: io.StringIO) -> None:
    with (
        WorkerHost(tmp_path) as workers,
        DaemonThread(config(tmp_path), workers.command, pace=QUICK) as daemon,
        FakeFrontend.connect(tmp_path / "a") as frontend,
    ):
        frontend.negotiate()
        worker, ping = silent(daemon, workers)
        frontend.wait_health(Health.RECOVERING)
        with pytest.raises(MigrationError, match="does not answer"):
            daemon.begin(lambda daemon: daemon.vms["a"].migrate(daemon.vms["a"].choice)).result(TIMEOUT_S)  # type: ignore[arg-type]
        worker.ack(ping)
        frontend.wait_health(Health.READY)
        daemon.ask(wake)
        worker.ping()
        wait_for(daemon, Runstate.UNRESPONSIVE)
        worker.die()
        wait_for(daemon, Runstate.RECOVERING)
        assert gone_through(logs) == PATHS["a late answer"]


def test_a_worker_that_never_answers_is_replaced(tmp_path: Path, logs: io.StringIO) -> None:
    pace = replace(QUICK, shortest_s=0.05, margin_s=-100.0)
    with (
        WorkerHost(tmp_path) as workers,
        DaemonThread(config(tmp_path), workers.command, pace=pace) as daemon,
        FakeFrontend.connect(tmp_path / "a"),
    ):
        workers.next().setup()
        workers.next()
        wait_for(daemon, Runstate.RECOVERING)
        assert "did not answer within 0.05 s" in logs.getvalue()


def test_states_when_a_device_with_a_silent_worker_is_reset(
    make_stage: Callable[..., Stage], memory: SharedFile, ring: RingSetup, logs: io.StringIO
) -> None:
    stage = make_stage(pace=QUICK)
    frontend, worker = running(stage, memory, ring)
    worker.ping()
    wait_for(stage.daemon, Runstate.UNRESPONSIVE)
    frontend.reset()
    wait_for(stage.daemon, Runstate.STARTING)
    assert gone_through(logs) == PATHS["a reset of a silent worker"]


def test_states_when_the_frontend_of_a_silent_worker_goes(tmp_path: Path, logs: io.StringIO) -> None:
    with WorkerHost(tmp_path) as workers, DaemonThread(config(tmp_path), workers.command, pace=QUICK) as daemon:
        with FakeFrontend.connect(tmp_path / "a"):
            silent(daemon, workers)
        wait_for(daemon, Runstate.NO_FRONTEND)
        assert gone_through(logs) == PATHS["a silent worker at the end"]


def test_states_of_a_vm_that_falls_back_to_the_cpu_engine(tmp_path: Path, logs: io.StringIO) -> None:
    async def one_gpu(_driver: str | None, _device: str | None) -> Survey:
        return Survey((A_GPU,), "13.0")

    engines = Engines(one_gpu, lambda *_: None)
    policy = replace(IMPATIENT, failed_after=1)
    with (
        WorkerHost(tmp_path) as workers,
        DaemonThread(config(tmp_path, "auto"), workers.command, policy, engines=engines),
        FakeFrontend.connect(tmp_path / "a") as frontend,
    ):
        frontend.negotiate()
        for _ in range(3):
            workers.next().die()
        assert workers.next().setup().engine.kind == "cpu"
        frontend.wait_health(Health.READY)
        assert gone_through(logs) == PATHS["fallback"]


# ---- guests --------------------------------------------------------------------------------------


def test_states_when_a_guest_resets_the_device(
    stage: Stage, memory: SharedFile, ring: RingSetup, logs: io.StringIO
) -> None:
    frontend, _ = running(stage, memory, ring)
    frontend.reset()
    stage.workers.next().setup()
    frontend.wait_for_config(lambda space: space.generation == 2)
    assert gone_through(logs) == PATHS["a reset"]


def test_states_when_a_recovering_device_is_reset(
    stage: Stage, memory: SharedFile, ring: RingSetup, logs: io.StringIO
) -> None:
    frontend, worker = running(stage, memory, ring)
    worker.die()
    stage.workers.next()  # replaced by the reset
    frontend.reset()
    stage.workers.next().setup()
    frontend.wait_health(Health.READY)
    assert gone_through(logs) == PATHS["a reset of a recovering VM"]


def test_states_when_a_failed_device_is_reset(
    make_stage: Callable[..., Stage], memory: SharedFile, ring: RingSetup, logs: io.StringIO
) -> None:
    stage = make_stage(IMPATIENT)
    frontend, worker = running(stage, memory, ring)
    worker.die()
    stage.workers.next().die()
    stage.workers.next()  # replaced by the reset; the new one fails as well
    frontend.reset()
    frontend.wait_health(Health.FAILED)
    frontend.close()
    wait_for(stage.daemon, Runstate.NO_FRONTEND)
    assert gone_through(logs) == PATHS["a reset of a failed VM"]


# ---- migrations ----------------------------------------------------------------------------------


@dataclass
class Scene:
    """A migration whose first worker has just been told to hold the guest's requests."""

    stage: Stage
    frontend: FakeFrontend
    first: WorkerDouble
    hold: DaemonMessage
    result: Future[MigrationReport]

    def end(self) -> str:
        """The text of the failed migration."""
        report = self.result.result(TIMEOUT_S)
        assert report.state == "failed"
        return report.text


@pytest.fixture
def scene(stage: Stage, memory: SharedFile, ring: RingSetup) -> Scene:
    frontend, first = running(stage, memory, ring)

    async def migrate(daemon: Daemon) -> MigrationReport:
        vm = daemon.vms["a"]
        assert vm.choice is not None
        return await vm.migrate(replace(vm.choice, pes=1))

    result = stage.daemon.begin(migrate)
    second = stage.workers.next()
    second.setup()
    second.expect(protocol.MemTable)
    hold = first.receive()
    assert stage.daemon.ask(lambda daemon: daemon.vms["a"].state.shown) == "migrating"
    return Scene(stage, frontend, first, hold, result)


def test_states_when_a_migration_fails(scene: Scene, logs: io.StringIO) -> None:
    scene.first.ack(scene.hold, error="3 requests are in flight")
    scene.end()
    assert gone_through(logs) == PATHS["a migration that fails"]


def test_states_when_the_first_worker_dies_in_a_migration(scene: Scene, logs: io.StringIO) -> None:
    scene.first.die()
    assert "first worker died" in scene.end()
    assert gone_through(logs) == PATHS["a death in a migration"]


def test_states_when_the_device_is_reset_in_a_migration(scene: Scene, logs: io.StringIO) -> None:
    scene.frontend.reset()
    assert "reset" in scene.end()
    assert gone_through(logs) == PATHS["a reset in a migration"]


def test_states_when_the_frontend_disconnects_in_a_migration(scene: Scene, logs: io.StringIO) -> None:
    scene.frontend.close()
    assert "disconnected" in scene.end()
    wait_for(scene.stage.daemon, Runstate.NO_FRONTEND)
    assert gone_through(logs) == PATHS["a disconnect in a migration"]
