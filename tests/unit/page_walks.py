"""Walks through the code, as pages of the documentation describe them, compared with the code.

A page names a place as a file and functions in it, `` `folder/file.c`: `first()`, `second()` ``; of Python, methods
too: `` `Class.method()` ``. The places under one heading, or of one point of a list with dashes, are a walk: each
function is called by one that the walk has named before, directly or through helpers in the caller's file, and what one
function calls is named in the order of its calls. A function that is handed on, as a thread's or in a table of
operations, counts as called. Names are compared, not types: two methods of one name are one to this module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

SUFFIXES: Final = frozenset({".c", ".h", ".py"})
SKIPPED: Final = frozenset({"build", ".venv", "tests"})
_PATH: Final = r"`(?P<path>[a-z_]+/[\w/.-]+\.(?:py|c|h|js))`"
_CALLS: Final = r"`[\w.]+\(\)`(?:(?:,| and|, and)\s+`[\w.]+\(\)`)*"
_PLACES: Final = re.compile(rf"{_PATH}(?::\s+(?P<functions>{_CALLS}))?")
_FUNCTION: Final = re.compile(r"`([\w.]+)\(\)`")
_NEW_WALK: Final = re.compile(r"^(?:#+ |- )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """A function in a file, as a page names it."""

    path: str
    function: str

    def __str__(self) -> str:
        return f"{self.function}() of {self.path}"


@dataclass(frozen=True, slots=True)
class Mention:
    """A name that a function uses, and the file in which it does."""

    name: str
    path: str


@dataclass(slots=True)
class Definition:
    """A function, or a table, and what it mentions in the order of the source."""

    name: str
    mentions: list[Mention]
    is_private: bool = False
    """True if only its own file can mention it."""


def files_of(page: str) -> set[str]:
    """Every file that a page names."""
    return {match["path"] for match in _PLACES.finditer(page)}


def walks_of(page: str) -> list[list[Place]]:
    """The places of a page, walk by walk; walks without places are left out."""
    starts = [0, *(match.start() for match in _NEW_WALK.finditer(page)), len(page)]
    walks = [list(_places(page[start:end])) for start, end in pairwise(starts)]
    return [walk for walk in walks if walk]


def _places(text: str) -> Iterator[Place]:
    for match in _PLACES.finditer(text):
        for function in _FUNCTION.findall(match["functions"] or ""):
            yield Place(match["path"], function)


def without_file(page: str) -> set[str]:
    """Functions that a page never names beside their file."""
    placed = {place.function for walk in walks_of(page) for place in walk}
    return set(_FUNCTION.findall(page)) - placed


# --------------------------------------------------------------------------------------------------
# C
# --------------------------------------------------------------------------------------------------

_NO_CODE: Final = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE: Final = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_ATTRIBUTE: Final = re.compile(r"__attribute__\s*\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)")
_TABLE: Final = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*=\s*$")
_WORD: Final = re.compile(r"(->\s*|\.\s*)?\b([A-Za-z_]\w*)(\s*\()?")
_ENTRY: Final = re.compile(r"\.(\w+)\s*=\s*&?(\w+)\s*[,}]")


def _top_level(code: str) -> Iterator[str]:
    """The definitions and declarations of a file."""
    depth, start = 0, 0
    for match in re.finditer(r"[{}]|;", code):
        depth = max(0, depth + {"{": 1, "}": -1, ";": 0}[match[0]])
        ends_body = match[0] == "}" and not re.match(r"\s*[;,=\w]*;", code[match.end() :])
        if depth == 0 and (match[0] == ";" or ends_body):
            yield code[start : match.end()]
            start = match.end()


def _c_definitions(source: str, path: str) -> Iterator[Definition]:
    code = source.replace('extern "C" {', "")
    code = _ATTRIBUTE.sub("", _DIRECTIVE.sub("", _NO_CODE.sub(" ", code)))
    for chunk in _top_level(code):
        head, brace, body = chunk.partition("{")
        table = _TABLE.search(head)
        function = re.search(r"(\w+)\s*\(", head)
        name = table or function
        if not brace or name is None:
            continue
        mentions = [
            Mention(f"->{word}" if member else word, path)
            for member, word, call in _WORD.findall(body)
            if not member or call
        ]
        yield Definition(name[1], mentions, is_private=bool(re.search(r"\bstatic\b", head)))


# --------------------------------------------------------------------------------------------------
# Python
# --------------------------------------------------------------------------------------------------


def _names(node: ast.AST) -> Iterator[str]:
    """Names in order of evaluation: a call's arguments before the called function; lambdas last."""
    match node:
        case ast.Call():
            given: list[ast.AST] = [*node.args, *(keyword.value for keyword in node.keywords)]
            owner, called = (
                (node.func.value, [node.func.attr]) if isinstance(node.func, ast.Attribute) else (node.func, [])
            )
            yield from _names(owner) if called else ()
            yield from _names_of(part for part in given if not isinstance(part, ast.Lambda))
            yield from called or _names(owner)
            yield from _names_of(part for part in given if isinstance(part, ast.Lambda))
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=value, attr=name):
            yield from _names(value)
            yield name
        case _:
            yield from _names_of(ast.iter_child_nodes(node))


def _names_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        yield from _names(node)


def _python_mentions(node: ast.AST, path: str) -> list[Mention]:
    return [Mention(name, path) for name in _names(node)]


