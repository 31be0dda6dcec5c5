"""NVML in a guest: libnvidia-ml.so.1, by a program in C, by the package nvidia-ml-py, unmodified, and by ctypes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_host import Settings, cuda_link
from tests.protocol.cudart_rig import HEADERS, SOURCES
from tests.protocol.guest_host import GuestHost, guest_host, run_on

TOOLKIT: Final = REPOSITORY / "guest_driver/cuda/build/toolkit"
LIB64: Final = TOOLKIT / "lib64"
SOURCE: Final = REPOSITORY / "guest_driver/cuda/nvml"
PYNVML: Final = """
import ctypes, os, subprocess, sys
import pynvml as nvml
def refused(error, function, *arguments):
    try:
        function(*arguments)
    except nvml.NVMLError as told:
        assert told.value == error, told
    else:
        raise AssertionError(f"{function.__name__}{arguments} succeeded")
"""
"""Start of programs that use the package."""

WHOLE: Final = """
refused(nvml.NVML_ERROR_UNINITIALIZED, nvml.nvmlDeviceGetCount)
nvml.nvmlInit()
assert nvml.nvmlDeviceGetCount() == 1
device = nvml.nvmlDeviceGetHandleByIndex(0)
assert nvml.nvmlDeviceGetName(device).startswith("CPU, ")
assert nvml.nvmlDeviceGetUUID(device).startswith("GPU-")
assert nvml.nvmlSystemGetCudaDriverVersion() == 13000
assert nvml.nvmlSystemGetNVMLVersion() == "13." + nvml.nvmlSystemGetDriverVersion()
assert nvml.nvmlSystemGetDriverBranch().branch == nvml.nvmlSystemGetDriverVersion()
assert nvml.nvmlUnitGetCount() == 0 == nvml.nvmlGetExcludedDeviceCount()
refused(nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.nvmlUnitGetHandleByIndex, 0)
uuid = nvml.nvmlDeviceGetUUID(device)
named = nvml.c_nvmlUUID_t()
find = nvml._nvmlGetFunctionPointer("nvmlDeviceGetHandleByUUIDV")
for kind, text in ((1, uuid.encode()), (2, bytes.fromhex(uuid[4:].replace("-", "")))):
    found = nvml.c_nvmlDevice_t()
    named.type = kind
    ctypes.memmove(ctypes.addressof(named.value), text, len(text))
    assert find(ctypes.byref(named), ctypes.byref(found)) == 0, kind
    assert nvml.nvmlDeviceGetUUID(found) == uuid
for version, kind, error in (
    (0, 1, nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH),
    (nvml.nvmlUUID_v1, 0, nvml.NVML_ERROR_INVALID_ARGUMENT),
):
    named.version, named.type = version, kind
    assert find(ctypes.byref(named), ctypes.byref(found)) == error
assert nvml.nvmlDeviceGetComputeMode(device) == nvml.NVML_COMPUTEMODE_DEFAULT
assert nvml.nvmlDeviceGetBrand(device) == nvml.NVML_BRAND_UNKNOWN
assert nvml.nvmlDeviceGetDisplayActive(device) == nvml.NVML_FEATURE_DISABLED
assert nvml.nvmlDeviceIsMigDeviceHandle(device).value == 0  # a c_uint
assert nvml.nvmlDeviceGetMaxMigDeviceCount(device) == 0
memory, newer = nvml.nvmlDeviceGetMemoryInfo(device), nvml.nvmlDeviceGetMemoryInfo(device, nvml.nvmlMemory_v2)
assert (memory.total, memory.used, memory.free) == (newer.total, newer.used, newer.free)
assert memory.total == 64 << 20 == memory.used + memory.free
assert nvml.nvmlDeviceGetComputeRunningProcesses(device) == []  # asking is no computing
assert nvml.nvmlDeviceGetGraphicsRunningProcesses(device) == []
rates = nvml.nvmlDeviceGetUtilizationRates(device)
assert (rates.gpu, rates.memory) == (0, 0)
for ask in ("Temperature", "ClockInfo"):
    refused(nvml.NVML_ERROR_NOT_SUPPORTED, getattr(nvml, f"nvmlDeviceGet{ask}"), device, 0)
