"""Runs a job that nobody has read in a VM of its own, with a part of this host's GPU. What it had goes with it.

    .venv/bin/python -m examples.sandbox.run --daemon unix:/run/vgcd/control.sock examples/sandbox/job.py

in this repository's folder. `--daemon` is the control socket of a `vgcd` on this host. A job that takes longer than
`--timeout` is ended, as it is when this program gets SIGTERM. The VM boots the image of `make vm`, with tinygrad on a disk;
a VM of yours has its own image, with the guest's package (docs/guest.md).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import frameworks
from tools.machine import JOB, Device, disk, machine

REGION_MIB = 256
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
TOOK_TOO_LONG = 124
ALLOTMENT = {"pes": 1, "memory": "64M", "weight": 50, "deadline": "10s"}


@contextmanager
def vm(daemon: str, name: str, socket: Path) -> Iterator[None]:
    """The daemon serves a VM, from now until its QEMU has ended."""
    words = [sys.executable, "-m", "control_center.cli", "vm"]
    limits = [f"--{limit}={value}" for limit, value in ALLOTMENT.items()]
    add = ["add", name, f"--socket={socket}", f"--region={REGION_MIB}M", "--sandbox=strict", *limits]
    added = subprocess.run([*words, *add, f"--daemon={daemon}"], check=False, stdout=sys.stderr)
    if added.returncode != 0:
        raise SystemExit(added.returncode)  # it has said why
    try:
        yield
    finally:
        subprocess.run([*words, "remove", name, f"--daemon={daemon}"], check=True, stdout=sys.stderr)


def run(job: Path, device: Device, folder: Path, timeout_s: float | None) -> int:
    """Boots a VM that runs the job and powers off. Its output is the job's. Returns QEMU's exit code, or that of
    timeout(1) if the job took too long.
    """
    files = folder / "files.tar"
    with tarfile.open(files, "w") as packed:
        packed.add(job, "job.py")
    # The region is a memfd: nothing else can open it, and it is gone when QEMU has ended.
    with device.region() as region:
        argv = [*machine(development=True).argv(JOB), *disk(files), *disk(frameworks.disk())]
        argv += [*device.argv(region), "-serial", "stdio"]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, pass_fds=[region], check=False, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            print(f"the job was ended after {timeout_s:g} s", file=sys.stderr)
            return TOOK_TOO_LONG
        return done.returncode


def end(number: int, _: object) -> None:
    """Ends this program by a signal as an exception does, so that nothing of the VM is left."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)  # once is enough
    raise SystemExit(128 + number)


def seconds(text: str) -> float:
    """A time that is over some day: more than 0, and a number."""
    found = float(text)
    if not 0 < found < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text} seconds; allowed: more than 0")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--daemon", required=True, help="address of vgcd's control socket, such as unix:/run/vgcd/control.sock"
    )
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="longest time of the job (default: any)")
    parser.add_argument("job", type=Path, help="Python program that the VM runs")
    arguments = parser.parse_args()
    if not arguments.job.is_file():
        parser.error(f"{arguments.job}: no such file")
    for one in SIGNALS:
        signal.signal(one, end)
    name = f"job-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="vgc-job-") as folder:
        socket = Path(folder) / "vm.sock"
        with vm(arguments.daemon, name, socket):
            device = Device(socket, region_bytes=REGION_MIB << 20, num_queues=16)
            return run(arguments.job, device, Path(folder), arguments.timeout)


if __name__ == "__main__":
    raise SystemExit(main())
