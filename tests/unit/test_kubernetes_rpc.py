"""Calls over UNIX sockets: what a client is told of a refusal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from vgc_kubernetes import rpc
from vgc_kubernetes.errors import RequestError
from vgc_kubernetes.protos import hook_info_pb2
from vgc_kubernetes.protos.hook_info_pb2 import InfoParams, InfoResult

INFO = rpc.service_of(hook_info_pb2.DESCRIPTOR, "Info")


class Refusing:
    async def info(self, _request: InfoParams) -> InfoResult:
        raise RequestError("refused: " + "\u00e4\n" * 100_000)


def test_a_refusal_of_any_length_reaches_the_client_with_its_reason(tmp_path: Path) -> None:
    async def ask() -> grpc.aio.AioRpcError:
        path = tmp_path / "s"
        server = rpc.server(path, {INFO: Refusing()})
        await server.start()
        try:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await rpc.call(path, INFO, "Info", InfoParams())
        finally:
            await server.stop(None)
        return refused.value

    error = asyncio.run(ask())
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert (error.details() or "").startswith("refused: \u00e4")
