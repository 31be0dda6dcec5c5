"""The kubelet's device plugin, with a fake kubelet and a real `vgcd` on the software GPU."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest
import yaml

from tests.fakes.attached import AttachedLink
from tests.fakes.guest import REPOSITORY
from tests.fakes.kubelet import FakePod
from tests.fakes.vm import FakeVm
from tests.limits import HANGS_AFTER_S, TIME_TO_ANSWER_S
from tests.protocol.kubernetes_node import MEMORY, MIB, ONE, Node, name_of, node, socket_of
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from vgc_kubernetes.terms import ELEMENTS, NUM_QUEUES
from virtio_proto.schema import Health

pytestmark = needs_walls

GROUP, OWNER = 4242, 4343
CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FSETID = 0, 1, 4
NEVER_S: Final = 86400
"""Time of release that no test reaches."""


@pytest.fixture(name="node")
def empty_node() -> Iterator[Node]:
    with node() as made:
        yield made


@pytest.fixture
def running(node: Node) -> Node:
    node.start_vgcd()
    node.start_plugin()
    return node


def capabilities() -> list[str]:
    """Capabilities that the shipped manifest gives the plugin."""
    manifest = yaml.safe_load((REPOSITORY / "kubernetes_yaml" / "device-plugin.yaml").read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    given: list[str] = container["securityContext"]["capabilities"]["add"]
    return given


@contextlib.contextmanager
def guest_of(pod: FakePod) -> Iterator[AttachedLink]:
    with AttachedLink(socket_of(pod), num_queues=NUM_QUEUES) as link:
        link.wait_ready()
        yield link


def in_guest(link: AttachedLink, folder: Path, *argv: str) -> str:
    environment = {"VGC_MEMFD": link.description, "VGC_STATE_DIR": str(folder), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, *argv],
        cwd=REPOSITORY,
        env=os.environ | environment,
        pass_fds=link.fds,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(node: Node, name: str) -> str:
    with pytest.raises(grpc.RpcError) as refused:
        node.kubelet.start_container(name)
    return str(refused.value.details())


# ---- a pod and its VM ----------------------------------------------------------------------------


def test_pod_computes_with_as_many_elements_and_as_much_memory_as_it_asks_for(running: Node, tmp_path: Path) -> None:
    pod = running.kubelet.run("web", ONE)
    assert running.vms()[name_of(pod)]["origin"] == "persisted"
    with guest_of(pod) as link:
        assert "1 processing elements, 128 MiB of device memory" in in_guest(
            link, tmp_path, "-m", "guest_driver", "info"
        )
        assert "is right" in in_guest(link, tmp_path, "-c", PROGRAM)


PROGRAM: Final = """
import numpy as np, guest_driver as vgc
with vgc.Device() as device:
    program = device.compile('extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }')
    x = device.to_device(np.arange(32, dtype=np.float32))
    program.twice[1, 32](x)
    print("is right" if (x.get() == 2 * np.arange(32)).all() else x.get())
