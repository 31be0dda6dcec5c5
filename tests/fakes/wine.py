"""Programs for Windows on this machine: built with mingw-w64, run by Wine."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S

LIBVGC: Final = REPOSITORY / "guest_driver" / "libvgc"
BUILT: Final = LIBVGC / "build" / "windows"
COMPILER: Final = "x86_64-w64-mingw32-gcc-posix"
LOADER: Final = Path("/usr/lib/wine/wine64")
SERVER: Final = Path("/usr/lib/wine/wineserver64")
DLLS: Final = Path("/usr/lib/x86_64-linux-gnu/wine/x86_64-windows")
"""Wine's own libraries, where Debian has them."""

OVERRIDES: Final = "mscoree,mshtml,wineboot.exe,services.exe="
"""Parts of Wine that do not run: the last two would, in the background, and keep the first program's output open."""


def lacks() -> str:
    """Reason for which nothing for Windows can run here; "" if it can."""
    if shutil.which(COMPILER) is None:
        return "no mingw-w64 here (gcc-mingw-w64-x86-64-posix)"
    return "" if LOADER.exists() and DLLS.exists() else "no Wine here (wine64)"


def windows_path(path: Path) -> str:
    """Name that Wine has for a file."""
    return "Z:" + str(path).replace("/", "\\")


def build_library() -> None:
    """Builds vgc.dll and libvgc.a for Windows where they are not up to date."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make: list[str] = [
            "make",
            "--silent",
            "--no-print-directory",
            f"-j{os.cpu_count() or 1}",
            "-C",
            str(LIBVGC),
            "windows",
        ]
        subprocess.run(make, check=True, timeout=HANGS_AFTER_S)


def build_program(folder: Path, sources: Sequence[Path], *, name: str = "program", static: bool = False) -> Path:
    """Builds a program, linked with vgc.dll, which is put beside it, or with libvgc.a."""
    program = folder / f"{name}.exe"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-D_WIN32_WINNT=0x0A00", "-O2", "-Wall", "-Wextra", "-Werror"]
    include = [
        f"-I{path}"
        for path in (
            LIBVGC,
            LIBVGC / "src",
            LIBVGC / "src/windows/include",
            REPOSITORY / "virtio_proto/include",
        )
    ]
    if static:
        libraries: list[str | Path] = [BUILT / "libvgc.a", "-lws2_32", "-lbcrypt", "-lsetupapi", "-lcfgmgr32"]
    else:
        libraries = [BUILT / "libvgc.dll.a"]
        shutil.copy(BUILT / "vgc.dll", folder)
    argv: list[str | Path] = [COMPILER, *flags, *include, "-o", program, *sources, *libraries, "-static"]
    subprocess.run(argv, check=True, timeout=HANGS_AFTER_S)
    return program


@dataclass
class Wine:
    """A Windows whose drive C: is in `folder`, from scratch. Its server ends with it."""

    folder: Path

    def __post_init__(self) -> None:
        """Makes what the first start of Wine would make, without its services and without copies of its libraries."""
        system = self.folder / "drive_c" / "windows" / "system32"
        system.mkdir(parents=True)
        for library in DLLS.iterdir():
            (system / library.name).symlink_to(library)
        (self.folder / "dosdevices").mkdir()
        (self.folder / "dosdevices" / "c:").symlink_to("../drive_c")
        (self.folder / "dosdevices" / "z:").symlink_to("/")
        (self.folder / ".update-timestamp").write_text("disable\n")

    def __enter__(self) -> Self:
        self._serve("-p")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serve("-k")
        self._serve("-w")

    def _serve(self, option: str) -> None:
        """Starts Wine's server, ends it, or waits for its end. It goes on alone, and must not keep our output open."""
        quiet = subprocess.DEVNULL
        subprocess.run(
            [SERVER, option],
            env=self.environment({}),
            check=False,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            timeout=HANGS_AFTER_S,
        )

    def environment(self, variables: dict[str, str]) -> dict[str, str]:
        own = {
            "PATH": os.defpath,
            "HOME": str(self.folder),
            "WINEPREFIX": str(self.folder),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": OVERRIDES,
            "LOCALAPPDATA": "C:\\local",
        }
        return own | variables

    def run(self, program: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end."""
        return subprocess.run(
            [LOADER, program, *arguments],
            check=False,
            env=self.environment(variables),
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
        )

    def start(self, program: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Starts a program, with pipes to and from it."""
        return subprocess.Popen(
            [LOADER, program, *arguments],
            env=self.environment(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
