"""Parts of one toolkit in several places: parts that complete each other, and compilation with them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cuda_compile_rig import compile_image, needs_nvcc, needs_nvrtc, toolkit
from tests.unit.cuda_kits import forget, put, put_ptxas, use
from vhost_backend.compiler.job import CompileJob
from vhost_backend.engines.cuda import cubin, toolchain, toolkits
from vhost_backend.engines.cuda.toolkits import Toolkit

GROUPS = """
#include <cooperative_groups.h>
#include <cuda/std/cstdint>
namespace cg = cooperative_groups;
extern "C" __global__ void f(cuda::std::uint32_t *out) { out[0] = cg::this_thread_block().size(); }
"""
WHOLE = toolkit()
needs_whole = pytest.mark.skipif(
    WHOLE is None or WHOLE.nvrtc is None or len(WHOLE.roots) > 1, reason="needs all wheels of CUDA 13 in one folder"
)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Folder for wheels of a host without any toolkit."""
    folder = tmp_path / "site"
    (folder / "nvidia").mkdir(parents=True)
    use(monkeypatch, [folder], [])
    yield folder
    forget()


def put_half(site: Path, minor: int = 0) -> Path:
    """Installs the wheels that PyTorch brings: NVRTC and the runtime's headers."""
    root = site / "nvidia" / "cu13"
    put(root / "lib" / "libnvrtc.so.13", root / "lib" / f"libnvrtc-builtins.so.13.{minor}")
    put(root / "include" / "cuda.h", content=f"#define CUDA_VERSION {13000 + 10 * minor}\n")
    put(root / "include" / "cuda_runtime.h", root / "include" / "cooperative_groups.h")
    return root


def put_cccl(root: Path) -> Path:
    put(root / "include" / "cccl" / "nv" / "target", root / "include" / "cccl" / "cuda" / "std" / "version")
    return root / "include" / "cccl"


def put_installed(path: Path, version: str = "13.0") -> Path:
    """Installs a whole toolkit, as NVIDIA's installer lays it out."""
    major, minor = version.split(".")
    libraries, headers = path / "targets" / "x86_64-linux" / "lib", path / "targets" / "x86_64-linux" / "include"
    put(libraries / f"libnvrtc.so.{major}", libraries / f"libnvrtc-builtins.so.{version}", path / "bin" / "nvcc")
    put(headers / "cuda.h", content=f"#define CUDA_VERSION {int(major) * 1000 + int(minor) * 10}\n")
    put(headers / "cuda_runtime.h", headers / "cccl" / "nv" / "target", headers / "cccl" / "cuda" / "std" / "version")
    (path / "include").symlink_to("targets/x86_64-linux/include")
    (path / "lib64").symlink_to("targets/x86_64-linux/lib")
    put_ptxas(path / "bin" / "ptxas", version)
    return path


def job(**settings: str) -> CompileJob:
    defaults = {"arch": "sm_90", "driver": "13.0", "compiler": "nvrtc", "hooks": "on"}
    return toolchain.compile_job("CUDA_SOURCE", b"", (), defaults | settings)


def values(made: CompileJob, option: str) -> list[str]:
    return [str(value) for word, value in zip(made.argv, made.argv[1:], strict=False) if word == option]


def best(driver: str = "13.0") -> Toolkit:
    return toolkits.usable(toolkits.parse_version(driver))[0]


# ---- parts of one toolkit --------------------------------------------------------------------------------------------


