"""``vgc-control-center``: serves the page, the REST API, the stream and the metrics of one or many hosts."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from control_center import __version__
from control_center.errors import ConfigError

if TYPE_CHECKING:
    from control_center.centre import Centre
    from control_center.config import CentreConfig, RecorderConfig

EXAMPLES: Final = """\
examples:
  vgc-control-center --host unix:/run/vgc/control.sock        the page of this machine, at http://127.0.0.1:7070
  vgc-control-center --config /etc/vgc/centre.yaml            many hosts, tokens, a recorder
  vgc-control-center --check --config /etc/vgc/centre.yaml    lists the errors of a configuration, and ends
  vgc-control-center --doctor [--config F]                    lists what this machine lacks, and how to get it
"""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vgc-control-center",
        description="Watches and steers the processing elements of the GPUs of many hosts.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config", type=Path, metavar="F", help="YAML; docs/control-center.example.yaml shows every key"
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="URL",
        help="a daemon, unix:/path or NAME=unix:/path (default name: the socket's, or this machine's); repeatable",
    )
    parser.add_argument("--listen", metavar="ADDRESS", help="default 127.0.0.1:7070; port 0: any free port")
    parser.add_argument(
        "--record",
        metavar="URL",
        help="record what happens to sqlite:///path or postgresql://...; keeps the last 2G, or what --config says",
    )
    parser.add_argument("--check", action="store_true", help="only check the configuration")
    parser.add_argument(
        "--doctor", action="store_true", help="check what this machine lacks; with --config, for its recording, too"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; gives the exit code: 0, 1 if something is missing, 2 if the configuration cannot be used."""
    given = arguments().parse_args(argv)
    if given.doctor and not (given.config or given.record):
        return _doctor(None)
    try:
        import aiohttp  # noqa: F401  reports a missing package before anything is started

        from control_center import config
    except ModuleNotFoundError as error:
        print(f"{error.name} is missing; allowed: pip install 'virtio-gpu-compute[control]'", file=sys.stderr)
        return 1
    try:
        chosen = config.from_arguments(given.config, given.host, given.listen, given.record)
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return error.exit_code
    if given.doctor:
        return _doctor(chosen.recorder)
    if given.check:
        print(f"{given.config or 'the command line'}: {len(chosen.hosts)} hosts, no errors")
        return 0
    return _serve(chosen)


def _doctor(recorder: RecorderConfig | None) -> int:
    from control_center import doctor

    findings = list(doctor.examine(recorder))
    for finding in findings:
        print(finding.line())
    return 0 if all(finding.ok or finding.optional for finding in findings) else 1


def _serve(chosen: CentreConfig) -> int:
    try:
        asyncio.run(serve(chosen))
    except KeyboardInterrupt:
        return 0
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"vgc-control-center: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


async def serve(chosen: CentreConfig) -> None:
    """Serves until cancelled or ended by SIGTERM or SIGINT; prints the URL once it serves."""
    from control_center.service import running

    async with running(chosen) as (url, centre):
        print(f"vgc-control-center {__version__}: {_about(centre)}; open {url}", flush=True)
        await _ended()
    print("vgc-control-center: ended", flush=True)


def _about(centre: Centre) -> str:
    hosts = len(centre.cluster.hosts)
    recording = "records" if centre.recorder is not None else "records nothing"
    return f"{hosts} host{'s' if hosts != 1 else ''}, {recording}"


async def _ended() -> None:
    import signal

    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    await end.wait()


if __name__ == "__main__":
    sys.exit(main())
