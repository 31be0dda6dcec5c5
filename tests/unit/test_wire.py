"""The wire format is the same in construct, in cffi and in C, and any change of it shows."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import cffi
import pytest
from construct import Array, Bytes, Construct, Int32ul, Int64ul, Struct
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import HANGS_AFTER_S
from virtio_proto import codegen, schema
from virtio_proto._vring import lib

INCLUDE_DIR = Path(codegen.HEADER).parent
Layout = dict[str, int]
"""Sizes by struct (``vgc_config``) and offsets by field (``vgc_config.magic``), in bytes."""


def layout_of_construct(structs: tuple[schema.WireStruct, ...] = schema.STRUCTS) -> Layout:
    layout = {struct.name: struct.construct.sizeof() for struct in structs}
    for struct in structs:
        layout |= {f"{struct.name}.{field.name}": field.offset_bytes for field in schema.fields(struct)}
    return layout


def layout_of_cffi(declarations: str) -> Layout:
    """Layout by cffi's own C parser, with its own rules of alignment."""
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    layout = {}
    for struct in schema.STRUCTS:
        ctype = ffi.typeof(f"struct {struct.name}")
        layout[struct.name] = ffi.sizeof(f"struct {struct.name}")
        layout |= {f"{struct.name}.{name}": field.offset for name, field in ctype.fields}
    return layout


