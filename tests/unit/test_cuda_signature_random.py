"""Kinds of parameters from names of kernels: names that compilers make of random signatures, and nonsense."""

from __future__ import annotations

import functools
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cuda_images import compiled
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.signature import kinds_in_name, param_kinds
from virtio_proto.schema import ParamKind

INTEGER, FLOAT, POINTER, OTHER, UNKNOWN = (
    ParamKind.INTEGER,
    ParamKind.FLOAT,
    ParamKind.POINTER,
    ParamKind.OTHER,
    ParamKind.UNKNOWN,
)

# ---- given names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("_Z1kv", ()),
        ("_Z5saxpyifPKfPf", (INTEGER, FLOAT, POINTER, POINTER)),
        ("_ZL5twicePdd", (POINTER, FLOAT)),
        ("_ZN6solver2v24stepEi", (INTEGER,)),
        ("_ZN12_GLOBAL__N_14stepEb", (INTEGER,)),
        ("_Z5scaleIfLi3EEvPT_S0_f", (POINTER, FLOAT, FLOAT)),
        ("_Z1kIJifPcEEvDpT_", (INTEGER, FLOAT, POINTER)),
        ("_Z1kIJifEEvPT_DpPKT_", None),
        ("_Z1k6__halfDF16_Dh", (FLOAT, FLOAT, FLOAT)),
        ("_Z1k13__nv_bfloat16DF16b6float44dim3", (OTHER, OTHER, OTHER, OTHER)),
        ("_Z1k4ModeSs3BoxIiE", (UNKNOWN, OTHER, OTHER)),
        ("_Z1kRK3BoxIiEM1AiPFviEDv4_f", (POINTER, OTHER, POINTER, OTHER)),
        ("_Z1kPi.kernel", (POINTER,)),
        ("_Z1kB5cxx11i", (INTEGER,)),
        ("saxpy", None),
        ("", None),
        ("_Z", None),
        ("_Z1k", None),
        ("_Z2k", None),
        ("_Z1kz", None),
        ("_Z1kS_", None),
        ("_Z1kT_", None),
        ("_Z1ku6__bf16", None),
        ("_Z1kZ1fvEUlvE_", None),
        ("_Z1kIXadL_Z1fvEEEvv", None),
        ("_Z" + "9" * 5000 + "k", None),
        ("_Z1k" + "P" * 10_000 + "i", None),
        ("_Z1k" + "i" * 4000, (INTEGER,) * 4000),
        ("_Z1k" + "i" * 5000, None),
        ("_Z1k" + "P" * 4000 + "i", None),
        ("_Z1kI" + "i" * 11 + "PffEvT10_T9_T11_", (POINTER, INTEGER, FLOAT)),
    ],
)
def test_kinds_of_parameters_are_read_from_names(name: str, kinds: tuple[ParamKind, ...] | None) -> None:
    assert kinds_in_name(name) == kinds


def test_named_type_too_large_for_an_enumeration_is_no_number() -> None:
    assert param_kinds("_Z1k4Mode5PlainNS_5OtherE", (4, 16, 12)) == (UNKNOWN, OTHER, OTHER)


# ---- names that compilers make ---------------------------------------------------------------

PRELUDE: Final = """
template <class T> using Ptr = T *;
template <class T> using Const = const T;
template <class T> using Volatile = volatile T;
template <class T> using Array = T[4];
template <class R, class... A> using Function = R(A...);
template <class C, class T> using Member = T C::*;
struct Plain { int x; };
enum Mode { OFF, ON };
template <class T> struct Box { int x; enum Inner { A }; struct Deep { int x; }; };
template <int N, class... T> struct Row { int x; };
template <template <class> class H> struct Held { int x; };
namespace outer {
enum class Level : unsigned char { LOW };
struct Flat { int x; };
namespace inner { struct Other { int x; }; template <class T> struct Cell { T *x; template <class U> struct Part { int x; }; }; }
}
"""
GPU_PRELUDE: Final = "struct __half { unsigned short x; };\n" + PRELUDE
HOST_PRELUDE: Final = "struct float4 { float x, y, z, w; };\n#define __global__\n" + GPU_PRELUDE

LEAVES: Final = (
    [(text, INTEGER) for text in ("bool", "char", "signed char", "unsigned short", "int", "unsigned", "long long")]
    + [("unsigned long", INTEGER), ("float", FLOAT), ("double", FLOAT), ("__half", FLOAT), ("float4", OTHER)]
    + [(text, UNKNOWN) for text in ("Plain", "Mode", "outer::Flat", "outer::Level", "outer::inner::Other")]
    + [("Box<int>::Inner", UNKNOWN), ("outer::inner::Cell<char>::Part<Mode>", OTHER), ("Held<Box>", OTHER)]
    + [("Held<outer::inner::Cell>", OTHER), ("Box<float>::Deep", UNKNOWN)]
)


@dataclass(frozen=True)
class Kernel:
    """A kernel: its name in the source, its definition, and the kinds of its parameters."""

    name: str
    source: str
    kinds: tuple[ParamKind, ...]


