"""Compute devices in Kubernetes: the kubelet's device plugin, which gives pods VMs of a host's ``vgcd``, and KubeVirt's hook
sidecar, which adds the device to the domain of such a pod. docs/kubevirt.md describes both.
"""

from __future__ import annotations

from virtio_proto.version import VERSION

__version__ = VERSION
