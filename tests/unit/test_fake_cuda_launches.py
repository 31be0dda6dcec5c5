"""The rules of the fake CUDA driver: faults, modules and launches."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

import pytest

from tests.fakes.cuda_cubin import Global, Kernel, all_kernels, cubin
from tests.unit.fake_cuda_rig import (
    ASSERT,
    ILLEGAL_ADDRESS,
    INVALID_IMAGE,
    INVALID_VALUE,
    LAUNCH_OUT_OF_RESOURCES,
    NO_BINARY_FOR_GPU,
    NOT_FOUND,
    SUCCESS,
    Rig,
    bare,
    fake,
    rig,
)

__all__ = ["bare", "fake", "rig"]


# ---- faults --------------------------------------------------------------------------------------

FAULTS = {
    "fails": 710,
    "illegal_address": 700,
    "misaligned": 716,
    "illegal_instruction": 715,
    "trap": 719,
    "timeout": 702,
    "ecc": 214,
    "stack_error": 714,
}


@pytest.mark.parametrize(("name", "error"), FAULTS.items())
def test_a_kernels_fault_stays_with_the_context(rig: Rig, name: str, error: int) -> None:
    stream, event = rig.stream(), rig.event()
    rig.launch(rig.kernel(name), stream=stream)
    assert rig.code("cuStreamSynchronize", stream) == error
    value = ctypes.byref(ctypes.c_uint64())
    calls: list[tuple[str, Any]] = [
        ("cuStreamQuery", stream),
        ("cuEventQuery", event),
        ("cuMemFreeHost", 0),
        ("cuMemAlloc_v2", value),
        ("cuModuleUnload", 0),
        ("cuCtxSynchronize", None),
        ("cuStreamDestroy_v2", stream),
    ]
    assert {rig.code(name, argument) for name, argument in calls} == {error}


def test_work_queued_behind_a_fault_never_runs(rig: Rig) -> None:
    stream, host = rig.stream(), rig.pinned(4)
    host.raw = bytes(4)
    fails = rig.kernel("fails")
    rig.fake.hold()
    rig.launch(fails, stream=stream)
    rig.call("cuStreamWriteValue32_v2", stream, ctypes.addressof(host), 7, 0)
    rig.fake.go_on()
    assert rig.code("cuStreamSynchronize", stream) == ASSERT
    while rig.fake.number("finished") != rig.fake.number("submitted"):
        pass
    assert host.raw == bytes(4)


def test_a_kernel_with_an_access_outside_of_its_memory_faults(rig: Rig) -> None:
    stream, address = rig.stream(), rig.alloc(8)
    rig.add_one(rig.kernel("add_one"), address, 3, stream)
    assert rig.code("cuStreamSynchronize", stream) == ILLEGAL_ADDRESS


# ---- modules and launches ------------------------------------------------------------------------


@pytest.mark.parametrize("image", [b"no image at all, of some length", b"\x7fELF" + bytes(100), b".version 8.0\n\0"])
def test_bytes_that_are_no_cubin_are_refused(rig: Rig, image: bytes) -> None:
    assert rig.code("cuModuleLoadData", ctypes.byref(ctypes.c_uint64()), image.ljust(64, b"\0")) == INVALID_IMAGE


@pytest.mark.parametrize("arch", [75, 80, 100, 120])
def test_a_cubin_for_another_architecture_is_refused(rig: Rig, arch: int) -> None:
    code = rig.code("cuModuleLoadData", ctypes.byref(ctypes.c_uint64()), all_kernels(arch))
    assert code == NO_BINARY_FOR_GPU


def test_a_cubin_runs_on_later_minor_revisions(bare: Rig) -> None:
    bare.fake.set("capability 8.9")
    bare.start()
    bare.module(all_kernels(80))


def test_globals_have_their_first_values(rig: Rig) -> None:
    module = rig.module(cubin([], [Global("counter", 8, b"\1\2\3"), Global("zeros", 16)]))
    address, size = ctypes.c_uint64(), ctypes.c_size_t()
    for name, expected in ((b"counter", b"\1\2\3" + bytes(5)), (b"zeros", bytes(16))):
        rig.call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, name)
        assert rig.read(address.value, size.value) == expected
    code = rig.code("cuModuleGetGlobal_v2", ctypes.byref(address), None, module, b"other")
    assert code == NOT_FOUND


def test_a_module_reports_its_kernels_resources(rig: Rig) -> None:
    kernel = Kernel("f", (8, 1, 4), shared_bytes=512, local_bytes=48, max_threads=256, registers=40)
    function = rig.kernel("f", rig.module(cubin([Kernel("g"), kernel])))
    found = [rig.get("cuFuncGetAttribute", key, function, kind=ctypes.c_int) for key in (0, 1, 3, 4, 6, 8)]
    assert found == [256, 512, 48, 40, 90, 48 * 1024 - 512]
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    params = []
    for i in range(3):
        rig.call("cuFuncGetParamInfo", function, i, ctypes.byref(offset), ctypes.byref(size))
        params.append((offset.value, size.value))
    assert params == [(0, 8), (8, 1), (12, 4)]
    assert rig.code("cuFuncGetParamInfo", function, 3, ctypes.byref(offset), None) == INVALID_VALUE


def test_parameters_come_one_by_one_or_packed(rig: Rig) -> None:
    address, kernel = rig.alloc(4), rig.kernel("add_one")
    rig.write(address, struct.pack("<I", 1))
    rig.add_one(kernel, address, 1)
    rig.launch(kernel, buffer=struct.pack("<QI", address, 1))
    rig.call("cuCtxSynchronize")
    assert rig.read(address, 4) == struct.pack("<I", 3)


def test_too_few_or_too_many_parameters_are_refused(rig: Rig) -> None:
    kernel = rig.kernel("add_one")
    assert rig.launch_code(kernel) == INVALID_VALUE
    assert rig.launch_code(kernel, buffer=bytes(11)) == INVALID_VALUE
    assert rig.launch_code(kernel, buffer=bytes(17)) == INVALID_VALUE


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [
        ((0, 1, 1), (1, 1, 1), 0),
        ((1, 65536, 1), (1, 1, 1), 0),
        ((1, 1, 1), (1025, 1, 1), 0),
        ((1, 1, 1), (1, 1, 65), 0),
        ((1, 1, 1), (32, 64, 1), 0),
        ((1, 1, 1), (1, 1, 1), 48 * 1024 + 1),
    ],
)
def test_geometry_out_of_bounds_is_refused(
    rig: Rig, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int
) -> None:
    assert rig.launch_code(rig.kernel("empty"), grid=grid, block=block, shared=shared) == INVALID_VALUE


def test_more_threads_than_a_kernel_was_compiled_for_are_refused(rig: Rig) -> None:
    function = rig.kernel("empty", rig.module(cubin([Kernel("empty", max_threads=128)])))
    assert rig.launch_code(function, block=(129, 1, 1)) == LAUNCH_OUT_OF_RESOURCES


def test_more_shared_memory_must_be_asked_for(rig: Rig) -> None:
    kernel, much = rig.kernel("empty"), 200 * 1024
    assert rig.launch_code(kernel, shared=much) == INVALID_VALUE
    rig.call("cuFuncSetAttribute", kernel, 8, much)
    assert rig.launch_code(kernel, shared=much) == SUCCESS
    assert rig.code("cuFuncSetAttribute", kernel, 8, 228 * 1024) == INVALID_VALUE


def test_kernels_are_found_by_their_mangled_names(rig: Rig) -> None:
    address = rig.alloc(4)
    rig.write(address, bytes(4))
    name = "_Z7add_onePjj"
    rig.add_one(rig.kernel(name, rig.module(cubin([Kernel(name, (8, 4))]))), address, 1)
    assert rig.read(address, 4) == struct.pack("<I", 1)


def test_a_kernel_that_the_fake_lacks_is_misuse(rig: Rig) -> None:
    rig.launch(rig.kernel("unheard_of", rig.module(cubin([Kernel("unheard_of")]))))
    assert rig.fake.misuses() == ["the fake has no kernel unheard_of"]


def test_unloading_a_module_of_a_running_kernel_is_misuse(rig: Rig) -> None:
    module, stream = rig.module(), rig.stream()
    empty = rig.kernel("empty", module)
    rig.fake.hold()
    rig.launch(empty, stream=stream)

    def work() -> None:
        rig.start()
        rig.call("cuModuleUnload", module)

    unload = threading.Thread(target=work)
    unload.start()
    while not rig.fake.misuses():
        pass
    rig.fake.go_on()
    unload.join()
    assert rig.fake.misuses() == ["a module was unloaded while 1 launches of its kernels were in flight"]
