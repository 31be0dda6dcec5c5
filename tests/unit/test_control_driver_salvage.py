"""Salvage of a dead worker's records: all are found, and no contents of the area do harm."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.unit.control_driver_rig import DriverRig, driver_rig
from vhost_backend._dataplane import lib
from vhost_backend.channels.area import ControlArea, Salvage
from vhost_backend.channels.packets import Section
from vhost_backend.worker_protocol.control_messages import Terms
from virtio_proto.control import records
from virtio_proto.control.records import Function, Record


@pytest.fixture
def made() -> Iterator[DriverRig]:
    with driver_rig() as rig:
        yield rig


def salvaged(made: DriverRig, generation: int, taken: int = 0, function: int = Function.LOG) -> list[Section]:
    with Salvage(made.file.fd, len(made.area.memory), 4, 16) as salvage:
        return list(salvage.drain(1, generation, function, 0, taken))


def unpacked(sections: list[Section]) -> list[Record]:
    return [record for section in sections for record in records.unpack(section.records)]


def test_undrained_records_are_found_with_exact_counts(made: DriverRig) -> None:
    (generation,) = made.open(Terms(Function.LOG, slots=64), [1])
    for number in range(100):
        made.put(1, bytes([number]))
        if number == 9:
            assert len(made.take()) == 10
    sections = salvaged(made, generation, taken=10)
    assert [record.payload[0] for record in unpacked(sections)] == list(range(10, 74))
    assert (sections[-1].taken, sections[-1].lost) == (74, 26)


def test_more_records_than_a_packet_holds_come_in_parts(made: DriverRig) -> None:
    (generation,) = made.open(Terms(Function.LOG, slots=4096), [1])
    for _ in range(200):
        made.put(1, bytes(1000))
    sections = salvaged(made, generation)
    assert len(sections) > 1
    assert len(unpacked(sections)) == 200
    assert sections[-1].taken == 200


def test_records_that_were_sent_but_not_marked_are_not_repeated(made: DriverRig) -> None:
    (generation,) = made.open(Terms(Function.LOG), [1])
    for number in range(9):
        made.put(1, bytes([number]))
    (sent,) = made.drain(sent=False)  # the worker died in between
    made.put(1, b"\x09")
    sections = salvaged(made, generation, taken=sent.taken)
    assert [record.payload[0] for record in unpacked(sections)] == [9]
    assert (sections[-1].taken, sections[-1].lost) == (10, 0)


def test_a_channel_of_another_generation_has_no_records(made: DriverRig) -> None:
    (generation,) = made.open(Terms(Function.LOG), [1])
    made.put(1)
    assert salvaged(made, generation + 1) == []


def test_a_file_that_is_no_area_is_refused() -> None:
    with ControlArea(4096) as file, pytest.raises(ValueError, match="a control area of 4096 bytes; allowed: at least"):
        Salvage(file.fd, 4096, 4, 16)


def test_forged_links_take_no_longer_than_the_area_is_large() -> None:
    with driver_rig(channels=2000, size=2 << 20) as made:
        slots = 1 << 14
        for number in range(1, 2001):
            channel = made.area.channel(number)
            channel.generation, channel.slots, channel.out_offset = 1, slots, 1 << 20
            channel.policy, channel.head = lib.VGC_CTL_OVERWRITE_OLDEST, 1 << 40
        with Salvage(made.file.fd, 2 << 20, 4, 2000) as salvage:
            told = [number for number in range(1, 2001) if list(salvage.drain(number, 1, 0, 0, 0))]
        assert len(told) == 1, "no two links of half the area's slots each"


def test_forged_link_is_no_longer_than_the_daemon_asked_for() -> None:
    with driver_rig(size=2 << 20) as made:
        (generation,) = made.open(Terms(Function.LOG, slots=64), [1])
        made.put(1, b"said")
        size = len(made.area.memory)
        for slots, most, told in ((64, 64, 1), (128, 64, 0), (128, 128, 1)):
            made.area.channel(1).slots = slots
            with Salvage(made.file.fd, size, 4, 16, num_slots=most) as salvage:
                assert len(list(salvage.drain(1, generation, Function.LOG, 0, 0))) == told


def test_random_contents_of_an_area_do_no_harm() -> None:
    chance = random.Random(7)
    with driver_rig(size=128 << 10) as made:
        for _ in range(100):
            made.open(Terms(Function.LOG, slots=64), [1, 2, 3, 4])
            generations = [int(made.area.channel(number).generation) for number in (1, 2, 3, 4)]
            for _ in range(chance.choice([10, 3000])):
                at = chance.randrange(4096, len(made.area.memory) - 8) & ~7
                value = chance.choice([0, chance.getrandbits(9), chance.getrandbits(64)])
                made.area.memory[at : at + 8] = value.to_bytes(8, "little")
            with Salvage(made.file.fd, len(made.area.memory), 4, 16) as salvage:
                for number, generation in enumerate(generations, 1):
                    made.area.channel(number).generation = generation
                    unpacked(list(salvage.drain(number, generation, Function.LOG, number - 1, chance.getrandbits(64))))
            for pe in range(4):
                made.area.pe(pe).readers = 0
            made.close([1, 2, 3, 4])
