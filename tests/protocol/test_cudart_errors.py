"""Failures outside the program: it gets CUDA's error, and standard error or `vgc last-error` says what it was."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host

MYNVCC: Final = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit" / "bin" / "mynvcc"

COMMON: Final = r"""
#include <cstdio>
#include <cuda_runtime.h>
#define SAY(call) printf("%s\n", cudaGetErrorName(call))
__global__ void store(int *to, int value) { *to = value; }
static void computes() {
    int *device, value = 0;
    SAY(cudaMalloc(&device, sizeof(value)));
    store<<<1, 1>>>(device, 7);
    SAY(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost));
    printf("%d\n", value);
}
"""
PROGRAMS: Final = {
    "found": 'int main() { int count = -1; SAY(cudaGetDeviceCount(&count)); printf("%d\\n", count); computes(); }',
    "lost": r"""
__global__ void spin(volatile int *stop) { while (!*stop) {} }
int main() {
    int *stop;
    cudaMalloc(&stop, sizeof(int));
    cudaMemset(stop, 0, sizeof(int));
    spin<<<1, 1>>>(stop);
    puts("running");
    fflush(stdout);
    SAY(cudaDeviceSynchronize());
    SAY(cudaMalloc(&stop, 4));
    SAY(cudaGetLastError());
    SAY(cudaGetLastError());
    SAY(cudaDeviceReset());
    SAY(cudaGetLastError());
    computes();
}""",
    "quota": r"""
int main() {
    size_t available, total;
    void *all, *more;
    int *one;
    cudaMalloc(&one, 4);
    store<<<1, 1>>>(one, 0); // the program is loaded, and counts
    cudaDeviceSynchronize();
    cudaMemGetInfo(&available, &total);
    SAY(cudaMalloc(&all, available));
    SAY(cudaMalloc(&more, 1));
    SAY(cudaGetLastError());
    SAY(cudaGetLastError());
    cudaFree(all);
    SAY(cudaMalloc(&more, available));
}""",
    "illegal": "int main() { store<<<1, 1>>>((int *)16, 1); SAY(cudaDeviceSynchronize()); }",
    "another": r"""
cudaError_t later(int *to);
int main() {
    int *device;
    cudaMalloc(&device, sizeof(int));
    store<<<1, 1>>>((int *)16, 1);
    SAY(later(device)); // whose program is compiled while the kernel fails
    SAY(cudaDeviceSynchronize());
}""",
    "image": r"""
__global__ void odd(int *to) { asm volatile("frobnicate.s32 %0, 1;" : "=r"(*to)); }
int main() {
    for (int i = 0; i < 2; i++) {
        odd<<<1, 1>>>(nullptr);
        SAY(cudaGetLastError());
    }
}""",
}
OTHER_FILES: Final = {
    "another": r"""
