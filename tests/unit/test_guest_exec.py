"""``vgc exec``: what a program finds in front of NVIDIA's, and the ptxas among it."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from guest_driver import exec_command
from guest_driver.errors import InvalidArgument
from tests.fakes.guest import REPOSITORY

SEARCH = REPOSITORY / "guest_driver/cuda/build/toolkit/lib64/libvgc_search.so"
PTXAS = REPOSITORY / "guest_driver/cuda/mynvcc/ptxas"
PTX = "// a kernel\n.version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    folder = tmp_path / "toolkit"
    (folder / "lib64").mkdir(parents=True)
    for name in ("libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnvrtc.so.13"):
        (folder / "lib64" / name).touch()
    return folder


def test_program_finds_the_toolkit_first(toolkit: Path) -> None:
    found = exec_command.settings(toolkit, "13", {"PATH": "/bin", "LD_LIBRARY_PATH": "/lib"})
    libraries = toolkit / "lib64"
    assert found["PATH"] == f"{toolkit}/bin:/bin"
    assert found["LD_LIBRARY_PATH"] == f"{libraries}:/lib"
    loaded = ("libcudart.so.13", "libcuda.so.1", "libnvrtc.so.13")
    assert found["LD_PRELOAD"] == ":".join(f"{libraries}/{name}" for name in loaded)
    assert "LD_AUDIT" not in found  # the toolkit is older
    (libraries / "libvgc_search.so").touch()
    found = exec_command.settings(toolkit, "13", {"LD_AUDIT": "/lib/other.so"})
    assert found["LD_AUDIT"] == f"{libraries}/libvgc_search.so:/lib/other.so"
    assert found["TORCH_CUDNN_SDPA_DEPRIORITIZED"] == "1"
    chosen = {"TORCH_CUDNN_SDPA_DEPRIORITIZED": "0"}
    assert exec_command.settings(toolkit, "13", chosen)["TORCH_CUDNN_SDPA_DEPRIORITIZED"] == "0"
    assert "libcudart.so.12" in exec_command.settings(toolkit, "12", {})["LD_PRELOAD"]
    assert exec_command.settings(toolkit, "13", found) == found  # a second time


def test_toolkit_is_looked_for(toolkit: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VGC_TOOLKIT", raising=False)
    assert exec_command.toolkit([tmp_path / "none", toolkit]) == toolkit
    with pytest.raises(InvalidArgument, match="install it"):
        exec_command.toolkit([tmp_path / "none"])
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(InvalidArgument, match="libraries are for x86_64 alone, and this machine is aarch64; allowed"):
        exec_command.toolkit([tmp_path / "none"])
    monkeypatch.setenv("VGC_TOOLKIT", str(toolkit))
    assert exec_command.toolkit([]) == toolkit
    monkeypatch.setenv("VGC_TOOLKIT", str(tmp_path))
    with pytest.raises(InvalidArgument, match=f"not in {tmp_path}: "):
        exec_command.toolkit([toolkit])


def vgc(toolkit: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ) | {"VGC_TOOLKIT": str(toolkit)}
    command = [sys.executable, "-m", "guest_driver", "exec", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


def test_command_runs_a_program_in_its_place(toolkit: Path) -> None:
    done = vgc(toolkit, "--", "sh", "-c", "echo $CUDA_HOME; exit 3")
    assert (done.returncode, done.stdout) == (3, f"{toolkit}\n")
    assert f"export CUDA_HOME='{toolkit}'\n" in vgc(toolkit, "--show").stdout
    assert "libcudart.so.12" in vgc(toolkit, "--cuda", "12", "--show").stdout
    done = vgc(toolkit, "/no/such/program")
    assert done.returncode == 1
    assert "vgc: cannot run /no/such/program: No such file or directory\n" in done.stderr
    assert "no program; allowed: vgc exec python train.py" in vgc(toolkit).stderr


def test_python_s_other_name_is_told(toolkit: Path, tmp_path: Path) -> None:
    """Debian's and Ubuntu's package has no `python`, which all examples call."""
    (tmp_path / "python3").symlink_to(sys.executable)
    for command in ("exec", "trace"):
        done = subprocess.run(
            [sys.executable, "-m", "guest_driver", command, "python", "train.py"],
            cwd=REPOSITORY,
            env=dict(os.environ) | {"VGC_TOOLKIT": str(toolkit), "PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (
            1,
            "vgc: cannot run python: No such file or directory; there is python3\n",
        )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("smi", "-q"), "usage: vgc smi [-h]\n"),
        (("info", "again"), "vgc info: error: unrecognized arguments: again\n"),
        (("functions", "/no/such/file"), "vgc: /no/such/file: No such file or directory\n"),
    ],
)
def test_errors_are_the_command_s(words: tuple[str, ...], says: str) -> None:
    command = [sys.executable, "-m", "guest_driver", *words]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode in {1, 2}
    assert says in done.stderr
    assert "Errno" not in done.stderr


def test_what_is_shown_is_for_a_shell(toolkit: Path) -> None:
    """Whatever bytes the user's own paths have."""
    own = b"/it's/$(false)/\xff"
    environment = {b"VGC_TOOLKIT": os.fsencode(toolkit), b"LD_LIBRARY_PATH": own, b"PATH": os.environb[b"PATH"]}
    command = f'eval "$({sys.executable} -m guest_driver exec --show)" && printf %s "$LD_LIBRARY_PATH"'
    for locale in ({}, {b"PYTHONIOENCODING": b"utf-8:strict"}):
        done = subprocess.run(
            ["sh", "-c", command], cwd=REPOSITORY, env=environment | locale, capture_output=True, check=False
        )
        assert (done.stdout, done.stderr) == (os.fsencode(toolkit / "lib64") + b":" + own, b"")


