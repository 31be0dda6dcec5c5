"""Command line of ``vgcd``, the daemon.

Exit codes: 0 success, 1 an error while serving, 2 the configuration or the command line is wrong, 3 the host lacks
something.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from vhost_backend import log, sockets
from vhost_backend.config import daemon as configuration
from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.control.api import token_cli
from vhost_backend.control.firmware import cli as firmware_command
from vhost_backend.daemon import housing, program, server
from vhost_backend.daemon.capacity import Capacity, Excess, Share, excesses
from vhost_backend.daemon.compile_setup import admit, compile_service
from vhost_backend.daemon.engines import Choice, Engines, host_engines
from vhost_backend.daemon.fork_server import ForkServer, modules_of
from vhost_backend.daemon.host_status import Ground
from vhost_backend.daemon.housing import Housing
from vhost_backend.daemon.roll import AddedVm, Roll, VmStore, restored, state_folder
from vhost_backend.doctor import host as doctor
from vhost_backend.doctor.finding import describe
from vhost_backend.errors import ConfigError, HostError, VgcError
from vhost_backend.keeper import service
from vhost_backend.keeper.client import Keeper, Kept
from vhost_backend.sandbox import launch
from virtio_proto.schema import FINGERPRINT
from virtio_proto.version import VERSION

CAPABILITIES: Final = {"type": "gpu-compute", "features": []}
"""Capabilities in the format of QEMU's vhost-user.json. QEMU does not know the type: install no such file for it."""

_PERMISSIVE: Final = (
    "system calls that the filter of its workers would deny are logged (call_not_allowed) and let through: use it only"
    " to find out what a driver needs, and only with guests of your own"
)

_EPILOG: Final = """\
examples:
  vgcd run --config /etc/vgcd/vgcd.yaml         all VMs of a host, until SIGTERM
  vgcd check-config /etc/vgcd/vgcd.yaml         only look for mistakes
  vgcd --socket-path /run/vm1.sock              one VM, with defaults
  vgcd --fd 3 --engine null --region 16M        one VM on an inherited socket, until it disconnects
  vgcd doctor                                   what this host lacks
  vgcd token new --role view --vm web1          a token for the control API

exit codes: 0 success, 1 error while serving, 2 wrong configuration or command line, 3 the host lacks something
"""


def _version() -> str:
    return f"vgcd {VERSION}, wire format {FINGERPRINT:016x}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vgcd",
        description="The host side of virtio-gpu-compute: a vhost-user backend through which VMs compute.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=_single)
    parser.add_argument("--print-capabilities", action="store_true", help="print capabilities as JSON and exit")
    _add_single_options(parser)
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    run = commands.add_parser("run", help="serve the VMs of a configuration file")
    run.add_argument("--config", type=Path, required=True, metavar="FILE", help="such as docs/vgcd.example.yaml")
    run.add_argument(
        "--no-keeper", action="store_true", help="VMs end with this process, even if it is killed (default: they go on)"
    )
    run.set_defaults(command=_run)
    for name, act, what in (
        ("replace", _replace, "have the program that is on disk now take the running vgcd's place; VMs notice nothing"),
        ("end", _end, "end the running vgcd with its keeper, and so its VMs' devices"),
    ):
        order = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        order.add_argument(
            "--runtime",
            type=Path,
            default=service.folder(os.environ) or service.DEFAULT_FOLDER,
            metavar="DIR",
            help="folder that systemd has made for the service (default: %(default)s)",
        )
        if act is _end:
            order.add_argument(
                "--if-stopped", metavar="UNIT", help="only if systemd is stopping this unit, and not to start it again"
            )
        order.set_defaults(command=act)
    check = commands.add_parser("check-config", help="check a configuration file")
    check.add_argument("file", type=Path, metavar="FILE", help="a configuration, as for `vgcd run`")
    check.set_defaults(command=_check_config)
    examine = commands.add_parser("doctor", help="show what this host lacks, and how to get it")
    examine.set_defaults(command=_doctor)
    token_cli.add_to(commands)
    firmware_command.add_to(commands)
    return parser


