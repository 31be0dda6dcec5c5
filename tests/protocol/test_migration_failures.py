"""A migration in which a worker fails, lies or dies: the VM goes on, and the report says what happened."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace

import pytest

from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.worker import WorkerDouble
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.conftest import Stage
from tests.protocol.test_daemon import running, told, write_inflight
from vhost_backend.daemon.migration import MigrationReport
from vhost_backend.daemon.server import Daemon
from vhost_backend.vhost_user.messages import Request
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.migration_messages import (
    Measured,
    MigrationHold,
    MigrationLoad,
    MigrationMeasure,
    MigrationRelease,
    MigrationSave,
    Saved,
)
from vhost_backend.worker_protocol.protocol import Ready, VringCall, VringStart
from virtio_proto.schema import Health

TIMEOUT_S = ANSWERS_WITHIN_S


@dataclass
class Scene:
    """A VM with one running ring, two worker doubles, and a migration from the first to the second."""

    stage: Stage
    frontend: FakeFrontend
    ring: RingSetup
    first: WorkerDouble
    second: WorkerDouble
    migration: Future[MigrationReport]

    def hold(self) -> None:
        self.first.expect(MigrationHold)

    def measure(self, memory: int = 4096, other: int = 4096) -> None:
        message = self.first.receive()
        assert isinstance(message, MigrationMeasure)
        self.first.send(Measured(memory, other))
        self.first.ack(message)

    def save(self) -> None:
        message = self.first.receive()
        assert isinstance(message, MigrationSave)
        assert os.fstat(self.first.fds[-1]).st_size == 8192
        self.first.send(Saved(17))
        self.first.ack(message)

    def until_load(self) -> MigrationLoad:
        """Goes through the migration up to the second worker's `MigrationLoad`, which is not answered."""
        self.hold()
        self.measure()
        self.save()
        message = self.second.receive()
        assert isinstance(message, MigrationLoad)
        return message

    def failed(self) -> str:
        """The text of the failed migration; the first worker was released, and serves."""
        self.first.expect(MigrationRelease)
        text = self.failed_at_rest()
        self.assert_first_serves()
        return text

    def failed_after_others(self) -> str:
        """The text of the failed migration, as `failed`, after messages that were sent before its end."""
        while not isinstance(self.first.receive(), MigrationRelease):
            pass
        return self.failed_at_rest()

    def failed_at_rest(self) -> str:
        report = self.migration.result(TIMEOUT_S)
        assert report.state == "failed"
        return report.text

    def assert_first_serves(self) -> None:
        self.frontend.set_event(Request.SET_VRING_CALL, 0, self.ring.call_fd)
        assert self.first.expect(VringCall).index == 0
        assert self.stage.daemon.ask(lambda daemon: daemon.vms["a"].migration) is None
        assert not self.frontend.config_change_is_pending()


def is_gone(worker: WorkerDouble) -> bool:
    """Returns when the daemon has hung up."""
    try:
        while True:
            worker.receive()
    except EOFError:
        return True


@pytest.fixture
def begin(stage: Stage, memory: SharedFile, ring: RingSetup) -> Callable[[], Scene]:
    """Starts a migration; the second worker has not been set up yet."""

    def begin() -> Scene:
        frontend, first = running(stage, memory, ring)

        async def move(daemon: Daemon) -> MigrationReport:
            vm = daemon.vms["a"]
            assert vm.choice is not None
            return await vm.migrate(replace(vm.choice, pes=1))

        migration = stage.daemon.begin(move)
        write_inflight(first, 0, 0)
        return Scene(stage, frontend, ring, first, stage.workers.next(), migration)

    return begin


@pytest.fixture
def scene(begin: Callable[[], Scene]) -> Scene:
    """A migration whose second worker is ready and has mapped the memory."""
    scene = begin()
    scene.second.setup()
    scene.second.expect(protocol.MemTable)
    return scene


# ---- success -------------------------------------------------------------------------------------


def test_the_second_worker_serves_where_the_first_has_stopped(scene: Scene) -> None:
    """Same generation, same addresses, no recovery, and no notice to the guest."""
    load = scene.until_load()
    write_inflight(scene.first, 0, 5)
    scene.second.ack(load)
    start = scene.second.expect(VringStart)
    assert (start.base, start.recover, start.enabled) == (5, False, True)
    report = scene.migration.result(TIMEOUT_S)
    assert (report.state, report.bytes, report.text) == ("done", 17, "")
    assert not scene.frontend.config_change_is_pending()
    with pytest.raises(EOFError):
        scene.first.receive()


def test_both_workers_get_the_same_arena_and_generation(begin: Callable[[], Scene]) -> None:
    scene = begin()
    setup = scene.second.setup()
    assert setup.generation == 1
    assert setup.quota.pes == 1
    assert setup.arena.size >= 1 << 40
    scene.second.expect(protocol.MemTable)
    load = scene.until_load()
    scene.second.ack(load)
    scene.second.expect(VringStart)
    assert scene.migration.result(TIMEOUT_S).ok
    scene.second.die()
    third = scene.stage.workers.next()
    assert third.setup().generation == 2
    assert told(third, recover=True).index == 0


def test_heads_that_the_first_worker_leaves_are_answered_by_the_second(scene: Scene) -> None:
    """The first worker reported nothing in flight: heads that it left there are lost, and answered once."""
    load = scene.until_load()
    write_inflight(scene.first, 0, 5)
    os.pwrite(scene.first.fds[0], b"\x01", 64 + 32)
    scene.second.ack(load)
    assert scene.second.expect(VringStart).recover
    assert scene.migration.result(TIMEOUT_S).ok


