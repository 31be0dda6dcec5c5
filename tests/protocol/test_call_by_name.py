"""The examples of calls by name against a whole host, with and without a device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host

LIBVGC = REPOSITORY / "guest_driver" / "libvgc"
EXAMPLES = REPOSITORY / "examples"
SIDES = re.compile(r"(\d+) calls on the device, (\d+) on the CPU: right")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C example, linked to libvgc.so as it is built."""
    program = tmp_path_factory.mktemp("program") / "call_by_name"
    library = Path(os.environ.get("VGC_LIBRARY") or LIBVGC / "build" / "libvgc.so")
    words = ["cc", "-Wall", "-Werror", f"-I{LIBVGC}", EXAMPLES / "call_by_name.c", "-o", program, library, "-pthread"]
    subprocess.run([*map(str, words), f"-Wl,-rpath,{library.parent}"], check=True)
    return program


def sides(output: str) -> list[tuple[int, int]]:
    return [(int(device), int(cpu)) for device, cpu in SIDES.findall(output)]


def run(host: GuestHost, times: Path | str, *words: str | Path, side: str = "") -> str:
    done = host.run("env", f"VGC_CHOICE_FILE={times}", f"VGC_SIDE={side}", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def words_of(program: Path, language: str) -> list[str | Path]:
    return [program] if language == "c" else [sys.executable, "examples/call_by_name.py"]


@pytest.mark.parametrize("language", ["c", "python"])
def test_both_sides_compute_the_same(host: GuestHost, program: Path, language: str) -> None:
    words = words_of(program, language)
    assert {cpu for _, cpu in sides(run(host, "", *words, side="host"))} == {0}
    assert {device for device, _ in sides(run(host, "", *words, side="cpu"))} == {0}


@pytest.mark.parametrize(("language", "name"), [("c", "smooth"), ("python", "distances")])
def test_choice_is_explained_by_what_was_measured(
    host: GuestHost, program: Path, tmp_path: Path, language: str, name: str
) -> None:
    found = sides(run(host, tmp_path / "times", *words_of(program, language)))
    assert all(device + cpu == 30 for device, cpu in found)
    assert sum(device for device, _ in found) > 0
    assert sum(cpu for _, cpu in found) > 0
    told = run(host, tmp_path / "times", sys.executable, "-m", "guest_driver", "explain", name)
    assert told.startswith(f"{name}: by the bytes of its buffers; times in {tmp_path / 'times'}\n")
    assert len(told.splitlines()) >= 3 + len(found) - 1


@pytest.mark.parametrize("language", ["c", "python"])
def test_without_a_device_all_calls_run_here(program: Path, language: str) -> None:
    environment = os.environ | {"VGC_CHOICE_FILE": "", "VGC_SIDE": "", "PYTHONPATH": str(REPOSITORY)}
    environment.pop("VGC_MEMFD", None)
    done = subprocess.run(
        [str(word) for word in words_of(program, language)],
        check=False,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("no device: ")
    assert {device for device, _ in sides(done.stdout)} == {0}


LOSING = """
import numpy as np
import guest_driver as vgc
dev = vgc.Device()
dev.compile('extern "C" __global__ void fill(float *x) { x[threadIdx.x] += 1; }')
dev.functions.register("fill", lambda x: np.add(x, 1, out=x))
x = np.zeros(32, np.float32)
def call():
    outcome = dev.call_named("fill", vgc.InOut(x), block=32, side="host", falls_back=True)
    print(outcome.side, outcome.fell_back, type(outcome.host_error).__name__, set(x.tolist()), flush=True)
call()
input()
call()
call()
dev.reset()
dev.compile('extern "C" __global__ void fill(float *x) { x[threadIdx.x] += 1; }')
call()
"""


def test_calls_go_on_when_the_worker_is_lost_and_go_back_when_it_was_replaced(tmp_path: Path) -> None:
    with guest_host(tmp_path) as host:
        place = {"VGC_MEMFD": host.link.description, "VGC_STATE_DIR": str(host.state_dir), "VGC_CHOICE_FILE": ""}
        process = subprocess.Popen(
            [sys.executable, "-c", LOSING],
            cwd=REPOSITORY,
            env=os.environ | place,
            pass_fds=host.link.fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "host False NoneType {1.0}\n"
        host.lose_worker()
        output, _ = process.communicate("\n", timeout=HANGS_AFTER_S)
    assert output.splitlines() == [
        "cpu True DeviceLost {2.0}",
        "cpu True DeviceLost {3.0}",
        "host False NoneType {4.0}",
    ]


BEYOND = """
import numpy as np
import guest_driver as vgc
dev = vgc.Device()
dev.compile('extern "C" __global__ void fill(float *x) { x[0] = 1; }')
held = dev.alloc(dev.info().memory_bytes - dev.usage().memory_used_bytes - (1 << 20))
dev.functions.register("fill", lambda x: x.fill(7))
x = np.zeros(1 << 20, np.float32)
outcome = dev.call_named("fill", vgc.InOut(x), side="host", falls_back=True)
print(outcome.side, outcome.fell_back, type(outcome.host_error).__name__, set(x.tolist()))
"""


def test_call_beyond_the_allotment_goes_on_on_the_cpu(host: GuestHost) -> None:
    done = host.python("-c", BEYOND)
    assert done.returncode == 0, done.stderr
    assert done.stdout in {"cpu True OutOfMemory {7.0}\n", "cpu True ResourcesExhausted {7.0}\n"}