def _add_single_options(parser: argparse.ArgumentParser) -> None:
    one = parser.add_argument_group("serving one VM without a configuration file")
    where = one.add_mutually_exclusive_group()
    where.add_argument("--socket-path", metavar="PATH", help="listen on a UNIX socket at this path")
    where.add_argument("--fd", type=int, metavar="FD", help="an inherited socket, listening or connected")
    one.add_argument("--name", default="vm", help="the VM's name (default: vm)")
    one.add_argument(
        "--region", metavar="SIZE", help="size of the shared region, as in QEMU's command line (default: 64M)"
    )
    one.add_argument("--region-file", metavar="PATH", help="the region's file (default: told by its size)")
    one.add_argument(
        "--engine", metavar="KIND", help="auto (default), cpu, null, cuda, cuda:1, cuda:GPU-<uuid> or cuda:MIG-<uuid>"
    )
    one.add_argument("--pes", type=int, metavar="N", help="processing elements the VM may use (default: all)")
    one.add_argument("--memory", metavar="SIZE", help="device memory the VM may use (default: 256M)")
    one.add_argument("--overcommit", action="store_true", help="allow more of both than the host has")
    one.add_argument("--queue-depth", type=int, metavar="N", help="requests the VM may have in flight (default: 256)")
    one.add_argument("--deadline", metavar="TIME", help="longest time a kernel may run (default: 10s)")
    one.add_argument("--num-queues", type=int, metavar="N", help="virtqueues (default: 16)")
    one.add_argument("--sandbox", metavar="MODE", help="strict (default), best-effort or permissive")
    one.add_argument(
        "--control-socket", metavar="PATH", help="listen there for control centres and vgcctl (default: off)"
    )
    one.add_argument("--log-format", metavar="FORMAT", help="console (default) or json")
    one.add_argument("--log-level", metavar="LEVEL", help="debug, info (default), warning or error")


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).absolute())


def _single_config(arguments: argparse.Namespace) -> DaemonConfig:
    """Converts the command line to a configuration, so that one set of checks and messages serves both."""
    vm = _present(
        socket=_absolute(arguments.socket_path),
        region=arguments.region,
        region_file=_absolute(arguments.region_file),
        engine=arguments.engine,
        deadline=arguments.deadline,
        num_queues=arguments.num_queues,
        sandbox=arguments.sandbox,
        quota=_present(pes=arguments.pes, memory=arguments.memory, queue_depth=arguments.queue_depth),
    )
    log_options = _present(format=arguments.log_format, level=arguments.log_level)
    control = _present(socket=_absolute(arguments.control_socket))
    root = {"vms": {arguments.name: vm}, "log": log_options, "control": control, "overcommit": arguments.overcommit}
    text = yaml.safe_dump(root)
    return configuration.parse(text, "command line", numbered=False)


@contextlib.contextmanager
def _hangups_ignored() -> Iterator[None]:
    """A daemon that starts outlives SIGHUP until it takes the signal; whatever else runs here keeps its own way."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _single(arguments: argparse.Namespace) -> int:
    if arguments.print_capabilities:
        print(json.dumps(CAPABILITIES))
        return 0
    if arguments.socket_path is None and arguments.fd is None:
        raise ConfigError(["nothing to do; allowed: --socket-path, --fd, --print-capabilities or a command (--help)"])
    config = _single_config(arguments)
    handed_over = {} if arguments.fd is None else {config.vms[0].name: sockets.inherited(arguments.fd)}
    with _hangups_ignored():
        return _serve(config, handed_over)


@_hangups_ignored()
def _run(arguments: argparse.Namespace) -> int:
    keeper = Keeper.of_environment(os.environ)
    with contextlib.ExitStack() as lease:
        prepared = None if keeper is None or keeper.is_first else _prepared(arguments.config, lease)
        kept = {} if keeper is None else _kept(keeper)
        roll = restored(kept) or Roll(configuration.load(arguments.config))
        config = roll.config()
        handed_over = sockets.activated(os.environ, [vm.name for vm in config.vms])
        store = VmStore(state_folder(config, os.environ))
        source = partial(configuration.load, arguments.config)
        return _serve(config, handed_over, source, store, roll=roll, prepared=prepared, keeper=keeper, kept=kept)


def _kept(keeper: Keeper) -> dict[str, Kept]:
    """Waits for this daemon's turn; returns what the one before has left."""
    keeper.hello()
    return keeper.take_over()


def _replace(arguments: argparse.Namespace) -> int:
    answer = _answered(service.replace(arguments.runtime / service.SOCKET), arguments.runtime)
    if answer.startswith("serving"):
        print(f"vgcd {VERSION} serves, process {answer.partition(' ')[2]}")
        return 0
    raise VgcError(service.REFUSED)


