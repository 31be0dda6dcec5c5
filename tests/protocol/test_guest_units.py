"""Programs of several sources as a guest builds them: by `vgc run`, and in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.protocol.guest_host import GuestHost, guest_host

KERNELS = """
__device__ int twice(int);
static __device__ int calls;
extern "C" __global__ void double_all(int *values) {
    values[threadIdx.x] = twice(values[threadIdx.x]);
    atomicAdd(&calls, 1);
}
"""
FUNCTIONS = "static __device__ int calls; __device__ int twice(int x) { calls = 1; return 2 * x; }\n"

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
CALLER = f"""{HEADER}
.extern .func (.param .b32 r) next(.param .b32 x);
.visible .entry k(.param .u64 out) {{
    .reg .b64 d; .reg .b32 r; .param .b32 a, b;
    st.param.b32 [a], 20; call (b), next, (a); ld.param.b32 r, [b]; ld.param.u64 d, [out]; st.u32 [d], r; ret; }}
"""
CALLED = f"""{HEADER}
.visible .func (.param .b32 r) next(.param .b32 x) {{
    .reg .b32 v; ld.param.b32 v, [x]; add.u32 v, v, 1; st.param.b32 [r], v; ret; }}
"""

PYTHON = f"""
import numpy as np
import guest_driver as vgc
device = vgc.Device()
units = [vgc.Unit("kernels.cu", {KERNELS!r}), vgc.Unit("functions.cu", {FUNCTIONS!r})]
program = device.link(units, ["-std=c++17"])
values = device.to_device(np.arange(4, dtype="int32"))
program.double_all[1, 4](values)
print(values.get().tolist(), program.variable("calls@kernels.cu").size_bytes)
try:
    device.link(units[:1])
except vgc.CompileError as error:
    print(error.log)
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_command_links_several_files(host: GuestHost, tmp_path: Path) -> None:
    kernels, functions = tmp_path / "kernels.cu", tmp_path / "functions.cu"
    kernels.write_text(KERNELS)
    functions.write_text(FUNCTIONS)
    words = ["--kernel", "double_all", "--block", "8", "--arg", "rand:int32:8"]
    done = host.python("-m", "guest_driver", "run", kernels, functions, *words)
    assert done.returncode == 0, done.stderr
    alone = host.python("-m", "guest_driver", "run", kernels, *words)
    assert alone.returncode == 1
    assert "'twice(int)' is not defined" in alone.stderr
    binary = host.python("-m", "guest_driver", "run", kernels, tmp_path / "code.cubin", *words)
    assert "code.cubin: a cubin cannot be linked with other files; allowed: CUDA C, PTX, fatbins" in binary.stderr


def test_command_links_ptx_and_sources(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(CALLER)
    (tmp_path / "b.ptx").write_text(CALLED)
    (tmp_path / "b.cu").write_text('extern "C" __device__ int next(int x) { return x + 1; }')
    for name in ("b.ptx", "b.cu"):
        out = tmp_path / "out.npy"
        words = ["--kernel", "k", "--arg", f"out:int32:1:{out}"]
        done = host.python("-m", "guest_driver", "run", tmp_path / "a.ptx", tmp_path / name, *words)
        assert done.returncode == 0, done.stderr
        assert np.load(out).tolist() == [21]
        out.unlink()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("device.link('a.ptx')", "a str as a unit of a program; allowed: a list of Unit(name, source)"),
        ("device.link(Path('a.ptx'))", "a PosixPath as a unit of a program; allowed: a list of Unit(name, source)"),
        ("device.load_ptx('a.ptx')", "'a.ptx' as the text of a module; allowed: the text, or pathlib.Path('a.ptx')"),
        ("bool(device.zeros(3, 'bool'))", "an array of shape (3,) as one number; allowed: one element, as of any() or"),
        ("device.zeros(3, 'float32')[[0, 1]]", "behind them, or a numpy or device array, a mask or indices"),
    ],
)
def test_mistakes_of_beginners_say_what_is_allowed(host: GuestHost, statement: str, words: str) -> None:
    done = host.python(
        "-c", f"import guest_driver\nfrom pathlib import Path\ndevice = guest_driver.Device()\n{statement}"
    )
    assert words in done.stderr


def test_python_links_units(host: GuestHost) -> None:
    done = host.python("-c", PYTHON)
    assert done.returncode == 0, done.stderr
    assert "[0, 2, 4, 6] 4" in done.stdout
    assert "'twice(int)', which unit 'kernels.cu' uses, is defined in no unit" in done.stdout
