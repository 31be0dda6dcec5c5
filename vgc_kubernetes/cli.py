"""``vgc-kubernetes``: the device plugin of a node, the hook sidecar of a virtual machine, and a check of what they need.

Called as ``onDefineDomain``, it is the program that KubeVirt's own sidecar runs.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

from control_center import address
from vgc_kubernetes import __version__, terms
from vgc_kubernetes.errors import KubernetesError, SetupError
from vgc_kubernetes.terms import DeviceShape
from virtio_proto.schema import LIMITS
from virtio_proto.yaml_values import MIB, SIZE_UNITS, TIB

HOOK: Final = "onDefineDomain"
CONTROL: Final = "unix:/run/vgcd/control.sock"
FOLDERS: Final = Path("/run/vgcd-kubelet")
KUBELET: Final = Path("/var/lib/kubelet")
HOOKS: Final = Path("/var/run/kubevirt-hooks")
QEMU_GROUP: Final = 107
"""Group of QEMU in KubeVirt's virt-launcher."""
EXAMPLES: Final = """\
examples:
  vgc-kubernetes device-plugin                      gives pods of this node VMs of its vgcd
  vgc-kubernetes hook-sidecar                       in a container beside KubeVirt's virt-launcher
  vgc-kubernetes on-define-domain --vmi JSON --domain XML
                                                    the domain with the device, on standard output
  vgc-kubernetes doctor                             lists what this node lacks for the plugin
"""
_SIZE: Final = re.compile(r"(\d{1,12})([kmgt]?)i?b?", re.IGNORECASE)


def size(text: str) -> int:
    """Parses a size that is a multiple of 1 MiB, such as 64M; returns bytes."""
    match = _SIZE.fullmatch(text)
    found = int(match[1]) * SIZE_UNITS[match[2].lower()] if match else 0
    if not MIB <= found <= TIB or found % MIB:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; allowed: 1M to 1T, in whole MiB, such as 64M or 1G")
    return found


def whole(low: int, high: int) -> Callable[[str], int]:
    """Parser of a whole number within bounds."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a number of {low} to {high}")
        return int(text)

    return parse


def daemon(text: str) -> address.UnixAddress:
    """Parser of the address of the node's own daemon."""
    try:
        found = address.parse(text)
    except ValueError:
        found = None
    if not isinstance(found, address.UnixAddress):
        raise argparse.ArgumentTypeError(f"{text!r} is not a daemon of this node; allowed: unix:/absolute/path")
    return found


def absolute(text: str) -> Path:
    """Parser of an absolute path."""
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: an absolute path")
    return Path(text)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vgc-kubernetes",
        description="Gives pods, and KubeVirt's virtual machines, processing elements and memory of a node's vgcd.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    plugin = verbs.add_parser("device-plugin", help="serve the kubelet of this node until SIGTERM")
    _add_node(plugin)
    plugin.add_argument(
        "--engine",
        choices=["cpu", "cuda"],
        default="cpu",
        help="what pods compute on: the software GPU or the host's GPUs (default: cpu)",
    )
    plugin.add_argument(
        "--memory-unit",
        type=size,
        metavar="SIZE",
        default=terms.MEMORY_UNIT_BYTES,
        help="unit in which pods ask for device memory; the resource is named after it (default: 256M)",
    )
    plugin.add_argument(
        "--group",
        type=whole(0, (1 << 32) - 2),
        metavar="GID",
        default=QEMU_GROUP,
        help=f"group that may connect to the sockets (default: {QEMU_GROUP}, QEMU's in virt-launcher)",
    )
    plugin.add_argument(
        "--release-after",
        type=whole(0, 86400),
        metavar="SECONDS",
        default=60,
        help="time for which the VM of a pod stays that the kubelet lists no more (default: 60)",
    )
    plugin.add_argument(
        "--period",
        type=whole(1, 3600),
        metavar="SECONDS",
        default=5,
        help="period of comparing the kubelet's list with vgcd's VMs (default: 5)",
    )
    _add_shape(plugin)
    sidecar = verbs.add_parser("hook-sidecar", help="serve virt-launcher until its virtual machine has ended")
    sidecar.add_argument(
        "--folder",
        type=absolute,
        default=HOOKS,
        help=f"folder in which virt-launcher looks for sockets (default: {HOOKS})",
    )
    _add_shape(sidecar)
    domain = verbs.add_parser("on-define-domain", help=f"print a domain with the device, as {HOOK} of KubeVirt's shim")
    _add_domain(domain)
    _add_node(verbs.add_parser("doctor", help="check what this node lacks for the plugin, and how to get it"))
    return parser


