"""The import graph of a package: which module imports which, and where these form circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Graph: TypeAlias = Mapping[str, set[str]]


def imports(source: str) -> set[str]:
    """Dotted names that a module imports, in functions and for type checkers too: ``from a import b`` gives ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@dataclass(frozen=True, slots=True)
class Package:
    """The modules of one package, by dotted name, and the modules of it that each imports."""

    name: str
    graph: Graph

    @classmethod
    def read(cls, folder: Path) -> Package:
        """Parses all modules below `folder`, whose name is the package's."""
        sources = {_dotted(folder, path): path.read_text() for path in sorted(folder.rglob("*.py"))}
        return cls.of(folder.name, sources)

    @classmethod
    def of(cls, name: str, sources: Mapping[str, str]) -> Package:
        """A package of these modules: source by dotted name."""
        graph = {
            module: {found for target in imports(source) if (found := _module(target, sources)) and found != module}
            for module, source in sources.items()
        }
        return cls(name, graph)

    def rooms(self, inside: str) -> Graph:
        """The graph of what lies directly in a package: its modules, and its folders each as a whole."""
        graph: dict[str, set[str]] = {}
        for module, targets in self.graph.items():
            room = _child(inside, module)
            if room is not None:
                found = {other for target in targets if (other := _child(inside, target))} - {room}
                graph.setdefault(room, set()).update(found)
        return graph

    def folders(self) -> Iterator[str]:
        """Every folder of the package, itself included."""
        yield from sorted({module.rpartition(".")[0] for module in self.graph if "." in module})


def _dotted(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(target: str, sources: Mapping[str, str]) -> str | None:
    """The module that a dotted name is of: itself, or what it is a member of."""
    while target and target not in sources:
        target = target.rpartition(".")[0]
    return target or None


def _child(inside: str, module: str) -> str | None:
    rest = module.removeprefix(f"{inside}.")
    return None if rest == module else rest.partition(".")[0]


def circles(graph: Graph) -> list[list[str]]:
    """Groups of nodes that reach one another (Tarjan's strongly connected components), each in alphabetical order."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in order:
                visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in stack:
                lowest[node] = min(lowest[node], order[target])
        if lowest[node] == order[node]:
            at = stack.index(node)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted(found)
