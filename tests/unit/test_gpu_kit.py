"""``make gpu-kit``: contents of a kit, refusals, and the program in it. The wheels are made here, without network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.gpu import native_programs
from tests.limits import HANGS_AFTER_S
from tools.common import REPOSITORY
from tools.gpu import kit, kit_run, packages, programs

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PROGRAM = """
import json, os, sys
import carried
print(json.dumps({
    "arguments": sys.argv[1:],
    "carried": carried.__file__,
    "mode": os.stat(os.path.dirname(carried.__file__)).st_mode & 0o777,
    "paths": os.environ["PYTHONPATH"],
    "headers": os.environ["CPATH"],
    "commit": os.environ.get("VGC_COMMIT"),
    "programs": os.environ.get("VGC_GPU_PROGRAMS"),
}))
sys.exit(7)
"""
"""Replacement for ``tools.gpu`` that prints its arguments and environment."""


def make_wheel(folder: Path, name: str, version: str, size: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", f"# {'x' * size}\n")
    return wheel


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The cache folder of wheels; pip has no index."""
    monkeypatch.setenv("VGC_CACHE", str(tmp_path / "cache"))
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_CONFIG_FILE", os.devnull)):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return tmp_path / "cache" / "gpu-kit" / HERE


@pytest.fixture
def made(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A kit with one package, in a project with one file."""
    root = tmp_path / "project"
    program = root / kit_run.PROGRAM
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    make_wheel(cache, "carried", "1.0")
    monkeypatch.setattr(kit, "wanted", lambda _python: {"carried": "1.0"})
    monkeypatch.setattr(kit, "tracked_files", lambda: [str(kit_run.PROGRAM)])
    monkeypatch.setattr(kit, "REPOSITORY", root)
    monkeypatch.setattr(kit, "commit", lambda: "0123456789ab")
    kit.make(root / "build" / "gpu-kit", HERE)
    return root


def run(root: Path, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in {"VGC_COMMIT", "PYTHONPATH", "CPATH"}}
    return subprocess.run(
        [sys.executable, "build/gpu-kit/run.py", *argv],
        cwd=root,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )


def test_nothing_but_an_older_kit_is_removed(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user may name the wrong folder by mistake."""
    own = made / "results"
    own.mkdir()
    (own / "of-a-week").touch()
    with pytest.raises(SystemExit):
        kit.make(own, HERE)
    assert "results has of-a-week, which belongs to no kit, and making a kit would remove it" in capsys.readouterr().err
    assert (own / "of-a-week").exists()
    (made / "build" / "gpu-kit" / kit_run.FACTS).unlink()
    kit.make(made / "build" / "gpu-kit", HERE)
    with pytest.raises(SystemExit):
        kit.make(own / "of-a-week", HERE)
    assert "of-a-week: Not a directory" in capsys.readouterr().err


def test_an_incomplete_kit_is_reported(made: Path) -> None:
    (wheel,) = (made / "build" / "gpu-kit").glob("*.whl")
    wheel.write_bytes(wheel.read_bytes()[:40])
    done = run(made)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, f"error: {wheel} is damaged: File is not a zip file")
    (made / "build" / "gpu-kit" / kit_run.FACTS).unlink()
    done = run(made)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {made}/build/gpu-kit is no whole kit: kit.json: ")


def test_a_kit_has_all_required_packages_except_oversized_ones() -> None:
    pins = kit.wanted("3.12")
    asked = {packages.normalized(name) for name in packages.PACKAGES.values()}
    assert asked - pins.keys() == {packages.normalized(name) for name in packages.LEFT_TO_MACHINE}
    assert {"pycparser", "pluggy"} <= pins.keys(), "dependencies too"
    assert "cuda_pathfinder" not in pins, "but not those of what stays out"


def test_wheels_in_the_cache_are_not_downloaded_again(cache: Path) -> None:
    wheel = make_wheel(cache, "Some.Package", "2.0")
    assert kit.fetch({"some_package": "2.0"}, HERE) == [wheel]


def test_wheel_of_another_version_does_not_count(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_wheel(cache, "some_package", "2.0")
    with pytest.raises(SystemExit):
        kit.fetch({"some_package": "2.1"}, HERE)
    assert f"pip could not download wheels for Python {HERE}: some_package==2.1" in capsys.readouterr().err


def test_a_kit_that_is_too_large_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "large.whl").write_bytes(bytes(2 * kit.MIB))
    assert kit.checked_size(tmp_path, limit_mib=2) == 2 * kit.MIB
    with pytest.raises(SystemExit):
        kit.checked_size(tmp_path, limit_mib=1)
    told = capsys.readouterr().err
    assert "the kit has 2.0 MiB; allowed: 1" in told
    assert "large.whl (2.0 MiB)" in told


