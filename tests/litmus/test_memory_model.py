"""Rings under weak memory models: no execution of the litmus tests loses a wake-up or reads something old.

The tests have the instructions that compilers make of the rings' code, which `test_compiled_code.py` compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.litmus import memory_model

HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = {path.stem: path.read_text() for path in sorted(HERE.glob("*.litmus"))}
WEAK: Final = ("aarch64", "riscv64")


@pytest.mark.parametrize("machine", memory_model.MODELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_ring_is_safe(name: str, machine: str) -> None:
    assert not memory_model.is_allowed(memory_model.parse(PROGRAMS[name]), machine)


@pytest.mark.parametrize("machine", memory_model.MODELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_has_executions(name: str, machine: str) -> None:
    """Without the condition, the same program can be carried out."""
    program = memory_model.parse(PROGRAMS[name])
    program.condition.clear()
    assert memory_model.is_allowed(program, machine)


@pytest.mark.parametrize(
    ("name", "strong", "weak", "machines"),
    [
        ("publish", "STLRH", "STRH", WEAK),
        ("publish", "LDARH", "LDRH", WEAK),
        ("wake_up", " DMB ISH       |", "               |", (*WEAK, "x86_64")),
        ("wake_up", "| DMB ISH ", "|         ", (*WEAK, "x86_64")),
        ("awake", "STLRH", "STRH", WEAK),
        ("reuse", "STLRH", "STRH", WEAK),
    ],
)
def test_each_barrier_is_needed(name: str, strong: str, weak: str, machines: tuple[str, ...]) -> None:
    """With one barrier less, the ring is not safe on these machines, and still is on the others."""
    assert strong in PROGRAMS[name]
    program = memory_model.parse(PROGRAMS[name].replace(strong, weak))
    assert {m for m in memory_model.MODELS if memory_model.is_allowed(program, m)} == set(machines)


# ---- the checker itself --------------------------------------------------------------------------

STORE_X: Final = "MOV W0,#1 ;STR W0,[X1]"
STORE_Y: Final = "MOV W0,#1 ;STR W0,[X2]"
LOAD_X: Final = "LDR W5,[X1]"
LOAD_Y: Final = "LDR W6,[X2]"


def program(exists: str, *threads: str) -> memory_model.Litmus:
    """A litmus test: X1 holds the address of x, X2 that of y, in each thread; instructions are separated by semicolons."""
    columns = [[line.strip() for line in thread.split(";")] for thread in threads]
    rows = [" | ".join(c[i] if i < len(c) else "" for c in columns) + " ;" for i in range(max(map(len, columns)))]
    held = " ".join(f"{t}:X1=x; {t}:X2=y;" for t in range(len(threads)))
    head = " | ".join(f"P{t}" for t in range(len(threads)))
    return memory_model.parse("\n".join(["AArch64 t", f"{{ {held} }}", f"{head} ;", *rows, f"exists ({exists})"]))


def released(code: str) -> str:
    """The code with all stores releases and all loads acquires."""
    return code.replace("STR", "STLR").replace("LDR", "LDAR")


STALE: Final = r"1:X6=1 /\ 1:X5=0"
BOTH_MISS: Final = r"0:X6=0 /\ 1:X5=0"
BOTH_SEE: Final = r"0:X5=1 /\ 1:X6=1"
VERDICTS: Final = [  # name, condition, threads, machines that allow it
    ("MP", STALE, [f"{STORE_X};{STORE_Y}", f"{LOAD_Y};{LOAD_X}"], WEAK),
    ("MP+dmbs", STALE, [f"{STORE_X};DMB ISH;{STORE_Y}", f"{LOAD_Y};DMB ISH;{LOAD_X}"], ()),
    ("MP+dmb+po", STALE, [f"{STORE_X};DMB ISH;{STORE_Y}", f"{LOAD_Y};{LOAD_X}"], WEAK),
    ("MP+dmb+ctrl", STALE, [f"{STORE_X};DMB ISH;{STORE_Y}", f"{LOAD_Y};CBZ W6,L0;L0:;{LOAD_X}"], WEAK),
    ("MP+rel+acq", STALE, [released(f"{STORE_X};{STORE_Y}"), released(f"{LOAD_Y};{LOAD_X}")], ()),
    ("SB", BOTH_MISS, [f"{STORE_X};{LOAD_Y}", f"{STORE_Y};{LOAD_X}"], (*WEAK, "x86_64")),
    ("SB+dmbs", BOTH_MISS, [f"{STORE_X};DMB ISH;{LOAD_Y}", f"{STORE_Y};DMB ISH;{LOAD_X}"], ()),
    (
        "SB+rel-acq",
        BOTH_MISS,
        [released(f"{STORE_X};{LOAD_Y}"), released(f"{STORE_Y};{LOAD_X}")],
        ("riscv64", "x86_64"),
    ),
    ("LB", BOTH_SEE, [f"{LOAD_X};{STORE_Y}", f"{LOAD_Y};{STORE_X}"], WEAK),
    ("LB+data+po", BOTH_SEE, [f"{LOAD_X};STR W5,[X2]", f"{LOAD_Y};{STORE_X}"], WEAK),
    ("LB+data+dmb", BOTH_SEE, [f"{LOAD_X};STR W5,[X2]", f"{LOAD_Y};DMB ISH;{STORE_X}"], ()),
    ("LB+ctrls", BOTH_SEE, [f"{LOAD_X};CBZ W5,L0;{STORE_Y};L0:", f"{LOAD_Y};CBZ W6,L0;{STORE_X};L0:"], ()),
    ("CoRR", r"1:X5=1 /\ 1:X6=0", [STORE_X, f"{LOAD_X};LDR W6,[X1]"], ()),
    (
        "IRIW",
        r"2:X5=1 /\ 2:X6=0 /\ 3:X6=1 /\ 3:X5=0",
        [STORE_X, STORE_Y, f"{LOAD_X};{LOAD_Y}", f"{LOAD_Y};{LOAD_X}"],
        WEAK,
    ),
    (
        "IRIW+acqs",
        r"2:X5=1 /\ 2:X6=0 /\ 3:X6=1 /\ 3:X5=0",
        [STORE_X, STORE_Y, released(f"{LOAD_X};{LOAD_Y}"), released(f"{LOAD_Y};{LOAD_X}")],
        (),
    ),
]
"""Verdicts that the manuals and the literature give for well-known tests."""


@pytest.mark.parametrize(("exists", "threads", "machines"), [v[1:] for v in VERDICTS], ids=[v[0] for v in VERDICTS])
def test_verdict_is_that_of_the_literature(exists: str, threads: list[str], machines: tuple[str, ...]) -> None:
    test = program(exists, *threads)
    assert {m for m in memory_model.MODELS if memory_model.is_allowed(test, m)} == set(machines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("AArch64 t\n{ }\n P0 ;\n ISB ;\nexists (0:X0=1)", "'ISB'; allowed: MOV, STR"),
        ("C t\n{ }\nexists (0:X0=1)", "allowed: a first line 'AArch64 NAME'"),
    ],
)
def test_program_that_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(memory_model.LitmusError, match=words):
        memory_model.parse(text)
