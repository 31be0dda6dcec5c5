"""Command line of ``vgc-libvirt``.

Exit codes: 0 done, 1 something is wrong with a domain or libvirt refuses, 2 the configuration, a definition or the command line is
wrong, 3 the host lacks something.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from vgc_libvirt import definition_check, domain, host_check, live, regions, status, vms
from vgc_libvirt.connection import DEFAULT_URI, Hypervisor, connected
from vgc_libvirt.device import Device
from vgc_libvirt.domain import Domain
from vgc_libvirt.errors import DomainError, LibvirtError, RegionError
from vgc_libvirt.finding import Finding
from vgc_libvirt.status import DomainState
from vgc_libvirt.vms import Vms
from vhost_backend.errors import VgcError
from virtio_proto.version import VERSION

_EPILOG: Final = """\
examples:
  vgc-libvirt xml web1                       the parts that a domain needs for VM web1 of vgcd
  vgc-libvirt attach web1                    add them to the domain of that name; it has the device from its next start on
  vgc-libvirt attach build web1 web2         add the devices of two VMs to the domain build
  vgc-libvirt attach ./web1.xml web1         the same on a file: the result goes to stdout, or with --in-place back into the file
  virsh dumpxml --inactive web1 | vgc-libvirt attach - web1
  vgc-libvirt check                          look at all domains with devices, and at this host, before they start
  vgc-libvirt status                         domains beside the VMs of vgcd
  vgc-libvirt regions --remove               zero and remove files of regions that libvirt has left in /dev/shm
  vgc-libvirt attach web1 --live             plug the device into the running domain; its definition stays as it is
  vgc-libvirt detach web1

DOMAIN is the name of a domain of libvirt, or a file: a path with a slash or ending in .xml, or - for stdin.
VM is a name in vgcd's configuration (default: the domain's name).

exit codes: 0 done, 1 something is wrong with a domain, or libvirt refuses, 2 wrong configuration, definition or command
  line, 3 the host lacks something
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vgc-libvirt",
        description="Devices of vgcd in domains of libvirt.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vgc-libvirt {VERSION}")
    uri = os.environ.get("LIBVIRT_DEFAULT_URI") or DEFAULT_URI
    _add_common(parser, uri)
    parser.set_defaults(config=vms.DEFAULT_CONFIG, connect=uri)
    common = argparse.ArgumentParser(add_help=False)
    _add_common(common, uri)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    xml = commands.add_parser("xml", parents=[common], help="print the parts that a domain needs")
    xml.add_argument("vms", nargs="+", metavar="VM", help="VM of vgcd")
    xml.set_defaults(command=_xml)
    for name, act, text in (
        ("attach", _attach, "add devices to a domain's definition"),
        ("detach", _detach, "remove devices from a domain's definition"),
    ):
        change = commands.add_parser(name, parents=[common], help=text)
        change.add_argument("domain", metavar="DOMAIN", help="domain of libvirt, or a file")
        change.add_argument("vms", nargs="*", default=[], metavar="VM", help="VM of vgcd (default: the domain's name)")
        change.add_argument(
            "--live",
            action="store_true",
            help="change the running domain, and not its definition (docs/libvirt.md: limits)",
        )
        change.add_argument("--in-place", action="store_true", help="write the file again, instead of stdout")
        change.set_defaults(command=act)
    check = commands.add_parser("check", parents=[common], help="say what is wrong with domains before they start")
    check.add_argument(
        "domains", nargs="*", default=[], metavar="DOMAIN", help="domains or files (default: all that have a device)"
    )
    check.set_defaults(command=_check)
    state = commands.add_parser("status", parents=[common], help="show domains beside the VMs of vgcd")
    state.set_defaults(command=_status)
    files = commands.add_parser("regions", parents=[common], help="show files of regions, and remove those left over")
    files.add_argument("--remove", action="store_true", help="zero and remove those that no process uses (as root)")
    files.set_defaults(command=_regions)
    return parser


def _add_common(parser: argparse.ArgumentParser, uri: str) -> None:
    """Adds options that may stand before the command and after it; one that is absent leaves the value alone."""
    parser.add_argument(
        "--config",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help=f"vgcd's configuration (default: {vms.DEFAULT_CONFIG})",
    )
    parser.add_argument(
        "-c",
        "--connect",
        default=argparse.SUPPRESS,
        metavar="URI",
        help=f"libvirt to speak to, as with virsh (default: {uri})",
    )


def _is_file(target: str) -> bool:
    return target == "-" or "/" in target or target.endswith(".xml")


def _read(target: str) -> Domain:
    """:raise DomainError: the file cannot be read, or is no domain's."""
    if target == "-":
        return Domain.parse(sys.stdin.buffer.read(), "stdin")
    (found,) = domain.definitions([Path(target)])
    return found


def _xml(arguments: argparse.Namespace) -> int:
    sys.stdout.write(domain.parts(vms.load(arguments.config).chosen(arguments.vms)))
    return 0


def _attach(arguments: argparse.Namespace) -> int:
    _check_in_place(arguments)
    if arguments.live:
        return _change_live(arguments, live.attach)
    return _change(
        arguments, _attach_to, "the device is there from the next start on: virsh shutdown, then virsh start"
    )