def _end(arguments: argparse.Namespace) -> int:
    unit = arguments.if_stopped
    if unit is not None and not service.is_stopped(unit):
        return 0
    answer = service.finish(arguments.runtime / service.SOCKET)
    if answer is None and unit is not None:  # it has ended already
        return 0
    if _answered(answer, arguments.runtime):
        raise VgcError("the running vgcd did not end")
    return 0


def _answered(answer: str | None, runtime: Path) -> str:
    """:raise HostError: nobody has answered."""
    if answer is None:
        hint = (
            "--runtime names the folder of another; one that systemd has not started is told by a signal to its vgc-keeper: "
            "SIGUSR2 replaces the daemon, SIGTERM ends all"
        )
        raise HostError(f"no vgcd with a keeper has its socket in {runtime}", hint)
    return answer


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Host as it was found before the daemon's turn came, for settings that do not change while a daemon runs."""

    config: DaemonConfig
    capacity: Capacity
    housing: Housing

    def fits(self, config: DaemonConfig) -> bool:
        return (self.config.users, self.config.cgroups) == (config.users, config.cgroups)


def _prepared(file: Path, lease: contextlib.ExitStack) -> _Prepared | None:
    """Does the long parts of a start, for a daemon whose turn may come when the present one dies; None: they must be done then.

    :raise HostError: as `_serve`.
    """
    try:
        config = configuration.load(file)
    except ConfigError:
        return None  # the one before had another, and if there was none, this will be said
    log.configure(config.log.format, config.log.level)
    launch.missing_feature()
    launch.missing_feature(proc=True)
    server.import_modules(config)
    return _Prepared(config, Capacity.of_host(), Housing.tried(config, lease))


def _serve(
    config: DaemonConfig,
    handed_over: dict[str, Any],
    source: server.Source | None = None,
    store: VmStore | None = None,
    *,
    roll: Roll | None = None,
    prepared: _Prepared | None = None,
    keeper: Keeper | None = None,
    kept: dict[str, Kept] | None = None,
) -> int:
    log.configure(config.log.format, config.log.level)
    if prepared is not None and not prepared.fits(config):
        prepared = None
    capacity = Capacity.of_host() if prepared is None else prepared.capacity
    check = partial(_checked, capacity)  # later this process keeps off cores that VMs have for their own
    check(config)
    with contextlib.ExitStack() as lease:
        if keeper is None or kept is None:
            offered = Housing.open(config, lease)
        else:
            tried = Housing.tried(config, lease) if prepared is None else prepared.housing
            offered = tried.go_on(config, keeper, kept, lease)
        compiler = compile_service(replace(config, vms=()))

        def house(vm: VmConfig, own: contextlib.ExitStack) -> VmConfig:
            housed = offered.house(vm, own)
            admit(compiler, housed)
            own.callback(compiler.dismiss, vm.name)
            return housed

        forks = ForkServer(modules_of(config), offered.cores)
        daemon = server.Daemon(
            config,
            compiler,
            _engines(config),
            handed_over,
            command=forks.worker,
            forks=forks,
            house=house,
            source=source,
            check=check,
            store=store,
            ground=Ground.of_host(None if offered.home is None else offered.home.group, offered.no_home),
            programs=None if store is None else state_folder(config, os.environ) / "programs",
            roll=roll,
            keeper=keeper,
            kept=kept,
        )
        program.run(daemon)
    if keeper is not None and keeper.is_lost:
        raise HostError(
            "the keeper has ended, and the connections to QEMU with it", "start vgcd again, and then the VMs"
        )
    return 0


def _checked(host: Capacity, config: DaemonConfig) -> DaemonConfig:
    """The configuration itself, if it fits this `host`.

    :raise ConfigError: its VMs may use more than the host has.
    :raise HostError: the host cannot isolate a VM.
    """
    for excess in _fitting(host, config, [Share(vm) for vm in config.vms]):
        log.get_logger().warning("overcommitted", what=excess.text)
    _check_host(config)
    return config


def _fitting(host: Capacity, config: DaemonConfig, shares: Sequence[Share]) -> list[Excess]:
    """Excesses of what the VMs may use over what is there.

    :raise ConfigError: there are some, and the configuration does not allow it.
    """
    found = excesses(shares, host)
    if wrong := [str(excess) for excess in found if not (config.overcommit and excess.is_allowable)]:
        raise ConfigError(wrong)
    return found


