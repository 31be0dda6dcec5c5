"""``vgcd firmware``: makes keys and images, shows images."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from vhost_backend.control.firmware import build, signing
from vhost_backend.errors import ConfigError
from virtio_proto.control import firmware
from virtio_proto.control.firmware import ImageError, Manifest


def add_to(commands: Any) -> None:
    """Adds ``firmware`` to the subcommands of an argument parser."""
    parser = commands.add_parser("firmware", help="make and show firmware images", description=__doc__)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    keygen = actions.add_parser("keygen", help="make a key pair to sign with")
    keygen.add_argument("folder", type=Path, metavar="FOLDER")
    keygen.set_defaults(command=_keygen)
    make = actions.add_parser("build", help="make and sign an image of the control code of this installation")
    make.add_argument("--version", required=True, metavar="X.Y.Z")
    make.add_argument("--key", required=True, type=Path, metavar="FILE", help="secret key, as keygen makes it")
    make.add_argument(
        "--name", default="vgc-control", metavar="TEXT", help="name shown to people (default: %(default)s)"
    )
    make.add_argument(
        "--source", type=Path, default=build.SOURCES, metavar="FOLDER", help="sources, with a firmware.cu"
    )
    make.add_argument("output", type=Path, metavar="FILE")
    make.set_defaults(command=_build)
    show = actions.add_parser("show", help="show an image's version, and check its signature")
    show.add_argument("image", type=Path, metavar="FILE")
    show.add_argument("--key", type=Path, action="append", default=[], metavar="FILE", help="public key to check with")
    show.set_defaults(command=_show)


def _keygen(arguments: argparse.Namespace) -> int:
    secret, public = signing.make_keys(arguments.folder)
    _say(f"{secret}: sign images with it, and keep it secret")
    _say(f"{public}: name it in control.firmware_keys of hosts that should trust these images")
    return 0


def _build(arguments: argparse.Namespace) -> int:
    key = signing.secret_key(arguments.key)
    try:
        source = build.amalgamate(arguments.source)
        firmware.version_number(arguments.version)
        made = Manifest(
            version=arguments.version,
            abi=build.abi(),
            name=arguments.name,
            built_ns=time.time_ns(),
            key=signing.key_id(key.public_key()),
        )
        image = signing.sign(made, source, key)
        arguments.output.write_bytes(image)
    except ImageError as error:
        raise ConfigError([str(error)]) from None
    except OSError as error:
        raise ConfigError([f"{arguments.output}: {error.strerror}; allowed: a file that can be written"]) from None
    _say(f"{arguments.output}: version {made.version}, {len(image)} bytes, signed with key {made.key}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    try:
        data = arguments.image.read_bytes()
        image = firmware.parse(data)
    except OSError as error:
        raise ConfigError([f"{arguments.image}: {error.strerror}; allowed: a readable image"]) from None
    except ImageError as error:
        raise ConfigError([f"{arguments.image}: {error}"]) from None
    made = image.manifest
    built = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(made.built_ns / 1e9))
    _say(f"{made.name} {made.version}, abi {made.abi}, built {built} UTC, {len(image.source)} characters of source")
    if not arguments.key:
        _say(f"says that key {made.key} signed it (not checked: no --key)")
        return 0
    try:
        signing.verify(data, signing.public_keys(arguments.key))
    except ImageError as error:
        raise ConfigError([f"{arguments.image}: {error}"]) from None
    _say(f"signed with key {made.key}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
