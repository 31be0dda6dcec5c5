"""Packages of hosts.

======================  ==========================================================================
``vgcd``                the daemon and its units, user and folders; all that the software GPU needs; ``vgc-libvirt``
``vgc-control-center``  the control centre, its unit, and ``vgcctl``
======================  ==========================================================================

They fit the Debian release, and the Python, of the machine that built them. Python packages that Debian has in the version that
is needed are dependencies; the others come along, from the environment in which this runs, in a folder that no other program sees.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.common import REPOSITORY, die
from tools.debs.package import Package, libraries
from tools.installation import Link
from virtio_proto.version import VERSION

DAEMON: Final = "vgcd"
CENTRE: Final = "vgc-control-center"
UNITS: Final = REPOSITORY / "systemd"
LIBVIRT_FILES: Final = REPOSITORY / "libvirt_xml"
DEBIAN_PYTHON: Final = ("python3-construct", "python3-numpy", "python3-yaml")
"""Packages of Debian 12 that are as new as pyproject.toml wants them."""
BUNDLED: Final = {
    DAEMON: ("cffi", "pycparser", "cryptography", "msgpack", "msgspec", "scipy-openblas64", "structlog"),
    CENTRE: (
        *("msgpack", "msgspec", "structlog", "aiohttp", "aiohappyeyeballs", "aiosignal", "attrs", "frozenlist"),
        *("idna", "multidict", "propcache", "typing_extensions", "yarl"),
    ),
}
HEADERS: Final = ("libclang-common-19-dev", "g++", "libc6-dev")
"""Headers of the programs that the software GPU compiles."""
SORTING: Final = "libhwy1 | libhwy1t64"
PACKAGES: Final = {
    DAEMON: ("vhost_backend", "virtio_proto", "kernels", "vgc_libvirt", "control_center"),
    CENTRE: ("control_center", "virtio_proto"),
}
"""The first has the second's as far as ``vgc-libvirt`` asks the daemon by it."""
LIBVIRT: Final = ("python3-libvirt", "python3-lxml")
"""Packages of Debian that ``vgc-libvirt`` needs, on hosts with libvirt."""
COMMANDS: Final = {
    DAEMON: {"vgcd": "vhost_backend.entry", "vgc-libvirt": "vgc_libvirt.entry"},
    CENTRE: {"vgcctl": "control_center.cli", "vgc-control-center": "control_center.server"},
}
COMMAND: Final = """#!/usr/bin/python3
import sys

sys.path.insert(0, "/usr/lib/{folder}")

from {module} import main

sys.exit(main())
"""
METADATA: Final = "Metadata-Version: 2.1\nName: virtio-gpu-compute\nVersion: {version}\n"
CENTRE_CONFIG: Final = b"""# Configuration of vgc-control-center: `vgc-control-center --check --config FILE` checks it.
listen: 127.0.0.1:7070

hosts:
  - name: here
    url: unix:/run/vgcd/control.sock
"""
README: Final = """vgcd for Debian
===============

The daemon runs as the user vgcd, by the configuration /etc/vgcd/vgcd.yaml, which names no VM at first. `vgcd doctor`
says what this host lacks. QEMU 10.2 or later is needed: Debian 13 has it in trixie-backports.
`systemctl enable --now vgcd` starts the daemon, once its configuration names a VM.
`vgc-libvirt` gives domains of libvirt their devices; it needs {libvirt}. AppArmor's rule for their
sockets is in /etc/apparmor.d/abstractions/libvirt-qemu.d; examples/vgcd.te is a policy module for SELinux.

Python packages that Debian has in the version that vgcd needs are dependencies: {debian}.
Debian has the following in an older version, or not at all. They are in /usr/lib/vgcd, which no other program sees:
{bundled}.

A GPU of NVIDIA's takes NVIDIA's driver, and packages for Python that Debian does not have. With the last of them, nvidia-cuda-cccl,
programs for the software GPU may include CUB, Thrust and libcu++, too.

    apt-get install python3-pip
    python3 -m pip install --break-system-packages 'cuda-bindings>=13,<14' 'nvidia-cuda-nvcc>=13,<14' \\
      'nvidia-cuda-nvrtc>=13,<14' 'nvidia-cuda-runtime>=13,<14' 'nvidia-cuda-cccl>=13,<14'
    mkdir -p /etc/systemd/system/vgcd.service.d
    cp /usr/share/doc/vgcd/examples/nvidia.conf /etc/systemd/system/vgcd.service.d/
    systemctl daemon-reload && systemctl restart vgcd

No machine with a GPU has run this yet.
"""
CONFIGURE: Final = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
  if command -v systemd-sysusers >/dev/null; then systemd-sysusers vgcd.conf; fi
  if command -v py3compile >/dev/null; then py3compile -p {name} /usr/lib/{name}; fi
  if [ -d /run/systemd/system ]; then
    {folders}systemctl daemon-reload || true
    if [ -n "$2" ]; then systemctl try-restart {unit} || true; fi
  fi
