"""Definitions of figures: the API, Prometheus, vgcctl, the page and docs/control.md say the same of each."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from control_center import snapshots
from control_center.cli import command
from control_center.cli.verbs import VERBS
from control_center.exposition import METRICS
from tools.web import messages
from virtio_proto.control import api
from virtio_proto.control.figures import FIGURES, Figure

PAGES: Final = Path(messages.PATH).parent / "views"
DOCS: Final = Path(__file__).parents[2] / "docs" / "control.md"


def docs_of_fields() -> dict[str, str]:
    """Docstrings of the fields of answers, in one line, by ``type.field``."""
    found = {}
    for module in (api, snapshots):
        for table in ast.parse(Path(str(module.__file__)).read_text()).body:
            if not isinstance(table, ast.ClassDef):
                continue
            for field, said in zip(table.body, table.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(said, ast.Expr)
                    and isinstance(said.value, ast.Constant)
                ):
                    found[f"{table.name}.{field.target.id}"] = " ".join(str(said.value.value).split())
    return found


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_field_of_the_api_has_the_definition(figure: Figure) -> None:
    assert docs_of_fields()[figure.field] == figure.text


@pytest.mark.parametrize("figure", [one for one in FIGURES.values() if one.series], ids=lambda one: one.series)
def test_help_of_the_series_is_the_definition(figure: Figure) -> None:
    assert METRICS[figure.series][1] == figure.text


def test_page_has_the_definitions_and_uses_no_others() -> None:
    assert messages.FIGURES_PATH.read_text() == messages.figures()
    used = {name for page in PAGES.glob("*.js") for name in re.findall(r"\bFIGURES\.(\w+)", page.read_text())}
    assert (
        {"busy_share", "busy", "stall", "vm_load", "gpu_load", "changed", "stuck", "same", "all_channels"}
        <= used
        <= FIGURES.keys()
    )


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("stat", ("busy", "stall", "busy_share")),
        ("top", ("vm_pes_used",)),
        ("watch", ("host_load", "gpu_load", "gpu_pes_used", "vm_load", "vm_pes_used")),
        ("ls", ("channels",)),
        ("snap", ("changed", "stuck", "same")),
    ],
)
def test_help_of_the_verb_defines_what_it_shows(
    verb: str, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb in VERBS
    with pytest.raises(SystemExit):
        command.parse([verb, "--help"])
    said = capsys.readouterr().out
    for name in names:
        figure = FIGURES[name]
        assert f"  {figure.title} ({figure.unit}): {figure.text}\n" in said


def test_docs_have_the_table() -> None:
    rows = [
        f"| {one.title} | {one.unit} | {one.text} | {f'`{one.series}`' if one.series else ''} |"
        for one in FIGURES.values()
    ]
    wanted = "\n".join(["| figure | unit | definition | series |", "|---|---|---|---|", *rows])
    assert wanted in DOCS.read_text(), f"docs/control.md lacks this table:\n{wanted}"
