"""The in-flight memory: C and Python agree on its layout, and the daemon does not trust its contents."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI
from hypothesis import given
from hypothesis import strategies as st

from vhost_backend.daemon import inflight
from vhost_backend.daemon.inflight import InflightMemory, QueueState

HEADER = Path(inflight.__file__).parents[1] / "dataplane" / "vgc_inflight.h"


def layout() -> FFI:
    """Layout of the header's structs by cffi."""
    text = HEADER.read_text()
    structs = re.findall(r"^struct \w+ \{.*?^\};", text, re.DOTALL | re.MULTILINE)
    ffi = FFI()
    constants = {"VGC_MAX_QUEUE_SIZE / 64": "4", "VGC_MAX_QUEUES": "64", "VGC_BLACK_BOX_TEXT": "1024"}
    for text in structs:
        for name, value in constants.items():
            text = text.replace(name, value)  # noqa: PLW2901  the same text, further on
        ffi.cdef(text)
    return ffi


def test_python_reads_what_c_declares() -> None:
    ffi = layout()
    assert ffi.sizeof("struct vgc_inflight") == inflight.SIZE_BYTES
    assert ffi.offsetof("struct vgc_inflight", "queues") == inflight.HEADER_BYTES
    assert ffi.sizeof("struct vgc_inflight_queue") == inflight.QUEUE_BYTES
    assert ffi.offsetof("struct vgc_inflight", "black_box") == inflight.BLACK_BOX_OFFSET
    with InflightMemory() as memory:
        view: Any = ffi.cast("struct vgc_inflight *", ffi.from_buffer(memory._map))
        assert (view.magic, view.version) == (inflight.MAGIC, inflight.VERSION)
        view.progress, view.pieces = 12345, 678
        queue = view.queues[5]
        queue.started, queue.last_avail, queue.used_idx, queue.heads = 1, 7, 6, [1, 0, 0, 1 << 63]
        box = view.black_box
        box.valid, box.queue, box.head, box.status, box.detail, box.text_len = 1, 5, 255, 11, 9, 5
        box.text[0:5] = b"hello"
        assert (memory.progress(), memory.pieces()) == (12345, 678)
        assert memory.queue(5) == QueueState(True, 7, 6, (0, 255))
        assert memory.black_box() == inflight.BlackBox(5, 255, 11, 9, "hello")
        del view, queue, box
        ffi.gc  # noqa: B018


@pytest.mark.parametrize("index", [0, inflight.MAX_QUEUES - 1])
def test_requests_of_all_queues_are_seen(index: int) -> None:
    with InflightMemory() as memory:
        at = inflight.HEADER_BYTES + index * inflight.QUEUE_BYTES
        nothing = memory.requests()
        assert not nothing.any_in_flight
        memory._map[at + 63] = 0x80
        popped = memory.requests()
        assert popped.any_in_flight
        assert popped.mark != nothing.mark
        memory._map[at + 63] = 0
        memory._map[8] = 1
        finished = memory.requests()
        assert not finished.any_in_flight
        assert finished.mark != nothing.mark
        memory._map[inflight.BLACK_BOX_OFFSET] = 1
        assert memory.requests() == finished, "the black box is no request"


def test_the_file_cannot_change_its_size() -> None:
    with InflightMemory() as memory:
        for size in (0, inflight.SIZE_BYTES * 2):
            with pytest.raises(PermissionError):
                os.ftruncate(memory.fd, size)


def test_last_words_without_a_request_are_returned_once() -> None:
    with InflightMemory() as memory:
        for valid, again in ((1, "stuck"), (2, "")):
            words = struct.pack("<6I", valid, 0, 0, 11, 0, 5) + b"stuck"
            memory._map[inflight.BLACK_BOX_OFFSET : inflight.BLACK_BOX_OFFSET + len(words)] = words
            assert [memory.last_words(), memory.last_words()] == ["stuck", again]
        assert memory.black_box() is None


def test_reset_forgets_everything() -> None:
    with InflightMemory() as memory:
        memory._map[64:] = b"\xff" * (inflight.SIZE_BYTES - 64)
        memory.reset()
        assert memory.queue(0) == QueueState(False, 0, 0, ())
        assert memory.black_box() is None


@pytest.mark.parametrize("index", [-1, 64])
def test_queue_indices_out_of_range_are_refused(index: int) -> None:
    with InflightMemory() as memory, pytest.raises(IndexError):
        memory.queue(index)


@given(st.binary(min_size=64, max_size=1200), st.integers(0, inflight.SIZE_BYTES - 1200))
def test_random_contents_raise_nothing(content: bytes, offset: int) -> None:
    with InflightMemory() as memory:
        memory._map[offset : offset + len(content)] = content
        for index in range(inflight.MAX_QUEUES):
            state = memory.queue(index)
            assert all(head < 256 for head in state.heads)
        box = memory.black_box()
        assert box is None or (box.queue < 64 and box.head < 256)
        assert isinstance(memory.last_words(), str)
