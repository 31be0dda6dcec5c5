"""``make gpu-kit``: a folder of wheels and headers for ``make gpu`` on a machine with a GPU and without network.

Such a machine has a Python with PyTorch's packages and a C compiler. The kit has the other packages that `packages`
lists, in the versions of this environment, and a program that runs ``tools.gpu`` with them:

    make gpu-kit                                        here; makes build/gpu-kit
    python3 build/gpu-kit/run.py --first                there, in a copy of the project with the kit
    make gpu-kit GPU_KIT_OPTIONS='--python 3.13'        for a different Python
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.provenance import commit
from tools.common import BUILD, REPOSITORY, cache_folder, die, locked, say
from tools.gpu import kit_run, packages, programs

TARGET_PYTHON: Final = "3.12"
LIMIT_MIB: Final = 16
MIB: Final = 1 << 20

VERSIONS: Final = {"setuptools": "80.9.0"}
"""Versions that differ from this environment's, which may be too old for the other Python: setuptools 65, which a new
environment has, does not work on 3.12."""

PLATFORMS: Final = tuple(f"manylinux{name}_x86_64" for name in ("_2_34", "_2_28", "_2_17", "2014"))
IN_ANOTHER_FOLDER: Final = re.compile(r"#\s*include\s*<(\S+/pyconfig\.h)>")
NOT_FOR_EXTENSIONS: Final = "internal"
OF_A_KIT: Final = ("include", "run.py", kit_run.FACTS, kit_run.PROGRAMS)
"""Files of a kit besides wheels."""


def make(folder: Path, python: str, *, with_programs: bool = False) -> int:
    """Makes a new kit in `folder`, if wanted with programs of guests; returns its size in bytes."""
    refuse_what_is_no_kit(folder)
    pins = wanted(python)
    say(f"making a kit for Python {python} in {folder}")
    wheels = fetch(pins, python)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        die(f"{folder} cannot be made: {error.strerror}", hint="name a different folder: --out DIR")
    for wheel in wheels:
        shutil.copy(wheel, folder)
    headers = copy_headers(folder / "include", python)
    if with_programs:
        add_programs(folder / kit_run.PROGRAMS)
    files = tracked_files()
    facts = {
        "python": python,
        "commit": commit(),
        "packages": pins,
        "headers": headers,
        "digest": kit_run.digest(REPOSITORY, files),
        "files": files,
    }
    (folder / kit_run.FACTS).write_text(json.dumps(facts, indent=1) + "\n")
    shutil.copy(Path(kit_run.__file__), folder / "run.py")
    say(f"commit {facts['commit']}; Python's headers: {headers}")
    return checked_size(folder)


def refuse_what_is_no_kit(folder: Path) -> None:
    """Ends the program if the folder, which will be removed, holds files that belong to no kit."""
    try:
        found = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        die(f"{folder}: {error.strerror}", hint="name a folder that is empty or does not exist: --out DIR")
    if strange := [name for name in found if name not in OF_A_KIT and not name.endswith(".whl")]:
        die(
            f"{folder} has {strange[0]}, which belongs to no kit, and making a kit would remove it",
            hint="name a folder that is empty or does not exist: --out DIR",
        )


def wanted(python: str) -> dict[str, str]:
    """Name and version of every package in the kit: the needed packages and their dependencies, except large ones."""
    left = packages.with_dependencies(packages.LEFT_TO_MACHINE, python)
    all_of_them = packages.with_dependencies(packages.PACKAGES.values(), python)
    return {name: VERSIONS.get(name, version) for name, version in all_of_them.items() if name not in left}


def fetch(pins: Mapping[str, str], python: str) -> list[Path]:
    """Returns the wheels of these packages, from the cache or from pip's index."""
    folder = cache_folder() / "gpu-kit" / python
    with locked(folder.with_suffix(".lock")):
        folder.mkdir(parents=True, exist_ok=True)
        missing = {name: version for name, version in pins.items() if _in_cache(folder, name, version) is None}
        if missing:
            _download(folder, missing, python)
        found = {name: _in_cache(folder, name, version) for name, version in pins.items()}
    if lost := [name for name, wheel in found.items() if wheel is None]:
        die(f"pip downloaded no wheel of {', '.join(lost)} under the name that it should have")
    return [wheel for wheel in found.values() if wheel is not None]


def _in_cache(folder: Path, name: str, version: str) -> Path | None:
    for wheel in folder.glob("*.whl"):
        called, versioned, *_ = wheel.name.split("-")
        if (packages.normalized(called), versioned) == (name, version):
            return wheel
    return None