__global__ void add(int *to) { *to += 1; }
cudaError_t later(int *to) {
    add<<<1, 1>>>(to);
    return cudaGetLastError();
}"""
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("programs")
    built = {}
    for name, text in PROGRAMS.items():
        (folder / f"{name}.cu").write_text(COMMON + text)
        files = [f"{name}.cu"]
        if name in OTHER_FILES:
            files.append(f"{name}_other.cu")
            (folder / files[1]).write_text(OTHER_FILES[name])
        built[name] = subprocess.Popen([MYNVCC, *files, "-o", name], cwd=folder)
    assert [name for name, process in built.items() if process.wait(HANGS_AFTER_S) != 0] == []
    return {name: folder / name for name in PROGRAMS}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def last_error(host: GuestHost) -> str:
    return host.python("-m", "guest_driver", "last-error").stdout


def test_without_a_device_calls_say_so(programs: dict[str, Path]) -> None:
    without = {name: value for name, value in os.environ.items() if name != "VGC_MEMFD"}
    done = subprocess.run(
        [programs["found"]],
        check=False,
        env=without | {"VGC_STATE_DIR": str(programs["found"].parent)},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert done.stdout.splitlines() == ["cudaErrorNoDevice", "0", "cudaErrorNoDevice", "cudaErrorNoDevice", "0"]


def test_a_device_of_another_wire_format_is_too_old_a_driver(programs: dict[str, Path], tmp_path: Path) -> None:
    other = struct.pack("<I", 1000)
    with guest_host(tmp_path) as host:
        config = os.pread(host.link.config_fd, 4096, 0)
        read = b""
        while read != other:  # else the link has copied the device's configuration meanwhile
            host.link.set_config_bytes(config[:4] + other + config[8:])
            done = host.run(programs["found"])
            read = os.pread(host.link.config_fd, 4, 4)
        kept = last_error(host)
    assert done.stdout.splitlines()[2] == "cudaErrorInsufficientDriver"
    assert "install the driver that belongs to the host's daemon" in done.stderr
    assert "cudaErrorInsufficientDriver" in kept


def test_a_lost_device_comes_back_with_a_reset(programs: dict[str, Path], tmp_path: Path) -> None:
    with guest_host(tmp_path) as host:
        program = subprocess.Popen(
            [programs["lost"]],
            env=os.environ | {"VGC_MEMFD": host.link.description, "VGC_STATE_DIR": str(host.state_dir)},
            pass_fds=host.link.fds,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdout is not None
        assert program.stdout.readline() == "running\n"
        host.kill_worker()
        output, _ = program.communicate(timeout=HANGS_AFTER_S)
        kept = last_error(host)
    lost, well = "cudaErrorDevicesUnavailable", "cudaSuccess"
    assert output.splitlines() == [lost, lost, lost, lost, well, well, well, well, "7"]
    assert "cudaErrorDevicesUnavailable" in kept


def test_memory_is_out_at_exactly_the_quota_and_the_error_does_not_stick(
    programs: dict[str, Path], host: GuestHost
) -> None:
    done = host.run(programs["quota"])
    out, well = "cudaErrorMemoryAllocation", "cudaSuccess"
    assert done.stdout.splitlines() == [well, out, out, well, well]


def test_the_last_error_names_the_kernel_of_an_illegal_address(programs: dict[str, Path], host: GuestHost) -> None:
    done = host.run(programs["illegal"])
    assert done.stdout == "cudaErrorIllegalAddress\n"
    kept = last_error(host)
    assert "illegal[" in kept
    assert "store" in kept.partition("cudaErrorIllegalAddress: ")[2]


def test_the_log_of_a_kernel_that_does_not_compile_is_on_standard_error_once(
    programs: dict[str, Path], host: GuestHost
) -> None:
    done = host.run(programs["image"])
    assert done.stdout.splitlines() == ["cudaErrorInvalidKernelImage"] * 2
    assert done.stderr.count("PTX instruction 'frobnicate.s32' is not known") == 1


def test_a_program_that_is_loaded_meanwhile_is_told_of_the_kernel_too(
    programs: dict[str, Path], host: GuestHost
) -> None:
    done = host.run(programs["another"])
    told, at_last = done.stdout.splitlines()
    assert told in {"cudaErrorIllegalAddress", "cudaSuccess"}  # the load may come first
    assert at_last == "cudaErrorIllegalAddress"


@pytest.mark.parametrize(("setting", "says"), [("0.001", True), ("0", False), (None, False)])
def test_long_compilations_are_told_if_that_is_wanted(
    programs: dict[str, Path], tmp_path: Path, setting: str | None, says: bool
) -> None:
    words = [] if setting is None else [f"VGC_PROGRESS={setting}"]
    with guest_host(tmp_path / "host") as host:  # whose cache is empty
        done = host.run("env", *words, programs["found"])
    assert done.stdout.splitlines()[-1] == "7"
    assert ("the host has been compiling device code of this program for" in done.stderr) == says
