"""Random rings: any contents cause no crash, and every popped head is pushed exactly once."""

from __future__ import annotations

import errno
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.fakes.region import DEFAULT_GPA, Region
from tests.fakes.ring import INDIRECT, NEXT, WRITE, Desc, DeviceRing, RawRing, RingPlacement
from virtio_proto._vring import ffi, lib

SIZE = 1 << 16
NUM = 16
TABLES = range(0x4000, 0x4400, 0x100)
"""Offsets of the indirect tables, of 16 entries each."""

addresses = st.one_of(
    st.integers(DEFAULT_GPA + 0x8000, DEFAULT_GPA + SIZE - 256),
    st.integers(DEFAULT_GPA, DEFAULT_GPA + 0x800),
    st.sampled_from([DEFAULT_GPA + offset for offset in TABLES]),
    st.sampled_from([0, DEFAULT_GPA - 1, DEFAULT_GPA + SIZE - 1, DEFAULT_GPA + SIZE, 2**64 - 1]),
    st.integers(0, 2**64 - 1),
)
lengths = st.one_of(st.integers(0, 256), st.sampled_from([16, 32, 256]), st.integers(0, 2**32 - 1))
flags = st.one_of(st.sampled_from([0, NEXT, WRITE, NEXT | WRITE, INDIRECT]), st.integers(0, 2**16 - 1))
nexts = st.one_of(st.integers(0, NUM - 1), st.integers(0, 2**16 - 1))
descs = st.builds(Desc, addresses, lengths, flags, nexts)
tables = st.lists(descs, min_size=NUM, max_size=NUM)
heads = st.one_of(st.integers(0, NUM - 1), st.integers(0, 2**16 - 1))


@settings(max_examples=300)
@given(
    table=tables,
    indirects=st.lists(tables, min_size=len(TABLES), max_size=len(TABLES)),
    avail=st.lists(heads, min_size=NUM, max_size=NUM),
    avail_idx=st.one_of(st.integers(0, NUM + 1), st.integers(0, 2**16 - 1)),
    indirect=st.booleans(),
)
def test_random_ring_is_popped_and_pushed_without_a_trace(
    table: list[Desc], indirects: list[list[Desc]], avail: list[int], avail_idx: int, indirect: bool
) -> None:
    with Region(SIZE) as region:
        raw = RawRing(region, RingPlacement.allocate(region, NUM))
        for offset, descs_of_table in zip(TABLES, indirects, strict=True):
            region.memory[offset : offset + 16 * NUM] = b"".join(desc.pack() for desc in descs_of_table)
        for index, desc in enumerate(table):
            raw.set_desc(index, desc)
        for slot, head in enumerate(avail):
            raw.set_avail_entry(slot, head)
        raw.avail_idx = avail_idx
        device = DeviceRing(region, raw.at, indirect=indirect)
        popped = []
        while (result := device.pop()) in (1, -errno.EBADMSG):
            popped.append(device.chain.head)
            if result == 1:
                assert_spans_are_sane(device)

        assert result in (0, -errno.EIO)
        assert device.in_flight == set(popped)
        assert len(popped) == len(set(popped)) <= avail_idx
        for head in popped:
            assert device.push(head, 0) == 0
        assert raw.used_heads == popped
        assert device.in_flight == set()


def assert_spans_are_sane(device: DeviceRing) -> None:
    chain = device.popped()
    spans = [*chain.readable, *chain.writable]
    assert 1 <= len(spans) <= 256
    assert all(size > 0 and 0 <= offset <= SIZE - size for offset, size in spans)
    assert device.chain.readable_len == sum(size for _, size in chain.readable)
    assert device.chain.writable_len == sum(size for _, size in chain.writable)


