"""Barriers that compilers make of the rings' code: those of the litmus tests, function by function."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.ports.machines import MACHINES, STRICT, WIRE

PUBLISH, READ, FENCE = "publish", "read", "fence"
BARRIERS: Final = {
    "vgc_vq_add": {PUBLISH},
    "vgc_vq_push": {PUBLISH},
    "vgc_vq_pop": {READ},
    "vgc_vq_take": {READ},
    "vgc_vq_should_kick": {FENCE},
    "vgc_vq_should_call": {FENCE},
    "vgc_vq_enable_kick": {FENCE},
    "vgc_vq_enable_call": {FENCE},
    "vgc_vq_has_avail": set[str](),
    "vgc_vq_disable_kick": set[str](),
    "vgc_vq_disable_call": set[str](),
}
"""Barriers of each function that reaches into the shared memory of a ring."""

SIGNS: Final = {
    "aarch64": {PUBLISH: r"\tstlrh\t", READ: r"\tldarh\t", FENCE: r"\tdmb\tish\n"},
    "riscv64": {
        PUBLISH: r"\tfence\t(?:iorw,iorw|iorw,ow|rw,w)\n(?:\t(?:li|mv|addiw?)\t.*\n)*\tsh\t",
        READ: r"\tlhu\t.*\n\tfence\t(?:iorw,iorw|ir,iorw|r,rw)\n",
        FENCE: r"\tfence\t(?:iorw,iorw|rw,rw)\n",
    },
    "x86_64": {FENCE: r"\t(?:mfence|lock orq)"},
}
"""Patterns of barriers in assembly; on x86 stores are releases and loads acquires without one."""


def functions(assembly: str) -> dict[str, str]:
    """Code of each function, without directives of debuggers."""
    found = re.findall(r"^(\w+):\n(.*?)^\t\.size\t\1,", assembly, re.MULTILINE | re.DOTALL)
    return {name: code for name, code in found if name.startswith("vgc_")}


def compiled(machine: str, folder: Path, *flags: str) -> dict[str, str]:
    """Assembly of vring.c."""
    chosen = MACHINES[machine]
    chosen.require()
    output = folder / "vring.s"
    argv = [chosen.compiler, *STRICT, "-g0", *flags, f"-I{WIRE / 'include'}", "-S", "-o", str(output)]
    subprocess.run([*argv, str(WIRE / "src" / "vring.c")], check=True, timeout=HANGS_AFTER_S)
    return functions(output.read_text())


def barriers_of(code: str, machine: str) -> set[str]:
    found = {kind for kind, sign in SIGNS[machine].items() if re.search(sign, code)}
    if machine == "riscv64" and found & {PUBLISH, READ}:  # its compilers make full fences of these, too
        found.discard(FENCE)
    return found


@pytest.mark.parametrize("machine", SIGNS)
def test_functions_have_their_barriers(machine: str, tmp_path: Path) -> None:
    code = compiled(machine, tmp_path)
    expected = {name: kinds & set(SIGNS[machine]) for name, kinds in BARRIERS.items()}
    assert {name: barriers_of(code[name], machine) for name in BARRIERS} == expected


def test_barrier_that_is_missing_is_noticed(tmp_path: Path) -> None:
    code = compiled("aarch64", tmp_path, "-D__atomic_thread_fence=__atomic_signal_fence")
    assert barriers_of(code["vgc_vq_should_kick"], "aarch64") == set()
