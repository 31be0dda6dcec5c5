"""Command lines in the examples work from the repository's root."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tools.common import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
LIBRARY = REPOSITORY / "guest_driver/libvgc/build/libvgc.a"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.c")), ids=lambda path: path.name)
def test_programs_in_c_are_compiled(example: Path, tmp_path: Path) -> None:
    assert LIBRARY.exists(), "run `make build`"
    found = re.search(r"^ \* +(cc .*)$", example.read_text(), flags=re.MULTILINE)
    assert found is not None
    words = shlex.split(found.group(1))
    words[words.index("-o") + 1] = str(tmp_path / "program")
    if sanitizers := os.environ.get("VGC_SANITIZE"):  # the library in build/ is built with them then
        words.append(f"-fsanitize={sanitizers}")
    subprocess.run(words, cwd=REPOSITORY, check=True)
    assert (tmp_path / "program").exists()


@pytest.mark.parametrize(
    "example",
    sorted([*EXAMPLES.glob("*.py"), *EXAMPLES.glob("ptx/*.py"), *EXAMPLES.glob("cuda/*.cu")]),
    ids=lambda path: path.name,
)
def test_lines_name_the_example(example: Path) -> None:
    found = re.findall(r"(?:python3|mynvcc) (\S+\.(?:py|cu))", example.read_text())
    assert found
    assert all((REPOSITORY / name) == example for name in found)
