"""The CPU domain's control system of a daemon, put together: interface, commands, API server."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any

from vhost_backend.control.access import Peer, Tokens
from vhost_backend.control.api_server import ApiServer
from vhost_backend.control.channel_commands import ChannelCommands
from vhost_backend.control.commands import Commands, CommandSet
from vhost_backend.control.events import EventHub
from vhost_backend.control.fault_commands import FaultCommands
from vhost_backend.control.fields import Fields
from vhost_backend.control.firmware import signing
from vhost_backend.control.firmware.manager import FirmwareManager
from vhost_backend.control.firmware_commands import FirmwareCommands
from vhost_backend.control.host_commands import HostCommands
from vhost_backend.control.interface import Interface
from vhost_backend.control.load.commands import LoadCommands
from vhost_backend.control.load.watching import LoadWatch
from vhost_backend.control.moves import MoveCommands, Moves
from vhost_backend.control.policies import Policies
from vhost_backend.control.refusal import RefusedError
from vhost_backend.control.self_cost import SelfCost
from vhost_backend.control.vm_port import ControlledVm, Host
from vhost_backend.control.vm_side import VmSide
from vhost_backend.control.watch import Action, Watch
from vhost_backend.control_config import ControlConfig, PolicyConfig
from vhost_backend.daemon.ports import Compiler
from vhost_backend.log import Logger
from virtio_proto.control.api import API_VERSION, Hello


class ControlSystem:
    """Everything that ``control:`` in the configuration asks for."""

    def __init__(
        self,
        config: ControlConfig,
        vms: Iterable[ControlledVm],
        host: Host,
        compiler: Compiler,
        log: Logger,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.name = config.host or socket.gethostname().partition(".")[0] or "host"
        self._uuid = str(uuid.uuid4())
        self._clock_ns = clock_ns
        self._host = host
        self._log = log
        self.hub = EventHub(log, clock_ns)
        self.interface = Interface(vms, config.channels, self.hub, log, clock_ns)
        self.moves = Moves(self.interface, self.hub)
        self.load = LoadWatch(self.interface, log)
        self.watch = Watch(
            self.interface,
            self.hub,
            Policies(config.policies, clock_ns),
            log,
            hung_after_ns=config.hung_after_ns,
            actions=policy_actions(self.moves),
        )
        self.interface.observer = self.watch
        keys = signing.public_keys(config.firmware_keys)
        self.firmware = firmware = FirmwareManager(keys, compiler, self._tell_firmware, clock_ns)
        firmware_commands = FirmwareCommands(self.interface, firmware)
        self.watch.on_worker_ready = firmware_commands.worker_ready
        self.watch.on_worker_lost = lambda vm, loss: firmware.worker_lost(vm, died=loss.died)
        self.watch.on_firmware = firmware.reported
        cost = SelfCost(self.interface.sides.values(), config.budget_percent, clock_ns)
        sets: list[CommandSet] = [
            ChannelCommands(self.interface, self.hub),
            HostCommands(self.name, self.interface, host, cost, firmware.active),
            FaultCommands(self.interface, self.hub, self.watch),
            MoveCommands(self.interface, self.moves),
            LoadCommands(self.interface, host, self.load, self.moves),
            firmware_commands,
        ]
        self.commands = Commands(self.hub, log, *sets)
        self.server = ApiServer(
            config,
            self.commands,
            self.hub,
            log,
            tokens=Tokens(config.tokens, clock_ns),
            hello=self.hello,
            ended=self.interface.connection_ended,
        )

    def connected(self, vm: str, on: bool) -> None:
        """A VM has a guest, or none any more."""
        self.hub.event("vm_connected" if on else "vm_disconnected", vm)

    def _tell_firmware(self, event: str, vm: str | None, detail: dict[str, Any]) -> None:
        self.hub.event(event, vm, **detail)

    def hello(self, peer: Peer) -> dict[str, Any]:
        """What a peer is greeted with."""
        answer: Hello = {
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
        """Listens in the block.

        :raise HostError: an address cannot be had.
        :raise ConfigError: tokens or certificates cannot be used.
        """
        try:
            async with self.server.listening():
                self.watch.look_for_hung()
                self.interface.spawn(self._host.watch(self.watch.device_error))
                yield
        finally:
            await self.firmware.close()
            await self.watch.close()
            await self.load.close()
            await self.interface.close()


def policy_actions(moves: Moves) -> dict[str, Action]:
    """What policies may do to a VM, by the name of the action."""

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
        move = await moves.move(side, gpu, pes)
        if move["state"] == "failed":
            raise RefusedError("failed", move["text"])
        return f"moved from {move['source']} to {move['target']}"

    return {"alert": alert, "quiesce": quiesce, "reset": reset, "migrate": migrate}


def target_of(text: str) -> tuple[str | None, tuple[int, ...] | None]:
    """A policy's target: a GPU's number or UUID, or ``pes:0-3``, elements; nothing: the least loaded GPU."""
    if text.startswith("pes:"):
        return None, Fields("policy", {"pes": text.removeprefix("pes:")}).pes()
    return text or None, None


def daemon_version() -> str:
    """The version of this installation."""
    try:
        return metadata.version("virtio-gpu-compute")
    except metadata.PackageNotFoundError:  # run from its sources
        return "not installed"
