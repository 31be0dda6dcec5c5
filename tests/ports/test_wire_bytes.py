"""The bytes that drivers of all machines write and read: structs of the wire, and rings."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.ports.machines import WIRE, Machine
from virtio_proto import schema

HERE = Path(__file__).resolve().parent
Values = dict[str, dict[str, list[int]]]
"""Elements of each field of each struct."""

MAIN: Final = """
static int read_exactly(void *bytes, size_t size)
{
    return fread(bytes, 1, size, stdin) == size;
}

int main(void)
{
%s
    return 0;
}
"""


def distinct_values() -> Values:
    """Values whose bytes differ from their neighbours', whatever is swapped or shifted."""
    bytes_: Iterator[int] = itertools.cycle(range(1, 252))
    return {
        wire.name: {
            field.name: [
                int.from_bytes([next(bytes_) for _ in range(field.width_bytes)], "little") for _ in range(field.count)
            ]
            for field in schema.fields(wire)
        }
        for wire in schema.STRUCTS
    }


def encoded(values: Values) -> bytes:
    """The structs, one behind another, as construct builds them."""
    built = b""
    for wire in schema.STRUCTS:
        fields: dict[str, Any] = {}
        for field in schema.fields(wire):
            elements = values[wire.name][field.name]
            fields[field.name] = elements if field.count > 1 else elements[0]
            if field.count > 1 and field.width_bytes == 1:
                fields[field.name] = bytes(elements)
        built += wire.construct.build(fields)
    return built


def c_program(values: Values) -> str:
    """A program that writes the structs, after it has read them from its input and compared each element."""
    lines = []
    for wire in schema.STRUCTS:
        read, own = [], []
        for field in schema.fields(wire):
            for index, value in enumerate(values[wire.name][field.name]):
                element = f"{field.name}[{index}]" if field.count > 1 else field.name
                read.append(f'if (got.{element} != {value}ull) return puts("{wire.name}.{element}"), 1;')
                own.append(f"own.{element} = ({value}ull);")
        lines += [f"    {{ struct {wire.name} got, own;", "    if (!read_exactly((void *)&got, sizeof(got))) return 2;"]
        lines += [f"    {line}" for line in (*read, *own)]
        lines += ["    fwrite((const void *)&own, sizeof(own), 1, stdout); }"]
    return '#include <stdio.h>\n#include "vgc_wire.h"\n' + MAIN % "\n".join(lines)


def test_every_field_of_every_struct_is_little_endian(machine: Machine, tmp_path: Path) -> None:
    values = distinct_values()
    source = tmp_path / "vectors.c"
    source.write_text(c_program(values))
    program = machine.compile(tmp_path / "vectors", source)
    assert machine.run(program, stdin=encoded(values)) == encoded(values)


def test_field_in_the_wrong_order_is_found(big_endian: Machine, tmp_path: Path) -> None:
    """With the conversion left out, the first field of more than a byte is read wrongly."""
    values = distinct_values()
    source = tmp_path / "vectors.c"
    source.write_text(c_program(values))
    forgetful = ("-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_LITTLE_ENDIAN__")
    program = big_endian.compile(tmp_path / "vectors", source, flags=forgetful)
    with pytest.raises(AssertionError, match=r"vgc_config\.magic"):
        big_endian.run(program, stdin=encoded(values))


def desc(addr: int, length: int, flags: int, following: int) -> bytes:
    """A descriptor [virtio 1.3 §2.7.5]."""
    return struct.pack("<QIHH", addr, length, flags, following)


def test_rings_are_little_endian(machine: Machine, tmp_path: Path) -> None:
    """The layout of virtio 1.3, sections 2.7.5 to 2.7.8."""
    program = machine.compile(tmp_path / "ring", HERE / "ring.c", WIRE / "src" / "vring.c")
    printed = dict(line.split() for line in machine.run(program).decode().splitlines())
    gpa, chained, written, is_table = 0x1122334455667000, 1, 2, 4
    direct = desc(gpa + 0x812, 0x304, chained, 1) + desc(gpa + 0x834, 0x56, written, 0)
    assert printed["descriptors"] == (direct + desc(gpa + 256, 48, is_table, 0) + bytes(16)).hex()
    table = (
        desc(gpa + 0x900, 0x11, chained, 1) + desc(gpa + 0xA00, 0x12, chained, 2) + desc(gpa + 0xB00, 0x13, written, 0)
    )
    assert printed["table"] == table.hex()
    assert printed["avail"] == struct.pack("<HHHHHHH", 0, 2, 0, 2, 0, 0, 0).hex()
    assert printed["used"] == struct.pack("<HHIIIIIIIIH", 0, 2, 0, 0x10203, 2, 0x10204, 0, 0, 0, 0, 2).hex()
    assert printed["event"] == struct.pack("<H", 2).hex()


def test_cxx_on_a_big_endian_machine_is_refused(big_endian: Machine, tmp_path: Path) -> None:
    """Only GCC's C converts; anything else would compute with swapped numbers."""
    source = tmp_path / "wire.c"
    source.write_text('#define __cplusplus 201703L\n#include "vgc_wire.h"\n')
    assert "little-endian: on big-endian machines only GCC converts it" in big_endian.errors(source)
