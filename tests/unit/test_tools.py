"""The tools that build and set up: rebuilds, caches, and error texts."""

from __future__ import annotations

import os
import shutil
import stat
import tomllib
from pathlib import Path

import pytest

from tools import build, common, sanitized, setup
from tools.cpio import CpioArchive
from tools.debian import PrivateApt

MAKEFILE = "product: source.c\n\tcp source.c product\n\techo built >> log\n"


def read_cpio(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Mode and contents of every entry, as the kernel reads them [linux: buffer-format.rst]."""
    entries: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at += -(-(110 + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return entries
        entries[name] = (mode, data[at : at + size])
        at += -(-size // 4) * 4


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with one part, whose Makefile logs each build."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "Makefile").write_text(MAKEFILE)
    (tmp_path / "room" / "source.c").write_text("int x;\n")
    monkeypatch.setattr(build, "PARTS", (build.Part("room", "room", ("room",), ("room/product",)),))
    monkeypatch.delenv("VGC_SANITIZE", raising=False)
    return tmp_path


def times_built(tree: Path) -> int:
    return (tree / "room" / "log").read_text().count("built")


def test_cpio_holds_files_links_and_their_folders() -> None:
    archive = CpioArchive()
    archive.add_bytes("a/b/file", b"12345", 0o755)
    archive.add_bytes("a/other", b"")
    archive.add_link("a/link", "b/file")
    entries = read_cpio(archive.data())
    assert list(entries) == ["a", "a/b", "a/b/file", "a/other", "a/link"]
    assert entries["a"] == (stat.S_IFDIR | 0o755, b"")
    assert entries["a/b/file"] == (stat.S_IFREG | 0o755, b"12345")
    assert entries["a/link"] == (stat.S_IFLNK | 0o777, b"b/file")


def test_part_is_built_once(tree: Path) -> None:
    build.build(tree)
    build.build(tree)
    assert times_built(tree) == 1


def test_changed_source_is_built_again(tree: Path) -> None:
    build.build(tree)
    (tree / "room" / "source.c").write_text("int y;\n")
    build.build(tree)
    assert times_built(tree) == 2


def test_missing_product_is_built_again(tree: Path) -> None:
    build.build(tree)
    (tree / "room" / "product").unlink()
    build.build(tree)
    assert times_built(tree) == 2


def test_failing_part_is_named(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tree / "room" / "Makefile").write_text("product:\n\tfalse\n")
    with pytest.raises(SystemExit):
        build.build(tree)
    assert "error: the room did not build" in capfd.readouterr().err


def test_digest_depends_on_contents_and_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    digests = []
    for contents, mode in (("a", 0o644), ("b", 0o644), ("b", 0o755)):
        path.write_text(contents)
        path.chmod(mode)
        digests.append(common.digest_of([path]))
    assert len(set(digests)) == 3
    assert common.digest_of([path]) == digests[-1]


def test_place_of_the_cache_can_be_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VGC_CACHE", str(tmp_path / "here"))
    assert common.cache_folder() == tmp_path / "here"


def test_apt_runs_on_its_own_state_and_without_the_sanitizers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libc.so.6")
    names = PrivateApt(tmp_path).run("env").splitlines()
    assert f"APT_CONFIG={tmp_path}/apt.conf" in names
    assert not [name for name in names if name.startswith("LD_PRELOAD=")]


def test_other_distributions_are_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    setup.install_packages()
    said = capsys.readouterr().err
    assert all(name in said for name in setup.PACKAGES)


def test_mirror_follows_changes_of_its_source(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.write_text("one")
    sanitized.copy_if_newer(source, target)
    assert target.read_text() == "one"
    target.write_text("kept: same time stamp")
    stamp = source.stat()
    os.utime(target, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    sanitized.copy_if_newer(source, target)
    assert target.read_text() == "kept: same time stamp"


def test_installation_includes_files_needed_at_run_time() -> None:
    """Every kind of file other than Python in the tree after `make build`."""
    settings = tomllib.loads((common.REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    taken = {
        path
        for package, patterns in settings.items()
        for p in patterns
        for path in (common.REPOSITORY / package).glob(p)
    }
    parts = [part for part in build.PARTS if not part.is_local]
    needed = [product for part in parts for pattern in part.products for product in common.REPOSITORY.glob(pattern)]
    headers = [path for path in (common.REPOSITORY / "kernels").rglob("*") if path.is_file()]
    assert len(needed) >= len(parts)
    assert not {path for path in (*needed, *headers) if path not in taken}
