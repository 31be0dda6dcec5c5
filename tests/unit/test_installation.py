"""`make install-guest` and `make deb`: what a guest gets, at any prefix or in Debian's folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tools import installation
from tools.common import REPOSITORY
from tools.debs import guest, package
from tools.installation import Layout, Link
from virtio_proto.schema import VIRTIO_ID
from virtio_proto.version import VERSION

MAIN: Final = "#include <vgc.h>\nint main(void) { return vgc_last_error() == 0; }\n"


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CUDA toolkit, whose headers are links to a folder outside of it."""
    headers = tmp_path / "headers" / "sub"
    headers.mkdir(parents=True)
    (headers / "cuda.h").write_text("// here\n")
    top = tmp_path / "toolkit"
    for folder in ("bin", "lib64", "nvvm/libdevice"):
        (top / folder).mkdir(parents=True)
    (top / "include").symlink_to(tmp_path / "headers")
    (top / "lib").symlink_to("lib64")
    (top / "bin" / "mynvcc").write_text("#!/bin/sh\necho compiled\n")
    (top / "bin" / "mynvcc").chmod(0o755)
    (top / "bin" / "nvcc").symlink_to("mynvcc")
    (top / "lib64" / "libcudart.so.12").write_text("library")
    (top / "lib64" / "libcudart.so").symlink_to("libcudart.so.12")
    (top / "lib64" / "libcudart_static.a").write_text("archive")
    monkeypatch.setattr(installation, "TOOLKIT", top)
    return top


def make_install(folder: Path, *options: str) -> Path:
    """Runs `make install-guest` for the prefix /opt/vgc of a guest's root at `folder`; returns the prefix there."""
    argv = ["make", "install-guest", "PREFIX=/opt/vgc", f"DESTDIR={folder}", *options]
    subprocess.run(argv, cwd=REPOSITORY, check=True, capture_output=True)
    return folder / "opt/vgc"


def output(*argv: str | Path) -> str:
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout


def test_command_and_python_package_run_from_where_they_were_installed(tmp_path: Path) -> None:
    prefix = make_install(tmp_path)
    linked = tmp_path / "vgc"
    linked.symlink_to(prefix / "bin" / "vgc")
    assert output(linked, "--version") == f"vgc {VERSION}\n"
    script = f"import sys; sys.path.insert(0, '{prefix}/lib/vgc/python'); from guest_driver import _lib; print(_lib.library_path())"
    library = output(sys.executable, "-P", "-c", script).strip()
    assert Path(library).resolve() == prefix / "lib" / "libvgc.so.1"


def bare_python(folder: Path) -> Path:
    """A Python as of a virtual environment that has no packages yet."""
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return python


def with_distribution(prefix: Path, python: Path) -> Path:
    """The command, on a machine whose distribution has this Python."""
    command = prefix / "bin" / "vgc"
    command.write_text(command.read_text().replace("/usr/bin/python3", str(python)))
    return command


def test_command_names_the_packages_that_its_python_lacks(tmp_path: Path) -> None:
    python = bare_python(tmp_path / "bare")
    command = with_distribution(make_install(tmp_path), bare_python(tmp_path / "distribution"))
    env = {"PATH": f"{python.parent}:/usr/bin:/bin"}
    done = subprocess.run([command, "doctor"], env=env, check=False, capture_output=True, text=True)
    assert done.stderr == "vgc: Python lacks cffi; Debian: apt-get install python3-cffi python3-construct\n"
    assert done.returncode == 1