def _add_domain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vmi", required=True, metavar="JSON", help="the VirtualMachineInstance")
    parser.add_argument("--domain", required=True, metavar="XML", help="its domain")
    _add_shape(parser)


def _add_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--control", type=daemon, metavar="URL", default=CONTROL, help=f"vgcd's control socket (default: {CONTROL})"
    )
    parser.add_argument(
        "--folders",
        type=absolute,
        default=FOLDERS,
        help=f"folder of sockets, as vgcd sees it, too (default: {FOLDERS})",
    )
    parser.add_argument("--kubelet", type=absolute, default=KUBELET, help=f"folder of the kubelet (default: {KUBELET})")


def _add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--region",
        type=size,
        metavar="SIZE",
        default=terms.REGION_BYTES,
        help="memory that guest and host share; equal at plugin and sidecar (default: 64M)",
    )
    parser.add_argument(
        "--num-queues",
        type=whole(1, LIMITS["MAX_QUEUES"]),
        metavar="N",
        default=terms.NUM_QUEUES,
        help=f"virtqueues; equal at plugin and sidecar (default: {terms.NUM_QUEUES})",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; gives the exit code: 0, 1 if something is missing or refused, 2 if an argument is wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and Path(sys.argv[0]).name == HOOK:
        words = ["on-define-domain", *words]
    given = arguments().parse_args(words)
    if given.verb == "doctor":
        return _doctor(given)
    try:
        import grpc  # noqa: F401  reports a missing package before anything is started
        import lxml  # noqa: F401
        from google.protobuf import message  # noqa: F401
    except ModuleNotFoundError as error:
        print(f"{error.name} is missing; allowed: pip install 'virtio-gpu-compute[kubernetes]'", file=sys.stderr)
        return 1
    try:
        return {"device-plugin": _plugin, "hook-sidecar": _sidecar, "on-define-domain": _domain}[given.verb](given)
    except (KubernetesError, OSError) as error:
        print(f"vgc-kubernetes: {error}", file=sys.stderr)
        return 1


def _shape(given: argparse.Namespace) -> DeviceShape:
    return DeviceShape(given.region, given.num_queues)


def _plugin(given: argparse.Namespace) -> int:
    from vgc_kubernetes.device_folders import DeviceFolders
    from vgc_kubernetes.kubelet import Kubelet
    from vgc_kubernetes.kubelet_folders import KubeletFolders
    from vgc_kubernetes.plugin import Plugin
    from vgc_kubernetes.reconciler import Reconciler, Terms

    kubelet = Kubelet(KubeletFolders(given.kubelet))
    if not kubelet.folders.plugins.is_dir():
        raise SetupError(
            f"{kubelet.folders.plugins} is not there; allowed: a node with a kubelet, or its folder by --kubelet"
        )

    async def serve(ended: asyncio.Event) -> None:
        made = Terms(given.control, given.engine, _shape(given), given.memory_unit, given.release_after, given.period)
        folders = DeviceFolders(given.folders, given.group, given.control.path)
        reconciler = Reconciler(made, kubelet, folders, asyncio.get_running_loop().time)
        work = [asyncio.create_task(reconciler.run()), asyncio.create_task(Plugin(reconciler, kubelet).run())]
        end = asyncio.create_task(ended.wait())
        await asyncio.wait([*work, end], return_when=asyncio.FIRST_COMPLETED)
        for task in work:
            task.cancel()
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    _run(serve)
    return 0


def _sidecar(given: argparse.Namespace) -> int:
    from vgc_kubernetes import hook_sidecar

    if not given.folder.is_dir():
        raise SetupError(f"{given.folder} is not there; allowed: the folder of hook sidecars that KubeVirt mounts")
    _run(lambda ended: hook_sidecar.serve(given.folder, _shape(given), ended))
    return 0


def _domain(given: argparse.Namespace) -> int:
    from vgc_kubernetes import hook_sidecar

    _log()
    changed = hook_sidecar.define_domain(_bytes(given.vmi), _bytes(given.domain), _shape(given))
    print(changed.decode())
    return 0


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _doctor(given: argparse.Namespace) -> int:
    from vgc_kubernetes import doctor

    findings = list(doctor.examine(given.control, given.folders, given.kubelet))
    for finding in findings:
        print(finding.line())
    return 0 if all(finding.ok or finding.optional for finding in findings) else 1


def _run(serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        await serve(ended)

    _log()
    asyncio.run(run())


def _log() -> None:
    """Has events written as JSON lines on standard error."""
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


if __name__ == "__main__":
    sys.exit(main())
