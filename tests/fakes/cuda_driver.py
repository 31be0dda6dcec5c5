"""A CUDA driver without a GPU: builds the fake `libcuda.so.1` of `tests/fakes/cuda`, and steers it.

`build` gives the library's path, for an engine option or a worker of its own; settings for such a process go into the
file beside a private copy of it (`with_settings`). In the process that loaded it, `FakeDriver` looks into it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from virtio_proto.build_vring import cflags, ldflags

HERE: Final = Path(__file__).resolve().parent
SOURCES_DIR: Final = HERE / "cuda"
REPOSITORY: Final = HERE.parent.parent
SONAME: Final = "libcuda.so.1"
CONTROL_DIR: Final = REPOSITORY / "kernels" / "control"
LINK: Final = REPOSITORY / "kernels" / "cuda" / "control" / "vgc_cuda_link.h"
MISSING: Final = 2**64 - 1
KEPT: Final = ("contexts", "streams", "events", "modules", "pools", "device_allocations", "host_allocations")


def sources() -> list[Path]:
    """Give the C files of the fake."""
    return sorted(SOURCES_DIR.glob("*.c"))


def _digest(hidden: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES_DIR.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for path in sorted([*CONTROL_DIR.rglob("*.h"), LINK]):
        digest.update(path.read_bytes())
    digest.update(repr((cflags(), ldflags(), sorted(hidden))).encode())
    return digest.hexdigest()[:16]


def _version_script(hidden: Sequence[str]) -> str:
    local = "".join(f"{name}; " for name in hidden)
    return f"{{ global: cu*; fake_cuda_*; local: {local}*; }};\n"


def build(hidden: Sequence[str] = ()) -> Path:
    """Give the path of the library, built if it is not yet; without the symbols `hidden`, for dlsym.

    The same one for as long as this process lives, whoever edits the sources meanwhile: it can load but one.
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
        fresh.rename(library)  # whole or not at all: others may be loading it
    return library


def with_settings(folder: Path, settings: str, hidden: Sequence[str] = ()) -> Path:
    """Give the path of a copy in `folder`, which every process that loads it finds set up by these lines."""
    library = folder / SONAME
    shutil.copy(build(hidden), library)
    Path(f"{library}.settings").write_text(settings)
    return library


class FakeDriver:
    """The fake in this process, seen from behind. `library` is shared by all who load the same path."""

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

    def reset(self) -> None:
        """Begin anew, as in a fresh process; waits for kernels that run. No thread may be inside the driver."""
        self.library.fake_cuda_reset()

    def clear(self) -> None:
        """Forget calls, misuse and injected errors; let everything go on."""
        self.library.fake_cuda_clear()

    def set(self, *lines: str) -> None:
        """Change settings, before cuInit: "devices 2", "0.sms 108", see settings.c."""
        for line in lines:
            if self.library.fake_cuda_set(line.encode()) != 0:
                raise ValueError(f"the fake CUDA driver has no setting {line!r}")

    def inject(self, name: str, error: int, *, nth: int = 1, times: int = 1) -> None:
        """Let `times` calls of a function end with `error`, from the `nth` from now on (1 is the next)."""
        self.library.fake_cuda_inject(name.encode(), error, nth, times)

    def hide(self, name: str) -> None:
        """Let cuGetProcAddress not find a function."""
        self.library.fake_cuda_hide(name.encode())

    def hold(self) -> None:
        """Let no stream begin another operation until `go_on`."""
        self.library.fake_cuda_hold(1)

    def go_on(self) -> None:
        self.library.fake_cuda_hold(0)

    def release(self) -> None:
        """Let the kernels end that hang now."""
        self.library.fake_cuda_release()

    def await_hanging(self, count: int = 1) -> None:
        """Wait until so many kernels hang."""
        self.library.fake_cuda_await_hanging(count)

    def poison(self, error: int, device: int = 0) -> None:
        """Give a device's contexts a sticky error, as a kernel's fault would."""
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
        """What was called, as "cuEventQuery(0x5fac...) = CUDA_SUCCESS"; of one function, given its exact name."""
        return [line for line in self._text("fake_cuda_calls") if not name or line.startswith(f"{name}(")]

    def misuses(self) -> list[str]:
        """What was wrong with how the driver was used. Empty for a caller that keeps to its rules."""
        return self._text("fake_cuda_misuses")

    def count(self, name: str) -> int:
        """How often a function was called, given its exact name."""
        return int(self.library.fake_cuda_count(name.encode()))

    def alive(self) -> dict[str, int]:
        """What there is that someone must give back: an empty dictionary after an orderly end."""
        found = {name: self.number(name) for name in KEPT}
        return {name: count for name, count in found.items() if count}

    def number(self, name: str) -> int:
        """Of streams, events, device_bytes, blocked, submitted...: see control.c."""
        value = int(self.library.fake_cuda_number(name.encode()))
        if value == MISSING:
            raise KeyError(name)
        return value
