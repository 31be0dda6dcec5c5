"""Control of the fake CUDA driver, from within a process and from outside; and its likeness to the real one."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.cuda_cubin import all_kernels
from tests.fakes.cuda_driver import SOURCES_DIR, FakeDriver, build, sources, with_settings
from tests.limits import HANGS_AFTER_S
from tests.unit.fake_cuda_rig import (
    INVALID_DEVICE,
    NO_DEVICE,
    NOT_FOUND,
    NOT_INITIALIZED,
    OUT_OF_MEMORY,
    SUCCESS,
    Rig,
    fake,
)

__all__ = ["fake"]

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def rig(fake: FakeDriver) -> Rig:
    return Rig(fake)


def python(script: str, library: Path, **environment: str) -> str:
    """Runs a Python process that loads the library before anything else; returns its output."""
    start = f"import ctypes\nlibrary = ctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL)\n"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    done = subprocess.run(
        [sys.executable, "-c", start + script],
        cwd=ROOT,
        env=inherited | {"ASAN_OPTIONS": "detect_leaks=0"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- injected errors and missing functions -------------------------------------------------------


def test_the_nth_call_fails(rig: Rig) -> None:
    rig.start()
    rig.fake.inject("cuMemAlloc", OUT_OF_MEMORY, nth=2, times=2)
    value = ctypes.byref(ctypes.c_uint64())
    codes = [rig.code("cuMemAlloc_v2", value, 100) for _ in range(4)]
    assert codes == [SUCCESS, OUT_OF_MEMORY, OUT_OF_MEMORY, SUCCESS]


def test_an_injected_error_is_no_misuse(rig: Rig) -> None:
    rig.fake.inject("cuInit", NO_DEVICE)
    assert rig.code("cuInit", 0) == NO_DEVICE
    assert rig.code("cuInit", 0) == SUCCESS
    assert rig.fake.misuses() == []


def test_calls_are_recorded_with_their_results(rig: Rig) -> None:
    rig.start()
    rig.code("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 1 << 40)
    assert rig.fake.calls("cuInit") == ["cuInit(0) = CUDA_SUCCESS"]
    assert rig.fake.calls()[-1] == "cuMemAlloc_v2(1099511627776 -> 0) = CUDA_ERROR_OUT_OF_MEMORY"
    assert (rig.fake.count("cuMemAlloc_v2"), rig.fake.count("cuMemFree_v2")) == (1, 0)


def proc_address(rig: Rig, name: str, version: int) -> tuple[int, int, int]:
    """Looks up a function; returns result, status, and address (0: none)."""
    found, status = ctypes.c_void_p(), ctypes.c_int()
    arguments = (name.encode(), ctypes.byref(found), version, 0, ctypes.byref(status))
    return rig.code("cuGetProcAddress_v2", *arguments), status.value, found.value or 0


def address_of(rig: Rig, symbol: str) -> int | None:
    return ctypes.cast(rig.fake.library[symbol], ctypes.c_void_p).value


@pytest.mark.parametrize(
    ("name", "version", "symbol"),
    [
        ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
        ("cuEventElapsedTime", 12070, "cuEventElapsedTime"),
        ("cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"),
        ("cuStreamWriteValue32", 13000, "cuStreamWriteValue32_v2"),
    ],
)
def test_a_function_is_found_by_name_and_version(rig: Rig, name: str, version: int, symbol: str) -> None:
    assert proc_address(rig, name, version) == (SUCCESS, 0, address_of(rig, symbol))


def test_a_function_newer_than_asked_for_is_not_found(rig: Rig) -> None:
    assert proc_address(rig, "cuGreenCtxCreate", 12030) == (NOT_FOUND, 2, 0)


def test_a_function_newer_than_the_driver_is_not_found(rig: Rig) -> None:
    rig.fake.set("driver_version 12020")
    assert proc_address(rig, "cuGreenCtxCreate", 12040) == (NOT_FOUND, 1, 0)
    assert proc_address(rig, "cuMemAlloc", 12040)[0] == SUCCESS


def test_an_unknown_function_is_not_found(rig: Rig) -> None:
    assert proc_address(rig, "cuTeleport", 13000) == (NOT_FOUND, 1, 0)


def test_a_hidden_function_is_not_found(rig: Rig) -> None:
    rig.fake.hide("cuMemPoolCreate")
    assert proc_address(rig, "cuMemPoolCreate", 13000) == (NOT_FOUND, 1, 0)


def test_a_library_can_be_built_without_a_symbol() -> None:
    library = ctypes.CDLL(str(build(hidden=["cuGreenCtxCreate"])), ctypes.RTLD_LOCAL)
    assert hasattr(library, "cuGreenCtxDestroy")
    assert not hasattr(library, "cuGreenCtxCreate")


def test_a_reset_leaves_nothing(rig: Rig) -> None:
    rig.start()
    made = (rig.stream(), rig.event(), rig.pool(), rig.alloc(100), rig.module(), rig.pinned(8))
    assert all(made)
    rig.fake.hold()
    rig.fake.reset()
    assert rig.fake.alive() == {}
    assert rig.fake.calls() == rig.fake.misuses() == []
    assert rig.code("cuDeviceGetCount", ctypes.byref(ctypes.c_int())) == NOT_INITIALIZED


# ---- settings ------------------------------------------------------------------------------------


def test_an_unknown_setting_is_refused(fake: FakeDriver) -> None:
    with pytest.raises(ValueError, match="colour"):
        fake.set("colour green")


def name_of(rig: Rig, device: int) -> str:
    buffer = ctypes.create_string_buffer(100)
    rig.call("cuDeviceGetName", buffer, 100, device)
    return buffer.value.decode()


def test_devices_follow_their_settings(rig: Rig) -> None:
    rig.fake.set(
        "devices 2", "1.name Little GPU", "1.sms 20", "1.capability 7.5", "1.memory 1048576", "1.attribute.38 7"
    )
    rig.call("cuInit", 0)
    assert [name_of(rig, device) for device in (0, 1)] == ["Fake H200", "Little GPU"]
    attributes = [rig.get("cuDeviceGetAttribute", key, 1, kind=ctypes.c_int) for key in (16, 75, 76, 38)]
    assert attributes == [20, 7, 5, 7]
    assert rig.get("cuDeviceTotalMem_v2", 1) == 1 << 20
    assert rig.code("cuDeviceGetName", ctypes.create_string_buffer(9), 9, 2) == INVALID_DEVICE


def test_without_devices_there_is_no_driver(rig: Rig) -> None:
    rig.fake.set("devices 0")
    assert rig.code("cuInit", 0) == NO_DEVICE


VISIBLE = [
    ("", []),
    ("1", ["B"]),
    ("1,0", ["B", "A"]),
    ("0,7,1", ["A"]),
    ("GPU-aa", ["A"]),
    ("GPU-bb000000-0000-0000-0000-000000000000", ["B"]),
    ("MIG-1c", ["instance"]),
    ("MIG-none", []),
]


@pytest.mark.parametrize(("visible", "names"), VISIBLE)
def test_only_visible_devices_are_seen(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, visible: str, names: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    zeros = "000000-0000-0000-0000-000000000000"
    rig.fake.set("devices 3", "0.name A", f"0.uuid GPU-aa{zeros}", "1.name B", f"1.uuid GPU-bb{zeros}")
    rig.fake.set("2.name instance", "2.mig MIG-1c", "2.sms 16")
    assert rig.code("cuInit", 0) == (SUCCESS if names else NO_DEVICE)
    count = rig.get("cuDeviceGetCount", kind=ctypes.c_int) if names else 0
    assert [name_of(rig, device) for device in range(count)] == names


def test_instances_are_not_seen_without_a_name(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    rig.fake.set("devices 2", "0.name A", "1.mig MIG-1c")
    rig.call("cuInit", 0)
    assert rig.get("cuDeviceGetCount", kind=ctypes.c_int) == 1


def test_a_process_reads_the_settings_beside_the_library(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    library = with_settings(tmp_path, f"# a small one\ndevices 3\nlog {log}\ninject cuDeviceGetCount 999 2\n")
    script = "n = ctypes.c_int()\nprint(library.cuInit(0))\n" + "print(library.cuDeviceGetCount(ctypes.byref(n)))\n" * 2
    assert python(script + "print(n.value)", library).split() == ["0", "0", "999", "3"]
    assert log.read_text().splitlines()[-1] == "cuDeviceGetCount() = CUDA_ERROR_UNKNOWN"


def test_a_process_reads_the_settings_file_from_its_environment(tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("init_result 803\n")
    assert python("print(library.cuInit(0))", build(), VGC_FAKE_CUDA=str(tmp_path / "settings")) == "803\n"


def test_a_driver_with_a_wrong_setting_does_not_start(tmp_path: Path) -> None:
    library = with_settings(tmp_path, "device 3\n")
    assert python("print(library.cuInit(0))", library) == "802\n"


def test_a_process_reports_its_leaks_at_its_end(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    library = with_settings(tmp_path, f"log {log}\n")
    script = """
