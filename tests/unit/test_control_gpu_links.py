"""Links of the control code on processing elements: every lost record is counted, whatever the area contains."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from tests.limits import ANSWERS_WITHIN_S
from tests.unit.control_rig import GATED, ControlRig, control_rig
from tests.unit.cpu_rig import make_launch
from tests.waiting import until
from vhost_backend._dataplane import ffi, lib
from virtio_proto.control.records import Function, Record
from virtio_proto.schema import Status

TALKER = (
    GATED
    + r"""
__global__ void shout(int length, int records) {
    char text[1100];
    for (int i = 0; i < length; i++)
        text[i] = 'a' + i % 26;
    text[length] = 0;
    if (threadIdx.x == 0)
        for (int i = 0; i < records; i++)
            vgc_log(VGC_INFO, "%s", text);
}
__global__ void scribble(unsigned long long *area, unsigned long long words, unsigned seed) {
    for (unsigned long long i = 0; i < words; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (seed >> 28 == 0)
            area[i] = seed >> 26 & 1 ? (unsigned long long)seed << (seed >> 5 & 31) : area[seed % words];
    }
}
"""
)


@pytest.fixture
def two() -> Iterator[ControlRig]:
    with control_rig(pes=2) as made:
        made.load(TALKER)
        yield made


def bind_all(made: ControlRig, number: int, function: Function = Function.PERF, sample: int = 0) -> None:
    for pe in range(made.area.num_pes):
        made.area.bind(pe, function, number, 5, sample)


def say(made: ControlRig, records: int, blocks: int = 1) -> None:
    made.rig.launch("say", blocks, 32, np.int32(records))


def values(found: list[Record]) -> list[int]:
    return [record.words()[1] for record in found]


def test_records_without_room_are_lost_and_counted(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=8)
    bind_all(two, 1)
    say(two, 12)
    found = two.area.take(1)
    assert values(found) == list(range(8)), "the oldest stay"
    assert (channel.records, channel.lost) == (12, 4)
    say(two, 1)
    (late,) = two.area.take(1)
    assert late.sequence - found[-1].sequence - 1 == channel.lost, "the gap in the sequence is what was lost"


def test_the_oldest_records_are_overwritten_under_that_policy(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=8, policy=lib.VGC_CTL_OVERWRITE_OLDEST)
    bind_all(two, 1)
    say(two, 21)
    found = two.area.take(1)
    assert values(found) == list(range(13, 21)), "the newest stay"
    assert [record.sequence for record in found] == list(range(13, 21))
    assert (channel.records, channel.lost) == (21, 0)


def test_a_long_record_is_found_again_after_others_were_overwritten(two: ControlRig) -> None:
    two.area.open(1, Function.LOG, slots=16, policy=lib.VGC_CTL_OVERWRITE_OLDEST)
    bind_all(two, 1, Function.LOG)
    two.rig.launch("shout", 1, 1, np.int32(200), np.int32(30))
    found = two.area.take(1)
    assert [record.sequence for record in found] == [27, 28, 29], "5 slots each, of 16"
    assert all(record.payload[16:] == found[0].payload[16:] for record in found)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 71, 72, 73, 500, 1008, 1009, 1090])
def test_a_long_record_takes_as_many_slots_as_it_needs(two: ControlRig, length: int) -> None:
    channel = two.area.open(1, Function.LOG)
    bind_all(two, 1, Function.LOG)
    two.rig.launch("shout", 1, 1, np.int32(length), np.int32(1))
    (record,) = two.area.take(1)
    kept = min(length, 1024 - 16)
    assert record.payload[16:] == bytes(97 + i % 26 for i in range(kept))
    assert record.words()[1] == kept << 32 | 8
    assert channel.head == 1 + max(0, -(-(16 + kept - 32) // 56))


def test_a_link_goes_round_for_many_laps(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=16)
    bind_all(two, 1)
    for lap in range(50):
        say(two, 1 + lap % 16)
        assert values(two.area.take(1)) == list(range(1 + lap % 16))
    assert channel.head > 16 * 20
    assert channel.lost == 0


def test_positions_have_64_bits_and_sequences_32(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=16)
    channel.head = channel.tail = channel.records = two.area.tails[1] = 2**32 - 4
    bind_all(two, 1)
    say(two, 8)
    assert [record.sequence for record in two.area.take(1)] == [*range(2**32 - 4, 2**32), 0, 1, 2, 3]
    assert channel.head == 2**32 + 4


def test_several_elements_share_a_channel(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=4096)
    bind_all(two, 1)
    found: list[Record] = []
    with two.running("say", 64, 32, np.int32(200)):
        while len(found) + channel.lost < 64 * 200:
            found += two.area.take(1)
    found += two.area.take(1)
    assert len(found) + channel.lost == channel.records == 64 * 200
    assert len({record.sequence for record in found}) == len(found)
    for block in range(64):
        own = [record.words()[1] for record in found if record.block == block]
        assert own == sorted(own), "of one element, in order"


def test_sampling_keeps_one_record_of_a_power_of_two(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF)
    bind_all(two, 1, sample=3)
    say(two, 40)
    assert len(two.area.take(1)) == 5
    assert (channel.records, channel.skipped, channel.lost) == (5, 35, 0)


def test_sampling_keeps_the_begin_and_the_end_of_the_same_blocks(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=256)
    bind_all(two, 1, sample=2)
    for pe in range(2):
        two.area.attend(pe, lib.VGC_CTL_ATTEND_BLOCKS)
    say(two, 0, blocks=32)
    found = two.area.take(1)
    for kind in ("block_begin", "block_end"):
        assert sorted(r.block for r in found if r.kind == kind) == list(range(0, 32, 4))
    assert channel.skipped == 48


def test_a_writer_waits_for_room(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=4, policy=lib.VGC_CTL_WAIT, wait_ns=int(ANSWERS_WITHIN_S * 1e9))
    bind_all(two, 1)
    found: list[Record] = []
    with two.running("say", 1, 32, np.int32(100)):
        while len(found) < 100:
            found += two.area.take(1)
    assert values(found) == list(range(100))
    assert channel.lost == 0


def test_a_writer_waits_no_longer_than_its_deadline(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=4, policy=lib.VGC_CTL_WAIT, wait_ns=1000)
    bind_all(two, 1)
    say(two, 10)
    assert (channel.records, channel.lost) == (10, 6)


def test_a_release_ends_the_wait_of_a_writer(two: ControlRig) -> None:
    channel = two.area.open(1, Function.PERF, slots=4, policy=lib.VGC_CTL_WAIT, wait_ns=2**62)
    bind_all(two, 1)
    with two.running("say", 1, 32, np.int32(6)):
        until(lambda: channel.records == 5)
        for pe in range(2):
            two.area.release(pe, Function.PERF)
    assert (channel.records, channel.lost) == (5, 1), "the sixth found nothing bound"


def test_an_element_that_waits_delays_no_other(two: ControlRig) -> None:
    two.area.open(1, Function.PERF, slots=4, policy=lib.VGC_CTL_WAIT, wait_ns=2**62)
    bind_all(two, 1)
    with two.running("say", 1, 1, np.int32(5)):
        waiting = until(lambda: [pe for pe in range(2) if two.area.pe(pe).readers])[0]
        until(lambda: two.area.channel(1).records == 5)
        two.area.release(1 - waiting, Function.PERF)
        assert two.look(waiting) is not None
        two.kick()
        op, _keep = make_launch(two.rig.functions["say"], 3, 32, [np.int32(0)])
        op.stream = 1
        assert two.rig.submit(op) == Status.OK
        two.area.release(waiting, Function.PERF)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("out", 0),
        ("out", 8),
        ("out", 2**64 - 64),
        ("slots", 0),
        ("slots", 3),
        ("slots", 1 << 31),
        ("tail", 2**64 - 1),
        ("tail", 1 << 40),
        ("policy", 99),
    ],
)
def test_a_scribbled_channel_loses_records_and_nothing_else(two: ControlRig, field: str, value: int) -> None:
    channel = two.area.open(1, Function.PERF, slots=4)
    setattr(channel, field, value)
    bind_all(two, 1)
    say(two, 10)
    assert channel.records == 10
    assert channel.lost >= 6
    assert two.area.pe(0).readers == two.area.pe(1).readers == 0


def test_a_guest_that_scribbles_over_the_area_harms_only_itself(two: ControlRig) -> None:
    """Records may be lost or invented; launches still end, and the elements still work."""
    two.load("__global__ void works(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }")
    out = two.rig.array(64 * 64, np.int32)
    area = ffi.cast("uint64_t *", two.area.device)
    words = two.area.next_link // 8
    header = ffi.buffer(area, 64)[:]
    source = random.Random(4)
    for _ in range(20):
        for number, function in enumerate(Function, start=1):
            two.area.open(number, function, slots=32)
            bind_all(two, number, function)
        for pe in range(2):
            two.area.attend(pe, lib.VGC_CTL_ATTEND_BLOCKS | lib.VGC_CTL_ATTEND_FIRMWARE)
        seed = np.uint32(source.getrandbits(32))
        two.rig.launch("scribble", 1, 1, np.uint64(two.area.device + 64), np.uint64(words - 8), seed)
        two.kick()
        for channel in range(1, 64):  # except waits that would never end
            two.area.channel(channel).wait_ns = 0
        say(two, 20, blocks=8)
        out[...] = 0
        two.rig.launch("works", 64, 64, out)
        assert out.all()
        two.area.next_link = words * 8
    assert ffi.buffer(area, 64)[:] == header
