"""NVRTC in a guest, and the linkers of what it makes: libnvrtc and libnvJitLink over the runtime, by programs in C and by
ctypes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.protocol.cudart_rig import HEADERS, SOURCES
from tests.protocol.guest_host import GuestHost, guest_host
from tests.protocol.test_cuda_driver import LIB64

VERSIONS: Final = {"11.2": (11, 8), "12": (12, 9), "13": (13, 0)}
ASKS: Final = r"""
import ctypes, sys
nvrtc = ctypes.CDLL(sys.argv[1])
major, minor = ctypes.c_int(), ctypes.c_int()
assert nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
assert nvrtc.nvrtcVersion(None, None) == 3
program, size = ctypes.c_void_p(), ctypes.c_size_t()
source = b'extern "C" __global__ void k(int *x) { *x = 1; }'
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None, None) == 0
result = nvrtc.nvrtcCompileProgram(program, 0, None)
assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
log = ctypes.create_string_buffer(size.value)
assert nvrtc.nvrtcGetProgramLog(program, log) == 0
print(major.value, minor.value, result, log.value.decode())
"""
LOOKS: Final = r"""
import ctypes, sys
nvrtc = ctypes.CDLL(sys.argv[1])
program, size = ctypes.c_void_p(), ctypes.c_size_t()
options = [word.encode() for word in sys.argv[3:]]
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), sys.argv[2].encode(), b"src/main.cu", 0, None, None) == 0
result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
log = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetProgramLog(program, log)
print(result, log.value.decode(), end="")
"""


FORKS: Final = r"""
import ctypes, os, sys
driver, nvrtc, linker = (ctypes.CDLL(path) for path in sys.argv[1:])

def compile(source):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"a.cu", 0, None, None) == 0
    result = nvrtc.nvrtcCompileProgram(program, 0, None)
    assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
    log = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetProgramLog(program, log) == 0
    assert result == 0, log.value.decode()
    assert nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
    image = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetPTX(program, image) == 0
    return image

def link(image):
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * 1)(b"-arch=sm_80")
    assert linker.__nvJitLinkCreate_12_0(ctypes.byref(handle), 1, options) == 0
    assert linker.__nvJitLinkAddData_12_0(handle, 2, image, ctypes.c_size_t(len(image)), b"a") == 0
    assert linker.__nvJitLinkComplete_12_0(handle) == 0
    assert linker.__nvJitLinkGetLinkedCubinSize_12_0(handle, ctypes.byref(size)) == 0
    linked = ctypes.create_string_buffer(size.value)
    assert linker.__nvJitLinkGetLinkedCubin_12_0(handle, linked) == 0
    return linked

def in_a_child(work):
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, work())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as found:
        image = found.read()
    assert os.waitpid(child, 0)[1] == 0
    return image

def grandchild():
    return in_a_child(lambda: link(compile(b'extern "C" __global__ void second(int *x) { *x = 2; }')))

context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuCtxSynchronize() == 0
first = in_a_child(lambda: compile(b'extern "C" __global__ void first(int *x) { *x = 1; }'))
refused = in_a_child(lambda: b"%d" % driver.cuCtxSynchronize())
second = in_a_child(grandchild)
for name, image in ((b"first", first), (b"second", second)):
    assert driver.cuModuleLoadData(ctypes.byref(module), image) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(kernel), module, name) == 0