fi
"""
FOLDERS: Final = "systemd-tmpfiles --create vgcd.conf || true\n    "
STOP: Final = """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl --no-reload disable --now {units} || true; fi
if command -v py3clean >/dev/null; then py3clean -p {name} /usr/lib/{name}; fi
"""
RELOAD: Final = """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if [ "$1" = purge ]; then rm -rf {folders}; fi
"""


def packages() -> list[Package]:
    """Describes the packages of the parts that were built."""
    return [_daemon(), _centre()]


def _daemon() -> Package:
    files = _program(DAEMON) | _units("vgcd.service", "vgcd@.service", "vgcd-vms.service")
    files |= _units("vgcd-vm@.socket", "vgcd-control.socket")
    readme = README.format(
        debian=", ".join(DEBIAN_PYTHON), bundled=", ".join(BUNDLED[DAEMON]), libvirt=" and ".join(LIBVIRT)
    )
    files |= {
        "etc/vgcd/vgcd.yaml": UNITS / "vgcd.yaml",
        "usr/lib/sysusers.d/vgcd.conf": UNITS / "sysusers.d" / "vgcd.conf",
        "usr/lib/tmpfiles.d/vgcd.conf": UNITS / "tmpfiles.d" / "vgcd.conf",
        "etc/apparmor.d/abstractions/libvirt-qemu.d/vgcd": LIBVIRT_FILES / "apparmor" / "vgcd",
        "usr/share/doc/vgcd/examples/vgcd.te": LIBVIRT_FILES / "selinux" / "vgcd.te",
        "usr/share/doc/vgcd/README.Debian": readme.encode(),
        "usr/share/doc/vgcd/examples/nvidia.conf": UNITS / "nvidia.conf",
        "usr/share/doc/vgcd/examples/vgcd.example.yaml": REPOSITORY / "docs" / "vgcd.example.yaml",
    }
    return Package(
        DAEMON,
        "virtual machines without a GPU compute on this host",
        "Daemon that shows QEMU 10.2 or later a virtio device, by which virtual\n"
        "machines compute on this host's GPU, or on its processors.",
        [*_python(), *HEADERS, SORTING, "systemd", *libraries(files)],
        files,
        section="admin",
        fields=(
            f"Recommends: {', '.join((CENTRE, *LIBVIRT))}",
            "Suggests: qemu-system-x86 (>= 10.2), libvirt-daemon-system",
        ),
        scripts=[
            ("postinst", CONFIGURE.format(name=DAEMON, unit="vgcd.service", folders=FOLDERS)),
            ("prerm", STOP.format(name=DAEMON, units="vgcd.service")),
            ("postrm", RELOAD.format(folders="/var/cache/vgcd /var/lib/vgcd")),
        ],
        bundled=f"usr/lib/{DAEMON}",
        overrides=(
            "statically-linked-binary *",
            "embedded-library *",
            "custom-library-search-path *",
        ),
    )


def _centre() -> Package:
    files = _program(CENTRE) | _units("vgc-control-center.service") | {"etc/vgc/centre.yaml": CENTRE_CONFIG}
    files["usr/share/doc/vgc-control-center/examples/centre.yaml"] = REPOSITORY / "docs" / "control-center.example.yaml"
    return Package(
        CENTRE,
        "watches and steers GPUs that virtual machines compute on",
        "Control centre of virtio-gpu-compute: a web page, a REST API and metrics\n"
        "for one or many hosts, and vgcctl for the shell.",
        [*_python(), *libraries(files)],
        files,
        section="admin",
        fields=("Suggests: vgcd, python3-psycopg",),
        scripts=[
            ("postinst", CONFIGURE.format(name=CENTRE, unit="vgc-control-center.service", folders="")),
            ("prerm", STOP.format(name=CENTRE, units="vgc-control-center.service")),
            ("postrm", RELOAD.format(folders="/var/lib/vgc")),
        ],
        bundled=f"usr/lib/{CENTRE}",
        overrides=("custom-library-search-path *",),
    )


def _python() -> list[str]:
    """Dependencies on Python and on Debian's packages for it: machine code fits one minor version."""
    major, minor = sys.version_info[:2]
    return [f"python3 (>= {major}.{minor})", f"python3 (<< {major}.{minor + 1})", *DEBIAN_PYTHON]


def _units(*names: str) -> dict[str, Path | Link | bytes]:
    return {f"usr/lib/systemd/system/{name}": UNITS / name for name in names}


def _program(name: str) -> dict[str, Path | Link | bytes]:
    """Files of a program: its Python packages, those of others that come along, and its commands."""
    folder = f"usr/lib/{name}"
    files: dict[str, Path | Link | bytes] = {
        f"{folder}/{path.relative_to(REPOSITORY)}": path
        for package in PACKAGES[name]
        for path in _package_files(package)
    }
    for distribution in BUNDLED[name]:
        files |= {f"{folder}/{relative}": path for relative, path in _distribution_files(distribution)}
    files[f"{folder}/virtio_gpu_compute-{VERSION}.dist-info/METADATA"] = METADATA.format(version=VERSION).encode()
    for command, module in COMMANDS[name].items():
        files[f"usr/bin/{command}"] = COMMAND.format(folder=name, module=module).encode()
    if name == DAEMON:
        files[f"{folder}/vhost_backend/doctor/package"] = f"{name}\n".encode()
    return files


def _package_files(package: str) -> Iterator[Path]:
    """Files of one of our Python packages: those that pyproject.toml has in a wheel, as they were built."""
    tool = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    left_out = tool["exclude-package-data"]["*"]
    top = REPOSITORY / package
    found = {path for path in top.rglob("*.py") if (path.parent / "__init__.py").exists()}
    for pattern in tool["package-data"].get(package, ()):
        found |= {path for path in top.glob(pattern) if path.is_file()}
    for path in sorted(found):
        if "__pycache__" not in path.parts and not any(path.match(pattern) for pattern in left_out):
            yield path


def _distribution_files(name: str) -> Iterator[tuple[str, Path]]:
    """Files of an installed Python package, by their paths below its folder of packages."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        die(f"the Python package {name} is not installed here", hint="make setup")
    for file in distribution.files or ():
        relative = str(file)
        if relative.startswith("..") or re.search(
            r"__pycache__|(^|/)tests?/|\.(c|h|pyx|pxd)$|/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$", relative
        ):
            continue
        yield relative, Path(str(distribution.locate_file(file)))
