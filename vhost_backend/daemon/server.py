"""The daemon: all VMs on one event loop, while they come and go."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from vhost_backend import sockets
from vhost_backend.compiler.service import Compiler
from vhost_backend.config.daemon import DaemonConfig, VmConfig, different_keys
from vhost_backend.control.event_bus import EventBus
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.entrances import Entrances
from vhost_backend.daemon.fair_shares import FairShares
from vhost_backend.daemon.first_vms import StoredVms, first_vms
from vhost_backend.daemon.fork_server import ForkServer
from vhost_backend.daemon.heartbeat import DEFAULT_PACE, Pace
from vhost_backend.daemon.host_status import Ground
from vhost_backend.daemon.keeping import VmKeep
from vhost_backend.daemon.process import WorkerCommand, sandboxed_worker
from vhost_backend.daemon.roll import AddedVm, Roll, Settings, VmStore, told
from vhost_backend.daemon.served_vm import Entrance, ServedVm
from vhost_backend.daemon.supervisor import RestartPolicy
from vhost_backend.daemon.tasks import Tasks, ended_alone
from vhost_backend.daemon.vm import Vm
from vhost_backend.daemon.worker_clock import CpuAlarms
from vhost_backend.engines.registry import engine_class
from vhost_backend.errors import ConfigError, HostError, VgcError
from vhost_backend.keeper.client import Keeper, Kept
from vhost_backend.keeper.shelf import Shelf
from vhost_backend.log import configure, get_logger
from virtio_proto.control.api import VmOrigin

if TYPE_CHECKING:
    from vhost_backend.control.system import ControlSystem
    from vhost_backend.daemon.control_adapter import DaemonVmControl


NO_FILE: Final = "vgcd has no configuration file that it could read again; SIGTERM ends it, and QEMU with it"
_FIXED: Final = ("cache", "control", "cgroups", "state", "users")
"""Keys that cannot change while the daemon runs."""
_NO_ROOM: Final = "it is tried again until the host has room, or a reload changes or removes the VM"
RETRY_S: Final = 5.0
"""Longest pause between attempts to serve a VM for which the host had no room. It is tried when others leave, too."""


House: TypeAlias = Callable[[VmConfig, contextlib.ExitStack], VmConfig]
"""Gives a VM its quarters on the host, which the stack gives back. Raises `HostError` if the host has no room."""
Source: TypeAlias = Callable[[], DaemonConfig]
"""Reads the configuration again. Raises `VgcError` if it is wrong."""
Check: TypeAlias = Callable[[DaemonConfig], DaemonConfig]
"""Returns a configuration that fits this host, and raises `VgcError` if it does not."""


def _as_it_is(vm: VmConfig, _lease: contextlib.ExitStack) -> VmConfig:
    return vm


def _unchecked(config: DaemonConfig) -> DaemonConfig:
    return config


@dataclass(frozen=True, slots=True)
class Reload:
    """Effects of a configuration that was read again, as names of VMs."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """VMs whose new settings count from now on, as they have no frontend, or from their next frontend on."""
    live: tuple[str, ...] = ()
    """VMs with a frontend whose new limits count from now on."""
    later: Mapping[str, list[str]] = field(default_factory=dict)
    """Keys of changed VMs with a frontend whose values count from the next one on."""
    waiting: tuple[str, ...] = ()
    """VMs that still have a frontend, whose end their removal or change waits for."""


def import_modules(config: DaemonConfig) -> None:
    """Imports modules that a daemon of `config` needs, and imports only then: for one whose turn comes later."""
    if config.control.is_on:
        importlib.import_module("vhost_backend.control.system")
        importlib.import_module("vhost_backend.daemon.control_adapter")
    for kind in {vm.engine.kind for vm in config.vms}:
        engine_class("cpu" if kind == "auto" else kind)


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
        check: Check = _unchecked,
        store: VmStore | None = None,
        retry_s: float = RETRY_S,
        ground: Ground | None = None,
        programs: Path | None = None,
        roll: Roll | None = None,
        keeper: Keeper | None = None,
        kept: Mapping[str, Kept] | None = None,
    ) -> None:
        """Takes what lives as long as the daemon.

        :param forks: server that runs while the daemon does.
        :param source: of the configuration; None: it cannot be read again.
        :param store: of added VMs; None: they end with the daemon.
        :param ground: what the host has; None: it is found now.
        :param programs: folder of programs that guests keep; None: none are kept.
        :param roll: of which `config` is the configuration; None: it has no other VMs than that.
        :param keeper: of what outlives the daemon; None: nothing does.
        :param kept: what an earlier daemon has left with the keeper.

        :raise ConfigError: a key for firmware cannot be used.
        """
        self.config = config
        self._bus = EventBus(get_logger())
        self._alarms = CpuAlarms()
        self._make_vm = partial(
            Vm,
            compiler=compiler,
            engines=engines,
            command=command,
            policy=policy,
            pace=pace,
            alarms=self._alarms,
            shares=FairShares(),
        )
        self._forks = forks
        self._house = house
        self._source = source
        self._check = check
        self._stored = StoredVms(store)
        self._programs = programs
        self._keeper = keeper
        self._kept = dict(kept or {})
        self._roll = roll or Roll(config)
        self._retry_s = retry_s
        self._compiler = compiler
        self._engines = engines
        handed_over = dict(handed_over or {})
        tls_listener = handed_over.pop(sockets.CONTROL, None)
        if tls_listener is not None and config.control.listen is None:
            text = f"control.listen is empty; allowed: an address and tls, as a socket {sockets.CONTROL} was passed"
            raise ConfigError([text])
        self._entrances = Entrances(handed_over, keeper, self._kept)
        self._served: dict[str, ServedVm] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._changing = asyncio.Lock()
        """Held while VMs come and go: one change waits for another."""
        self._reloads: set[asyncio.Task[None]] = set()
        """Reloads in the background."""
        self._has_reload_waiting = False
        self.reload_refused = ""
        """Reason why the configuration, as it was when it was read last, does not count; "" if it does."""
        self._program: asyncio.Task[None] | None = None
        """Task that runs the daemon; cancelled, it ends."""
        self._has_ended = False
        self._log = get_logger()
        self.vms: dict[str, Vm] = {}
        """VMs that are served, those that are to leave included."""
        self.control: ControlSystem | None = None
        """None if the configuration has no control system."""
        if config.control.is_on:
            from vhost_backend.control.system import ControlSystem
            from vhost_backend.daemon.control_adapter import DaemonHost

            host = DaemonHost(self, engines, self._bus, ground or Ground.of_host())
            shelf = Shelf("control", keeper, self._kept)
            self.control = ControlSystem(
                config.control, self._bus, host, compiler, log=get_logger(), shelf=shelf, tls_listener=tls_listener
            )

    @property
    def is_kept(self) -> bool:
        """True if VMs go on when this process ends, as there is a keeper."""
        return self._keeper is not None

    @property
    def _takes_over(self) -> bool:
        """True if an earlier daemon has served, whose VMs must not end because this one cannot start."""
        return self._keeper is not None and not self._keeper.is_first

    @property
    def can_reload(self) -> bool:
        """True if the configuration can be read again."""
        return self._source is not None

    async def run(self) -> None:
        """Serves until cancelled; without a file from which VMs could come, until the last VM has left, too.

        A VM has left when it was removed and its frontend has gone, or when the connection that was handed over has ended.

        On return and on error all workers and compilers are killed and reaped, and the sockets that were bound are unlinked.

        :raise ConfigError: a VM has no socket.
        :raise HostError: a socket cannot be bound, or a VM has no quarters.
        """
        self._program = program = asyncio.current_task()
        assert program is not None
        async with contextlib.AsyncExitStack() as stack:
            if self._keeper is not None:
                self._keeper.attach(program.cancel)
                stack.callback(self._keeper.end)
            stack.push_async_callback(self._compiler.close)
            stack.push_async_callback(self._engines.close)
            stack.callback(self._alarms.close)
            if self._forks is not None:
                stack.callback(self._forks.close)
            stack.callback(self._close_all)
            stack.push_async_callback(self._end_reloads)
            with ended_alone(is_kept=self._takes_over):
                async with self._changing:
                    await self._start(stack)
            async with Tasks(is_kept=self.is_kept) as self._tasks:
                stack.callback(self._refuse_changes)
                for name, served in self._served.items():
                    self._tasks.create_task(self._serve(served), name=name)
                if self._keeper is not None:
                    self._tell_roll()
                    self._keeper.ready()
                await self._catch_up()
                if self.can_reload:
                    await asyncio.get_running_loop().create_future()  # VMs may come at any time

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        self._begin_all()
        sockets_of = {vm.name: str(vm.socket or "handed over") for vm in self.config.vms}
        self._log.info("serving", vms=sockets_of, pid=os.getpid())
        self._engines.begin(vm.engine for vm in self.config.vms)
        if self._forks is not None and self._kept:
            self._forks.start_soon()  # frontends and guests are there already
        elif self._forks is not None:
            await self._forks.start()  # frontends wait at the sockets meanwhile
        if self.control is not None:
            await stack.enter_async_context(self.control.running())

    def _begin_all(self) -> None:
        """Admits the VMs with which the daemon starts; of those of the state file, those that can be served."""
        for vm in first_vms(self.config, self._keeper, self._kept):
            self._begin(vm)
        roll = self._stored.admit(self._roll, self._check, self._begin)
        if roll != self._roll:
            self._roll, self.config = roll, roll.config()

    async def _catch_up(self) -> None:
        """Has VMs that an earlier daemon has served leave or change, as it would have had them after their frontends."""
        wanted = {vm.name: vm for vm in self.config.vms}
        if any(item.is_served_as != wanted.get(name) for name, item in self._served.items()):
            await asyncio.sleep(0)  # they begin to serve their frontends
            async with self._changing:
                await self._change(self._roll, self.config, now=False)

    def _begin(self, config: VmConfig) -> None:
        """Admits a VM with which the daemon starts."""
        entrance = self._entrances.of(config)
        try:
            made = self._make(config)
        except BaseException:
            entrance.close()
            raise
        self._admit(made, entrance)

    def _refuse_changes(self) -> None:
        self._has_ended = True

    @property
    def _is_ending(self) -> bool:
        """True if no VM comes any more. Those that are there may take a while to leave."""
        return self._has_ended or (self._program is not None and self._program.cancelling() > 0)

    async def _end_reloads(self) -> None:
        for task in self._reloads:
            task.cancel()
        if self._reloads:
            await asyncio.wait(self._reloads)

    # ---- VMs come and go -------------------------------------------------------------------------

    async def reload_file(self, *, now: bool = False) -> Reload:
        """Reads the configuration again, and serves its VMs. Waits for other changes that are under way.

        :raise VgcError: it cannot be used; then nothing changes.
        """
        async with self._changing:
            return await self._read_again(now=now)

    def reload_soon(self) -> None:
        """Reads the configuration again in the background, and logs the outcome.

        A reload that waits for other changes reads the file when its turn comes: one serves all calls until then.
        """
        if not self._has_reload_waiting:
            self._has_reload_waiting = True
            task = asyncio.create_task(self._reload_logged(), name="reload")
            self._reloads.add(task)
            task.add_done_callback(self._reloads.discard)

    async def _reload_logged(self) -> None:
        async with self._changing:
            self._has_reload_waiting = False
            try:
                done = await self._read_again(now=False)
            except VgcError as error:
                self._log.error("reload_refused", problems=str(error).splitlines(), advice="nothing has changed")
            else:
                self._log.info("reloaded", **{name: vms for name, vms in asdict(done).items() if vms})

    async def _read_again(self, *, now: bool) -> Reload:
        if self._source is None:
            raise ConfigError([NO_FILE])
        try:
            config = await asyncio.to_thread(self._source)
            done = await self._rebase(config, now=now)
        except VgcError as error:
            self.reload_refused = "; ".join(str(error).splitlines())
            raise
        self.reload_refused = ""
        configure(config.log.format, config.log.level)
        return replace(done, added=(*done.added, *await self._retry_left_out()))

    async def remove(self, name: str, *, now: bool = False) -> Reload:
        """Serves a VM no more once its frontend has gone, or `now`; forgets one that was to stay and cannot be served.

        :raise ConfigError: it is the last one, with which a daemon without a file would end, or no VM has this name.
        """
        async with self._changing:
            if name in self.left_out:
                await self._stored.forget(name, self._roll)
                return Reload(removed=(name,))
            if name not in self._served:
                raise ConfigError([f"no VM {name}; there is: {', '.join(self._served) or 'none'}"])
            if self.origin(name) == "leaving":
                served = self._served[name]
                if now:
                    served.cut_off()
                    return Reload(removed=(name,))
                return Reload(waiting=(name,) if served.vm.is_connected else ())
            if len(self.config.vms) == 1 and not self.can_reload:
                raise ConfigError([f"{name} is the only VM; allowed: to end vgcd, or to add another one before"])
            roll = self._roll.without(name)
            return await self._change(roll, roll.config(), now=now)

    async def add(self, name: str, settings: Settings, *, persists: bool = False) -> Reload:
        """Serves one VM more; if it `persists`, after a restart of the daemon again.

        :raise ConfigError: the settings are wrong, or a VM has this name or its socket. Then nothing changes.
        :raise HostError: the VM cannot be served, or cannot be saved. Likewise.
        """
        async with self._changing:
            if persists and not self._stored.can_persist:
                raise ConfigError([f"{name} cannot persist: vgcd has no configuration file; allowed: without persist"])
            roll = self._roll.with_added(name, AddedVm(settings, persists))
            done = await self._change(roll, await asyncio.to_thread(self._checked, roll), now=False)
            with contextlib.suppress(VgcError):  # it stays in the file, and is told of again
                await self._stored.forget(name, self._roll)
            return done

    async def _retry_left_out(self) -> tuple[str, ...]:
        """Serves VMs that were to stay and could not be served when the daemon started, as far as they can be now."""
        back = []
        for name in self.left_out:
            try:
                roll = self._stored.with_left_out(self._roll, name)
                await self._change(roll, await asyncio.to_thread(self._checked, roll), now=False)
            except VgcError as error:
                self._stored.note(name, error)
            else:
                back.append(name)
        return tuple(back)

    @property
    def left_out(self) -> dict[str, str]:
        """VMs that are to outlast the daemon and cannot be served, each with the reason."""
        return {name: reason for name, reason in self._stored.left_out.items() if name not in self._served}

    def origin(self, name: str) -> VmOrigin:
        """Place from which a VM comes."""
        return self._roll.origin(name, has_file=self.can_reload)

    async def reload(self, config: DaemonConfig, *, now: bool = False) -> Reload:
        """Serves the VMs of another configuration from now on; VMs whose settings are the same notice nothing.

        A removed VM leaves when its frontend does, or `now`. Other limits of a VM count at once, as far as its worker can
        have them; its other settings count from its next frontend on.

        :raise ConfigError: a key that cannot change while the daemon runs has changed, or a VM has no socket. Then nothing changes.
        :raise HostError: a socket cannot be bound, or a VM has no quarters. Likewise.
        """
        async with self._changing:
            return await self._rebase(config, now=now)

    async def _rebase(self, base: DaemonConfig, *, now: bool) -> Reload:
        roll = self._roll.with_base(base)
        return await self._change(roll, await asyncio.to_thread(self._checked, roll), now=now)

    def _checked(self, roll: Roll) -> DaemonConfig:
        """:raise VgcError: a VM's settings are wrong, or more than this host has."""
        return self._check(roll.config())

    async def _change(self, roll: Roll, config: DaemonConfig, *, now: bool) -> Reload:
        """Gets ready all that the roll's configuration needs, VM by VM, and then changes all at once."""
        if fixed := [key for key in _FIXED if getattr(config, key) != getattr(self.config, key)]:
            allowed = "allowed while vgcd runs: changes of vms, defaults, log and overcommit"
            raise ConfigError([f"{key} has changed; {allowed}" for key in fixed])
        wanted = {vm.name: vm for vm in config.vms}
        served = {name: item.is_served_as for name, item in self._served.items()}
        added = [vm for vm in config.vms if vm.name not in served]
        changed = [vm for vm in config.vms if vm.name in served and served[vm.name] != vm]
        removed = [name for name, vm in served.items() if vm is not None and name not in wanted]
        self._check_policies([*added, *changed])
        with contextlib.ExitStack() as undo:
            entrances, givers = await self._entrances.of_change([*added, *changed], wanted, self._served, undo)
            admitted = []
            for vm in added:
                admitted.append(self._make(vm))
                undo.callback(admitted[-1].close)
                await asyncio.sleep(0)  # the other VMs are served meanwhile
            await self._save(roll)
            undo.pop_all()
        entrances |= {name: giver.take_entrance() for name, giver in givers.items()}
        live = [vm.name for vm in changed if not now and self._served[vm.name].take_limits(vm)]
        changed = [vm for vm in changed if self._served[vm.name].is_served_as != vm]
        later = {
            vm.name: keys
            for vm in changed
            if self.vms[vm.name].is_connected and (keys := different_keys(self.vms[vm.name].config, vm))
        }
        leaving = [item for item in self._served.values() if item.is_leaving] if now else []
        for vm in changed:
            self._served[vm.name].leave(vm, entrances[vm.name], now=now)
        for name in removed:
            self._served[name].leave(now=now)
        for item in leaving:
            item.cut_off()
        for item in admitted:
            self._admit(item, entrances[item.vm.config.name])
        self._engines.begin(vm.engine for vm in (*added, *changed))
        self._roll, self.config = roll, config
        self._tell_roll()
        late = [name for name, item in self._served.items() if item.is_leaving and item.vm.is_connected]
        waiting = [] if now else late  # a connection that was cut off just now has not ended yet
        for item in [item for item in self._served.values() if item.is_leaving and item.has_ended]:
            self._let_go(item)
        return Reload(
            added=tuple(vm.name for vm in added),
            removed=tuple(removed),
            changed=tuple(vm.name for vm in changed),
            live=tuple(live),
            later=later,
            waiting=tuple(waiting),
        )

    def _check_policies(self, vms: Sequence[VmConfig]) -> None:
        """Checks VMs against policies that clients have put in force.

        :raise ConfigError: one is to migrate a VM that cannot be migrated.
        """
        if self.control is not None:
            reasons = (self.control.why_refused(vm.name, vm.engine.kind) for vm in vms)
            if wrong := [reason for reason in reasons if reason]:
                raise ConfigError(wrong)

    def _tell_roll(self) -> None:
        """Leaves the roll with the keeper, for the next daemon."""
        if self._keeper is not None:
            self._keeper.commit([told(self._roll)])

    async def _save(self, roll: Roll) -> None:
        """Has the VMs of `roll` that persist outlast the daemon, in place of those that did.

        :raise HostError: they cannot be saved, or the daemon is ending. Then the file is as it was.
        """
        before, after = self._roll.persistent(), roll.persistent()
        changes = self._stored.can_persist and before != after and not self._is_ending
        if changes:
            await asyncio.to_thread(self._stored.save, after)
        if self._is_ending:
            if changes:
                self._stored.save(before)
            raise HostError("vgcd is ending")

    def configured(self, name: str) -> VmConfig:
        """Settings of a VM that count from its next frontend on, at the latest; of one that leaves, the present ones."""
        served = self._served[name]
        return served.is_served_as or served.vm.config

    async def set_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """Changes limits of a VM, named as in the control API, until the configuration is read again.

        :raise ConfigError: the host has not so much, or the VM is to leave. Then nothing changes.
        :raise HostError: the VM cannot be served with them. Likewise.
        """
        async with self._changing:
            roll = self._roll.with_limits(name, limits)
            await self._change(roll, await asyncio.to_thread(self._checked, roll), now=False)

    def _make(self, config: VmConfig) -> ServedVm:
        """Makes a VM, which nobody knows yet.

        :raise HostError: it has no quarters.
        """
        lease = contextlib.ExitStack()
        control = self._control_of(config)
        try:
            programs = None if self._programs is None else self._programs / str(config.uuid)
            housed = self._house(config, lease)
            if self._keeper is not None:
                housed = replace(housed, quarters=replace(housed.quarters, keeper=self._keeper.pid))
            keep = VmKeep(config.name, self._keeper, self._kept)
            made = ServedVm(self._make_vm(housed, control=control, programs=programs, keep=keep), lease)
        except BaseException:
            lease.close()
            raise
        if control is not None:
            from vhost_backend.daemon.control_adapter import DaemonVm

            made.controlled = DaemonVm(made, control.channels, self._engines, self)
        return made

    def _control_of(self, config: VmConfig) -> DaemonVmControl | None:
        """The VM's side of the control system, whose modules take 13 MiB: they are imported where it is on."""
        if self.control is None:
            return None
        from vhost_backend.daemon.control_adapter import DaemonVmControl

        return DaemonVmControl(config.name, self.config.control, self._bus)

    def _admit(self, served: ServedVm, entrance: Entrance | None, waiting: Sequence[socket.socket] = ()) -> None:
        """Serves a VM from now on, at `entrance`, which it owns, and the connections in `waiting`, too."""
        assert entrance is not None
        name = served.vm.config.name
        served.open(entrance, waiting)
        self.vms[name] = served.vm
        self._served[name] = served
        if self.control is not None and served.controlled is not None:
            self.control.admit(served.controlled)
        if self._tasks is not None:  # else all of them begin soon
            self._tasks.create_task(self._serve(served), name=name)

    def _dismiss(self, name: str, *, forget: bool) -> None:
        """Ends a VM that has no frontend; with `forget`, the next one of this name is another VM."""
        leaving = self._served.pop(name)
        if forget:
            leaving.vm.forget_all()
        leaving.close()
        del self.vms[name]
        if self.control is not None:
            self.control.dismiss(name, forget=forget)

    async def _serve(self, served: ServedVm) -> None:
        await served.run()
        async with self._changing:
            if served.is_leaving and self._is_current(served):
                self._let_go(served)
                await asyncio.sleep(0)  # many VMs may leave at once

    def _is_current(self, served: ServedVm) -> bool:
        return self._served.get(served.vm.config.name) is served

    def _let_go(self, served: ServedVm) -> None:
        """Dismisses a VM that has left, and admits its successor as soon as the host has room for it."""
        name, successor = served.vm.config.name, served.successor
        if successor is None or not served.is_open:
            self._dismiss(name, forget=True)
            self._log.info("vm_left", vm=name)
            self._tell_of_room()
            return
        if served.end_lease():
            self._tell_of_room()
        try:
            made = self._make(successor)
        except HostError as error:
            if served.problem != str(error):
                self._log.error("vm_not_served", vm=name, error=str(error), advice=_NO_ROOM)
            served.problem = str(error)
            if served.retry is None and self._tasks is not None:
                served.retry = self._tasks.create_task(self._try_again(served))
            return
        made.vm.go_on_from(served.vm)
        entrance, waiting = served.take_entrance(), served.take_waiting()
        self._dismiss(name, forget=False)
        self._admit(made, entrance, waiting)
        self._log.info("vm_changed", vm=name)

    async def _try_again(self, served: ServedVm) -> None:
        """Admits the successor of a VM for which the host had no room. Cancelled with the VM's end."""
        while self._is_current(served):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._retry_s):
                    await served.has_room.wait()
            served.has_room.clear()
            async with self._changing:
                self._let_go(served)

    def _tell_of_room(self) -> None:
        """Has all VMs for which the host had no room tried again, as a VM has left."""
        for served in self._served.values():
            served.has_room.set()

    def _close_all(self) -> None:
        for served in self._served.values():
            served.close()
