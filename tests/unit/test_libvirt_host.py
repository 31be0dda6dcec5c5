"""Obstacles of a domain on its host: sockets, users, security modules, QEMU's age, files of regions."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.libvirt_rig import device, domain, plain
from vgc_libvirt import apparmor, host_check, regions
from vgc_libvirt.device import Device
from vgc_libvirt.errors import RegionError
from vgc_libvirt.host import Host, QemuUser, of_capabilities

NOBODY = 65534
CAPABILITIES = """
<capabilities><host>
  <secmodel><model>apparmor</model><doi>0</doi></secmodel>
  <secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+4200000:+4200001</baselabel><baselabel type='qemu'>+1:+1</baselabel></secmodel>
</host></capabilities>"""
REGION = bytes(range(256)) * 4096

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder that every user may enter."""
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if parent.owner() == tmp_path.owner() and parent != Path("/tmp"):
            parent.chmod(0o755)
    return tmp_path


@pytest.fixture
def listening(folder: Path) -> Iterator[Path]:
    path = folder / "vm.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o660)
        yield path


def errors(wanted: Device, host: Host | None = None, emulator: Path | None = None) -> list[str]:
    made = domain(
        plain().replace("<devices>", f"<devices><emulator>{emulator}</emulator>" if emulator else "<devices>")
    )
    made.attach(wanted)
    return [
        finding.text
        for finding in host_check.findings(made, [wanted], host or Host(QemuUser.of(os.getuid(), os.getgid())))
    ]


def stranger(*groups: int, models: frozenset[str] = frozenset()) -> Host:
    return Host(QemuUser(NOBODY, frozenset(groups or (NOBODY,))), models)


def test_a_socket_that_qemu_may_use_has_no_findings(listening: Path) -> None:
    assert errors(device(socket=str(listening))) == []
    assert errors(device(socket=str(listening)), stranger(listening.stat().st_gid)) == []


def test_a_daemon_that_does_not_run_is_told(tmp_path: Path) -> None:
    (error,) = errors(device(socket=f"{tmp_path}/none.sock"))
    assert "there is no socket" in error
    assert "vgcd does not run" in error


def test_a_socket_at_which_nobody_listens_is_told(tmp_path: Path) -> None:
    path = tmp_path / "old.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
    (error,) = errors(device(socket=str(path)))
    assert f"nobody listens at {path}" in error


def test_a_file_in_the_place_of_the_socket_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (error,) = errors(device(socket=f"{tmp_path}/file"))
    assert "is no socket" in error


def test_a_socket_of_the_wrong_group_is_told(listening: Path) -> None:
    (error,) = errors(device(socket=str(listening)), stranger())
    assert re.search(
        r"QEMU runs as user \w+ \(groups \w+\) and may not use its socket: .* with mode 0660; allowed: its group", error
    )


def test_a_socket_that_its_group_may_not_write_is_told(listening: Path) -> None:
    listening.chmod(0o640)
    (error,) = errors(device(socket=str(listening)), stranger(listening.stat().st_gid))
    assert "may not use its socket" in error
    assert "with mode 0640" in error


def test_a_folder_that_qemu_may_not_enter_is_told(folder: Path) -> None:
    inner = folder / "vgcd"
    inner.mkdir()
    path = inner / "vm.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        inner.chmod(0o700)
        (error,) = errors(device(socket=str(path)), stranger())
    assert f"may not enter a folder of its socket: {inner} is" in error


def test_libvirt_tells_users_and_security_modules() -> None:
    host = of_capabilities(CAPABILITIES)
    assert (host.user.uid, host.user.groups) == (4200000, frozenset({4200001}))
    assert host.models == {"apparmor", "dac"}
    session = of_capabilities("<capabilities><host/></capabilities>")
    assert session.user.uid == os.getuid()


def test_a_socket_that_apparmor_denies_is_told(listening: Path) -> None:
    host = stranger(listening.stat().st_gid, models=frozenset({"apparmor"}))
    (error,) = errors(device(socket=str(listening)), host)
    assert f"AppArmor confines QEMU, and no rule lets it use {listening}" in error


