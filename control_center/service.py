"""Starts and ends the parts of a control centre in order: recorder, cluster and web server."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Final

import structlog
from aiohttp import web

from control_center.access import Access, Tokens
from control_center.app import make_app
from control_center.centre import Centre
from control_center.cluster import Cluster
from control_center.config import CentreConfig, RecorderConfig
from control_center.errors import ConfigError
from control_center.host import Clocks
from control_center.recording_port import Recorder
from virtio_proto.control.server_settings import TlsConfig, TlsFileError, tls_context

log = structlog.get_logger()
LOAD_S: Final = 1.0
"""Interval of `Centre.tick`."""
SHUTDOWN_S: Final = 2.0
"""Time for open requests at the end."""


@contextlib.asynccontextmanager
async def running(config: CentreConfig, clocks: Clocks | None = None) -> AsyncIterator[tuple[str, Centre]]:
    """Context manager that serves a control centre; yields the URL of the page, and the centre.

    :raise ConfigError: a file that the configuration names cannot be used.
    :raise OSError: the server cannot listen there, or the recording cannot be opened.
    """
    clocks = clocks or Clocks()
    access = _access(config, clocks)
    ssl_context = None if config.tls is None else _tls_context(config.tls)
    async with contextlib.AsyncExitStack() as stack:
        recorder = None if config.recorder is None else await _recorder(config.recorder, stack)
        cluster = Cluster(config.hosts, clocks=clocks)
        centre = Centre(cluster, access, recorder, config.max_pe_series)
        await stack.enter_async_context(cluster)
        runner = web.AppRunner(make_app(centre), access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        host, port = config.listen
        await web.TCPSite(runner, host, port, ssl_context=ssl_context).start()
        ticking = asyncio.create_task(_tick(centre))
        stack.callback(ticking.cancel)
        yield _url(config, runner), centre


def _access(config: CentreConfig, clocks: Clocks) -> Access:
    tokens = None if config.tokens is None else Tokens(config.tokens)
    if tokens is not None:
        tokens.load()
    return Access(tokens, {} if config.tls is None else config.tls.clients, clocks.real_ns)


async def _recorder(config: RecorderConfig, stack: contextlib.AsyncExitStack) -> Recorder:
    from control_center.recorder import open_recorder

    try:
        recorder = open_recorder(config.url, retention_s=config.retention_s, size_bytes=config.size_bytes)
    except ValueError as error:
        raise ConfigError([f"recorder.url: {error}"]) from None
    await recorder.start()
    stack.push_async_callback(recorder.close)
    return recorder


async def _tick(centre: Centre) -> None:
    """Sends the load to streams and the recorder once a second; also ends streams whose tokens have ended."""
    while True:
        await asyncio.sleep(LOAD_S)
        try:
            centre.tick()
        except Exception:
            log.exception("tick_failed")


def _url(config: CentreConfig, runner: web.AppRunner) -> str:
    address = runner.addresses[0]
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"http{'s' if config.tls is not None else ''}://{host}:{address[1]}/"


def _tls_context(config: TlsConfig) -> ssl.SSLContext:
    try:
        return tls_context(config)
    except TlsFileError as error:
        raise ConfigError([str(error)]) from None
