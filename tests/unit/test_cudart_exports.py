"""Every function that the runtime API's header declares is in libcudart, so that no program fails to link."""

from __future__ import annotations

import ctypes
import re
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY

HEADER: Final = REPOSITORY / "kernels/cpu/include/cuda_runtime_api.h"
LIBRARIES: Final = REPOSITORY / "guest_driver/cuda/runtime/build"
FORMS_FOR_CPP: Final = "/* ---- forms for C++ ---- */"


def declared() -> list[str]:
    """Functions for C, and those that graphics and profilers add."""
    text = HEADER.read_text().partition(FORMS_FOR_CPP)[0]
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    statements = re.sub(r"^\s*#.*$", ";", text, flags=re.MULTILINE).split(";")
    names = [found[1] for statement in statements if (found := re.search(r"\b((?:__)?cuda\w+)\s*\(", statement))]
    assert len(names) > 200
    return names


@pytest.mark.parametrize("version", ["11.0", "12", "13"])
def test_what_the_header_declares_is_in_the_library(version: str) -> None:
    library = ctypes.CDLL(str(LIBRARIES / f"libcudart.so.{version}"))
    missing = {name for name in declared() if not hasattr(library, name)}
    assert not missing, f"declared, but not in the library: {', '.join(sorted(missing))}"
