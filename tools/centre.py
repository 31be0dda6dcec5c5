"""``make centre``: two guests compute, and the control centre's page shows their processing elements; Ctrl-C ends it.

``python -m tools.centre --once`` prints the output of some vgcctl commands instead, and ends.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NoReturn

from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from tools.common import BUILD, say

RECORDINGS: Final = BUILD / "centre" / "recordings.sqlite"
VMS: Final = ("web1", "train1")
WORK: Final = "python3 examples/watched.py --size 1024 --sweeps 20 --keep-going"
SECONDS: Final = 24 * 3600
BUSY: Final = 100
"""Number of requests after which a guest counts as busy."""
SHOWN: Final = (
    ("ls",),
    ("tail", "vm=web1,fn=log", "--count", "3"),
    ("stat", "vm=web1"),
    ("snap", "take", "vm=web1"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="print the output of vgcctl, and end")
    parser.add_argument(
        "--listen", default="127.0.0.1:7070", help="address of the control centre (default: %(default)s)"
    )
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # in the background of a script, Ctrl-C's signal is ignored
        signal.signal(number, _end)
    settings = [VmSettings(name, extra={"quota": {"pes": 4}}) for name in VMS]
    with ExitStack() as stack:
        vgcd = stack.enter_context(Vgcd(*settings, log_level="warning"))
        for name in VMS:
            guest = stack.enter_context(Guest(vgcd.device(name), memory_mib=512))
            say(f"{name} runs ({guest.machine}) and computes")
            guest.start(WORK, timeout=SECONDS)
        if arguments.once:  # on a free port, because a second control centre may be running
            url = stack.enter_context(centre(vgcd.control_socket, "127.0.0.1:0"))
            wait_until_busy(url)
            return show(url)
        url = stack.enter_context(centre(vgcd.control_socket, arguments.listen, RECORDINGS))
        say(f"the page: {url}    from the shell: VGC_CENTRE={url} {vgcctl()} ls    end: Ctrl-C")
        threading.Event().wait()
    return 0


def _end(_number: int, _frame: object) -> NoReturn:
    """Handles a signal: ends the program, and with it the guests, the daemon and the control centre."""
    raise SystemExit(0)


@contextmanager
def centre(control_socket: Path, listen: str, recordings: Path | None = None) -> Iterator[str]:
    """Runs a control centre, which records into the database `recordings` if given; yields its URL."""
    argv = ["-m", "control_center.server", "--host", f"unix:{control_socket}", "--listen", listen]
    if recordings is not None:
        recordings.parent.mkdir(parents=True, exist_ok=True)
        argv += ["--record", f"sqlite:///{recordings}"]
    with subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            if "open " not in line:
                raise SystemExit(f"the control centre did not start: {line}")
            yield line.split("open ")[1].strip().rstrip("/")
        finally:
            process.terminate()
            process.wait()


def wait_until_busy(url: str) -> None:
    """Waits until the centre, which polls its host every second, knows that all guests compute."""
    while True:
        with urllib.request.urlopen(f"{url}/api/v1/hosts", timeout=10) as answer:
            vms = [vm for host in json.load(answer) for vm in host["vms"]]
        if vms and all(vm["requests_done"] > BUSY for vm in vms):
            return
        time.sleep(0.1)


def vgcctl() -> str:
    return f"{Path(sys.executable).parent}/vgcctl"


def show(url: str) -> int:
    """Runs a few vgcctl commands; returns the last exit code that was not 0."""
    worst = 0
    for words in SHOWN:
        print(f"$ vgcctl {' '.join(words)}", flush=True)
        argv = [sys.executable, "-m", "control_center.cli", *words]
        worst = subprocess.run(argv, env=os.environ | {"VGC_CENTRE": url}, check=False).returncode or worst
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
