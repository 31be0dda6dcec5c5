"""Builds pycuda against NVIDIA's wheels and installs it into the current environment.

::

    python -m tools.pycuda

pycuda has no wheels, and its build expects a whole CUDA toolkit with cuRAND, and the driver's library. Less is enough:
almost all headers are in the wheel ``nvidia-cuda-runtime``, cuRAND can be left out, and for linking a library suffices
that has the driver's names and soname (`driver_stub`). Two minutes on two cores; the result stays in the cache.

Only the tests that compare with a native program on a GPU (tests/gpu) need it. The engine does not use pycuda.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Final

from tools.common import cache_folder, die, digest_of, locked, say
from vhost_backend.engines.cuda.toolkits import Toolkit, installed, version_text

VERSION: Final = "2026.1"
SOURCE: Final = (
    "https://files.pythonhosted.org/packages/75/93/36ffd54430924dcb03a88c97519d56589e573d0dcc999c77a4c4d8a90306/"
    f"pycuda-{VERSION}.tar.gz"
)
SHA256: Final = "759516160628ba06f32ce7e563e3f5b9214691dc9528a03ea99ea1073f4e14ba"

PROFILER_HEADER: Final = """
#include <cuda.h>
typedef enum { CU_OUT_KEY_VALUE_PAIR, CU_OUT_CSV } CUoutput_mode;
inline CUresult cuProfilerInitialize(const char *, const char *, CUoutput_mode) { return CUDA_ERROR_NOT_SUPPORTED; }
extern "C" CUresult cuProfilerStart(void);
extern "C" CUresult cuProfilerStop(void);
"""
"""The part of ``cudaProfiler.h`` that pycuda uses; no wheel has that header. The first function is long deprecated."""

_SHOWN_OF_A_LOG: Final = 2000
_DECLARED: Final = re.compile(r"\bCUresult\s+(?:CUDAAPI\s+)?(cu\w+)\(")
_RENAMED: Final = re.compile(r"^\s*#\s*define\s+cu\w+\s+(cu\w+)\s*$", re.MULTILINE)


def driver_stub(header: Path, folder: Path) -> None:
    """Makes a ``libcuda.so`` in `folder` that has every function of `header` and does nothing, and ``cudaProfiler.h``.

    An empty library would not suffice: a linker that drops needless libraries leaves out libcuda.so.1, and importing
    pycuda then fails with an undefined symbol.
    """
    text = header.read_text()
    (folder / "cudaProfiler.h").write_text(PROFILER_HEADER)
    text += PROFILER_HEADER
    names = {*_DECLARED.findall(text), *_RENAMED.findall(text)}
    source = folder / "stub.c"
    source.write_text("".join(f"void {name}(void) {{}}\n" for name in sorted(names)))
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o", str(folder / "libcuda.so")]
    subprocess.run(command, check=True)


def main() -> None:
    """Builds pycuda unless it is in the cache, and installs it."""
    toolkit = next((kit for kit in installed() if _header(kit) is not None), None)
    if toolkit is None:
        die("no cuda.h is here", hint="pip install -e '.[cuda]'")
    for tool in ("cc", "c++"):
        if shutil.which(tool) is None:
            die(f"{tool} is missing", hint="apt install g++")
    recipe = digest_of([Path(__file__)], sysconfig.get_python_version(), version_text(toolkit.version))
    folder = cache_folder() / f"pycuda-{VERSION}-{recipe}"
    with locked(cache_folder() / "pycuda.lock"):
        if not list(folder.glob("*.whl")):
            _build(toolkit, folder)
    (wheel,) = folder.glob("*.whl")
    say(f"installing {wheel.name} from the cache")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", str(wheel)]
    _run(pip)
    _run([*pip, "--force-reinstall", "--no-deps"])  # a different build of the same version may be installed


def _header(kit: Toolkit) -> Path | None:
    return next((path for folder in kit.include_dirs if (path := folder / "cuda.h").exists()), None)


def _build(toolkit: Toolkit, into: Path) -> None:
    header = _header(toolkit)
    assert header is not None
    with tempfile.TemporaryDirectory(prefix="pycuda-") as name:
        work = Path(name)
        tree = _unpacked(work)
        driver_stub(header, work)
        say(f"building pycuda {VERSION} against {toolkit}: about two minutes")
        configuration = [
            f"--cuda-inc-dir={header.parent},{work}",
            "--cxxflags=-w",
            f"--cudadrv-lib-dir={work}",
            "--no-cuda-enable-curand",
        ]
        _run([sys.executable, "configure.py", *configuration], tree)
        made = work / "made"
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        _run([*pip, "--wheel-dir", str(made), "."], tree)
        into.mkdir(parents=True, exist_ok=True)
        for wheel in made.glob("*.whl"):
            shutil.copy(wheel, into / wheel.name)


def _unpacked(work: Path) -> Path:
    """Downloads, checks and unpacks the source tree."""
    say(f"fetching {SOURCE}")
    archive = work / "pycuda.tar.gz"
    with urllib.request.urlopen(SOURCE, timeout=60) as response:
        archive.write_bytes(response.read())
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        die(f"{SOURCE} has SHA-256 {found}, not {SHA256}")
    with tarfile.open(archive) as tar:
        tar.extractall(work, filter="data")
    return work / f"pycuda-{VERSION}"


def _run(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        die(f"{' '.join(command[:4])} failed, with this at the end:\n{done.stdout[-_SHOWN_OF_A_LOG:]}")


if __name__ == "__main__":
    main()