value = ctypes.c_uint64()
library.cuInit(0)
library.cuDevicePrimaryCtxRetain(ctypes.byref(value), 0)
library.cuCtxSetCurrent(value)
library.cuStreamCreate(ctypes.byref(value), 1)
"""
    python(script, library)
    assert [line for line in log.read_text().splitlines() if "leak" in line] == ["leak: 1 contexts", "leak: 1 streams"]


# ---- likeness to the real driver -----------------------------------------------------------------

PRINT = """
import numpy as np
from cuda.bindings import driver
from tests.fakes.cuda_cubin import all_kernels
def ok(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) > 1 else None
ok(driver.cuInit(0))
context = ok(driver.cuDevicePrimaryCtxRetain(0))
ok(driver.cuCtxSetCurrent(context))
module = ok(driver.cuModuleLoadData(all_kernels()))
prints = ok(driver.cuModuleGetFunction(module, b"prints"))
stream = ok(driver.cuStreamCreate(1))
count = np.array([2], np.uint32)
ok(driver.cuLaunchKernel(prints, 1, 1, 1, 1, 1, 1, 0, stream, np.array([count.ctypes.data], np.uint64), 0))
"""


def test_output_of_kernels_appears_at_the_next_synchronisation() -> None:
    script = PRINT + "print('before', flush=True)\nok(driver.cuStreamSynchronize(stream))\n"
    assert python(script, build()) == "before\nhello 0\nhello 1\n"


def test_cuda_bindings_work_with_it() -> None:
    script = """