def test_a_socket_without_selinuxs_type_is_told(listening: Path) -> None:
    host = stranger(listening.stat().st_gid, models=frozenset({"selinux"}))
    (error,) = errors(device(socket=str(listening)), host)
    assert "SELinux confines QEMU" in error
    assert "allowed: vgcd_var_run_t" in error


def test_the_shipped_rules_of_apparmor_let_qemu_use_sockets(tmp_path: Path) -> None:
    shipped = Path(__file__).resolve().parents[2] / "libvirt_xml/apparmor/vgcd"
    place = tmp_path / "etc/apparmor.d/abstractions/libvirt-qemu.d"
    assert not apparmor.allows(Path("/run/vgcd/web1.sock"), tmp_path)
    place.mkdir(parents=True)
    (place / "vgcd").write_text(shipped.read_text())
    assert apparmor.allows(Path("/run/vgcd/web1.sock"), tmp_path)
    assert not apparmor.allows(Path("/run/vgcd/deeper/web1.sock"), tmp_path)


@pytest.mark.parametrize(
    ("rule", "path", "is_allowed"),
    [
        ("/run/vgcd/*.sock rw,", "/run/vgcd/a.sock", True),
        ("/run/vgcd/*.sock r,", "/run/vgcd/a.sock", False),
        ("# /run/vgcd/*.sock rw,", "/run/vgcd/a.sock", False),
        ("deny /run/vgcd/*.sock rw,", "/run/vgcd/a.sock", False),
        ("/run/** rwk,", "/run/vgcd/a.sock", True),
        ("@{run}/vgcd/{a,b}.sock rw,", "/run/vgcd/b.sock", True),
        ("/run/vgcd/{a,b}.sock rw,", "/run/vgcd/c.sock", False),
        ("/run/vgcd/{a,b}.sock rw,", "/run/vgcd/b.sock", True),
        ("/run/vgcd/[ab].sock rw,", "/run/vgcd/c.sock", False),
        ("/run/vgcd/?.sock rw,", "/run/vgcd/c.sock", True),
        ("/run/[ rw,", "/run/vgcd/c.sock", False),
    ],
)
def test_rules_of_apparmor_are_read(rule: str, path: str, is_allowed: bool, tmp_path: Path) -> None:
    file = tmp_path / "etc/apparmor.d/local/abstractions/libvirt-qemu"
    file.parent.mkdir(parents=True)
    file.write_text(f"  {rule}\n")
    assert apparmor.allows(Path(path), tmp_path) is is_allowed


@pytest.mark.parametrize(
    ("code", "message"), [(1, "has no device vhost-user-test-device-pci: it is older than QEMU 10.2"), (0, "")]
)
def test_a_qemu_without_the_device_is_told(code: int, message: str, listening: Path, tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_text(f'#!/bin/sh\ntest "$*" = "-device vhost-user-test-device-pci,help" && exit {code}\nexit 1\n')
    program.chmod(0o755)
    found = errors(device(socket=str(listening)), emulator=program)
    assert [message in error for error in found] == ([True] if message else [])


# ---- files of regions --------------------------------------------------------------------------


def left_over(folder: Path) -> Path:
    path = folder / "region"
    path.write_bytes(REGION)
    return path


def the_file(path: Path) -> regions.RegionFile:
    (file,) = regions.found([device(region_file=str(path))])
    return file


def test_a_left_over_region_is_zeroed_and_removed(tmp_path: Path) -> None:
    path = left_over(tmp_path)
    (tmp_path / "more").mkdir()
    with path.open("r+b") as held:
        descriptor = os.open(path, os.O_RDONLY)
        held.close()
        file = the_file(path)
        assert file.users == (os.getpid(),)
        with pytest.raises(RegionError, match=f"is used by the processes {os.getpid()}"):
            regions.remove(file)
        os.close(descriptor)
    regions.remove(the_file(path))
    assert not path.exists()


def test_data_of_a_removed_region_is_gone_for_those_who_had_opened_it(tmp_path: Path) -> None:
    path = left_over(tmp_path)
    file = the_file(path)
    with path.open("rb") as reader:  # after the look at its users
        regions.remove(file)
        assert reader.read().strip(b"\0") == b""


def test_a_region_that_came_into_use_since_it_was_found_stays(tmp_path: Path) -> None:
    path = left_over(tmp_path)
    file = the_file(path)
    with (
        path.open("rb") as stream,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(stream.fileno(),)) as user,
    ):
        with pytest.raises(RegionError, match=f"is used by the processes {user.pid}"):
            regions.remove(file)
        user.communicate()
    assert path.exists()


