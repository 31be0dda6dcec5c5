"""The daemon: all VMs on one event loop, until SIGTERM or SIGINT. Other signals do not end it."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vhost_backend import sockets
from vhost_backend.compiler.service import Compiler
from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.control.event_bus import EventBus
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.fork_server import ForkServer
from vhost_backend.daemon.heartbeat import DEFAULT_PACE, Pace
from vhost_backend.daemon.process import WorkerCommand, sandboxed_worker
from vhost_backend.daemon.runstate import StateError
from vhost_backend.daemon.served_vm import Entrance, ServedVm
from vhost_backend.daemon.supervisor import RestartPolicy
from vhost_backend.daemon.vm import Vm
from vhost_backend.daemon.worker_clock import CpuAlarms
from vhost_backend.errors import ConfigError, HostError, VgcError
from vhost_backend.log import configure, get_logger

if TYPE_CHECKING:
    from vhost_backend.control.system import ControlSystem
    from vhost_backend.daemon.control_adapter import DaemonVmControl


_IGNORED: Final[Mapping[signal.Signals, str]] = {
    signal.SIGUSR1: "signal_ignored",
    signal.SIGUSR2: "signal_ignored",
    signal.SIGALRM: "signal_ignored",
}
"""Events of signals that end other programs by default. If the daemon ends, so does every QEMU that it serves."""
_ADVICE: Final = "SIGHUP reads the configuration again; SIGTERM ends the daemon, and QEMU with it"
_NO_FILE: Final = "vgcd has no configuration file that it could read again; SIGTERM ends it, and QEMU with it"
_FIXED: Final = ("cache", "control", "cgroups", "users")
"""Keys that cannot change while the daemon runs."""


House: TypeAlias = Callable[[VmConfig, contextlib.ExitStack], VmConfig]
"""Gives a VM its quarters on the host, which the stack gives back. Raises `HostError` if the host has no room."""
Source: TypeAlias = Callable[[], DaemonConfig]
"""Reads the configuration again. Raises `VgcError` if it is wrong, or does not fit this host."""


def _as_it_is(vm: VmConfig, _lease: contextlib.ExitStack) -> VmConfig:
    return vm


@dataclass(frozen=True, slots=True)
class Reload:
    """Effects of a configuration that was read again, as names of VMs."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """VMs whose new settings count from now on, as they have no frontend, or from their next frontend on."""
    waiting: tuple[str, ...] = ()
    """VMs that still have a frontend, whose end their removal or change waits for."""


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
        forks: ForkServer | None = None,
        policy: RestartPolicy | None = None,
        pace: Pace | None = DEFAULT_PACE,
        house: House = _as_it_is,
        source: Source | None = None,
    ) -> None:
        """`forks`: server that runs while the daemon does. `source`: of the configuration; None: it cannot be read again.

        :raise ConfigError: a key for firmware cannot be used.
        """
        self.config = config
        self._bus = EventBus(get_logger())
        self._alarms = CpuAlarms()
        self._make_vm = partial(
            Vm, compiler=compiler, engines=engines, command=command, policy=policy, pace=pace, alarms=self._alarms
        )
        self._forks = forks
        self._house = house
        self._source = source
        self._compiler = compiler
        self._engines = engines
        self._handed_over = dict(handed_over or {})
        self._served: dict[str, ServedVm] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._log = get_logger()
        self.vms: dict[str, Vm] = {}
        """VMs that are served, those that are to leave included."""
        self.control: ControlSystem | None = None
        """None if the configuration has no control system."""
        if config.control.is_on:
            from vhost_backend.control.system import ControlSystem
            from vhost_backend.daemon.control_adapter import DaemonHost

            host = DaemonHost(self, engines, self._bus)
            self.control = ControlSystem(config.control, self._bus, host, compiler, log=get_logger())

    @property
    def can_reload(self) -> bool:
        """True if the configuration can be read again."""
        return self._source is not None

    async def run(self) -> None:
        """Serves until cancelled, or until all VMs have left: handed-over connections have ended, and no socket listens.

        On return and on error all workers and compilers are killed and reaped, and the sockets that were bound are unlinked.

        :raise ConfigError: a VM has no socket.
        :raise HostError: a socket cannot be bound, or a VM has no quarters.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._compiler.close)
            stack.push_async_callback(self._engines.close)
            stack.callback(self._alarms.close)
            if self._forks is not None:
                stack.callback(self._forks.close)
            stack.callback(self._close_all)
            for vm in self.config.vms:
                self._admit(vm, self._entrance(vm))
            self._log.info("serving", vms={vm.name: str(vm.socket or "handed over") for vm in self.config.vms})
            self._engines.begin(vm.engine for vm in self.config.vms)
            if self._forks is not None:
                await self._forks.start()  # frontends wait at the sockets meanwhile
            if self.control is not None:
                await stack.enter_async_context(self.control.running())
            async with asyncio.TaskGroup() as self._tasks:
                for name, served in self._served.items():
                    self._tasks.create_task(self._serve(served), name=name)

    # ---- VMs come and go -------------------------------------------------------------------------

    def reload_file(self, *, now: bool = False) -> Reload:
        """Reads the configuration again, and serves its VMs.

        :raise VgcError: it cannot be used; then nothing changes.
        """
        if self._source is None:
            raise ConfigError([_NO_FILE])
        config = self._source()
        done = self.reload(config, now=now)
        configure(config.log.format, config.log.level)
        return done

    def remove(self, name: str, *, now: bool = False) -> Reload:
        """Serves a VM no more once its frontend has gone, or `now`.

        :raise ConfigError: it is the last one, with which the daemon would end.
        """
        rest = tuple(vm for vm in self.config.vms if vm.name != name)
        if len(rest) == len(self.config.vms):  # it is leaving already
            served = self._served[name]
            if now:
                served.cut_off()
            return Reload(waiting=(name,) if served.vm.is_connected else ())
        if not rest:
            raise ConfigError([f"{name} is the only VM; allowed: to end vgcd, or to add another one before"])
        return self.reload(replace(self.config, vms=rest), now=now)

    def reload(self, config: DaemonConfig, *, now: bool = False) -> Reload:
        """Serves the VMs of another configuration from now on; VMs whose settings are the same notice nothing.

        A removed VM leaves when its frontend does, or `now`. Other settings of a VM count from its next frontend on.

        :raise ConfigError: more than the VMs and the log has changed, or a VM has no socket. Then nothing changes.
        :raise HostError: a socket cannot be bound, or a VM has no quarters. Likewise.
        """
        if fixed := [key for key in _FIXED if getattr(config, key) != getattr(self.config, key)]:
            raise ConfigError([f"{key} has changed; allowed while vgcd runs: changes of vms and log" for key in fixed])
        wanted = {vm.name: vm for vm in config.vms}
        served = {name: item.is_served_as for name, item in self._served.items()}
        added = [vm for vm in config.vms if vm.name not in served]
        changed = [vm for vm in config.vms if vm.name in served and served[vm.name] != vm]
        removed = [name for name, vm in served.items() if vm is not None and name not in wanted]
        with contextlib.ExitStack() as undo:
            for vm in added:
                self._admit(vm, self._entrance(vm))
                undo.callback(self._dismiss, vm.name)
            entrances = {vm.name: self._new_entrance(vm, undo) for vm in changed}
            undo.pop_all()
        leaving = [item for item in self._served.values() if item.is_leaving] if now else []
        for vm in changed:
            self._served[vm.name].leave(vm, entrances[vm.name], now=now)
        for name in removed:
            self._served[name].leave(now=now)
        for item in leaving:
            item.cut_off()
        self._begin([vm.name for vm in added])
        self._engines.begin(vm.engine for vm in (*added, *changed))
        self.config = config
        waiting = [name for name, item in self._served.items() if item.is_leaving and item.vm.is_connected]
        for item in [item for item in self._served.values() if item.is_leaving and item.has_ended]:
            self._let_go(item)
        return Reload(tuple(vm.name for vm in added), tuple(removed), tuple(vm.name for vm in changed), tuple(waiting))

    def _new_entrance(self, config: VmConfig, undo: contextlib.ExitStack) -> Entrance | None:
        """Entrance of a VM that is served already; None: it keeps the one that it has."""
        if self._served[config.name].has_entrance_at(config.socket):
            return None
        entrance = self._entrance(config)
        undo.callback(entrance.close)
        return entrance

    def _entrance(self, config: VmConfig) -> Entrance:
        sock = self._handed_over.pop(config.name, None)
        if sock is not None:
            return Entrance(sock)
        if config.socket is None:
            text = f"vms.{config.name}.socket is empty; allowed: an absolute path, or a socket in LISTEN_FDS"
            raise ConfigError([text])
        return Entrance(sockets.bound(config.socket))

    def _admit(self, config: VmConfig, entrance: Entrance) -> None:
        """Makes a VM ready to be served.

        :raise HostError: it has no quarters; the entrance is closed then.
        """
        lease = contextlib.ExitStack()
        control = self._control_of(config)
        try:
            vm = self._make_vm(self._house(config, lease), control=control)
        except BaseException:
            lease.close()
            entrance.close()
            raise
        self.vms[config.name] = vm
        self._served[config.name] = ServedVm(vm, entrance, lease)
        if self.control is not None and control is not None:
            from vhost_backend.daemon.control_adapter import DaemonVm

            self.control.admit(DaemonVm(vm, control.channels, self._engines))

    def _control_of(self, config: VmConfig) -> DaemonVmControl | None:
        """The VM's side of the control system, whose modules take 13 MiB: they are imported where it is on."""
        if self.control is None:
            return None
        from vhost_backend.daemon.control_adapter import DaemonVmControl

        return DaemonVmControl(config.name, self.config.control, self._bus)

    def _dismiss(self, name: str) -> None:
        """Ends a VM that has no frontend."""
        self._served.pop(name).close()
        del self.vms[name]
        if self.control is not None:
            self.control.dismiss(name)

    def _begin(self, names: Iterable[str]) -> None:
        if self._tasks is None:  # all of them begin soon
            return
        for name in names:
            self._tasks.create_task(self._serve(self._served[name]), name=name)

    async def _serve(self, served: ServedVm) -> None:
        await served.run()
        if served.is_leaving:
            self._let_go(served)

    def _let_go(self, served: ServedVm) -> None:
        """Dismisses a VM that has left, and admits its successor."""
        name, successor, entrance = served.vm.config.name, served.successor, served.take_entrance()
        self._dismiss(name)
        if successor is None or entrance is None:
            self._log.info("vm_left", vm=name)
            return
        try:
            self._admit(successor, entrance)
        except HostError as error:
            self._log.error("vm_not_served", vm=name, error=str(error))
        else:
            self._begin([name])
            self._log.info("vm_changed", vm=name)

    def _close_all(self) -> None:
        for served in self._served.values():
            served.close()


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs an unhandled error of a callback or a task; the daemon goes on."""
    match context.get("exception"):
        case StateError() as error:
            get_logger(vm=error.vm).error("wrong_transition", old=error.old.name, new=error.new.name, error=str(error))
        case error:
            get_logger().error("loop_error", problem=context["message"], exc_info=error)


def _ignore(number: signal.Signals, event: str) -> None:
    get_logger().warning(event, signal=number.name, advice=_ADVICE)


def _reload(daemon: Daemon) -> None:
    """Handles SIGHUP."""
    if not daemon.can_reload:
        get_logger().warning("sighup_ignored", signal="SIGHUP", advice=_NO_FILE)
        return
    try:
        done = daemon.reload_file()
    except VgcError as error:
        get_logger().error("reload_refused", problems=str(error).splitlines(), advice="nothing has changed")
    else:
        get_logger().info("reloaded", **{name: list(vms) for name, vms in asdict(done).items() if vms})


async def _run_until_signal(daemon: Daemon) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    for number, event in _IGNORED.items():
        loop.add_signal_handler(number, _ignore, number, event)
    loop.add_signal_handler(signal.SIGHUP, _reload, daemon)
    with contextlib.suppress(asyncio.CancelledError):
        await daemon.run()


def _raise_file_limit() -> None:
    """Raises the limit of open files: a VM takes up to three descriptors per queue, and the default is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(daemon: Daemon) -> None:
    """Runs `daemon` until SIGTERM or SIGINT. SIGHUP has it read its configuration again.

    :raise VgcError: the daemon cannot start.
    """
    _raise_file_limit()
    try:
        asyncio.run(_run_until_signal(daemon))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
