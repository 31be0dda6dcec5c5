"""Firmware: images of the control code on processing elements (PEs). Stages an image beside the running one, activates
it while kernels run, rolls it back.

Images are signed; a daemon accepts only those signed with one of its keys. ``vgcd firmware`` makes and signs images.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from control_center.cli.context import Context, failures, printable, selector
from control_center.cli.link import Object
from control_center.cli.options import add_actions
from control_center.cli.output import date
from control_center.cli.problems import FAILED, OK, UsageError
from virtio_proto.control.selector import Selector, parse
from virtio_proto.control.verbs.firmware import (
    MAX_IMAGE_BYTES,
    ActivateFirmware,
    Firmware,
    RollbackFirmware,
    StageFirmware,
)

EXAMPLES: Final = """\
  vgcctl flash ls vm=web1                        images, and the version on each PE
  vgcctl flash stage control-1.1.0.vgcfw 'vm=web1,pe=0-3'
  vgcctl flash activate 1.1.0 'vm=web1,pe=0-3'
  vgcctl flash rollback vm=web1
"""
_POLL_S: Final = 0.2
"""Interval at which progress is asked for."""


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    listing = action("ls", "images, and the version on each PE")
    stage = action("stage", "load an image beside the running one")
    stage.add_argument("image", type=Path, metavar="FILE")
    stage.add_argument("--force", action="store_true", help="stage it even where a newer version has run")
    activate = action("activate", "run a staged image from each PE's next block on")
    activate.add_argument("version", type=printable)
    rollback = action("rollback", "run the previous image again")
    for one in (listing, stage, activate, rollback):
        one.add_argument("selector", type=selector, nargs="?", default="", metavar="SELECTOR")


async def run(context: Context) -> int:
    given = context.given
    if given.action == "ls":
        _show(context, await _firmware(context), parse(given.selector))
        return OK
    if given.action == "stage":
        asked = StageFirmware.Request(selector=given.selector, image=_read(given.image), force=given.force)
        answer = await context.link.ask(asked)
        _show(context, await _firmware(context), parse(given.selector))
        return FAILED if _report_problems(context, answer) else OK
    if given.action == "activate":
        request = ActivateFirmware.Request(selector=given.selector, version=given.version)
        return await _change(context, context.link.ask(request), given.version)
    return await _change(context, context.link.ask(RollbackFirmware.Request(selector=given.selector)), None)


async def _firmware(context: Context) -> list[Object]:
    """Images and versions of each host."""
    found = (await context.link.ask(Firmware.Request()))["hosts"]
    return [{"host": host, **about} for host, about in found.items()]


def _read(path: Path) -> bytes:
    try:
        image = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not 0 < len(image) <= MAX_IMAGE_BYTES:
        raise UsageError(f"{path} has {len(image)} bytes; allowed: 1 to {MAX_IMAGE_BYTES}")
    return image


def _chosen(found: list[Object], chosen: Selector) -> list[Object]:
    return [
        {"host": item["host"], **pe}
        for item in found
        if chosen.matches_host(item["host"])
        for pe in item["pes"]
        if chosen.matches_vm(pe["vm"]) and chosen.matches_gpu(pe["gpu"]) and chosen.matches_pe(pe["pe"])
    ]


async def _change(context: Context, asked: Coroutine[Any, Any, Object], version: str | None) -> int:
    """Waits until the hosts have answered; prints progress meanwhile, and at the end what went wrong."""
    chosen, shown = parse(context.given.selector), ""
    change = asyncio.ensure_future(asked)
    try:
        while True:
            done, _ = await asyncio.wait({change}, timeout=_POLL_S)
            answer = change.result() if done else None
            found = await _firmware(context)
            pes = _chosen(found, chosen)
            progress = f"{sum(_is_settled(pe, version) for pe in pes)} of {len(pes)} elements"
            if progress != shown and not context.out.as_json:
                context.out.note(progress)
            shown = progress
            if answer is not None:
                break
    finally:
        change.cancel()
    _show(context, found, chosen)
    is_wrong = _report_problems(context, answer)
    return FAILED if is_wrong or not all(_is_settled(pe, version) for pe in pes) else OK


def _report_problems(context: Context, answer: Object) -> bool:
    """Prints what went wrong; True if anything did."""
    problems = _problems(answer)
    for problem in problems:
        context.out.error(problem)
    return bool(problems)


def _problems(answer: Object) -> list[str]:
    """Texts of what went wrong: hosts that did not answer, and PEs where the image failed."""
    return failures(answer) + [
        f"{host}/{problem['vm']} element {problem['pe']}: {problem['text']}"
        for host, info in answer["hosts"].items()
        for problem in info.get("problems", [])
    ]


def _is_settled(pe: Object, version: str | None) -> bool:
    """True if the PE runs `version`; without `version`, True if no staged image waits on it."""
    return bool(pe["state"] != "staged" if version is None else pe["active"] == version)


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
