"""KubeVirt's hook sidecar as a process: what virt-launcher finds, asks and gets."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest

from tests.fakes.guest import REPOSITORY
from tests.fakes.virt_launcher import DOMAIN, FakeVirtLauncher, vmi
from tests.limits import ANSWERS_WITHIN_S
from vgc_kubernetes.domain import with_device
from vgc_kubernetes.terms import ELEMENTS, DeviceShape

LIMITS: Final = {ELEMENTS: "2", "vgc.dev/memory-256mi": "1"}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vgc-") as name:  # paths of sockets are short
        yield Path(name)


@pytest.fixture
def sidecar(folder: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "vgc_kubernetes.cli", "hook-sidecar", "--folder", str(folder), "--region", "128M"]
    with subprocess.Popen(argv, cwd=REPOSITORY, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def launcher(folder: Path, sidecar: subprocess.Popen[str]) -> Iterator[FakeVirtLauncher]:
    assert sidecar.poll() is None
    with FakeVirtLauncher(folder) as made:
        yield made


def test_sidecar_offers_to_change_domains_and_to_end(launcher: FakeVirtLauncher) -> None:
    assert (launcher.name, launcher.version) == ("vgc", "v1alpha3")
    assert launcher.points == {"OnDefineDomain", "Shutdown"}


def test_domain_gets_the_device(launcher: FakeVirtLauncher) -> None:
    assert launcher.define(DOMAIN, vmi(LIMITS)) == with_device(DOMAIN, DeviceShape(128 << 20))


def test_refusals_say_why_and_the_sidecar_goes_on(launcher: FakeVirtLauncher) -> None:
    for domain, instance, said in (
        (DOMAIN, vmi(), f"VMI default/vm1 asks for no {ELEMENTS}"),
        (b"<domain", vmi(LIMITS), "the domain is no XML"),
        (DOMAIN, b"{", "the VMI cannot be read"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            launcher.define(domain, instance)
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert said in str(refused.value.details())
    assert launcher.define(DOMAIN, vmi(LIMITS))


def test_data_of_cloud_init_stay_as_they_are(launcher: FakeVirtLauncher) -> None:
    assert launcher.cloud_init(b'{"UserData": "x"}') == b'{"UserData": "x"}'


def test_sidecar_ends_with_its_machine(
    launcher: FakeVirtLauncher, sidecar: subprocess.Popen[str], folder: Path
) -> None:
    launcher.shut_down()
    assert sidecar.wait(ANSWERS_WITHIN_S) == 0
    assert not list(folder.iterdir())


def test_sidecar_ends_by_sigterm(launcher: FakeVirtLauncher, sidecar: subprocess.Popen[str], folder: Path) -> None:
    assert launcher.name == "vgc"
    sidecar.terminate()
    assert sidecar.wait(ANSWERS_WITHIN_S) == 0
    assert not list(folder.iterdir())


def test_folder_that_kubevirt_has_not_mounted_is_named(folder: Path) -> None:
    argv = [sys.executable, "-m", "vgc_kubernetes.cli", "hook-sidecar", "--folder", str(folder / "none")]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=ANSWERS_WITHIN_S)
    assert done.returncode == 1
    assert f"{folder}/none is not there; allowed: the folder of hook sidecars that KubeVirt mounts" in done.stderr
