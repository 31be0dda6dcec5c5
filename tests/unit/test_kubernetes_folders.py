"""Folders of pods' VMs, beside a daemon that owns the folder above and everything that the plugin gives it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vgc_kubernetes.allocations import Allocation
from vgc_kubernetes.device_folders import DeviceFolders
from vgc_kubernetes.terms import SOCKET

A = Allocation("default/a/compute", frozenset({"pe-0"}), 1)
B = Allocation("default/b/compute", frozenset({"pe-1"}), 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run" / "kubelet"


@pytest.fixture
def folders(root: Path, tmp_path: Path) -> DeviceFolders:
    return DeviceFolders(root, os.getgid(), tmp_path)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Folder that is nobody's affair, with a file."""
    folder = tmp_path / "secret"
    folder.mkdir(mode=0o700)
    (folder / "file").write_text("kept")
    return folder


def use(folders: DeviceFolders) -> None:
    folders.note(A)
    folders.elements(A.vm)
    folders.remove(A.vm)


def test_note_and_folder_come_and_go(folders: DeviceFolders, root: Path) -> None:
    folders.note(A)
    folders.make(B.vm)
    assert (folders.elements(A.vm), folders.elements(B.vm)) == (A.elements, None)
    assert folders.vms() == {A.vm, B.vm}
    for one in (A, B):
        folders.remove(one.vm)
    assert (folders.vms(), list(root.iterdir())) == (set(), [])


def test_link_in_the_place_of_the_folder_above_is_not_followed(
    folders: DeviceFolders, root: Path, secret: Path
) -> None:
    root.parent.mkdir()
    root.symlink_to(secret)
    before = secret.stat()
    for action in (lambda: folders.make(A.vm), lambda: folders.note(A), lambda: folders.remove("file"), folders.vms):
        with pytest.raises(OSError, match=r"Not a directory|Too many levels of symbolic links"):
            action()
    assert folders.elements(A.vm) is None
    assert (secret.stat(), [path.name for path in secret.iterdir()]) == (before, ["file"])


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_folder_above_to_which_others_may_write_is_refused(folders: DeviceFolders, root: Path, mode: int) -> None:
    root.mkdir(parents=True)
    root.chmod(mode)
    with pytest.raises(
        PermissionError, match=f"has mode {mode:04o}; allowed: a folder of user {os.geteuid()}, to which"
    ):
        folders.make(A.vm)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_folder_above_of_another_user_is_refused(folders: DeviceFolders, root: Path) -> None:
    root.mkdir(parents=True)
    os.chown(root, 65534, 65534)
    with pytest.raises(PermissionError, match="belongs to user 65534 and has mode 0755; allowed: a folder of user 0"):
        folders.note(A)


def test_what_the_daemon_puts_into_its_folder_leads_nowhere(folders: DeviceFolders, secret: Path) -> None:
    folder = folders.make(A.vm)
    for name in ("allocation.json", "allocation.json.new", f"{A.vm}.json", SOCKET):
        (folder / name).symlink_to(secret / "file")
    (folder / "link").symlink_to(secret)
    use(folders)
    assert not folder.exists()
    assert (secret / "file").read_text() == "kept"


def test_link_in_the_place_of_a_vms_folder_is_not_followed(folders: DeviceFolders, root: Path, secret: Path) -> None:
    root.mkdir(parents=True)
    (root / A.vm).symlink_to(secret)
    before = secret.stat()
    with pytest.raises(OSError, match=r"Not a directory|Too many levels of symbolic links"):
        folders.make(A.vm)
    assert (secret.stat(), (secret / "file").read_text()) == (before, "kept")


def test_folder_that_is_right_is_left_alone(folders: DeviceFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment it would not be the daemon's, which may be making its socket just then."""
    folders.make(A.vm)

    def changed(*_arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr(os, "fchown", changed)
    monkeypatch.setattr(os, "fchmod", changed)
    folders.make(A.vm)