class Signatures:
    """Random kernels. Aliases of the prelude do not appear in mangled names, which have the aliased types."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def type(self, depth: int = 3, names: tuple[tuple[str, ParamKind], ...] = ()) -> tuple[str, ParamKind]:
        """A type that parameters may have; `names` are the template's parameters."""
        pick = self._random
        if names and pick.random() < 0.4:
            return pick.choice(names)
        if depth == 0 or pick.random() < 0.3:
            return pick.choice(LEAVES)
        inner, kind = self.type(depth - 1, names)
        other, _ = self.type(depth - 1, names)
        return pick.choice(
            [
                (f"Ptr<{inner}>", POINTER),
                (f"Ptr<Const<{inner}>>", POINTER),
                (f"Ptr<Ptr<Volatile<Const<{inner}>>>>", POINTER),
                (f"Ptr<Array<{inner}>>", POINTER),
                (f"Ptr<Function<void, {inner}, {other}>>", POINTER),
                (f"Const<{inner}>", kind),
                (f"Box<{inner}>", OTHER),
                (f"outer::inner::Cell<{inner}>", OTHER),
                (f"Row<{pick.randint(-3, 40)}, {inner}, {other}>", OTHER),
                (f"Member<Plain, {inner}>", OTHER),
            ]
        )

    def plain(self, name: str) -> Kernel:
        types = [self.type() for _ in range(self._random.randint(0, 6))]
        where = self._random.choice(
            ["{}", "namespace outer {{ {} }}", "namespace outer {{ namespace inner {{ {} }} }}"]
        )
        definition = f"__global__ void {name}({', '.join(text for text, _ in types)}) {{}}"
        return Kernel(name, where.format(definition), tuple(kind for _, kind in types))

    def template(self, name: str) -> Kernel:
        """A template with type parameters A, B, a number and a pack, of which the kernel takes values or pointers."""
        given_a, given_b = self.type(2), self.type(2)
        pack = [self.type(1) for _ in range(self._random.randint(0, 3))]
        pack = [made for made in pack if not made[0].startswith("Const<")]  # g++ finds no template for these
        names = (("A", given_a[1]), ("B", given_b[1]), ("Row<N, A, A>", OTHER))
        types = [self.type(2, names) for _ in range(self._random.randint(1, 5))]
        by_pointer = self._random.random() < 0.5
        member = "Ptr<{}>" if by_pointer else "{}"
        texts = [text for text, _ in types]
        head = f"template <class A, int N, class B, bool F, class... P> __global__ void {name}"
        definition = f"{head}({', '.join([*texts, member.format('P') + '... rest'])}) {{}}"
        number = str(self._random.randint(-9, 99))
        stand_for = {"A": given_a[0], "B": given_b[0], "N": number}
        made = [re.sub(r"\b[ABN]\b", lambda found: stand_for[found[0]], text) for text in texts]
        made += [member.format(text) for text, _ in pack]
        arguments = ", ".join([given_a[0], number, given_b[0], "true", *(t for t, _ in pack)])
        kinds = [kind for _, kind in types] + [POINTER if by_pointer else kind for _, kind in pack]
        return Kernel(
            name, f"{definition}\ntemplate __global__ void {name}<{arguments}>({', '.join(made)});", tuple(kinds)
        )

    def kernels(self, count: int) -> list[Kernel]:
        makers: list[Callable[[str], Kernel]] = [self.plain, self.template]
        return [makers[index % 2](f"kernel{index:04}") for index in range(count)]


def symbols_of_host(compiler: str, source: str, folder: Path) -> list[str]:
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / "a.cpp").write_text(HOST_PRELUDE + source)
    subprocess.run([path, "-std=c++17", "-w", "-c", "a.cpp", "-o", "a.o"], cwd=folder, check=True)
    listing = subprocess.run(["nm", "a.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return [line.split()[-1] for line in listing.splitlines()]


def mangled_name(kernel: Kernel, symbols: list[str]) -> str:
    (name,) = [symbol for symbol in symbols if f"{len(kernel.name)}{kernel.name}" in symbol]
    return name


@pytest.mark.parametrize("compiler", ["c++", "clang++-19"])
def test_kinds_match_the_source(compiler: str, tmp_path: Path) -> None:
    kernels = Signatures(1).kernels(400)
    symbols = symbols_of_host(compiler, "\n".join(kernel.source for kernel in kernels), tmp_path)
    for kernel in kernels:
        name = mangled_name(kernel, symbols)
        assert kinds_in_name(name) == kernel.kinds, f"{name}: {kernel.source}"


@functools.cache
def gpu_kernels() -> tuple[list[Kernel], list[cubin.Kernel]]:
    kernels = Signatures(2).kernels(300)
    return kernels, list(cubin.parse(compiled(GPU_PRELUDE + "\n".join(kernel.source for kernel in kernels))).kernels)


def test_kinds_of_cubins_match_the_source() -> None:
    kernels, found = gpu_kernels()
    by_name = {kernel.name: kernel for kernel in found}
    for kernel in kernels:
        name = mangled_name(kernel, list(by_name))
        sizes = [size for _, size in by_name[name].params]
        assert param_kinds(name, sizes) == kernel.kinds, f"{name}: {kernel.source}"


# ---- malformed names -------------------------------------------------------------------------

ALPHABET: Final = "_ZNILSTEPRKVDMFACJXOpvtifdbjhlmxyo0123456789abk."


@given(st.text(ALPHABET, max_size=60))
def test_random_names_raise_nothing(text: str) -> None:
    for name in (text, "_Z" + text, "_Z1k" + text, "_ZN1kI" + text):
        kinds = kinds_in_name(name)
        assert kinds is None or all(isinstance(kind, ParamKind) for kind in kinds)


@given(st.integers(0, 299), st.integers(0, 200), st.text(ALPHABET, max_size=3))
def test_damaged_names_raise_nothing(index: int, at: int, text: str) -> None:
    name = damaged_names()[index]
    for changed in (name[:at], name[:at] + text + name[at:], name[:at] + text + name[at + len(text) :]):
        kinds = kinds_in_name(changed)
        assert kinds is None or all(isinstance(kind, ParamKind) for kind in kinds)


@functools.cache
def damaged_names() -> list[str]:
    return [kernel.name for kernel in gpu_kernels()[1]]
