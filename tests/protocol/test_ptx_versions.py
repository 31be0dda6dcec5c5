"""PTX of a version that the host's tools do not know, loaded by a guest's program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.fakes.guest import REPOSITORY
from tests.protocol.fake_gpu import fake_gpu_host
from tests.unit.cuda_compile_rig import needs_nvcc

LIBCUDA: Final = REPOSITORY / "guest_driver/cuda/build/toolkit/lib64/libcuda.so.1"
UNSUPPORTED_PTX_VERSION: Final = 222
LOADS: Final = r"""
import ctypes, sys

cuda = ctypes.CDLL(sys.argv[1])
device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
log = ctypes.create_string_buffer(2000)
options, values = (ctypes.c_int * 2)(5, 6), (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
for version in sys.argv[2:]:
    text = f".version {version}\n.target sm_80\n.address_size 64\n.visible .entry kernel() {{ ret; }}\n"
    print(cuda.cuModuleLoadDataEx(ctypes.byref(module), text.encode(), 2, options, values), log.value.decode())
"""


@needs_nvcc
def test_ptxas_of_the_host_is_too_old(tmp_path: Path) -> None:
    with fake_gpu_host(tmp_path) as (host, _):
        done = host.run(sys.executable, "-c", LOADS, LIBCUDA, "99.9")
    assert done.stdout.startswith(f"{UNSUPPORTED_PTX_VERSION} "), done.stdout + done.stderr
    assert "Unsupported .version 99.9; current version is " in done.stdout