def test_command_runs_in_a_virtual_environment(toolkit: Path, tmp_path: Path) -> None:
    """By the distribution's Python, and its programs by the environment's, with no more packages than that has."""
    python = bare_python(tmp_path / "bare")
    command = with_distribution(make_install(tmp_path), Path(sys.executable))
    env = {"PATH": f"{python.parent}:/usr/bin:/bin", "VGC_TOOLKIT": str(toolkit)}
    (toolkit / "lib64" / "libcuda.so.1").touch()
    code = "import importlib.util as found, os; print(os.environ.get('PYTHONPATH'), found.find_spec('guest_driver'))"
    words: list[str | Path] = [command, "exec", "python3", "-c", code]
    done = subprocess.run(words, env=env, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.stdout == "None None\n", done.stderr


def test_c_program_builds_against_an_installation(tmp_path: Path) -> None:
    prefix = make_install(tmp_path)
    (tmp_path / "main.c").write_text(MAIN)
    paths = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib"]
    output("cc", tmp_path / "main.c", *paths, "-lvgc", "-o", tmp_path / "main")
    output(tmp_path / "main")


def test_installation_comes_with_no_sources_of_libraries(tmp_path: Path) -> None:
    """But for the one that mynvcc compiles into programs."""
    prefix = make_install(tmp_path)
    found = {path.name for path in prefix.rglob("*") if path.is_file() and path.suffix in {".c", ".o", ".d", ".pyc"}}
    assert found <= {"vgc_local_support.c"}


def test_toolkit_keeps_its_links_and_gets_what_lies_outside(toolkit: Path, tmp_path: Path) -> None:
    installation.install({**installation.runtime(Layout()), **installation.development(Layout())}, tmp_path / "usr")
    cuda = tmp_path / "usr/lib/vgc/cuda"
    assert output(tmp_path / "usr/bin/mynvcc") == "compiled\n"
    assert (cuda / "bin/nvcc").readlink() == Path("mynvcc")
    assert (cuda / "lib").readlink() == Path("lib64")
    assert (cuda / "lib64/libcudart.so").read_text() == "library"
    assert (cuda / "include/sub/cuda.h").read_text() == "// here\n"
    assert not (cuda / "include").is_symlink()
    assert (cuda / "nvvm/libdevice").is_dir()  # CMake takes no folder for a toolkit that lacks it
    assert toolkit.exists()


@pytest.mark.usefixtures("toolkit")
def test_nvcc_is_a_name_on_request_only() -> None:
    assert "bin/nvcc" not in installation.development(Layout())
    assert installation.development(Layout(), nvcc=True)["bin/nvcc"] == Link("../lib/vgc/cuda/bin/nvcc")


@pytest.mark.usefixtures("toolkit")
def test_running_takes_shared_libraries_and_no_compiler() -> None:
    running, compiling = installation.runtime(Layout()), installation.development(Layout())
    assert not running.keys() & compiling.keys()
    assert {"lib/libvgc.so.1", "lib/vgc/cuda/lib64/libcudart.so.12"} <= running.keys()
    assert {
        "lib/libvgc.so",
        "lib/libvgc.a",
        "lib/vgc/cuda/lib64/libcudart_static.a",
        "include/vgc.h",
    } <= compiling.keys()


def test_installed_file_is_replaced_whole(tmp_path: Path) -> None:
    installation.install({"lib/libvgc.so": b"old"}, tmp_path)
    with (tmp_path / "lib/libvgc.so").open("rb") as held:
        installation.install({"lib/libvgc.so": b"new"}, tmp_path)
        assert held.read() == b"old"
    assert (tmp_path / "lib/libvgc.so").read_bytes() == b"new"


def unpacked(folder: Path, *names: str) -> Path:
    """Builds packages and unpacks them; returns the folder that is their root."""
    root = folder / "unpacked"
    for name in names:
        deb = package.build(by_name()[name], folder, compress=False)
        subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
    return root


def by_name() -> dict[str, package.Package]:
    return {described.name: described for described in guest.packages()}


def field(deb: Path, name: str) -> str:
    return output("dpkg-deb", "--field", deb, name).strip()


def test_packages_of_the_driver_run_from_the_folder_they_are_unpacked_to(tmp_path: Path) -> None:
    root = unpacked(tmp_path, "libvgc1", "python3-vgc", "vgc-guest")
    assert output(root / "usr/bin/vgc", "--version") == f"vgc {VERSION}\n"
    (library,) = (root / "usr/lib").glob("*-linux-*/libvgc.so.1")
    assert (root / "usr/lib/python3/dist-packages/guest_driver/libvgc/build/libvgc.so").samefile(library)
    assert "[libvgc.so.1]" in next(line for line in output("readelf", "-d", library).splitlines() if "SONAME" in line)
    assert (root / "usr/lib/modules-load.d/virtio-gpu-compute.conf").read_text() == "uio_pci_generic\n"


@pytest.mark.usefixtures("toolkit")
def test_package_of_the_compiler_runs_from_the_folder_it_is_unpacked_to(tmp_path: Path) -> None:
    root = unpacked(tmp_path, "vgc-mynvcc")
    assert output(root / "usr/bin/mynvcc") == "compiled\n"
    assert (root / "usr/lib/vgc/cuda/include/sub/cuda.h").exists()
    assert not (root / "usr/bin/nvcc").exists()


@pytest.mark.usefixtures("toolkit")
def test_packages_share_no_file_and_depend_on_one_another(tmp_path: Path) -> None:
    described = by_name()
    assert set(described) == {"libvgc1", "libvgc-dev", "python3-vgc", "vgc-guest", "vgc-mynvcc", "vgc-nvcc"}
    paths = [path for one in described.values() for path in one.files]
    assert len(paths) == len(set(paths))
    debs = {name: package.build(one, tmp_path, compress=False) for name, one in described.items()}
    assert "libc6 (>= 2." in field(debs["libvgc1"], "Depends")
    assert f"libvgc1 (= {VERSION})" in field(debs["python3-vgc"], "Depends")
    needed = field(debs["vgc-mynvcc"], "Depends")
    assert f"libvgc-dev (= {VERSION})" in needed
    assert "clang-19 | clang | " in needed
    assert "nvidia-cuda-toolkit" in field(debs["vgc-nvcc"], "Conflicts")


def test_package_has_the_checksums_of_its_files(tmp_path: Path) -> None:
    root = unpacked(tmp_path, "libvgc1")
    output("dpkg-deb", "--control", tmp_path / by_name()["libvgc1"].file_name, tmp_path / "control")
    checked = subprocess.run(
        ["md5sum", "--check", "--quiet", tmp_path / "control" / "md5sums"], cwd=root, check=False, capture_output=True
    )
    assert checked.returncode == 0, checked.stdout


def test_packages_say_which_libraries_their_programs_need(tmp_path: Path) -> None:
    """The program is in C++; libvgc needs only C's library."""
    (tmp_path / "main.cpp").write_text("#include <iostream>\nint main() { std::cout << 1; }\n")
    output("g++", tmp_path / "main.cpp", "-o", tmp_path / "main")
    assert any(text.startswith("libstdc++6 (>= ") for text in package.libraries({"main": tmp_path / "main"}))
    library = {"lib/libvgc.so": installation.GUEST / "libvgc/build/libvgc.so"}
    assert [text.split()[0] for text in package.libraries(library)] == ["libc6"]


def test_unit_and_rules_name_what_was_installed(tmp_path: Path) -> None:
    lib = make_install(tmp_path) / "lib"
    unit = (lib / "systemd/system/vgc-grant.service").read_text()
    assert "ExecStart=/opt/vgc/bin/vgc grant vgc\n" in unit
    assert (lib / "sysusers.d/virtio-gpu-compute.conf").read_text() == "g vgc -\n"
    rules = (lib / "udev/rules.d/70-virtio-gpu-compute.rules").read_text()
    assert rules.count(f'=="0x{0x1040 + VIRTIO_ID:04x}"') == 2
    assert 'ENV{SYSTEMD_WANTS}+="vgc-grant.service"' in rules
    described = (lib / "pkgconfig/vgc.pc").read_text()
    assert "prefix=/opt/vgc\nlibdir=${prefix}/lib\nincludedir=${prefix}/include\n" in described
    assert f"Version: {VERSION}\n" in described
