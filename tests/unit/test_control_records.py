"""Records: the layout that C and Python share, batches, and formats of printf."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vhost_backend._dataplane import ffi, lib
from virtio_proto.control import records
from virtio_proto.control.records import Function, Level, Record, RecordError
from virtio_proto.control.selector import FUNCTIONS, MAX_PES

made = st.builds(
    Record,
    time_ns=st.integers(0, 2**64 - 1),
    function=st.sampled_from(Function),
    level=st.integers(0, 15),
    type=st.integers(0, 255),
    pe=st.integers(0, 2**16 - 1),
    warp=st.integers(0, 2**16 - 1),
    block=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**32 - 1),
    payload=st.binary(max_size=records.MAX_PAYLOAD),
)


def record(function: Function, kind: int, payload: bytes) -> Record:
    return Record(5, function, Level.INFO, kind, 1, 2, 3, 4, payload)


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


# ---- the C header ----------------------------------------------------------------------------------------------


def test_names_and_numbers_are_those_of_the_c_header() -> None:
    assert [int(getattr(lib, f"VGC_CTL_{name.upper()}")) for name in FUNCTIONS] == list(range(len(FUNCTIONS)))
    assert [function.name.lower() for function in Function] == list(FUNCTIONS)
    assert {level.name: int(getattr(lib, f"VGC_CTL_{level.name}")) for level in Level} == dict(Level.__members__)
    for function, types in records.TYPES.items():
        for number, name in types.items():
            assert getattr(lib, f"VGC_CTL_{function.name}_{name.upper()}") == number
    assert int(lib.VGC_CTL_MAX_PAYLOAD) == records.MAX_PAYLOAD
    assert int(lib.VGC_CTL_MAX_PES) == MAX_PES


def test_structs_have_the_sizes_of_the_areas_layout() -> None:
    sizes = {name: ffi.sizeof(f"struct vgc_ctl_{name}") for name in ("record", "more", "pe", "channel", "area")}
    assert sizes == {"record": 64, "more": 64, "pe": 1024, "channel": 256, "area": 64}
    assert ffi.offsetof("struct vgc_ctl_record", "payload") == 64 - lib.VGC_CTL_FIRST_PAYLOAD
    lines = {"attention": 64, "readers": 128, "blocks": 192}  # host's and element's fields share no cache line
    assert {name: ffi.offsetof("struct vgc_ctl_pe", name) for name in lines} == lines
    assert ffi.offsetof("struct vgc_ctl_channel", "head") == 128


# ---- batches ---------------------------------------------------------------------------------------------------


@given(st.lists(made, max_size=8))
def test_packed_records_come_back(several: list[Record]) -> None:
    assert list(records.unpack(b"".join(map(records.pack, several)))) == several


@given(made, st.data())
def test_torn_batch_is_an_error(one: Record, data: st.DataObject) -> None:
    whole = records.HEADER.size + len(one.payload)
    cut = records.pack(one)[: data.draw(st.integers(1, whole - 1))]
    with pytest.raises(RecordError):
        list(records.unpack(cut))


@given(st.binary(max_size=400))
def test_any_bytes_are_records_or_a_record_error(batch: bytes) -> None:
    try:
        found = list(records.unpack(batch))
    except RecordError:
        return
    for one in found:
        assert isinstance(records.describe(one, {}), str)


# ---- formats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "arguments", "expected"),
    [
        ("plain 100%%", b"", "plain 100%"),
        ("%d %i %u", words(2**64 - 5, 7, 2**64 - 1), "-5 7 4294967295"),
        ("%lld %llu %zu", words(2**64 - 5, 2**64 - 1, 3), "-5 18446744073709551615 3"),
        ("%hhd %hx", words(0x1FF, 0x12345), "-1 2345"),
        ("%5d|%-5d|%05d|%+d", words(42, 42, 42, 42), "   42|42   |00042|+42"),
        ("%x %X %#o", words(255, 255, 8), "ff FF 010"),
        ("%c%c", words(72, 105), "Hi"),
        ("%p", words(0xDEAD), "0xdead"),
        ("%*d|%.*f", words(4, 7, 1) + struct.pack("<d", 2.25), "   7|2.2"),
        ("%f %.2e %g", struct.pack("<3d", 1.5, 12345.678, 0.1), "1.500000 1.23e+04 0.1"),
        ("%d %s", words(1), "1 <?>"),
        ("%99999999999d", words(1), " " * 254 + "1"),
    ],
)
def test_format_is_expanded_as_printf_would(template: str, arguments: bytes, expected: str) -> None:
    assert records.expand(template, arguments) == expected


def test_strings_are_found_where_their_argument_says() -> None:
    text = b"warp\xff"
    arguments = words(len(text) << 32 | 16, 3) + text
    assert records.expand("[%6s] %d", arguments) == "[ warp\ufffd] 3"
    assert records.expand("%s", words(99 << 32 | 8)) == "<?>"


@given(st.text(st.sampled_from("%*.0123456789hlsdfgcxpq -+#"), max_size=30), st.binary(max_size=64))
def test_any_format_of_a_guest_is_expanded_within_bounds(template: str, arguments: bytes) -> None:
    assert len(records.expand(template, arguments)) < 64_000


def test_records_are_described_with_the_dictionarys_texts() -> None:
    dictionary = {0x1000: "step %d", 0x2000: "tokens"}
    assert records.describe(record(Function.STDIO, 1, b"hello\n"), {}) == "hello\n"
    assert records.describe(record(Function.LOG, 1, words(0x1000, 7)), dictionary) == "step 7"
    assert records.describe(record(Function.LOG, 1, words(0x9000, 7)), dictionary) == "<0x9000>"
    assert records.describe(record(Function.FAULT, 2, words(257, 0x1000, 9)), dictionary) == "step 9"
    assert records.describe(record(Function.PERF, 3, words(0x2000, 2**64 - 2)), dictionary) == "tokens -2"
    block = record(Function.PERF, 1, words(0x2000, 5, 256))
    assert records.describe(block, dictionary) == f"tokens, launch 5, block {block.block}: 256 threads"
    assert records.describe(record(Function.PERF, 2, words(0x2000, 5, 99)), dictionary).endswith(": 99 ns")
    gauge = words(0x2000) + struct.pack("<2d", 2.5, 2.0)
    assert records.describe(record(Function.PERF, 4, gauge), dictionary) == "tokens 2.5 crosses 2"
