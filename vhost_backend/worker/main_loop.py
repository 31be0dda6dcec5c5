"""Main thread of the worker: executes the daemon's messages, serves cold requests, reports statistics."""

from __future__ import annotations

import os
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vhost_backend.engines.base import Engine
from vhost_backend.worker.cold import SETTLE_MS, ColdServer
from vhost_backend.worker.migration.migrator import Migrator
from vhost_backend.worker.plane import DataPlane, DataPlaneError, RingFds
from vhost_backend.worker.sources import SourceFiles
from vhost_backend.worker_protocol import codec, protocol
from vhost_backend.worker_protocol.control_messages import CONTROL_MESSAGES, ControlMessage
from vhost_backend.worker_protocol.migration_messages import (
    Measured,
    MigrationHold,
    MigrationLoad,
    MigrationMeasure,
    MigrationRelease,
    MigrationSave,
    Saved,
)
from vhost_backend.worker_protocol.protocol import (
    Ack,
    DaemonMessage,
    FunctionFigures,
    Functions,
    Limits,
    Log,
    LookAtFunctions,
    MemTable,
    Ping,
    Program,
    Ready,
    Resume,
    Resumed,
    Shutdown,
    Stats,
    VringBroken,
    VringCall,
    VringEnable,
    VringKick,
    VringStart,
    VringStop,
)
from vhost_backend.worker_protocol.registration_messages import Registered, Restore

if TYPE_CHECKING:
    from vhost_backend.worker.channels.thread import ControlSystem

STATS_INTERVAL_S: Final = 1.0
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
"""Characters that names of functions may not have outside of the worker."""


class MainLoop:
    """Serves the daemon's socket and the data plane's notifications on the calling thread."""

    def __init__(
        self, daemon: socket.socket, engine: Engine, plane: DataPlane, sources: SourceFiles, ready: Ready
    ) -> None:
        """`ready`: what the daemon was told when the worker was."""
        self._daemon = daemon
        self._engine = engine
        self._ready = ready
        self._plane = plane
        self._cold = ColdServer(engine, plane, self._send, sources)
        self._migrator = Migrator(
            engine,
            plane,
            self._cold.programs,
            registrations=self._cold.registrations,
            is_compiling=self._cold.is_compiling,
            daemon=self,
        )
        self._stats = StatsReporter(plane, self._send)
        self._pings = PingQueue(plane, self.ack)
        self._running = True
        self._rings: set[int] = set()
        """Rings that run."""
        self._resumed: set[int] = set()
        """Rings that an earlier daemon has started, and this one has not yet."""
        self._system: ControlSystem | None = None
        self._no_system = "the VM has no control system"

    def use(self, system: ControlSystem) -> None:
        """Passes control commands to `system` from now on; starts its thread."""
        self._system = system
        self._cold.programs.before_change = system.programs_change
        system.start()

    def use_none(self, why: str) -> None:
        """Refuses control commands with this reason."""
        self._no_system = why

    def serve(self) -> None:
        """Returns when the daemon hangs up or says `Shutdown`."""
        poller = select.poll()
        poller.register(self._daemon, select.POLLIN)
        poller.register(self._plane.notify_fd, select.POLLIN)
        while self._running:
            wait_ms = self._migrator.wait_ms(self._stats.wait_ms())
            if not self._cold.settle():
                wait_ms = SETTLE_MS
            ready = dict(poller.poll(wait_ms))
            if self._plane.notify_fd in ready:
                self._plane.clear_notification()
                self._pings.settle()
                if not self._plane.is_armed:
                    self._stats.start()
                self._cold.serve()
                self._report_broken()
            if self._daemon.fileno() in ready:
                self._receive()
            self._migrator.step()
            self._stats.report_if_due()

    # ---- the migrator's Answering ----------------------------------------------------------------

    def ack(self, seq: int, error: str = "", *, again: bool = False) -> None:
        """Acknowledges the daemon's message, or refuses it with `error`; `again`: it may succeed later."""
        self._send(Ack(seq, not error, error[:2048], 0, self._plane.region_address, again))

    def tell(self, message: Measured | Saved) -> None:
        self._send(message)

    # ----------------------------------------------------------------------------------------------

    def _send(self, message: protocol.WorkerMessage) -> None:
        try:
            protocol.send_to_daemon(self._daemon, message)
        except OSError:
            self._running = False  # the daemon is gone

    def _report_broken(self) -> None:
        while (broken := self._plane.take_broken()) is not None:
            self._send(VringBroken(*broken))

    def _receive(self) -> None:
        try:
            received = protocol.receive_from_daemon(self._daemon)
        except ConnectionError:
            received = None
        if received is None:
            self._running = False
            return
        self._handle(*received)

    def _handle(self, message: DaemonMessage, fds: tuple[int, ...]) -> None:
        match message:
            case Program():
                self._cold.on_program(message, fds)
            case Registered():
                self._cold.registrations.on_registered(message)
                self._cold.settle()
            case Restore():
                self._cold.restore(message, fds, self.ack)
            case Ping():
                self._pings.add(message)
            case Resume():
                self._renew_gate(fds)
                self._resume(message.seq)
            case Shutdown():
                self._running = False
            case MigrationHold() | MigrationMeasure() | MigrationSave() | MigrationLoad() | MigrationRelease():
                self._migrator.handle(message, fds)
            case _ if isinstance(message, CONTROL_MESSAGES):
                self._command(message, fds)
            case _:
                self._answer(message.seq, lambda: self._do(message, fds))

    def _renew_gate(self, fds: tuple[int, ...]) -> None:
        """Has launches take turns as the daemon says that is there now, which owns the grant in `fds`, if it is there."""
        try:
            for grant in fds:
                self._engine.renew_grant(grant)
        except OSError as error:
            self._send(Log("warning", "gate_not_renewed", {"why": str(error)}))
        finally:
            codec.close_fds(fds)

    def _resume(self, seq: int) -> None:
        self._migrator.give_up()
        self._resumed = set(self._rings)
        numbers = tuple(registration.number for registration, _entry in self._cold.registrations)
        self._send(Resumed(self._ready, numbers))
        self._cold.ask_again()
        self._stats.report()
        if self._system is None:
            self.ack(seq)
        else:
            self._system.start_over(lambda: self.ack(seq))

    def _command(self, message: ControlMessage, fds: tuple[int, ...]) -> None:
        if self._system is not None:
            self._system.submit(message, fds)
            return
        codec.close_fds(fds)
        self.ack(message.seq, self._no_system)

    def _answer(self, seq: int, act: Callable[[], int]) -> None:
        """Calls `act` and acknowledges message `seq`, or refuses it with the data plane's error."""
        try:
            base = act()
            error = ""
        except DataPlaneError as refused:
            base, error = 0, str(refused)
        self._send(Ack(seq, not error, error, base, self._plane.region_address))

    def _do(self, message: DaemonMessage, fds: tuple[int, ...]) -> int:
        """Executes a message on the data plane and takes `fds` over; returns a stopped ring's base, else 0.

        :raise DataPlaneError: the data plane refuses.
        """
        plane = self._plane
        match message:
            case MemTable():
                try:
                    plane.set_memory(message.regions, fds, message.region_address)
                finally:
                    codec.close_fds(fds)
            case VringStart():
                self._start_ring(message, _ring_fds(message, fds))
            case VringCall():
                plane.set_call(message.index, *(fds or (-1,)))
            case VringKick():
                plane.set_kick(message.index, *(fds or (-1,)))
            case VringEnable():
                plane.enable_queue(message.index, message.enabled)
            case VringStop():
                self._rings.discard(message.index)
                self._resumed.discard(message.index)
                return plane.stop_queue(message.index)
            case LookAtFunctions():
                self._send(_functions(plane))
            case Limits():
                plane.set_limits(message)
                self._stats.report()
            case _:
                codec.close_fds(fds)
                raise codec.ProtocolError(f"{message.TYPE} again; allowed: only first")
        return 0

    def _start_ring(self, message: VringStart, fds: RingFds) -> None:
        """Starts a ring; one that an earlier daemon has started goes on, with these descriptors.

        :raise DataPlaneError: the data plane refuses.
        """
        index = message.index
        if index not in self._resumed:
            self._plane.start_queue(message, fds)
            self._rings.add(index)
            return
        self._resumed.discard(index)
        self._plane.set_kick(index, fds.kick)
        self._plane.set_call(index, fds.call)
        if fds.err >= 0:
            os.close(fds.err)  # it is the one that the ring has
        self._plane.enable_queue(index, message.enabled)