def test_half_of_the_wheels_is_completed_by_an_installed_toolkit(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, system = put_half(site), put_installed(tmp_path / "cuda-13.0")
    use(monkeypatch, [site], [system])
    (kit,) = toolkits.installed()
    assert kit.nvrtc == wheels / "lib" / "libnvrtc.so.13"
    assert (kit.nvcc, kit.ptxas) == (system / "bin" / "nvcc", system / "bin" / "ptxas")
    assert kit.include_dirs == (wheels / "include", system / "include", system / "include" / "cccl")
    assert str(kit) == f"CUDA 13.0 in {wheels} and {system}"


def test_job_uses_and_sees_the_files_of_all_parts(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels, system = put_half(site), put_installed(tmp_path / "cuda-13.0")
    use(monkeypatch, [site], [system])
    made = job()
    assert values(made, "--ptxas") == [str(system / "bin" / "ptxas")]
    assert values(made, "--hooks")
    assert values(made, "--include")[-3:] == [str(path) for path in best().include_dirs]
    seen = {bind.source: str(bind.target) for bind in made.visible}
    assert seen[wheels / "lib" / "libnvrtc.so.13"] == "/vgc/cuda0/lib/libnvrtc.so.13"
    assert (seen[wheels / "include"], seen[system / "include"]) == ("/vgc/cuda0/include", "/vgc/cuda1/include")
    assert seen[system / "bin" / "ptxas"] == "/vgc/bin/ptxas"
    assert system not in seen
    assert not any(str(folder) in word for word in made.command(isolated=True) for folder in (wheels, system))


def test_parts_of_different_versions_are_not_mixed(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = put_half(site)
    use(monkeypatch, [site], [put_installed(tmp_path / "cuda-13.1", "13.1")])
    kit = best()
    assert (kit.version, kit.ptxas, kit.include_dirs) == ((13, 0), None, (wheels / "include",))
    assert [kit.version for kit in toolkits.installed()] == [(13, 1), (13, 0)]


@pytest.mark.parametrize(
    ("versions", "taken"),
    [(["13.1"], "13.1"), (["13.4", "13.1"], "13.1"), (["12.9"], None), (["14.0"], None), (["14.0", "13.2"], "13.2")],
)
def test_newer_assembler_of_the_same_major_version_is_taken(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: list[str], taken: str | None
) -> None:
    put_half(site)
    use(monkeypatch, [site], [put_installed(tmp_path / version, version) for version in versions])
    found = next(kit for kit in toolkits.installed() if kit.version == (13, 0))
    assert toolkits.assembler(found) == (None if taken is None else tmp_path / taken / "bin" / "ptxas")


def test_older_assembler_is_not_taken(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_half(site, 5)
    use(monkeypatch, [site], [put_installed(tmp_path / "cuda", "13.0")])
    assert toolkits.assembler(best("13.5")) is None
    assert not values(job(driver="13.5"), "--hooks")


@pytest.mark.parametrize(("release", "is_taken"), [("13.0", False), ("13.5", True), ("13.6", True), ("14.0", False)])
def test_version_of_an_assembler_in_the_same_folder_is_checked(site: Path, release: str, is_taken: bool) -> None:
    """Wheels of different versions share the folder nvidia/cu13."""
    ptxas = put_ptxas(put_half(site, 5) / "bin" / "ptxas", release)
    assert toolkits.assembler(best("13.5")) == (ptxas if is_taken else None)


def test_assembler_without_a_readable_version_has_its_toolkits(site: Path) -> None:
    root = put_half(site)
    put(root / "bin" / "ptxas")
    assert toolkits.ptxas_version(root / "bin" / "ptxas") is None
    assert toolkits.assembler(best()) == root / "bin" / "ptxas"


def test_wheels_in_two_folders_complete_each_other(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment may show the system's packages; only ptxas shows the version of the second half."""
    first, other = put_half(site), tmp_path / "dist-packages"
    second = other / "nvidia" / "cu13"
    put_ptxas(second / "bin" / "ptxas", "13.0")
    cccl = put_cccl(second)
    use(monkeypatch, [site, other], [])
    (kit,) = toolkits.installed()
    assert (kit.ptxas, kit.has(toolkits.CCCL)) == (second / "bin" / "ptxas", True)
    assert kit.include_dirs == (first / "include", second / "include", cccl)


def test_missing_cccl_is_taken_from_another_part(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels, system = put_half(site), put_installed(tmp_path / "cuda")
    own = put_ptxas(wheels / "bin" / "ptxas", "13.0")
    use(monkeypatch, [site], [system])
    assert (best().ptxas, toolkits.assembler(best())) == (own, own)
    assert best().include_dirs[-1] == system / "include" / "cccl"


def test_two_releases_of_cccl_are_not_mixed(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels, system = put_half(site), put_installed(tmp_path / "cuda")
    cccl = put_cccl(wheels)
    use(monkeypatch, [site], [system])
    assert best().include_dirs == (wheels / "include", cccl, system / "include")


def test_links_to_one_toolkit_are_one_part(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example /usr/local/cuda, /etc/alternatives/cuda and /usr/local/cuda-13.0."""
    real = put_installed(tmp_path / "cuda-13.0")
    (tmp_path / "alternative").symlink_to(real)
    (tmp_path / "cuda").symlink_to(tmp_path / "alternative")
    put_half(site)
    use(monkeypatch, [site], [tmp_path / "cuda", str(tmp_path / "cuda-[0-9]*")])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert [part.roots for part in best().parts] == [(site / "nvidia" / "cu13",), (real,)]
    assert len(set(best().include_dirs)) == len({path.resolve() for path in best().include_dirs})


def test_part_that_is_made_of_links_into_another_is_searched_once(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example a folder of wheels that was put together by hand."""
    system, wheels = put_installed(tmp_path / "cuda"), site / "nvidia" / "cu13"
    wheels.mkdir()
    for name in ("bin", "include"):
        (wheels / name).symlink_to(system / name)
    (wheels / "lib").symlink_to(system / "lib64")
    use(monkeypatch, [site], [system])
    assert best().include_dirs == (wheels / "include", wheels / "include" / "cccl")
    assert best().nvcc_lacks() == ()


def test_toolkit_named_by_the_environment_may_be_incomplete(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half, whole = put_half(tmp_path / "half"), put_installed(tmp_path / "whole")
    use(monkeypatch, [site], [whole])
    monkeypatch.setenv("CUDA_HOME", str(half))
    assert [part.roots for part in best().parts] == [(half,), (whole,)]
    assert best().nvrtc == half / "lib" / "libnvrtc.so.13"
    assert toolkits.assembler(best()) == whole / "bin" / "ptxas"


def test_layout_of_conda_packages_is_found(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers under targets/ alone, libraries in lib/."""
    root = tmp_path / "conda"
    put(root / "lib" / "libnvrtc.so.13", root / "lib" / "libnvrtc-builtins.so.13.0", root / "bin" / "nvcc")
    headers = root / "targets" / "x86_64-linux" / "include"
    put(headers / "cuda_runtime.h", headers / "cccl" / "nv" / "target", root / "include" / "zlib.h")
    put_ptxas(root / "bin" / "ptxas", "13.0")
    use(monkeypatch, [site], [])
    monkeypatch.setenv("CUDA_PATH", str(root))
    (kit,) = toolkits.installed()
    assert (kit.nvrtc, kit.ptxas) == (root / "lib" / "libnvrtc.so.13", root / "bin" / "ptxas")
    assert kit.include_dirs == (root / "include", headers, headers / "cccl")


# ---- missing pieces --------------------------------------------------------------------------------------------------


def test_missing_pieces_are_reported_with_consequence_and_package(site: Path) -> None:
    put_half(site)
    ptxas, cccl = toolchain.pieces("13.0")
    assert (ptxas.where, cccl.where) == (None, None)
    assert (
        "no ptxas of CUDA 13.0 or a newer 13.x: programs are compiled without the control system's hooks" in ptxas.price
    )
    assert ptxas.hint == "pip install 'nvidia-cuda-nvcc==13.0.*'"
    assert "programs cannot include cooperative_groups.h" in cccl.price
    assert cccl.hint == "pip install 'cuda-toolkit[cccl]==13.0.*'"


def test_missing_hooks_are_reported_with_place_and_package(site: Path) -> None:
    root = put_half(site)
    assert toolchain.unhooked("13.0") == (
        f"CUDA 13.0 in {root} has no ptxas of 13.0 or a newer 13.x beside nvrtc: pip install 'nvidia-cuda-nvcc==13.0.*'"
    )
    put_ptxas(root / "bin" / "ptxas", "13.0")
    forget()
    assert toolchain.unhooked("13.0") is None


def test_program_without_possible_hooks_has_another_identity(site: Path) -> None:
    """Programs cached before a ptxas was installed or removed must not be used afterwards."""
    put_half(site)
    assert len({job().identity, job(hooks="off").identity}) == 2


def test_present_pieces_are_reported_with_their_place(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_half(site)
    system = put_installed(tmp_path / "cuda")
    use(monkeypatch, [site], [system])
    where = [piece.where for piece in toolchain.pieces("13.0")]
    assert where == [system / "bin" / "ptxas", system / "include" / "cccl"]


def test_packages_of_cuda_12_have_other_names(site: Path) -> None:
    root = site / "nvidia" / "cuda_nvrtc"
    put(root / "lib" / "libnvrtc.so.12", root / "lib" / "libnvrtc-builtins.so.12.8")
    assert toolchain.pieces("12.8")[0].hint == "pip install 'nvidia-cuda-nvcc-cu12==12.8.*'"


# ---- nvcc ------------------------------------------------------------------------------------------------------------


def test_nvcc_with_a_whole_tree_searches_no_other(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_half(site)
    use(monkeypatch, [site], [put_installed(tmp_path / "cuda")])
    assert best().nvcc_lacks() == ()


def test_nvcc_with_half_a_tree_searches_the_others_behind_its_own(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, system = put_half(site), tmp_path / "cuda"
    put(system / "bin" / "nvcc", system / "include" / "crt" / "host_config.h")
    put_ptxas(system / "bin" / "ptxas", "13.0")
    put_cccl(system)
    use(monkeypatch, [site], [system])
    assert best().nvcc == system / "bin" / "nvcc"
    assert best().nvcc_lacks() == (wheels / "include",)


# ---- identity of cached programs -------------------------------------------------------------------------------------


def test_identity_changes_with_every_part(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_half(site)
    system = put_installed(tmp_path / "cuda")
    found = set()
    for installed in ([], [system]):
        use(monkeypatch, [site], installed)
        found.add(job().identity)
    os.utime(system / "bin" / "ptxas", ns=(1, 1))
    found.add(job().identity)
    (system / "include" / "cccl" / "cuda" / "std" / "version").write_text("another release")
    found.add(job().identity)
    shutil.rmtree(system / "include" / "cccl")
    forget()
    found.add(job().identity)
    assert len(found) == 5


# ---- real compilation ------------------------------------------------------------------------------------------------


def copied(source: Path, target: Path, *names: str) -> None:
    """Copies parts of a tree, by hard links where possible: one toolkit takes 500 MB."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, copy_function=_linked)
        else:
            _linked(str(source / name), str(target / name))


def _linked(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # another file system
        shutil.copy(source, target)


@pytest.fixture
def split(site: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Splits this machine's wheels in two: the part that PyTorch brings, and the rest as an installed toolkit."""
    assert WHOLE is not None
    whole = WHOLE.roots[0]
    wheels, system = site / "nvidia" / "cu13", tmp_path / "cuda"
    rest = {"cccl", "nv", "crt"}
    copied(whole, wheels, *(f"include/{path.name}" for path in (whole / "include").iterdir() if path.name not in rest))
    (wheels / "lib").symlink_to(whole / "lib")
    copied(whole, system, "bin", "nvvm", *(f"include/{name}" for name in sorted(rest)))
    return wheels, system


@needs_whole
@needs_nvrtc
@needs_nvcc
@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_split_toolkit_compiles_with_hooks(
    split: tuple[Path, Path], site: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    wheels, system = split
    use(monkeypatch, [site], [system])
    kit = best("13.5")
    assert [part.roots[0] for part in kit.parts] == [wheels, system]
    image, log = compile_image(GROUPS, compiler=compiler)
    assert cubin.parse(image).hooks is not None, log


@needs_whole
@needs_nvrtc
def test_pytorchs_wheels_alone_compile_without_hooks(
    split: tuple[Path, Path], site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control experiment: the hooks of the other test come from the second part."""
    assert split
    use(monkeypatch, [site], [])
    image, log = compile_image('extern "C" __global__ void f() {}')
    assert cubin.parse(image).hooks is None
    assert "note: the control system will not see this program: the host has no ptxas for CUDA 13." in log
    assert str(site) not in log
