"""libcudart with two devices: which of them a program sees, by VGC_DEVICE and CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_programs import TOOLKIT
from tests.protocol.cudart_rig import build_program
from tests.protocol.guest_host import guest_host

Seen = Callable[..., str]

NO_DEVICE = 100
"""Number of the error for both APIs."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Runs the program with variables set, and tells which devices it saw: "ab" for both in their order."""
    folder = tmp_path_factory.mktemp("devices")
    program = build_program("devices", folder)
    with guest_host(folder / "first") as first, guest_host(folder / "second", memory_mib=32) as second:
        links = (first.link, second.link)
        described = ";".join(link.description.replace("name=", f"name={i}-") for i, link in enumerate(links))
        unset = {"VGC_DEVICE", "CUDA_VISIBLE_DEVICES"}
        plain = {name: value for name, value in os.environ.items() if name not in unset}
        plain |= {"VGC_MEMFD": described, "VGC_STATE_DIR": str(folder / "state")}

        def lines(**variables: str) -> list[str]:
            done = subprocess.run(
                [program],
                check=False,
                env=plain | variables,
                pass_fds=[fd for link in links for fd in link.fds],
                capture_output=True,
                text=True,
                timeout=HANGS_AFTER_S,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.split()

        names = {"64": "a", "32": "b"}
        yield lambda **variables: "".join(names[line] for line in lines(**variables))


@pytest.mark.parametrize(
    ("visible", "devices"), [("0", "a"), ("1", "b"), ("1,0", "ba"), ("1,7,0", "b"), ("-1", ""), ("", "")]
)
def test_cuda_visible_devices_names_devices_in_its_order(seen: Seen, visible: str, devices: str) -> None:
    assert seen(CUDA_VISIBLE_DEVICES=visible) == devices


def test_all_devices_are_seen_if_nothing_is_said(seen: Seen) -> None:
    assert seen() == "ab"


def test_vgc_device_comes_before_cuda_visible_devices(seen: Seen) -> None:
    assert seen(VGC_DEVICE="1", CUDA_VISIBLE_DEVICES="0") == "b"


@pytest.mark.parametrize("variable", ["VGC_DEVICE", "CUDA_VISIBLE_DEVICES"])
def test_a_variable_that_hides_all_devices_is_named(tmp_path: Path, variable: str) -> None:
    """For calls of the runtime and of the driver API; many CI systems set one for all jobs."""
    code = f"import ctypes; assert ctypes.CDLL('{TOOLKIT / 'lib64'}/{{}}').{{}}"
    with guest_host(tmp_path) as host:
        for library, call in (
            ("libcudart.so.12", "cudaSetDevice(0)"),
            ("libcudart.so.12", "cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))"),
            ("libcuda.so.1", "cuInit(0)"),
        ):
            program = [sys.executable, "-c", code.format(library, f"{call} == {NO_DEVICE}")]
            done = host.run("env", "VGC_VERBOSE=1", f"{variable}=7,8", *program)
            assert done.returncode == 0, done.stderr
            assert f"{variable} is '7,8', which names none of this machine's devices\n" in done.stderr
        done = host.python("-m", "guest_driver", "last-error")
        assert f"cudaErrorNoDevice: {variable} is '7,8'" in done.stdout
