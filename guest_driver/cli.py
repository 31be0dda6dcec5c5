"""Command line of `vgc`: shows the device, finds problems, runs a kernel, measures speed."""

from __future__ import annotations

import argparse
import contextlib
import grp
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TextIO, cast

from guest_driver import (
    bench,
    call_command,
    doctor,
    exec_command,
    explanation,
    listing,
    local_functions,
    region_command,
    runner,
    shadow_run,
    smi,
    trace_command,
)
from guest_driver.comparison import ATOL, RTOL
from guest_driver.device import Device, DeviceInfo, Usage, devices, grant
from guest_driver.errors import InvalidArgument, VgcError
from guest_driver.hot_lines import HotLines
from guest_driver.shadow import ShadowDevice
from virtio_proto.version import VERSION

MIB = 1 << 20
SLOW: Final = "prefer copies, or have the region as an NVDIMM, see `vgc region --help`"


class _Command(argparse.ArgumentParser):
    """A command's arguments. Those that it does not understand are an error with its usage, not with that of all commands."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        arguments, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return arguments, unknown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vgc", description=__doc__)
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    parser.add_argument("--device", metavar="ADDRESS", help="PCI address of the device; default: the first")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Command)
    commands.add_parser("info", help="show what the device offers this VM")
    overview = commands.add_parser(
        "smi",
        help="show the devices, their use and their processes, as nvidia-smi does",
        description=smi.HELP,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    smi.add_arguments(overview)
    _add_setup(commands)
    shadow = commands.add_parser(
        "shadow",
        help="run a CUDA program on two devices and compare the results",
        description=shadow_run.HELP,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    shadow.add_argument("--on", metavar="FIRST,SECOND", help="PCI addresses of the devices (default: the first two)")
    shadow.add_argument("--as", dest="as_type", metavar="TYPE", help="float32, float64, float16 or bytes")
    shadow.add_argument("--rtol", type=float, default=RTOL, help=f"relative tolerance of floats (default: {RTOL:g})")
    shadow.add_argument("--atol", type=float, default=ATOL, help=f"absolute tolerance of floats (default: {ATOL:g})")
    shadow.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")
    _add_programs(commands)
    functions = commands.add_parser(
        "functions",
        help="show functions of this VM and the host; or those of a CUDA program that run on either side",
        description=local_functions.HELP,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    functions.add_argument("file", type=Path, nargs="*", help="program, object or shared library that mynvcc has built")
    register = commands.add_parser(
        "register",
        help="register the functions of a source file for the whole VM",
        description="All processes of the VM find them by name, until `vgc unregister`. A file that is registered already is "
        "not loaded again.",
    )
    register.add_argument("file", type=Path, help="CUDA source; or .ptx, .cubin, .fatbin, where the host allows it")
    register.add_argument(
        "--keep", action="store_true", help="stay registered when the VM or the host's daemon is restarted"
    )
    register.add_argument("--option", action="append", default=[], help="compiler option, such as --option=-DN=3")
    unregister = commands.add_parser("unregister", help="unregister the program that has a function")
    unregister.add_argument("name", metavar="NAME", help="function of it; others of the program are gone, too")
    explain = commands.add_parser(
        "explain",
        help="show why calls of a function by name go to the CPU or to the host, and their times",
        description=explanation.HELP,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    explain.add_argument("name", metavar="NAME", nargs="?", help="function; default: list those that are known")
    commands.add_parser("last-error", help="show the last error of this user's CUDA programs, in the host's words")
    run = commands.add_parser(
        "run",
        help="run one kernel of a source file",
        description=runner.HELP,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    run.add_argument(
        "file",
        type=Path,
        nargs="+",
        help="CUDA source; or .ptx, .fatbin, .cubin, where the host allows it; or several, but no .cubin, that are linked",
    )
    run.add_argument("--kernel", required=True, metavar="NAME", help="kernel of FILE to run")
    run.add_argument("--grid", type=runner.extents, default=(1,), metavar="X[,Y[,Z]]", help="blocks (default: 1)")
    run.add_argument(
        "--block", type=runner.extents, default=(1,), metavar="X[,Y[,Z]]", help="threads of a block (default: 1)"
    )
    run.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory")
    run.add_argument(
        "--cooperative", action="store_true", help="run all blocks at once, for kernels that wait for the grid"
    )
    run.add_argument("--arg", action="append", default=[], metavar="SPEC", help="one per parameter, see above")
    run.add_argument("--option", action="append", default=[], help="compiler option, such as --option=-DN=3")
    run.add_argument("-lineinfo", "--lineinfo", action="store_true", help="faults and traps name a line of the source")
    checks = run.add_argument_group("on the software GPU alone")
    checks.add_argument("--memcheck", action="store_true", help="report accesses outside of arrays, by line and index")
    checks.add_argument("--initcheck", action="store_true", help="report reads of memory that was never written")
    checks.add_argument("--racecheck", action="store_true", help="report missing barriers of shared memory, by lines")
    checks.add_argument(
        "--leak-check", action="store_true", help="report blocks of malloc() that are not freed, by line"
    )
    checks.add_argument(
        "--lockstep", action="store_true", help="warps go in step, for programs that rely on it without __syncwarp()"
    )
    checks.add_argument("--profile", action="store_true", help="show in which lines of the source the time goes")
    run.add_argument(
        "--shadow", metavar="ADDRESS", help="run the kernel on this device too; fail if the results differ"
    )
    call = commands.add_parser(
        "call",
        help="call a built-in function, or one that is registered for this VM, with arrays in files",
        description=call_command.HELP,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    call_command.add_arguments(call)
    measure = commands.add_parser("bench", help="measure latency, copies and launches")
    measure.add_argument("--seconds", type=float, default=1.0, help="time per row (default: 1)")
    return parser


def _add_programs(commands: argparse._SubParsersAction[_Command]) -> None:
    """Adds the commands that run any program."""
    exec_command.add_arguments(
        commands.add_parser(
            "exec",
            help="run a program with this toolkit's CUDA in front of NVIDIA's, for frameworks in Python",
            description=exec_command.HELP,
            formatter_class=argparse.RawTextHelpFormatter,
        )
    )
    trace_command.add_arguments(
        commands.add_parser(
            "trace",
            help="run a program, and show its calls of CUDA, its requests and the device's work as a timeline",
            description=trace_command.HELP,
            formatter_class=argparse.RawTextHelpFormatter,
        )
    )


def _add_setup(commands: argparse._SubParsersAction[_Command]) -> None:
    give = commands.add_parser(
        "grant",
        help="as root: let a group of this VM's users use the device",
        description="Binds all devices, or the one of --device, and gives them to a group until the VM starts again. The "
        "unit vgc-grant.service does it at boot for the group vgc. Trust its members as root: they can reprogram the PCI function.",
    )
    give.add_argument("group", metavar="GROUP", help="name or number of the group")
    region_command.add_arguments(
        commands.add_parser(
            "region",
            help="show where the device's region lies; as root, have it in an NVDIMM",
            description=region_command.HELP,
            formatter_class=argparse.RawTextHelpFormatter,
        )
    )
    commands.add_parser("doctor", help="show what this VM lacks for the device, and how to get it")


def describe(info: DeviceInfo, usage: Usage) -> str:
    """Formats a device's properties for people."""
    reads = f"{info.read_bytes_per_s / 1e9:.1f} GB/s" + ("" if info.region_cached else f", UNCACHED: {SLOW}")
    rows = {
        "device": f"{info.address}, VM {info.vm_name}, {info.uuid}",
        "engine": f"{info.engine_name} ({info.engine}), {info.health}, generation {info.generation}",
        "share": f"{info.processing_elements} processing elements, {info.memory_bytes // MIB} MiB of device memory, "
        f"{info.queue_depth} requests in flight, launches of up to {info.deadline_ns / 1e9:g} s",
        "in use": f"{usage.memory_used_bytes / MIB:.1f} MiB, {usage.num_contexts} contexts, {usage.num_programs} programs",
        "queues": f"{info.num_queues} of {info.ring_size} entries",
        "region": f"{info.region_bytes // MIB} MiB at {info.region_address} ({info.region_kind}), reads {reads}",
        "waiting": "interrupts" if info.interrupts else "no interrupts: sleeping in growing steps",
        "wire format": f"{info.fingerprint:016x}",
    }
    return "\n".join(f"{name:<12} {value}" for name, value in rows.items())


