"""Images of the CPU engine that are broken are refused with a reason, wherever they are broken: nothing of them is read beyond their end."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from tempfile import TemporaryFile
from typing import Final, TypeAlias

import pytest

from tests.fuzz.image_seeds import THREADS
from tests.unit.cpu_rig import compile_image, rig
from vhost_backend.engines.base import ProgramError
from vhost_backend.errors import EngineError

SOURCE: Final = """
__device__ int count = 3;
extern "C" __global__ void sines(float *a) { a[threadIdx.x] = sinf(a[threadIdx.x]) + count; }
"""
FAR: Final = 1 << 40
LOAD, DYNAMIC = 1, 2
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_JMPREL = 4, 5, 6, 7, 8, 23
SYMBOL_BYTES, RELOCATION_BYTES, SEGMENT_BYTES, DYNAMIC_BYTES = 24, 24, 56, 16
KERNELS, GLOBALS = 16, 24
"""Places of the tables' addresses in struct vgc_cpu_image."""

NAME, SHORT_NAME, SITES, PARAMS, NUM_SITES, NUM_PARAMS = 0, 8, 16, 24, 32, 36
"""Places in struct vgc_cpu_kernel_desc; the first is that in struct vgc_cpu_global_desc, too."""

ADDRESS, SIZE = 8, 16
"""Places in struct vgc_cpu_global_desc."""


class Image:
    """An image whose parts can be changed. Places are those in the file, addresses those from the image's begin on."""

    def __init__(self, contents: bytes) -> None:
        self.bytes = bytearray(contents)

    def get(self, place: int) -> int:
        return int(struct.unpack_from("<Q", self.bytes, place)[0])

    def put(self, place: int, value: int, form: str = "<Q") -> None:
        struct.pack_into(form, self.bytes, place, value)

    def segment(self, kind: int, index: int = 0) -> int:
        """Place of the header of a segment: the index-th of its kind."""
        count = struct.unpack_from("<H", self.bytes, 56)[0]
        places = [64 + number * SEGMENT_BYTES for number in range(count)]
        return [place for place in places if struct.unpack_from("<I", self.bytes, place)[0] == kind][index]

    def place(self, address: int) -> int:
        """Place of what is loaded at an address."""
        for index in range(3):
            _, _, offset, first, _, size = struct.unpack_from("<IIQQQQ", self.bytes, self.segment(LOAD, index))
            if first <= address < first + size:
                return int(offset + address - first)
        raise AssertionError(f"nothing is loaded at {address:#x}")

    def dynamic(self, tag: int) -> int:
        """Place of a value in the dynamic section."""
        place = self.get(self.segment(DYNAMIC) + 8)
        while self.get(place) != tag:
            place += DYNAMIC_BYTES
        return place + 8

    def relocation(self, address: int) -> int:
        """Place of the relocation of an address."""
        place = self.place(self.get(self.dynamic(DT_RELA)))
        while self.get(place) != address:
            place += RELOCATION_BYTES
        return place

    def pointer(self, address: int) -> int:
        """Place of the pointer that is loaded at an address: the value of its relocation."""
        return self.relocation(address) + 16

    def symbol(self, name: bytes) -> int:
        """Place of a symbol."""
        strings = self.place(self.get(self.dynamic(DT_STRTAB)))
        place = self.place(self.get(self.dynamic(DT_SYMTAB)))
        while True:
            text = strings + struct.unpack_from("<I", self.bytes, place)[0]
            if self.bytes[text : text + len(name) + 1] == name + b"\0":
                return place
            place += SYMBOL_BYTES

    @property
    def table(self) -> int:
        """Address of struct vgc_cpu_image."""
        return self.get(self.symbol(b"vgc_cpu_image") + 8)

    def entry(self, table: int) -> int:
        """Address of the first kernel or variable."""
        return self.get(self.pointer(self.table + table))


Change: TypeAlias = Callable[[Image], None]


