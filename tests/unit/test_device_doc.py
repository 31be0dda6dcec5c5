"""docs/device.md agrees with the schema, and every MUST in it has a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from vhost_backend.vhost_user.messages import OFFERED_FEATURES
from virtio_proto import codegen, schema

TESTS: Final = Path(__file__).resolve().parent.parent
DOCUMENT: Final = codegen.DOCUMENT.read_text()
CHAPTER, _, TABLE = DOCUMENT.partition("## What proves it")

STATEMENTS: Final = dict(re.findall(r"^- \[([DR]-\d+)\] (.*?)(?=^- \[|^$|^#)", CHAPTER, re.DOTALL | re.MULTILINE))
"""Text of every normative statement, by id."""

PROOFS: Final = re.findall(r"^\| ([DR]-\d+) \| (.+) \|$", TABLE, re.MULTILINE)
"""Id and tests of every row of the table."""


def named_tests() -> list[str]:
    return [name for _, cell in PROOFS for name in re.findall(r"`([^`]+)`", cell)]


def test_every_must_is_a_statement_with_an_id() -> None:
    introduction = "Statements with\nMUST and SHOULD carry an id; [the last section](#what-proves-it) names the test"
    prose = CHAPTER.replace(introduction, "").replace("behind every MUST.", "")
    for text in STATEMENTS.values():
        prose = prose.replace(text, "")

    assert "MUST" not in prose
    assert "SHOULD" not in prose


def test_ids_are_numbered_from_one_without_gaps() -> None:
    found = re.findall(r"^- \[([DR])-(\d+)\]", CHAPTER, re.MULTILINE)
    for kind in "DR":
        numbers = [int(number) for letter, number in found if letter == kind]
        assert numbers == list(range(1, len(numbers) + 1))


def test_every_must_is_in_the_table_once() -> None:
    musts = [name for name, text in STATEMENTS.items() if "MUST" in text]

    assert [name for name, _ in PROOFS] == sorted(musts, key=lambda name: (name[0], int(name[2:])))


@pytest.mark.parametrize(("statement", "cell"), PROOFS, ids=[statement for statement, _ in PROOFS])
def test_every_row_names_a_test(statement: str, cell: str) -> None:
    assert re.search(r"`[^`]+::test_\w+`", cell), f"{statement} is proved by nothing"


@pytest.mark.parametrize("name", sorted(set(named_tests())))
def test_every_named_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    source = TESTS / path

    assert source.is_file(), f"tests/{path} does not exist"
    assert re.search(rf"^\s*def {function}\(", source.read_text(), re.MULTILINE), f"tests/{path} has no {function}"


def test_generated_tables_are_current() -> None:
    assert codegen.document(DOCUMENT) == DOCUMENT, "run `python -m virtio_proto.codegen`"


def test_every_struct_has_its_table() -> None:
    shown = re.findall(r"<!-- generated: (\w+) -->", CHAPTER)

    assert sorted(shown) == sorted(struct.name for struct in schema.STRUCTS)


@pytest.mark.parametrize("opcode", list(schema.Opcode), ids=lambda opcode: opcode.name)
def test_every_opcode_has_a_section(opcode: schema.Opcode) -> None:
    assert re.search(rf"^### .*\b{opcode.name} \({opcode:#04x}\)", CHAPTER, re.MULTILINE)


@pytest.mark.parametrize("opcode", list(schema.Opcode), ids=lambda opcode: opcode.name)
def test_section_of_an_opcode_shows_its_body(opcode: schema.Opcode) -> None:
    section = re.search(rf"^### [^\n]*\b{opcode.name} .*?(?=^##)", CHAPTER, re.DOTALL | re.MULTILINE)
    assert section

    body = schema.BODIES.get(opcode)
    assert body is None or f"<!-- generated: {body.name} -->" in section[0]


def test_statuses_match_the_schema() -> None:
    section = CHAPTER.partition("### Statuses")[2].partition("###")[0]
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", section, re.MULTILINE)

    assert [(int(value), name) for value, name in rows] == [(int(s), s.name) for s in schema.Status]


def test_device_features_match_the_schema() -> None:
    rows = re.findall(r"^\| (\d+) \| VGC_F_([A-Z_]+) \|", CHAPTER, re.MULTILINE)

    assert [(1 << int(bit), name) for bit, name in rows] == [(int(f), f.name) for f in schema.DeviceFeature]


def test_virtio_features_match_the_offered_ones() -> None:
    bits = re.findall(r"^\| (\d+) \| (?:VIRTIO_F_|\(vhost)", CHAPTER, re.MULTILINE)

    assert sum(1 << int(bit) for bit in bits) == OFFERED_FEATURES


@pytest.mark.parametrize("name", ["MAX_CALL_ARGS", "MAX_NAME", "MAX_CHAIN", "MAX_QUEUES", "MAX_QUEUE_SIZE"])
def test_limits_in_the_text_match_the_schema(name: str) -> None:
    assert re.search(rf"\b{schema.LIMITS[name]}\b", CHAPTER)
