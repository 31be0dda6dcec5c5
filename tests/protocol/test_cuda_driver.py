"""CUDA's driver API in a guest: libcuda.so.1 over the runtime, by programs in C and by ctypes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.cudart_rig import HEADERS, SOURCES
from tests.protocol.guest_host import GuestHost, guest_host, run_on

LIB64: Final = REPOSITORY / "guest_driver/cuda/build/toolkit/lib64"
ALONE: Final = r"""
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
count, name = ctypes.c_int(), ctypes.create_string_buffer(100)
assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 3
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
version = ctypes.c_int()
assert cuda.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value == 13000
assert cuda.cuDeviceGetName(name, 100, 0) == 0
print(count.value, name.value.decode())

def find(name, version, flags=0):
    function, result = ctypes.c_void_p(), ctypes.c_int(9)
    error = cuda.cuGetProcAddress_v2(name, ctypes.byref(function), version, ctypes.c_uint64(flags), ctypes.byref(result))
    return error, result.value, function.value

def address(name):
    return ctypes.cast(getattr(cuda, name), ctypes.c_void_p).value

assert find(b"cuMemAlloc", 12000)[:2] == (0, 0) and find(b"cuMemAlloc", 12000)[2] == find(b"cuMemAlloc_v2", 12000)[2]
assert len({find(b"cuCtxCreate", version)[2] for version in (10000, 11040, 13000)}) == 3
assert find(b"cuNothing", 12000) == (0, 1, None)
per_thread, too_old = 2, (0, 2, None)
for name, since in ((b"cuMemAlloc", 3020), (b"cuLaunchKernelEx", 11060), (b"cuStreamBeginCapture", 10000)):
    assert find(name, since)[:2] == (0, 0) and find(name, since - 1) == too_old, name
for name, since in ((b"cuMemcpyHtoD", 7000), (b"cuMemAllocAsync", 11020)):
    assert find(name, since, per_thread)[:2] == (0, 0) and find(name, since - 1, per_thread) == too_old, name
assert find(b"cuMemcpyHtoD", 6999)[:2] == (0, 0) and find(b"cuMemGetInfo", 6999, per_thread)[:2] == (0, 0)
function = ctypes.c_void_p(1)
for name, version, error in ((b"cuGraphCreate", 9020, 500), (b"cuGraphCreate", 10000, 0), (b"cuNothing", 13000, 500)):
    assert cuda.cuGetProcAddress(name, ctypes.byref(function), version, ctypes.c_uint64(0)) == error, name
    assert (function.value is None) == (error != 0)
assert find(b"cuInit", 12000, 8)[0] == 1 and find(b"cuInit", 0)[0] == 1
table = ctypes.c_void_p(1)
assert cuda.cuGetExportTable(ctypes.byref(table), bytes(16)) == 1 and table.value is None
text = ctypes.c_char_p()
for number, name in ((0, b"CUDA_SUCCESS"), (2, b"CUDA_ERROR_OUT_OF_MEMORY"), (218, b"CUDA_ERROR_INVALID_PTX")):
    assert cuda.cuGetErrorName(number, ctypes.byref(text)) == 0 and text.value == name
    assert cuda.cuGetErrorString(number, ctypes.byref(text)) == 0 and text.value
assert cuda.cuGetErrorName(12345, ctypes.byref(text)) == 1 and text.value is None
"""
ENTRY_POINTS: Final = r"""
import ctypes, sys
runtime, release = ctypes.CDLL(sys.argv[1]), int(sys.argv[2])

def find(form, name, *rest):
    function, result = ctypes.c_void_p(), ctypes.c_int(9)
    answer = () if release == 11 else (ctypes.byref(result),)
    return getattr(runtime, form)(name, ctypes.byref(function), *rest, *answer), result.value, function.value