def test_no_qemu_opens_a_region_while_it_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = left_over(tmp_path)
    file, look, seen = the_file(path), regions.users, []

    def users(about: os.stat_result) -> tuple[int, ...]:
        seen.append(path.exists())
        return look(about)

    monkeypatch.setattr(regions, "users", users)
    regions.remove(file)
    assert seen == [False]
    assert list(tmp_path.iterdir()) == []


def test_a_region_in_use_stays_beside_the_one_that_has_its_name_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = left_over(tmp_path)
    file = the_file(path)

    def users(_about: os.stat_result) -> tuple[int, ...]:
        path.write_text("of the next QEMU")
        return (1,)

    monkeypatch.setattr(regions, "users", users)
    with pytest.raises(RegionError, match=rf"\.vgc-\w+ was {path}, which it cannot be again: File exists"):
        regions.remove(file)
    assert path.read_text() == "of the next QEMU"
    (other,) = set(tmp_path.iterdir()) - {path}
    assert other.read_bytes() == REGION


def test_a_file_that_has_taken_a_regions_place_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = left_over(tmp_path)
    file, rename = the_file(path), os.rename

    def swapped(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        path.unlink()
        path.write_text("kept")
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", swapped)
    with pytest.raises(RegionError, match=f"{path} is another file than a moment ago, and stays"):
        regions.remove(file)
    assert [(one, one.read_text()) for one in tmp_path.iterdir()] == [(path, "kept")]


def test_a_mapped_region_is_in_use(tmp_path: Path) -> None:
    import mmap

    path = left_over(tmp_path)
    with path.open("r+b") as file:
        held = mmap.mmap(file.fileno(), 0)
    assert the_file(path).users == (os.getpid(),)
    held.close()
    assert the_file(path).users == ()


def test_a_link_in_the_place_of_a_region_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("kept")
    link = tmp_path / "region"
    link.symlink_to(secret)
    with pytest.raises(RegionError, match="cannot be opened: Too many levels of symbolic links"):
        regions.remove(the_file(link))
    assert secret.read_text() == "kept"


def test_a_file_with_two_names_is_not_touched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("kept")
    (tmp_path / "region").hardlink_to(secret)
    with pytest.raises(RegionError, match="is no plain file with one name"):
        regions.remove(the_file(tmp_path / "region"))
    assert secret.read_text() == "kept"


def test_a_pipe_in_the_place_of_a_region_is_not_touched(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "region")
    with pytest.raises(RegionError, match="is no plain file with one name"):
        regions.remove(the_file(tmp_path / "region"))
    assert stat.S_ISFIFO((tmp_path / "region").stat().st_mode)


@as_root
def test_a_region_of_another_user_is_told(listening: Path, tmp_path: Path) -> None:
    path = left_over(tmp_path)
    path.chmod(0o600)
    (error,) = errors(
        device(socket=str(listening), region_file=str(path), region="1M"), stranger(listening.stat().st_gid)
    )
    assert f"is left over by another user: {path} is root:root with mode 0600" in error
    os.chown(path, NOBODY, NOBODY)
    assert (
        errors(device(socket=str(listening), region_file=str(path), region="1M"), stranger(listening.stat().st_gid))
        == []
    )


def test_a_region_of_another_size_is_told(listening: Path, tmp_path: Path) -> None:
    path = left_over(tmp_path)
    (error,) = errors(device(socket=str(listening), region_file=str(path)))
    assert f"{path} has 1048576 bytes; allowed: 67108864, region of vgcd's configuration" in error
