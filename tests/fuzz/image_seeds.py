"""Images of the CPU engine for the fuzzer to start from: ``python -m tests.fuzz.image_seeds FOLDER``.

They are what the compiler makes of some sources, as they are and packed: the same tables with a few bytes of the code, and without the
space between segments, as a fuzzer tries more of small inputs.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.unit.cpu_rig import compile_image
from vhost_backend.control.firmware import build

PROGRAM, PROGRAM_AT, FIRMWARE = (bytes([how, *bytes(7)]) for how in range(3))
"""How an image is loaded, and what its code has written: the first bytes of an input."""

PACKED_CODE_BYTES: Final = 16
EMPTY: Final = 'extern "C" __global__ void f() {}'
CLUSTERS: Final = 'extern "C" __global__ void __cluster_dims__(2, 2, 1) f(int *p) { *p = 1; }'
THREADS: Final = """
__device__ __noinline__ int own(int n) { return n < 2 ? threadIdx.x : own(n - 1) + own(n - 2); }
extern "C" __global__ void owns(int *p, int n) { p[threadIdx.x] = own(n); }
"""
"""It imports the thread-local variable of the runtime."""

SOURCE: Final = """
__device__ int counts[4] = {1, 2, 3, 4};
__constant__ float scale = 2;
__device__ int *place = counts;
template <typename T> __device__ __noinline__ T deep(T n) { return n < 2 ? n : deep(n - 1) + deep(n - 2); }
extern "C" __global__ void sums(float *a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = scale * sinf(s[63 - threadIdx.x]) + deep(n) + *place;
    if (n == 3)
        printf("%d\\n", n);
}
"""

_LOAD, _DYNAMIC, _EXECUTABLE, _ALLOCATED = 1, 2, 1, 2
_SECTIONS_AT: Final = 40
"""Place of the sections' offset in the header."""
_TABLES: Final = struct.Struct("<32xQQ8xH2xH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")


@dataclass(slots=True)
class _Packer:
    """Copies an image's contents, and knows where each has gone."""

    image: bytes
    packed: bytearray
    places: list[tuple[int, int, int]]
    """Address, size in the file and new offset of each segment."""

    def add(self, offset: int, size: int) -> int:
        """Appends a part of the image; returns its new offset."""
        place = len(self.packed)
        self.packed += self.image[offset : offset + size] + bytes(-size % 8)
        return place

    def offset_of(self, address: int) -> int:
        """New offset of what is loaded at an address; that of the file's begin if it is not in the file."""
        found = [place + address - first for first, size, place in self.places if first <= address < first + size]
        return found[0] if found else 0


def packed(image: bytes) -> bytes:
    """An image with the same tables, a few bytes of its code, and no space between segments."""
    segments_at, sections_at, num_segments, num_sections = _TABLES.unpack_from(image)
    packer = _Packer(image, bytearray(), [])
    segments = [list(_SEGMENT.unpack_from(image, segments_at + i * _SEGMENT.size)) for i in range(num_segments)]
    for segment in (each for each in segments if each[0] == _LOAD):
        if segment[1] & _EXECUTABLE:
            segment[5] = min(segment[5], PACKED_CODE_BYTES)
        segment[2] = packer.add(segment[2], segment[5])
        packer.places.append((segment[3], segment[5], segment[2]))
    for number, segment in enumerate(segments):
        if segment[0] == _DYNAMIC:
            segment[2] = packer.offset_of(segment[3])
        _SEGMENT.pack_into(packer.packed, segments_at + number * _SEGMENT.size, *segment)
    sections = [list(_SECTION.unpack_from(image, sections_at + i * _SECTION.size)) for i in range(num_sections)]
    for section in sections[1:]:
        is_loaded = section[2] & _ALLOCATED
        section[4] = packer.offset_of(section[3]) if is_loaded else packer.add(section[4], section[5])
    struct.pack_into("<Q", packer.packed, _SECTIONS_AT, len(packer.packed))
    return bytes(packer.packed) + b"".join(_SECTION.pack(*section) for section in sections)


def images() -> Iterator[tuple[str, bytes, bytes]]:
    """Names, how they are loaded, and images."""
    named = {"symbols": "on"}
    yield "empty", PROGRAM, compile_image(EMPTY)[0]
    yield "clusters", PROGRAM, compile_image(CLUSTERS)[0]
    yield "threads", PROGRAM, compile_image(THREADS)[0]
    yield "sums", PROGRAM, compile_image(SOURCE, ("-lineinfo",), named)[0]
    yield "sums-at", PROGRAM_AT, compile_image(SOURCE, ("-lineinfo",), named)[0]
    yield "checked", PROGRAM, compile_image(SOURCE, ("--memcheck", "--initcheck", "--leak-check"))[0]
    yield "firmware", FIRMWARE, compile_image(build.amalgamate())[0]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.image_seeds", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, how, image in images():
        (folder / name).write_bytes(how + image)
        (folder / f"{name}-packed").write_bytes(how + packed(image))


if __name__ == "__main__":
    main()
