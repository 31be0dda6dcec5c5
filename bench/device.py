"""Our device, for the rows: requests are prepared once and sent by the hot loops, and their responses checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.driver import Driver, DriverError
from bench.native.loops import ffi
from virtio_proto import schema
from virtio_proto.schema import FINGERPRINT, Opcode, ProgramKind, QueryKind, Status

_RESPONSE_BYTES: Final = ffi.sizeof("struct vgc_response")
_TEXT_BYTES: Final = 64 << 10
_COMMAND_BYTES: Final = 1 << 20
_PATIENCE_S: Final = 60.0

Span = tuple[int, int]
"""Part of the region: (offset, bytes)."""


class RequestError(Exception):
    """The device answered with an error; the text is the device's."""


@dataclass(frozen=True, slots=True)
class Response:
    """Response to a request, with the length of its payload."""

    status: Status
    value: int
    payload_len: int


@dataclass(frozen=True, slots=True)
class Function:
    """Kernel of a loaded program, with the places of its parameters in the parameter block."""

    id: int
    params: tuple[Span, ...]
    param_bytes: int


class Prepared:
    """Requests ready for the driver's loops, with the places of their responses."""

    def __init__(self, driver: Driver, chains: list[tuple[list[Span], list[Span]]]) -> None:
        self._driver = driver
        self.chains = chains
        self._responses = [writable[0][0] for _, writable in chains]
        self.native = driver.requests(chains)

    def response(self, index: int = 0) -> Response:
        raw = ffi.from_buffer("struct vgc_response *", self._driver.view(self._responses[index], _RESPONSE_BYTES))
        return Response(Status(raw.status), raw.value, raw.payload_len)

    def check(self) -> None:
        """Checks all responses.

        :raise RequestError: a request was not answered with OK.
        """
        for index in range(len(self._responses)):
            response = self.response(index)
            if response.status is not Status.OK:
                raise RequestError(f"request {index} of {len(self._responses)}: {response.status.name}")


def together(driver: Driver, *parts: Prepared) -> Prepared:
    """Joins all requests of `parts`, in their order; the result shares the parts' memory."""
    return Prepared(driver, [chain for part in parts for chain in part.chains])


def pack(name: str, **fields: object) -> bytes:
    """Packs one struct of the wire format."""
    return bytes(ffi.buffer(ffi.new(f"struct {name} *", fields)))