"""


def test_vm_leaves_with_its_pod(running: Node) -> None:
    first, second = running.kubelet.run("a", ONE), running.kubelet.run("b", ONE)
    running.wait_vms(name_of(first), name_of(second))
    running.kubelet.delete("a")
    running.wait_vms(name_of(second))
    running.kubelet.delete("b")
    running.wait_vms()


def test_vm_with_a_guest_leaves_when_the_guest_has_ended(running: Node) -> None:
    pod = running.kubelet.run("a", ONE)
    with guest_of(pod) as link:
        running.kubelet.delete("a")
        until(lambda: running.vms()[name_of(pod)]["origin"] == "leaving")
        link.refresh()
    running.wait_vms()


def test_restarted_container_finds_its_vm(running: Node) -> None:
    pod = running.kubelet.run("a", ONE)
    with guest_of(pod):
        pass
    running.kubelet.start_container("a")
    with guest_of(pod):
        assert running.vms().keys() == {name_of(pod)}


def test_elements_that_the_kubelet_gives_again_are_taken_from_the_pod_that_is_gone(node: Node) -> None:
    node.start_vgcd()
    node.start_plugin(release_after_s=NEVER_S)
    gone = node.kubelet.run("gone", {ELEMENTS: 2, MEMORY: 1})
    with FakeVm(socket_of(gone), region_bytes=64 * MIB) as hanging:
        hanging.frontend.wait_health(Health.READY)
        node.kubelet.delete("gone")
        next_pod = node.kubelet.run("next", ONE)
        assert node.vms().keys() == {name_of(next_pod)}
    node.wait_vms(name_of(next_pod))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to a foreign group")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv of util-linux")
def test_folder_belongs_to_the_daemons_user_and_the_group_of_qemu_and_to_nobody_else(node: Node) -> None:
    """The plugin has the capabilities of the shipped manifest."""
    allowed = "-all," + ",".join(f"+{name.lower()}" for name in capabilities())
    node.start_vgcd()
    os.chown(node.folder / "control", OWNER, -1)  # as the unit's user owns it
    launcher = ["setpriv", f"--inh-caps={allowed}", f"--bounding-set={allowed}", "--no-new-privs"]
    node.start_plugin("--group", str(GROUP), launcher=launcher)
    status = Path(f"/proc/{node.plugin.pid}/status").read_text()
    assert f"CapEff:\t{1 << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_FSETID:016x}\n" in status
    socket = socket_of(node.kubelet.run("a", ONE))
    assert (socket.stat().st_gid, socket.parent.stat().st_gid) == (GROUP, GROUP)
    assert socket.parent.stat().st_uid == OWNER
    assert not socket.parent.stat().st_mode & 0o007


# ---- what is published ---------------------------------------------------------------------------


def test_what_other_vms_are_allotted_is_not_published(node: Node) -> None:
    node.start_vgcd({"other": {"socket": str(node.folder / "other"), "quota": {"pes": 1, "memory": "64M"}}})
    node.start_plugin()
    elements = sum(gpu["pes"] for gpu in node.caller.ask("status")["gpus"])
    node.kubelet.wait_healthy(ELEMENTS, elements - 1)
    node.kubelet.run("a", ONE)
    node.caller.ask("remove_vm", vm="other")
    node.kubelet.wait_healthy(ELEMENTS, elements)


def test_memory_is_enough_for_a_vm_of_each_element_and_no_more(running: Node) -> None:
    units = len(running.kubelet.healthy(MEMORY))
    status = running.caller.ask("status")
    (gpu,) = status["gpus"]
    assert units == (status["memory_bytes"] - gpu["pes"] * 64 * MIB) // (64 * MIB)
    rest = {f"p{index}": {ELEMENTS: 1, MEMORY: 1} for index in range(gpu["pes"] - 1)}
    for name, limits in {**rest, "large": {ELEMENTS: 1, MEMORY: units - len(rest)}}.items():
        running.kubelet.run(name, limits)


def test_devices_are_unhealthy_while_the_daemon_is_away(running: Node) -> None:
    elements = len(running.kubelet.healthy(ELEMENTS))
    running.stop_vgcd()
    running.kubelet.wait_healthy(ELEMENTS, 0)
    running.kubelet.wait_healthy(MEMORY, 0)
    running.start_vgcd()
    running.kubelet.wait_healthy(ELEMENTS, elements)


# ---- refusals ------------------------------------------------------------------------------------


def test_pod_without_memory_is_told_what_it_lacks(running: Node) -> None:
    running.kubelet.admit("a", {ELEMENTS: 1})
    assert refusal(running, "a") == f"default/a/compute has 1 of {ELEMENTS} and no {MEMORY}; allowed: limits for both"
    assert not running.vms()


def test_elements_of_no_container_get_no_vm(running: Node) -> None:
    pod = running.kubelet.admit("a", ONE)
    running.kubelet.delete("a")
    with pytest.raises(grpc.RpcError, match="the kubelet lists no container with the elements pe-0"):
        running.kubelet.prepare(ELEMENTS, pod.devices[ELEMENTS])


def test_refusal_of_the_daemon_reaches_the_kubelet(running: Node) -> None:
    running.kubelet.healthy(ELEMENTS)
    running.caller.ask("add_vm", vm="other", socket=str(running.folder / "other"), pes=os.cpu_count(), memory="64M")
    running.kubelet.admit("a", ONE)
    assert "vgcd does not serve a VM with 1 elements: " in refusal(running, "a")
    running.caller.ask("remove_vm", vm="other", now=True)
    until(lambda: "other" not in running.vms())
    running.kubelet.start_container("a")


# ---- restarts ------------------------------------------------------------------------------------


def test_first_list_of_a_plugin_is_whole(node: Node) -> None:
    """A kubelet that starts lets no pod go on whose devices are not there."""
    with pytest.raises(AssertionError):
        node.start_plugin(registers_within_s=TIME_TO_ANSWER_S)
    node.start_vgcd()
    until(lambda: len(node.kubelet.first_lists) == 2)
    node.kubelet.restart()
    until(lambda: len(node.kubelet.first_lists) == 4)
    assert min(node.kubelet.first_lists) >= 1


def test_plugin_registers_with_the_next_kubelet_and_pods_go_on(running: Node) -> None:
    pod = running.kubelet.run("a", ONE)
    with guest_of(pod) as link:
        running.kubelet.restart()
        running.kubelet.wait_registrations(4)
        next_pod = running.kubelet.run("b", ONE)
        link.refresh()
        running.wait_vms(name_of(pod), name_of(next_pod))
        assert running.kubelet.options(ELEMENTS).pre_start_required


def test_next_plugin_knows_what_the_last_one_has_made(running: Node) -> None:
    first, second = running.kubelet.run("a", ONE), running.kubelet.run("b", ONE)
    with guest_of(first) as link:
        running.stop_plugin()
        assert not list((running.kubelet.folder / "device-plugins").glob("vgc*"))
        running.kubelet.delete("b")
        assert name_of(second) in running.vms()
        running.start_plugin()
        running.wait_vms(name_of(first))
        link.refresh()


def test_vms_are_back_after_a_restart_of_the_host(running: Node) -> None:
    pod = running.kubelet.run("a", ONE)
    running.stop_vgcd()
    running.stop_plugin()
    shutil.rmtree(running.folders)  # it is in /run
    running.start_vgcd()
    assert not running.vms()
    assert name_of(pod) in running.caller.ask("status")["left_out"]
    running.start_plugin()
    running.kubelet.start_container("a")
    with guest_of(pod):
        assert running.vms()[name_of(pod)]["pes"] == 1
    assert "left_out" not in running.caller.ask("status")


def test_vms_that_the_daemon_has_forgotten_are_made_again(running: Node) -> None:
    pod = running.kubelet.run("a", ONE)
    running.stop_vgcd()
    shutil.rmtree(running.folder / "state")
    running.start_vgcd()
    running.wait_vms(name_of(pod))
    with guest_of(pod):
        pass
