"""Errors that lose the GPU's context end the worker, with the reason for the right request. Others end one request."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.limits import HANGS_AFTER_S, NO_DEADLINE_NS
from vhost_backend._dataplane import lib
from vhost_backend.daemon.inflight import BlackBox, InflightMemory
from virtio_proto.schema import Status

ROOT: Final = Path(__file__).resolve().parents[2]
COMPLETIONS: Final = {"words": lib.VGC_CUDA_MEMORY, "events": lib.VGC_CUDA_EVENT}
ECC: Final = 214


def last_words(
    kernel: str, *, deadline_ns: int = NO_DEADLINE_NS, completion: str = "words", hanging: int = 0, error: int = 0
) -> BlackBox:
    """Run a data plane until it dies of that kernel; return its last words."""
    with InflightMemory() as memory:
        numbers = (memory.fd, deadline_ns, COMPLETIONS[completion], hanging, error)
        argv = [sys.executable, "-m", "tests.unit.cuda_fault_child", kernel, *map(str, numbers)]
        died = subprocess.run(
            argv, cwd=ROOT, pass_fds=[memory.fd], capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S
        )
        assert died.returncode == lib.VGC_EXIT_FATAL, died.stderr
        box = memory.black_box()
        assert box is not None
        assert len(memory.queue(0).heads) == hanging + 1
        assert box.head in memory.queue(0).heads
        return box


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(
    ("kernel", "status", "code", "name"),
    [
        ("fails", Status.ASSERT, 710, "CUDA_ERROR_ASSERT"),
        ("illegal_address", Status.FAULT, 700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("misaligned", Status.FAULT, 716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
        ("illegal_instruction", Status.FAULT, 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
        ("trap", Status.FAULT, 719, "CUDA_ERROR_LAUNCH_FAILED"),
        ("timeout", Status.TIMEOUT, 702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
        ("ecc", Status.FAULT, ECC, "CUDA_ERROR_ECC_UNCORRECTABLE"),
        ("stack_error", Status.FAULT, 714, "CUDA_ERROR_HARDWARE_STACK_ERROR"),
    ],
)
def test_a_fault_is_reported_by_name(completion: str, kernel: str, status: Status, code: int, name: str) -> None:
    box = last_words(kernel, completion=completion)
    assert (box.status, box.detail) == (status, code)
    assert re.fullmatch(rf"kernel {kernel}: {name} \(.+\)", box.text)


def test_a_launch_past_its_deadline_ends_in_a_timeout() -> None:
    box = last_words("hang", deadline_ns=10**9)  # far longer than the launches before it take
    assert box.status == Status.TIMEOUT
    assert re.match(
        r"kernel hang ran longer than 1000 ms; on the GPU since \d+\.\d+ s, as the oldest launch of", box.text
    )


def test_an_error_of_the_gpu_is_blamed_on_the_running_launch() -> None:
    box = last_words("hang", error=ECC)
    assert (box.status, box.detail) == (Status.FAULT, ECC)
    assert box.text.startswith("kernel hang: CUDA_ERROR_ECC_UNCORRECTABLE (")


def test_of_several_launches_the_oldest_is_blamed_and_the_others_are_counted() -> None:
    """The driver does not report which launch failed."""
    box = last_words("illegal_address", hanging=2)
    assert box.status == Status.FAULT
    assert re.fullmatch(r"kernel hang: CUDA_ERROR_ILLEGAL_ADDRESS \(.+\); 2 other launches ran beside it", box.text)


# ---- any call may fail ---------------------------------------------------------------------------

FUNCTIONS: Final = tuple(
    name
    for name in re.findall(r"X\((cu\w+),", (ROOT / "vhost_backend/engines/cuda/cuda_abi.h").read_text())
    if name not in {"cuGetErrorName", "cuGetErrorString", "cuDriverGetVersion"}
)
"""Driver functions that the engine calls, except those that only query."""

UNSEEN_END: Final = {
    "cuCtxSetCurrent",
    "cuEventCreate",
    "cuEventQuery",
    "cuEventRecord",
    "cuStreamQuery",
    "cuStreamWriteValue32_v2",
}
"""Functions that detect the end of work: if one fails, the worker ends, whatever the error."""

FATAL_ANYWAY: Final = {
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD16Async",
    "cuMemsetD2D32Async",
    "cuMemsetD32Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
}
"""Functions that are called only while the engine serves, and equally often in every run."""


MAPPED_ONLY: Final = {
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemGetAllocationGranularity",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
}
POOL_ONLY: Final = {
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
}

CONTROL: Final = {
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuStreamWriteValue64_v2",
}
"""Functions of the control system: see test_cuda_control.py."""

UNUSED: Final = {"cuCtxSetLimit", "cuModuleGetGlobal_v2"} | CONTROL
"""Functions that the session does not call; they have tests of their own."""

WORDS_ONLY: Final = {"cuMemHostAlloc", "cuMemFreeHost", "cuStreamWriteValue32_v2"}

KINDS: Final = {
    "words": (lib.VGC_CUDA_MEMORY, lib.VGC_CUDA_POOL),
    "events": (lib.VGC_CUDA_EVENT, lib.VGC_CUDA_POOL),
    "mapped": (lib.VGC_CUDA_MEMORY, lib.VGC_CUDA_MAPPED),
}
NOT_CALLED: Final = {
    "words": UNUSED | MAPPED_ONLY,
    "events": UNUSED | MAPPED_ONLY | WORDS_ONLY,
    "mapped": UNUSED | POOL_ONLY,
}


@cache
def outcomes(kind: str) -> dict[str, list[Any]]:
    """Outcomes by function, with several of its calls failed, by several errors."""
    argv = [sys.executable, "-m", "tests.unit.cuda_injection_child", *map(str, KINDS[kind]), *FUNCTIONS]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_failed_call_ends_in_answers_or_the_end_of_the_worker(function: str, kind: str) -> None:
    """The session in `cuda_injection_child` checks texts, leaks and misuse; an unrecoverable error ends the worker."""
    cases = outcomes(kind)[function]
    assert bool(cases) != (function in NOT_CALLED[kind])
    for nth, error, exit_code, complaint in cases:
        allowed = {0}
        if error == ECC or function in UNSEEN_END:
            allowed = {0, lib.VGC_EXIT_FATAL}
        if error == ECC and function in FATAL_ANYWAY:
            allowed = {lib.VGC_EXIT_FATAL}
        assert exit_code in allowed, f"call {nth} ending with error {error}: exit code {exit_code}\n{complaint}"
