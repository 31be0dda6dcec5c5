"""Worker's end of the record socket while the daemon does not read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import cast

import pytest

from vhost_backend.channels import packets
from vhost_backend.channels.driver import Driver
from vhost_backend.worker.channels.record_pipe import RecordPipe


def change(channel: int, sample: int, generation: int = 1) -> bytes:
    return packets.CHANGE.pack(channel, sample, generation)


@pytest.fixture
def ends() -> Iterator[tuple[RecordPipe, socket.socket]]:
    """A pipe without a driver, and the daemon's end of its socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.setblocking(False)
        yield RecordPipe(ours, cast("Driver", None)), theirs


def read_all(sock: socket.socket) -> list[packets.Packet]:
    found = []
    while True:
        try:
            found.append(packets.parse(sock.recv(packets.MAX_PACKET_BYTES)))
        except BlockingIOError:
            return found


def test_changes_of_sampling_are_sent_at_once(ends: tuple[RecordPipe, socket.socket]) -> None:
    pipe, daemon = ends
    pipe.sampling(b"")
    pipe.sampling(change(1, 3) + change(2, 4))
    assert read_all(daemon) == [packets.Samples(((1, 1, 3), (2, 1, 4)))]
    pipe.sampling(b"")
    assert read_all(daemon) == []


def test_the_last_change_of_each_channel_is_sent_when_the_socket_takes_it(
    ends: tuple[RecordPipe, socket.socket],
) -> None:
    pipe, daemon = ends
    filler = packets.event("filler", {})
    while pipe.send(filler):
        pass
    pipe.sampling(change(1, 1) + change(2, 1))
    pipe.sampling(change(1, 2))
    assert all(not isinstance(packet, packets.Samples) for packet in read_all(daemon))
    pipe.sampling(change(3, 1, 7))
    assert read_all(daemon) == [packets.Samples(((1, 1, 2), (2, 1, 1), (3, 7, 1)))]
