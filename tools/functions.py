"""``python -m tools.functions``: writes ``docs/functions.md`` from the table of the built-in functions.

With ``--check`` nothing is written: the page must be current.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import cffi

from guest_driver.functions.names import SUFFIX, methods_of
from tools.common import REPOSITORY, die, say
from vhost_backend.engines.cpu.builtins import library
from virtio_proto import codegen

PAGE: Final = Path("docs/functions.md")
HEADER: Final = REPOSITORY / "vhost_backend/builtins/vgc_builtins.h"
USES: Final = ("value", "in", "out", "in and out")
KINDS: Final = {1: {4: "int32", 8: "int64"}, 2: {8: "double"}, 3: {8: "address"}}
_HEAD: Final = """\
# Built-in functions

Made by `python -m tools.functions` from the table in `vhost_backend/builtins/`.

These functions come with the host: a guest calls them like kernels, without a source and without a compiler. A name is
`group.function_type`. Arrays are row-major and lie in device memory; leading dimensions, strides and increments count
elements. Lengths are 0 to 2<sup>40</sup>; where one is 0, nothing is read or written, or the result is that of numpy.
Addresses are multiples of an element's size. Calls that would write where they read are refused, unless the table says
that an output may be an input. `numpy` is an expression with the same result, for arrays of the shapes below.

A call is a launch of one block of one thread; the host cuts it into pieces for all processing elements of the VM. Scratch memory
that it takes counts towards the VM's memory while it runs. In Python, `device.blas.gemm(a, b)` and the like fill the parameters in
([guest.md](guest.md#built-in-functions)). `vgc functions` lists those of a host.

Types: `f16`, `f32`, `f64` are floating-point numbers, `i32`, `i64`, `u32`, `u64` integers, and `b8` truth values: bytes, of
which 0 is false and all others are true; results are 0 and 1. `c64`, `c128` are complex numbers: pairs of `f32` or `f64`. Factors are doubles for all types.
"""


def _text(value: Any) -> str:
    ffi = cffi.FFI()
    text = ffi.string(value) if value != ffi.NULL else b""
    assert isinstance(text, bytes)
    return text.decode()


def page(lib: Any, ffi: cffi.FFI) -> str:
    """Writes the page."""
    parts = [_HEAD]
    index = 0
    while (group := lib.vgc_builtin_group_at(index)) != ffi.NULL:
        parts.append(f"\n## {_text(group.name)}\n{_sentence(_text(group.summary))}\n")
        rows = [group.builtins[i] for i in range(group.num_builtins)]
        parts += (_section(alike) for alike in _alike(rows))
        index += 1
    return "".join(parts)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _alike(rows: list[Any]) -> Iterator[list[Any]]:
    """Functions that differ in their types alone."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(_stem(row), []).append(row)
    yield from found.values()


def _stem(row: Any) -> str:
    return SUFFIX.sub("", _text(row.name))


def _section(rows: list[Any]) -> str:
    first = rows[0]
    names = ", ".join(f"`{_text(row.name)}`" for row in rows)
    lines = ["", f"### {_stem(first)}", f"{_sentence(_text(first.summary))}", "", names, ""]
    lines += ["| offset | parameter | type | use | meaning |", "|---|---|---|---|---|"]
    lines += [_row(first.params[i]) for i in range(first.num_params)]
    methods = ", ".join(f"`device.{method}`" for method in methods_of(_stem(first)))
    lines += ["", f"- Python: {methods}; shell: `vgc call {_stem(first)}`"]
    numpy = dict.fromkeys(_text(row.numpy) for row in rows)
    lines.append(f"- numpy: {'; others: '.join(f'`{text}`' for text in numpy)}")
    if _text(first.limits):
        lines.append(f"- {_text(first.limits)}")
    tolerances = dict.fromkeys(_text(row.tolerance) for row in rows)
    lines += [f"- tolerance: {'; others: '.join(tolerances)}", ""]
    return "\n".join(lines)


def _row(param: Any) -> str:
    kind = KINDS[param.kind][param.size]
    return f"| {param.offset} | `{_text(param.name)}` | {kind} | {USES[param.use]} | {_text(param.meaning)} |"


def current() -> str:
    """The page as it should be.

    :raise OSError: the library that has the table cannot be loaded.
    """
    path = library.library()
    if path is None:
        die("libvgc-builtins.so is not built", hint="make build")
    ffi = cffi.FFI()
    ffi.cdef(codegen.declarations(HEADER))
    return page(ffi.dlopen(str(path)), ffi)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.functions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is missing or old")
    arguments = parser.parse_args(argv)
    wanted, path = current(), REPOSITORY / PAGE
    if arguments.check:
        if not path.exists() or path.read_text() != wanted:
            die(f"{PAGE} is not what the table says", hint="python -m tools.functions")
        return
    path.write_text(wanted)
    say(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