class Device:
    """Context on the device behind `driver`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._commands = driver.take(_COMMAND_BYTES)
        self._answers = driver.take(_RESPONSE_BYTES + _TEXT_BYTES)
        self.context = 0
        self.context = self.ask(Opcode.CONTEXT_CREATE, FINGERPRINT.to_bytes(8, "little")).value

    # -- requests -------------------------------------------------------------------------------

    def _header(self, opcode: Opcode, stream: int = 0) -> bytes:
        return pack("vgc_request", opcode=int(opcode), context=self.context, stream=stream, request_id=1)

    def prepare(
        self,
        opcode: Opcode,
        body: bytes = b"",
        *,
        count: int = 1,
        sent: Span | None = None,
        got: Span | None = None,
        stream: int = 0,
    ) -> Prepared:
        """Prepares `count` equal requests with separate headers and responses; they share payloads `sent` and `got`."""
        text = self._header(opcode, stream) + body
        room = (len(text) + 63) // 64 * 64 + 64
        start = self.driver.take(count * room)
        chains = []
        for offset in range(start, start + count * room, room):
            self._store(offset, text)
            response = (offset + room - 64, _RESPONSE_BYTES)
            chains.append(([(offset, len(text)), *_present(sent)], [response, *_present(got)]))
        return Prepared(self.driver, chains)

    def ask(self, opcode: Opcode, body: bytes = b"") -> Response:
        """Sends one request and waits for its response, whose payload :meth:`payload` then returns.

        :raise RequestError: the device answers with an error; with its text.
        """
        text = self._header(opcode) + body
        self._store(self._commands, text)
        answer = (self._answers, _RESPONSE_BYTES + _TEXT_BYTES)
        prepared = Prepared(self.driver, [([(self._commands, len(text))], [answer])])
        self.driver.round_trip(prepared.native, 0, _PATIENCE_S)
        response = prepared.response()
        if response.status is not Status.OK:
            reason = self.payload(response).decode(errors="replace")
            raise RequestError(f"{opcode.name}: {response.status.name}: {reason}")
        return response

    def payload(self, response: Response) -> bytes:
        """Payload of the last response of :meth:`ask`."""
        return self.driver.view(self._answers + _RESPONSE_BYTES, response.payload_len).tobytes()

    @property
    def num_pes(self) -> int:
        """Number of the VM's processing elements."""
        body = pack("vgc_body_query", what=int(QueryKind.USAGE))
        return int(schema.USAGE.construct.parse(self.payload(self.ask(Opcode.QUERY, body))).num_pes)

    def is_alive(self) -> bool:
        """True if the context answers; it does not after its worker has ended."""
        try:
            self.free(self.alloc(1))
        except (RequestError, DriverError):
            return False
        return True

    def _store(self, offset: int, data: bytes) -> None:
        self.driver.view(offset, len(data))[:] = np.frombuffer(data, np.uint8)

    # -- memory ---------------------------------------------------------------------------------

    def alloc(self, size: int) -> int:
        """Allocates `size` bytes of device memory, to be freed with :meth:`free`; returns its address."""
        return self.ask(Opcode.ALLOC, pack("vgc_body_alloc", size=size)).value

    def free(self, address: int) -> None:
        self.ask(Opcode.FREE, pack("vgc_body_free", address=address))

    def copy_in(self, address: int, span: Span) -> Prepared:
        """Prepares a copy of a span of the region to device memory."""
        body = pack("vgc_body_copy", dst=address, size=span[1])
        return self.prepare(Opcode.COPY_IN, body, sent=span)

    def copy_out(self, address: int, span: Span) -> Prepared:
        """Prepares a copy of device memory to a span of the region."""
        body = pack("vgc_body_copy", src=address, size=span[1])
        return self.prepare(Opcode.COPY_OUT, body, got=span)

    def run(self, prepared: Prepared) -> float:
        """Sends a prepared request and sleeps until it is done; returns the time in ns.

        :raise RequestError: it is answered with an error.
        """
        elapsed = self.driver.round_trip(prepared.native, 0, _PATIENCE_S)
        prepared.check()
        return elapsed

    def run_batch(self, prepared: Prepared) -> float:
        """Sends prepared requests all at once and spins until the last is done; returns the time in ns.

        :raise RequestError: a request is answered with an error.
        """
        elapsed = self.driver.batch(prepared.native)
        prepared.check()
        return elapsed

    def run_all(self, prepared: Prepared) -> float:
        """Sends prepared requests in order, as fast as the queue takes them, and sleeps until the last is done;
        returns the time in ns.

        :raise RequestError: a request is answered with an error.
        """
        elapsed = self.driver.stream(prepared.native)
        prepared.check()
        return elapsed

    def upload(self, array: npt.NDArray[Any], staging: Span) -> int:
        """Copies `array` to new device memory through `staging`, piece by piece; returns its address."""
        address = self.alloc(array.nbytes)
        self.fill(address, array, staging)
        return address

    def fill(self, address: int, array: npt.NDArray[Any], staging: Span) -> None:
        """Copies `array` to device memory at `address` through `staging`, piece by piece."""
        data = array.reshape(-1).view(np.uint8)
        for begin in range(0, len(data), staging[1]):
            part = data[begin : begin + staging[1]]
            self.driver.view(staging[0], len(part))[:] = part
            self.run(self.copy_in(address + begin, (staging[0], len(part))))

    def download(self, address: int, array: npt.NDArray[Any], staging: Span) -> None:
        """Fills `array` from device memory at `address`."""
        data = array.reshape(-1).view(np.uint8)
        for begin in range(0, len(data), staging[1]):
            part = data[begin : begin + staging[1]]
            self.run(self.copy_out(address + begin, (staging[0], len(part))))
            part[:] = self.driver.view(staging[0], len(part))

    # -- programs -------------------------------------------------------------------------------

    def load(self, source: str, kind: ProgramKind = ProgramKind.CUDA_SOURCE) -> int:
        """Compiles and loads CUDA C, or another kind of program; returns the program's id.

        :raise RequestError: the program does not compile; with the compiler's log.
        """
        text = source.encode()
        body = pack("vgc_body_program_load", kind=int(kind), source_len=len(text))
        return self.ask(Opcode.PROGRAM_LOAD, body + text).value

    def unload(self, program: int) -> None:
        self.ask(Opcode.PROGRAM_UNLOAD, pack("vgc_body_program_unload", program=program))

    def function(self, program: int, name: str) -> Function:
        """Looks a function up.

        :raise RequestError: the program has no such function.
        """
        body = pack("vgc_body_lookup", program=program, name_len=len(name)) + name.encode()
        table = self.payload(self.ask(Opcode.FUNCTION_LOOKUP, body))
        entry = ffi.from_buffer("struct vgc_function_entry *", table, require_writable=False)
        start = ffi.sizeof("struct vgc_function_entry")
        params = ffi.from_buffer("struct vgc_param_entry[]", table[start:], require_writable=False)
        return Function(entry.id, tuple((param.offset, param.size) for param in params), entry.param_bytes)

    def launch(
        self,
        function: Function,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[bytes] = (),
        *,
        shared_bytes: int = 0,
    ) -> Prepared:
        """Prepares a launch with parameters given as bytes, in the kernel's order."""
        return self.prepare(Opcode.LAUNCH, self._launch_body(function, grid, block, arguments, shared_bytes))

    def launches(
        self,
        count: int,
        function: Function,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[bytes] = (),
        *,
        stream: int = 0,
    ) -> Prepared:
        """Prepares `count` equal launches as separate requests of one stream."""
        body = self._launch_body(function, grid, block, arguments)
        return self.prepare(Opcode.LAUNCH, body, count=count, stream=stream)

    def graph(self, count: int, function: Function, grid: Sequence[int], block: Sequence[int]) -> int:
        """Makes a graph of `count` equal launches without arguments, each behind the one before it; returns its id.

        :raise RequestError: the device refuses it.
        """
        launch = self._launch_body(function, grid, block, ())
        nodes = b""
        for index in range(count):
            deps = [index - 1] if index else []
            nodes += pack("vgc_graph_node", opcode=int(Opcode.LAUNCH), num_deps=len(deps))
            nodes += b"".join(dep.to_bytes(4, "little") for dep in deps) + launch
        body = pack("vgc_body_graph_nodes", num_nodes=count, nodes_len=len(nodes))
        return self.ask(Opcode.GRAPH_CREATE, body + nodes).value

    def graph_launch(self, graph: int) -> Prepared:
        """Prepares a launch of a graph."""
        return self.prepare(Opcode.GRAPH_LAUNCH, pack("vgc_body_graph", graph=graph))

    def drop_graph(self, graph: int) -> None:
        self.ask(Opcode.GRAPH_DESTROY, pack("vgc_body_graph", graph=graph))

    def _launch_body(
        self,
        function: Function,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[bytes],
        shared_bytes: int = 0,
    ) -> bytes:
        block_of_params = bytearray(function.param_bytes)
        for (offset, size), value in zip(function.params, arguments, strict=True):
            block_of_params[offset : offset + size] = value
        body = pack(
            "vgc_body_launch",
            function=function.id,
            grid=_three(grid),
            block=_three(block),
            shared_bytes=shared_bytes,
            param_len=len(block_of_params),
        )
        return body + bytes(block_of_params)


def _present(span: Span | None) -> list[Span]:
    return [] if span is None else [span]


def _three(counts: Sequence[int]) -> list[int]:
    return [*counts, 1, 1][:3]
