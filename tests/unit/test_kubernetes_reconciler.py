"""The VMs of a node against the kubelet's list: what is removed, when, and what is left alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import pytest

from control_center.address import UnixAddress
from control_center.errors import RefusedError, UnreachableError
from vgc_kubernetes import reconciler as module
from vgc_kubernetes import vms
from vgc_kubernetes.allocations import Allocation, allocations, vm_name
from vgc_kubernetes.device_folders import DeviceFolders
from vgc_kubernetes.errors import KubeletError, RequestError
from vgc_kubernetes.kubelet import Kubelet
from vgc_kubernetes.protos.pod_resources_pb2 import (
    ContainerDevices,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)
from vgc_kubernetes.reconciler import Reconciler, Terms
from vgc_kubernetes.terms import ELEMENTS, DeviceShape, memory_resource
from vgc_kubernetes.vms import Offer, OwnVm

MIB: Final = 1 << 20
MEMORY: Final = memory_resource(256 * MIB)
RELEASE_S: Final = 60


class FakeVms:
    """VMs of a daemon, in memory. `is_up` is false while nobody answers; `refused` are VMs that are not served."""

    def __init__(self) -> None:
        self.present: dict[str, OwnVm] = {}
        self.refused: set[str] = set()
        self.is_up = True
        self.fails = False

    @contextlib.asynccontextmanager
    async def connected(self, *_terms: Any) -> AsyncIterator[FakeVms]:
        if not self.is_up:
            raise UnreachableError("nobody answers")
        yield self

    async def own(self) -> dict[str, OwnVm]:
        if self.fails:
            raise RefusedError("busy", "too many requests")
        return dict(self.present)

    async def offer(self, _own: Mapping[str, OwnVm]) -> Offer:
        return Offer(8, 1024 * MIB)

    async def add(self, name: str, _socket: Path, elements: int, memory_bytes: int) -> None:
        if name in self.refused:
            raise RequestError("no room")
        assert name not in self.present
        self.present[name] = OwnVm(name, elements, memory_bytes)

    async def remove(self, name: str, *, now: bool) -> None:  # noqa: ARG002
        del self.present[name]


class FakeList:
    """The kubelet's list of containers with devices."""

    def __init__(self) -> None:
        self.containers: list[Allocation] = []
        self.is_up = True

    async def pods(self) -> ListPodResourcesResponse:
        if not self.is_up:
            raise KubeletError("nobody answers")
        return listed(*self.containers)


def listed(*containers: Allocation) -> ListPodResourcesResponse:
    """Answer of a kubelet, which names each device apart."""
    pods = []
    for one in containers:
        namespace, pod, container = one.container.split("/")
        given = [ContainerDevices(resource_name=ELEMENTS, device_ids=[name]) for name in sorted(one.elements)]
        units = [f"unit-{index}" for index in range(one.memory_units)]
        given += [ContainerDevices(resource_name=MEMORY, device_ids=units), ContainerDevices(resource_name="x/y")]
        resources = ContainerResources(name=container, devices=given)
        pods.append(PodResources(namespace=namespace, name=pod, containers=[resources]))
    return ListPodResourcesResponse(pod_resources=pods)


class Rig:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.vms = FakeVms()
        self.kubelet = FakeList()
        monkeypatch.setattr(module, "connected", self.vms.connected)
        terms = Terms(UnixAddress(Path("/control")), release_after_s=RELEASE_S)
        folders = DeviceFolders(folder / "pods", os.getgid(), folder)
        self.reconciler = Reconciler(terms, cast("Kubelet", self.kubelet), folders, lambda: self.now)

    def reconcile(self, at: float = 0.0) -> set[str]:
        """Compares both sides at this time; returns the VMs that there are then."""
        self.now = at
        asyncio.run(self.reconciler.reconcile())
        return set(self.vms.present)

    def prepare(self, allocation: Allocation) -> None:
        self.kubelet.containers.append(allocation)
        asyncio.run(self.reconciler.prepare(allocation.elements))


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


def container(name: str, *elements: int, memory_units: int = 1) -> Allocation:
    return Allocation(f"default/{name}/compute", frozenset(f"pe-{one}" for one in elements), memory_units)


A: Final = container("a", 0, 1)
B: Final = container("b", 2)


def test_devices_of_a_container_are_gathered_from_all_entries() -> None:
    assert allocations(listed(A, B), MEMORY) == {A.vm: A, B.vm: B}


def test_containers_without_elements_are_left_out() -> None:
    assert allocations(listed(container("c")), MEMORY) == {}


def test_name_of_a_vm_does_not_depend_on_the_order_of_its_elements() -> None:
    assert vm_name(["pe-1", "pe-0"]) == A.vm != B.vm


def test_vm_stays_for_a_time_that_the_kubelet_does_not_list_it(rig: Rig) -> None:
    rig.prepare(A)
    rig.kubelet.containers.clear()
    assert rig.reconcile(100) == {A.vm}
    assert rig.reconcile(100 + RELEASE_S - 1) == {A.vm}
    assert rig.reconcile(100 + RELEASE_S) == set()


def test_time_begins_anew_when_a_kubelet_starts(rig: Rig) -> None:
    """A kubelet that has just started lists nothing yet."""
    rig.prepare(A)
    rig.kubelet.containers.clear()
    rig.reconcile(0)
    rig.kubelet.is_up = False
    assert rig.reconcile(RELEASE_S) == {A.vm}
    rig.kubelet.is_up = True
    assert rig.reconcile(RELEASE_S + 1) == {A.vm}
    rig.kubelet.containers.append(A)
    assert rig.reconcile(3 * RELEASE_S) == {A.vm}