for ask in ("PowerUsage", "FanSpeed", "MigMode", "PersistenceMode", "BAR1MemoryInfo", "CurrPcieLinkWidth", "MinorNumber"):
    refused(nvml.NVML_ERROR_NOT_SUPPORTED, getattr(nvml, f"nvmlDeviceGet{ask}"), device)
refused(nvml.NVML_ERROR_NOT_SUPPORTED, nvml.nvmlEventSetCreate)
refused(nvml.NVML_ERROR_NOT_SUPPORTED, nvml.nvmlDeviceGetHandleBySerial, b"1")
refused(nvml.NVML_ERROR_FUNCTION_NOT_FOUND, nvml._nvmlGetFunctionPointer, "nvmlNothing")
assert nvml.nvmlErrorString(15) == "GPU is lost" and nvml.nvmlErrorString(998) == "Unknown Error"
nvml.nvmlShutdown()
refused(nvml.NVML_ERROR_UNINITIALIZED, nvml.nvmlDeviceGetName, device)
nvml.nvmlInit()
if os.fork() == 0:
    os._exit(0 if nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0)).total == 64 << 20 else 1)
assert os.wait()[1] == 0
print("PASS")
"""
REFUSALS: Final = """
library = ctypes.CDLL("libnvidia-ml.so.1")
device = ctypes.c_void_p()
names = [line.split() for line in open(sys.argv[1]) if not line.startswith("#")]
for name, _ in names:
    assert getattr(library, name)(device) == nvml.NVML_ERROR_UNINITIALIZED, name
nvml.nvmlInit()
assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
for name, kind in names:
    assert getattr(library, name)(device) == nvml.NVML_ERROR_NOT_SUPPORTED, name
    assert kind == "library" or getattr(library, name)(None) == nvml.NVML_ERROR_INVALID_ARGUMENT, name
print(len(names))
"""
SHARED: Final = """
OTHER = '''
import sys
import guest_driver as vgc
with vgc.Device() as device:
    kept = device.alloc(3 << 20)
    print("up", flush=True)
    sys.stdin.readline()
'''
import guest_driver as vgc
nvml.nvmlInit()
device = nvml.nvmlDeviceGetHandleByIndex(0)
held = vgc.Device()
own = held.alloc(1 << 20)
fds = [int(word) for word in os.environ["KEPT_FDS"].split(",")]
other = subprocess.Popen([sys.executable, "-c", OTHER], pass_fds=fds, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert other.stdout.readline() == b"up\\n"
found = {one.pid: one.usedGpuMemory for one in nvml.nvmlDeviceGetComputeRunningProcesses(device)}
assert found == {os.getpid(): 1 << 20, other.pid: 3 << 20}, found
assert nvml.nvmlSystemGetProcessName(other.pid) == sys.executable
assert nvml.nvmlDeviceGetMemoryInfo(device).used >= 4 << 20
class First(ctypes.Structure):  # as programs of NVML 1 have it
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]
first, count = (First * 2)(), ctypes.c_uint(2)
assert ctypes.CDLL("libnvidia-ml.so.1").nvmlDeviceGetComputeRunningProcesses(device, ctypes.byref(count), first) == 0
assert {one.pid: one.used for one in first[:count.value]} == found
other.kill()
other.wait()
assert [one.pid for one in nvml.nvmlDeviceGetComputeRunningProcesses_v2(device)] == [os.getpid()]
assert nvml.nvmlDeviceGetMemoryInfo(device).used < 4 << 20
print("PASS")
"""
BUSY: Final = """
import threading
import guest_driver as vgc
SPIN = 'extern "C" __global__ void spin(int n, int *p) { for (int i = 0; i < n; i++) { *(volatile int *)p = i; } }'
nvml.nvmlInit()
device = nvml.nvmlDeviceGetHandleByIndex(0)
ends = threading.Event()
with vgc.Device() as computing:
    memory = computing.alloc(4)
    spin = computing.compile(SPIN).spin
    spin[1, 1](1, memory)
    def work():
        while not ends.is_set():
            spin[1, 1](1000000, memory)
    worker = threading.Thread(target=work)
    worker.start()
    rates = [nvml.nvmlDeviceGetUtilizationRates(device).gpu for _ in range(3)]
    ends.set()
    worker.join()
