"""The control system's driver: channels, links, elements, over an area; the test plays the elements."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.unit.control_driver_rig import SECOND_NS, DriverRig, driver_rig
from vhost_backend._dataplane import ffi, lib
from vhost_backend.channels import packets
from vhost_backend.channels.area import ControlArea
from vhost_backend.channels.driver import Driver, DriverError
from vhost_backend.channels.packets import Figures, parse
from vhost_backend.worker_protocol.control_messages import Terms
from virtio_proto.control.records import Function

LOG = Terms(Function.LOG)
STDIO = Terms(Function.STDIO, in_bytes=16)


@pytest.fixture
def made() -> Iterator[DriverRig]:
    with driver_rig() as rig:
        yield rig


# ---- the area ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pes", "channels", "size", "why"),
    [
        (0, 16, 1 << 20, "0 processing elements; allowed: 1..4096"),
        (4097, 16, 8 << 20, "4097 processing elements; allowed: 1..4096"),
        (4, 0, 1 << 20, "0 channels; allowed: 1..16383"),
        (4, 16384, 8 << 20, "16384 channels; allowed: 1..16383"),
        (4, 16, 8192, "a control area of 8192 bytes; allowed: at least"),
    ],
)
def test_an_impossible_area_is_refused(pes: int, channels: int, size: int, why: str) -> None:
    with ControlArea(size) as file, pytest.raises(DriverError, match=why):
        Driver(ffi.NULL, file.fd, size, pes, channels)


def test_an_area_larger_than_its_file_is_refused() -> None:
    with ControlArea(1 << 20) as file, pytest.raises(DriverError, match="file is shorter than 2097152 bytes"):
        Driver(ffi.NULL, file.fd, 2 << 20, 4, 16)


def test_an_engine_without_control_system_is_refused() -> None:
    engine = lib.vgc_null_engine_new(1)
    with ControlArea(1 << 20) as file, pytest.raises(DriverError, match="the null engine has no control system"):
        Driver(engine, file.fd, 1 << 20, 1, 16)
    engine.ops.close(engine)


# ---- channels ----------------------------------------------------------------------------------------------------


def test_a_channel_is_there_before_it_is_bound(made: DriverRig) -> None:
    (generation,) = made.open(Terms(Function.PERF, lib.VGC_CTL_WAIT, 3, 2, 100, 0, 77), [5], [2])
    channel = made.area.channel(5)
    assert (channel.generation, channel.function, channel.pe) == (generation, Function.PERF, 2)
    assert (channel.policy, channel.slots, channel.wait_ns) == (lib.VGC_CTL_WAIT, 128, 77)
    assert made.bind_word(2, Function.PERF) == (generation, 5, 3, 2)
    assert made.area.pe(2).attention == lib.VGC_CTL_ATTEND_BLOCKS
    assert made.area.pe(1).attention == 0


@pytest.mark.parametrize(
    ("channels", "pes", "why"),
    [
        ([1, 2], [1, 4], "processing element 4; allowed: 0..3"),
        ([1, 17], [1, 2], "channel 17; allowed: 1..16"),
        ([1, 9], [1, 2], "channel 9 is open already"),
        ([1, 2], [1, 0], "log of element 0 has a channel already"),
        ([1, 1], [1, 2], "channel 1 is open already"),
    ],
)
def test_a_refused_command_changes_nothing(made: DriverRig, channels: list[int], pes: list[int], why: str) -> None:
    made.open(LOG, [9], [0])
    before = made.driver.usage()
    with pytest.raises(DriverError, match=why):
        made.open(LOG, channels, pes)
    assert made.driver.usage() == before
    assert made.bind_word(1, Function.LOG) == (0, 0, 0, 0)


def test_with_little_memory_links_are_shorter(made: DriverRig) -> None:
    made.open(Terms(Function.LOG, slots=1 << 20), [1])
    first = made.area.channel(1).slots
    assert first >= 4096
    made.open(Terms(Function.PERF, slots=1 << 20), [2])
    assert made.area.channel(2).slots < first


def test_the_largest_number_of_channels_all_get_a_link() -> None:
    with driver_rig(pes=64, channels=256, size=2 << 20) as made:
        for function in (Function.STDIO, Function.PERF, Function.LOG, Function.FAULT):
            first = 1 + 64 * function
            made.open(Terms(function, slots=1 << 20), range(first, first + 64))
        slots = [made.area.channel(number).slots for number in range(1, 257)]
        assert min(slots) == lib.VGC_CONTROL_FEWEST_SLOTS
        assert max(slots) >= 4096


def test_without_memory_a_channel_is_refused() -> None:
    with driver_rig(size=(16 << 10) + 4096) as small:
        small.open(Terms(Function.LOG), [1, 2])
        with pytest.raises(DriverError, match="no room for the links of channel 3: 4096 bytes of 4096 are used"):
            small.open(Terms(Function.PERF), [3, 4], [3, 0])
        small.close([1, 2])
        assert small.driver.usage().used_bytes == 0


def test_thousands_of_opens_and_closes_leave_the_memory_as_it_was(made: DriverRig) -> None:
    chance = random.Random(4)
    opened: set[int] = set()
    for _ in range(3000):
        number = chance.randrange(1, 17)
        if number in opened:
            made.close([number])
            opened.remove(number)
        else:
            terms = Terms((number - 1) % 4, slots=1 << chance.randrange(5, 11), in_bytes=chance.choice([0, 64, 3000]))
            made.open(terms, [number], [(number - 1) // 4])
            opened.add(number)
    made.close(sorted(opened))
    usage = made.driver.usage()
    assert (usage.used_bytes, usage.channels, usage.quarantined) == (0, 0, 0)
    made.open(Terms(Function.LOG, slots=8192), [1])
    assert made.area.channel(1).slots == 8192, "the largest block is whole again"


def test_level_and_sampling_change_in_one_store(made: DriverRig) -> None:
    (generation,) = made.open(LOG, [1])
    made.driver.set([1], 2, 5)
    assert made.bind_word(0, Function.LOG) == (generation, 1, 2, 5)
    with pytest.raises(DriverError, match="channel 2 is not open"):
        made.driver.set([1, 2], 1, 0)
    assert made.bind_word(0, Function.LOG) == (generation, 1, 2, 5)


def test_a_link_that_an_element_holds_is_not_reused_until_released(made: DriverRig) -> None:
    made.open(LOG, [1])
    link = int(made.area.channel(1).out)
    made.area.pe(0).readers = 1
    made.driver.unbind([1])
    assert made.bind_word(0, Function.LOG) == (0, 0, 0, 0)
    assert made.driver.unsettled() == 1
    assert made.driver.close_channels([1]) == 1
    assert made.driver.usage().quarantined_bytes == 256 * 64
    made.open(LOG, [2])
    assert made.area.channel(2).out != link
    made.area.pe(0).readers = 0
    made.open(LOG, [3], [1])
    assert made.driver.usage().quarantined == 0
    assert made.area.channel(3).out == link


def test_a_record_in_a_closed_channel_does_not_appear_in_its_successor(made: DriverRig) -> None:
    made.open(LOG, [1])
    link = int(made.area.channel(1).out)
    made.area.pe(0).readers = 1
    made.driver.unbind([1])
    assert made.driver.close_channels([1]) == 1
    assert made.put(1, b"too late")
    made.area.pe(0).readers = 0
    made.open(LOG, [1])
    assert made.area.channel(1).out == link
    made.claim(1)
    made.area.pe(0).readers = 1
    assert made.take() == []
    made.area.pe(0).readers = 0


# ---- links -------------------------------------------------------------------------------------------------------


def test_records_come_out_as_they_were_put_in(made: DriverRig) -> None:
    made.open(LOG, [1, 2])
    payloads = [bytes(range(length % 256)) * (1 + length // 256) for length in (0, 1, 8, 32, 33, 88, 89, 255)]
    for payload in payloads:
        assert made.put(1, payload)
    made.put(2, b"other")
    found = made.take()
    assert [record.payload for record in found if record.pe == 0] == payloads
    assert [record.sequence for record in found if record.pe == 0] == list(range(len(payloads)))
    assert [record.payload for record in found if record.pe == 1] == [b"other"]
    assert made.drain() == []


def test_records_that_were_not_sent_are_drained_again(made: DriverRig) -> None:
    made.open(Terms(Function.LOG, slots=32), [1])
    for _ in range(32):
        assert made.put(1)
    (lost,) = made.drain(sent=False)
    assert lost.taken == 32
    assert not made.put(1), "the link is as full as before"
    (section,) = made.drain()
    assert (section.taken, section.lost) == (32, 1)
    assert section.records == lost.records
    assert made.put(1)


def test_lost_records_are_counted_exactly(made: DriverRig) -> None:
    made.open(Terms(Function.LOG, slots=32), [1])
    taken = 0
    for burst in (10, 50, 1, 33, 32):
        for _ in range(burst):
            made.put(1)
        taken += len(made.take())
    (last,) = made.close([1])
    assert last.taken == taken
    assert last.taken + last.lost == 126


def test_overwritten_records_are_counted_exactly(made: DriverRig) -> None:
    made.open(Terms(Function.LOG, lib.VGC_CTL_OVERWRITE_OLDEST, slots=32), [1])
    taken = []
    for burst in (10, 100, 3):
        for number in range(burst):
            made.put(1, bytes([number]) * (40 if number % 5 == 0 else 4))
        taken += made.take()
    (last,) = made.close([1])
    assert last.taken == len(taken)
    assert last.taken + last.lost == 113
    assert last.forged == 0
    assert [record.sequence for record in taken] == sorted({record.sequence for record in taken})
    assert taken[-1].sequence == 112


STALL_NS = lib.VGC_CONTROL_STALL_MS * 1_000_000
POLICIES = [lib.VGC_CTL_DROP_NEW, lib.VGC_CTL_OVERWRITE_OLDEST, lib.VGC_CTL_WAIT]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_slot_that_is_never_filled_does_not_block_the_link(made: DriverRig, policy: int) -> None:
    made.open(Terms(Function.LOG, policy), [1])
    made.put(1, b"a")
    made.area.channel(1).records += 1
    made.claim(1, 3)
    made.put(1, b"b")
    assert [record.payload for record in made.take()] == [b"a", b"b"]
    (last,) = made.close([1])
    assert (last.taken, last.lost, last.forged) == (2, 1, 3)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_slow_element_is_waited_for_and_its_record_comes_in_its_turn(made: DriverRig, policy: int) -> None:
    made.open(Terms(Function.LOG, policy), [1])
    made.put(1, b"a")
    made.area.pe(0).readers = 1
    made.put(1, b"slow")
    commit = made.conceal(1)
    made.put(1, b"b")
    assert [record.payload for record in made.take()] == [b"a"]
    made.now_ns += STALL_NS - 1
    assert made.take() == []
    commit()
    assert [record.payload for record in made.take()] == [b"slow", b"b"]
    made.area.pe(0).readers = 0
    (last,) = made.close([1])
    assert (last.taken, last.lost, last.forged) == (3, 0, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_record_that_is_committed_too_late_is_dropped(made: DriverRig, policy: int) -> None:
    made.open(Terms(Function.LOG, policy, slots=32), [1])
    made.area.pe(0).readers = 1
    made.put(1, b"late")
    commit = made.conceal(1)
    made.put(1, b"next")
    assert made.take() == []
    made.now_ns += STALL_NS
    assert [record.payload for record in made.take()] == [b"next"]
    commit()
    assert made.take() == []
    for number in range(40):
        made.put(1, bytes([number]))
        assert [record.payload for record in made.take()] == [bytes([number])]
    made.area.pe(0).readers = 0
    (last,) = made.close([1])
    assert (last.taken, last.lost, last.forged) == (41, 1, 1)


@pytest.mark.parametrize("changes", [{"function": 1}, {"pe": 1}, {"length": 1025}, {"length": 500}])
def test_forged_slots_are_counted_and_skipped(made: DriverRig, changes: dict[str, int]) -> None:
    made.open(LOG, [1])
    made.put(1, b"forged", **changes)
    made.put(1, b"good")
    (section,) = made.drain()
    assert section.forged == 1
    assert section.taken == 1


@pytest.mark.parametrize("head", [1 << 63, 257, (1 << 64) - 9])
def test_a_wild_head_is_survived(made: DriverRig, head: int) -> None:
    made.open(LOG, [1])
    made.area.channel(1).head = head
    assert made.take() == []
    made.put(1, b"goes on")
    assert [record.payload for record in made.take()] == [b"goes on"]
    (last,) = made.close([1])
    assert last.forged == 1


def test_a_loud_channel_does_not_keep_others_waiting(made: DriverRig) -> None:
    made.open(Terms(Function.LOG, slots=4096), [1, 2, 3])
    for _ in range(4000):
        made.put(1, bytes(32))
    made.put(3, b"quiet")
    channels = {section.channel for section in made.drain()}
    assert channels == {1, 3}


def test_random_contents_of_an_area_do_no_harm() -> None:
    chance = random.Random(20261121)
    with driver_rig(size=128 << 10) as made:
        made.open(Terms(Function.LOG, slots=64), [1, 2])
        made.open(Terms(Function.STDIO, lib.VGC_CTL_OVERWRITE_OLDEST, slots=64, in_bytes=64), [3, 4])
        made.open(Terms(Function.PERF, period_ns=1), [5])
        before = made.driver.usage()
        for _ in range(200):
            for _ in range(chance.choice([1, 50, 2000])):
                at = chance.randrange(0, len(made.area.memory) - 8) & ~7
                value = chance.choice(
                    [0, 1, chance.getrandbits(8), chance.getrandbits(64), 1 << 63 | chance.getrandbits(6)]
                )
                made.area.memory[at : at + 8] = value.to_bytes(8, "little")
            for number in (1, 2, 3, 4):
                made.area.channel(number).head += chance.randrange(0, 80)
            made.now_ns += chance.choice([1, SECOND_NS])
            sections = [section for _ in range(4) for section in made.drain(sent=chance.random() < 0.7)]
            assert all(section.channel in {1, 2, 3, 4, 5} for section in sections)
            made.driver.figures(made.now_ns)
            made.driver.figured(sent=True)
            made.driver.govern(made.now_ns, 10)
            made.driver.look(0)
        assert made.driver.usage() == before


# ---- input -------------------------------------------------------------------------------------------------------


def test_input_goes_round_its_ring(made: DriverRig) -> None:
    made.open(STDIO, [1])
    channel = made.area.channel(1)
    begin = int(getattr(channel, "in")) - made.driver.device
    got = b""
    for number in range(20):
        made.driver.send(1, b"%09d" % number, eof=False)
        while channel.in_tail < channel.in_head:
            got += made.area.memory[begin + channel.in_tail % 16 : begin + channel.in_tail % 16 + 1]
            channel.in_tail += 1
    assert got == b"".join(b"%09d" % number for number in range(20))
    assert channel.in_eof == 0
    made.driver.send(1, b"", eof=True)
    assert channel.in_eof == 1


def test_input_without_room_is_refused_whole(made: DriverRig) -> None:
    made.open(STDIO, [1])
    made.driver.send(1, b"twelve bytes", eof=False)
    with pytest.raises(DriverError, match="5 bytes of input; allowed: 4"):
        made.driver.send(1, b"12345", eof=True)
    channel = made.area.channel(1)
    assert (channel.in_head, channel.in_eof) == (12, 0)


def test_a_forged_in_tail_makes_no_room(made: DriverRig) -> None:
    made.open(STDIO, [1])
    made.area.channel(1).in_tail = 1 << 40
    with pytest.raises(DriverError, match="allowed: 0"):
        made.driver.send(1, b"1", eof=False)


# ---- elements ----------------------------------------------------------------------------------------------------


def test_confinement_is_one_bit_of_attention(made: DriverRig) -> None:
    made.open(Terms(Function.LOAD), [1])
    made.driver.confine([0, 2])
    blocks, confined = lib.VGC_CTL_ATTEND_BLOCKS, lib.VGC_CTL_ATTEND_CONFINED
    assert [made.area.pe(pe).attention for pe in range(4)] == [blocks, confined, 0, confined]
    made.driver.confine([])
    assert [made.area.pe(pe).attention for pe in range(4)] == [blocks, 0, 0, 0]
    with pytest.raises(DriverError, match=r"processing element 4; allowed: 0\.\.3"):
        made.driver.confine([4])


def test_samples_come_when_they_are_due(made: DriverRig) -> None:
    made.open(Terms(Function.PERF, level=1, period_ns=SECOND_NS), [1])
    element = made.area.pe(0)
    element.blocks, element.busy_ns = 7, 500
    due = made.driver.due_ns()
    assert due is not None
    made.now_ns = due - 1
    assert made.drain() == []
    made.now_ns = due
    (record,) = made.take()
    assert (record.kind, record.words()) == ("sample", (7, 0, 500, 0))
    assert made.driver.due_ns() == due + SECOND_NS


def test_a_sample_that_was_not_sent_is_still_due(made: DriverRig) -> None:
    made.open(Terms(Function.LOAD), [1])
    made.now_ns = made.driver.due_ns() or 0
    assert len(made.drain(sent=False)) == 1
    (record,) = made.take()
    assert record.function is Function.LOAD
    assert made.driver.due_ns() is None, "one was asked for"


def test_the_running_block_counts_as_busy(made: DriverRig) -> None:
    made.open(Terms(Function.LOAD), [1])
    element = made.area.pe(0)
    element.kernel, element.busy_ns, element.ended_ns = 1, 100, made.now_ns - 50
    element.since_ns = made.now_ns - 30
    made.now_ns = max(made.now_ns, made.driver.due_ns() or 0)
    since = made.now_ns - int(element.since_ns)
    (record,) = made.take()
    assert record.words()[0] == 100 + since


def test_figures_have_counters_and_gauges(made: DriverRig) -> None:
    made.open(Terms(Function.PERF), [1], [2])
    element = made.area.pe(2)
    element.counters[0].name, element.counters[0].value = 0x1000, -5
    element.gauges[0].name, element.gauges[0].value = 0x2000, 1.5
    made.now_ns = made.driver.due_ns() or 0
    made.take()
    packet = made.driver.figures(made.now_ns)
    assert packet is not None
    figures = parse(bytes(packet))
    assert isinstance(figures, Figures)
    (counts,) = figures.elements
    assert (counts.pe, counts.counters, counts.gauges) == (2, {0x1000: -5}, {0x2000: 1.5})
    assert set(made.driver.unknown()) == {0x1000, 0x2000}
    made.driver.figured(sent=False)
    assert made.driver.figures(made.now_ns) is not None
    made.driver.figured(sent=True)
    assert made.driver.figures(made.now_ns) is None


def test_each_text_is_fetched_once(made: DriverRig) -> None:
    made.open(LOG, [1])
    made.put(1, (0xABC).to_bytes(8, "little"))
    made.drain(sent=False)
    assert set(made.driver.unknown()) == {0xABC}
    made.drain()
    assert set(made.driver.unknown()) == {0xABC}
    made.driver.know([0xABC])
    made.put(1, (0xABC).to_bytes(8, "little"))
    made.drain()
    assert made.driver.unknown() == {}
    made.driver.forget()
    made.put(1, (0xABC).to_bytes(8, "little"))
    made.drain()
    assert set(made.driver.unknown()) == {0xABC}


def test_elements_report_the_outcome_of_a_firmware_change(made: DriverRig) -> None:
    made.driver.activate([1, 3], 1)
    assert [made.area.pe(pe).firmware_wanted for pe in range(4)] == [0, 2, 0, 2]
    assert made.area.pe(1).attention == lib.VGC_CTL_ATTEND_FIRMWARE
    assert made.driver.firmware() == b""
    element = made.area.pe(3)
    element.firmware_wanted, element.firmware_tried, element.firmware_version = 0, 1, 77
    element.firmware_state = lib.VGC_CTL_FW_ACTIVE
    assert list(packets.FIRMWARE.iter_unpack(made.driver.firmware())) == [(3, 1, lib.VGC_CTL_FW_ACTIVE, 0, 77, 0)]
    assert made.area.pe(3).attention == 0
    assert made.driver.firmware() == b""


def test_a_snapshot_names_elements_that_are_silent(made: DriverRig) -> None:
    made.driver.ask(on=True)
    assert made.area.pe(0).attention == lib.VGC_CTL_ATTEND_BLOCKS
    made.area.pe(1).kernel = 0x40
    made.area.pe(2).kernel, made.area.pe(2).since_ns = 0x40, made.now_ns
    states, answered = made.driver.look(made.now_ns)
    made.driver.ask(on=False)
    seen = [packets.StateSeen(pe, bool(ok), *rest) for pe, ok, _, *rest in packets.STATE.iter_unpack(states)]
    assert answered == 3
    assert [state.pe for state in seen if not state.answered] == [1]
    assert made.area.pe(0).attention == 0


# ---- the governor ------------------------------------------------------------------------------------------------


def spend(made: DriverRig, number: int, records: int, ns_each: int) -> None:
    channel = made.area.channel(number)
    channel.records += records
    channel.cost_records += 1
    channel.cost_ns += ns_each


def test_the_governor_samples_more_coarsely_over_budget_and_finer_again_below(made: DriverRig) -> None:
    made.open(Terms(Function.PERF, period_ns=SECOND_NS), [1, 2])
    made.open(Terms(Function.STDIO), [3])
    assert made.driver.govern(made.now_ns, 10_000) == b""
    for step in (1, 2):
        spend(made, 1, 1_000_000, 100)
        made.now_ns += SECOND_NS
        (change,) = packets.CHANGE.iter_unpack(made.driver.govern(made.now_ns, 10_000))
        assert change[:2] == (1, step)
        assert made.bind_word(0, Function.PERF)[3] == step
    assert made.bind_word(0, Function.STDIO)[3] == 0, "prints are not left out"
    assert made.bind_word(1, Function.PERF)[3] == 0, "other elements have budgets of their own"
    for step in (1, 0):
        made.now_ns += SECOND_NS
        (change,) = packets.CHANGE.iter_unpack(made.driver.govern(made.now_ns, 10_000))
        assert change[:2] == (1, step)
    made.now_ns += SECOND_NS
    assert made.driver.govern(made.now_ns, 10_000) == b""


def test_old_records_in_reused_memory_are_not_drained(made: DriverRig) -> None:
    for number in range(1, 5):
        made.open(Terms(Function.LOG, slots=32), [number])
        link = int(made.area.channel(number).out)
        for text in (b"one", b"two", b"three"):
            made.put(number, text)
        assert [record.payload for record in made.take()] == [b"one", b"two", b"three"]
        made.claim(number, 3)
        assert made.take() == []
        made.close([number])
        assert int(made.area.channel(number).out) == link


def test_opening_a_channel_does_not_touch_its_links_memory() -> None:
    with driver_rig(size=8 << 20) as made:
        before = os.fstat(made.file.fd).st_blocks
        made.open(Terms(Function.LOG, slots=1 << 14), [1, 2, 3])
        assert os.fstat(made.file.fd).st_blocks - before <= 16, "one page of elements, one of channels"
