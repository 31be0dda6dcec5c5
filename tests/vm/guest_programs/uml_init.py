"""First process of a User-Mode Linux: prints its virtio devices; with a module's path, lets its driver come and go.

Python of the host, on the host's files, read-only. Prints a line per step, and halts.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from pathlib import Path
from typing import Final

FINIT_MODULE: Final = 313
HALT: Final = 0xCDEF0123
DEVICE: Final = "virtio0"
BUS: Final = Path("/sys/bus/virtio")

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def show(step: str) -> None:
    device = BUS / "devices" / DEVICE
    numbers = [int((device / name).read_text(), 16) for name in ("device", "status")]
    print(f"{step}: device {numbers[0]}, status {numbers[1]}", flush=True)


def let_driver_come_and_go(module: str, driver: str) -> None:
    with Path(module).open("rb") as file:
        check(libc.syscall(FINIT_MODULE, file.fileno(), b"", 0), "finit_module")
    show("bound")
    for step in ("unbind", "bind"):
        (BUS / "drivers" / driver / step).write_text(DEVICE)
        show(step)


def main() -> None:
    check(libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount")
    show("found")
    if len(sys.argv) > 1:
        let_driver_come_and_go(*sys.argv[1:])
    print("end", flush=True)


try:
    main()
except Exception:  # noqa: BLE001  shown on the console, before the halt
    traceback.print_exc()
finally:
    libc.reboot(HALT)  # the kernel panics if its first process ends
