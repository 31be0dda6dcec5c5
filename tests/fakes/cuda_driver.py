"""CUDA driver without a GPU: builds and controls the fake `libcuda.so.1` of `tests/fakes/cuda`.

`build` returns the library's path, for an engine option or a worker process; settings for such a process go into a file
beside a private copy of the library (`with_settings`). In a process that has loaded it, `FakeDriver` inspects it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from virtio_proto.build_vring import cflags, ldflags

HERE: Final = Path(__file__).resolve().parent
SOURCES_DIR: Final = HERE / "cuda"
REPOSITORY: Final = HERE.parent.parent
SONAME: Final = "libcuda.so.1"
CONTROL_DIR: Final = REPOSITORY / "kernels" / "control"
LINK: Final = REPOSITORY / "kernels" / "cuda" / "control" / "vgc_cuda_link.h"
CALLS: Final = REPOSITORY / "vhost_backend" / "engines" / "cuda" / "builtins" / "calls.h"
MISSING: Final = 2**64 - 1
_OUTSIDE: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t
)
STRICT: Final = ("start_ms 20", "slice_ms 2", "connections 32", "stack_growth 1")
"""Settings with which the fake is as strict as a GPU, see tests/fakes/cuda/README.md, except numbers of SMs."""
KEPT: Final = (
    *("contexts", "streams", "events", "modules", "pools", "device_allocations", "host_allocations"),
    *("reservations", "physical", "mappings", "arrays", "objects", "library_objects"),
)


def sources() -> list[Path]:
    """C files of the fake."""
    return sorted(SOURCES_DIR.glob("*.c"))


def _digest(hidden: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES_DIR.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for path in sorted([*CONTROL_DIR.rglob("*.h"), LINK, CALLS]):
        digest.update(path.read_bytes())
    digest.update(repr((cflags(), ldflags(), sorted(hidden))).encode())
    return digest.hexdigest()[:16]


def _version_script(hidden: Sequence[str]) -> str:
    local = "".join(f"{name}; " for name in hidden)
    return f"{{ global: cu*; fake_cuda_*; local: {local}*; }};\n"


def build(hidden: Sequence[str] = ()) -> Path:
    """Path of the library, which is built if necessary, without the symbols `hidden` for dlsym.

    Always the same for a process, even if sources are edited meanwhile, as it can load only one.
    """
    return _built(tuple(hidden))


@functools.cache
def _built(hidden: tuple[str, ...]) -> Path:
    folder = REPOSITORY / "build" / "fake-cuda" / _digest(hidden)
    library = folder / SONAME
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        script = Path(work, "symbols.map")
        script.write_text(_version_script(hidden))
        fresh = Path(work, SONAME)
        link = ["-shared", "-pthread", "-lm", f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={script}", *ldflags()]
        compile_flags = [*cflags(), "-fPIC", "-fvisibility=hidden", f"-I{REPOSITORY}"]
        command = ["gcc", *compile_flags, "-o", str(fresh), *map(str, sources()), *link]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the fake CUDA driver does not compile:\n{done.stderr}")
        fresh.rename(library)  # atomic: another process may be loading it
    return library


def with_settings(folder: Path, settings: str, hidden: Sequence[str] = ()) -> Path:
    """Makes a copy in `folder` that has these settings in every process that loads it; returns its path."""
    library = folder / SONAME
    shutil.copy(build(hidden), library)
    Path(f"{library}.settings").write_text(settings)
    device = Path(f"{library}.device")  # shared by all its processes, see node.c
    if not device.exists():
        os.mkfifo(device)
        device.chmod(0o666)
    return library


@dataclass(frozen=True, slots=True)
class Outside:
    """Launch of a kernel that the fake does not know. Grid and block are along x."""

    kernel: str
    blocks: int
    threads: int
    shared_bytes: int
    params: bytes
    """In which addresses of device memory are those of its bytes in this process."""


class FakeDriver:
    """Control of the fake in this process. `library` is shared by all users of the same path."""

    def __init__(self, path: Path | None = None) -> None:
        self.path: Final = path or build()
        self.library: Final = ctypes.CDLL(str(self.path), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
        for name in ("fake_cuda_calls", "fake_cuda_misuses"):
            self.library[name].argtypes = [ctypes.c_char_p, ctypes.c_size_t]
            self.library[name].restype = ctypes.c_size_t
        for name in ("fake_cuda_count", "fake_cuda_number"):
            self.library[name].argtypes = [ctypes.c_char_p]
            self.library[name].restype = ctypes.c_ulong
        self.library.fake_cuda_inject.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong]

        self._outside: object = None

    def run_outside(self, run: Callable[[Outside], None] | None) -> None:
        """Has kernels that the fake does not know run by `run`, on threads of the fake; one that raises has failed.

        None: launches of such kernels are misuse, as at first.
        """

        def guarded(name: bytes, *numbers: int) -> int:
            blocks, threads, shared_bytes, params, size = numbers
            assert run is not None
            try:
                run(Outside(name.decode(), blocks, threads, shared_bytes, ctypes.string_at(params, size)))
            except Exception:  # noqa: BLE001  it may not reach the fake's thread
                traceback.print_exc()
                return 1
            return 0

        self.library.fake_cuda_run_outside.argtypes = [_OUTSIDE]
        kept = _OUTSIDE() if run is None else _OUTSIDE(guarded)
        self.library.fake_cuda_run_outside(kept)
        self._outside = kept

    def reset(self) -> None:
        """Resets the fake, as in a new process; waits for running kernels. No thread may be inside the driver."""
        self.library.fake_cuda_reset()

    def clear(self) -> None:
        """Clears calls, misuse and injected errors, and releases everything."""
        self.library.fake_cuda_clear()

    def set(self, *lines: str) -> None:
        """Changes settings, before cuInit: "devices 2", "0.sms 108", see settings.c."""
        for line in lines:
            if self.library.fake_cuda_set(line.encode()) != 0:
                raise ValueError(f"the fake CUDA driver has no setting {line!r}")

    def inject(self, name: str, error: int, *, nth: int = 1, times: int = 1) -> None:
        """Makes `times` calls of a function fail with `error`, from the `nth` from now on (1 is the next)."""
        self.library.fake_cuda_inject(name.encode(), error, nth, times)

    def hide(self, name: str) -> None:
        """Makes cuGetProcAddress not find a function."""
        self.library.fake_cuda_hide(name.encode())

    def hold(self) -> None:
        """Makes streams begin no further operation until `go_on`."""
        self.library.fake_cuda_hold(1)

    def go_on(self) -> None:
        self.library.fake_cuda_hold(0)

    def release(self) -> None:
        """Ends the kernels that hang now."""
        self.library.fake_cuda_release()

    def await_hanging(self, count: int = 1) -> None:
        """Waits until `count` kernels hang."""
        self.library.fake_cuda_await_hanging(count)

    def poison(self, error: int, device: int = 0) -> None:
        """Gives a device's contexts a sticky error, like a kernel's fault."""
        self.library.fake_cuda_poison(device, error)

    def _text(self, name: str) -> list[str]:
        size = 0
        while True:
            buffer = ctypes.create_string_buffer(size + 1)
            needed = self.library[name](buffer, size + 1)
            if needed <= size:
                return buffer.value.decode().splitlines()
            size = needed

    def calls(self, name: str = "") -> list[str]:
        """Calls, such as "cuEventQuery(0x5fac...) = CUDA_SUCCESS"; of one function if its exact name is given."""
        return [line for line in self._text("fake_cuda_calls") if not name or line.startswith(f"{name}(")]

    def misuses(self) -> list[str]:
        """Misuses of the driver; empty for a correct caller."""
        return self._text("fake_cuda_misuses")

    def count(self, name: str) -> int:
        """Number of calls of a function, by its exact name."""
        return int(self.library.fake_cuda_count(name.encode()))

    def alive(self) -> dict[str, int]:
        """Numbers of objects that were not freed; empty after an orderly end."""
        found = {name: self.number(name) for name in KEPT}
        return {name: count for name, count in found.items() if count}

    def number(self, name: str) -> int:
        """Count by name: streams, events, device_bytes, blocked, submitted and others, see control.c."""
        value = int(self.library.fake_cuda_number(name.encode()))
        if value == MISSING:
            raise KeyError(name)
        return value