def _functions(plane: DataPlane) -> Functions:
    return Functions(
        tuple(
            FunctionFigures(_UNPRINTABLE.sub("?", tally.name), tally.launches, tally.busy_ns, tally.times)
            for tally in plane.functions()
        )
    )


def _ring_fds(message: VringStart, fds: tuple[int, ...]) -> RingFds:
    """Assigns the fds, which come in the order kick, call, err, each only if the message announces it."""
    rest = iter(fds)
    kick, call, err = (next(rest) if has else -1 for has in (message.has_kick, message.has_call, message.has_err))
    return RingFds(kick, call, err)


class PingQueue:
    """Pings that wait until the data plane's loop has gone round."""

    def __init__(self, plane: DataPlane, ack: Callable[[int], None]) -> None:
        self._plane = plane
        self._ack = ack
        self._waiting: deque[tuple[int, int]] = deque()
        """Seq of each ping, and the number of echoes when it came."""

    def add(self, ping: Ping) -> None:
        self._waiting.append((ping.seq, self._plane.echoes))
        self._plane.echo()

    def settle(self) -> None:
        """Acknowledges the pings that the loop has echoed."""
        echoes = self._plane.echoes
        while self._waiting and self._waiting[0][1] != echoes:
            self._ack(self._waiting.popleft()[0])


class StatsReporter:
    """Sends `Stats` at most once per interval, and only when changed.

    Costs nothing while the VM is idle: after `arm`, the data plane notifies when its next work arrives.
    """

    def __init__(self, plane: DataPlane, send: Callable[[Stats], None]) -> None:
        self._plane = plane
        self._send = send
        self._sent: Stats | None = None
        self._due: float | None = None
        plane.arm()

    def start(self) -> None:
        """Schedules a report: the data plane has work."""
        if self._due is None:
            self._due = time.monotonic() + STATS_INTERVAL_S

    def wait_ms(self) -> int | None:
        """Milliseconds until `report_if_due` has something to do; None: nothing before the next `start`."""
        return None if self._due is None else max(0, int((self._due - time.monotonic()) * 1000) + 1)

    def report_if_due(self) -> None:
        if self._due is None or time.monotonic() < self._due:
            return
        if self._usage() == self._sent:
            self._due = None
            self._plane.arm()
            return
        self.report()
        self._due = time.monotonic() + STATS_INTERVAL_S

    def report(self) -> None:
        """Sends the present figures, whether they have changed or not."""
        self._sent = self._usage()
        self._send(self._sent)

    def _usage(self) -> Stats:
        usage = self._plane.usage()
        figures = {name: getattr(usage, name) for name in type(usage).__slots__}
        counts = self._plane.counts()
        return Stats(
            **figures,
            latency=self._plane.latency(),
            memory_peak_bytes=counts.memory_peak_bytes,
            failures=counts.failures,
        )
