"""Devices that the kubelet has given to containers, and the VMs that these containers get for them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from vgc_kubernetes import terms
from vgc_kubernetes.protos.pod_resources_pb2 import ContainerResources, ListPodResourcesResponse

PREFIX: Final = "kubelet-"
_OWN: Final = re.compile(PREFIX + "[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Allocation:
    """Processing elements and units of memory of one container."""

    container: str
    """Names of namespace, pod and container, with slashes between."""
    elements: frozenset[str]
    memory_units: int
    shared: frozenset[str] = frozenset()
    """Elements that the kubelet lists for another container, too, which it does by mistake only."""

    @property
    def vm(self) -> str:
        return vm_name(self.elements)


def is_own(name: str) -> bool:
    """True for the names of VMs that the plugin adds and removes; it leaves all others alone."""
    return _OWN.fullmatch(name) is not None


def vm_name(elements: Iterable[str]) -> str:
    """Name of the VM for these elements. The kubelet gives an element to one container at a time, which makes it unique."""
    return PREFIX + hashlib.sha256("\n".join(sorted(elements)).encode()).hexdigest()[:16]


def allocations(listed: ListPodResourcesResponse, memory_resource: str) -> dict[str, Allocation]:
    """Containers with processing elements in an answer of the kubelet, by their VMs' names."""
    found: list[Allocation] = []
    for pod in listed.pod_resources:
        for container in pod.containers:
            elements = frozenset(_devices(container, terms.ELEMENTS))
            if elements:
                name = f"{pod.namespace}/{pod.name}/{container.name}"
                found.append(Allocation(name, elements, len(set(_devices(container, memory_resource)))))
    given = Counter(element for one in set(found) for element in one.elements)
    return {one.vm: replace(one, shared=frozenset(name for name in one.elements if given[name] > 1)) for one in found}


def _devices(container: ContainerResources, resource: str) -> list[str]:
    return [number for given in container.devices if given.resource_name == resource for number in given.device_ids]
