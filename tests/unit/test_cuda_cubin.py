"""Cubins of every architecture are read correctly; damaged ones are refused."""

from __future__ import annotations

import ctypes
import random
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import cuda_cubin
from tests.unit.cuda_images import ARCHITECTURES, compiled
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.cubin import Cubin, CubinError, Variable
from vhost_backend.engines.cuda.names import short_name

SOURCE = r"""
    struct Odd { char c[70]; double d; };
    struct Large { char c[20000]; };
    struct alignas(64) Aligned { char c[64]; };
    __device__ int counter;
    __device__ float table[16] = {1, 2, 3};
    __constant__ double factors[8];
    extern "C" __global__ void none() { counter++; }
    extern "C" __global__ void mixed(char a, double b, Odd c, int *d) { *d = a + b + c.c[3] + table[*d] + factors[*d]; }
    extern "C" __global__ void wide(Large a, short b, Large *c) { c->c[b] = a.c[b]; }
    extern "C" __global__ void aligned(char a, Aligned b) { counter = b.c[a]; }
    extern "C" __global__ void unused(float a, long b) {}
"""
LAYOUTS = {
    "none": ((), 0),
    "mixed": (((0, 1), (8, 8), (16, 80), (96, 8)), 104),
    "wide": (((0, 20000), (20000, 2), (20008, 8)), 20016),
    "unused": (((0, 4), (8, 8)), 16),
}
TYPES: dict[str, Any] = {
    "char": ctypes.c_char,
    "short": ctypes.c_short,
    "int": ctypes.c_int,
    "double": ctypes.c_double,
    "void *": ctypes.c_void_p,
    "Three": ctypes.c_char * 3,
}


def read(image: bytes) -> dict[str, cubin.Kernel]:
    return {short_name(kernel.name): kernel for kernel in cubin.parse(image).kernels}


@pytest.fixture(scope="module")
def image() -> bytes:
    return compiled(SOURCE)


# ---- cubins of compilers -----------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_architecture_and_kernels_are_found(arch: str) -> None:
    parsed = cubin.parse(compiled(SOURCE, arch))
    assert parsed.arch == arch
    found = {kernel.name: (kernel.params, kernel.param_bytes) for kernel in parsed.kernels}
    assert found.keys() == {*LAYOUTS, "aligned"}
    assert {name: found[name] for name in LAYOUTS} == LAYOUTS
    assert [size for _, size in found["aligned"][0]] == [1, 64]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_variables_of_the_source_are_found(arch: str) -> None:
    source = SOURCE + 'extern "C" __global__ void speaks() { printf("a string of the compiler\'s"); }'
    expected = {Variable("counter", 4), Variable("table", 64), Variable("factors", 64)}
    assert set(cubin.parse(compiled(source, arch)).variables) == expected


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    ("body", "prints", "mallocs"),
    [
        ("*p = 1;", False, False),
        ('printf("%d", *p);', True, False),
        ("free(p);", False, True),
        ("*p = (long)malloc(8);", False, True),
        ("*p = (long)new int[*p];", False, True),
    ],
)
def test_use_of_the_drivers_services_is_detected(arch: str, body: str, prints: bool, mallocs: bool) -> None:
    parsed = cubin.parse(compiled(f"__global__ void kernel(long *p) {{ {body} }}", arch))
    assert (parsed.prints, parsed.mallocs) == (prints, mallocs)


def test_parameters_lie_as_c_lays_them_out() -> None:
    """The expected layout is computed by ctypes."""
    rng = random.Random(1)
    signatures = [rng.choices(list(TYPES), k=rng.randrange(1, 12)) for _ in range(40)]
    source = "struct Three { char c[3]; };\n"
    for number, types in enumerate(signatures):
        params = ", ".join(f"{kind} p{index}" for index, kind in enumerate(types))
        source += f'extern "C" __global__ void kernel{number}({params}) {{}}\n'
    kernels = read(compiled(source))
    for number, types in enumerate(signatures):
        fields = [(f"p{index}", TYPES[kind]) for index, kind in enumerate(types)]
        layout = type("Layout", (ctypes.Structure,), {"_fields_": fields})
        expected = tuple((getattr(layout, name).offset, getattr(layout, name).size) for name, _ in fields)
        assert kernels[f"kernel{number}"].params == expected
        assert kernels[f"kernel{number}"].param_bytes == sum(expected[-1])


def test_device_functions_do_not_count_as_kernels() -> None:
    source = """
        extern "C" __device__ __noinline__ int helper(int x) { return x * clock(); }
        __global__ void kernel(int *p) { *p = helper(*p); }
    """
    assert list(read(compiled(source))) == ["kernel"]


def test_size_of_large_variables_is_counted() -> None:
    source = "__device__ char space[{}]; __global__ void kernel(int i) {{ space[i] = 1; }}"
    small, large = (cubin.parse(compiled(source.format(size))).loaded_bytes for size in (16, 1 << 30))
    assert large - small == (1 << 30) - 16