plain, missing = "cudaGetDriverEntryPoint", (500, 9, None) if release == 11 else (0, 1, None)
error, result, init = find(plain, b"cuInit", ctypes.c_ulonglong(0))
assert (error, result) == (0, 9 if release == 11 else 0) and ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(init)(0) == 0
assert find(plain, b"cuNothing", ctypes.c_ulonglong(0)) == missing
assert find(plain, None, ctypes.c_ulonglong(0))[0] == 1 and find(plain, b"cuInit", ctypes.c_ulonglong(8))[0] == 1
own, shared = (find(f"{plain}{suffix}", b"cuMemcpyAsync", ctypes.c_ulonglong(0))[2] for suffix in ("_ptsz", ""))
assert own and shared and own != shared
if release > 11:
    forms = {find(f"{plain}ByVersion", b"cuCtxCreate", version, ctypes.c_ulonglong(0))[2] for version in (10000, 11040, 13000)}
    assert len(forms) == 3 and None not in forms
    assert find(f"{plain}ByVersion", b"cuGraphCreate", 9020, ctypes.c_ulonglong(0)) == (0, 2, None)
"""
BOTH_FORMS: Final = r"""
#include <cuda.h>
#include <cstdio>
int main()
{
    CUcontext old, now;
    CUctxCreateParams parameters = {};
    CUdevice device;
    if (cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0 || cuCtxCreate(&old, 0, device) != 0)
        return 1;
    if (cuCtxCreate(&now, NULL, 0, device) != 0 || cuCtxDestroy(now) != 0)
        return 2;
    if (cuCtxCreate(&now, &parameters, CU_CTX_SCHED_SPIN, device) != 0 || now == old)
        return 3;
    parameters.numExecAffinityParams = -1;
    if (cuCtxCreate(&now, &parameters, 0, device) != CUDA_ERROR_INVALID_VALUE)
        return 4;
    std::puts("PASS");
}
"""


@pytest.mark.parametrize(
    ("release", "name"), [(11, "libcudart.so.11.0"), (12, "libcudart.so.12"), (13, "libcudart.so.13")]
)
def test_runtime_finds_functions_of_the_driver_api(host: GuestHost, release: int, name: str) -> None:
    done = host.python("-c", ENTRY_POINTS, LIB64 / name, str(release))
    assert done.returncode == 0, done.stderr


def build(name: str, folder: Path, *libraries: str) -> Path:
    """Builds ``tests/cudart/NAME.c`` with libcuda."""
    program = folder / name
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", f"-I{HEADERS}", "-o", str(program), "-pthread"]
    words = ["cc", *flags, str(SOURCES / f"{name}.c"), f"-L{LIB64}", "-lcuda", *libraries, f"-Wl,-rpath,{LIB64}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.mark.parametrize("part", ["contexts", "memory", "modules", "launches", "graphs", "others"])
def test_driver_api(host: GuestHost, tmp_path: Path, part: str) -> None:
    done = host.run(build(f"driver_{part}", tmp_path))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_threads_that_are_cancelled_hold_up_nobody(host: GuestHost, tmp_path: Path) -> None:
    done = host.run(build("cancelled", tmp_path))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


@pytest.mark.parametrize(
    "compiler", [["g++", f"-I{LIB64.parent}/include"], [LIB64.parent / "bin/mynvcc"]], ids=["g++", "mynvcc"]
)
def test_cpp_has_both_forms_of_making_a_context(host: GuestHost, tmp_path: Path, compiler: list[str | Path]) -> None:
    source = tmp_path / "main.cpp"
    source.write_text(BOTH_FORMS)
    words: list[str | Path] = [*compiler, source, "-o", tmp_path / "main", f"-L{LIB64}", "-lcuda"]
    subprocess.run(words, check=True, timeout=HANGS_AFTER_S)
    done = host.run("env", f"LD_LIBRARY_PATH={LIB64}", tmp_path / "main")
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_arrays_textures_and_references(host: GuestHost, tmp_path: Path) -> None:
    module = tmp_path / "module.cubin"
    words: list[str | Path] = [LIB64.parent / "bin/mynvcc", "-cubin", SOURCES / "driver_arrays.cu", "-o", module]
    subprocess.run(words, check=True, timeout=HANGS_AFTER_S)
    done = host.run(build("driver_arrays", tmp_path), module)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


@pytest.mark.parametrize("macros", [[], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]], ids=["legacy", "per thread"])
def test_default_streams(host: GuestHost, tmp_path: Path, macros: list[str]) -> None:
    done = host.run(build("driver_per_thread", tmp_path, *macros))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


@pytest.mark.parametrize("runtime", ["libcudart.so.12", "libcudart.so.13"])
def test_both_interfaces_in_a_program_share_the_device(host: GuestHost, tmp_path: Path, runtime: str) -> None:
    done = host.run(build("driver_runtime", tmp_path, f"-l:{runtime}"))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_arrays_of_two_devices(tmp_path: Path) -> None:
    program = build("driver_peers", tmp_path)
    with guest_host(tmp_path / "first") as first, guest_host(tmp_path / "second") as second:
        done = run_on((first, second), program)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_the_library_alone_brings_the_runtime(host: GuestHost) -> None:
    done = host.python("-c", ALONE, LIB64 / "libcuda.so.1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 CPU, ")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("cuModuleLoadData(ctypes.byref(handle), b'none')", "an image of no known kind (allowed: PTX, a cubin, "),
        (
            "cuGetExportTable(ctypes.byref(handle), bytes(16))",
            "build the program with mynvcc, or with nvcc -cudart shared",
        ),
        ("cuModuleGetFunction(ctypes.byref(handle), module, b'nothing')", "'nothing'"),
    ],
)
def test_errors_are_explained_by_last_error(host: GuestHost, tmp_path: Path, call: str, says: str) -> None:
    (tmp_path / "module.ptx").write_text(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
    )
    lines = (
        f"import ctypes; cuda = ctypes.CDLL({str(LIB64 / 'libcuda.so.1')!r})",
        "handle, module = ctypes.c_void_p(), ctypes.c_void_p()",
        "assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(handle), 0, 0) == 0",
        f"assert cuda.cuModuleLoad(ctypes.byref(module), {str(tmp_path / 'module.ptx')!r}.encode()) == 0",
        f"assert cuda.{call} != 0",
    )
    done = host.python("-c", "\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert says in host.python("-m", "guest_driver", "last-error").stdout


@pytest.mark.parametrize(("name", "is_told"), [("libpretends.so", True), ("libnvrtc.so.13", False)])
def test_a_library_with_nvidias_runtime_inside_is_told_why_it_fails(
    host: GuestHost, tmp_path: Path, name: str, is_told: bool
) -> None:
    """NVIDIA's compilers ask for the same tables, and go on without."""
    source, library = tmp_path / "pretends.c", tmp_path / name
    source.write_text(
        "int cuGetExportTable(const void **, const void *);\n"
        "int ask(void) { const void *table; char id[16]; return 2 * (cuGetExportTable(&table, id) - 1); }\n"
    )
    words: list[str | Path] = ["cc", "-shared", "-fPIC", "-o", library, source, f"-L{LIB64}", "-l:libcuda.so.1"]
    subprocess.run(words, check=True, timeout=HANGS_AFTER_S)
    code = (
        "import ctypes, sys; ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL); ask = ctypes.CDLL(sys.argv[2]).ask\n"
        "print(ask(), ask())"
    )
    done = host.python("-c", code, LIB64 / "libcuda.so.1", library)
    assert done.stdout == "0 0\n"
    said = f"virtio-gpu-compute: {library} has NVIDIA's CUDA runtime inside, which works with NVIDIA's driver only"
    assert done.stderr.count(said) == is_told, done.stderr


def test_without_a_runtime_beside_it_the_library_says_so(tmp_path: Path) -> None:
    lonely = tmp_path / "libcuda.so.1"
    lonely.write_bytes((LIB64 / "libcuda.so.1").read_bytes())
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cuInit(0))"
    words: list[str | Path] = [sys.executable, "-c", code, lonely]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.stdout == "303\n"
    assert f"libcuda.so.1 finds no runtime: {tmp_path}/libcudart.so.13" in done.stderr


def test_a_name_that_is_missing_fails_at_link_time(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int cuNothing(void);\nint main(void) { return cuNothing(); }\n")
    words: list[str | Path] = ["cc", "-o", tmp_path / "main", source, f"-L{LIB64}", "-lcuda"]
    failed = subprocess.run(words, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert "undefined reference to `cuNothing'" in failed.stderr
