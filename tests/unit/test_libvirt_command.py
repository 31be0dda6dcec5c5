"""Command line of `vgc-libvirt`, on files and on libvirt's own test driver."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import libvirt
import pytest
import yaml

from tests.unit.libvirt_rig import domain, is_valid, plain
from vgc_libvirt import cli

CONFIG = {
    "state": "/nowhere",
    "vms": {
        "web1": {"socket": "/run/vgcd/web1.sock"},
        "web2": {"socket": "/run/vgcd/web2.sock", "region": "128M"},
        "inherited": {},
    },
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "vgcd.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "web1.xml"
    found.write_text(plain())
    return found


def run(*words: str | Path, config: Path) -> int:
    return cli.main([*map(str, words), "--config", str(config)])


def test_a_file_is_changed_in_place(file: Path, config: Path) -> None:
    assert run("attach", file, "--in-place", config=config) == 0
    assert [str(found.socket) for found in domain(file.read_text()).devices()] == ["/run/vgcd/web1.sock"]
    assert run("check", file, config=config) == 0
    assert run("detach", file, "web1", "--in-place", config=config) == 0
    assert file.read_text() == domain(plain()).text()


def test_a_file_that_cannot_be_written_stays_and_is_told(
    file: Path, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert run("attach", file, "--in-place", config=config) == 2
    assert f"{file} cannot be written: No space left on device; allowed: a file" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert sorted(file.parent.iterdir()) == [config, file]


def test_a_file_that_is_changed_in_place_keeps_its_permissions_and_links_to_it(file: Path, config: Path) -> None:
    file.chmod(0o640)
    link = file.with_name("link.xml")
    link.symlink_to(file)
    assert run("attach", link, "web1", "--in-place", config=config) == 0
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert len(domain(file.read_text()).devices()) == 1


def test_left_over_regions_are_removed_beside_one_that_stays(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder of everybody's, somebody may have put a link in the place of one."""
    files = {name: tmp_path / name for name in ("a", "b", "c")}
    rows = {name: {"socket": f"/run/{name}", "region_file": str(path)} for name, path in files.items()}
    config.write_text(yaml.safe_dump({"state": "/nowhere", "vms": rows}))
    files["a"].symlink_to("/etc/passwd")
    files["b"].write_bytes(b"secret")
    os.mkfifo(files["c"])
    assert run("regions", "--remove", config=config) == 1
    told = capsys.readouterr()
    assert told.out.startswith(f"b: {files['b']} is ")
    assert told.out.endswith(", 6 bytes, left over: zeroed and removed\n")
    assert [line.split()[1] for line in told.err.splitlines()] == [str(files["a"]), str(files["c"])]
    assert not files["b"].exists()


def test_the_daemons_state_names_no_file_that_root_would_remove(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, state = tmp_path / "secret", tmp_path / "state"
    secret.write_text("kept")
    state.mkdir()
    added = {"evil": {"socket": "/run/evil", "region_file": str(secret)}}
    (state / "added-vms.json").write_text(json.dumps({"version": 1, "vms": added}))
    config.write_text(yaml.safe_dump({"state": str(state), "vms": {}}))
    assert run("regions", "--remove", config=config) == 1
    assert f"{secret} is named by VM evil, which vgcd's configuration does not have" in capsys.readouterr().err
    assert secret.read_text() == "kept"
    config.write_text(yaml.safe_dump({"state": str(state), "vms": added}))
    assert run("regions", "--remove", config=config) == 0
    assert not secret.exists()


@pytest.mark.parametrize("kind", ["pipe", "link", "endless"])
def test_the_daemons_state_keeps_no_reader_waiting(
    kind: str, tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "state" / "added-vms.json"
    file.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/dev/zero")
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    config.write_text(yaml.safe_dump({"state": str(file.parent), "vms": {}}))
    assert run("regions", config=config) == 2
    assert f"{file} cannot be used: " in capsys.readouterr().err


def test_a_domain_without_a_definition_gets_none(config: Path, capsys: pytest.CaptureFixture[str]) -> None:

    text = "<domain type='test'><name>web1</name><memory>1024</memory><os><type>hvm</type></os></domain>"
    with contextlib.closing(libvirt.open("test:///default")) as connection:  # its domains go with the last connection
        transient = connection.createXML(text)
        for command in ("attach", "detach"):
            assert run(command, "web1", "--connect", "test:///default", config=config) == 1
            said = capsys.readouterr().err
            assert "web1 is transient and has no definition; allowed: a domain that has one, or --live" in said
        assert not transient.isPersistent()


def test_the_changed_definition_goes_to_standard_output(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plain().encode())))
    assert run("attach", "-", "web1", "web2", config=config) == 0
    out = capsys.readouterr().out
    assert [str(found.socket) for found in domain(out).devices()] == ["/run/vgcd/web1.sock", "/run/vgcd/web2.sock"]
    assert is_valid(out)


def test_parts_are_printed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("xml", "web1", config=config) == 0
    out = capsys.readouterr().out
    assert 'value=\'{"driver":"vhost-user-test-device-pci"' in out
    assert out.startswith("<domain xmlns:qemu=")
    assert out.endswith("  </qemu:commandline>\n</domain>\n")