import numpy as np
from cuda.bindings import driver
from tests.fakes.cuda_cubin import all_kernels
def ok(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) > 1 else None
ok(driver.cuInit(0))
whole = ok(driver.cuDeviceGetDevResource(0, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
_, groups, count, rest = driver.cuDevSmResourceSplitByCount(1, whole, 0, 20)
print(whole.sm.smCount, groups[0].sm.smCount, count, rest.sm.smCount)
primary = ok(driver.cuDevicePrimaryCtxRetain(0))
green = ok(driver.cuGreenCtxCreate(ok(driver.cuDevResourceGenerateDesc(groups, 1)), 0, 1))
ok(driver.cuCtxSetCurrent(ok(driver.cuCtxFromGreenCtx(green))))
stream = ok(driver.cuStreamCreate(1))
address = ok(driver.cuMemAlloc(40))
data = np.arange(10, dtype=np.uint32)
ok(driver.cuMemcpyHtoDAsync(address, data.ctypes.data, 40, stream))
function = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(all_kernels())), b"add_one"))
params = [np.array([int(address)], np.uint64), np.array([10], np.uint32)]
ok(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, np.array([p.ctypes.data for p in params], np.uint64), 0))
ok(driver.cuMemcpyDtoHAsync(data.ctypes.data, address, 40, stream))
ok(driver.cuStreamSynchronize(stream))
print(*data)
"""
    assert python(script, build()) == "132 24 1 108\n1 2 3 4 5 6 7 8 9 10\n"


def test_nvrtc_works_beside_it(real_cubin: bytes) -> None:
    """NVRTC loads the driver too, if there is one, and looks up functions that the fake does not have."""
    assert len(real_cubin) > 1000, "without the fake"
    if "LD_PRELOAD" in os.environ:
        pytest.skip("NVRTC does not find its parts under a sanitizer's dlopen")
    script = NVRTC.replace("sys.stdout.buffer.write(image)", "print(len(image) > 1000)")
    assert python(script, build()) == "True\n"


def test_cuda_bindings_say_which_function_is_missing(tmp_path: Path) -> None:
    library = with_settings(tmp_path, "driver_version 12020\nhide cuGreenCtxCreate\n")
    script = """
from cuda.bindings import driver
print(driver.cuInit(0)[0], driver.cuDriverGetVersion()[1])
try:
    driver.cuGreenCtxDestroy(driver.CUgreenCtx(1))
except RuntimeError as error:
    print(error)