def _download(folder: Path, pins: Mapping[str, str], python: str) -> None:
    tag = "cp" + python.replace(".", "")
    target = ["--python-version", python, "--implementation", "cp"]
    for abi in (tag, "abi3", "none"):
        target += ["--abi", abi]
    for platform in PLATFORMS:
        target += ["--platform", platform]
    names = [f"{name}=={version}" for name, version in pins.items()]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*pip, "--only-binary=:all:", *target, "--dest", str(folder), *names], check=False)
    if done.returncode != 0:
        die(f"pip could not download wheels for Python {python}: {' '.join(names)}", hint="its own message is above")


def add_programs(folder: Path) -> None:
    """Builds the guests' programs that ``tests/gpu/test_native.py`` compares with native ones."""
    if failed := programs.build(folder):
        say(f"not built by mynvcc, and so not in the kit: {', '.join(failed)}")


# ---- headers -----------------------------------------------------------------------------------


def copy_headers(folder: Path, python: str) -> str:
    """Copies Python's headers; returns the version that they are from.

    Headers of a different version work too: cffi's modules keep to the stable ABI (``Py_LIMITED_API``), which all
    versions from 3.2 on share.
    """
    found = find_python(python)
    include = _include_of(found) if found else None
    if include is None:
        include = Path(sysconfig.get_path("include"))
        python = f"{sys.version_info.major}.{sys.version_info.minor}, which the stable ABI allows"
    if not (include / "Python.h").exists():
        die(f"{include} has no Python.h", hint="install Python's development files: apt-get install python3-dev")
    shutil.copytree(include, folder, ignore=shutil.ignore_patterns(NOT_FOR_EXTENSIONS))
    for name in IN_ANOTHER_FOLDER.findall((include / "pyconfig.h").read_text()):
        elsewhere = include.parent / name  # Debian's: a folder for each architecture
        if elsewhere.exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(elsewhere, folder / name)
    return python


def find_python(version: str) -> Path | None:
    """Finds an interpreter of this version: the running one, one on PATH, or one of pyenv's."""
    return next((path for path in _pythons(version) if _is_version(path, version)), None)


def _pythons(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(root.glob(f"versions/{version}.*/bin/python"))


def _is_version(python: Path, version: str) -> bool:
    """Runs an interpreter to find out its version; a shim of pyenv may lead nowhere."""
    asks = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", asks], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def _include_of(python: Path) -> Path | None:
    asks = "import sysconfig; print(sysconfig.get_path('include'))"
    done = subprocess.run([python, "-c", asks], capture_output=True, text=True, check=True)
    include = Path(done.stdout.strip())
    return include if (include / "Python.h").exists() else None


# ---- files and size ----------------------------------------------------------------------------


def tracked_files() -> list[str]:
    """Files of the project that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return sorted(filter(None, listed.stdout.split("\0")))


def checked_size(folder: Path, limit_mib: int = LIMIT_MIB) -> int:
    """Returns the size of a kit in bytes; ends the program if it is too large to carry."""
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    total = sum(sizes.values())
    if total > limit_mib * MIB:
        largest = ", ".join(f"{path.name} ({size / MIB:.1f} MiB)" for path, size in _largest(sizes))
        die(f"the kit has {total / MIB:.1f} MiB; allowed: {limit_mib}", hint=f"the largest: {largest}")
    return total


def _largest(sizes: Mapping[Path, int]) -> Iterable[tuple[Path, int]]:
    return sorted(sizes.items(), key=lambda item: item[1], reverse=True)[:3]


def parsed_version(text: str) -> str:
    """Parses a version of Python.

    :raise ArgumentTypeError: the text is no version that the project runs on.
    """
    match = re.fullmatch(r"(\d+)\.(\d+)", text)
    if match is None or (int(match[1]), int(match[2])) < kit_run.LEAST_PYTHON:
        raise argparse.ArgumentTypeError(f"{text!r} is no version such as 3.12; allowed: 3.11 or newer")
    return text


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.gpu.kit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=parsed_version, default=TARGET_PYTHON, help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=BUILD / "gpu-kit", help="default: build/gpu-kit")
    parser.add_argument("--without-programs", action="store_true", help="leave out the CUDA programs of guests")
    args = parser.parse_args(argv)
    size = make(args.out.resolve(), args.python, with_programs=not args.without_programs)
    print(
        f"{args.out}: {size / MIB:.1f} MiB; to be on the machine: {', '.join(packages.LEFT_TO_MACHINE)}, gcc, NVIDIA's compilers"
    )


if __name__ == "__main__":
    main()
