"""Control system of a daemon: constructs its parts, from the first to the last, and runs the API server."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any

from vhost_backend.compiler.service import Compiler
from vhost_backend.config.control import ControlConfig, PolicyConfig, why_vm_is_refused
from vhost_backend.config.engine import EngineName
from vhost_backend.control.api.access import Peer, Tokens
from vhost_backend.control.api.commands import Commands, CommandSet
from vhost_backend.control.api.event_pushes import EventPushes
from vhost_backend.control.api.push_hub import PushHub
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.api.server import ApiServer
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import VmAdded, VmLeft
from vhost_backend.control.faults.commands import FaultCommands
from vhost_backend.control.faults.policies import Policies
from vhost_backend.control.faults.watch import Action, FaultWatch
from vhost_backend.control.firmware import signing
from vhost_backend.control.firmware.commands import FirmwareCommands
from vhost_backend.control.firmware.elements import SideElements
from vhost_backend.control.firmware.manager import FirmwareManager
from vhost_backend.control.host.commands import HostCommands
from vhost_backend.control.host.function_commands import FunctionCommands
from vhost_backend.control.host.loop_delay import LoopDelay
from vhost_backend.control.host.self_cost import SelfCost
from vhost_backend.control.host.status_commands import StatusCommands
from vhost_backend.control.host.vm_commands import VmCommands
from vhost_backend.control.instances.commands import ChannelCommands
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.vm_port import ControlledVm, Host
from vhost_backend.control.load.commands import LoadCommands
from vhost_backend.control.load.migrations import MigrationCommands, MigrationService
from vhost_backend.control.load.watch import LoadWatch
from vhost_backend.keeper.shelf import Shelf
from vhost_backend.log import Logger
from virtio_proto.control.api import API_VERSION, HelloInfo
from virtio_proto.control.selector import SelectorError, numbers


class ControlSystem:
    """Implements the section ``control:`` of the configuration."""

    def __init__(
        self,
        config: ControlConfig,
        bus: EventBus,
        host: Host,
        compiler: Compiler,
        *,
        log: Logger,
        clock_ns: Callable[[], int] = time.time_ns,
        shelf: Shelf | None = None,
        tls_listener: socket.socket | None = None,
    ) -> None:
        """Constructs all parts.

        :param shelf: of the control system at the keeper; None: what clients have set ends with the daemon.
        :param tls_listener: TCP socket that systemd passed; None: the server binds `config.listen` itself.
        """
        shelf = shelf or Shelf("control")
        self.name = config.host or socket.gethostname().partition(".")[0] or "host"
        self._uuid = str(uuid.uuid4())
        self._clock_ns = clock_ns
        self._host = host
        self._bus = bus
        self.tasks = tasks = BackgroundTasks(log)
        self.hub = hub = PushHub(log, clock_ns)
        EventPushes(bus, hub, clock_ns)  # the first subscriber: clients see an event before its consequences
        self.registry = InstanceRegistry(
            bus, hub, tasks, log, quota=config.channels, clock_ns=clock_ns, shelf=shelf.part("vms")
        )
        self.firmware = FirmwareManager(
            signing.public_keys(config.firmware_keys),
            compiler,
            bus,
            tasks,
            elements_of=lambda vm: SideElements(self.registry.sides[vm]),
            clock_ns=clock_ns,
            shelf=shelf.part("firmware"),
        )
        self.migrations = MigrationService(bus, tasks, clock_ns)
        self.load = LoadWatch(self.registry, tasks, log)
        self.watch = FaultWatch(
            self.registry,
            bus,
            Policies(config.policies, clock_ns, shelf.part("policies")),
            tasks,
            log,
            hung_after_ns=config.hung_after_ns,
            actions=policy_actions(self.migrations),
            shelf=shelf.part("faults"),
        )
        self._loop_delay = LoopDelay()
        cost = SelfCost(self.registry.sides.values(), config.budget_percent, clock_ns, self._loop_delay)
        sets: list[CommandSet] = [
            ChannelCommands(self.registry, hub),
            HostCommands(self.name, self.registry, host, cost, self.firmware.active),
            VmCommands(self.registry, host),
            FunctionCommands(self.registry),
            StatusCommands(self.registry, host, daemon_version(), clock_ns),
            FaultCommands(self.registry, bus, self.watch),
            MigrationCommands(self.registry, self.migrations),
            LoadCommands(self.registry, host, self.load, self.migrations),
            FirmwareCommands(self.registry, self.firmware),
        ]
        self.commands = Commands(hub, log, *sets)
        self.server = ApiServer(
            config,
            self.commands,
            hub,
            log,
            tokens=Tokens(config.tokens, clock_ns),
            hello=self.hello,
            ended=self.registry.connection_ended,
            tls_listener=tls_listener,
        )

    def why_refused(self, vm: str, engine: EngineName) -> str:
        """Reason why a VM on an engine cannot be served under the policies that are in force now; "" if it can be."""
        reasons = (why_vm_is_refused(policy.config, vm, engine) for policy in self.watch.policies.all)
        return next(filter(None, reasons), "")

    def admit(self, vm: ControlledVm) -> None:
        """Watches and steers a VM from now on."""
        self.registry.admit(vm)
        self._bus.publish(VmAdded(vm.name))

    def dismiss(self, name: str, *, forget: bool = True) -> None:
        """Removes a VM that has no worker; without `forget`, the next VM of this name is the same one, changed."""
        self.registry.dismiss(name)
        if forget:
            self.firmware.forget(name)
            self.watch.forget(name)
            self._bus.publish(VmLeft(name))

    def hello(self, peer: Peer) -> dict[str, Any]:
        """Answer to a peer's ``hello``."""
        answer: HelloInfo = {
            "version": API_VERSION,
            "host": self.name,
            "uuid": self._uuid,
            "daemon": daemon_version(),
            "role": peer.role,
            "vms": None if peer.vms is None else sorted(peer.vms),
            "time_ns": self._clock_ns(),
        }
        return dict(answer)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves the control API in the block.

        :raise HostError: an address cannot be bound.
        :raise ConfigError: tokens or certificates cannot be used.
        """
        try:
            async with self.server.listening():
                self.watch.look_for_hung()
                self.tasks.spawn(self._host.watch())
                self.tasks.spawn(self._loop_delay.watch())
                yield
        finally:
            await self.load.close()
            self.registry.close()
            await self.tasks.close()


def policy_actions(migrations: MigrationService) -> dict[str, Action]:
    """Actions of policies on a VM, by name."""

    async def alert(_side: VmSide, _policy: PolicyConfig) -> str:
        return "told"

    async def quiesce(side: VmSide, policy: PolicyConfig) -> str:
        await side.vm.quiesce(on=True)
        return f"takes no new requests until resumed (policy {policy.name})"

    async def reset(side: VmSide, policy: PolicyConfig) -> str:
        await side.vm.reset(f"policy {policy.name}")
        return "worker replaced"

    async def migrate(side: VmSide, policy: PolicyConfig) -> str:
        gpu, pes = target_of(policy.target)
        migration = await migrations.migrate(side, gpu, pes)
        if migration["state"] == "failed":
            raise RefusedError("failed", migration["text"])
        return f"migrated from {migration['source']} to {migration['target']}"

    return {"alert": alert, "quiesce": quiesce, "reset": reset, "migrate": migrate}


def target_of(text: str) -> tuple[str | None, tuple[int, ...] | None]:
    """Target of a policy's migration, as (GPU, processing elements).

    It is a GPU's number or UUID, or ``pes:0-3``; "" leaves the VM on its GPU, with as many elements as it has.
    """
    if text.startswith("pes:"):
        try:
            return None, numbers(text.removeprefix("pes:"))
        except SelectorError as error:
            raise RefusedError("malformed", f"policy: target is {text!r:.80}; allowed: pes: and {error}") from None
    return text or None, None


def daemon_version() -> str:
    """Version of this installation."""
    try:
        return metadata.version("virtio-gpu-compute")
    except metadata.PackageNotFoundError:  # run from its sources
        return "not installed"
