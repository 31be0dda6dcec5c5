"""``vgc trace``: runs a program, and shows what it asked of CUDA and of the device, and when."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from guest_driver import exec_command
from guest_driver.errors import InvalidArgument
from guest_driver.trace import lines, perfetto, summary

HELP: Final = """Runs a program as `vgc exec` does, and writes a timeline that ui.perfetto.dev opens: its calls of CUDA, its requests to
the device, when its threads slept, and what ran on the device. The numbers of all these come to standard error, for example:

    vgc trace python train.py
    vgc trace --steps 100 -o train.json python train.py     also per step, of a program that makes 100

Calls are those of the driver API, NVRTC and nvJitLink, and of a CUDA runtime that the program has as a shared library.
Tracing takes time itself, for each call and each request.
"""
INTERPOSER: Final = "libcudart-trace.so"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what `vgc trace` understands."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("trace.json"), help="the timeline (default: %(default)s)"
    )
    parser.add_argument("--steps", type=_steps, default=0, metavar="N", help="show numbers per step, too, of N steps")
    exec_command.add_program(parser)


def _steps(text: str) -> int:
    steps = int(text) if text.isdecimal() else 0
    if steps < 1:
        raise argparse.ArgumentTypeError(f"{text} steps; allowed: 1 and more")
    return steps


def run(program: Sequence[str], release: str, output: Path, steps: int) -> tuple[str, int]:
    """Runs a program and writes its timeline. Returns what there is to say of it, and the program's exit code.

    A timeline that cannot be written then, as the disk is full, is an exit code of 1 where the program has none.

    :raise InvalidArgument: no program is given, it does not exist, or nobody could write the timeline.
    """
    if not program:
        raise InvalidArgument("no program; allowed: vgc trace python train.py")
    _check_output(output)
    with tempfile.TemporaryDirectory(prefix="vgc-trace-") as folder:
        status = _run(program, _environment(release) | {"VGC_TRACE": folder})
        trace = lines.read(Path(folder))
    if not any(trace.entries()) and trace.unwritten:
        return f"nothing could be recorded: {summary.NO_ROOM}", status
    if not any(trace.entries()):
        return "the program has asked nothing of CUDA or of the device", status
    numbers = summary.text(trace, steps)
    try:
        with output.open("w") as file:
            _write(trace, file.write)
    except OSError as error:
        return f"--output {output}: cannot be written: {error.strerror}\n{numbers}", status or 1
    return f"{output} opens in https://ui.perfetto.dev\n{numbers}", status


def _check_output(output: Path) -> None:
    """Before the program runs, perhaps for hours."""
    if output.is_dir():
        raise InvalidArgument(f"--output {output}: is a folder; allowed: a file")
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        raise InvalidArgument(f"--output {output}: cannot be written")


def _environment(release: str) -> dict[str, str]:
    """That of `vgc exec`, with calls of the runtime traced. Without a toolkit it stays as it is: programs of libvgc need none."""
    environment = dict(os.environ)
    with contextlib.suppress(InvalidArgument):
        folder = exec_command.toolkit()
        environment |= exec_command.settings(folder, release, os.environ)
        interposer = folder / "lib64" / INTERPOSER
        if interposer.exists():
            environment["LD_PRELOAD"] = f"{interposer}:{environment['LD_PRELOAD']}"
    return environment


def _run(program: Sequence[str], environment: dict[str, str]) -> int:
    """Runs it to its end; a signal that ends programs is for this one, and its timeline is written then."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the program itself
    forwarded: dict[signal.Signals, Any] = {}
    try:
        with subprocess.Popen(
            program,
            env=environment,
            close_fds=False,  # links of $VGC_MEMFD are inherited
            preexec_fn=lambda: signal.signal(signal.SIGINT, before),  # noqa: PLW1509  this process has one thread
        ) as process:
            for number in (signal.SIGTERM, signal.SIGHUP):
                forwarded[number] = signal.signal(number, lambda got, _: process.send_signal(got))
            status = process.wait()
    except OSError as error:
        raise exec_command.cannot_run(program[0], error) from error
    finally:
        for number, handler in (forwarded | {signal.SIGINT: before}).items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _write(trace: lines.Trace, write: Callable[[str], object]) -> None:
    """Writes the timeline's JSON, one event on a line."""
    write('{"displayTimeUnit": "ns", "otherData": ')
    write(json.dumps(summary.numbers(trace)))
    write(', "traceEvents": [\n')
    for number, event in enumerate(perfetto.export(trace)):
        write((",\n" if number else "") + json.dumps(event))
    write("\n]}\n")
