"""``python -m tools.support``: writes ``docs/cuda-support.md`` from ``docs/cuda-support.toml``, what of CUDA works where.

With ``--check`` nothing is written: the page must be current, and every test that the table names must exist.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.common import REPOSITORY, die, say

TABLE: Final = Path("docs/cuda-support.toml")
PAGE: Final = Path("docs/cuda-support.md")
STATES: Final = {
    "cpu": ("yes", "partly", "no"),
    "cuda": ("yes", "partly", "no", "passed on"),
}
_HEAD: Final = """\
# What of CUDA works

Made by `python -m tools.support` from [cuda-support.toml](cuda-support.toml). For kernels, sent as source: `vgc run`, `compile()`.

*Passed on* means that the CUDA engine hands the source to NVIDIA's compiler, which has the feature. **Nothing in the column
CUDA has run on a GPU yet**; tests run it on a driver made for them. Differences of the software GPU (CPU) from a GPU stand in
[its own page](../vhost_backend/engines/cpu/README.md), the CUDA engine in [cuda.md](cuda.md).
"""


class TableError(Exception):
    """The table is wrong; the text says what, where, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Feature:
    """Row of the table; `tests` are paths below the repository, ``file`` or ``file::function``."""

    name: str
    cpu: str
    cuda: str
    note: str
    tests: tuple[str, ...]


def read(text: str) -> dict[str, list[Feature]]:
    """Reads the table: features by the name of their group, in its order.

    :raise TableError: a key or a state is unknown or missing.
    """
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"no TOML: {error}") from error
    try:
        return {group["name"]: [_feature(row) for row in group["feature"]] for group in parsed["group"]}
    except KeyError as error:
        raise TableError(f"{error} is missing; groups have a name and features") from error


def _feature(row: dict[str, Any]) -> Feature:
    name = row.get("name", "a feature without a name")
    unknown = row.keys() - {"name", "cpu", "cuda", "note", "tests"}
    if unknown:
        raise TableError(f"{name}: {', '.join(sorted(unknown))} is no key; allowed: name, cpu, cuda, note, tests")
    for engine, allowed in STATES.items():
        if row.get(engine) not in allowed:
            raise TableError(f"{name}: {engine} is {row.get(engine)!r}; allowed: {', '.join(allowed)}")
    tests = tuple(f"tests/{test if '/' in test else f'unit/{test}'}" for test in row.get("tests", ()))
    if not tests and row["cpu"] != "no":
        raise TableError(f"{name}: no test shows that it works")
    return Feature(name, row["cpu"], row["cuda"], row.get("note", ""), tests)


def missing_tests(groups: dict[str, list[Feature]], root: Path = REPOSITORY) -> Iterator[str]:
    """Yields a line for each test in the table that does not exist below `root`."""
    for features in groups.values():
        for feature in features:
            for test in feature.tests:
                path, _, function = test.partition("::")
                file = root / path
                if not file.exists() or (
                    function and not re.search(rf"^def {function}\(", file.read_text(), re.MULTILINE)
                ):
                    yield f"{feature.name}: {test} does not exist"


def page(groups: dict[str, list[Feature]]) -> str:
    """Writes the page."""
    parts = [_HEAD]
    for group, features in groups.items():
        parts.append(f"\n## {group}\n| feature | CPU | CUDA | remarks | shown by |\n|---|---|---|---|---|\n")
        for row in features:
            shown = ", ".join(f"`{test.removeprefix('tests/')}`" for test in row.tests)
            parts.append(f"| {row.name} | {row.cpu} | {row.cuda} | {row.note} | {shown} |\n")
    return "".join(parts)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.support", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page or a test is missing or old"
    )
    arguments = parser.parse_args(argv)
    try:
        groups = read((REPOSITORY / TABLE).read_text())
    except TableError as error:
        die(f"{TABLE}: {error}")
    problems = list(missing_tests(groups))
    if problems:
        die(f"{TABLE}: {problems[0]}", hint=f"{len(problems)} of them")
    wanted, path = page(groups), REPOSITORY / PAGE
    if arguments.check:
        if not path.exists() or path.read_text() != wanted:
            die(f"{PAGE} is not what {TABLE} says", hint="python -m tools.support")
        return
    path.write_text(wanted)
    say(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
