"""The CPU domain's control system of a daemon, put together: interface, commands, API server."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any

from vhost_backend.control.access import Peer, TokenFile
from vhost_backend.control.api_server import ApiServer
from vhost_backend.control.channel_commands import ChannelCommands
from vhost_backend.control.commands import Commands, CommandSet
from vhost_backend.control.events import EventHub
from vhost_backend.control.host_commands import HostCommands
from vhost_backend.control.interface import Interface
from vhost_backend.control.self_cost import SelfCost
from vhost_backend.control.vm_port import ControlledVm, Host
from vhost_backend.control_config import ControlConfig
from vhost_backend.log import Logger
from virtio_proto.control.api import API_VERSION, Hello


class ControlSystem:
    """Everything that ``control:`` in the configuration asks for."""

    def __init__(
        self,
        config: ControlConfig,
        vms: Iterable[ControlledVm],
        host: Host,
        log: Logger,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.name = config.host or socket.gethostname().partition(".")[0] or "host"
        self._uuid = str(uuid.uuid4())
        self._clock_ns = clock_ns
        self._log = log
        self.hub = EventHub(log, clock_ns)
        self.interface = Interface(vms, config.channels, self.hub, log, clock_ns)
        cost = SelfCost(self.interface.sides.values(), config.budget_percent, clock_ns)
        sets: list[CommandSet] = [
            ChannelCommands(self.interface, self.hub),
            HostCommands(self.name, self.interface, host, cost),
        ]
        self.commands = Commands(self.hub, log, *sets)
        self.server = ApiServer(
            config,
            self.commands,
            self.hub,
            log,
            tokens=TokenFile(config.tokens, clock_ns),
            hello=self.hello,
            ended=self.interface.connection_ended,
        )

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
                yield
        finally:
            await self.interface.close()


def daemon_version() -> str:
    """The version of this installation."""
    try:
        return metadata.version("virtio-gpu-compute")
    except metadata.PackageNotFoundError:  # run from its sources
        return "not installed"
