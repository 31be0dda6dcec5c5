"""Every function that the runtime API's header declares is in libcudart, so that no program fails to link."""

from __future__ import annotations

import ctypes
import re
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY

HEADER: Final = REPOSITORY / "kernels/cpu/include/cuda_runtime_api.h"
PER_THREAD: Final = REPOSITORY / "kernels/cpu/include/vgc_per_thread.h"
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


HAVE_NO_FORM: Final = {
    *("cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority", "cudaStreamDestroy"),
    *("cudaGraphicsMapResources", "cudaGraphicsUnmapResources", "cudaMemcpyPeerAsync"),
    *("cudaSignalExternalSemaphoresAsync", "cudaWaitExternalSemaphoresAsync"),  # refused by name
}
"""Functions with a stream in which NVIDIA's header renames nothing, or that no device has."""


def forms() -> dict[str, str]:
    """Symbol of the form for default streams per thread, by function."""
    found = dict(re.findall(r"^__VGC_PER_THREAD__\((\w+), (\w+)\)$", PER_THREAD.read_text(), flags=re.MULTILINE))
    assert len(found) > 50
    return found


def test_the_library_has_all_forms_of_the_header_for_streams_per_thread() -> None:
    library = ctypes.CDLL(str(LIBRARIES / "libcudart.so.12"))
    missing = {symbol for symbol in forms().values() if not hasattr(library, symbol)}
    assert not missing, f"in the header, but not in the library: {', '.join(sorted(missing))}"


def test_functions_with_a_stream_have_a_form_for_streams_per_thread() -> None:
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text().partition(FORMS_FOR_CPP)[0], flags=re.DOTALL)
    statements = [statement for statement in text.split(";") if re.search(r"\bcudaStream_t\s+\w+", statement)]
    names = {found[1] for statement in statements if (found := re.search(r"\b(cuda\w+)\s*\(", statement))}
    assert len(names) > 30
    missing = names - forms().keys() - HAVE_NO_FORM
    assert not missing, f"without a form: {', '.join(sorted(missing))}"
