"""Costliest packets that a worker can send: the daemon refuses them before it has built anything of them."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Final

import pytest

from tests.hostile.forged_packets import COSTLY, array_of, forged, map_of
from tests.unit.test_worker_protocol import EXAMPLES
from vhost_backend.channels import packets
from vhost_backend.channels.packets import Kind, PacketError
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.codec import MAX_PACKET_BYTES, Message, ProtocolError
from vhost_backend.worker_protocol.program_terms import MAX_OPTIONS
from vhost_backend.worker_protocol.protocol import WORKER_MESSAGES, Compile, Log

OF_WORKERS: Final = [example for example in EXAMPLES if isinstance(example, WORKER_MESSAGES)]
MOST_BYTES: Final = 4 * MAX_PACKET_BYTES
"""Memory that decoding one packet may take; 20,000 empty lists of a generic decoder take more than 1 MiB."""


def peak_bytes(packet: bytes) -> int:
    """Most memory that was allocated at a time while the daemon decoded a packet of a worker.

    The least of three times: threads that an earlier test has left behind allocate, too.
    """
    return min(_peak_bytes(packet) for _ in range(3))


def _peak_bytes(packet: bytes) -> int:
    tracemalloc.start()
    try:
        with contextlib.suppress(ProtocolError, PacketError):
            if packet[:1].isupper():
                packets.parse(packet)
            else:
                codec.decode(packet, WORKER_MESSAGES)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("example", OF_WORKERS, ids=lambda example: example.TYPE)
def test_costly_values_in_any_field_are_not_built(example: Message) -> None:
    assert codec.decode(codec.encode(example), WORKER_MESSAGES) == example  # from here on there is a decoder
    assert max(map(peak_bytes, forged(example))) < MOST_BYTES


def test_largest_valid_messages_cost_a_small_multiple_of_their_length() -> None:
    options = Compile(1, 1, 1, ("",) * (MAX_OPTIONS - 4) + ("x" * 4096,) * 4, 0)
    fields = Log("info", "event", {f"{i:064}": "y" * 50 for i in range(64)})
    for message in (options, fields):
        packet = codec.encode(message)
        assert codec.decode(packet, WORKER_MESSAGES) == message
        assert peak_bytes(packet) < MOST_BYTES


@pytest.mark.parametrize("kind", [Kind.TEXTS, Kind.EVENT])
def test_costly_values_on_the_record_socket_are_not_built(kind: Kind) -> None:
    size = packets.MAX_PACKET_BYTES - 100
    with pytest.raises(PacketError):
        packets.parse(bytes([kind]))  # from here on there is a decoder
    for unit in COSTLY:
        for costly in (array_of(unit, size), map_of(unit, size), unit * (size // len(unit))):
            for packet in (costly, b"\x91" + costly, b"\x92\xa1x" + costly):
                assert peak_bytes(bytes([kind]) + packet) < MOST_BYTES