def _tables(node: ast.AST, path: str, owner: str) -> Iterator[Definition]:
    """Dictionaries assigned to a name of the module or an attribute of an object, such as tables of handlers."""
    match node:
        case (
            ast.Assign(targets=[target], value=ast.Dict() as table)
            | ast.AnnAssign(target=target, value=ast.Dict() as table)
        ):
            *_, name = _names(target)
            yield Definition(owner + name, _python_mentions(table, path))


def _python_definitions(source: str, path: str) -> Iterator[Definition]:
    for node in ast.parse(source).body:
        yield from _tables(node, path, "")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Definition(node.name, _python_mentions(node, path))
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                for deeper in ast.walk(part):
                    yield from _tables(deeper, path, f"{node.name}.")
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield Definition(f"{node.name}.{part.name}", _python_mentions(part, path))


def called_as(definition: str) -> str:
    """The name by which a definition is mentioned: a method's own, a constructor's class."""
    owner, dot, name = definition.rpartition(".")
    return owner if dot and name in ("__init__", "__new__") else name


# --------------------------------------------------------------------------------------------------
# Both
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A mention in a function, and how many of the mentions behind it are a helper's own."""

    mention: Mention
    within: int = 0


@dataclass(slots=True)
class Frame:
    """A function of the walk, and the walk's position among its calls."""

    place: Place
    calls: tuple[Call, ...]
    at: int = 0


@dataclass
class Code:
    """The sources under a folder: definitions by file, and calls by function."""

    sources: Mapping[str, str]
    _expanded: dict[tuple[str, str], tuple[Call, ...]] = field(default_factory=dict)

    @cached_property
    def files(self) -> dict[str, dict[str, Definition]]:
        """Definitions by file and name."""
        return {path: {found.name: found for found in _definitions(path, text)} for path, text in self.sources.items()}

    @cached_property
    def entries(self) -> dict[str, list[Mention]]:
        """Functions that members of C's tables of operations are set to, by member."""
        found: dict[str, list[Mention]] = {}
        for path, text in self.sources.items():
            for member, function in _ENTRY.findall(text) if path.endswith((".c", ".h")) else ():
                found.setdefault(member, []).append(Mention(function, path))
        return found

    @cached_property
    def inlines(self) -> dict[str, str]:
        """Functions in headers, with their files: helpers of every file in C."""
        return {name: path for path, names in self.files.items() if path.endswith(".h") for name in names}

    def problems(self, walk: list[Place]) -> list[str]:
        """Differences between a walk and the code."""
        lost = [f"{place} is not there" for place in walk if place.function not in self.files.get(place.path, {})]
        if lost:
            return lost
        stack: list[Frame] = []
        found: list[str] = []
        for place in walk:
            before = [str(frame.place) for frame in stack]
            while stack and not self._steps_to(stack[-1], place):
                stack.pop()
            if before and not stack:
                found.append(f"{place} is not called next by any of: {'; '.join(before)}")
            stack.append(Frame(place, self.calls_of(place.path, place.function)))
        return found

    def _steps_to(self, frame: Frame, place: Place) -> bool:
        """Advances among a function's calls to the one of `place`; False if none is left."""
        name = called_as(place.function)
        is_private = self.files[place.path][place.function].is_private and place.path.endswith(".c")
        for index in range(frame.at, len(frame.calls)):
            call = frame.calls[index]
            if call.mention.name == name and (not is_private or call.mention.path == place.path):
                frame.at = index + 1 + call.within
                return True
        return False

    def calls_of(self, path: str, function: str, above: tuple[tuple[str, str], ...] = ()) -> tuple[Call, ...]:
        """Mentions of a function; each helper is followed by the helper's own mentions."""
        key = (path, function)
        if key in self._expanded:
            return self._expanded[key]
        found: list[Call] = []
        for mention in self.files[path][function].mentions:
            for one in self._meant(mention):
                helpers = [helper for helper in self._helpers(one, path) if helper not in (*above, key)]
                inner = [call for helper in helpers for call in self.calls_of(*helper, (*above, key))]
                found += [Call(one, len(inner)), *inner]
        if not above:
            self._expanded[key] = tuple(found)
        return tuple(found)

    def _meant(self, mention: Mention) -> list[Mention]:
        """Functions that a mention may mean: for a table's member, all functions that the member is set to."""
        if not mention.name.startswith("->"):
            return [mention]
        return self.entries.get(mention.name.removeprefix("->"), [])

    def _helpers(self, mention: Mention, path: str) -> Iterator[tuple[str, str]]:
        if mention.path == path:
            for name in self.files[path]:
                if called_as(name) == mention.name:
                    yield path, name
        if mention.name in self.inlines and path.endswith((".c", ".h")):
            yield self.inlines[mention.name], mention.name


def _definitions(path: str, source: str) -> Iterator[Definition]:
    return _python_definitions(source, path) if path.endswith(".py") else _c_definitions(source, path)


@cache
def code_under(root: Path) -> Code:
    """The sources of the repository at `root`, without built and fetched files and tests."""
    found: dict[str, str] = {}
    for folder in sorted(root.iterdir()):
        if folder.is_dir() and folder.name not in SKIPPED and not folder.name.startswith("."):
            for path in sorted(folder.rglob("*")):
                if path.suffix in SUFFIXES and "build" not in path.relative_to(root).parts:
                    found[str(path.relative_to(root))] = path.read_text()
    return Code(found)