def _detach(arguments: argparse.Namespace) -> int:
    _check_in_place(arguments)
    if arguments.live:
        return _change_live(arguments, live.detach)
    return _change(arguments, _detach_from, "the device stays until it has ended")


def _check_in_place(arguments: argparse.Namespace) -> None:
    """:raise DomainError: ``--in-place`` with something else than a file."""
    if arguments.in_place and (arguments.domain == "-" or not _is_file(arguments.domain)):
        target = "stdin" if arguments.domain == "-" else f"the domain {arguments.domain}"
        raise DomainError(f"{target} is no file; allowed with --in-place: a path with a slash or ending in .xml")


def _attach_to(found: Domain, known: Vms, names: Sequence[str]) -> None:
    for device in known.chosen(names):
        found.attach(device)


def _detach_from(found: Domain, known: Vms, names: Sequence[str]) -> None:
    """Removes devices, also of VMs that the configuration has lost."""
    for name in names:
        left = None if known.has(name) else found.left_over(name)
        found.detach(known.device(name) if left is None else left)


def _change(arguments: argparse.Namespace, change: Callable[[Domain, Vms, Sequence[str]], None], later: str) -> int:
    known = vms.load(arguments.config)
    if _is_file(arguments.domain):
        found = _read(arguments.domain)
        change(found, known, arguments.vms or [found.name])
        if arguments.in_place:
            domain.write(found, Path(arguments.domain))
        else:
            sys.stdout.write(found.text())
        return 0
    with connected(arguments.connect) as hypervisor:
        found = hypervisor.definition(arguments.domain)
        if not hypervisor.is_kept(arguments.domain):  # to define it would make it persistent
            raise LibvirtError(
                f"{arguments.domain} is transient and has no definition; allowed: a domain that has one, or --live"
            )
        change(found, known, arguments.vms or [found.name])
        hypervisor.define(found)
        if hypervisor.is_running(arguments.domain):
            print(f"{arguments.domain} runs: {later}")
    return 0


def _change_live(arguments: argparse.Namespace, change: Callable[[Hypervisor, str, Device], None]) -> int:
    """:raise DomainError: the domain is a file."""
    if _is_file(arguments.domain):
        raise DomainError(f"{arguments.domain} is a file; allowed with --live: the name of a running domain")
    devices = vms.load(arguments.config).chosen(arguments.vms or [arguments.domain])
    with connected(arguments.connect) as hypervisor:
        if not hypervisor.is_running(arguments.domain):
            raise LibvirtError(f"{arguments.domain} does not run; allowed with --live: a running domain")
        for device in devices:
            change(hypervisor, arguments.domain, device)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Checks definitions, and for domains of libvirt the host, too: a file may be another host's."""
    devices = vms.load(arguments.config).devices()
    files = [_read(target) for target in arguments.domains if _is_file(target)]
    checked, host = files, None
    if len(files) < len(arguments.domains) or not files:
        with connected(arguments.connect) as hypervisor:
            names = [target for target in arguments.domains if not _is_file(target)]
            defined = list(map(hypervisor.definition, names or hypervisor.names()))
            defined = defined if names else [one for one in defined if one.devices()]
            checked, host = files + defined, hypervisor.host()
    found: list[Finding] = []
    for one in checked:
        found += definition_check.findings(one, devices)
        if host is not None and one not in files:
            found += host_check.findings(one, devices, host)
    return _told(found, len(checked))


def _status(arguments: argparse.Namespace) -> int:
    known = vms.load(arguments.config)
    with connected(arguments.connect) as hypervisor:
        domains = [DomainState(hypervisor.definition(name), hypervisor.is_running(name)) for name in hypervisor.names()]
    served, reason = status.vms_of_daemon(known.control_socket)
    sys.stdout.write(status.table(status.rows(domains, known.devices(), served)))
    if reason:
        print(f"vgcd does not say more: {reason}")
    return 0


def _regions(arguments: argparse.Namespace) -> int:
    """Shows files of regions, and removes those left over: one that stays, say as it is a link of somebody's, keeps none of the others."""
    known = vms.load(arguments.config)
    files = regions.found(known.devices())
    kept = 0
    for file in files:
        if not arguments.remove or file.users:
            print(file)
            continue
        try:
            regions.remove(file, is_of_configuration=file.vm not in known.added)
        except RegionError as error:
            kept += 1
            print(f"vgc-libvirt: {error}", file=sys.stderr)
        else:
            print(f"{file}: zeroed and removed")
    if not files:
        print("no region file of a VM is there")
    return 1 if kept else 0


def _told(found: Sequence[Finding], domains: int) -> int:
    for finding in found:
        print(finding)
    errors = sum(not finding.is_warning for finding in found)
    if domains:
        print(f"{_counted(domains, 'domain')} checked: {_counted(errors, 'error') if errors else 'nothing is wrong'}")
    else:
        print("no domain has a device of vgcd: `vgc-libvirt attach` adds one")
    return 1 if errors else 0


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.command(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has ended, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"vgc-libvirt: {error}", file=sys.stderr)
        return 1
    except VgcError as error:
        for line in str(error).splitlines():
            print(f"vgc-libvirt: {line}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