def test_folder_goes_after_its_vm(rig: Rig) -> None:
    rig.prepare(A)
    rig.kubelet.containers.clear()
    rig.reconcile(0)
    rig.reconcile(RELEASE_S)
    assert rig.reconciler.folders.vms() == {A.vm}
    rig.reconcile(RELEASE_S + 1)
    assert rig.reconciler.folders.vms() == set()


def test_elements_of_a_vm_that_is_gone_are_given_to_the_next_at_once(rig: Rig) -> None:
    rig.prepare(A)
    rig.kubelet.containers.clear()
    both = [container("c", 0), container("d", 1)]
    for one in both:
        rig.prepare(one)
    assert rig.reconcile() == {one.vm for one in both}


def test_vms_that_the_daemon_lost_are_added_and_one_that_it_refuses_keeps_none_back(rig: Rig) -> None:
    rig.kubelet.containers += [A, B]
    rig.vms.refused.add(A.vm)
    assert rig.reconcile() == {B.vm}
    rig.vms.refused.clear()
    assert rig.reconcile() == {A.vm, B.vm}


def test_changed_amount_of_memory_makes_the_vm_anew(rig: Rig) -> None:
    rig.prepare(A)
    rig.kubelet.containers.clear()
    rig.prepare(container("a", 0, 1, memory_units=3))
    assert rig.vms.present[A.vm].memory_bytes == 768 * MIB


def test_vm_that_is_leaving_is_not_given_to_a_container(rig: Rig) -> None:
    rig.vms.present[A.vm] = OwnVm(A.vm, 2, 256 * MIB, is_leaving=True)
    with pytest.raises(RequestError, match=f"VM {A.vm} is leaving"):
        rig.prepare(A)


def test_offer_says_whether_the_daemon_answers(rig: Rig) -> None:
    rig.reconcile()
    assert rig.reconciler.offer.value == Offer(8, 1024 * MIB)
    rig.vms.is_up = False
    rig.reconcile()
    assert rig.reconciler.offer.value == Offer(8, 1024 * MIB, is_served=False)


def test_refusal_of_the_daemon_takes_no_devices_from_the_kubelet(rig: Rig) -> None:
    rig.reconcile()
    rig.vms.fails = True
    rig.reconcile()
    assert rig.reconciler.offer.value == Offer(8, 1024 * MIB)


def test_container_that_starts_is_told_that_the_daemon_does_not_answer(rig: Rig) -> None:
    rig.vms.is_up = False
    with pytest.raises(RequestError, match="the container gets no VM: nobody answers"):
        rig.prepare(A)


# ---- confused and hostile parties ----------------------------------------------------------------


def test_container_with_elements_of_one_that_runs_takes_nothing_away(rig: Rig) -> None:
    rig.prepare(A)
    with pytest.raises(
        RequestError, match="lists pe-1 of default/d/compute for another container, too; allowed: elements"
    ):
        rig.prepare(container("d", 1, 3))
    rig.prepare(B)
    for at in range(3):
        assert rig.reconcile(at * RELEASE_S) == {A.vm, B.vm}


def test_the_same_elements_of_two_containers_make_no_vm(rig: Rig) -> None:
    rig.kubelet.containers.append(container("x", 0, 1, memory_units=3))
    with pytest.raises(RequestError, match="lists pe-0, pe-1 of default/"):
        rig.prepare(A)
    assert rig.reconcile() == set()


def test_a_container_that_is_listed_twice_is_one(rig: Rig) -> None:
    rig.prepare(A)
    rig.prepare(A)
    assert rig.reconcile() == {A.vm}


def test_folder_that_cannot_be_made_keeps_back_no_other(rig: Rig, tmp_path: Path) -> None:
    first, second = sorted((A, B), key=lambda one: one.vm)
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / first.vm).write_text("in the way")
    rig.kubelet.containers += [A, B]
    assert rig.reconcile() == {second.vm}


def test_elements_that_are_allocated_and_never_started_leave_no_folder(rig: Rig) -> None:
    rig.reconciler.folders.make(A.vm)
    rig.reconcile(0)
    rig.reconcile(RELEASE_S)
    assert rig.reconciler.folders.vms() == set()


class FakeDaemon:
    """Connection to a daemon that tells of VMs with any names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    async def ask(self, request: Any) -> dict[str, Any]:
        match request.verb.name:
            case "topology":
                return {"vms": [{"vm": name, "origin": "added"} for name in self._names]}
            case "status":
                return {"left_out": dict.fromkeys(self._names, "no room")}
            case _:
                return {"configured": {"pes": 1, "memory_bytes": MIB}}


def test_vms_of_others_are_never_taken_for_the_plugins_own() -> None:
    """An administrator may choose any name; a daemon that lies may say any."""
    names = ["kubelet-test", f"{A.vm}0", f"{A.vm}/../../etc", f"{A.vm}\n", "kubelet-", A.vm.upper(), ""]
    own = vms.Vms(cast("Any", FakeDaemon([*names, A.vm])), DeviceShape(), "cpu").own()
    assert asyncio.run(own).keys() == {A.vm}
