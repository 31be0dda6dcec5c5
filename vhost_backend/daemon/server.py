"""The daemon: all VMs on one event loop, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Mapping
from functools import partial

from vhost_backend.config import ControlConfig, DaemonConfig
from vhost_backend.control.controlled import DaemonHost, DaemonVm
from vhost_backend.control.system import ControlSystem
from vhost_backend.daemon import listen
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.ports import Compiler
from vhost_backend.daemon.process import WorkerCommand, sandboxed_worker
from vhost_backend.daemon.supervisor import RestartPolicy
from vhost_backend.daemon.vm import Vm
from vhost_backend.errors import ConfigError
from vhost_backend.log import get_logger


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
    ) -> None:
        self.vms = {vm.name: Vm(vm, compiler, engines, command, policy) for vm in config.vms}
        self.control = self._control_system(config.control, compiler, engines)
        self._compiler = compiler
        self._engines = engines
        self._handed_over = dict(handed_over or {})
        self._log = get_logger()

    def _control_system(self, config: ControlConfig, compiler: Compiler, engines: Engines) -> ControlSystem | None:
        """The control system that the configuration asks for; without one nothing of it is there.

        :raise ConfigError: a key for firmware cannot be used.
        """
        if not config.is_on:
            return None
        vms = [DaemonVm(vm, engines, config) for vm in self.vms.values()]
        host = DaemonHost(self.vms.values(), engines)
        system = ControlSystem(config, vms, host, compiler, get_logger())
        for vm in vms:
            vm.on_connected = partial(system.connected, vm.name)
        return system

    async def run(self) -> None:
        """Serves until cancelled, or until every handed-over connection has ended if there is nothing else.

        On return and on error all workers and compilers are killed and reaped, and the sockets that were bound are unlinked.

        :raise ConfigError: a VM has no socket.
        :raise HostError: a socket cannot be bound.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._compiler.close)
            stack.push_async_callback(self._engines.close)
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
        return stack.enter_context(listen.bound(vm.config.socket))

    async def _serve(self, vm: Vm, sock: socket.socket) -> None:
        if not listen.is_listening(sock):
            await vm.serve(sock)
            return
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as connections:
            while True:
                try:
                    connection, _ = await loop.sock_accept(sock)
                except OSError as error:  # too many open files, say: it passes
                    self._log.error("accept_failed", vm=vm.config.name, error=str(error))
                    await asyncio.sleep(1)
                    continue
                connections.create_task(vm.serve(connection))


async def _run_until_signal(daemon: Daemon) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await daemon.run()


def _raise_file_limit() -> None:
    """A VM takes up to three descriptors per queue; the default limit of 1024 would do for a few VMs only."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(daemon: Daemon) -> None:
    """Runs `daemon` until SIGTERM or SIGINT.

    :raise VgcError: it could not start.
    """
    _raise_file_limit()
    try:
        asyncio.run(_run_until_signal(daemon))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
