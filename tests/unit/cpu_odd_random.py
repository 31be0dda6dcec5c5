"""Random kernels of unusual control flow, and what one thread of them computes, by a model in Python.

A kernel is a tree of statements: tuples whose first element names the kind. `source_of` writes it as CUDA, `run` executes
it. `a` is a thread's value, `p` points to `s` or `t` in shared memory, which hold the input and three times the input.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any

MASK = 0xFFFFFFFF
Statement = tuple[Any, ...]


class Left(Exception):  # noqa: N818 - no error: the thread leaves a loop or the kernel
    """The thread is at a `break`, `continue` or `return`."""


def statements(rng: random.Random, depth: int = 0, loops: int = 0) -> list[Statement]:
    return [statement(rng, depth, loops) for _ in range(rng.randrange(1, 4))]


def statement(rng: random.Random, depth: int, loops: int) -> Statement:
    kind = rng.choice(
        ("add", "read", "swap", "trap", "leave")
        if depth == 3
        else ("add", "read", "swap", "trap", "leave", "if", "loop", "switch", "switch")
    )
    number = rng.randrange(2, 7)
    match kind:
        case "leave":
            return (rng.choice(("break", "continue", "return") if loops else ("return",)), number)
        case "if":
            return ("if", number, statements(rng, depth + 1, loops), statements(rng, depth + 1, loops))
        case "loop":
            return ("loop", number, loops, statements(rng, depth + 1, loops + 1))
        case "switch":  # a `break` in it would leave the switch: only its own are written
            return ("switch", number, [statements(rng, depth + 1, 0) for _ in range(3)])
        case _:
            return (kind, number)


def source_of(body: list[Statement], indent: str = "    ") -> str:
    lines = []
    inner = indent + "    "
    for kind, number, *rest in body:
        match kind:
            case "add":
                text = f"a = a * {number} + x;"
            case "read":
                text = "a ^= p[a % 64];"
            case "swap":
                text = f"p = a % {number} == 1 ? s : t;"
            case "trap":  # no input is as great
                text = "if (in[a % 64] == 5000) __trap();" if number % 2 else "assert(in[a % 64] < 5000);"
            case "if":
                text = f"if (a % {number} < 2) {{\n{source_of(rest[0], inner)}{indent}}} else {{\n{source_of(rest[1], inner)}{indent}}}"
            case "loop":
                name = f"n{rest[0]}"
                text = f"for (unsigned {name} = 0; {name} < (a ^ x) % {number}; {name}++) {{\n{source_of(rest[1], inner)}{indent}}}"
            case "switch":
                cases = "".join(
                    f"{indent}case {n}: {{\n{source_of(part, inner)}{inner}break; }}\n"
                    for n, part in enumerate(rest[0])
                )
                text = f"switch (a % {number}) {{\n{cases}{indent}}}"
            case _:
                text = f"if (a % {number} == 0) {kind if kind != 'return' else '{ out[x] = a; return; }'};"
        lines.append(f"{indent}{text}\n")
    return "".join(lines)


class Thread:
    """One thread's execution."""

    def __init__(self, x: int, values: list[int]) -> None:
        self.x, self.a, self.values, self.factor = x, values[x], values, 1

    def result(self, body: list[Statement]) -> int:
        with contextlib.suppress(Left):
            self.run(body)
        return self.a

    def run(self, body: list[Statement]) -> None:
        for kind, number, *rest in body:
            match kind:
                case "add":
                    self.a = (self.a * number + self.x) & MASK
                case "read":
                    self.a ^= self.values[self.a % 64] * self.factor
                case "swap":
                    self.factor = 1 if self.a % number == 1 else 3
                case "if":
                    self.run(rest[0] if self.a % number < 2 else rest[1])
                case "loop":
                    self.loop(number, rest[1])
                case "switch":
                    if self.a % number < len(rest[0]):
                        self.run(rest[0][self.a % number])
                case "break" | "continue" | "return" if self.a % number == 0:
                    raise Left(kind)

    def loop(self, number: int, body: list[Statement]) -> None:
        count = 0
        while count < (self.a ^ self.x) % number:
            try:
                self.run(body)
            except Left as left:
                if left.args[0] == "return":
                    raise
                if left.args[0] == "break":
                    return
            count += 1