def _open_for_run(arguments: argparse.Namespace, output: TextIO | None) -> Device | ShadowDevice:
    if arguments.shadow is None:
        return Device(address=arguments.device, output=output)
    with ExitStack() as opened:
        primary = opened.enter_context(Device(address=arguments.device, output=output))
        if arguments.shadow == primary.info().address:
            raise InvalidArgument(f"--shadow {arguments.shadow}: the device itself; allowed: a second device's address")
        shadow = opened.enter_context(Device(address=arguments.shadow, output=io.StringIO()))  # show output only once
        pair = ShadowDevice(primary, shadow)
        opened.pop_all()  # the pair owns both devices now
    return pair


def last_error() -> str:
    """Error that the CUDA runtime kept for this user; a sentence that says so if there was no error.

    The runtime writes it (``guest_driver/cuda/runtime/errors/last_error.c``).
    """
    path = Path(os.environ.get("VGC_STATE_DIR") or "/run/vgc") / f"last-error.{os.geteuid()}"
    try:
        return path.read_text(errors="replace").rstrip()
    except FileNotFoundError:
        return f"no CUDA program of this user has met an error ({path} does not exist)"


def _grant(group: str, address: str | None) -> str:
    """Gives `group` the device at `address`, or all of them; returns what was done."""
    try:
        number = int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise InvalidArgument(f"there is no group {group}; make one with: groupadd --system {group}") from None
    given = [address] if address is not None else [one.address for one in devices()]
    if not given:
        raise InvalidArgument("there is no PCI function 1af4:1066: `vgc doctor` says what is missing")
    problems = []
    for one in given:
        try:
            grant(number, one)
        except VgcError as error:
            problems.append(f"{one}: {error}")
    if problems and os.geteuid() != 0:
        raise InvalidArgument(
            "only root can give the device to a group: run `vgc grant` as root, or start vgc-grant.service"
        )
    if problems:
        raise InvalidArgument("; ".join(problems))
    return f"the group {group} may use {', '.join(given)} until this VM starts again"


