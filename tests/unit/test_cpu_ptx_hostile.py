"""Damaged PTX modules on the CPU engine: each is an image, or an error with line and column."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.test_cpu_ptx_modules import HEADER, MODULE, entry
from vhost_backend.engines.cpu import CpuEngine

TOKENS = re.compile(r'//[^\n]*|"[^"]*"|[%$.]?[\w$]+|\s+|.')
PLANTED = (
    "0 -1 4294967295 18446744073709551615 { } ( ) [ ] ; , %r1 %rd1 %p1 %f1 .param .b8 .v4 .b128 .pred retval0 cells "
    "dynamic twice _ 0f00000000 %tid.x .shared call ret bra @%p1 1<<40 +4 | ! .extern .entry .func .align = generic"
)


def outcome(text: str) -> str:
    """The compiler's log; "" if there is an image."""
    job = CpuEngine.compile_job("PTX", text.encode(), (), {})
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / job.input_name).write_text(text)
        done = subprocess.run(job.argv, cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    assert done.returncode in (0, 1)
    return done.stderr if done.returncode else ""


def damaged(seed: int) -> str:
    """The module with one to eight changes."""
    dice = random.Random(seed)
    tokens = TOKENS.findall(MODULE)
    for _ in range(dice.choice([1, 1, 2, 8])):
        at = dice.randrange(len(tokens))
        match dice.randrange(5):
            case 0:
                del tokens[at : at + dice.randrange(1, 5)]
            case 1:
                tokens[at] = dice.choice(tokens)
            case 2:
                tokens[at] = dice.choice(PLANTED.split())
            case 3:
                begin = dice.randrange(len(tokens))
                tokens[at:at] = tokens[begin : begin + dice.randrange(1, 40)]
            case _:
                tokens[at] = re.sub(r"\d+", lambda _: str(dice.choice([0, 1, 8, 16, 64, 128])), tokens[at])
    return "".join(tokens)


@pytest.mark.parametrize("group", range(4))
def test_damaged_modules(group: int) -> None:
    for seed in range(20 * group, 20 * group + 20):
        log = outcome(damaged(seed))
        assert re.search(r"^vgc-cpucc: error: module\.ptx:\d+:\d+: ", log) or not log, f"seed {seed}: {log}"


@pytest.mark.parametrize(
    "text",
    [
        entry("{" * 100_000),
        HEADER + ".global .u32 x = " + "(" * 100_000,
        HEADER + ".global .u32 x = {" * 1_000,
        "/* " + "x" * 1_000_000,
        HEADER + "." * 100_000,
        entry(".reg .b32 r<100000>;" * 1_000),
        HEADER + ".global .b8 x[2][2][1000000000][1000000000][1000000000];",
    ],
    ids=["blocks", "parentheses", "braces", "comment", "dots", "registers", "elements"],
)
def test_large_and_deep_texts_are_refused(text: str) -> None:
    assert "module.ptx:" in outcome(text)


@pytest.mark.parametrize(
    "text",
    [
        entry(".reg .b64 a;\n" + "add.u64 a, a, 1;\n" * 5_000 + "st.global.u64 [a], a;"),
        entry(
            ".reg .b64 a; .reg .pred p;\n"
            + "".join(f"@p bra L{n};\nadd.u64 a, a, 4;\nL{n}: st.global.u32 [a], {n};\n" for n in range(1_000))
        ),
        entry("".join(f"L{n}: bra L{(n * 7 + 1) % 500};\n" for n in range(500))),
    ],
    ids=["long", "guarded", "jumps"],
)
def test_long_texts_compile(text: str) -> None:
    assert not outcome(text)


@pytest.mark.parametrize("part", ["P", "PFvv", "A_"])
@pytest.mark.parametrize("kind", ["entry", "func"])
def test_deep_mangled_names_are_names_as_others(kind: str, part: str) -> None:
    """The demangler recurses with them."""
    kernel = ".visible .entry k() { ret; }\n"
    assert not outcome(HEADER + kernel + f".visible .{kind} _Z1f{part * 200_000}i() {{ ret; }}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".visible .entry llvm() { ret; }", "the name 'llvm' is LLVM's own"),
        (
            "".join(f".visible .global .b8 x{n}[2147483648];\n" for n in range(20)),
            r"the program's variables have 429496\d+ bytes \(allowed: 2080374784\)",
        ),
        (
            ".visible .global .b8 x[1073741824] = {1};",
            r"the program's variables with values other than zero have 10737418\d+ bytes \(allowed: 268435456\)",
        ),
    ],
)
def test_programs_that_no_image_can_hold_are_refused(text: str, words: str) -> None:
    assert re.match(f"vgc-cpucc: error: {words}", outcome(HEADER + text))


@pytest.mark.parametrize("body", ["bra {0}", "mov.u32 {0}, 1", "{0}", "add.u32 {0} {0}", "ld.{0} a, [a]"])
def test_errors_show_both_ends_of_what_is_wrong(body: str) -> None:
    log = outcome(f"{HEADER}.visible .entry k() {{ {body.format('x' * 100_000)}; }}")
    assert log.startswith("vgc-cpucc: error: module.ptx:4:")
    assert " [...] " in log
    assert len(log) < 3200


@pytest.mark.parametrize(
    ("parameters", "call", "words"),
    [
        (".param .b64 a, .param .b64 b", "call (room), f, (d);", "the function's result is not that of the call"),
        ("", "call (room), f;", "the function's result is not that of the call"),
        (".param .b64 a", "call f;", "the function has 1 parameters"),
    ],
)
def test_calls_that_do_not_fit_are_refused(parameters: str, call: str, words: str) -> None:
    function = f".func f({parameters}) {{ ret; }}\n"
    kernel = f".visible .entry k() {{ .param .b8 room[8]; .reg .b64 d; mov.u64 d, 0; {call} ret; }}"
    log = outcome(HEADER + function + kernel)
    assert re.fullmatch(rf"vgc-cpucc: error: module\.ptx:5:\d+: PTX instruction 'call': {words}\n", log)


@pytest.mark.parametrize(
    "code",
    [
        ".reg .pred p; .reg .b64 a; mov.u64 a, 0; ld.relaxed.gpu.global.pred p, [a];",
        ".reg .b64 a, b; mov.u64 a, 0; div.rn.f32x2 b, a, a;",
        ".reg .b128 a, b; .reg .b32 n; mov.u32 n, 0; mapa.b128 b, a, n;",
        ".reg .b32 n; mov.u32 n, 0; redux.sync.min.f16x2 n, n, -1;",
        ".reg .pred p, q; .reg .b32 n; mov.u32 n, 0; setp.ne.u32 p, n, 7; testp.finite.pred q, p;",
    ],
)
def test_types_that_an_instruction_does_not_have(code: str) -> None:
    assert re.search(r"^vgc-cpucc: error: module\.ptx:\d+:\d+: ", outcome(entry(code + " ret;"))), code