# ---- the second worker ---------------------------------------------------------------------------


def test_a_second_worker_that_never_gets_ready_fails_the_migration(begin: Callable[[], Scene]) -> None:
    scene = begin()
    setup = scene.second.receive()
    scene.second.ack(setup, error="no such device")
    assert "no such device" in scene.failed_at_rest()
    scene.assert_first_serves()


def test_a_second_worker_that_dies_before_it_is_ready_fails_the_migration(begin: Callable[[], Scene]) -> None:
    scene = begin()
    scene.second.die("abort")
    assert "second worker" in scene.failed_at_rest()
    scene.assert_first_serves()


def test_a_second_worker_with_other_features_fails_the_migration(begin: Callable[[], Scene]) -> None:
    scene = begin()
    scene.second.expect(protocol.Setup)
    scene.second.send(Ready("fake engine", 1, 7, "none: a test double"))
    assert "features 0x7" in scene.failed_at_rest()
    scene.assert_first_serves()


def test_a_second_worker_that_cannot_map_the_memory_fails_the_migration(begin: Callable[[], Scene]) -> None:
    scene = begin()
    scene.second.setup()
    scene.second.ack(scene.second.receive(), error="taken")
    assert "could not map the memory: taken" in scene.failed_at_rest()
    scene.assert_first_serves()


def test_a_second_worker_that_refuses_the_state_fails_the_migration(scene: Scene) -> None:
    scene.second.ack(scene.until_load(), error="the manifest is malformed")
    assert "could not load: the manifest is malformed" in scene.failed()


def test_a_second_worker_that_dies_while_it_loads_fails_the_migration(scene: Scene) -> None:
    scene.until_load()
    scene.second.die("abort")
    assert "second worker was killed by SIGABRT" in scene.failed()


def test_a_second_worker_that_breaks_the_protocol_fails_the_migration(scene: Scene) -> None:
    scene.hold()
    scene.second.send_raw(b"{}")
    assert "second worker" in scene.failed_after_others()
    scene.assert_first_serves()


def test_a_second_worker_that_dies_once_it_serves_is_replaced_as_usual(scene: Scene) -> None:
    scene.second.ack(scene.until_load())
    assert isinstance(scene.second.receive(), VringStart)
    scene.second.die()
    third = scene.stage.workers.next()
    assert third.setup().generation == 2
    told(third, recover=True)
    assert scene.migration.result(TIMEOUT_S).ok
    scene.frontend.wait_for_config(lambda space: space.generation == 2 and space.health == Health.READY)


# ---- the first worker ----------------------------------------------------------------------------


def test_a_first_worker_whose_requests_do_not_end_fails_the_migration(scene: Scene) -> None:
    scene.first.ack(scene.first.receive(), error="3 requests are in flight")
    assert "could not hold: 3 requests are in flight" in scene.failed()


@pytest.mark.parametrize(("device_bytes", "other_bytes"), [(1 << 40, 0), (0, 1 << 40)])
def test_a_first_worker_that_claims_more_than_the_quota_fails_the_migration(
    scene: Scene, device_bytes: int, other_bytes: int
) -> None:
    scene.hold()
    scene.measure(device_bytes, other_bytes)
    assert "the VM's quota" in scene.failed()


def test_a_first_worker_that_skips_measuring_fails_the_migration(scene: Scene) -> None:
    scene.hold()
    scene.first.expect(MigrationMeasure)
    assert "without measured" in scene.failed()


def test_a_first_worker_that_cannot_save_fails_the_migration(scene: Scene) -> None:
    scene.hold()
    scene.measure()
    scene.first.ack(scene.first.receive(), error="not this engine")
    assert "could not save: not this engine" in scene.failed()


def test_a_first_worker_that_dies_is_replaced_and_recovered_from(scene: Scene) -> None:
    scene.hold()
    scene.first.die()
    assert "first worker died" in scene.failed_at_rest()
    third = scene.stage.workers.next()
    assert third.setup().generation == 2
    assert told(third, recover=True).index == 0
    scene.frontend.wait_health(Health.READY)
    assert is_gone(scene.second)


# ---- the frontend --------------------------------------------------------------------------------


def test_a_change_of_the_region_fails_the_migration(scene: Scene, memory: SharedFile) -> None:
    scene.hold()
    scene.frontend.remove_memory(memory)
    assert "frontend changed the guest's region" in scene.failed_after_others()
    assert scene.first.expect(protocol.MemTable).regions == ()


def test_a_call_eventfd_swapped_during_a_migration_reaches_the_worker_after_it(scene: Scene) -> None:
    scene.hold()
    scene.frontend.set_event(Request.SET_VRING_CALL, 0, scene.ring.call_fd)
    assert "frontend changed vring 0" in scene.failed_after_others()
    assert scene.first.expect(VringCall).index == 0


def test_messages_that_concern_no_worker_do_not_disturb_a_migration(scene: Scene, memory: SharedFile) -> None:
    scene.hold()
    scene.frontend.config_read()
    ram = replace(memory, size=memory.size // 2, gpa=memory.gpa << 1, uva=memory.uva << 1)
    scene.frontend.add_memory(ram)
    scene.measure()
    scene.save()
    scene.second.ack(scene.second.receive())
    scene.second.expect(VringStart)
    assert scene.migration.result(TIMEOUT_S).ok
