"""Folders and sockets of a node's kubelet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KubeletFolders:
    """Paths below the kubelet's folder, /var/lib/kubelet."""

    folder: Path

    @property
    def plugins(self) -> Path:
        """Folder of the plugins' sockets and of the one at which they register. A kubelet that starts empties it."""
        return self.folder / "device-plugins"

    @property
    def registration(self) -> Path:
        return self.plugins / "kubelet.sock"

    @property
    def pod_resources(self) -> Path:
        return self.folder / "pod-resources" / "kubelet.sock"
