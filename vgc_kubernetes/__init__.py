"""Compute devices in Kubernetes: the kubelet's device plugin, which gives pods VMs of a host's ``vgcd``.
docs/kubevirt.md describes it.
"""

from __future__ import annotations

from virtio_proto.version import VERSION

__version__ = VERSION