def layout_of_compiler(folder: Path, names: list[str]) -> Layout:
    """Layout of the committed header by the C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "no C compiler in PATH: install gcc"
    lines = []
    for name in names:
        struct, _, field = name.partition(".")
        value = f"offsetof(struct {struct}, {field})" if field else f"sizeof(struct {struct})"
        lines.append(f'    printf("{name} %zu\\n", {value});')
    source = folder / "layout.c"
    source.write_text('#include <stdio.h>\n#include "vgc_wire.h"\nint main(void)\n{\n' + "\n".join(lines) + "\n}\n")
    program = folder / "layout"
    subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Werror", f"-I{INCLUDE_DIR}", "-o", program, source],
        check=True,
        timeout=HANGS_AFTER_S,
    )
    printed = subprocess.run([program], check=True, capture_output=True, text=True, timeout=HANGS_AFTER_S).stdout
    return {name: int(value) for name, value in (line.split() for line in printed.splitlines())}


def committed_declarations() -> str:
    """The committed header without its guards and asserts."""
    text = codegen.declarations(codegen.HEADER)
    return re.sub(r"^_Static_assert.*\n(?:\s+\".*\n)?", "", text, flags=re.MULTILINE)


def with_changed_field(struct: schema.WireStruct, name: str) -> tuple[schema.WireStruct, ...]:
    """The schema with one field of one struct twice as wide as before, or its name changed if it cannot be."""
    subcons: list[Construct[Any, Any]] = []
    for field, subcon in zip(schema.fields(struct), struct.construct.subcons, strict=True):
        wider = {4: schema.u64, 2: schema.u32}.get(field.width_bytes)
        changed = f"{field.name}_new" / Bytes(field.size_bytes + 8) if wider is None else field.name / wider
        subcons.append(changed if field.name == name else subcon)
    replaced = dataclasses.replace(struct, construct=Struct(*subcons))
    return tuple(replaced if old is struct else old for old in schema.STRUCTS)


FIELDS = [(struct, field.name) for struct in schema.STRUCTS for field in schema.fields(struct)]


def test_committed_header_is_current() -> None:
    assert codegen.HEADER.read_text() == codegen.header(), "run `python -m virtio_proto.codegen`"


def test_check_names_stale_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "vgc_wire.h"
    stale.write_text(codegen.header().replace("queue_depth", "depth_of_queue"))
    document = tmp_path / "device.md"
    document.write_text("<!-- generated: vgc_config -->\n| offset |\n<!-- end -->\n")
    monkeypatch.setattr(codegen, "HEADER", stale)
    monkeypatch.setattr(codegen, "DOCUMENT", document)

    assert codegen.main(["--check"]) == 1
    errors = capsys.readouterr().err
    assert f"{stale} is stale" in errors
    assert f"{document} is stale" in errors
    assert codegen.main([]) == 0
    assert codegen.main(["--check"]) == 0


def test_construct_cffi_and_compiler_agree_on_every_size_and_offset(tmp_path: Path) -> None:
    layout = layout_of_construct()

    assert layout_of_cffi(committed_declarations()) == layout
    assert layout_of_compiler(tmp_path, list(layout)) == layout


@pytest.mark.parametrize(("struct", "name"), FIELDS, ids=[f"{s.name}.{n}" for s, n in FIELDS])
def test_changed_field_differs_from_committed_header(struct: schema.WireStruct, name: str) -> None:
    changed = with_changed_field(struct, name)

    assert layout_of_construct(changed) != layout_of_cffi(committed_declarations())
    assert schema.fingerprint_of(schema.canonical_text(changed)) != schema.FINGERPRINT


def test_renamed_field_changes_the_fingerprint() -> None:
    text = schema.canonical_text()

    assert schema.fingerprint_of(text) == schema.FINGERPRINT
    assert schema.fingerprint_of(text.replace("queue_depth", "depth")) != schema.FINGERPRINT


@pytest.mark.parametrize("what", ["limit MAX_CHAIN ", "enum Status OK ", "enum Opcode NOP ", "version "])
def test_changed_constant_changes_the_fingerprint(what: str) -> None:
    text = schema.canonical_text()
    assert what in text

    assert schema.fingerprint_of(text.replace(what, what + "1")) != schema.FINGERPRINT


def test_constants_of_c_match_python() -> None:
    assert lib.VGC_WIRE_FINGERPRINT == schema.FINGERPRINT
    assert int.from_bytes(b"VGPC", "little") == lib.VGC_CONFIG_MAGIC
    assert {name: getattr(lib, f"VGC_{name}") for name in schema.LIMITS} == schema.LIMITS
    assert {s.name: getattr(lib, f"VGC_STATUS_{s.name}") for s in schema.Status} == dict(schema.Status.__members__)
    assert {o.name: getattr(lib, f"VGC_OP_{o.name}") for o in schema.Opcode} == dict(schema.Opcode.__members__)


def test_config_fits_the_configuration_space() -> None:
    assert schema.CONFIG.size_bytes <= schema.LIMITS["CONFIG_SIZE"]


def test_schema_refuses_a_type_that_c_cannot_hold() -> None:
    odd = schema.WireStruct("vgc_odd", "", Struct("text" / Array(2, Bytes(lambda _: 4))))

    with pytest.raises(TypeError, match="the wire schema cannot hold"):
        schema.fields(odd)


def test_schema_refuses_a_field_without_a_name() -> None:
    with pytest.raises(TypeError, match="field without a name"):
        schema.fields(schema.WireStruct("vgc_odd", "", Struct(Int32ul, "b" / Int64ul)))


def values(field: schema.Field) -> st.SearchStrategy[Any]:
    if field.width_bytes == 1:
        return st.binary(min_size=field.count, max_size=field.count)
    scalar = st.integers(0, (1 << 8 * field.width_bytes) - 1)
    return scalar if field.count == 1 else st.lists(scalar, min_size=field.count, max_size=field.count)


def contents(struct: schema.WireStruct) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: values(field) for field in schema.fields(struct)})


@pytest.mark.parametrize("struct", schema.STRUCTS, ids=lambda struct: struct.name)
@settings(max_examples=25)
@given(data=st.data())
def test_structs_packed_by_python_round_trip_through_c(struct: schema.WireStruct, data: st.DataObject) -> None:
    given_values = data.draw(contents(struct))

    packed = struct.construct.build(given_values)
    ffi = cffi.FFI()
    ffi.cdef(committed_declarations())
    in_c = ffi.from_buffer(f"struct {struct.name} *", bytearray(packed))
    for field in schema.fields(struct):
        member = getattr(in_c, field.name)
        plain = member if field.count == 1 else list(member)
        wanted = given_values[field.name]
        assert plain == (list(wanted) if isinstance(wanted, bytes) else wanted)
    parsed = struct.construct.parse(packed)
    assert struct.construct.build(parsed) == packed
    assert {name: parsed[name] for name in given_values} == given_values