def _engines(config: DaemonConfig) -> Engines:
    return host_engines(has_control=config.control.is_on)


def _check_host(config: DaemonConfig) -> None:
    """Fails early if a VM could not be isolated.

    :raise HostError: a VM wants the strict or permissive sandbox, and this host cannot build it.
    """
    for vm in config.vms:
        launch.choose_isolation(vm.sandbox)
        if vm.sandbox == "permissive":
            log.get_logger().warning("sandbox_permissive", vm=vm.name, means=_PERMISSIVE)
    missing = launch.missing_feature()
    if missing is not None:
        log.get_logger().warning("sandbox_incomplete", missing=str(missing))


def _added_vms(config: DaemonConfig) -> tuple[DaemonConfig, str]:
    """The configuration with the VMs that are served beside it, and the reason why they are not known; "" if they are.

    :raise ConfigError: the settings of one are wrong beside those of the configuration.
    """
    try:
        stored = VmStore(state_folder(config, os.environ)).load()
    except ConfigError as error:
        return config, str(error)
    roll = Roll(config, {name: AddedVm(settings, persists=True) for name, settings in stored.items()})
    return roll.with_base(config).config(), ""


def _check_config(arguments: argparse.Namespace) -> int:
    config = configuration.load(arguments.file)
    added, missing = _added_vms(config)
    choices = asyncio.run(_engines_here(added))
    over = _fitting(Capacity.of_host(), config, [Share(choice.config, choice.gpu) for choice in choices])
    with _to_reader():
        print(f"{arguments.file}: no mistakes; VMs: {', '.join(vm.name for vm in config.vms) or 'none'}")
        if more := [vm.name for vm in added.vms[len(config.vms) :]]:
            print(f"beside them vgcd serves VMs that were added without a file: {', '.join(more)}")
        if missing:
            print(f"VMs that were added without a file do not count: {missing}")
        for line in (*(choice.describe() for choice in choices), *housing.describe(config), *_missing_folders(added)):
            print(f"on this host: {line}")
        for excess in over:
            print(f"overcommitted: {excess.text}")
        for line in _cache_domains(config):
            print(f"compiled programs: {line}")
    return 0


def _missing_folders(config: DaemonConfig) -> list[str]:
    """Folders of sockets that have to be made before the VMs are served."""
    sockets = [*(vm.socket for vm in config.vms), config.control.socket]
    folders = dict.fromkeys(path.parent for path in sockets if path is not None)
    lacking = [str(folder) for folder in folders if not folder.exists()]
    return [f"there is no folder {', '.join(lacking)} for sockets: vgcd run needs it"] if lacking else []


@contextlib.contextmanager
def _to_reader() -> Iterator[None]:
    """Ends a block that prints when the reader of the output has ended, such as head."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cache_domains(config: DaemonConfig) -> list[str]:
    """VMs that share compiled programs, domain by domain, and those that share with none."""
    domains: dict[str, list[str]] = {}
    for vm in config.vms:
        if vm.cache_domain is not None:
            domains.setdefault(vm.cache_domain, []).append(vm.name)
    alone = [vm.name for vm in config.vms if vm.cache_domain is None]
    shared = [f"{', '.join(names)} share those of the domain {domain}" for domain, names in domains.items()]
    return [*shared, *([f"each its own: {', '.join(alone)}"] if alone else [])]


async def _engines_here(config: DaemonConfig) -> list[Choice]:
    """Engine that each VM would get, if all of them connected now, one after the other."""
    engines = _engines(config)
    with contextlib.ExitStack() as sessions:
        choices = []
        for vm in config.vms:
            choices.append(await engines.choose(vm))
            sessions.enter_context(engines.promised(choices[-1]))
    return choices


def _doctor(_arguments: argparse.Namespace) -> int:
    lacking = 0
    with _to_reader():
        for finding in doctor.examine():
            print(describe(finding))
            lacking += not (finding.ok or finding.optional)
        print("nothing is missing that vgcd needs" if not lacking else f"{lacking} missing")
    return HostError.exit_code if lacking else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.command(arguments)
        return code
    except VgcError as error:
        for line in str(error).splitlines():
            print(f"vgcd: {line}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