print(refused.decode())
"""
"""A process that uses CUDA has its children compile and link, and loads what they make."""


def build(name: str, folder: Path, *libraries: str) -> Path:
    """Builds ``tests/cudart/NAME.c`` with libraries of the toolkit."""
    program = folder / name
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", f"-I{HEADERS}", "-o", str(program)]
    words = ["cc", *flags, str(SOURCES / f"{name}.c"), f"-L{LIB64}", *libraries, f"-Wl,-rpath,{LIB64}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_programs_compile_and_run(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "scale.h").write_text(
        '#pragma once\n#include "parts/factor.h"\ntemplate <typename T> __device__ T scale(T x) { return x * FACTOR; }\n'
    )
    (tmp_path / "parts/factor.h").write_text("#define FACTOR 3\n")
    done = host.run(build("nvrtc", tmp_path, "-lnvrtc", "-lcuda"), tmp_path)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


@pytest.mark.parametrize("form", ["-ptx", "-cubin"])
def test_programs_are_linked_and_run(host: GuestHost, tmp_path: Path, form: str) -> None:
    mynvcc, code = LIB64.parent / "bin/mynvcc", tmp_path / "code"
    options = [form, "-rdc=true", "-DFACTOR=2"]
    subprocess.run([mynvcc, *options, SOURCES / "links.cu", "-o", code], check=True, timeout=HANGS_AFTER_S)
    done = host.run(build("links", tmp_path, "-lnvJitLink", "-lnvrtc", "-lcuda"), tmp_path / "caller.ptx", code)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_damaged_images_are_refused(host: GuestHost, tmp_path: Path) -> None:
    done = host.run(build("damaged_images", tmp_path, "-lnvJitLink", "-lcuda"), tmp_path / "image")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "PASS"


def test_of_threads_that_destroy_a_handle_one_does(host: GuestHost, tmp_path: Path) -> None:
    done = host.run(build("destroyed_twice", tmp_path, "-lnvJitLink", "-lnvrtc", "-lcuda", "-pthread"))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


@pytest.mark.parametrize("soname", VERSIONS)
def test_each_library_tells_its_release_and_compiles_alone(host: GuestHost, soname: str) -> None:
    major, minor = VERSIONS[soname]
    done = host.python("-c", ASKS, LIB64 / f"libnvrtc.so.{soname}")
    assert (done.returncode, done.stdout) == (0, f"{major} {minor} 0 \n"), done.stderr


def test_children_of_a_process_that_uses_the_device_compile_and_link(host: GuestHost) -> None:
    libraries = [LIB64 / name for name in ("libcuda.so.1", "libnvrtc.so.13", "libnvJitLink.so.13")]
    done = host.python("-c", FORKS, *libraries)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr  # CUDA_ERROR_NOT_INITIALIZED


def test_without_a_device_the_log_says_so() -> None:
    done = subprocess.run(
        ["python3", "-c", ASKS, str(LIB64 / "libnvrtc.so.13")],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"VGC_MEMFD": ""},
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("13 0 11 nvrtc: error: the device that compiles cannot be used: ")


def looked(host: GuestHost, folder: Path, source: str, *options: str) -> str:
    done = host.run("python3", "-c", LOOKS, LIB64 / "libnvrtc.so.13", source, *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_headers_are_found_beside_the_source_and_in_folders(host: GuestHost, tmp_path: Path) -> None:
    for folder in ("src", "first", "second", "first/deep"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src/beside.h").write_text("#define BESIDE 1\n")
    (tmp_path / "first/n.h").write_text("#include_next <n.h>\n#if N != 2\n#error no\n#endif\n#include <deep/last.h>\n")
    (tmp_path / "second/n.h").write_text("#define N 2\n")
    (tmp_path / "first/deep/last.h").write_text('#include "../first.h"\n#define LAST 3\n')
    (tmp_path / "first/first.h").write_text("#define FIRST 4\n")
    source = '#include "beside.h"\n#include <n.h>\nstatic_assert(BESIDE + N + LAST + FIRST == 10, "");\n'
    assert looked(host, tmp_path, source, "-Ifirst", "--include-path=second") == "0 "
    without = looked(host, tmp_path, source, "-Ifirst", "-I", "second", "--no-source-include")
    assert without.startswith("6 ")
    assert "'beside.h' file not found" in without
    assert looked(host, tmp_path, "static_assert(N == 2);\n", "-Isecond", "-include", "n.h", "-std=c++17") == "0 "
    asked = '#if !__has_include(<n.h>) || __has_include("absent.h")\n#error no\n#endif\n'
    assert looked(host, tmp_path, asked, f"-I{tmp_path / 'second'}") == "0 "


def test_errors_name_the_source_and_the_header(host: GuestHost, tmp_path: Path) -> None:
    assert "src/main.cu:2:1: error" in looked(host, tmp_path, "\nnonsense;\n")
    (tmp_path / "broken.h").write_text("\n\nnonsense;\n")
    assert f"{tmp_path}/broken.h:3:1: error" in looked(host, tmp_path, "#include <broken.h>\n", f"-I{tmp_path}")


def test_the_hosts_own_headers_are_not_taken_from_the_guest(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "cuda_runtime.h").write_text("#error taken from the guest\n")
    (tmp_path / "cuda_fp16.h").write_text("#error taken from the guest\n")
    source = (
        "#include <cuda_fp16.h>\n#include <stdint.h>\n__device__ uint32_t f(__half x) { return uint32_t(float(x)); }\n"
    )
    assert looked(host, tmp_path, source, f"-I{tmp_path}", "-I/usr/include") == "0 "


def test_half_floats_of_a_package_are_not_taken_from_the_guest(host: GuestHost, tmp_path: Path) -> None:
    """Some packages, as numba, have a folder with these headers of NVIDIA's alone."""
    for name in ("cuda_fp16.h", "cuda_bf16.h"):
        (tmp_path / name).write_text("#error taken from the guest\n")
    source = "#include <cuda_bf16.h>\n__device__ float f(__nv_bfloat16 x) { return x; }\n"
    assert looked(host, tmp_path, source, f"-I{tmp_path}") == "0 "