def test_findings_are_printed_and_are_the_exit_code(
    file: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", file, config=config) == 1
    out = capsys.readouterr().out.splitlines()
    assert out == [
        f"error: {file}: it has no device of vgcd",
        "  to mend it: `vgc-libvirt attach` adds one",
        "1 domain checked: 1 error",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("xml", "web3"), "has no VM 'web3'; its VMs: inherited, web1, web2"),
        (("xml", "web1", "web1"), "VM web1 is named 2 times; allowed: once"),
        (("xml", "inherited"), "vms.inherited has no socket; allowed for libvirt: a VM whose socket has a path"),
        (("attach", "./none.xml"), "none.xml cannot be read: No such file"),
    ],
)
def test_what_is_wrong_with_words_is_told(
    words: tuple[str, ...], message: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words, config=config) == 2
    assert message in capsys.readouterr().err


def test_options_may_stand_before_the_command(file: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--config", str(config), "attach", str(file)]) == 0
    assert "/run/vgcd/web1.sock" in capsys.readouterr().out
    assert cli.main(["--config", str(config), "-c", "test:///default", "check"]) == 0


def test_a_domain_is_all_that_attach_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["attach"])
    assert capsys.readouterr().err.endswith("the following arguments are required: DOMAIN\n")


@pytest.mark.parametrize("option", ["attach", "detach"])
@pytest.mark.parametrize(("target", "name"), [("-", "stdin"), ("web1", "the domain web1")])
def test_only_files_are_changed_in_place(
    option: str, target: str, name: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(option, target, "--in-place", "--connect", "test:///default", config=config) == 2
    said = f"vgc-libvirt: {name} is no file; allowed with --in-place: a path with a slash or ending in .xml\n"
    assert capsys.readouterr().err == said


def test_a_file_that_cannot_be_written_is_told(
    file: Path, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert run("attach", file, "--in-place", config=config) == 2
    assert "web1.xml cannot be written: No space left on device; allowed" in capsys.readouterr().err


@pytest.mark.parametrize(("output", "code"), [("/dev/full", 1), ("pipe", 0)])
def test_output_that_nobody_takes_is_no_traceback(output: str, code: int, config: Path) -> None:
    words = [sys.executable, "-m", "vgc_libvirt.entry", "xml", "web1", "--config", str(config)]
    if output == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(output, os.O_WRONLY)
    done = subprocess.run(words, check=False, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    said = "" if output == "pipe" else "vgc-libvirt: [Errno 28] No space left on device\n"
    assert (done.returncode, done.stderr) == (code, said)


def test_a_vm_that_the_configuration_has_lost_is_detached(
    file: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("attach", file, "web1", "web2", "--in-place", config=config) == 0
    config.write_text("vms: {web1: {socket: /run/vgcd/web1.sock}}")
    assert run("check", file, config=config) == 1
    assert "or remove the device: `vgc-libvirt detach DOMAIN VM`" in capsys.readouterr().out
    assert run("detach", file, "web2", "--in-place", config=config) == 0
    assert [str(found.socket) for found in domain(file.read_text()).devices()] == ["/run/vgcd/web1.sock"]
    assert len(domain(file.read_text()).regions()) == 1
    assert run("detach", file, "web2", config=config) == 2
    assert "has no VM 'web2'; its VMs: web1" in capsys.readouterr().err


def test_a_missing_configuration_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("xml", "a", config=tmp_path / "none.yaml") == 2
    assert "none.yaml; allowed: vgcd's configuration, there or named by --config" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vms: {a: {socket: relative}}", "vms.a.socket is 'relative'; allowed: an absolute path"),
        (f"vms: {{a: {{socket: /{'x' * 108}}}}}", "allowed: an absolute path of at most 107 bytes"),
        ("vms: {a: {region: 3M}}", "vms.a.region is '3M'; allowed: a power of two"),
        ("vms: {a: {socket: /s}, b: {socket: /s}}", "vms.b.socket is '/s'; allowed: a path that vms.a does not use"),
    ],
)
def test_a_wrong_configuration_is_told(
    text: str, message: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(text)
    assert run("xml", "a", config=config) == 2
    assert message in capsys.readouterr().err


def test_a_libvirt_that_does_not_answer_is_told(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"qemu+unix:///system?socket={tmp_path}/none"
    assert run("check", "--connect", uri, config=config) == 3
    assert f"no libvirt answers at {uri}: Failed to connect socket" in capsys.readouterr().err


def test_a_domain_that_libvirt_does_not_have_is_told(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("attach", "web1", "--connect", "test:///default", config=config) == 1
    assert "domain web1: libvirt at test:///default says: Domain not found" in capsys.readouterr().err


def test_domains_without_a_device_are_not_checked_unless_they_are_named(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", "--connect", "test:///default", config=config) == 0
    assert capsys.readouterr().out == "no domain has a device of vgcd: `vgc-libvirt attach` adds one\n"
    assert run("check", "test", "--connect", "test:///default", config=config) == 1
    assert "error: domain test: its type is 'test'" in capsys.readouterr().out


def test_a_missing_python_package_is_told() -> None:
    program = "import sys; sys.modules['lxml'] = None; from vgc_libvirt import entry; sys.exit(entry.main())"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        3,
        "vgc-libvirt: the Python package lxml is not installed (pip install 'virtio-gpu-compute[libvirt]')\n",
    )


def test_only_running_domains_are_changed_live(file: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("attach", file, "web1", "--live", config=config) == 2
    assert "web1.xml is a file; allowed with --live: the name of a running domain" in capsys.readouterr().err
    assert run("detach", "web1", "--live", "--connect", "test:///default", config=config) == 1
    assert "Domain not found" in capsys.readouterr().err
