"""The shipped manifests: valid by Kubernetes' own schemas, and consistent with the programs and with each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from tests.limits import HANGS_AFTER_S
from vgc_kubernetes import cli, terms, vmi
from vgc_kubernetes.allocations import vm_name
from vgc_kubernetes.device_folders import DeviceFolders
from vgc_kubernetes.kubelet_folders import KubeletFolders
from vgc_libvirt.arguments import Option, options
from vgc_libvirt.device import Device
from vhost_backend.config import daemon as config
from virtio_proto.version import VERSION

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "kubernetes_yaml"
RELEASES: Final = ("1.30", "1.34", "1.37")
"""Releases of Kubernetes whose schemas the manifests must fit."""


def manifest(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return loaded


def container(name: str) -> Any:
    spec = manifest(name)["spec"]
    (found,) = spec.get("template", {}).get("spec", spec)["containers"]
    return found


def limits() -> dict[str, dict[str, str]]:
    """Limits of each manifest that asks for a device."""
    machine = manifest("virtual-machine")["spec"]["template"]["spec"]["domain"]
    return {"pod": container("pod")["resources"]["limits"], "machine": machine["resources"]["limits"]}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["device-plugin", "pod"])
def test_manifest_fits_the_schema_of_kubernetes(name: str, release: str) -> None:
    assert kubernetes_validate.validate(manifest(name), release, strict=True).startswith(release)


def test_schema_rejects_a_misspelt_key() -> None:
    wrong = manifest("device-plugin")
    wrong["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="volumeMount"):
        kubernetes_validate.validate(wrong, RELEASES[-1], strict=True)


def test_plugin_is_started_with_options_that_it_takes() -> None:
    given = cli.arguments().parse_args(container("device-plugin")["args"])
    assert given.verb == "device-plugin"
    assert {terms.ELEMENTS, terms.memory_resource(given.memory_unit)} <= limits()["pod"].keys()
    assert {terms.ELEMENTS, terms.memory_resource(given.memory_unit)} == limits()["machine"].keys()


def test_plugin_sees_each_folder_at_its_own_path() -> None:
    """The kubelet mounts a VM's folder by the path that the plugin says: it must be that of the host."""
    given = cli.arguments().parse_args(container("device-plugin")["args"])
    kubelet = KubeletFolders(given.kubelet)
    wanted = {kubelet.plugins, kubelet.pod_resources.parent, given.folders, given.control.path.parent}
    volumes = manifest("device-plugin")["spec"]["template"]["spec"]["volumes"]
    of_host = {volume["name"]: volume["hostPath"]["path"] for volume in volumes}
    mounts = container("device-plugin")["volumeMounts"]
    assert {Path(mount["mountPath"]) for mount in mounts} == wanted
    assert {mount["name"]: mount["mountPath"] for mount in mounts} == of_host
    assert [mount["name"] for mount in mounts if mount.get("readOnly")] == ["pod-resources", "vgcd"]


def test_folder_is_that_of_the_shipped_unit() -> None:
    unit = (ROOT / "systemd" / "vgcd.service").read_text()
    assert f"ReadWritePaths=-{cli.FOLDERS}\n" in unit
    assert f"d {cli.FOLDERS} 0755 root root -\n" in (ROOT / "systemd" / "tmpfiles.d" / "vgcd.conf").read_text()


def test_daemon_takes_the_names_and_sockets_of_vms() -> None:
    name = vm_name(["pe-0", "pe-1"])
    socket = DeviceFolders(cli.FOLDERS, 107, Path("/run/vgcd/control.sock")).socket(name)
    (vm,) = config.parse(yaml.safe_dump({"vms": {name: {"socket": str(socket)}}})).vms
    assert (vm.name, vm.socket) == (name, socket)


def test_machine_asks_for_the_sidecar_as_kubevirt_reads_it() -> None:
    template = manifest("virtual-machine")["spec"]["template"]
    (hook,) = json.loads(template["metadata"]["annotations"]["hooks.kubevirt.io/hookSidecars"])
    assert hook.keys() <= {"image", "imagePullPolicy", "command", "args", "configMap"}
    assert cli.arguments().parse_args(hook["args"]).verb == "hook-sidecar"
    assert hook["image"] == container("device-plugin")["image"]
    assert vmi.check(json.dumps(template).encode())


def test_sidecar_and_plugin_have_the_same_shape() -> None:
    plugin = cli.arguments().parse_args(container("device-plugin")["args"])
    sidecar = cli.arguments().parse_args(["hook-sidecar"])
    assert (plugin.region, plugin.num_queues) == (sidecar.region, sidecar.num_queues)


def test_machine_has_memory_for_its_region() -> None:
    domain = manifest("virtual-machine")["spec"]["template"]["spec"]["domain"]
    guest, requested = cli.size(domain["memory"]["guest"]), cli.size(domain["resources"]["requests"]["memory"])
    assert requested - guest == terms.REGION_BYTES


def test_pod_starts_qemu_with_the_device_that_it_is_given(tmp_path: Path) -> None:
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    qemu.chmod(0o755)
    shown = container("pod")
    given = {"VGC_SOCKET": "/var/run/vgc/vgc.sock", "VGC_REGION_BYTES": str(64 << 20), "VGC_NUM_QUEUES": "16"}
    environment = os.environ | given | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    argv = [*shown["command"], *shown["args"]]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S)
    found = keys_of(options(done.stdout.splitlines()))
    wanted = keys_of(options(Device("pod", Path(given["VGC_SOCKET"]), 16, 64 << 20).command_line()))
    assert found == wanted


def keys_of(given: list[Option]) -> list[set[tuple[str, str]]]:
    """Keys and values of options but for names, each value as text."""
    names = ("id", "chardev", "memdev", "share")
    return [{(key, str(value)) for key, value in one.keys.items() if key not in names} for one in given]


# ---- the image -----------------------------------------------------------------------------------


def instructions() -> list[str]:
    text = re.sub(r"\\\n\s*", "", (FOLDER / "Containerfile").read_text())
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_image_has_all_that_the_package_is_built_from() -> None:
    copied = {
        word
        for line in instructions()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    assert all((ROOT / name).exists() for name in copied)
    project = (ROOT / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^include = \[(.*)\]$", project, flags=re.MULTILINE)
    packages = {name.strip(' "*') for name in listed.split(",")}
    assert packages | {"pyproject.toml", "setup.py", "README.md", "tools"} <= copied


def test_image_has_the_versions_that_the_manifests_name() -> None:
    images = {container("device-plugin")["image"], "registry.example/vgc-kubernetes:" + VERSION}
    assert len(images) == 1
    assert f"-t {images.pop()} ." in (FOLDER / "Containerfile").read_text()


def test_image_has_the_name_by_which_kubevirts_shim_runs_the_program() -> None:
    assert f"RUN ln -s /opt/vgc/bin/vgc-kubernetes /usr/bin/{cli.HOOK}" in instructions()
    assert instructions()[-1] == 'ENTRYPOINT ["/opt/vgc/bin/vgc-kubernetes"]'
