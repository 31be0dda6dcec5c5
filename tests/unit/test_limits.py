"""The house's rule of limits: what only says that something hangs comes from `tests.limits`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.limits import ANSWERS_WITHIN_S

TESTS: Final = Path(__file__).resolve().parents[1]
SHORT_S: Final = 1
"""Limits of waits for what must not come, and of policies; longer limits mean that something hangs."""

WAITING: Final = frozenset({"join", "result", "settimeout", "timeout", "wait", "wait_for"})
"""Calls whose last argument is a number of seconds, if it is a number."""

IS_LIMIT: Final = re.compile(r"timeout(_s)?|.*(TIMEOUT|PATIENCE|DEADLINE|HANGS)\w*?(_S|_SECONDS)?")


def is_too_short(node: ast.expr | None) -> bool:
    """A number of seconds that something takes on a machine that is overloaded."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and SHORT_S < node.value < ANSWERS_WITHIN_S
    )


def given(node: ast.AST) -> Iterator[ast.expr | None]:
    """Limits in seconds that a call or an assignment gives."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
            yield from (args[-1:] if name in WAITING else [])
            yield from (keyword.value for keyword in keywords if IS_LIMIT.fullmatch(keyword.arg or ""))
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            yield value if IS_LIMIT.fullmatch(name) else None
        case ast.arguments(posonlyargs=first, args=rest, defaults=defaults, kwonlyargs=more, kw_defaults=more_defaults):
            positional = first + rest
            named = [
                *zip(positional[len(positional) - len(defaults) :], defaults, strict=True),
                *zip(more, more_defaults, strict=True),
            ]
            yield from (value for one, value in named if IS_LIMIT.fullmatch(one.arg))
        case _:
            return


def own_limits(source: str) -> list[int]:
    """Lines that say themselves when something hangs."""
    found = [(limit, node) for node in ast.walk(ast.parse(source)) for limit in given(node)]
    return sorted(limit.lineno for limit, _ in found if limit is not None and is_too_short(limit))


def test_tests_take_their_limits_from_one_place() -> None:
    found = {
        str(path.relative_to(TESTS)): lines
        for path in sorted(TESTS.rglob("*.py"))
        if path.name != "limits.py" and (lines := own_limits(path.read_text()))
    }
    assert not found


def test_a_limit_of_ones_own_is_found() -> None:
    source = "TIMEOUT_S: Final = 30\nPATIENCE_S = 5\nf(timeout=20)\nasyncio.timeout(10)\np.wait(5)\ndef f(timeout_s=30, *, timeout=9): ...\n"
    assert own_limits(source) == [1, 2, 3, 4, 5, 6, 6]
    assert own_limits("TIMEOUT_S = ANSWERS_WITHIN_S\np.wait(0.5)\nf(timeout=0)\np.wait(600)\nTICKS = 30\n") == []
