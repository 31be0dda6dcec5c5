"""A VM's entrance: each connection is served once, whenever the VM begins to leave."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vhost_backend import sockets
from vhost_backend.config.daemon import VmConfig, vm_uuid
from vhost_backend.daemon.keeping import VmKeep
from vhost_backend.daemon.served_vm import Entrance, ServedVm
from vhost_backend.daemon.vm import Vm


class FakeVm(SimpleNamespace):
    """A VM that serves a connection at once, unless it is to leave."""

    def __init__(self) -> None:
        super().__init__(config=VmConfig("a", vm_uuid("a")), admits=True, accepted=[], keep=VmKeep("a"))

    async def serve(self, sock: socket.socket) -> bool:
        self.accepted.append(sock.fileno())
        return bool(self.admits)


async def turn(times: int) -> None:
    """Lets the loop turn: callbacks and tasks get further, always equally far."""
    for _ in range(times):
        await asyncio.sleep(0)  # noqa: TID251  no time passes


def backlog(entrance: Entrance) -> list[socket.socket]:
    """Connections that nobody has accepted."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(entrance.socket.accept()[0])
    return found


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("clients", [1, 3])
def test_connection_that_arrives_as_the_vm_begins_to_leave_is_not_lost(
    turns: int, clients: int, tmp_path: Path
) -> None:
    async def test() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
        vm = FakeVm()
        entrance = Entrance(sockets.bound(tmp_path / "s"))
        served = ServedVm(cast("Vm", vm), contextlib.ExitStack())
        served.open(entrance)
        running = asyncio.create_task(served.run())
        await turn(3)  # it listens
        with contextlib.ExitStack() as stack:
            for _ in range(clients):
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.connect(str(tmp_path / "s"))
            await turn(turns)
            served.leave(vm.config)
            done_before = len(vm.accepted)
            await running
            waiting, left = served.take_waiting(), backlog(entrance)
            assert done_before + len(waiting) + len(left) == clients
            assert problems == []
            for sock in (*waiting, *left):
                sock.close()
        entrance.close()
        gc.collect()

    asyncio.run(test())


def test_connection_whose_task_never_ran_is_closed(tmp_path: Path) -> None:
    async def test() -> None:
        served = ServedVm(cast("Vm", FakeVm()), contextlib.ExitStack())
        served.open(Entrance(sockets.bound(tmp_path / "s")))
        running = asyncio.create_task(served.run())
        await turn(3)  # it listens
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            client.setblocking(False)
            await turn(2)  # it is accepted, and its task begins with the next turn
            served.leave(now=True)
            await running
            assert client.recv(1) == b""

    asyncio.run(test())
