"""`vgc trace`: programs of a guest, and what their timelines say."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host
from tests.protocol.test_cudart_fork import MYNVCC

LAUNCHES: Final = 20
PROGRAM: Final = """
#include <csetjmp>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>
#include <cuda_runtime.h>
__global__ void count(int *sum, int by) { atomicAdd(sum, by); }
static void run(int *sum, int depth) // calls between calls
{
    for (int i = 0; i < 10; i++)
        count<<<1, 4>>>(sum, 1);
    if (depth > 0)
        run(sum, depth - 1);
}
static std::jmp_buf back;
int main()
{
    int *sum, result = 0;
    if (fork() == 0) { // before CUDA is used: the child may use it, too
        cudaMalloc(&sum, sizeof(*sum));
        cudaFree(sum);
        _exit(0); // without destructors
    }
    wait(nullptr);
    cudaMalloc(&sum, sizeof(*sum));
    cudaMemset(sum, 0, sizeof(*sum));
    run(sum, 1);
    if (setjmp(back) == 0)
        cudaLaunchHostFunc(nullptr, [](void *) {}, nullptr), std::longjmp(back, 1);
    cudaMemcpy(&result, sum, sizeof(result), cudaMemcpyDeviceToHost);
    std::printf("%d\\n", result);
    return 3;
}
"""
DRIVER: Final = r"""
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
address, found = ctypes.c_void_p(), ctypes.c_int()
assert driver.cuInit(0) == 0
count = ctypes.c_int()
assert driver.cuGetProcAddress_v2(b"cuDeviceGetCount", ctypes.byref(address), 12000, ctypes.c_uint64(0), ctypes.byref(found)) == 0
get_count = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address.value)
assert get_count(ctypes.addressof(count)) == 0 and count.value == 1
free, total, context = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def trace(host: GuestHost, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return host.python("-m", "guest_driver", "trace", *words)


def names(found: dict[str, Any], category: str) -> Counter[str]:
    return Counter(
        event["name"] for event in found["traceEvents"] if event.get("cat") == category and event["ph"] in "Xb"
    )


def test_calls_requests_and_kernels_of_a_program(host: GuestHost, tmp_path: Path) -> None:
    source, program, written = tmp_path / "count.cu", tmp_path / "count", tmp_path / "trace.json"
    source.write_text(PROGRAM)
    subprocess.run([MYNVCC, source, "-o", program], check=True, timeout=HANGS_AFTER_S)
    done = trace(host, "--cuda", "12", "--steps", "2", "-o", written, program)
    assert (done.returncode, done.stdout) == (3, f"{4 * LAUNCHES}\n"), done.stderr
    found = json.loads(written.read_text())
    calls, requests = names(found, "call"), names(found, "request")
    assert calls["cudaLaunchKernel"] == requests["LAUNCH"] == LAUNCHES
    assert (calls["cudaMalloc"], calls["cudaMemcpy"], calls["cudaFree"], calls["cudaLaunchHostFunc"]) == (2, 1, 1, 1)
    assert names(found, "device")["count"] == LAUNCHES
    assert found["otherData"]["requests"]["names"]["LAUNCH"] == LAUNCHES
    assert len({event["pid"] for event in found["traceEvents"] if event.get("cat") == "call"}) == 2
    assert f"cudaLaunchKernel {LAUNCHES}" in done.stderr
    assert "per step" in done.stderr
    assert f"{written} opens in https://ui.perfetto.dev" in done.stderr


def test_the_runtime_that_a_program_is_linked_with_is_traced(host: GuestHost, tmp_path: Path) -> None:
    """Its kernels are known to that one; CUDA 13's, which is loaded unless told otherwise, does not have them."""
    source, program, written = tmp_path / "count.cu", tmp_path / "count", tmp_path / "trace.json"
    source.write_text(PROGRAM)
    subprocess.run([MYNVCC, source, "-o", program], check=True, timeout=HANGS_AFTER_S)
    done = trace(host, "-o", written, program)
    assert (done.returncode, done.stdout) == (3, f"{4 * LAUNCHES}\n"), done.stderr
    assert names(json.loads(written.read_text()), "call")["cudaLaunchKernel"] == LAUNCHES


def test_calls_by_addresses_that_the_driver_has_told(host: GuestHost, tmp_path: Path) -> None:
    written = tmp_path / "trace.json"
    done = trace(host, "-o", written, sys.executable, "-c", DRIVER)
    assert done.returncode == 0, done.stderr
    calls = names(json.loads(written.read_text()), "call")
    once = ("cuInit", "cuGetProcAddress_v2", "cuDeviceGetCount", "cuCtxSetCurrent", "cuMemGetInfo_v2")
    assert all(calls[name] == 1 for name in once), calls


def test_what_is_wrong_is_said(host: GuestHost, tmp_path: Path) -> None:
    for words, says in (
        ((), "no program; allowed: vgc trace python train.py"),
        (("-o", tmp_path / "none" / "trace.json", "true"), "cannot be written"),
        ((tmp_path / "none",), "No such file or directory"),
        (("--steps", "0", "true"), "0 steps; allowed: 1 and more"),
    ):
        done = trace(host, *words)
        assert done.returncode in {1, 2}
        assert says in done.stderr
    done = trace(host, "-o", tmp_path, "sh", "-c", "echo it ran")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"--output {tmp_path}: is a folder; allowed: a file" in done.stderr
    done = trace(host, "-o", tmp_path / "trace.json", "sh", "-c", "exit 7")
    assert (done.returncode, done.stderr) == (7, "vgc trace: the program has asked nothing of CUDA or of the device\n")
    assert not (tmp_path / "trace.json").exists()


def test_a_full_disk_keeps_the_numbers(host: GuestHost) -> None:
    done = trace(host, "-o", "/dev/full", sys.executable, "-c", DRIVER)
    assert done.returncode == 1
    assert "vgc trace: --output /dev/full: cannot be written: No space left on device\n" in done.stderr
    assert "cuMemGetInfo_v2 1" in done.stderr
    done = trace(host, "-o", "/dev/full", sys.executable, "-c", f"{DRIVER}\nraise SystemExit(7)")
    assert done.returncode == 7


def test_a_trace_for_which_there_is_no_room_is_told(host: GuestHost, tmp_path: Path) -> None:
    limited = ("sh", "-c", 'ulimit -f 64; exec "$@"', "sh")  # of 512 bytes each
    done = trace(host, "-o", tmp_path / "trace.json", *limited, sys.executable, "-c", DRIVER)
    assert done.returncode == 0, done.stderr
    assert "vgc trace: nothing could be recorded: there is no room in $TMPDIR" in done.stderr


def test_a_signal_ends_the_program_and_the_timeline_is_written(host: GuestHost, tmp_path: Path) -> None:
    """Jobs are ended so: the program gets the signal, whoever it was sent to."""
    written = tmp_path / "trace.json"
    program = f"{DRIVER}\nimport os, signal\nos.kill(os.getppid(), signal.SIGTERM)\nsignal.pause()"
    done = trace(host, "-o", written, sys.executable, "-c", program)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert names(json.loads(written.read_text()), "call")["cuMemGetInfo_v2"] == 1
