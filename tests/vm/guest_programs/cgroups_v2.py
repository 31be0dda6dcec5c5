"""Tries control groups of version 2, in a guest: prints what it saw as JSON. Argument: folder of the launcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from vhost_backend.cgroups import host
from vhost_backend.cgroups.group import Cgroup
from vhost_backend.cgroups.limits import Limits
from vhost_backend.quarters import Quarters

MIB: Final = 1 << 20
NOBODY: Final = 65534
OWNED: Final = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
"""Files of a group that systemd gives to the user to whom it delegates the group, beside its folder."""
TOP: Final = Path("/sys/fs/cgroup")
TAKE: Final = "data = [bytes([1]) * (1 << 20) for _ in range(%d)]"
FORK: Final = "import os\nwhile os.fork(): pass\nos.kill(os.getpid(), 19)"
SPIN: Final = "import time\nwhile time.process_time() < 0.5: pass"
"""Several times what a fifth of a processor is in one period, so the kernel must stop it, however slow the machine is."""

TWO_THREADS: Final = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\nprint(flush=True)\ntime.sleep(1000)"


def run_in(room: Quarters, program: str) -> subprocess.CompletedProcess[str]:
    assert room.cgroup is not None
    doors = [f"--cgroup={door}" for door in room.cgroup.doors]
    argv = (f"{sys.argv[1]}/vgc-launch", "--with-parent", "--no-isolation", *doors, "--", sys.executable, "-c", program)
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def is_throttled(room: Quarters) -> bool:
    """True if the kernel has stopped processes of the room that had used up their share of the processors."""
    assert room.cgroup is not None
    (door,) = room.cgroup.doors
    lines = (door.parent / "cpu.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["nr_throttled"]) > 0


def elements_of(vm: Cgroup) -> dict[str, object]:
    """Groups of both threads of a process of which one is bounded, and the bound."""
    worker = vm.child("elements-of", Limits(cpus=0.5))
    with subprocess.Popen((sys.executable, "-c", TWO_THREADS), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for door in worker.doors:
            door.write_text(str(process.pid))
        tasks = sorted(Path(f"/proc/{process.pid}/task").iterdir(), key=lambda task: int(task.name))
        for cpus in (0.5, 0.25):
            worker.bound_threads("elements", [int(tasks[1].name)], Limits(cpus=cpus, weight=200))
        groups = [(task / "cgroup").read_text().strip().rpartition("/")[2] for task in tasks]
        process.kill()
    folder = worker.doors[0].parent / "elements"
    limits = [(folder / name).read_text().strip() for name in ("cpu.max", "cpu.weight")]
    vm.keep(worker)
    return {"groups": groups, "limits": limits, "used again": vm.reuse(Limits()) is worker}


def tried(home: host.Home) -> dict[str, object]:
    """Outcome of programs that are within their limits, and of such that are not."""
    vm = Quarters(cgroup=home.group.child("vm-a"))
    small = vm.room("worker", Limits(memory_bytes=48 * MIB))
    large = vm.room("worker", Limits(memory_bytes=256 * MIB))
    few = vm.room("compile", Limits(processes=4))
    slow = vm.room("compile", Limits(cpus=0.2, weight=25))
    seen: dict[str, object] = {
        "version": home.group.version,
        "small": run_in(small, TAKE % 96).returncode,
        "small killed": small.oom_kills() > 0,
        "large": run_in(large, TAKE % 96).returncode,
        "large killed": large.oom_kills() > 0,
        "few": run_in(few, FORK).stderr.strip().splitlines()[-1],
        "large throttled": run_in(large, SPIN).returncode == 0 and is_throttled(large),
        "slow throttled": run_in(slow, SPIN).returncode == 0 and is_throttled(slow),
        "elements": elements_of(home.group.child("vm-b", Limits(weight=300))),
    }
    for room in (small, large, few, slow):
        vm.vacate(room)
    return seen


def tried_by_user() -> dict[str, object]:
    """Outcome in a group beside the daemon's, which is an ordinary user's, as the shipped units have it."""
    above = TOP / "vgcd.slice"
    ground = above / "vgcd-vms.service"
    ground.mkdir(parents=True)
    (above / "cgroup.subtree_control").write_text("+cpu +memory +pids")
    for path in (ground, *(ground / name for name in OWNED), above / OWNED[0]):
        os.chown(path, NOBODY, NOBODY)
    service = above / "vgcd.service"
    service.mkdir()
    (service / "cgroup.procs").write_text("0")
    environment = {**os.environ, host.PLACE: "vgcd.slice/vgcd-vms.service"}
    argv = (sys.executable, __file__, sys.argv[1], "user")
    done = subprocess.run(
        argv, env=environment, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr}


def by_user() -> None:
    """Tries the group that the environment names."""
    home = host.find()
    seen = tried(home)
    home.close()
    print(json.dumps(seen | {"left": [path.name for path in (TOP / os.environ[host.PLACE]).glob("vgcd-*")]}))


def main() -> None:
    """Tries groups at the top of the tree, in one that was delegated to this process, as systemd before 254 and since does it, and
    beside it.
    """
    at_top = host.find()
    seen: dict[str, object] = {"at top": tried(at_top)}
    at_top.close()
    left = [path.name for path in TOP.glob("vgcd-*")]
    service = TOP / "vgcd.service"
    service.mkdir()
    os.setxattr(service, "user.delegate", b"1")
    (service / "cgroup.procs").write_text("0")
    beside = host.find()
    seen["kept free"] = str(beside.group)
    beside.close()
    (service / "daemon").mkdir()
    (service / "daemon/cgroup.procs").write_text("0")
    delegated = host.find()
    seen["delegated"] = tried(delegated)
    delegated.close()
    own = Path("/proc/self/cgroup").read_text().strip()
    seen["by user"] = tried_by_user()
    print(json.dumps(seen | {"left": left, "group": str(delegated.group), "own": own}))


if "user" in sys.argv[2:]:
    by_user()
else:
    main()
