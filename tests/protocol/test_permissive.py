"""``sandbox: permissive``: system calls that the filter would deny are made, and the daemon's log names them."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.daemon import DaemonThread
from tests.fakes.frontend import FakeFrontend
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.fakes.worker import WorkerHost
from tests.protocol.hostile_guest import MEMORY_BYTES, PES, Guest
from tests.protocol.worker_rig import needs_walls
from vhost_backend import cli, log
from vhost_backend.config.daemon import DaemonConfig, EngineConfig, QuotaConfig, SandboxMode, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker
from vhost_backend.worker_protocol import protocol
from virtio_proto.schema import Health

SHARED_ANONYMOUS = (0, 4096, 3, 0x21, -1, 0)


def vm_config(folder: Path, mode: SandboxMode) -> VmConfig:
    quota = QuotaConfig(pes=PES, memory_bytes=MEMORY_BYTES)
    engine = EngineConfig("cpu")
    return VmConfig(
        "a", vm_uuid("a"), folder / "a", REGION_BYTES, engine=engine, quota=quota, num_queues=2, sandbox=mode
    )


@contextmanager
def guest(folder: Path, mode: SandboxMode) -> Iterator[Guest]:
    """A guest whose kernels make system calls."""
    config = DaemonConfig((vm_config(folder, mode),), cache=folder / "cache")
    with (
        DaemonThread(config, sandboxed_worker, compiler=compile_service(config)),
        FakeVm(folder / "a") as vm,
    ):
        yield Guest(vm)


@pytest.fixture
def events() -> Iterator[Any]:
    """Log events of a given name since the start of the test."""
    stream = io.StringIO()
    log.configure("json", "debug", stream)

    def named(name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == name]

    yield named
    log.configure("console", "info")


@needs_walls
def test_denied_calls_are_made_and_named_once_with_their_number(tmp_path: Path, events: Any) -> None:
    with guest(tmp_path, "permissive") as attacker:
        for _ in range(3):
            assert attacker.result(attacker.call("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0)) >= 0
        assert attacker.result(attacker.call("mmap", *SHARED_ANONYMOUS)) > 0
        assert attacker.result(attacker.call("getpid")) == 2
        assert attacker.computes()
    told = [(event["vm"], event["call"], event["arguments"]) for event in events("call_not_allowed")]
    assert told == [("a", "socket", "0x1 0x1 0x0 0x0 0x0 0x0"), ("a", "mmap(0x21)", told[1][2])]
    assert [event["calls"] for event in events("calls_not_allowed")] == [{"socket": 3, "mmap(0x21)": 1}]
    (ready,) = events("worker_ready")
    assert ready["sandbox"].startswith("permissive: pid namespace, ")
    assert ready["sandbox"].endswith("system call filter")


@needs_walls
def test_strict_filter_denies_the_same_calls_without_a_log_event(tmp_path: Path, events: Any) -> None:
    with guest(tmp_path, "strict") as attacker:
        assert attacker.result(attacker.call("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0)) == -errno.EPERM
        assert attacker.result(attacker.call("mmap", *SHARED_ANONYMOUS)) == -errno.EPERM
    assert events("call_not_allowed") == events("calls_not_allowed") == []


@needs_walls
def test_hostile_calls_are_named_and_never_made(tmp_path: Path, events: Any) -> None:
    """A strict worker dies of such a call without naming it; naming it is the purpose of a permissive run."""
    with guest(tmp_path, "permissive") as attacker:
        assert attacker.result(attacker.call("ptrace", 16, 1)) == -errno.EPERM
        assert attacker.computes()
        assert attacker.generation() == 1
    (told,) = events("call_not_allowed")
    assert (told["call"], told["let_through"]) == ("ptrace", False)
    assert [event["calls"] for event in events("calls_not_allowed")] == [{"ptrace": 1}]


@needs_walls
def test_a_worker_with_allowed_calls_only_is_logged_as_such_at_its_end(tmp_path: Path, events: Any) -> None:
    with guest(tmp_path, "permissive") as innocent:
        assert innocent.computes()
    assert len(events("all_calls_allowed")) == 1
    assert events("calls_not_allowed") == []


@needs_walls
def test_calls_are_named_once_for_a_vm_however_often_its_worker_is_replaced(tmp_path: Path, events: Any) -> None:
    with guest(tmp_path, "permissive") as attacker:
        for _ in range(2):
            assert attacker.result(attacker.call("getrlimit", 7, attacker.buffer)) == 0
            attacker.call("exit_group", 0)
            attacker.start()
    assert [event["call"] for event in events("call_not_allowed")] == ["getrlimit"]
    assert [event["calls"] for event in events("calls_not_allowed")] == [{"getrlimit": 1}, {"getrlimit": 1}]


@pytest.mark.parametrize(("mode", "after_ready"), [("strict", False), ("permissive", True), ("permissive", False)])
def test_worker_with_an_invalid_or_unexpected_listener_is_replaced(
    tmp_path: Path, events: Any, mode: SandboxMode, after_ready: bool
) -> None:
    """The daemon makes ioctls on the listener, so it takes none from a worker that may already run guest code."""
    with (
        WorkerHost(tmp_path) as workers,
        DaemonThread(DaemonConfig((vm_config(tmp_path, mode),)), workers.command),
        contextlib.closing(FakeFrontend.connect(tmp_path / "a", 2)) as frontend,
    ):
        frontend.negotiate()
        worker = workers.next()
        if after_ready:
            worker.setup()
            frontend.wait_health(Health.READY)
        worker.send(protocol.CallListener(), (0,))
        assert workers.next().pid != worker.pid
    (lost,) = events("worker_faulty")[:1]
    assert "listener" in lost["reason"]


def test_daemon_warns_of_vms_without_the_filter(tmp_path: Path, events: Any) -> None:
    cli._check_host(DaemonConfig((vm_config(tmp_path, "permissive"),)))
    (warning,) = events("sandbox_permissive")
    assert (warning["level"], warning["vm"]) == ("warning", "a")
    cli._check_host(DaemonConfig((vm_config(tmp_path, "strict"),)))
    assert len(events("sandbox_permissive")) == 1
