"""No function of CUDA's runtime ends the program because it was given nothing, or numbers that make no sense."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from tests.limits import HANGS_AFTER_S
from tests.protocol.cudart_rig import HEADERS, LIBRARIES
from tests.protocol.guest_host import guest_host

PATTERNS: Final = (0x00, 0xFF, 0x7F, 0x01)
"""Bytes of which numbers, enums and structs without pointers consist; handles are null, pointers null or to zeros."""
WITH_POINTER: Final = "struct cudaPitchedPtr"
FEWEST: Final = 250
"""Functions that the headers declare, at least: that they are found here is part of what is tested."""

MAIN: Final = r"""
#include <cuda_runtime_api.h>
#include <texture_types.h>
#include <stdio.h>
#include <string.h>

#define POINTER 5 /* in __builtin_classify_type() */
#define GIVE(type, name) \
    type name; \
    memset(&name, __builtin_classify_type(name) == POINTER ? 0 : pattern, sizeof(name));
#define GIVE_POINTER(type, name) \
    type name = has_memory ? (type)(void *)memset(memory[name##_NUMBER], 0, sizeof(memory[0])) : NULL;

enum { a0_NUMBER, a1_NUMBER, a2_NUMBER, a3_NUMBER, a4_NUMBER, a5_NUMBER, a6_NUMBER, a7_NUMBER, a8_NUMBER, a9_NUMBER };
static long long memory[10][1024];
static int pattern;
static int has_memory;
%s
static const struct { const char *name; void (*call)(void); } CALLS[] = {
%s
};

int main(void)
{
    const int patterns[] = {%s};
    for (unsigned i = 0; i < 2 * sizeof(patterns) / sizeof(patterns[0]); i++) {
        pattern = patterns[i / 2];
        has_memory = i %% 2;
        for (unsigned k = 0; k < sizeof(CALLS) / sizeof(CALLS[0]); k++) {
            printf("%%s %%#x %%d\n", CALLS[k].name, pattern, has_memory);
            fflush(stdout);
            CALLS[k].call();
        }
    }
    cudaDeviceReset();
    return cudaDeviceSynchronize() != cudaSuccess;
}
"""


def functions() -> dict[str, list[str]]:
    """Functions of the headers with the types of their parameters."""
    source = "#include <cuda_runtime_api.h>\n#include <texture_types.h>\n"
    text = subprocess.run(
        ["cc", "-E", "-P", f"-I{HEADERS}", "-xc", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_AFTER_S,
    ).stdout
    found: dict[str, list[str]] = {}
    for name, parameters in re.findall(r"\bcudaError_t (cuda\w+)\(([^()]*)\);", text):
        words = [word.strip() for word in parameters.split(",")]
        found[name] = [re.sub(r"\w+$", "", word).strip() for word in words if word != "void"]
    return found


def give(type_: str, name: str) -> str:
    if type_ == WITH_POINTER:
        return f"{type_} {name} = {{0}};"
    return f"GIVE_POINTER({type_}, {name})" if type_.endswith("*") else f"GIVE({type_}, {name})"


def calls(found: dict[str, list[str]]) -> str:
    lines = []
    for name, types in found.items():
        given = " ".join(give(type_, f"a{i}") for i, type_ in enumerate(types))
        arguments = ", ".join(f"a{i}" for i in range(len(types)))
        lines.append(f"static void call_{name}(void) {{ {given} (void){name}({arguments}); }}")
    return "\n".join(lines)


def test_null_pointers_and_absurd_numbers_are_survived_by_every_function(tmp_path: Path) -> None:
    found = functions()
    assert len(found) > FEWEST
    table = "\n".join(f'    {{"{name}", call_{name}}},' for name in found)
    source, program = tmp_path / "calls.c", tmp_path / "calls"
    source.write_text(MAIN % (calls(found), table, ", ".join(hex(pattern) for pattern in PATTERNS)))
    library = [str(LIBRARIES / "libcudart.so.12"), f"-Wl,-rpath,{LIBRARIES}"]
    built = subprocess.run(
        ["cc", "-w", "-std=gnu11", f"-I{HEADERS}", "-o", str(program), str(source), *library],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert built.returncode == 0, built.stderr

    with guest_host(tmp_path) as host:
        done = host.run(program)

    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]
