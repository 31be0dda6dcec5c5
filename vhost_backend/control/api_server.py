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
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

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
_CREDENTIALS: Final = struct.Struct("3i")
_HANDSHAKE_S: Final = 10.0

HelloAnswer = Callable[[Peer], dict[str, Any]]
Ended = Callable[[int], None]


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
        self._tokens = tokens
        self._hello = hello
        self._ended = ended
        self._log = log
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listens in the block; at its end all connections are closed and the socket unlinked.

        :raise HostError: an address cannot be had, or a certificate not be read.
        :raise ConfigError: the tokens cannot be used.
        """
        self._tokens.load()
        async with contextlib.AsyncExitStack() as stack:
            if self._config.socket is not None:
                sock = stack.enter_context(listen.bound(self._config.socket, mode=0o600))
                sock.setblocking(False)
                await stack.enter_async_context(await asyncio.start_unix_server(self._accept, sock=sock))
            if self._config.listen is not None and self._config.tls is not None:
                address, port = self._config.listen
                context = tls_context(self._config.tls)
                try:
                    server = await asyncio.start_server(
                        self._accept, address, port, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S
                    )
                except OSError as error:
                    raise HostError(f"cannot listen at {address}:{port}: {error.strerror or error}") from None
                await stack.enter_async_context(server)
                self.port = server.sockets[0].getsockname()[1]
            stack.push_async_callback(self._close)
            yield

    async def _close(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MAX_CONNECTIONS:
            self._log.warning("control_peer_refused", error=f"{MAX_CONNECTIONS} are connected", guest=True)
            writer.close()
            return
        self._connections.add(task)
        connection = Connection(reader, writer, self._commands, self._hub, self._log)
        try:
            await connection.serve(lambda frame: self._greet(writer, frame))
        except asyncio.CancelledError:  # the daemon ends; asyncio's streams want their tasks to end by themselves
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            self._ended(connection.number)

    async def _greet(self, writer: asyncio.StreamWriter, frame: Frame) -> tuple[Peer, dict[str, Any]]:
        """:raise RefusedError: the peer is nobody, or speaks another version."""
        values = frame.get("with")
        fields = Fields("hello", values if isinstance(values, dict) else {})
        version = fields.integer("version", 0, 1 << 31)
        token = fields.optional_text("token")
        fields.done()
        if version != API_VERSION:
            raise RefusedError("malformed", f"hello: version is {version}; allowed: {API_VERSION}")
        peer = self._tokens.peer(token) if token is not None else self._known(writer)
        return peer, self._hello(peer)

    def _known(self, writer: asyncio.StreamWriter) -> Peer:
        """Who it is without a token.

        :raise RefusedError: "denied".
        """
        sock = writer.get_extra_info("socket")
        if sock.family == socket.AF_UNIX:
            _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
            if uid in (0, os.getuid()):
                return Peer(f"uid-{uid}", "admin")
            raise RefusedError("denied", f"user {uid} may not; allowed: root, user {os.getuid()}, or a token")
        certificate = writer.get_extra_info("peercert")
        clients = {} if self._config.tls is None else self._config.tls.clients
        if certificate and clients:
            return peer_of_certificate(_common_name(certificate), clients)
        raise RefusedError("denied", "neither token nor certificate; allowed: one of them")


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
