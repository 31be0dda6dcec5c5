"""Fake device that has the built-in functions: the CPU engine's library computes on the memory of launches and calls."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import guest_driver as vgc
from tests.fakes.device import Answer, Ask, FakeDevice, address_of
from tests.fakes.guest import open_device
from tests.fakes.link import GuestLink
from tests.unit import builtins_rig as rig
from virtio_proto import schema
from virtio_proto.schema import ArgKind, Status

WORD = struct.Struct("<Q")


class BuiltinsDevice(FakeDevice):
    """Fake device whose functions are the built-in ones; their numbers begin at 1, in the order of the table."""

    def _do_function_lookup(self, ask: Ask) -> Answer:
        names = [rig.text(builtin.name) for builtin in rig.builtins()]
        name = ask.rest.decode()
        if name not in names:
            return Answer(Status.NOT_FOUND, f"no function '{name}'".encode())
        builtin = rig.named(name)
        params = rig.params_of(builtin)
        entry = {field.name: 0 for field in schema.fields(schema.FUNCTION_ENTRY)} | {
            "id": names.index(name) + 1,
            "num_params": len(params),
            "param_bytes": builtin.param_bytes,
            "max_threads": 1,
        }
        payload = schema.FUNCTION_ENTRY.construct.build(entry)
        return Answer(payload=payload + b"".join(struct.pack("<4I", p.offset, p.size, p.kind, 0) for p in params))

    def _do_launch(self, ask: Ask) -> Answer:
        """Checks and runs a built-in function, whose addresses are those of this process for that time."""
        builtin = next(b for number, b in enumerate(rig.builtins(), 1) if number == ask.body.function)
        if ask.body.grid[:] != [1, 1, 1] or ask.body.block[:] != [1, 1, 1]:
            return Answer(Status.INVALID_ARGUMENT, b"built-in functions take one block of one thread")
        block = bytearray(ask.rest)
        uses = {param.offset: param.use for param in rig.params_of(builtin)}
        if not self._localise(block, [offset for offset, use in uses.items() if use != rig.USE_VALUE]):
            return Answer(Status.INVALID_ADDRESS, b"outside of all allocations")
        return _run(builtin, block)

    def _localise(self, block: bytearray, offsets: list[int]) -> bool:
        """Makes device addresses in a parameter block those of this process; False if one lies outside of the memory."""
        for offset in offsets:
            (address,) = WORD.unpack_from(block, offset)
            base = max((base for base in self.memory if base <= address), default=None)
            if base is None or address - base > len(self.memory[base]):
                return False
            WORD.pack_into(block, offset, address_of(self.memory[base]) + address - base)
        return True

    def _do_call(self, ask: Ask) -> Answer:
        """Runs a built-in function on copies of a request's buffers, each at a multiple of 64 bytes."""
        name, rest = ask.rest[: ask.body.name_len].decode(), ask.rest[ask.body.name_len :]
        builtin = rig.named(name)
        args = [struct.unpack_from("<IIQ", rest, 16 * index) for index in range(ask.body.num_args)]
        values = rest[16 * len(args) :][: ask.body.value_len]
        inputs = rest[16 * len(args) + len(values) :]
        block, results = bytearray(builtin.param_bytes), []
        for param, (kind, _, size) in zip(rig.params_of(builtin), args, strict=True):
            if kind == ArgKind.VALUE:
                block[param.offset : param.offset + size], values = values[:size], values[size:]
                if param.use != rig.USE_VALUE and not self._localise(block, [param.offset]):
                    return Answer(Status.INVALID_ADDRESS, b"outside of all allocations")
                continue
            content = bytes(size)
            if kind != ArgKind.OUT:
                content, inputs = inputs[:size], inputs[size:]
            results.append((kind, rig.Buffer(content)))
            WORD.pack_into(block, param.offset, results[-1][1].address)
        answer = _run(builtin, block)
        if answer.status != Status.OK:
            return answer
        return Answer(payload=b"".join(buffer.content() for kind, buffer in results if kind != ArgKind.IN))


def _run(builtin: Any, block: bytearray) -> Answer:
    aligned = rig.ffi.new("uint64_t[]", (len(block) + 7) // 8)
    rig.ffi.memmove(aligned, block, len(block))
    try:
        rig.check(builtin, aligned)
        rig.run(builtin, aligned)
    except rig.RefusedError as error:
        return Answer(Status.INVALID_ARGUMENT, str(error).encode())
    except rig.FailedError as error:
        return Answer(Status.LAUNCH_FAILED, str(error).encode())
    return Answer()


@pytest.fixture
def link() -> Iterator[GuestLink]:
    with GuestLink(region_bytes=32 << 20) as link:
        yield link


@pytest.fixture
def fake(link: GuestLink) -> Iterator[BuiltinsDevice]:
    rig.lib()  # skips the test, on its own thread, where the library is not built
    with BuiltinsDevice(link) as fake:
        yield fake


@pytest.fixture
def dev(link: GuestLink, fake: BuiltinsDevice, tmp_path: Path) -> Iterator[vgc.Device]:
    assert fake.link is link
    with open_device(link, tmp_path) as dev:
        yield dev


PLACES = ("numpy", "device")
"""Places of arguments: numpy arrays, which travel with one request, or device arrays."""


class Place:
    """Puts arguments to one place, and takes results from there."""

    def __init__(self, dev: vgc.Device, name: str) -> None:
        self._dev = dev
        self._name = name

    def put(self, array: Any) -> Any:
        return self._dev.to_device(array) if self._name == "device" else array

    def take(self, result: Any) -> Any:
        """Contents of a result, which lies where the arguments are."""
        assert isinstance(result, vgc.DeviceArray) == (self._name == "device")
        return result.get() if isinstance(result, vgc.DeviceArray) else result


@pytest.fixture(params=PLACES)
def place(dev: vgc.Device, request: pytest.FixtureRequest) -> Place:
    return Place(dev, request.param)
