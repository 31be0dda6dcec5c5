"""What loses the GPU's context ends the worker, and the right request is told why. Other errors end one request."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from vhost_backend._dataplane import lib
from vhost_backend.worker.inflight import BlackBox, InflightMemory
from virtio_proto.schema import Status

ROOT: Final = Path(__file__).resolve().parents[2]
A_WHILE_NS: Final = 60 * 10**9
COMPLETIONS: Final = {"words": lib.VGC_CUDA_MEMORY, "events": lib.VGC_CUDA_EVENT}
ECC: Final = 214


def last_words(
    kernel: str, *, deadline_ns: int = A_WHILE_NS, completion: str = "words", hanging: int = 0, error: int = 0
) -> BlackBox:
    """Run a data plane until it dies of that kernel."""
    with InflightMemory() as memory:
        numbers = (memory.fd, deadline_ns, COMPLETIONS[completion], hanging, error)
        argv = [sys.executable, "-m", "tests.unit.cuda_fault_child", kernel, *map(str, numbers)]
        died = subprocess.run(
            argv, cwd=ROOT, pass_fds=[memory.fd], capture_output=True, text=True, check=False, timeout=60
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
def test_a_fault_is_told_by_name(completion: str, kernel: str, status: Status, code: int, name: str) -> None:
    box = last_words(kernel, completion=completion)
    assert (box.status, box.detail) == (status, code)
    assert re.fullmatch(rf"kernel {kernel}: {name} \(.+\)", box.text)


def test_a_launch_past_its_deadline_ends_in_a_timeout() -> None:
    box = last_words("hang", deadline_ns=50_000_000)
    assert box.status == Status.TIMEOUT
    assert re.match(r"kernel hang ran longer than 50 ms; on the GPU since 0\.\d+ s, as the oldest launch of", box.text)


def test_an_error_of_the_gpu_is_blamed_on_what_runs() -> None:
    box = last_words("hang", error=ECC)
    assert (box.status, box.detail) == (Status.FAULT, ECC)
    assert box.text.startswith("kernel hang: CUDA_ERROR_ECC_UNCORRECTABLE (")


def test_of_several_launches_the_oldest_is_blamed_and_the_others_are_counted() -> None:
    """Which one it was, the driver does not say."""
    box = last_words("illegal_address", hanging=2)
    assert box.status == Status.FAULT
    assert re.fullmatch(r"kernel hang: CUDA_ERROR_ILLEGAL_ADDRESS \(.+\); 2 other launches ran beside it", box.text)


# ---- any call may fail ---------------------------------------------------------------------------

FUNCTIONS: Final = tuple(
    name
    for name in re.findall(r"X\((cu\w+),", (ROOT / "vhost_backend/engines/cuda/cuda_abi.h").read_text())
    if name not in {"cuGetErrorName", "cuGetErrorString", "cuDriverGetVersion"}
)
"""All that the engine calls, but for those that only tell."""

UNSEEN_END: Final = {
    "cuCtxSetCurrent",
    "cuEventCreate",
    "cuEventQuery",
    "cuEventRecord",
    "cuStreamQuery",
    "cuStreamWriteValue32_v2",
}
"""Without them nobody would know any more when work ends: the worker ends, whatever the error."""

FATAL_ANYWAY: Final = {
    "cuLaunchKernel",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD16Async",
    "cuMemsetD2D32Async",
    "cuMemsetD32Async",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
}
"""Called only while the engine serves, and as often in every run."""


CONTROL: Final = {
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuStreamWriteValue64_v2",
}
"""The control system's: see test_cuda_control.py."""

UNUSED: Final = {"cuMemPoolTrimTo", "cuModuleGetGlobal_v2"} | CONTROL
"""By the session: they have tests of their own."""

WORDS_ONLY: Final = {"cuMemHostAlloc", "cuMemFreeHost", "cuStreamWriteValue32_v2"}


@cache
def outcomes(completion: str) -> dict[str, list[Any]]:
    """By function: what came of failing it, at several of its calls, with several errors."""
    argv = [sys.executable, "-m", "tests.unit.cuda_injection_child", str(COMPLETIONS[completion]), *FUNCTIONS]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_whatever_call_fails_each_request_is_answered_or_the_worker_ends(function: str, completion: str) -> None:
    """The session, in `cuda_injection_child`, checks texts, leaks and misuse; what cannot be served ends the worker."""
    cases = outcomes(completion)[function]
    assert bool(cases) != (function in UNUSED | {"words": {"cuEventQuery"}, "events": WORDS_ONLY}[completion])
    for nth, error, exit_code, complaint in cases:
        allowed = {0}
        if error == ECC or function in UNSEEN_END:
            allowed = {0, lib.VGC_EXIT_FATAL}
        if error == ECC and function in FATAL_ANYWAY:
            allowed = {lib.VGC_EXIT_FATAL}
        assert exit_code in allowed, f"call {nth} ending with error {error}: exit code {exit_code}\n{complaint}"
