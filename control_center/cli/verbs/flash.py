"""Images of the device-resident control code: staged to processing elements, activated while work runs, rolled back.

Images are signed; a daemon takes those of its own keys only. Making and signing them is the host's business, not ours.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from pathlib import Path
from typing import Final

from control_center.cli.context import Context, selector
from control_center.cli.link import Object
from control_center.cli.options import add_actions
from control_center.cli.output import date
from control_center.cli.problems import FAILED, OK, UsageError
from control_center.cli.times import length_s
from virtio_proto.control.selector import Selector, parse

EXAMPLES: Final = """\
  vgcctl flash ls vm=web1                        what runs where
  vgcctl flash stage control-1.1.0.vgcfw 'vm=web1,pe=0-3'
  vgcctl flash activate 1.1.0 'vm=web1,pe=0-3'
  vgcctl flash rollback vm=web1
"""
_MAX_IMAGE_BYTES: Final = 8 << 20
_POLL_S: Final = 0.2


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    listing = action("ls", "images, and what runs where")
    stage = action("stage", "bring an image to elements, beside what runs there")
    stage.add_argument("image", type=Path, metavar="FILE")
    activate = action("activate", "run it from the next block on")
    activate.add_argument("version")
    rollback = action("rollback", "run what ran before")
    for one in (listing, stage, activate, rollback):
        one.add_argument("selector", type=selector, nargs="?", default="", metavar="SELECTOR")
    for one in (activate, rollback):
        one.add_argument(
            "--wait", type=length_s, default=10.0, metavar="TIME", help="for the elements' reports (default: 10s)"
        )


async def run(context: Context) -> int:
    given = context.given
    if given.action == "ls":
        _show(context, await context.link.firmware(), parse(given.selector))
        return OK
    if given.action == "stage":
        await context.link.stage_firmware(given.selector, _read(given.image))
        _show(context, await context.link.firmware(), parse(given.selector))
        return OK
    if given.action == "activate":
        await context.link.activate_firmware(given.selector, given.version)
        return await _wait(context, given.version)
    await context.link.rollback_firmware(given.selector)
    return await _wait(context, None)


def _read(path: Path) -> bytes:
    try:
        image = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not 0 < len(image) <= _MAX_IMAGE_BYTES:
        raise UsageError(f"{path} has {len(image)} bytes; allowed: 1 to {_MAX_IMAGE_BYTES}")
    return image


def _chosen(found: list[Object], chosen: Selector) -> list[Object]:
    return [
        {"host": item["host"], **pe}
        for item in found
        if chosen.matches_host(item["host"])
        for pe in item["pes"]
        if chosen.matches_vm(pe["vm"]) and chosen.matches_gpu(pe["gpu"]) and chosen.matches_pe(pe["pe"])
    ]


async def _wait(context: Context, version: str | None) -> int:
    """Until every chosen element has said what came of it, or the time is over; prints how far it is."""
    given, chosen = context.given, parse(context.given.selector)
    loop = asyncio.get_running_loop()
    until, said = loop.time() + given.wait, ""
    while True:
        found = await context.link.firmware()
        pes = _chosen(found, chosen)
        done = [pe for pe in pes if _is_settled(pe, version)]
        progress = f"{len(done)} of {len(pes)} elements"
        if progress != said and not context.out.as_json:
            context.out.note(progress)
        said = progress
        if len(done) == len(pes) or loop.time() >= until:
            break
        await asyncio.sleep(_POLL_S)
    _show(context, found, chosen)
    wrong = [pe for pe in pes if version is not None and pe["active"] != version]
    return FAILED if wrong or len(done) < len(pes) else OK


def _is_settled(pe: Object, version: str | None) -> bool:
    if version is None:
        return bool(pe["state"] != "staged")
    return bool(pe["state"] == "rolled back" or pe["active"] == version)


def _show(context: Context, found: list[Object], chosen: Selector) -> None:
    pes = _chosen(found, chosen)
    out = context.out
    if out.as_json:
        out.json({"images": {item["host"]: item["images"] for item in found}, "pes": pes})
        return
    images = [
        {"host": item["host"], **image, "staged": date(image["staged_ns"])}
        for item in found
        for image in item["images"]
    ]
    out.rows(("host", "version", "engine", "key", "staged"), images, title="images")
    groups = Counter((pe["host"], pe["vm"], pe["active"], pe["other"], pe["state"], pe["text"]) for pe in pes)
    names = ("host", "vm", "active", "other", "state", "text")
    out.rows(
        ("host", "vm", "active", "other", "state", "elements", "text"),
        [{**dict(zip(names, key, strict=True)), "elements": count} for key, count in groups.items()],
        title="elements",
    )