def _shadow(arguments: argparse.Namespace) -> int:
    if not arguments.program:
        raise InvalidArgument("no program; allowed: vgc shadow ./program arguments")
    report, status = shadow_run.run(
        arguments.program, arguments.on, arguments.as_type, rtol=arguments.rtol, atol=arguments.atol
    )
    for line in (*report.lines, f"{report.copies} copies compared, {report.differing} differ"):
        print(f"vgc shadow: {line}", file=sys.stderr)
    return 1 if report.differing else status


def _info(arguments: argparse.Namespace) -> None:
    with Device(address=arguments.device) as device:
        print(describe(device.info(), device.usage()))


def _smi(arguments: argparse.Namespace) -> None:
    with contextlib.suppress(KeyboardInterrupt):  # it is how --loop ends
        for text in smi.texts(arguments):
            print(text, flush=True)


def _doctor(arguments: argparse.Namespace) -> int:
    findings = doctor.examine(arguments.device)
    print("\n".join(map(str, findings)))
    return 0 if findings[-1].well else 1  # the last question is whether a request is answered


def _functions(arguments: argparse.Namespace) -> None:
    if arguments.file:
        print(local_functions.show(arguments.file))
        return
    with Device(address=arguments.device) as device:
        print(listing.describe(device.list_functions()))


def _register(arguments: argparse.Namespace) -> None:
    kind = runner.kind_of(arguments.file)
    with Device(address=arguments.device) as device:
        source = runner.named_content(arguments.file, kind)
        program = device.register(source, arguments.option, kind, keep=arguments.keep)
        print(program.log, end="", file=sys.stderr)
        print(f"registered: {', '.join(program)}")


def _unregister(arguments: argparse.Namespace) -> None:
    with Device(address=arguments.device) as device:
        device.unregister(arguments.name)


def _run(arguments: argparse.Namespace) -> None:
    hot_lines = HotLines(sys.stdout) if arguments.profile else None
    with _open_for_run(arguments, cast("TextIO | None", hot_lines)) as device:
        print(runner.run(device, arguments))
    if hot_lines is not None:
        print(hot_lines.table(runner.sources_of(arguments)))


def _call(arguments: argparse.Namespace) -> None:
    with Device(address=arguments.device) as device:
        print(call_command.run(device, arguments))


def _exec(arguments: argparse.Namespace) -> int:
    if arguments.show:
        sys.stdout.buffer.write(os.fsencode(exec_command.show(arguments.cuda)) + b"\n")  # paths may be no text
        return 0
    return exec_command.run(_program(arguments), arguments.cuda)


def _program(arguments: argparse.Namespace) -> list[str]:
    """The program after ``--``, which may be left out."""
    words: list[str] = arguments.program
    return words[1:] if words[:1] == ["--"] else words


def _trace(arguments: argparse.Namespace) -> int:
    said, status = trace_command.run(_program(arguments), arguments.cuda, arguments.output, arguments.steps)
    print(f"vgc trace: {said}", file=sys.stderr)
    return status


_COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int | None]]] = {
    "info": _info,
    "smi": _smi,
    "grant": lambda arguments: print(_grant(arguments.group, arguments.device)),
    "region": lambda arguments: print(region_command.run(arguments)),
    "doctor": _doctor,
    "shadow": _shadow,
    "exec": _exec,
    "trace": _trace,
    "functions": _functions,
    "register": _register,
    "unregister": _unregister,
    "explain": lambda arguments: print(explanation.show(arguments.name)),
    "last-error": lambda _: print(last_error()),
    "run": _run,
    "call": _call,
    "bench": lambda arguments: print(bench.run(arguments.device, arguments.seconds)),
}
"""Commands by name; one that returns nothing has succeeded."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program. Returns its exit code: 0 success, 1 failure, 2 a wrong command line."""
    arguments = _parser().parse_args(argv)
    try:
        return _COMMANDS[arguments.command](arguments) or 0
    except BrokenPipeError:  # whoever reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (VgcError, TypeError, ValueError, OSError) as error:
        print(f"vgc: {_said(error)}", file=sys.stderr)
        return 1


def _said(error: Exception) -> str:
    """The error's text; of the system's errors the file and what is wrong with it, without its number."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


if __name__ == "__main__":
    raise SystemExit(main())