assert all(0 < rate <= 100 for rate in rates), rates
print("PASS")
"""
LOST: Final = """
nvml.nvmlInit()
device = nvml.nvmlDeviceGetHandleByIndex(0)
import guest_driver as vgc
opened = [vgc.Device() for _ in range(4)]
refused(nvml.NVML_ERROR_INSUFFICIENT_RESOURCES, nvml.nvmlDeviceGetMemoryInfo, device)
opened.pop().close()
assert nvml.nvmlDeviceGetMemoryInfo(device).total == 64 << 20
print("PASS")
"""
NONE: Final = """
refused(nvml.NVML_ERROR_DRIVER_NOT_LOADED, nvml.nvmlInit)
nvml.nvmlInitWithFlags(nvml.NVML_INIT_FLAG_NO_GPUS)
assert nvml.nvmlDeviceGetCount() == 0
refused(nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.nvmlDeviceGetHandleByIndex, 0)
refused(nvml.NVML_ERROR_NOT_FOUND, nvml.nvmlDeviceGetHandleByUUID, "GPU-0")
nvml.nvmlShutdown()
print("PASS")
"""
TWO: Final = """
nvml.nvmlInit()
assert nvml.nvmlDeviceGetCount() == 2
first, second = (nvml.nvmlDeviceGetHandleByIndex(i) for i in range(2))
assert [nvml.nvmlDeviceGetIndex(device) for device in (first, second)] == [0, 1]
names = [nvml.nvmlDeviceGetUUID(device) for device in (first, second)]
assert names[0] != names[1]
assert nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(names[1])) == 1
assert [nvml.nvmlDeviceGetMemoryInfo(device).total >> 20 for device in (first, second)] == [64, 32]
assert nvml.nvmlDeviceGetP2PStatus(first, second, 0) == nvml.NVML_P2P_STATUS_NOT_SUPPORTED
print("PASS")
"""

GPU: Final = """
nvml.nvmlInit()
device = nvml.nvmlDeviceGetHandleByIndex(0)
elements = nvml.nvmlDeviceGetAttributes(device).multiprocessorCount
major, minor = nvml.nvmlDeviceGetCudaComputeCapability(device)
print(nvml.nvmlDeviceGetName(device), elements, major, minor, nvml.nvmlDeviceGetNumGpuCores(device),
      nvml.nvmlDeviceGetArchitecture(device), nvml.nvmlDeviceGetEccMode(device), sep=";")
"""


def run(host: GuestHost, program: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a program that uses the package, with the library where the loader looks."""
    return run_on((host,), *python(program, f"KEPT_FDS={','.join(map(str, host.link.fds))}"), *words)


