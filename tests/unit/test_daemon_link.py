"""Control centre's connection to a daemon, alone."""

from __future__ import annotations

import asyncio
import socket

import pytest

from control_center.daemon_link import Connection
from control_center.errors import UnreachableError
from tests.waiting import turns_until


def test_caller_that_is_cancelled_while_a_connection_closes_is_told() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            connection = Connection(*await asyncio.open_unix_connection(sock=ours), lambda _push: None)
            asking = asyncio.create_task(connection.call("status"))
            await turns_until(lambda: bool(connection._waiting))
            closing = asyncio.create_task(connection.close())
            await turns_until(lambda: bool(connection._task.cancelling()))
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            with pytest.raises(UnreachableError, match="the connection was closed"):
                await asking
            assert connection.closed.result() == "the connection was closed"

    asyncio.run(run())
