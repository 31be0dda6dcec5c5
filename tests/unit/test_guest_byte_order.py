"""Numbers of either byte order reach kernels as little-endian ones. Machines of the other order: tests/ports."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver import arguments
from guest_driver._lib import ffi
from guest_driver.arguments import In, InOut, Out, Param, ParamKind
from tests.unit.guest_rig import dev, fake, link

__all__ = ["dev", "fake", "link"]
NUMBERS = [1.5, -2.0, 3e7]


def test_array_is_converted_on_its_way_to_the_device_and_back(dev: vgc.Device) -> None:
    array = dev.to_device(np.array(NUMBERS, ">f4"))
    assert array.dtype == np.float32
    assert array.read() == struct.pack("<3f", *NUMBERS)
    assert array.get().tolist() == NUMBERS
    out = array.get(np.empty(3, ">f4"))
    assert out.tobytes() == struct.pack(">3f", *NUMBERS)


def test_array_of_this_machine_stays_as_it_is(dev: vgc.Device) -> None:
    array = dev.to_device(np.array(NUMBERS, np.float32))
    array.set(np.array(NUMBERS[::-1], np.float32))
    assert array.get().tolist() == NUMBERS[::-1]


def test_every_element_is_filled_with_the_number(dev: vgc.Device) -> None:
    array = dev.empty(4, ">u4")
    array.fill(0x11223344)
    assert array.read() == bytes.fromhex("44332211") * 4


def test_array_is_not_viewed_in_the_other_order(dev: vgc.Device) -> None:
    array = dev.to_device(np.arange(4, dtype=np.uint32))
    assert array.view(np.uint16).shape == (8,)
    with pytest.raises(ValueError, match=r"uint32 as >u4; allowed: little-endian types, or \.get\(\)\.view\(\)"):
        array.view(">u4")


@pytest.mark.parametrize("value", [np.array(258, ">i4")[()], np.array(258, "<i4")[()], 258], ids=str)
def test_scalar_is_packed_as_kernels_see_it(value: Any) -> None:
    assert arguments.pack(value, Param(0, 4, ParamKind.INTEGER)) == bytes((2, 1, 0, 0))


def test_parts_of_complex_numbers_stay_in_place() -> None:
    assert arguments.pack(np.array(1 + 2j, ">c8")[()], Param(0, 8, ParamKind.OTHER)) == struct.pack("<2f", 1, 2)


def test_input_of_the_other_order_is_converted() -> None:
    (packed, keep) = arguments.pack_call("f", [Param(0, 8, ParamKind.POINTER)], [In(np.array([258, 3], ">i4"))])
    assert packed[0].size == 8
    assert bytes(ffi.buffer(keep[0])) == struct.pack("<2i", 258, 3)


@pytest.mark.parametrize("wrapper", [InOut, Out])
def test_output_of_the_other_order_is_refused(wrapper: Any) -> None:
    """The device writes it in place."""
    with pytest.raises(TypeError, match=r"argument 0 of f: an array of >i4 for output; kernels write little-endian"):
        arguments.pack_call("f", [Param(0, 8, ParamKind.POINTER)], [wrapper(np.zeros(4, ">i4"))])


def test_array_in_the_region_is_little_endian(dev: vgc.Device) -> None:
    array = dev.region_array(2, ">u4")
    array[:] = 0x01020304
    assert array.tobytes() == bytes((4, 3, 2, 1)) * 2