def test_shared_memory_does_not_count_as_loaded() -> None:
    source = "__global__ void kernel(int *p) {{ __shared__ int s[{}]; s[*p] = 1; __syncthreads(); *p = s[p[1]]; }}"
    small, large = (cubin.parse(compiled(source.format(size))).loaded_bytes for size in (512, 8192))
    assert small == large


def test_the_older_header_is_read(image: bytes) -> None:
    """It has the architecture in the lowest byte of the flags (ptxas 12.4 writes 0x5a055a for sm_90)."""
    older = bytearray(image)
    older[7:9] = b"\x33\x07"
    struct.pack_into("<I", older, 48, 0x5A055A)
    assert cubin.parse(bytes(older)) == cubin.parse(image)


def test_nvcc_and_nvrtc_agree(image: bytes, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        pytest.skip("there is no nvcc in /usr/local/cuda")
    source = tmp_path / "source.cu"
    source.write_text(SOURCE)
    subprocess.run([nvcc, "-cubin", "-arch=sm_90", "-o", tmp_path / "image", source], check=True, capture_output=True)
    theirs, ours = cubin.parse((tmp_path / "image").read_bytes()), cubin.parse(image)
    assert set(theirs.kernels) == set(ours.kernels)
    assert set(theirs.variables) == set(ours.variables)


@pytest.mark.parametrize(
    ("made_for", "runs", "refuses"),
    [(80, {"sm_80", "sm_86", "sm_89"}, {"sm_75", "sm_90"}), (120, {"sm_120", "sm_121"}, {"sm_100", "sm_90"})],
)
def test_code_runs_on_later_gpus_of_its_generation(made_for: int, runs: set[str], refuses: set[str]) -> None:
    parsed = Cubin(made_for, (), (), prints=False, mallocs=False, loaded_bytes=0)
    assert all(parsed.runs_on(arch) for arch in runs)
    assert not any(parsed.runs_on(arch) for arch in refuses)


# ---- damaged cubins ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({0: b"MZ"}, "no 64-bit ELF header"),
        ({18: b"\x3e\x00"}, "its machine is 62"),
        ({7: b"\x41\x09"}, "ABI 0x41 version 9"),
        ({40: b"\xff" * 8}, "the section headers"),
        ({58: b"\x20\x00"}, "section headers have 32 bytes"),
        ({62: b"\xff\xff"}, "section names are in section 65535"),
    ],
)
def test_damaged_headers_are_refused(image: bytes, change: dict[int, bytes], text: str) -> None:
    damaged = bytearray(image)
    for at, value in change.items():
        damaged[at : at + len(value)] = value
    with pytest.raises(CubinError, match=text):
        cubin.parse(bytes(damaged))


def test_a_file_cut_short_is_refused(image: bytes) -> None:
    (table,) = struct.unpack_from("<Q", image, 40)
    (count,) = struct.unpack_from("<H", image, 60)
    for size in range(0, table + count * 64, 97):
        with pytest.raises(CubinError):
            cubin.parse(image[:size])


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
def test_any_damage_ends_in_a_cubin_or_an_error(arch: str) -> None:
    """Parameters of an accepted cubin lie within its parameter bytes."""
    whole = compiled(SOURCE, arch)
    rng = random.Random(2)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        try:
            parsed = cubin.parse(bytes(damaged))
        except CubinError:
            refused += 1
        else:
            for kernel in parsed.kernels:
                assert all(at + size <= kernel.param_bytes for at, size in kernel.params)
    assert 0 < refused < 1500


def info_entry(image: bytes, attribute: int) -> int:
    """Offset of the first parameter attribute of that kind."""
    return image.index(bytes((4, attribute, 12, 0)))


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        (2, b"\xff\xff", "attribute 0x17 is longer than the rest of the section"),
        (2, b"\x08\x00", "described in 8 bytes, not 12"),
        (8, b"\x63\x00", "not numbered consecutively"),
        (10, b"\xff\xff", "outside of"),
    ],
)
def test_damaged_parameters_are_refused(image: bytes, at: int, value: bytes, text: str) -> None:
    damaged = bytearray(image)
    start = info_entry(image, 0x17) + at
    damaged[start : start + len(value)] = value
    with pytest.raises(CubinError, match=text):
        cubin.parse(bytes(damaged))


def test_a_kernel_without_its_section_is_refused(image: bytes) -> None:
    with pytest.raises(CubinError, match="kernel mixed has no section"):
        cubin.parse(image.replace(b".nv.info.mixed", b".nv.info.maxed"))


# ---- cubins that would be expensive ------------------------------------------------------------------


def forged(*sections: tuple[str, bytes], symbols: Iterable[tuple[int, int, int]] = (), names: bytes = b"\0") -> bytes:
    """A cubin with these sections of attributes, and symbols (name's offset, other, section)."""
    elf = cuda_cubin.Elf()
    for name, data in sections:
        elf.add(name, 0x70000000, data)
    table = b"".join(struct.pack("<IBBHQQ", name, 0x12, other, section, 0, 4) for name, other, section in symbols)
    strings = elf.add(".strtab", 3, names)
    elf.add(".symtab", 2, table, link=strings, info=1)
    return elf.image(0x6005A04)