def test_toolkit_in_a_relative_folder_is_found_from_everywhere(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toolkit.parent)
    monkeypatch.setenv("VGC_TOOLKIT", toolkit.name)
    assert exec_command.toolkit() == toolkit


@pytest.mark.parametrize("mark", [" ", ":", ";", "$"])
def test_toolkit_in_a_folder_that_the_loader_cannot_name(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    moved = toolkit.rename(toolkit.parent / f"a{mark}b")
    monkeypatch.setenv("VGC_TOOLKIT", str(moved))
    with pytest.raises(InvalidArgument, match=r"end a path at .*: move it, or name a link to it in \$VGC_TOOLKIT"):
        exec_command.toolkit()
    link = toolkit.parent / "link"
    link.symlink_to(moved)
    monkeypatch.setenv("VGC_TOOLKIT", str(link))
    assert exec_command.toolkit() == link


def test_program_is_ended_by_a_pipe_that_nobody_reads(toolkit: Path) -> None:
    """Python ignores these signals, and programs that it starts in its place inherit that."""
    done = vgc(toolkit, "sh", "-c", "kill -PIPE $$; echo still there")
    assert (done.returncode, done.stdout) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("{theirs}/libanswer.so.1", 1),  # by its whole path
        ("libanswer.so.1", 1),  # by LD_LIBRARY_PATH
        ("{theirs}/libother.so.1", 2),  # the toolkit has none
        ("{theirs}/libanswer.so", 2),  # without a version
    ],
)
def test_loader_takes_libraries_of_the_toolkit_for_those_of_packages(tmp_path: Path, asked: str, found: int) -> None:
    toolkit, theirs = tmp_path / "toolkit", tmp_path / "theirs"
    for folder, names, number in (
        (toolkit, ["libanswer.so.1"], 1),
        (theirs, ["libanswer.so.1", "libother.so.1", "libanswer.so"], 2),
    ):
        folder.mkdir()
        for name in names:
            words = ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(folder / name), "-"]
            subprocess.run(words, input=f"int answer(void) {{ return {number}; }}", text=True, check=True)
    shutil.copy(SEARCH, toolkit)
    environment = {"LD_AUDIT": str(toolkit / SEARCH.name), "LD_LIBRARY_PATH": str(theirs), "PATH": os.environ["PATH"]}
    program = f"import ctypes; print(ctypes.CDLL({asked.format(theirs=theirs)!r}).answer())"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == f"{found}\n", done.stderr


def ptxas(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PTXAS), *words], cwd=folder, capture_output=True, text=True, check=False)


def test_ptxas_passes_ptx_on(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    done = ptxas(tmp_path, "-lineinfo", "-v", "--gpu-name=sm_80", "--opt-level", "3", "k.ptx", "-o", "k.cubin")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert (tmp_path / "k.cubin").read_text() == PTX
    assert ptxas(tmp_path, "-arch", "sm_90", "--output-file=other", "k.ptx").returncode == 0
    assert (tmp_path / "other").read_text() == PTX
    assert ptxas(tmp_path, "k.ptx").returncode == 0
    assert (tmp_path / "elf.o").read_text() == PTX
    assert "release 13.0" in ptxas(tmp_path, "--version").stdout
    assert "FILE.ptx" in ptxas(tmp_path, "--help").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no file"),
        (("none.ptx",), "cannot read 'none.ptx'"),
        (("k.ptx", "k.ptx"), "one is allowed"),
        (("text",), "'text' is no PTX"),
        (("k.ptx", "-o"), "-o needs a file"),
        (("k.ptx", "-o", "no/such/folder"), "cannot write 'no/such/folder'"),
    ],
)
def test_ptxas_says_what_is_wrong(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    (tmp_path / "text").write_text("int x;\n")
    done = ptxas(tmp_path, *words)
    assert done.returncode == 255
    assert f"ptxas fatal   : {says}" in done.stderr or says in done.stderr