@cache
def compiled() -> bytes:
    return compile_image(SOURCE)[0]


def put_pointer(table: int, field: int, value: int) -> Change:
    return lambda image: image.put(image.pointer(image.entry(table) + field), value)


def put_number(table: int, field: int, value: int, form: str = "<I") -> Change:
    return lambda image: image.put(image.place(image.entry(table) + field), value, form)


def put_dynamic(tag: int, value: int) -> Change:
    return lambda image: image.put(image.dynamic(tag), value)


def put_in_table(place: int, value: int) -> Change:
    return lambda image: image.put(image.place(image.table + place), value, "<I")


def put_import(field: int, value: int, form: str = "<Q") -> Change:
    return lambda image: image.put(image.place(image.get(image.dynamic(DT_JMPREL))) + field, value, form)


def put_segment(kind: int, index: int, field: int, value: int) -> Change:
    return lambda image: image.put(image.segment(kind, index) + field, value)


def put_symbol_name(value: int) -> Change:
    return lambda image: image.put(image.symbol(b"sinf"), value, "<I")


def without_end_of_dynamic(image: Image) -> None:
    place, size = (image.get(image.segment(DYNAMIC) + field) for field in (8, 32))
    for at in range(place, place + size, DYNAMIC_BYTES):
        if image.get(at) == 0:
            image.put(at, 1 << 60)
    image.put(image.dynamic(DT_HASH), 0)


NO_SYMBOLS: Final = "has no symbols"
SYMBOLS: Final = "has symbols outside of it"
TABLE: Final = "was made by another version of the compiler"
POINTS_OUT: Final = "has a table that points out of it"
NOT_WRITABLE: Final = "has a relocation outside of what is writable"
RELOCATIONS: Final = "has a relocation table outside of it"

BROKEN: Final[dict[str, tuple[Change, str]]] = {
    "dynamic section is not aligned": (put_segment(DYNAMIC, 0, 8, 0x2001), "has a segment outside of it"),
    "dynamic section does not end": (without_end_of_dynamic, NO_SYMBOLS),
    "segments in one page": (put_segment(LOAD, 1, 16, 0x10), "has segments that overlap"),
    "segments in another order": (put_segment(LOAD, 0, 16, 0x100000), "has segments that overlap"),
    "too many segments": (lambda image: image.put(56, 65, "<H"), "is not an x86-64 shared object"),
    "hash table far away": (put_dynamic(DT_HASH, FAR), NO_SYMBOLS),
    "hash table is not aligned": (lambda image: image.put(image.dynamic(DT_HASH), 0x1C1), NO_SYMBOLS),
    "symbols far away": (put_dynamic(DT_SYMTAB, FAR), SYMBOLS),
    "symbols are not aligned": (put_dynamic(DT_SYMTAB, 0x191), SYMBOLS),
    "too many symbols": (
        lambda image: image.put(image.place(image.get(image.dynamic(DT_HASH))) + 4, 0xFFFFFFFF, "<I"),
        SYMBOLS,
    ),
    "names far away": (put_dynamic(DT_STRTAB, FAR), SYMBOLS),
    "name far away": (put_symbol_name(0xFFFFFFFF), "has a name that does not end"),
    "relocations far away": (put_dynamic(DT_RELA, FAR), RELOCATIONS),
    "relocations are not aligned": (put_dynamic(DT_RELA, 0x191), RELOCATIONS),
    "relocations without end": (put_dynamic(DT_RELASZ, FAR), RELOCATIONS),
    "relocation before the begin": (put_import(0, (1 << 64) - 8), NOT_WRITABLE),
    "relocation far away": (put_import(0, FAR), NOT_WRITABLE),
    "relocation of code": (put_import(0, 0x1000), NOT_WRITABLE),
    "relocation of a symbol that is not there": (put_import(12, 0x7FFFFFFF, "<I"), "has a relocation without a symbol"),
    "table far away": (lambda image: image.put(image.symbol(b"vgc_cpu_image") + 8, FAR), TABLE),
    "table is not aligned": (
        lambda image: image.put(image.symbol(b"vgc_cpu_image") + 8, image.table + 4),
        TABLE,
    ),
    "kernels far away": (lambda image: image.put(image.pointer(image.table + KERNELS), FAR), POINTS_OUT),
    "kernels are not aligned": (
        lambda image: image.put(image.pointer(image.table + KERNELS), image.entry(KERNELS) + 4),
        POINTS_OUT,
    ),
    "kernels without end": (put_in_table(8, 0xFFFFFFFF), POINTS_OUT),
    "variables far away": (lambda image: image.put(image.pointer(image.table + GLOBALS), FAR), POINTS_OUT),
    "variables without end": (put_in_table(12, 0xFFFFFFFF), POINTS_OUT),
    "kernel's name far away": (put_pointer(KERNELS, NAME, FAR), POINTS_OUT),
    "kernel's short name far away": (put_pointer(KERNELS, SHORT_NAME, FAR), POINTS_OUT),
    "kernel's parameters far away": (put_pointer(KERNELS, PARAMS, FAR), POINTS_OUT),
    "kernel's parameters without end": (put_number(KERNELS, NUM_PARAMS, 0xFFFFFFFF), POINTS_OUT),
    "kernel's sites far away": (put_pointer(KERNELS, SITES, FAR), POINTS_OUT),
    "kernel's sites without end": (put_number(KERNELS, NUM_SITES, 0xFFFFFFFF), POINTS_OUT),
    "kernel without code": (put_number(KERNELS, NUM_SITES, 0), POINTS_OUT),
    "variable's name far away": (put_pointer(GLOBALS, NAME, FAR), POINTS_OUT),
    "variable far away": (put_pointer(GLOBALS, ADDRESS, FAR), POINTS_OUT),
    "variable without end": (put_number(GLOBALS, SIZE, FAR, "<Q"), POINTS_OUT),
}


