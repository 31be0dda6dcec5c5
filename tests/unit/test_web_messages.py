"""The page's types of messages, which are made from the shapes that the control centre checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from tools.web import messages
from virtio_proto.control.shapes import schema


class Inner(TypedDict):
    """One of many.

    More about it.
    """

    number: int | None
    data: NotRequired[bytes]


@pytest.mark.parametrize(
    ("shape", "written"),
    [
        (int, "number"),
        (bool, "boolean"),
        (Any, "unknown"),
        (str | None, "string | null"),
        (Literal["a", "b"], '"a" | "b"'),
        (list[int], "number[]"),
        (list[int | None], "(number | null)[]"),
        (dict[str, list[Inner]], "{ [key: string]: Inner[] }"),
    ],
)
def test_a_shape_becomes_a_type(shape: Any, written: str) -> None:
    assert messages.type_of(schema(shape, {})) == written


def test_a_table_becomes_a_type_with_its_first_paragraph() -> None:
    components: dict[str, Any] = {}
    schema(Inner, components)
    assert messages.table("Inner", components["Inner"]) == (
        "/** One of many. */\nexport type Inner = {\n  data?: string;\n  number: number | null;\n};\n"
    )


def test_a_longer_path_is_tried_first() -> None:
    text = messages.text()
    assert text.index("`snapshots/${string}/diff/${string}`") < text.index("`snapshots/${string}`")


def test_the_committed_file_is_current() -> None:
    assert messages.write(messages.text(), messages.PATH, check=True) == 0


def test_a_stale_file_is_named_and_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "messages.d.ts"
    path.write_text("old")
    assert messages.write("new", path, check=True) == 1
    assert f"{path} is stale" in capsys.readouterr().err
    assert path.read_text() == "old"
    assert messages.write("new", path, check=False) == 0
    assert path.read_text() == "new"
