"""A node of a cluster: a fake kubelet, a real `vgcd` on the software GPU, and the device plugin."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.fakes.api_caller import ApiCaller
from tests.fakes.guest import REPOSITORY
from tests.fakes.kubelet import FakeKubelet, FakePod
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.test_reload import is_reached
from tests.protocol.test_vgcd import vgcd, wait_for
from tests.waiting import until
from vgc_kubernetes.allocations import vm_name
from vgc_kubernetes.terms import ELEMENTS, memory_resource

MIB: Final = 1 << 20
MEMORY: Final = memory_resource(64 * MIB)
ONE: Final = {ELEMENTS: 1, MEMORY: 2}
"""Limits of a container with one processing element and 128 MiB."""


class Node:
    """A node: its kubelet, its `vgcd` and its plugin, each of which can be ended and started again."""

    def __init__(self, folder: Path, kubelet: FakeKubelet) -> None:
        self.folder = folder
        self.kubelet = kubelet
        self.folders = folder / "pods"
        self._plugin = contextlib.ExitStack()
        self._daemon = contextlib.ExitStack()
        self.plugin: subprocess.Popen[str]

    def start_vgcd(self, vms: dict[str, dict[str, Any]] | None = None) -> None:
        control = self.folder / "control"
        root = {
            "vms": vms or {},
            "defaults": {"engine": "cpu", "sandbox": "best-effort"},
            "cache": str(self.folder / "cache"),
            "state": str(self.folder / "state"),
            "log": {"format": "json"},
            "control": {"socket": str(control)},
        }
        file = self.folder / "vgcd.yaml"
        file.write_text(json.dumps(root))
        process = self._daemon.enter_context(vgcd("run", "--config", str(file)))
        wait_for(process, "serving")
        until(lambda: is_reached(control))
        self._daemon.callback(self._end, process)
        self.caller = self._daemon.enter_context(ApiCaller(control))

    def stop_vgcd(self) -> None:
        self._daemon.close()

    def start_plugin(
        self,
        *options: str,
        release_after_s: int = 0,
        launcher: Sequence[str] = (),
        registers_within_s: float = ANSWERS_WITHIN_S,
    ) -> None:
        """Starts the plugin, by the program `launcher` if it is given, and waits until the kubelet knows it."""
        argv = [
            *launcher,
            sys.executable,
            "-m",
            "vgc_kubernetes.cli",
            "device-plugin",
            "--control",
            f"unix:{self.folder}/control",
        ]
        argv += ["--folders", str(self.folders), "--kubelet", str(self.kubelet.folder), "--memory-unit", "64M"]
        argv += ["--release-after", str(release_after_s), "--period", "1"]
        argv += [] if "--group" in options else ["--group", str(os.getgid())]
        registered = self.kubelet.registrations
        self.plugin = subprocess.Popen([*argv, *options], cwd=REPOSITORY, text=True)
        self._plugin.callback(self._end, self.plugin)
        self.kubelet.wait_registrations(registered + 2, registers_within_s)

    def stop_plugin(self) -> None:
        self._plugin.close()

    def close(self) -> None:
        self.stop_plugin()
        self.stop_vgcd()

    def _end(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(ANSWERS_WITHIN_S) == 0

    def vms(self) -> dict[str, dict[str, Any]]:
        return {vm["vm"]: vm for vm in self.caller.ask("topology")["vms"]}

    def wait_vms(self, *names: str) -> None:
        """Waits until just these VMs are served and have folders."""
        until(lambda: self.vms().keys() == set(names))
        until(lambda: {path.stem for path in self.folders.glob("*")} == set(names))


@contextlib.contextmanager
def node() -> Iterator[Node]:
    """A node with a kubelet only."""
    with (
        tempfile.TemporaryDirectory(prefix="vgc-") as name,  # paths of sockets are short
        FakeKubelet(Path(name) / "kubelet") as kubelet,
        contextlib.closing(Node(Path(name), kubelet)) as made,
    ):
        yield made


def name_of(pod: FakePod) -> str:
    return vm_name(pod.devices[ELEMENTS])


def socket_of(pod: FakePod) -> Path:
    """The VM's socket: the file in the pod's folder that its variable names."""
    mount = pod.mount()
    inside = Path(pod.variables()["VGC_SOCKET"])
    return Path(mount.host_path) / inside.relative_to(mount.container_path)
