"""Life of a worker process: it sets up, enters the sandbox, and serves until the daemon hangs up."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vhost_backend.engines.base import Engine, WorkerNeeds
from vhost_backend.engines.registry import engine_class
from vhost_backend.errors import EngineError, HostError
from vhost_backend.sandbox import worker as sandbox
from vhost_backend.worker.main_loop import MainLoop
from vhost_backend.worker.plane import DataPlane, DataPlaneError, PlaneLimits
from vhost_backend.worker.sources import SourceFiles
from vhost_backend.worker_protocol import codec, gate_pages, protocol
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES
from vhost_backend.worker_protocol.protocol import Ack, CallListener, Log, Ready, Setup
from virtio_proto.schema import LIMITS

if TYPE_CHECKING:
    from vhost_backend.worker.channels.thread import Attachment

MAX_FILES: Final = 64 + 4 * protocol.MAX_QUEUES
REGION_ROOM_BYTES: Final = 64 << 30
"""Address space for the VM's region, whose size the worker learns only later."""

_PR_SET_TIMERSLACK: Final = 29  # linux/prctl.h
_TIMER_SLACK_NS: Final = 1
"""Slack of the kernel's timers for this process. The default of 50 us makes a nap of 20 us last 72 us."""

_TABLES_BYTES: Final = 32 << 20
"""Memory that the data plane reserves for its tables."""
_REQUEST_BYTES: Final = 16 << 10
"""Memory that the data plane reserves per request in flight."""


class SetupError(Exception):
    """The worker cannot be set up as the daemon asked."""


def work(daemon: socket.socket) -> int:
    """Serves the daemon until it hangs up; returns the process's exit status."""
    received = protocol.receive_from_daemon(daemon)
    if received is None:
        return 0
    setup, fds = received
    if not isinstance(setup, Setup):
        raise codec.ProtocolError(f"the first message is {setup.TYPE}; allowed: {Setup.TYPE}")
    try:
        loop = _set_up(daemon, setup, *fds)
    except SetupError as error:
        protocol.send_to_daemon(daemon, Ack(setup.seq, False, str(error)[:2048], 0, 0))
        return 1
    try:
        loop.serve()
    except Exception as error:  # noqa: BLE001  stderr is /dev/null by now: report to the daemon's log
        last = traceback.extract_tb(error.__traceback__)[-1]
        where: dict[str, codec.Scalar] = {"error": repr(error)[:500], "file": last.filename, "line": last.lineno}
        protocol.send_to_daemon(daemon, Log("error", "worker_failed", where))
        return 1
    return 0


def _set_up(daemon: socket.socket, setup: Setup, inflight_fd: int, *more_fds: int) -> MainLoop:
    """Sets the worker up, in this order: modules and engine, then the sandbox, then threads and the guest's memory.

    Nothing is taken down again: the end of the process does that, whatever guest code is doing.

    :raise SetupError: the engine, the sandbox or the data plane cannot be set up.
    """
    try:
        engine = engine_class(setup.engine.kind).open(
            setup.engine.options, setup.quota.pes, setup.quota.memory_bytes, setup.deadline_ns
        )
        if setup.arena.size:
            engine.set_arena(setup.arena.base, setup.arena.size)
        sources, rest = SourceFiles(more_fds[:NUM_SOURCES]), more_fds[NUM_SOURCES:]
        control_fds, gate_fds = (rest[: -gate_pages.NUM_FDS], rest[-gate_pages.NUM_FDS :]) if setup.gate else (rest, ())
        needs = engine.needs
        attachment = _attachment(setup, control_fds)
        bell = _set_gate(engine, gate_fds)
        _set_timer_slack()
        kept_fds = (daemon.fileno(), inflight_fd, *control_fds, *bell, *sources.fds, *needs.kept_fds)
        exemptions = sandbox.Exemptions(needs.system_calls, needs.keeps_root, needs.unfiltered_at_best_effort)
        report = sandbox.enter(setup.sandbox, _limits(setup, engine, needs), kept_fds=kept_fds, exemptions=exemptions)
        _send_listener(daemon, report)
        if attachment is not None:
            attachment.attach(engine)
        engine.start()
        plane = DataPlane(engine.handle, _plane_limits(setup), inflight_fd)
        threading.Thread(target=plane.run, name="data-plane", daemon=True).start()
    except (EngineError, HostError, DataPlaneError) as error:
        raise SetupError(str(error)) from error
    except (OSError, MemoryError, RuntimeError) as error:
        # An exception here usually means that the sandbox's limits are too tight; stderr is /dev/null by now, so the
        # text goes to the daemon.
        raise SetupError(repr(error)) from error
    ready = _ready(engine, _describe(report))
    protocol.send_to_daemon(daemon, ready)
    loop = MainLoop(daemon, engine, plane, sources, ready)
    if attachment is not None:
        _use_control_system(loop, attachment, engine)
    return loop