def python(program: str, *settings: str) -> list[str | Path]:
    return ["env", f"LD_LIBRARY_PATH={LIB64}", *settings, sys.executable, "-c", PYNVML + program]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_it_tells_of_a_device_as_the_driver_api_does(host: GuestHost, tmp_path: Path) -> None:
    program = tmp_path / "nvml"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", f"-I{HEADERS}", f"-I{TOOLKIT / 'include'}"]
    libraries = [f"-L{LIB64}", "-lcuda", "-lnvidia-ml", f"-Wl,-rpath,{LIB64}"]
    words: list[str | Path] = ["cc", *flags, "-o", program, SOURCES / "nvml.c", *libraries]
    built = subprocess.run(words, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert built.returncode == 0, built.stderr
    done = host.run(program)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


@pytest.mark.parametrize("program", [WHOLE, SHARED, BUSY, LOST], ids=["whole", "shared", "busy", "queues"])
def test_nvidias_package_works_unmodified(host: GuestHost, program: str) -> None:
    done = run(host, program)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_the_host_s_words_are_kept_for_last_error(host: GuestHost) -> None:
    assert run(host, LOST).stdout == "PASS\n"
    told = host.python("-m", "guest_driver", "last-error").stdout
    assert re.search(r"NVML, Insufficient Resources: .*all 4 queues .* are in use", told), told


def test_all_devices_are_shown_whatever_programs_may_use(host: GuestHost) -> None:
    program = "nvml.nvmlInit(); print(nvml.nvmlDeviceGetCount())"
    assert run_on((host,), *python(program, "CUDA_VISIBLE_DEVICES=")).stdout == "1\n"


def test_what_the_host_does_not_tell_is_not_supported(host: GuestHost) -> None:
    refusals = SOURCE / "refusals.txt"
    done = run(host, REFUSALS, refusals)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len([line for line in refusals.read_text().splitlines() if not line.startswith("#")])


def test_a_next_worker_is_asked_in_its_predecessor_s_place(tmp_path: Path) -> None:
    program = (
        "import guest_driver as vgc; nvml.nvmlInit(); print('up', nvml.nvmlDeviceGetMemoryInfo("
        "nvml.nvmlDeviceGetHandleByIndex(0)).used)"
    )
    with guest_host(tmp_path) as host:
        assert run(host, program).stdout == "up 0\n"
        host.lose_worker()
        assert run(host, program).stdout == "up 0\n"


def test_without_a_device_the_driver_is_not_loaded() -> None:
    done = subprocess.run(python(NONE), check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_two_devices(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with guest_host(tmp_path) as first, guest_host(tmp_path / "second", memory_mib=32, name="b") as second:
        done = run_on((first, second), *python(TWO))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_cores_of_a_gpu_are_those_of_the_vm_s_processing_elements(tmp_path: Path) -> None:
    with cuda_link(tmp_path, Settings(pes=48)) as link:
        environment = os.environ | {"VGC_MEMFD": link.description, "VGC_STATE_DIR": str(tmp_path / "state")}
        done = subprocess.run(
            python(GPU),
            check=False,
            env=environment,
            pass_fds=link.fds,
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
        )
    assert done.returncode == 0, done.stderr
    name, elements, major, minor, cores, architecture, ecc = done.stdout.strip().split(";")
    assert (name.split(",")[0], elements, major, minor) == ("Fake H200", "48", "9", "0")
    assert (cores, architecture, ecc) == (str(48 * 128), "9", "[1, 1]")


def test_the_library_has_what_its_header_declares(tmp_path: Path) -> None:
    header = (TOOLKIT / "include/nvml.h").read_text()
    declared = set(re.findall(r"^(?:nvmlReturn_t|const char \*) ?(nvml\w+)\(", header, flags=re.MULTILINE))
    words: list[str | Path] = ["nm", "-D", "--defined-only", LIB64 / "libnvidia-ml.so.1"]
    listing = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in listing.splitlines() if line.split()[-1].startswith("nvml")}
    assert len(declared) > 100
    assert declared <= exported
    refused = {line.split()[0] for line in (SOURCE / "refusals.txt").read_text().splitlines()} - {"#"}
    assert exported - refused <= declared
    source = tmp_path / "main.cpp"
    source.write_text("#include <nvml.h>\nint main() { return nvmlErrorString(nvmlInit()) == nullptr; }\n")
    words = ["c++", "-Wall", "-Werror", f"-I{TOOLKIT / 'include'}", "-o", tmp_path / "main", source]
    subprocess.run([*words, f"-L{LIB64 / 'stubs'}", "-lnvidia-ml"], check=True, timeout=HANGS_AFTER_S)