class BothSides(RuleBasedStateMachine):
    """An honest driver and an honest device in any interleaving, with a model of what is where."""

    def __init__(self) -> None:
        super().__init__()
        self.region = Region(SIZE)
        self.serial = 0
        self.added: deque[tuple[int, int, int]] = deque()  # (token, readable bytes, writable bytes)
        self.popped: dict[int, int] = {}  # head -> token
        self.pushed: deque[tuple[int, int]] = deque()  # token, length
        self.driver_sleeps = self.device_sleeps = False

    @initialize(event_idx=st.booleans(), num=st.sampled_from([1, 2, 4, 16]), start=st.sampled_from([0, 0xFFFA]))
    def begin(self, event_idx: bool, num: int, start: int) -> None:
        at = RingPlacement.allocate(self.region, num)
        raw = RawRing(self.region, at)
        raw.avail_idx = raw.used_idx = start
        ring = ffi.new("struct vgc_ring *")
        ring.desc = ffi.cast("struct vgc_desc *", self.region.address + at.desc)
        ring.avail = ffi.cast("uint16_t *", self.region.address + at.avail)
        ring.used = ffi.cast("uint16_t *", self.region.address + at.used)
        ring.num = num
        self.driver = ffi.new("struct vgc_vq_driver *")
        assert lib.vgc_vq_driver_attach(self.driver, ring[0], event_idx) == 0
        self.device = DeviceRing(self.region, at, event_idx=event_idx, indirect=True, base=start)
        self.num = num

    @rule(n_readable=st.integers(0, 5), n_writable=st.integers(0, 5), indirect=st.booleans())
    def add(self, n_readable: int, n_writable: int, indirect: bool) -> None:
        count = n_readable + n_writable
        needed = 1 if indirect else count
        sg = ffi.new("struct vgc_sg[]", [(DEFAULT_GPA + 0x8000 + i, i + 1) for i in range(count)])
        table = self.region.allocate(16 * count) if indirect else None
        desc = ffi.cast("struct vgc_desc *", self.region.address + table.offset) if table else ffi.NULL
        token = self.serial = self.serial + 1
        free = self.driver.num_free
        result = lib.vgc_vq_add(
            self.driver,
            sg,
            n_readable,
            n_writable,
            desc,
            table.gpa if table else 0,
            ffi.cast("void *", token),
        )
        if count == 0 or needed > self.num:
            assert result == -errno.EINVAL
        elif needed > free:
            assert result == -errno.ENOSPC
        else:
            assert result >= 0
            sizes = [i + 1 for i in range(count)]
            self.added.append((token, sum(sizes[:n_readable]), sum(sizes[n_readable:])))
        if lib.vgc_vq_should_kick(self.driver):
            self.device_sleeps = False

    @rule()
    def pop(self) -> None:
        result = self.device.pop()
        assert result == (1 if self.added else 0)
        if result:
            token, readable, writable = self.added.popleft()
            assert (self.device.chain.readable_len, self.device.chain.writable_len) == (readable, writable)
            self.popped[self.device.chain.head] = token

    @precondition(lambda self: self.popped)
    @rule(data=st.data(), length=st.integers(0, 2**32 - 1))
    def push(self, data: st.DataObject, length: int) -> None:
        head = data.draw(st.sampled_from(sorted(self.popped)))
        assert self.device.push(head, length) == 0
        self.pushed.append((self.popped.pop(head), length))
        if lib.vgc_vq_should_call(self.device.vq):
            self.driver_sleeps = False

    @rule()
    def take(self) -> None:
        token, length = ffi.new("void **"), ffi.new("uint32_t *")
        result = lib.vgc_vq_take(self.driver, token, length)
        assert result == (1 if self.pushed else 0)
        if result:
            assert (int(ffi.cast("uintptr_t", token[0])), length[0]) == self.pushed.popleft()

    @rule()
    def device_goes_to_sleep(self) -> None:
        self.device_sleeps = not lib.vgc_vq_enable_kick(self.device.vq)

    @rule()
    def driver_goes_to_sleep(self) -> None:
        self.driver_sleeps = not lib.vgc_vq_enable_call(self.driver)

    @rule()
    def device_polls(self) -> None:
        self.device_sleeps = False
        lib.vgc_vq_disable_kick(self.device.vq)

    @rule()
    def driver_polls(self) -> None:
        self.driver_sleeps = False
        lib.vgc_vq_disable_call(self.driver)

    @invariant()
    def nobody_sleeps_over_work(self) -> None:
        assert not (self.device_sleeps and self.added)
        assert not (self.driver_sleeps and self.pushed)

    @invariant()
    def in_flight_is_what_was_popped(self) -> None:
        if hasattr(self, "device"):
            assert self.device.in_flight == set(self.popped)

    def teardown(self) -> None:
        self.region.close()


BothSides.TestCase.settings = settings(max_examples=60, stateful_step_count=60)
TestBothSides = BothSides.TestCase