"""
    assert "cuGreenCtxDestroy" in python(script, library).splitlines()[-1]


NVRTC = """
import sys
from cuda.bindings import nvrtc
source = b'''
__device__ unsigned start = 41;
extern "C" __global__ void add_one(unsigned *data, unsigned count) { if (threadIdx.x < count) data[threadIdx.x]++; }
__global__ void __launch_bounds__(96) empty() { __shared__ volatile int a[8]; a[threadIdx.x & 7] = start; }
'''
program = nvrtc.nvrtcCreateProgram(source, b"a.cu", 0, [], [])[1]
assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])[0]) == 0
image = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
nvrtc.nvrtcGetCUBIN(program, image)
sys.stdout.buffer.write(image)
"""


@pytest.fixture(scope="module")
def real_cubin() -> bytes:
    """A cubin of two kernels and a variable by a real compiler."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs the package cuda-bindings")
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [sys.executable, "-c", NVRTC], capture_output=True, env=plain, check=False, timeout=HANGS_AFTER_S
    )
    if b"libnvrtc" in done.stderr:
        pytest.skip("needs the package nvidia-cuda-nvrtc")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_real_cubins_are_read(rig: Rig, real_cubin: bytes) -> None:
    rig.start()
    module = rig.module(real_cubin)
    address, size = ctypes.c_uint64(), ctypes.c_size_t()
    rig.call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, b"start")
    rig.add_one(rig.kernel("add_one", module), address.value, 1)
    rig.call("cuCtxSynchronize")
    assert rig.read(address.value, size.value) == struct.pack("<I", 42)
    empty = rig.kernel("_Z5emptyv", module)
    assert [rig.get("cuFuncGetAttribute", key, empty, kind=ctypes.c_int) for key in (0, 1)] == [96, 32]
    rig.launch(empty)
    assert rig.fake.misuses() == []


def test_handmade_cubins_have_the_headers_of_real_ones(real_cubin: bytes) -> None:
    """Compares the parts of the header that readers use."""
    made, real = all_kernels(), real_cubin
    assert made[:9] == real[:9]
    assert struct.unpack_from("<HHI", made, 16) == struct.unpack_from("<HHI", real, 16)
    assert struct.unpack_from("<I", made, 48)[0] >> 8 & 0xFF == struct.unpack_from("<I", real, 48)[0] >> 8 & 0xFF == 90


def cuda_header() -> Path:
    """Path of the folder of NVIDIA's cuda.h."""
    wheel = Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages/nvidia/cu13/include")
    for folder in (wheel, Path("/usr/local/cuda/include")):
        if (folder / "cuda.h").exists():
            return folder
    pytest.skip("no cuda.h here: it comes with the package nvidia-cuda-runtime")


def compile_with_real_header(source: Path) -> subprocess.CompletedProcess[str]:
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-DFAKE_REAL_HEADER", f"-I{cuda_header()}"]
    return subprocess.run(
        ["gcc", *flags, f"-I{SOURCES_DIR}", str(source)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )


@pytest.mark.parametrize("source", sources(), ids=lambda path: path.name)
def test_functions_are_as_nvidias_header_declares_them(source: Path) -> None:
    done = compile_with_real_header(source)
    assert done.returncode == 0, done.stderr


def test_a_function_that_differs_from_its_declaration_is_detected(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.c"
    text = (SOURCES_DIR / "event.c").read_text()
    wrong.write_text(
        text.replace("cuEventRecord(CUevent handle, CUstream on)", "cuEventRecord(CUevent handle, int on)")
    )
    log = compile_with_real_header(wrong).stderr
    assert "conflicting types" in log
    assert "cuEventRecord" in log


def test_the_constants_match_nvidias_header(tmp_path: Path) -> None:
    """Compares every number in abi.h and errors.h with cuda.h's."""
    listed = tmp_path / "constants.c"
    macros = subprocess.run(
        ["gcc", "-E", "-P", str(SOURCES_DIR / "abi.h")],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_AFTER_S,
    ).stdout
    words = macros.replace(",", " ").replace("{", " ").split()
    names = sorted({word for word in words if word.startswith("CU") and not word.endswith(";")})
    numbers = [name for name in names if name.isupper() and name.startswith(("CU_", "CUDA_"))]
    body = "".join(f'    printf("{name} %d\\n", (int){name});\n' for name in numbers)
    listed.write_text(f'#include "abi.h"\n#include <stdio.h>\nint main(void)\n{{\n{body}    return 0;\n}}\n')
    found = []
    for flags in ([], ["-DFAKE_REAL_HEADER", f"-I{cuda_header()}"]):
        program = tmp_path / f"constants{len(flags)}"
        subprocess.run(["gcc", *flags, f"-I{SOURCES_DIR}", "-o", program, listed], check=True, timeout=HANGS_AFTER_S)
        found.append(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
    assert len(numbers) > 150
    assert found[0] == found[1]
