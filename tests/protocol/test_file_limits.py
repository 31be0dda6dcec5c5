"""Programs whose files are limited (``ulimit -f``): libvgc and the CUDA runtime write none that would end them by a signal."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.protocol.guest_host import GuestHost, guest_host
from tests.protocol.test_cuda_driver import LIB64

USES: Final = """
import resource, signal, sys
import guest_driver as vgc

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, other programs do not
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
try:
    with vgc.Device() as device:
        print(device.usage().generation)
except vgc.VgcError as error:
    print(error)
"""
FAILS: Final = """
import ctypes, resource, signal, sys

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
runtime = ctypes.CDLL(sys.argv[1])
print(runtime.cudaSetDevice(77))  # an error, whose words are kept in a file elsewhere
"""


def test_device_is_refused_in_words_until_its_file_is_there(tmp_path: Path) -> None:
    with guest_host(tmp_path) as host:
        done = host.python("-c", USES, "512")
        assert done.returncode == 0, done.stderr
        assert "more than files of this program may have (ulimit -f)" in done.stdout
        assert_uses(host, "1_000_000_000")
        assert_uses(host, "0")


def assert_uses(host: GuestHost, limit: str) -> None:
    done = host.python("-c", USES, limit)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_errors_of_cuda_s_end_no_program(tmp_path: Path) -> None:
    with guest_host(tmp_path) as host:
        assert_uses(host, "1_000_000_000")
        done = host.python("-c", FAILS, LIB64 / "libcudart.so.12")
        assert (done.returncode, done.stdout) == (0, "101\n"), done.stderr
