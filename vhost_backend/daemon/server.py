"""The daemon: all VMs on one event loop, until SIGTERM or SIGINT. Other signals do not end it."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from vhost_backend import sockets
from vhost_backend.compiler.service import Compiler
from vhost_backend.config.daemon import DaemonConfig
from vhost_backend.control.event_bus import EventBus
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.heartbeat import DEFAULT_PACE, Pace
from vhost_backend.daemon.process import WorkerCommand, sandboxed_worker
from vhost_backend.daemon.runstate import StateError
from vhost_backend.daemon.supervisor import RestartPolicy
from vhost_backend.daemon.vm import Vm
from vhost_backend.daemon.worker_clock import CpuAlarms
from vhost_backend.errors import ConfigError
from vhost_backend.log import get_logger

if TYPE_CHECKING:
    from vhost_backend.control.system import ControlSystem
    from vhost_backend.daemon.control_adapter import DaemonVmControl


_IGNORED: Final[Mapping[signal.Signals, str]] = {
    signal.SIGHUP: "sighup_ignored",
    signal.SIGUSR1: "signal_ignored",
    signal.SIGUSR2: "signal_ignored",
    signal.SIGALRM: "signal_ignored",
}
"""Events of signals that end other programs by default. If the daemon ends, so does every QEMU that it serves."""
_ADVICE: Final = "the configuration is read at the start only; SIGTERM ends the daemon, and QEMU with it"


class Daemon:
    """Serves every VM of `config`, on the sockets in `handed_over` or else on those that it binds itself."""

    def __init__(
        self,
        config: DaemonConfig,
        compiler: Compiler,
        engines: Engines,
        handed_over: Mapping[str, socket.socket] | None = None,
        *,
        command: WorkerCommand = sandboxed_worker,
        policy: RestartPolicy | None = None,
        pace: Pace | None = DEFAULT_PACE,
    ) -> None:
        """:raise ConfigError: a key for firmware cannot be used."""
        bus = EventBus(get_logger())
        controls = _controls(config, bus) if config.control.is_on else {}
        self._alarms = CpuAlarms()
        self.vms = {
            vm.name: Vm(
                vm, compiler, engines, command, policy, pace=pace, alarms=self._alarms, control=controls.get(vm.name)
            )
            for vm in config.vms
        }
        self.control: ControlSystem | None = None
        """None if the configuration has no control system."""
        if config.control.is_on:
            from vhost_backend.control.system import ControlSystem
            from vhost_backend.daemon.control_adapter import DaemonHost, DaemonVm

            vms = [DaemonVm(self.vms[name], control.channels, engines) for name, control in controls.items()]
            host = DaemonHost(self.vms.values(), engines, bus)
            self.control = ControlSystem(config.control, bus, vms, host, compiler, log=get_logger())
        self._compiler = compiler
        self._engines = engines
        self._handed_over = dict(handed_over or {})
        self._log = get_logger()

    async def run(self) -> None:
        """Serves until cancelled, or until all handed-over connections have ended if no socket listens.

        On return and on error all workers and compilers are killed and reaped, and the sockets that were bound are unlinked.

        :raise ConfigError: a VM has no socket.
        :raise HostError: a socket cannot be bound.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._compiler.close)
            stack.push_async_callback(self._engines.close)
            stack.callback(self._alarms.close)
            for vm in self.vms.values():
                stack.callback(vm.close)
            sockets = {name: self._socket(stack, vm) for name, vm in self.vms.items()}
            self._log.info(
                "serving", vms={name: str(self.vms[name].config.socket or "handed over") for name in sockets}
            )
            self._engines.begin(vm.config.engine for vm in self.vms.values())
            if self.control is not None:
                await stack.enter_async_context(self.control.running())
            async with asyncio.TaskGroup() as tasks:
                for name, sock in sockets.items():
                    tasks.create_task(self._serve(self.vms[name], sock), name=name)

    def _socket(self, stack: contextlib.AsyncExitStack, vm: Vm) -> socket.socket:
        sock = self._handed_over.get(vm.config.name)
        if sock is not None:
            return stack.enter_context(sock)
        if vm.config.socket is None:
            text = f"vms.{vm.config.name}.socket is empty; allowed: an absolute path, or a socket in LISTEN_FDS"
            raise ConfigError([text])
        return stack.enter_context(sockets.bound(vm.config.socket))

    async def _serve(self, vm: Vm, sock: socket.socket) -> None:
        if not sockets.is_listening(sock):
            await vm.serve(sock)
            return
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as connections:
            while True:
                try:
                    connection, _ = await loop.sock_accept(sock)
                except OSError as error:  # too many open files, for example, which may pass
                    self._log.error("accept_failed", vm=vm.config.name, error=str(error))
                    await asyncio.sleep(1)
                    continue
                connections.create_task(vm.serve(connection))


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs an unhandled error of a callback or a task; the daemon goes on."""
    match context.get("exception"):
        case StateError() as error:
            get_logger(vm=error.vm).error("wrong_transition", old=error.old.name, new=error.new.name, error=str(error))
        case error:
            get_logger().error("loop_error", problem=context["message"], exc_info=error)


def _ignore(number: signal.Signals, event: str) -> None:
    get_logger().warning(event, signal=number.name, advice=_ADVICE)


async def _run_until_signal(daemon: Daemon) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    for number, event in _IGNORED.items():
        loop.add_signal_handler(number, _ignore, number, event)
    with contextlib.suppress(asyncio.CancelledError):
        await daemon.run()


def _raise_file_limit() -> None:
    """Raises the limit of open files: a VM takes up to three descriptors per queue, and the default is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(daemon: Daemon) -> None:
    """Runs `daemon` until SIGTERM or SIGINT.

    :raise VgcError: the daemon cannot start.
    """
    _raise_file_limit()
    try:
        asyncio.run(_run_until_signal(daemon))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def _controls(config: DaemonConfig, bus: EventBus) -> dict[str, DaemonVmControl]:
    """Makes each VM's side of the control system, whose modules take 13 MiB: they are imported where it is on."""
    from vhost_backend.daemon.control_adapter import DaemonVmControl

    return {vm.name: DaemonVmControl(vm.name, config.control, bus) for vm in config.vms}
