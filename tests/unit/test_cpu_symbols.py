"""Names of code in images of the CPU engine, which perf shows: what the compiler leaves, what broken tables do."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests.unit.cpu_rig import compile_image
from vhost_backend._dataplane import lib
from vhost_backend.engines.base import CodeRange
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.protocol import MAX_CODE_NAME, MAX_CODE_RANGES, CodeNames
from vhost_backend.worker_protocol.protocol import CodeRange as Named

SYMBOLS = {"symbols": "on"}
FEATURES = Path(__file__).with_name("cpu_features.cu").read_text()
SOURCE = """
template <typename T> __device__ __noinline__ T deep(T n) { return n < 2 ? n : deep(n - 1) + deep(n - 2); }
namespace a { template <typename T> __global__ void sum(T *p) {
    __shared__ T s[64];
    s[threadIdx.x] = deep(p[threadIdx.x]);
    __syncthreads();
    p[threadIdx.x] = s[63 - threadIdx.x];
} }
template __global__ void a::sum<int>(int *);
"""


def names_of(image: bytes, *, names_code: bool = True) -> tuple[CodeRange, ...]:
    engine = CpuEngine(1, names_code=names_code)
    try:
        with TemporaryFile() as file:
            file.write(image)
            file.flush()
            program = engine.load_program(file.fileno(), len(image), 1)
        found = engine.code_of(program, MAX_CODE_RANGES)
        engine.unload_program(program)
        return found
    finally:
        engine.close()


def table(image: bytes) -> tuple[int, int]:
    """Place and size of the symbol table."""
    at, count = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<H", image, 60)[0]
    for index in range(count):
        _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", image, at + 64 * index)
        if kind == 2:
            return offset, size
    raise AssertionError("the image has no symbols")


def test_functions_and_regions_have_the_names_of_the_source() -> None:
    names = [code.name for code in names_of(compile_image(SOURCE, (), SYMBOLS)[0])]
    assert names.count("int deep<int>(int)") == 1
    assert sorted(name for name in names if "sum" in name) == [
        f"void a::sum<int>(int*) [region {region}]" for region in range(2)
    ]


def test_code_lies_one_function_behind_the_other() -> None:
    code = sorted(names_of(compile_image(FEATURES, (), SYMBOLS)[0]), key=lambda one: one.address)
    assert len(code) > 20
    assert all(one.size > 0 for one in code)
    assert all(one.address + one.size <= other.address for one, other in itertools.pairwise(code))


def test_images_have_names_only_if_the_operator_wants_them() -> None:
    plain, named = compile_image(SOURCE)[0], compile_image(SOURCE, (), SYMBOLS)[0]
    assert names_of(plain) == ()
    assert names_of(named, names_code=False) == ()
    assert b"deep" not in plain


@pytest.mark.parametrize("name", ["x" * 5000, "a\\nb 1 2\\tc", "größe", " "])
def test_any_name_is_one_that_the_daemon_takes(name: str) -> None:
    source = (
        f'extern "C" __global__ void k(int *a) __asm__("{name}");\nextern "C" __global__ void k(int *a) {{ *a = 1; }}\n'
    )
    code = names_of(compile_image(source, (), SYMBOLS)[0])
    assert code
    for one in code:
        assert one.name.isprintable()
        assert one.name.isascii()
        assert len(one.name) <= MAX_CODE_NAME


def test_names_of_the_largest_program_fit_into_a_packet() -> None:
    code = tuple(Named((1 << 63) + index, 1 << 40, "x" * MAX_CODE_NAME) for index in range(MAX_CODE_RANGES))
    assert len(codec.encode(CodeNames((1 << 32) - 1, code))) <= CodeNames.MAX_BYTES


def test_names_of_engine_and_messages_are_of_one_length() -> None:
    assert lib.VGC_CPU_FUNCTION_NAME == MAX_CODE_NAME + 1


def test_broken_tables_do_no_harm() -> None:
    image = compile_image(SOURCE, (), SYMBOLS)[0]
    offset, size = table(image)
    chance = random.Random(1)
    for _ in range(150):
        broken = bytearray(image)
        for _ in range(8):
            broken[offset + chance.randrange(size)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        for code in names_of(bytes(broken)):
            assert code.name.isprintable()
            assert code.size > 0


@pytest.mark.parametrize(("field", "value"), [(24, 1 << 63), (32, (1 << 64) - 8), (40, 0xFFFF), (24, 4)])
def test_tables_outside_of_the_image_name_nothing(field: int, value: int) -> None:
    """`field`: offset of sh_offset, sh_size or sh_link in the section's header."""
    image = bytearray(compile_image(SOURCE, (), SYMBOLS)[0])
    at, count = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<H", image, 60)[0]
    (header,) = (
        at + 64 * index for index in range(count) if struct.unpack_from("<I", image, at + 64 * index + 4)[0] == 2
    )
    struct.pack_into("<I" if field == 40 else "<Q", image, header + field, value)
    assert names_of(bytes(image)) == ()
