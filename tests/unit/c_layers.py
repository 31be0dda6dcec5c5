"""Dependencies between the files of a folder of C or C++, by includes and by calls, and the circles among them.

A file is a source with the header of the same stem. It depends on the files whose headers it includes and on those that
define what it calls; in C, naming a function of another file counts as a call, so tables of functions do too. The
source is read as clang-format leaves it: functions begin and end in the first column. Macros belong to whoever uses
them and are not followed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

HEADERS = {".h", ".cuh"}
SUFFIXES = {".c", ".cpp", ".cu", *HEADERS}

Graph: TypeAlias = dict[str, dict[str, set[str]]]
"""Dependencies of each file on others, with the includes and functions that make them."""

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_DIRECTIVE = re.compile(r"^\s*#(?:.*\\\n)*.*$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)")
_NAME = re.compile(r"([\w:~]+)\(")
_INITIALISER = re.compile(r"=(?!=)([^;]*);")
_MENTION = re.compile(r"(?<![\w.>])(?<!struct )(?<!union )(?<!enum )([A-Za-z_]\w*)\b")
_CALL = re.compile(r"(?<![\w.>:])(?:vgc::)?([A-Za-z_]\w*)\(")


@dataclass
class Source:
    """Names that one file defines for others, and names that it uses."""

    defined: set[str] = field(default_factory=set)
    """Functions that other files can call."""
    own: set[str] = field(default_factory=set)
    """Functions that only this file sees; other files may have functions of the same name."""
    named: set[str] = field(default_factory=set)


def parse(text: str, suffix: str) -> Source:
    """Finds the functions of a file and what its code names."""
    source = Source()
    is_cpp = suffix == ".cpp"
    code = _DIRECTIVE.sub("", _NO_CODE.sub(_blank, text))
    lines = [line.rstrip() for line in _ATTRIBUTE.sub("", code).split("\n")]
    rest: list[str] = []
    scopes: list[str] = []
    number = 0
    while number < len(lines):
        head = _head(lines, number) if lines[number] == "{" else ""
        name = _NAME.search(head)
        if name is not None:
            end = lines.index("}", number)
            pattern = _CALL if is_cpp else _MENTION
            source.named |= set(pattern.findall("\n".join(lines[number:end])))
            hidden = suffix not in HEADERS and ("static" in head.split() or "namespace" in scopes)
            if "::" not in name[1]:
                (source.own if hidden else source.defined).add(name[1])
            number = end
        elif lines[number] == "{":
            scopes.append(head)
        elif lines[number] == "}" and scopes:
            scopes.pop()
        else:
            rest.append(lines[number])
        number += 1
    if not is_cpp:
        for value in _INITIALISER.findall("\n".join(rest)):
            source.named |= set(_MENTION.findall(value))
    return source


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") if match[0].startswith("/") else '""'


def _head(lines: list[str], number: int) -> str:
    """The text before the brace: a function's type, name and parameters, or the name of a namespace or class."""
    first = number
    while first > 0 and lines[first - 1] and lines[first - 1][-1] not in ";{}":
        first -= 1
    return " ".join(lines[first:number])


def sources(folders: Iterable[Path]) -> list[Path]:
    """All C and C++ files in and below the folders."""
    return sorted(
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES and "build" not in path.relative_to(folder).parts
    )


def graph(base: Path, files: Iterable[Path], roots: Iterable[Path] = (), *, calls: bool = True) -> Graph:
    """Dependencies among the files. Files are named by their path below `base`, without suffix.

    Includes are looked for beside the includer, then below `roots`, then anywhere among the files.

    :raise ValueError: several files could be meant by an include.
    """
    texts = {path.resolve(): path.read_text() for path in files}
    names = {path: str(path.relative_to(base.resolve()).with_suffix("")) for path in texts}
    found: Graph = {name: {} for name in names.values()}
    for path, text in texts.items():
        for include in _INCLUDE.findall(text):
            target = _included(path, include, texts.keys(), roots)
            if target is not None and names[target] != names[path]:
                found[names[path]].setdefault(names[target], set()).add(f'"{include}"')
    if calls:
        for here, there, name in _calls({path: parse(text, path.suffix) for path, text in texts.items()}):
            if names[here] != names[there]:
                found[names[here]].setdefault(names[there], set()).add(f"{name}()")
    return found


def _included(path: Path, include: str, files: Collection[Path], roots: Iterable[Path]) -> Path | None:
    for root in (path.parent, *roots):
        target = (root / include).resolve()
        if target in files:
            return target
    candidates = [file for file in files if str(file).endswith(f"/{include}")]
    if len(candidates) > 1:
        raise ValueError(f'{path}: "{include}" is any of {", ".join(map(str, candidates))}')
    return candidates[0] if candidates else None


def _calls(parsed: Mapping[Path, Source]) -> Iterator[tuple[Path, Path, str]]:
    definers: dict[str, list[Path]] = {}
    for path, source in parsed.items():
        for name in source.defined:
            definers.setdefault(name, []).append(path)
    for path, source in parsed.items():
        for name in source.named - source.own - source.defined:
            for definer in definers.get(name, []):
                yield path, definer, name


def without(whole: Graph, edges: Iterable[tuple[str, str]]) -> Graph:
    """The graph without some of its edges."""
    gone = set(edges)
    return {here: {there: why for there, why in to.items() if (here, there) not in gone} for here, to in whole.items()}


def shortest_circle(whole: Graph) -> list[str]:
    """Files that depend on one another in a circle, the first one not repeated; empty without a circle."""
    circles = [circle for start in sorted(whole) if (circle := _way_back(whole, start))]
    return min(circles, key=len, default=[])


def _way_back(whole: Graph, start: str) -> list[str]:
    ways = deque([[start]])
    seen = set[str]()
    while ways:
        way = ways.popleft()
        for there in sorted(whole[way[-1]]):
            if there == start:
                return way
            if there not in seen:
                seen.add(there)
                ways.append([*way, there])
    return []


def tell(whole: Graph, circle: list[str]) -> str:
    """Describes the circle: each file, and the names of the next one that it uses."""
    steps = zip(circle, [*circle[1:], *circle[:1]], strict=True)
    return "\n".join(f"{here} -> {there}: {', '.join(sorted(whole[here][there]))}" for here, there in steps)
