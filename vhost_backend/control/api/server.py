"""Server of the control API: listens on a UNIX socket for this host and on TLS for others, and authenticates peers.

Only the daemon's user and root can open the UNIX socket, and are ``admin`` there, unless they send a token, whose rights
hold then. Over TLS a peer shows a token, or a certificate that the configured CA has signed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from vhost_backend import sockets
from vhost_backend.config.control import ControlConfig
from vhost_backend.control.api.access import Peer, Tokens, peer_of_certificate
from vhost_backend.control.api.commands import Commands, request_of
from vhost_backend.control.api.connection import Connection
from vhost_backend.control.api.push_hub import PushHub
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.errors import ConfigError, HostError
from vhost_backend.log import Logger
from virtio_proto.control.api import API_VERSION
from virtio_proto.control.frames import Frame
from virtio_proto.control.server_settings import TlsConfig, TlsFileError, tls_context
from virtio_proto.control.verbs.session import Hello

MAX_CONNECTIONS: Final = 64
"""Most connections over the UNIX socket, and as many over TLS: remote peers cannot use up the places of local ones."""

MAX_STRANGERS: Final = 64
"""Most connections without a ``hello`` yet, for each of the two; the oldest is closed for a new one."""

_SOCKET_HINT: Final = "the shipped unit gets the port from a socket unit: systemctl enable --now vgcd-control.socket"
_CREDENTIALS: Final = struct.Struct("3i")
_HANDSHAKE_S: Final = 10.0

HelloAnswer = Callable[[Peer], dict[str, Any]]
Ended = Callable[[int], None]
Where: TypeAlias = Literal["unix", "tls"]


class ApiServer:
    """Serves the control API. `ended` is called with the number of each connection that has ended."""

    def __init__(
        self,
        config: ControlConfig,
        commands: Commands,
        hub: PushHub,
        log: Logger,
        *,
        tokens: Tokens,
        hello: HelloAnswer,
        ended: Ended,
        tls_listener: socket.socket | None = None,
    ) -> None:
        self._config = config
        self._commands = commands
        self._hub = hub
        self.tokens = tokens
        self.hello = hello
        self.clients = {} if config.tls is None else config.tls.clients
        self._ended = ended
        self._tls_listener = tls_listener
        self._log = log
        self._connections: dict[Where, set[asyncio.Task[None]]] = {"unix": set(), "tls": set()}
        self._strangers: dict[Where, dict[asyncio.Task[None], None]] = {"unix": {}, "tls": {}}

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listens in the block; at its end all connections are closed and the socket is unlinked.

        :raise HostError: an address cannot be used.
        :raise ConfigError: the tokens or a certificate cannot be used.
        """
        self.tokens.load()
        async with contextlib.AsyncExitStack() as stack:
            if self._config.socket is not None:
                sock = stack.enter_context(sockets.bound(self._config.socket, mode=0o600))
                sock.setblocking(False)
                await stack.enter_async_context(await asyncio.start_unix_server(self._accept_unix, sock=sock))
            if self._config.listen is not None and self._config.tls is not None:
                server = await self._tls_server(self._config.listen, _tls_context(self._config.tls))
                await stack.enter_async_context(server)
                self.port = server.sockets[0].getsockname()[1]
            stack.push_async_callback(self._close)
            yield

    async def _tls_server(self, where: tuple[str, int], context: ssl.SSLContext) -> asyncio.Server:
        """Listens on the socket that was passed, or else at `where`.

        :raise HostError: the address cannot be used.
        """
        accept = partial(self._accept_tls, context)
        if self._tls_listener is not None:
            return await asyncio.start_server(accept, sock=self._tls_listener)
        address, port = where
        try:
            server = await asyncio.start_server(accept, address, port)
        except OSError as error:
            raise HostError(f"cannot listen at {address}:{port}: {error.strerror or error}") from None
        if not server.sockets:  # asyncio leaves out addresses of families that the process may not use
            raise HostError(f"cannot listen at {address}:{port}: this process may use no network", _SOCKET_HINT)
        return server

    async def _close(self) -> None:
        tasks = {task for there in (self._strangers, self._connections) for tasks in there.values() for task in tasks}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept_unix(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._stranger("unix", writer):
            await self._serve("unix", reader, writer)

    async def _accept_tls(
        self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with self._stranger("tls", writer):
            await writer.start_tls(context, ssl_handshake_timeout=_HANDSHAKE_S)
            await self._serve("tls", reader, writer)

    @contextlib.contextmanager
    def _stranger(self, where: Where, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Accounts for a connection in the block. Until its peer is known, a newer connection may cancel its task.

        Suppresses that cancellation, too: asyncio's streams expect the tasks of their callbacks to return.
        """
        task = _this_task()
        strangers = self._strangers[where]
        if len(strangers) >= MAX_STRANGERS:
            next(iter(strangers)).cancel()
        strangers[task] = None
        try:
            yield
        except OSError as error:
            self._log.info("control_peer_lost", error=str(error), guest=True)
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            strangers.pop(task, None)
            self._connections[where].discard(task)

    async def _serve(self, where: Where, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._commands, self._hub, self._log)
        try:
            await connection.serve(_PeersGate(self, where, writer))
        finally:
            self._ended(connection.number)

    def admit(self, where: Where, task: asyncio.Task[None]) -> None:
        """Counts an authenticated peer's connection.

        :raise RefusedError: "quota": there are `MAX_CONNECTIONS` already.
        """
        connections = self._connections[where]
        if len(connections) >= MAX_CONNECTIONS:
            raise RefusedError("quota", f"{len(connections)} are connected; allowed: {MAX_CONNECTIONS}")
        connections.add(task)
        del self._strangers[where][task]


class _PeersGate:
    """Authenticates the peer of one connection: by its token, its certificate, or its user on this host."""

    def __init__(self, server: ApiServer, where: Where, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._where: Where = where
        self._writer = writer
        self._task = _this_task()
        self._token: str | None = None
        self._peer: Peer | None = None

    def greet(self, frame: Frame) -> tuple[Peer, dict[str, Any]]:
        """:raise RefusedError: the peer is unknown, speaks another version, or too many are connected."""
        values = frame.get("with")
        asked: Hello.Request = request_of(Hello, values if isinstance(values, dict) else {})
        self._token = asked.token
        if asked.version != API_VERSION:
            raise RefusedError("malformed", f"hello: version is {asked.version}; allowed: {API_VERSION}")
        tokens = self._server.tokens
        self._peer = self._known() if self._token is None else tokens.peer(self._token)
        self._server.admit(self._where, self._task)
        return self._peer, self._server.hello(self._peer)

    def check(self) -> None:
        """:raise RefusedError: the peer's token has expired, is gone, or has other rights now."""
        if self._token is not None and self._peer is not None:
            self._server.tokens.check(self._token, self._peer)

    def _known(self) -> Peer:
        """Authenticates a peer that sent no token.

        :raise RefusedError: "denied": its user or its certificate has no role.
        """
        sock = self._writer.get_extra_info("socket")
        if sock.family == socket.AF_UNIX:
            _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
            if uid in (0, os.getuid()):
                return Peer(f"uid-{uid}", "admin")
            raise RefusedError("denied", f"user {uid} may not; allowed: root, user {os.getuid()}, or a token")
        certificate = self._writer.get_extra_info("peercert")
        if certificate and self._server.clients:
            return peer_of_certificate(_common_name(certificate), self._server.clients)
        raise RefusedError("denied", "neither token nor certificate; allowed: one of them")


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _common_name(certificate: dict[str, Any]) -> str:
    pairs = (pair for part in certificate.get("subject", ()) for pair in part)
    return next((value for key, value in pairs if key == "commonName"), "")


def _tls_context(config: TlsConfig) -> ssl.SSLContext:
    try:
        return tls_context(config)
    except TlsFileError as error:
        raise ConfigError([f"control.{error}"]) from None
