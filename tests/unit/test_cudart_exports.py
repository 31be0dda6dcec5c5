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

TO_COME: Final[dict[str, str]] = {
    "graphs": """
        cudaDeviceGetGraphMemAttribute cudaDeviceGraphMemTrim cudaDeviceSetGraphMemAttribute
        cudaGraphAddChildGraphNode cudaGraphAddDependencies cudaGraphAddEmptyNode cudaGraphAddEventRecordNode
        cudaGraphAddEventWaitNode cudaGraphAddHostNode cudaGraphAddKernelNode cudaGraphAddMemAllocNode
        cudaGraphAddMemFreeNode cudaGraphAddMemcpyNode cudaGraphAddMemcpyNode1D cudaGraphAddMemsetNode
        cudaGraphAddNode cudaGraphClone cudaGraphConditionalHandleCreate cudaGraphCreate cudaGraphDebugDotPrint
        cudaGraphDestroy cudaGraphDestroyNode cudaGraphExecDestroy cudaGraphExecHostNodeSetParams
        cudaGraphExecKernelNodeSetParams cudaGraphExecMemcpyNodeSetParams cudaGraphExecMemsetNodeSetParams
        cudaGraphExecUpdate cudaGraphGetEdges cudaGraphGetNodes cudaGraphGetRootNodes cudaGraphInstantiate
        cudaGraphInstantiateWithFlags cudaGraphKernelNodeGetAttribute cudaGraphKernelNodeGetParams
        cudaGraphKernelNodeSetAttribute cudaGraphKernelNodeSetParams cudaGraphLaunch cudaGraphNodeFindInClone
        cudaGraphNodeGetType cudaGraphUpload cudaGraphAddMemcpyNodeFromSymbol cudaGraphAddMemcpyNodeToSymbol
    """,
}
"""Functions that are not there yet, by area."""


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
    expected = {name for names in TO_COME.values() for name in names.split()}
    assert not missing - expected, f"declared, but not in the library: {', '.join(sorted(missing - expected))}"
    assert not expected - missing, f"in the library, or not declared any more: {', '.join(sorted(expected - missing))}"
