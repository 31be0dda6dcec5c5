"""cuDNN's descriptors and refusals, in a guest whose host has no cuDNN."""

from __future__ import annotations

import ctypes
from typing import Any

from tests.cuda_libraries.toolkit import check, library, main

CUDNN = library("libcudnn.so.9")
CUDNN.cudnnGetErrorString.restype = ctypes.c_char_p
CUDNN.cudnnGetVersion.restype = ctypes.c_size_t
BAD_PARAM, NOT_FINALIZED, ATTRIBUTE_TYPE = 2000, 2004, 2010
NOT_SUPPORTED, GRAPH_PATTERN, LAYOUT = 3000, 3001, 3004
CONVOLUTION, ENGINE, FORWARD, POINTWISE, GRAPH, TENSOR = 1, 2, 10, 13, 15, 17
DATA_TYPE, INT64, MODE, DESCRIPTOR = 1, 3, 7, 15


class Descriptor:
    """A backend descriptor, destroyed with its last reference."""

    def __init__(self, kind: int) -> None:
        self.handle = ctypes.c_void_p()
        check(CUDNN.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.handle)))

    def __del__(self) -> None:
        CUDNN.cudnnBackendDestroyDescriptor(self.handle)

    def set(self, name: int, kind: int, *values: Any) -> int:
        element = {INT64: ctypes.c_int64, DESCRIPTOR: ctypes.c_void_p}.get(kind, ctypes.c_int)
        array = (element * len(values))(*[one.handle if isinstance(one, Descriptor) else one for one in values])
        return int(CUDNN.cudnnBackendSetAttribute(self.handle, name, kind, ctypes.c_int64(len(values)), array))

    def get(self, name: int, kind: int, most: int) -> list[int]:
        array, count = (ctypes.c_int64 * most)(), ctypes.c_int64()
        wanted = ctypes.c_int64(most)
        check(CUDNN.cudnnBackendGetAttribute(self.handle, name, kind, wanted, ctypes.byref(count), array))
        return array[: count.value]

    def finalize(self) -> int:
        return int(CUDNN.cudnnBackendFinalize(self.handle))


def tensor(number: int, *sizes: int, strides: tuple[int, ...] = ()) -> Descriptor:
    made, packed = Descriptor(TENSOR), [1]
    for size in reversed(sizes[1:]):
        packed.insert(0, packed[0] * size)
    check(made.set(901, DATA_TYPE, 0))
    check(made.set(902, INT64, *sizes))
    check(made.set(903, INT64, *(strides or packed)))
    check(made.set(906, INT64, number))
    check(made.finalize())
    return made


def convolution() -> Descriptor:
    made = Descriptor(CONVOLUTION)
    check(made.set(100, DATA_TYPE, 0))
    check(made.set(101, MODE, 1))
    for name in (102, 103):
        check(made.set(name, INT64, 1, 1))
    for name in (104, 105):
        check(made.set(name, INT64, 0, 0))
    check(made.finalize())
    return made


def graph_of(*operations: Descriptor) -> Descriptor:
    made = Descriptor(GRAPH)
    check(made.set(801, DESCRIPTOR, *operations))
    return made


def forward(x: Descriptor, w: Descriptor, y: Descriptor) -> Descriptor:
    made = Descriptor(FORWARD)
    for name, part in ((702, convolution()), (703, w), (704, x), (705, y)):
        check(made.set(name, DESCRIPTOR, part))
    check(made.finalize())
    return made


def last_error() -> str:
    text = ctypes.create_string_buffer(512)
    CUDNN.cudnnGetLastErrorString(text, ctypes.c_size_t(512))
    return text.value.decode()


def attributes_are_kept() -> None:
    made = tensor(7, 2, 3, 4, 5)
    assert made.get(902, INT64, 9) == [2, 3, 4, 5]
    assert made.get(902, INT64, 2) == [2, 3]
    count = ctypes.c_int64()
    check(CUDNN.cudnnBackendGetAttribute(made.handle, 902, INT64, ctypes.c_int64(0), ctypes.byref(count), None))
    assert count.value == 4
    assert CUDNN.cudnnBackendGetAttribute(made.handle, 902, DATA_TYPE, ctypes.c_int64(0), None, None) == ATTRIBUTE_TYPE
    assert made.set(906, INT64, 8) == BAD_PARAM  # it is final


def wrong_descriptors_are_refused() -> None:
    handle = ctypes.c_void_p()
    assert CUDNN.cudnnBackendCreateDescriptor(99, ctypes.byref(handle)) == NOT_SUPPORTED
    empty = Descriptor(TENSOR)
    assert empty.finalize() == BAD_PARAM
    assert CUDNN.cudnnBackendGetAttribute(empty.handle, 902, INT64, ctypes.c_int64(0), None, None) == NOT_FINALIZED
    assert Descriptor(GRAPH).set(801, DESCRIPTOR, None) == BAD_PARAM
    assert Descriptor(POINTWISE).finalize() == NOT_SUPPORTED
    assert CUDNN.cudnnBackendExecute(None, empty.handle, empty.handle) == BAD_PARAM
    one = forward(tensor(1, 1, 2, 5, 5), tensor(2, 3, 2, 3, 3), tensor(3, 1, 3, 3, 3))
    assert graph_of(one, one).finalize() == GRAPH_PATTERN
    scattered = tensor(2, 3, 2, 3, 3, strides=(100, 50, 7, 1))
    assert graph_of(forward(tensor(1, 1, 2, 5, 5), scattered, tensor(3, 1, 3, 3, 3))).finalize() == LAYOUT


def host_without_cudnn_is_told() -> None:
    """Descriptors may go while a graph has them."""
    graph = graph_of(forward(tensor(1, 1, 2, 5, 5), tensor(2, 3, 2, 3, 3), tensor(3, 1, 3, 3, 3)))
    assert graph.finalize() == NOT_SUPPORTED
    assert "has no cuDNN" in last_error()
    assert CUDNN.cudnnGetErrorString(NOT_SUPPORTED) == b"CUDNN_STATUS_NOT_SUPPORTED"


def other_functions_are_named() -> None:
    assert CUDNN.cudnnRNNForward() == NOT_SUPPORTED
    assert last_error() == "cudnnRNNForward() is not there"


def handles_have_a_stream() -> None:
    handle, stream = ctypes.c_void_p(), ctypes.c_void_p()
    check(CUDNN.cudnnCreate(ctypes.byref(handle)))
    check(CUDNN.cudnnSetStream(handle, ctypes.c_void_p(2)))
    check(CUDNN.cudnnGetStream(handle, ctypes.byref(stream)))
    assert stream.value == 2
    check(CUDNN.cudnnDestroy(handle))
    assert CUDNN.cudnnSetStream(None, None) == BAD_PARAM
    assert CUDNN.cudnnGetVersion() // 10000 == 9


CASES = {
    case.__name__: case
    for case in (
        attributes_are_kept,
        wrong_descriptors_are_refused,
        host_without_cudnn_is_told,
        other_functions_are_named,
        handles_have_a_stream,
    )
}

if __name__ == "__main__":
    main(CASES)
