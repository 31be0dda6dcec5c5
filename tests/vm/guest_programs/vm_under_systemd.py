"""A VM of the installed `vgcd`, served in its control groups: prints as JSON which groups and limits it has, also after a restart.

It runs on a machine with control groups of version 2, whose systemd runs the shipped units.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.fakes.attached import AttachedLink

CONFIG: Final = Path("/etc/vgcd/vgcd.yaml")
SLICE: Final = Path("/sys/fs/cgroup/vgcd.slice")
VMS: Final = SLICE / "vgcd-vms.service"
LIMITS: Final = ("cpu.max", "memory.max", "memory.swap.max", "pids.max")
SETTINGS: Final = (
    "vms: {a: {socket: /run/vgcd/a.sock, engine: cpu, num_queues: 4, quota: {pes: 1, memory: 64M}}}\n"
    "log: {format: json}\novercommit: true\ncontrol: {socket: /run/vgcd/control.sock}\n"
)


def systemctl(*words: str) -> str:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() + done.stderr.strip()


def user_of(pid: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1])


def groups() -> dict[str, dict[str, object]]:
    """Groups with processes that have a limit, of their own or above: their limits and the users of their processes."""
    found: dict[str, dict[str, object]] = {}
    for door in sorted(VMS.rglob("cgroup.procs")):
        group = door.parent
        if (
            group / "cgroup.type"
        ).read_text().strip() == "threaded":  # of some threads of a process that is listed above it
            continue
        pids = door.read_text().split()
        if pids and group.name != "idle":
            limits = {name: (group / name).read_text().strip() for name in LIMITS if (group / name).exists()}
            found[str(group.relative_to(VMS))] = {"limits": limits, "users": sorted({user_of(pid) for pid in pids})}
    return found


def left() -> list[str]:
    """Groups of daemons below that of all VMs."""
    return sorted(path.name for path in VMS.glob("vgcd-*"))


def main() -> None:
    CONFIG.write_text(SETTINGS)
    seen: dict[str, object] = {"start": systemctl("start", "vgcd"), "state": systemctl("is-active", "vgcd")}
    with AttachedLink(Path("/run/vgcd/a.sock"), num_queues=4) as link:
        link.wait_ready()
        seen["groups"] = groups()
        seen["restart"] = systemctl("restart", "vgcd")
        link.refresh()
        seen["generation"] = link._space.generation
        seen["groups after the restart"] = groups()
    seen["stop"] = systemctl("stop", "vgcd")
    seen["state at the end"] = systemctl("is-active", "vgcd")
    seen["left"] = left()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
