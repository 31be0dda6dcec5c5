"""cuBLAS, cuFFT and cuDNN without a GPU, for processes that have loaded the fake driver (`tests.fakes.cuda_driver`), in whose
memory and streams they compute.

Calls, misuse and injected errors are the fake driver's: `FakeDriver.inject("cublasCreate_v2", 3)`, for example.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.fakes.cuda_driver import REPOSITORY, SOURCES_DIR
from virtio_proto.build_vring import cflags, ldflags

HERE: Final = Path(__file__).resolve().parent / "cuda_libraries"
ABI: Final = [REPOSITORY / f"vhost_backend/engines/cuda/cuda_{name}_abi.h" for name in ("libraries", "dnn")]
SONAMES: Final = {"cublas": "libcublas.so.13", "cufft": "libcufft.so.12", "cudnn": "libcudnn.so.9"}
"""Names of the libraries' files, as in CUDA 13."""


@functools.cache
def build(name: str, hidden: tuple[str, ...] = ()) -> Path:
    """Path of the fake of a library, "cublas", "cufft" or "cudnn", without the functions `hidden`; built if necessary."""
    source = HERE / f"{name}.c"
    digest = hashlib.sha256(repr((cflags(), ldflags(), hidden)).encode())
    for path in (source, *ABI, *sorted(SOURCES_DIR.glob("*.h"))):
        digest.update(path.read_bytes())
    folder = REPOSITORY / "build" / "fake-cuda-libraries" / digest.hexdigest()[:16]
    library = folder / SONAMES[name]
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            _compile(source, Path(work, library.name), Path(work, "symbols.map"), hidden)
            Path(work, library.name).rename(library)  # atomic: another process may be loading it
    return library


def _compile(source: Path, to: Path, script: Path, hidden: tuple[str, ...]) -> None:
    script.write_text(f"{{ global: cu*; local: {''.join(f'{name}; ' for name in hidden)}*; }};\n")
    # Its code stays when a process closes it: work of streams, and the fake driver's log of calls, refer to it.
    link = ["-shared", "-lm", "-Wl,-z,nodelete", f"-Wl,-soname,{to.name}", f"-Wl,--version-script={script}"]
    flags = [*cflags(), "-fPIC", "-fvisibility=hidden", f"-I{REPOSITORY}"]
    command = ["gcc", *flags, "-o", str(to), str(source), *link, *ldflags()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the fake of {source.stem} does not compile:\n{done.stderr}")
