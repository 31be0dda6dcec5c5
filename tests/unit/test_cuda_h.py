"""cuda.h of the toolkit: what it declares is in libcuda, and its numbers and structs are NVIDIA's."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S

INCLUDE: Final = REPOSITORY / "kernels/cpu/include"
LIBRARY: Final = REPOSITORY / "guest_driver/cuda/build/toolkit/lib64/libcuda.so.1"
HEADERS: Final = (
    "cuda.h",
    *(f"vgc_driver_{part}.h" for part in ("api", "arrays", "graphs", "shared")),
    "cudaProfiler.h",
)
NOT_WRITTEN_YET: Final = {"cuLibraryGetManaged", "cuTensorMapEncodeTiled"}
LATER_FIELDS: Final = {"reserved", "CUDA_CHILD_GRAPH_NODE_PARAMS", "CUDA_EVENT_RECORD_NODE_PARAMS"}
"""Structs that CUDA 13 has more fields of, in room that was reserved, and the rest of that room."""


def text() -> str:
    """All headers, without comments and directives, and with the names that macros stand for."""
    whole = "\n".join((INCLUDE / name).read_text() for name in HEADERS)
    whole = re.sub(r"/\*.*?\*/|//[^\n]*", " ", whole, flags=re.DOTALL)
    for name, form in re.findall(r"#define (cu\w+) (cu\w+)\n", whole):
        whole = re.sub(rf"\b{name}\(", f"{form}(", whole)
    return re.sub(r"^#.*$", "", whole, flags=re.MULTILINE)


def nvidias() -> Path:
    """Folder of NVIDIA's cuda.h; skips the test without one of CUDA 13."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for header in sorted(Path(folder).glob("cu13/include/cuda.h")):
            return header.parent
    pytest.skip("nvidia-cuda-runtime is not installed: there is no cuda.h to compare with")


def enumerators() -> list[str]:
    """Names of numbers, but for those of another header, and those that end an enum, which grows with CUDA."""
    bodies = re.findall(r"typedef enum \w+ \{(.*?)\} \w+;", text(), flags=re.DOTALL)
    names = [item.split("=")[0].strip() for body in bodies for item in body.split(",")]
    assert len(names) > 400
    return [name for name in names if name and not name.endswith("_MAX") and not name.startswith("CU_OUT_")]


def fields(body: str) -> list[str]:
    """Fields of a struct's first level."""
    flat, depth = "", 0
    for character in body:
        depth += (character == "{") - (character == "}")
        flat += character if depth == 0 and character != "}" else ""
    names = []
    for declaration in flat.split(";"):
        for part in declaration.split(","):
            found = re.search(r"(\w+)\s*(\[[^\]]*\])*\s*$", part.strip())
            names += [found[1]] if found and part.strip() not in ("struct", "union") else []
    return names


def bodies_of_structs() -> list[tuple[str, str]]:
    """Bodies and names."""
    found, whole = [], text()
    for begin in re.finditer(r"typedef struct (?:__align__\(\d+\) )?\w+ \{", whole):
        depth, end = 1, begin.end()
        while depth > 0:
            depth += (whole[end] == "{") - (whole[end] == "}")
            end += 1
        name = re.match(r" (\w+);", whole[end:])
        assert name is not None
        found.append((whole[begin.end() : end - 1], name[1]))
    assert len(found) > 40
    return found


def expressions() -> list[str]:
    structs = bodies_of_structs()
    sizes = [f"sizeof({name})" for _, name in structs if name not in LATER_FIELDS]
    offsets = [
        f"offsetof({name}, {field})" for body, name in structs for field in fields(body) if field not in LATER_FIELDS
    ]
    return [*(f"(long)({name})" for name in enumerators()), *sizes, *offsets]


def values(folder: Path, include: Path, asked: list[str]) -> dict[str, int]:
    """Value of each expression with the cuda.h in a folder."""
    lines = "\n".join(f'    printf("%ld\\n", (long)({each}));' for each in asked)
    source = folder / "values.c"
    source.write_text(
        f"#include <cuda.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{{\n{lines}\n    return 0;\n}}\n"
    )
    words: list[str | Path] = ["gcc", "-std=gnu11", f"-isystem{include}", source, "-o", folder / "values"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr
    told = subprocess.run([folder / "values"], check=True, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    return dict(zip(asked, map(int, told.stdout.split()), strict=True))


def test_what_the_header_declares_is_in_the_library() -> None:
    names = set(re.findall(r"\bCUresult (cu[A-Z]\w+)\(", text())) - NOT_WRITTEN_YET
    assert len(names) > 350
    library = ctypes.CDLL(str(LIBRARY))
    assert not (missing := {name for name in names if not hasattr(library, name)}), missing


def test_numbers_and_structs_are_nvidias(tmp_path: Path) -> None:
    asked = expressions()
    ours, theirs = values(tmp_path, INCLUDE, asked), values(tmp_path, nvidias(), asked)
    assert {each: (ours[each], theirs[each]) for each in asked if ours[each] != theirs[each]} == {}


def test_names_that_nvidias_header_gives_programs_are_in_the_library() -> None:
    """Programs compiled with NVIDIA's header ask for other names than the plain ones, as cuMemAlloc_v2."""
    header = (nvidias() / "cuda.h").read_text()
    plain = set(re.findall(r"\bCUresult (cu[A-Z]\w+)\(", text())) - NOT_WRITTEN_YET
    renamed = re.findall(r"#define (cu[A-Z]\w+) +(?:__CUDA_API_(PT\w+)\()?(cu\w+)", header)
    library = ctypes.CDLL(str(LIBRARY))
    wanted = {form for name, _, form in renamed if name in plain}
    wanted |= {f"{form}_{kind.lower()}" for name, kind, form in renamed if name in plain and kind}
    assert len(wanted) > 150
    assert not (missing := {form for form in wanted if not hasattr(library, form)}), missing