def test_overlapping_names_do_not_fill_memory() -> None:
    names = bytes(1) + b"n" * 16000 + bytes(1)
    image = forged(symbols=((1 + at % 8000, 0, 0) for at in range(10000)), names=names)
    with pytest.raises(CubinError, match="names together are longer than 2 times the file"):
        cubin.parse(image)


def test_too_many_symbols_are_refused() -> None:
    with pytest.raises(CubinError, match="more than 131072 functions and variables"):
        cubin.parse(forged(symbols=((0, 0, 0) for _ in range(200000))))


def test_a_duplicate_kernel_is_refused() -> None:
    with pytest.raises(CubinError, match="of its own"):
        cubin.parse(forged((".nv.info.k", b""), symbols=[(1, 0x10, 1)] * 2, names=b"\0k\0"))


def test_attributes_that_several_kernels_share_are_refused() -> None:
    """Many sections share one place in the file, and each would be parsed in full."""
    count = 20
    names = "".join(f"\0{chr(97 + i)}" for i in range(count)).encode() + b"\0"
    sections = [(f".nv.info.{chr(97 + i)}", b"\3\x19\0\0" * 200) for i in range(count)]
    image = bytearray(forged(*sections, symbols=[(1 + 2 * i, 0x10, 1) for i in range(count)], names=names))
    table = struct.unpack_from("<Q", image, 40)[0]
    for index in range(1, count + 1):
        struct.pack_into("<QQ", image, table + 64 * index + 24, 64, len(image) // 2 & ~3)
    with pytest.raises(CubinError, match="attributes"):
        cubin.parse(bytes(image))


def test_parameters_of_no_size_are_refused() -> None:
    info = struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 0, 0, 0)
    with pytest.raises(CubinError, match="parameter 0 is at 0 with 0 bytes"):
        cubin.parse(forged((".nv.info.k", info), symbols=[(1, 0x10, 1)], names=b"\0k\0"))


def test_variables_larger_than_any_memory_are_refused() -> None:
    image = cuda_cubin.cubin([], [cuda_cubin.Global("vast", 1 << 63)])
    with pytest.raises(CubinError, match="bytes of memory; allowed: 281474976710656"):
        cubin.parse(image)


# ---- names -------------------------------------------------------------------------------------------


def test_kernels_have_the_names_of_the_source() -> None:
    source = """
        namespace outer { inline namespace v2 {
            __global__ void step(int *p) { *p = 1; }
            template <class T, int N> __global__ void generic(T *p, void (*)(T)) { *p = N; }
            template __global__ void generic<long, -3>(long *, void (*)(long));
        } }
        template <template <class> class C, class... Ts> __global__ void nested(C<int> *p, Ts... ts) {}
        template <class T> struct Box { T t; };
        template __global__ void nested<Box, char, Box<Box<float>>>(Box<int> *, char, Box<Box<float>>);
        __global__ void plain2(int *p) {}
        extern "C" __global__ void _Zero() {}
        __global__ void E123() {}
    """
    assert set(read(compiled(source))) == {"step", "generic", "nested", "plain2", "_Zero", "E123"}


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("saxpy", "saxpy"),
        ("_Z5twicePi", "twice"),
        ("_ZL5twicePi", "twice"),
        ("_Z4tmplIfLi4EEvPT_S0_", "tmpl"),
        ("_ZN2ns33_GLOBAL__N__41b3f748_4_k_cu_table5innerEPi", "inner"),
        ("_ZN12_GLOBAL__N_1L5innerEPi", "inner"),
        ("_ZN6solver2v24stepEi", "step"),
        ("_ZN4lib3B3abi4kernB3tagEv", "kern"),
        ("_ZSt4kernv", "kern"),
        ("_ZNSt3__14kernEv", "kern"),
        ("_Z", "_Z"),
        ("_ZN", "_ZN"),
        ("_Z99short", "_Z99short"),
        ("_ZZ3foovE3bar", "_ZZ3foovE3bar"),
        ("", ""),
    ],
)
def test_short_names_are_unqualified(mangled: str, name: str) -> None:
    assert short_name(mangled) == name


def test_short_names_agree_with_cppfilt() -> None:
    """For names of namespaces and of functions with arguments."""
    if shutil.which("c++filt") is None:
        pytest.skip("c++filt is not installed")
    rng = random.Random(3)
    names = []
    for _ in range(300):
        parts = ["".join(rng.choices("abEIL_N7Z", k=rng.randrange(1, 12))).lstrip("7") or "x" for _ in range(4)]
        encoded = "".join(f"{len(part)}{part}" for part in parts[: rng.randrange(1, 5)])
        nested = encoded != f"{len(parts[0])}{parts[0]}"
        names.append(f"_ZN{encoded}E" if nested else f"_Z{encoded}")
    said = subprocess.run(["c++filt", "-p"], input="\n".join(names), text=True, capture_output=True, check=True)
    assert [short_name(name) for name in names] == [line.rpartition("::")[2] for line in said.stdout.splitlines()]