@pytest.mark.parametrize(("change", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_image_is_refused(change: Change, reason: str) -> None:
    image = Image(compiled())
    change(image)
    with rig(pes=1) as gpu, pytest.raises(ProgramError, match=f"the image {reason}"):
        gpu.load_image(bytes(image.bytes))


def test_an_image_with_a_thread_local_variable_of_its_own_is_refused() -> None:
    contents = bytearray(compile_image(THREADS)[0])
    place = contents.index(b"vgc_cpu_current")
    contents[place : place + 3] = b"own"
    with (
        rig(pes=1) as gpu,
        pytest.raises(ProgramError, match="the image has the thread-local variable own_cpu_current"),
    ):
        gpu.load_image(bytes(contents))


def test_firmware_whose_table_is_not_aligned_is_refused() -> None:
    image = Image(compile_image("__device__ unsigned long long vgc_ctl_modules[12];")[0])
    place = image.pointer(image.entry(GLOBALS) + ADDRESS)
    image.put(place, image.get(place) + 4)
    with rig(pes=1) as gpu, TemporaryFile() as file:
        file.write(image.bytes)
        file.flush()
        with pytest.raises(EngineError, match="its table is not aligned"):
            gpu.engine.load_firmware(file.fileno(), len(image.bytes), 0, 1)


def test_an_image_whose_name_is_not_printable_is_refused_with_a_name_that_is() -> None:
    image = Image(compiled())
    strings = image.place(image.get(image.dynamic(DT_STRTAB)))
    place = strings + struct.unpack_from("<I", image.bytes, image.symbol(b"sinf"))[0]
    image.bytes[place : place + 4] = b"\x1b[1m"
    with rig(pes=1) as gpu, pytest.raises(ProgramError, match=r"the image imports \?\[1m"):
        gpu.load_image(bytes(image.bytes))