def _set_timer_slack() -> None:
    """Lets short sleeps end on time. Must run before threads start and before the sandbox closes.

    Threads inherit the slack from the thread that starts them, and the sandbox denies prctl.

    :raise OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_TIMER_SLACK_NS)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl(PR_SET_TIMERSLACK): {os.strerror(ctypes.get_errno())}")


def _send_listener(daemon: socket.socket, report: sandbox.SandboxReport) -> None:
    """Sends the system call filter's listener, if any, to the daemon: guest code must not answer its own calls."""
    if report.listener_fd is not None:
        protocol.send_to_daemon(daemon, CallListener(), (report.listener_fd,))
        os.close(report.listener_fd)


def _ready(engine: Engine, sandbox_report: str) -> Ready:
    return Ready(engine.name, engine.num_pes, engine.features, sandbox_report, engine.control_pes, engine.control_rows)


def _attachment(setup: Setup, fds: tuple[int, ...]) -> Attachment | None:
    """The worker's part of the control system, whose modules are imported only where there is one; before the sandbox."""
    if not fds:
        return None
    from vhost_backend.worker.channels.thread import Attachment

    area_fd, records_fd = fds
    return Attachment(setup.control, area_fd, socket.socket(fileno=records_fd))


def _set_gate(engine: Engine, fds: tuple[int, ...]) -> tuple[int, ...]:
    """Has launches take turns; returns the descriptors that stay open for that.

    :raise OSError: the descriptors are not those of a gate.
    """
    if not fds:
        return ()
    gate = gate_pages.WorkerGate(*fds)
    engine.set_gate(gate.grant, gate.account, gate.bell)
    return (gate.bell,)


def _use_control_system(loop: MainLoop, attachment: Attachment, engine: Engine) -> None:
    system = attachment.system(engine, loop.ack)
    if system is None:
        loop.use_none(attachment.problem)
    else:
        loop.use(system)


def _limits(setup: Setup, engine: Engine, needs: WorkerNeeds) -> sandbox.WorkerLimits:
    tables = _TABLES_BYTES + setup.quota.queue_depth * _REQUEST_BYTES
    limits = sandbox.WorkerLimits.for_quota(
        memory_bytes=setup.quota.memory_bytes + tables,
        pes=engine.num_pes,
        mapped_bytes=REGION_ROOM_BYTES + engine.reserved_bytes + 2 * setup.control.area_bytes,
        files=MAX_FILES + needs.files,
        source_bytes=LIMITS["MAX_SOURCE_BYTES"],
    )
    return replace(
        limits,
        private_bytes=limits.private_bytes + needs.private_bytes,
        address_space_bytes=limits.address_space_bytes if needs.address_space_bounded else None,
        threads=limits.threads + needs.threads,
    )


def _plane_limits(setup: Setup) -> PlaneLimits:
    return PlaneLimits(
        num_queues=setup.num_queues,
        queue_depth=setup.quota.queue_depth,
        memory_bytes=setup.quota.memory_bytes,
        deadline_ns=setup.deadline_ns,
        max_contexts=setup.max_contexts,
        max_streams=setup.max_streams,
        generation=setup.generation,
        allotment=setup.allotment,
    )


def _describe(report: sandbox.SandboxReport) -> str:
    if report.mode == "off":
        return "off"
    missing = "; ".join(f"no {wall}: {why}" for wall, why in report.missing.items())
    return f"{report.mode}: {', '.join(report.walls)}{'; ' if missing else ''}{missing}"[:1024]
