"""Kinds of parameters from mangled names of kernels: right ones, or none."""

from __future__ import annotations

import random

import pytest

from tests.unit.cuda_images import compiled
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.names import short_name
from vhost_backend.engines.cuda.signature import param_kinds
from virtio_proto.schema import ParamKind

UNKNOWN, INTEGER, FLOAT, POINTER, OTHER = ParamKind
TYPES = """
    namespace lib { inline namespace v1 {
        struct Pair { float a, b; };
        struct Large { int values[5]; };
        enum Mode { FAST, EXACT };
        template <class T, int N> struct Array { T values[N]; };
    } }
    struct Small { char c; };
    struct __half { unsigned short bits; };
    typedef void (*Callback)(int, float *);
"""
KINDS = {
    "bool": INTEGER,
    "char": INTEGER,
    "signed char": INTEGER,
    "unsigned short": INTEGER,
    "int": INTEGER,
    "unsigned": INTEGER,
    "long": INTEGER,
    "unsigned long long": INTEGER,
    "const float": FLOAT,
    "double": FLOAT,
    "__half": FLOAT,
    "float *": POINTER,
    "const float *__restrict__": POINTER,
    "float **": POINTER,
    "const volatile void *": POINTER,
    "const lib::Pair *": POINTER,
    "lib::Array<float *, 3> *": POINTER,
    "int (*)[4]": POINTER,
    "Callback": POINTER,
    "lib::Pair": UNKNOWN,  # an enumeration of 8 bytes
    "lib::Mode": UNKNOWN,
    "Small": UNKNOWN,
    "lib::Large": OTHER,
    "lib::Array<lib::Pair, 3>": OTHER,
    "lib::Array<lib::Array<char, 5>, 3>": OTHER,
}


def read(source: str) -> dict[str, tuple[int, ...]]:
    """Kinds of parameters by kernel."""
    kernels = cubin.parse(compiled(TYPES + source)).kernels
    return {short_name(kernel.name): kinds_of(kernel) for kernel in kernels}


def kinds_of(kernel: cubin.Kernel) -> tuple[int, ...]:
    return param_kinds(kernel.name, [size for _, size in kernel.params])


def test_types_are_read_as_the_compiler_writes_them() -> None:
    """Repeated types are encoded as references to their first occurrence, whatever lies between."""
    rng = random.Random(5)
    source = "template <class T> struct Same { typedef T type; };\n"
    expected = {}
    for number in range(80):
        types = rng.choices(list(KINDS), k=rng.randrange(1, 12))
        params = ", ".join(f"Same<{kind}>::type p{index}" for index, kind in enumerate(types))
        head, tail = rng.choice([("", ""), ("namespace lib {", "}"), ("namespace { namespace v1 {", "} }")])
        source += f"{head} __global__ void kernel{number}({params}) {{}} {tail}\n"
        expected[f"kernel{number}"] = tuple(KINDS[kind] for kind in types)
    assert read(source) == expected


def test_parameters_of_templates_are_read() -> None:
    source = """
        template <class T> __global__ void scale(T *p, T by, int n) {}
        template __global__ void scale<double>(double *, double, int);
        namespace lib { template <class A, int N, class B> __global__ void mixed(B b, Array<A, N> a, A *p, const B *q) {} }
        template __global__ void lib::mixed<float, 4, long>(long, lib::Array<float, 4>, float *, const long *);
    """
    assert read(source) == {
        "scale": (POINTER, FLOAT, INTEGER),
        "mixed": (INTEGER, OTHER, POINTER, POINTER),
    }


def test_a_kernel_without_parameters_has_none() -> None:
    assert read("__global__ void none() {}") == {"none": ()}


@pytest.mark.parametrize(
    ("mangled", "sizes"),
    [
        ("saxpy", [4, 8]),
        ("_Z1kPi", [4]),  # a size that differs from the cubin's
        ("_Z1kd", [4]),
        ("_Z1kPii", [8]),
        ("_Z1kS_", [8]),
        ("_Z1kT_", [8]),
        ("_Z1k", []),
        ("_Z1kN", [8]),
        ("_Z9k", [8]),
        ("_Z1k" + "P" * 5000 + "i", [8]),
        ("_Z1k" + "F" * 5000, [8]),
        ("_Z1kI" + "J" * 4000, [8]),
        ("_Z1kI" + "Ji" * 2000, [8]),
        ("_Z1k" + "B1a" * 1300, []),
    ],
)
def test_other_names_give_no_kinds(mangled: str, sizes: list[int]) -> None:
    assert param_kinds(mangled, sizes) == ()


def test_damaged_names_are_read_without_harm() -> None:
    """A guest's binary may have any names."""
    rng = random.Random(6)
    names = [kernel.name for kernel in cubin.parse(compiled(TYPES + SCRAMBLED)).kernels]
    for _ in range(5000):
        name = list(rng.choice(names))
        for _ in range(rng.randrange(1, 4)):
            name[rng.randrange(2, len(name))] = rng.choice("PKSNTEI_0Lvif9r")
        kinds = param_kinds("".join(name), [8, 8, 8])
        assert len(kinds) in {0, 3}


SCRAMBLED = """
    __global__ void one(lib::Pair *a, const lib::Pair *b, lib::Array<lib::Pair, 2> *c) {}
    template <class T> __global__ void two(T *a, const T *b, Callback c) {}
    template __global__ void two<lib::Pair>(lib::Pair *, const lib::Pair *, Callback);
"""
