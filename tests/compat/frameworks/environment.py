"""Python in which a framework's tests run, and the folder that they lie in."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.compat.frameworks.suites import Suite
from tools import pytorch

_BASE: Final = ("pytest",)


class MissingError(Exception):
    """Something that the user has to give or install, in words for him."""


def site_packages(python: Path) -> Path:
    """Folder of an environment's packages."""
    return Path(output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))


def version(python: Path, package: str) -> str:
    """The installed package's version.

    :raise MissingError: it is not installed.
    """
    try:
        return output(python, "-c", f"import importlib.metadata as m; print(m.version({package!r}))")
    except subprocess.CalledProcessError:
        raise MissingError(
            f"{python} has no package {package}: install it there, or name another with --python"
        ) from None


def output(python: Path, *words: str) -> str:
    done = subprocess.run([python, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def check_programs(suite: Suite) -> None:
    """Fails unless there are the programs that the suite's tests run.

    :raise MissingError: one is not in the PATH.
    """
    for name in suite.programs:
        if shutil.which(name) is None:
            raise MissingError(
                f"its tests run {name}, which is not in the PATH: install it, or link it there by this name"
            )


def beside(framework: Path, suite: Suite, work: Path) -> list[Path]:
    """Folders of the packages that a suite's tests need, for the end of the path of a framework's Python, which stays as it is.

    :raise MissingError: its tests compare with PyTorch, which is not installed.
    """
    folder = work / "packages"
    wanted = "\n".join([*_BASE, *suite.needs])
    mark = folder / "made"
    if not mark.exists() or mark.read_text() != wanted:
        words: list[str | Path] = ["install", "--quiet", "--upgrade", "--target", folder, *_BASE, *suite.needs]
        subprocess.run([framework, "-m", "pip", *words], check=True)
        mark.write_text(wanted)
    if not suite.wants_torch:
        return [folder]
    torch = pytorch.python()
    if torch is None:
        raise MissingError("its tests compare with PyTorch: run `make frameworks-pytorch`")
    return [folder, site_packages(torch)]


def tests(suite: Suite, python: Path, given: Path | None, work: Path) -> Path:
    """Folder below which the suite's patterns find its tests.

    :raise MissingError: they are in the framework's repository alone, and no checkout is given.
    """
    if given is not None:
        return _without_package(suite, given, work)
    if suite.source == "checkout":
        raise MissingError(f"the tests of {suite.package} are in its repository only: give a checkout with --tests")
    if suite.source == "wheel":
        return _holder(python, suite)
    return _sdist(suite, python, work)


def _holder(python: Path, suite: Suite) -> Path:
    """Folder of packages that has the suite's files."""
    folders = output(python, "-c", "import sys; print('\\n'.join(filter(None, sys.path)))").splitlines()
    for folder in map(Path, folders):
        if any(True for _ in suite.files(folder)):
            return folder
    raise MissingError(f"the installed {suite.package} has no tests")


def _without_package(suite: Suite, given: Path, work: Path) -> Path:
    """Copy of a checkout without the package, in whose place the installed one is tested; the checkout itself if it has none."""
    if not any((given / folder).exists() for folder in suite.shadows):
        return given.resolve()
    copy = work / "checkout"
    if not copy.exists():
        hidden = shutil.ignore_patterns(".git", "__pycache__")

        def left_out(folder: str, names: list[str]) -> set[str]:
            own = set(suite.shadows) if Path(folder) == given else set[str]()
            return own.intersection(names) | set(hidden(folder, names))

        shutil.copytree(given, copy, ignore=left_out, symlinks=True)
    return copy


def _sdist(suite: Suite, python: Path, work: Path) -> Path:
    """Unpacked sources of the installed version, without the package itself."""
    name = f"{suite.package}-{version(python, suite.package)}"
    folder = work / "sources"
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch: list[str | Path] = [
            python,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            suite.package,
        ]
        subprocess.run([*fetch, name.replace("-", "==")], check=True, cwd=folder)
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        for own in suite.shadows:
            shutil.rmtree(folder / name / own)
    return folder / name
