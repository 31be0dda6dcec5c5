"""Random kernels without races; a plain C++ program can compute each of their threads, too.

They are made of what compilers get wrong: nested loops with uniform and varying bounds, break and continue, values
that live across loops and barriers, early returns, shared memory that is written before and read after a barrier.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

VARIABLES = ("a", "b", "c", "d")


@dataclass
class Writer:
    """Writes one kernel. The text is C++ for both sides: device code, and a function that runs one thread."""

    rng: random.Random
    with_barriers: bool
    lines: list[str] = field(default_factory=list)
    loops: int = 0
    barriers: int = 0

    def value(self, depth: int = 0) -> str:
        """An unsigned expression."""
        choice = self.rng.randrange(10 if depth < 3 else 5)
        match choice:
            case 0 | 1:
                return self.rng.choice(VARIABLES)
            case 2:
                return self.rng.choice(("x", "x", "n", "bid", f"{self.rng.randrange(1, 50)}u"))
            case 3:
                return f"in[{self.rng.choice(('x', 'b % 64u', 'a % 64u'))}]"
            case 4:
                return f"k{self.rng.randrange(self.loops)}" if self.loops else "n"
            case 5:
                return f"({self.value(depth + 1)} / {self.rng.randrange(2, 9)}u)"
            case 6:
                return f"({self.condition()} ? {self.value(depth + 1)} : {self.value(depth + 1)})"
            case _:
                operator = self.rng.choice(("+", "-", "*", "^", "&", "|", ">> 3 ^", "+"))
                return f"({self.value(depth + 1)} {operator} {self.value(depth + 1)})"

    def condition(self) -> str:
        left, right = self.rng.choice(VARIABLES), self.rng.choice(("x", "n", "17u", "in[x]", *VARIABLES))
        return f"{left} % {self.rng.randrange(2, 7)}u {self.rng.choice(('<', '==', '!=', '>'))} {right} % 5u"

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, depth: int, *, uniform: bool) -> None:
        """Some statements. `uniform`: all threads come here together, so barriers are allowed."""
        for _ in range(self.rng.randrange(1, 4)):
            self.statement(indent, depth, uniform=uniform)

    def statement(self, indent: int, depth: int, *, uniform: bool) -> None:
        choice = self.rng.randrange(8)
        if choice < 3 or depth == 3:
            self.put(indent, f"{self.rng.choice(VARIABLES)} {self.rng.choice(('=', '+=', '^='))} {self.value()};")
        elif choice == 3:
            self.put(indent, f"if ({self.condition()}) {{")
            self.block(indent + 1, depth + 1, uniform=False)
            if self.rng.random() < 0.5:
                self.put(indent, "} else {")
                self.block(indent + 1, depth + 1, uniform=False)
            self.put(indent, "}")
        elif choice < 7:
            self.loop(indent, depth, uniform=uniform)
        elif uniform and self.with_barriers:
            self.exchange(indent)
        else:
            self.put(indent, f"out[x * 4 + {self.rng.randrange(4)}] += {self.value()};")

    def loop(self, indent: int, depth: int, *, uniform: bool) -> None:
        name = f"k{self.loops}"
        bound = self.rng.choice(("n", "5u", f"{self.rng.choice(VARIABLES)} % 6u", "x % 7u"))
        stays_uniform = uniform and bound in ("n", "5u")
        start = "0" if stays_uniform else self.rng.choice(("0", "x % 3u"))
        self.put(indent, f"for ({name} = {start}; {name} < {bound}; {name}++) {{")
        self.loops += 1
        self.block(indent + 1, depth + 1, uniform=stays_uniform)
        if not stays_uniform and self.rng.random() < 0.5:
            self.put(indent + 1, f"if ({self.condition()}) {self.rng.choice(('break', 'continue'))};")
            self.put(indent + 1, f"{self.rng.choice(VARIABLES)} += {name};")
        self.put(indent, "}")

    def exchange(self, indent: int) -> None:
        """A barrier, behind which each thread reads a value that a different thread wrote before it."""
        shift = self.rng.randrange(1, 9)
        self.barriers += 1
        self.put(indent, f"EXCHANGE({self.rng.choice(VARIABLES)}, {self.rng.choice(VARIABLES)}, {shift}u);")


def kernel(seed: int, *, with_barriers: bool) -> str:
    """Declarations and statements of a kernel's body; `x`, `bid`, `n`, `in`, `out` are given."""
    writer = Writer(random.Random(seed), with_barriers)
    writer.block(1, 0, uniform=True)
    if not with_barriers and writer.rng.random() < 0.3:
        writer.put(1, f"if ({writer.condition()}) return;")
    writer.block(1, 0, uniform=True)
    for number, name in enumerate(VARIABLES):
        writer.put(1, f"out[x * 4 + {number}] += {name};")
    counters = "".join(f", k{number} = 0" for number in range(writer.loops))
    return f"    unsigned a = x, b = n, c = in[x], d = bid + 1{counters};\n" + "\n".join(writer.lines) + "\n"
