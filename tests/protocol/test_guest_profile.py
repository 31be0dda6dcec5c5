"""Hot lines of kernels as a guest sees them: by `vgc run --profile`, in Python, and when a profiled kernel faults."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from guest_driver.hot_lines import HotLines
from tests.protocol.guest_host import GuestHost, guest_host

SOURCE = """extern "C" __global__ void spin(float *a, int n) {
    float x = a[threadIdx.x];
    for (int i = 0; i < n; i++)
        x = x / (1.0f + x * x);
    for (int i = 0; i < n / 200; i++)
        x = x / (2.0f + x * x);
    a[threadIdx.x] = x;
}
extern "C" __global__ void wild(int *a, int n) {
    for (int i = 0; i < n; i++)
        a[i & 31] += i;
    *(volatile int *)(64 + threadIdx.x) = 1;
}
"""

UNITS = {
    "kernels.cu": """__device__ float turn(float, int);
extern "C" __global__ void spin(float *a, int n) {
    a[threadIdx.x] = turn(a[threadIdx.x], n);
}
""",
    "functions.cu": """__device__ float turn(float x, int n) {
    for (int i = 0; i < n; i++)
        x = x / (1.0f + x * x);
    return x;
}
""",
}

LINKED = f"""
import guest_driver as vgc
device = vgc.Device()
program = device.link([vgc.Unit(*unit) for unit in {UNITS!r}.items()], profile=True)
program.spin[4, 64](device.zeros(64), 2_000_000)
"""

PYTHON = f"""
import guest_driver as vgc
device = vgc.Device()
program = device.compile({SOURCE!r}, profile=True)
for _ in range(3):
    program.spin[4, 64](device.zeros(64), 2_000_000)
program.unload()
program = device.compile({SOURCE!r}, profile=True)
try:
    program.wild[1, 32](device.zeros(32, "int32"), 4_000_000)
except vgc.errors.VgcError as error:
    print("caught", error)
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_vgc_run_shows_hot_lines_with_their_text(host: GuestHost, tmp_path: Path) -> None:
    path = tmp_path / "spin.cu"
    path.write_text(SOURCE)
    words = ["--kernel", "spin", "--grid", "4", "--block", "64", "--arg", "rand:float32:64", "--arg", "int:8000000"]
    done = host.python("-m", "guest_driver", "run", "--profile", path, *words)
    assert done.returncode == 0, done.stderr
    assert "profile: " not in done.stdout
    found = re.search(
        r"hot lines of kernel 'spin', (\d+) samples:\n +([\d.]+)%  spin\.cu:4 +x = x / \(1\.0f", done.stdout
    )
    assert found is not None, done.stdout
    assert float(found[2]) > 50


def test_vgc_run_shows_the_file_of_each_hot_line(host: GuestHost, tmp_path: Path) -> None:
    for name, text in UNITS.items():
        (tmp_path / name).write_text(text)
    words = ["--kernel", "spin", "--grid", "4", "--block", "64", "--arg", "rand:float32:64", "--arg", "int:8000000"]
    files = [tmp_path / name for name in UNITS]
    done = host.python("-m", "guest_driver", "run", "--profile", *files, *words)
    assert done.returncode == 0, done.stderr
    assert re.search(r"kernel 'spin', \d+ samples:\n +[\d.]+%  functions\.cu:3 +x = x / \(1\.0f", done.stdout), (
        done.stdout
    )


def test_python_profiles_linked_programs(host: GuestHost) -> None:
    done = host.python("-c", LINKED)
    assert done.returncode == 0, done.stderr
    assert re.search(r"profile: functions\.cu:3: \d+ of \d+ samples in kernel 'spin'", done.stdout), done.stdout


def test_python_programs_print_profiles_and_faults_name_lines(host: GuestHost) -> None:
    done = host.python("-c", PYTHON)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"profile: source\.cu:4: \d+ of \d+ samples in kernel 'spin'", done.stdout)) == 3
    assert re.search(r"caught .*invalid address 0x\w+ at source\.cu:12 in kernel 'wild'", done.stdout), done.stdout


def test_text_of_kernels_passes_through() -> None:
    shown = io.StringIO()
    lines = HotLines(shown)
    for text in ("hello ", "world\nprofile: source.cu:2: 30 of ", "40 samples in kernel 'k'\nprofile: mine\n", "pro"):
        lines.write(text)
    lines.write("file\nprofile: other code: 10 of 40 samples in kernel 'k'\nprofile: source.cu:9: 0 of 0")
    lines.flush()
    assert shown.getvalue() == "hello world\nprofile: mine\nprofile\n"
    assert lines.table({"source.cu": ("a.cu", ["int a;", "  int b;"])}).splitlines() == [
        "hot lines of kernel 'k', 40 samples:",
        "  75.0%  a.cu:2            int b;",
        "  25.0%  other code",
    ]
