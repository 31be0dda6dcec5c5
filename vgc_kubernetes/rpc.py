"""gRPC over UNIX sockets, by the descriptors of `protos`: servers of a service, and single calls.

A service is implemented by an object with a coroutine method, or an asynchronous generator, for each method of the service,
named in snake case.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from vgc_kubernetes.errors import RequestError

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_MAX_PATH: Final = 107  # sun_path
_MAX_TEXT: Final = 1000  # a client takes some KiB of trailing metadata, and of the rest nothing
CALL_S: Final = 10.0
"""Time to wait for an answer of the kubelet."""


def service_of(file: FileDescriptor, name: str) -> ServiceDescriptor:
    """Service of this name that a file of `protos` declares."""
    services: Mapping[str, ServiceDescriptor] = file.services_by_name
    return services[name]


def server(path: Path, services: Mapping[ServiceDescriptor, object]) -> grpc.aio.Server:
    """Binds a UNIX socket at `path`, in the place of one that is there; nobody is answered until ``start()``.

    :raise OSError: the path cannot be bound.
    """
    if len(os.fsencode(path)) > _MAX_PATH:
        raise OSError(f"{path} cannot be bound; allowed: a path of at most {_MAX_PATH} bytes")
    made = grpc.aio.server()
    made.add_generic_rpc_handlers(tuple(_handlers(service, one) for service, one in services.items()))
    try:
        made.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise OSError(f"{path} cannot be bound: {error}") from None
    return made


async def call(path: Path, service: ServiceDescriptor, method: str, request: Message, timeout_s: float = CALL_S) -> Any:
    """Calls a method of the service that a socket offers; returns its answer.

    :raise grpc.RpcError: the call failed, or was not answered in time.
    """
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        descriptor = service.methods_by_name[method]
        made = channel.unary_unary(
            f"/{service.full_name}/{method}",
            request_serializer=_encoded,
            response_deserializer=_class(descriptor.output_type).FromString,
        )
        return await made(request, timeout=timeout_s)


def _class(descriptor: Any) -> type[Message]:
    return GetMessageClass(descriptor)


def _encoded(message: Message) -> bytes:
    return message.SerializeToString()


def _handlers(service: ServiceDescriptor, implementation: object) -> grpc.GenericRpcHandler:
    made = {
        method.name: _handler(method, getattr(implementation, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method.name).lower()))
        for method in service.methods
    }
    return grpc.method_handlers_generic_handler(service.full_name, made)


def _handler(method: MethodDescriptor, implementation: Callable[..., Any]) -> grpc.RpcMethodHandler[Any, Any]:
    read = _class(method.input_type).FromString
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(_streamed(implementation), read, _encoded)
    return grpc.unary_unary_rpc_method_handler(_answered(implementation), read, _encoded)


def _answered(implementation: Callable[[Message], Awaitable[Message]]) -> Any:
    @functools.wraps(implementation)
    async def answer(request: Message, context: Context) -> Message:
        try:
            return await implementation(request)
        except RequestError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error)[:_MAX_TEXT])
            raise  # abort() has raised already

    return answer


def _streamed(implementation: Callable[[Message], AsyncIterator[Message]]) -> Any:
    @functools.wraps(implementation)
    async def stream(request: Message, _context: Context) -> AsyncIterator[Message]:
        async for message in implementation(request):
            yield message

    return stream