def test_unsupported_version_of_python_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("3.10", "3.12.1", "new"):
        with pytest.raises(SystemExit, match="2"):
            kit.main(["--python", wrong])
        assert "allowed: 3.11 or newer" in capsys.readouterr().err


def test_headers_of_a_kit_compile_an_extension(tmp_path: Path) -> None:
    """Debian has headers in two folders. The compiler gets no other Python's headers."""
    assert kit.copy_headers(tmp_path / "include", HERE) == HERE
    source = tmp_path / "module.c"
    source.write_text("#define Py_LIMITED_API\n#include <Python.h>\nPyMODINIT_FUNC PyInit_m(void) { return NULL; }\n")
    gcc = ["gcc", "-fsyntax-only", "-Wall", "-Werror", "-H", str(source)]
    environment = os.environ | {"CPATH": str(tmp_path / "include")}
    done = subprocess.run(gcc, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr
    used = [line.strip(". ") for line in done.stderr.splitlines() if line.endswith("/pyconfig.h")]
    assert used
    assert all(Path(name).is_relative_to(tmp_path) for name in used)


def test_headers_of_this_python_replace_those_of_a_missing_one(tmp_path: Path) -> None:
    assert kit.find_python("3.99") is None
    assert kit.copy_headers(tmp_path / "include", "3.99") == f"{HERE}, which the stable ABI allows"
    assert (tmp_path / "include" / "Python.h").exists()


def test_modules_keep_to_the_stable_abi() -> None:
    """The stable ABI is the reason why a kit may have a different version's headers."""
    code = "import sys, virtio_proto._vring as v; print(v.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    symbols = subprocess.run(["nm", "-D", "-u", done.stdout.strip()], capture_output=True, text=True, check=True).stdout
    used = {line.split()[-1] for line in symbols.splitlines() if "Py" in line}
    assert used
    assert not {name for name in used if name.startswith("_Py")} - {"_Py_Dealloc", "_Py_NoneStruct"}


# ---- the program in the kit --------------------------------------------------------------------


def test_program_finds_the_packages_of_the_kit(made: Path) -> None:
    done = run(made, "--first", "--seconds", "9", PYTHONPATH="/elsewhere", CPATH="/headers")
    assert done.returncode == 7, done.stderr
    told = json.loads(done.stdout)
    site = Path(told["carried"]).parent
    assert told["arguments"] == ["--first", "--seconds", "9"]
    assert told["paths"] == f"{site}:/elsewhere", "its children find them too, before the machine's"
    assert told["headers"] == f"/headers:{made / 'build/gpu-kit/include'}", "the machine's own come first"
    assert told["mode"] == 0o755, "workers are another user"
    assert not site.exists(), "nothing stays"


def test_commit_is_that_of_the_kit_where_there_is_no_repository(made: Path) -> None:
    assert json.loads(run(made).stdout)["commit"] == "0123456789ab"
    assert json.loads(run(made, VGC_COMMIT="named").stdout)["commit"] == "named"
    (made / kit_run.PROGRAM).write_text(PROGRAM + "# changed\n")
    assert json.loads(run(made).stdout)["commit"] == "0123456789ab with other changes"


def test_repository_tells_its_commit_itself(made: Path) -> None:
    (made / ".git").mkdir()
    assert json.loads(run(made).stdout)["commit"] is None


def test_kit_for_another_python_says_so(made: Path) -> None:
    facts = made / "build" / "gpu-kit" / kit_run.FACTS
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"python": "3.99"}))
    done = run(made)
    assert done.returncode == 1
    assert f"this is Python {HERE}, and the kit's wheels are for Python 3.99" in done.stderr


def test_kit_without_the_project_says_so(made: Path) -> None:
    (made / kit_run.PROGRAM).unlink()
    done = run(made)
    assert done.returncode == 1
    assert f"{kit_run.PROGRAM} is neither here nor above" in done.stderr


def test_guests_programs_are_built_and_found(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``run.py`` names their folder to the tests."""
    wanted = {"bits": native_programs.programs()["bits"]}
    monkeypatch.setattr(native_programs, "programs", lambda: wanted)
    folder = made / "build" / "gpu-kit" / kit_run.PROGRAMS
    assert programs.build(folder) == []
    assert {path.name for path in folder.iterdir()} == {"bits", programs.BENCHMARK}
    assert json.loads(run(made).stdout)["programs"] == str(folder)
