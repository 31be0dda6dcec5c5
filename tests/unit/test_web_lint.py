"""The checks of the control centre's page: errors are found and named with their place."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

from tools.web import lint

SOUND = "/** @param {number} value */\nexport const double = (value) => 2 * value;\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with one correct module."""
    try:
        lint.node()
        lint.programs()
    except lint.MissingError as error:
        pytest.skip(str(error))
    project = {"extends": str(lint.HERE / "tsconfig.json"), "include": ["page"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(project))
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "sound.js").write_text(SOUND)
    return folder


def check(page: Path, *, fix: bool = False) -> bool:
    return lint.check(page, page.parent, fix=fix)


def test_correct_modules_pass(page: Path) -> None:
    assert check(page)


@pytest.mark.parametrize(
    ("source", "place", "problem"),
    [
        (
            'import { double } from "./sound.js";\n\nexport const wrong = double("2");\n',
            r"broken\.js\(3,29\)",
            "'string' is not assignable to parameter of type 'number'",
        ),
        (
            "export function half(value) {\n  return value / 2;\n}\n",
            r"broken\.js\(1,22\)",
            "implicitly has an 'any' type",
        ),
        ('import { double } from "./sound.js";\n', r"broken\.js:1:8", "noUnusedImports"),
        (
            'import { double } from "./sound";\n\nexport const four = double(2);\n',
            r"broken\.js:1:24",
            "useImportExtensions",
        ),
        ("export const  two = 2;\n", r"broken\.js format", "Formatter would have printed"),
    ],
    ids=["wrong-type", "no-type", "unused-import", "import-without-extension", "format"],
)
def test_errors_are_named_with_their_place(
    page: Path, capfd: pytest.CaptureFixture[str], source: str, place: str, problem: str
) -> None:
    (page / "broken.js").write_text(source)
    assert not check(page)
    told = "".join(capfd.readouterr())
    assert re.search(place, told)
    assert problem in told


def test_requests_and_answers_of_the_api_have_types(page: Path, capfd: pytest.CaptureFixture[str]) -> None:
    api = os.path.relpath(lint.PAGE / "api.js", page)
    lines = [
        f'import {{ get, post }} from "{api}";',
        "",
        'export const state = (await get("hosts"))[0].state === "upp";',
        "export const changes = (await get(`snapshots/${1}/diff/${2}`)).hosts;",
        'export const level = await post("channels", { selector: "fn=log", level: "debug" });',
        'export const nothing = await get("host");',
        'export const query = await get("channels", { total: 1 });',
        "export const right = (await get(`snapshots/${1}`, {})).hosts.h1?.pes[0].kernel ?? null;",
    ]
    (page / "broken.js").write_text("\n".join(lines) + "\n")
    assert not check(page)
    assert sorted(set(re.findall(r"broken\.js\((\d+),", "".join(capfd.readouterr())))) == ["3", "4", "5", "6", "7"]


def test_fixing_repairs_the_format(page: Path) -> None:
    (page / "broken.js").write_text("export const  two = 2;\n")
    assert check(page, fix=True)
    assert (page / "broken.js").read_text() == "export const two = 2;\n"


def test_missing_node_is_reported_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(lint.MissingError, match="make setup"):
        lint.node()


def test_packages_are_pinned_to_exact_versions_and_contents() -> None:
    wanted = json.loads((lint.HERE / "package.json").read_text())["devDependencies"]
    locked = json.loads((lint.HERE / "package-lock.json").read_text())["packages"]
    assert locked.pop("")["devDependencies"] == wanted
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all(found["integrity"].startswith("sha512-") for found in locked.values())
