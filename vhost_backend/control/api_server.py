"""Where the control API listens, and who may come in: a UNIX socket for this host, TLS for others.

On the UNIX socket, which only the daemon's own user can open, its user and root are ``admin``; a token that they send
narrows that. Over TLS a peer shows a token, or a certificate that the configured CA has signed.
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
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from vhost_backend.control.access import Peer, Tokens, peer_of_certificate
from vhost_backend.control.commands import Commands
from vhost_backend.control.connection import Connection
from vhost_backend.control.events import EventHub
from vhost_backend.control.fields import Fields
from vhost_backend.control.refusal import RefusedError
from vhost_backend.control_config import ControlConfig, TlsConfig
from vhost_backend.daemon import listen
from vhost_backend.errors import ConfigError, HostError
from vhost_backend.log import Logger
from virtio_proto.control.api import API_VERSION
from virtio_proto.control.frames import Frame

MAX_CONNECTIONS: Final = 64
"""Over the UNIX socket, and as many over TLS: nobody from outside takes the places of this host's own."""

MAX_STRANGERS: Final = 64
"""Peers that have not said who they are, the same way; the oldest makes way for the next."""

_CREDENTIALS: Final = struct.Struct("3i")
_HANDSHAKE_S: Final = 10.0

HelloAnswer = Callable[[Peer], dict[str, Any]]
Ended = Callable[[int], None]
Where: TypeAlias = Literal["unix", "tls"]


class ApiServer:
    """Serves the control API. `ended` is told of each connection that has gone."""

    def __init__(
        self,
        config: ControlConfig,
        commands: Commands,
        hub: EventHub,
        log: Logger,
        *,
        tokens: Tokens,
        hello: HelloAnswer,
        ended: Ended,
    ) -> None:
        self._config = config
        self._commands = commands
        self._hub = hub
        self.tokens = tokens
        self.hello = hello
        self.clients = {} if config.tls is None else config.tls.clients
        self._ended = ended
        self._log = log
        self._connections: dict[Where, set[asyncio.Task[None]]] = {"unix": set(), "tls": set()}
        self._strangers: dict[Where, dict[asyncio.Task[None], None]] = {"unix": {}, "tls": {}}

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listens in the block; at its end all connections are closed and the socket unlinked.

        :raise HostError: an address cannot be had, or a certificate not be read.
        :raise ConfigError: the tokens cannot be used.
        """
        self.tokens.load()
        async with contextlib.AsyncExitStack() as stack:
            if self._config.socket is not None:
                sock = stack.enter_context(listen.bound(self._config.socket, mode=0o600))
                sock.setblocking(False)
                await stack.enter_async_context(await asyncio.start_unix_server(self._accept_unix, sock=sock))
            if self._config.listen is not None and self._config.tls is not None:
                address, port = self._config.listen
                context = tls_context(self._config.tls)
                try:
                    server = await asyncio.start_server(partial(self._accept_tls, context), address, port)
                except OSError as error:
                    raise HostError(f"cannot listen at {address}:{port}: {error.strerror or error}") from None
                await stack.enter_async_context(server)
                self.port = server.sockets[0].getsockname()[1]
            stack.push_async_callback(self._close)
            yield

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
        """For as long as a connection is there. Until its peer is known, another one may take its place.

        It ends without an error, whatever ends it: asyncio's streams want their tasks to end by themselves.
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
        """Gives a peer that is known its place.

        :raise RefusedError: "quota": all are taken.
        """
        connections = self._connections[where]
        if len(connections) >= MAX_CONNECTIONS:
            raise RefusedError("quota", f"{len(connections)} are connected; allowed: {MAX_CONNECTIONS}")
        connections.add(task)
        del self._strangers[where][task]


class _PeersGate:
    """Lets one connection's peer in: by its token, its certificate, or as this host's own."""

    def __init__(self, server: ApiServer, where: Where, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._where: Where = where
        self._writer = writer
        self._task = _this_task()
        self._token: str | None = None
        self._peer: Peer | None = None

    def greet(self, frame: Frame) -> tuple[Peer, dict[str, Any]]:
        """:raise RefusedError: the peer is nobody, speaks another version, or there is no place."""
        values = frame.get("with")
        fields = Fields("hello", values if isinstance(values, dict) else {})
        version = fields.integer("version", 0, 1 << 31)
        self._token = fields.optional_text("token")
        fields.done()
        if version != API_VERSION:
            raise RefusedError("malformed", f"hello: version is {version}; allowed: {API_VERSION}")
        tokens = self._server.tokens
        self._peer = self._known() if self._token is None else tokens.peer(self._token)
        self._server.admit(self._where, self._task)
        return self._peer, self._server.hello(self._peer)

    def check(self) -> None:
        """:raise RefusedError: the token is not what it was."""
        if self._token is not None and self._peer is not None:
            self._server.tokens.check(self._token, self._peer)

    def _known(self) -> Peer:
        """Who it is without a token.

        :raise RefusedError: "denied".
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


def tls_context(config: TlsConfig) -> ssl.SSLContext:
    """What TLS connections are made with.

    :raise ConfigError: a file cannot be read, or is no certificate or key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _loaded("certificate or key", config.certificate, lambda: context.load_cert_chain(config.certificate, config.key))
    if config.client_ca is not None:
        ca = config.client_ca
        _loaded("client_ca", ca, lambda: context.load_verify_locations(ca))
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _loaded(what: str, path: Path, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ssl.SSLError) as error:
        allowed = "a PEM file that can be read"
        raise ConfigError([f"control.tls: {what} of {path}: {error.strerror or error}; allowed: {allowed}"]) from None
