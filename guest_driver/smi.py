"""``vgc smi``: shows the VM's devices, their use and their processes, in the manner of nvidia-smi."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from guest_driver import gpu_fields
from guest_driver.gpu_fields import MIB, Format
from guest_driver.gpu_state import GpuState, name_of, states
from virtio_proto.version import VERSION

CUDA_VERSION: Final = "13.0"
"""Version of CUDA's driver API in the guest, as cuDriverGetVersion() and NVML tell it."""

WIDTHS: Final = (35, 24, 19)
INNER: Final = sum(WIDTHS) + len(WIDTHS) - 1
HELP: Final = """Shows the VM's devices: memory of the VM's quota, utilization by launches of the VM, processing elements
that it has now and the most that it may have, and processes of this VM that compute.
Asking makes no context on the device."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-L", "--list-gpus", action="store_true", help="list the devices with their UUIDs")
    what.add_argument(
        "--query-gpu",
        type=gpu_fields.GPU.parse,
        metavar="FIELD,...",
        help="write these fields of each device, by nvidia-smi's names, as CSV; a wrong name lists those there are",
    )
    what.add_argument(
        "--query-compute-apps",
        type=gpu_fields.APPS.parse,
        metavar="FIELD,...",
        help="likewise, of each process that computes: pid, process_name, used_memory, gpu_uuid, ...",
    )
    parser.add_argument(
        "--format",
        type=gpu_fields.parse_format,
        default=Format(),
        metavar="csv[,noheader][,nounits]",
        help="form of the fields (default: csv)",
    )
    parser.add_argument("-l", "--loop", type=_seconds, metavar="SECONDS", help="show it anew every so many seconds")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1 << 20:
        raise argparse.ArgumentTypeError(f"{text} seconds; allowed: more than 0, less than {1 << 20}")
    return seconds


def texts(arguments: argparse.Namespace) -> Iterator[str]:
    """Text to print, and with ``--loop`` the next one every so many seconds, without end.

    :raise errors.VgcError: a device cannot be asked.
    """
    yield _text(arguments)
    arguments.format = replace(arguments.format, header=False)
    while arguments.loop is not None:
        time.sleep(arguments.loop)
        yield _text(arguments)


def _text(arguments: argparse.Namespace) -> str:
    asks = arguments.query_gpu
    measures = not arguments.list_gpus and not arguments.query_compute_apps and (not asks or "utilization.gpu" in asks)
    gpus = states(arguments.device, measures=measures)
    if arguments.list_gpus:
        return "\n".join(f"GPU {gpu.index}: {gpu.info.engine_name} (UUID: {gpu.uuid})" for gpu in gpus)
    if arguments.query_gpu:
        return "\n".join(gpu_fields.lines(gpu_fields.GPU, asks, gpus, arguments.format))
    if arguments.query_compute_apps:
        rows = gpu_fields.apps(gpus)
        return "\n".join(gpu_fields.lines(gpu_fields.APPS, arguments.query_compute_apps, rows, arguments.format))
    return "\n".join(_table(gpus))


# ---- the table ----------------------------------------------------------------------------------


def _table(gpus: Sequence[GpuState]) -> Iterator[str]:
    yield datetime.now().astimezone().strftime("%a %b %d %H:%M:%S %Y")
    yield _rule("-")
    yield _line(f"vgc smi {VERSION:<15} Driver Version: {VERSION:<15} CUDA Version: {CUDA_VERSION}")
    yield _rule("-", "+")
    yield _row("GPU  Name", "Bus-Id", "GPU-Util")
    yield _row("     Engine, Compute Cap.", "Memory-Usage", "Proc. Elements")
    yield _rule("=", "+")
    for gpu in gpus:
        yield from _rows_of(gpu)
        yield _rule("-", "+")
    yield ""
    yield from _processes(gpus)


def _rows_of(gpu: GpuState) -> Iterator[str]:
    used, quota = gpu.usage.memory_used_bytes // MIB, gpu.usage.memory_quota_bytes // MIB
    capability = gpu.limits["compute_capability"]
    told = f", {capability // 10}.{capability % 10}" if capability else ""
    utilization = "N/A" if gpu.utilization is None else f"{gpu.utilization}%"
    yield _row(f"{gpu.index:>3}  {gpu.info.engine_name}", gpu.bus_id, utilization)
    elements = f"{gpu.usage.num_pes} / {gpu.info.processing_elements}"
    yield _row(f"     {gpu.info.engine}{told}", f"{used}MiB / {quota}MiB", elements)


def _processes(gpus: Sequence[GpuState]) -> Iterator[str]:
    yield _rule("-")
    yield _line("Processes of this VM:")
    yield _line(_process("GPU", "PID", "Process name", "GPU Memory"))
    yield _rule("=")
    rows = gpu_fields.apps(gpus)
    for app in rows:
        pid, used = app.process.pid, f"{app.process.memory_bytes // MIB}MiB"
        yield _line(_process(str(app.gpu.index), str(pid), name_of(pid), used))
    if not rows:
        yield _line("No running processes found")
    yield _rule("-")


def _process(gpu: str, pid: str, name: str, memory: str) -> str:
    room = INNER - 29
    shown = name if len(name) <= room else f"...{name[-room + 3 :]}"
    return f"{gpu:>3} {pid:>9}  {shown:<{room}} {memory:>11}"


def _rule(mark: str, between: str | None = None) -> str:
    middle = (between or mark).join(mark * width for width in WIDTHS)
    return f"+{middle}+" if between is None else f"|{middle}|"


def _line(text: str) -> str:
    return f"| {text[: INNER - 2]:<{INNER - 2}} |"


def _row(*cells: str) -> str:
    """One line of the three columns; the two on the right are flush right."""
    first, *others = (cell[: width - 2] for cell, width in zip(cells, WIDTHS, strict=True))
    right = (f" {cell:>{width - 2}} " for cell, width in zip(others, WIDTHS[1:], strict=True))
    return f"| {first:<{WIDTHS[0] - 2}} |{'|'.join(right)}|"
