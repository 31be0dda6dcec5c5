"""`vgc shadow` with CUDA programs as mynvcc builds them: two real VMs' devices, both on the software GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guest_driver.shadow_run import difference
from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host

MYNVCC = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit" / "bin" / "mynvcc"
PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
__global__ void shift(float *x, float by) { x[threadIdx.x] += by; }
int main(int argc, char **argv) {
    float host[32], *x, by = argc > 1 ? atof(argv[1]) : 0;
    // The second process alone has no terminal and no standard input: here, it finds /dev/null.
    if (by != 0 && fgetc(stdin) != EOF) by = 0;
    for (int i = 0; i < 32; i++) host[i] = i;
    cudaMalloc(&x, sizeof(host));
    cudaMemcpy(x, host, sizeof(host), cudaMemcpyHostToDevice);
    twice<<<1, 32>>>(x);
    cudaMemcpy(host, x, sizeof(host), cudaMemcpyDeviceToHost);
    shift<<<1, 32>>>(x, by);
    cudaMemcpyAsync(host, x, sizeof(host), cudaMemcpyDeviceToHost, 0);
    cudaDeviceSynchronize();
    printf("%g\\n", host[5]);
    return host[5] == 10 ? 0 : 3;
}
"""

UNCOPIED = """
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
__global__ void count(float *x, float by) { x[threadIdx.x] += by; }
__managed__ float variable[32];
int main(int argc, char **argv) {
    float *managed, *mapped, *registered = (float *)calloc(32, 4), *seen, by = 1;
    if (fgetc(stdin) == EOF) by = atof(argv[2]); // only the second process
    char which = argv[1][0];
    cudaMallocManaged(&managed, 4 << 20);
    cudaHostAlloc(&mapped, 128, cudaHostAllocMapped);
    cudaHostRegister(registered, 128, cudaHostRegisterMapped);
    cudaHostGetDevicePointer(&seen, registered, 0);
    count<<<1, 32>>>(managed, which == 'm' ? by : 1);
    count<<<1, 32>>>(mapped, which == 'p' ? by : 1);
    count<<<1, 32>>>(seen, which == 'r' ? by : 1);
    count<<<1, 32>>>(variable, which == 'v' ? by : 1);
    cudaDeviceSynchronize();
    cudaDeviceSynchronize();
    return 0;
}
"""
BOXES = """
#include <cstdlib>
#include <cuda_runtime.h>
__device__ float symbol[4];
__global__ void fill(float *x, float value) { x[threadIdx.x] = symbol[threadIdx.x % 4] = value; }
int main(int argc, char **argv) {
    float host[4][8] = {}, sums[4], *x, by = 1;
    if (fgetc(stdin) == EOF) by = atof(argv[1]);
    cudaMalloc(&x, 32 * 4);
    fill<<<1, 32>>>(x, by);
    cudaMemcpy2D(host, 32, x, 32, 16, 4, cudaMemcpyDeviceToHost);
    cudaMemcpy3DParms box = {};
    box.srcPtr = make_cudaPitchedPtr(x, 32, 32, 2);
    box.dstPtr = make_cudaPitchedPtr(host, 32, 32, 2);
    box.extent = make_cudaExtent(32, 2, 2);
    box.kind = cudaMemcpyDeviceToHost;
    cudaMemcpy3D(&box);
    cudaMemcpyFromSymbol(sums, symbol, sizeof(sums));
    return 0;
}
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuestHost, GuestHost]]:
    with guest_host(tmp_path_factory.mktemp("left")) as left, guest_host(tmp_path_factory.mktemp("right")) as right:
        yield left, right


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Program of copies; beside it, `uncopied` and `boxes`."""
    folder = tmp_path_factory.mktemp("program")
    for name, source in (("program", PROGRAM), ("uncopied", UNCOPIED), ("boxes", "#include <cstdio>\n" + BOXES)):
        (folder / f"{name}.cu").write_text(source)
        subprocess.run([MYNVCC, folder / f"{name}.cu", "-o", folder / name], check=True)
    return folder / "program"


def shadow(pair: tuple[GuestHost, GuestHost], *argv: str | Path) -> subprocess.CompletedProcess[str]:
    first, second = (host.link.description for host in pair)
    return subprocess.run(
        [sys.executable, "-m", "guest_driver", "shadow", *map(str, argv)],
        check=False,
        cwd=REPOSITORY,
        env=os.environ
        | {
            "VGC_MEMFD": first,
            "VGC_SHADOW_MEMFD": second.replace("name=vm", "name=second"),
            "VGC_STATE_DIR": str(pair[0].state_dir),
        },
        pass_fds=(*pair[0].link.fds, *pair[1].link.fds),
        input="terminal",
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )


def test_equal_copies_are_counted_and_the_program_speaks_once(pair: tuple[GuestHost, GuestHost], program: Path) -> None:
    done = shadow(pair, program)
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr
    assert done.stderr == "vgc shadow: 2 copies compared, 0 differ\n"


def test_copies_that_differ_are_shown_with_their_kernels(pair: tuple[GuestHost, GuestHost], program: Path) -> None:
    done = shadow(pair, program, "1.5")
    assert (done.returncode, done.stdout) == (1, "10\n"), done.stderr
    assert "copy 2 (128 bytes, after _Z5shiftPff): as float32: 32 of 32 elements differ, first [0]: 0.0 and 1.5" in (
        done.stderr
    )
    assert "exit status 0 on the first device, 3 on the second" in done.stderr
    assert "2 copies compared, 2 differ" in done.stderr


@pytest.mark.parametrize("kind", ["m", "p", "r", "v"])
def test_memory_that_moves_without_a_copy_is_compared(
    pair: tuple[GuestHost, GuestHost], program: Path, kind: str
) -> None:
    """Managed, mapped and registered memory and managed variables, at the first synchronisation behind a kernel."""
    uncopied = program.parent / "uncopied"
    same = shadow(pair, uncopied, kind, "1")
    assert same.stderr == "vgc shadow: 4 copies compared, 0 differ\n"
    other = shadow(pair, uncopied, kind, "1.5")
    assert "4 copies compared, 1 differ" in other.stderr
    assert "32 of " in other.stderr
    assert "after _Z5countPff): as float32" in other.stderr


def test_rows_slices_and_symbols_are_compared(pair: tuple[GuestHost, GuestHost], program: Path) -> None:
    boxes = program.parent / "boxes"
    same = shadow(pair, boxes, "1")
    assert "0 differ" in same.stderr
    compared = same.stderr.split()[2]
    assert f"{compared} copies compared, {compared} differ" in shadow(pair, boxes, "2").stderr


def test_wrong_arguments_say_what_is_allowed(pair: tuple[GuestHost, GuestHost], program: Path) -> None:
    assert "--as int; allowed: float32" in shadow(pair, "--as", "int", program).stderr
    assert "no program; allowed: vgc shadow ./program" in shadow(pair).stderr
    assert shadow(pair, program.parent / "absent").returncode == 1


def test_copies_are_equal_if_either_kind_of_float_is() -> None:
    import numpy as np

    close = np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-12])
    assert difference(close[0].tobytes(), close[1].tobytes(), ("float32", "float64"), rtol=1e-5, atol=0) == ""
    assert difference(b"\0" * 4, b"\0" * 5, ("float32",), rtol=0, atol=0) == "4 bytes and 5 bytes"
    assert "as bytes: 1 of 3" in difference(b"xyz", b"xyw", ("float32",), rtol=0, atol=0)
