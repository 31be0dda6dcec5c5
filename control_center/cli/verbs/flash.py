"""Images of the device-resident control code: staged to processing elements, activated while work runs, rolled back.

Images are signed; a daemon takes those of its own keys only. Making and signing them is the host's business, not ours.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from control_center.cli.context import Context, failures, selector
from control_center.cli.link import Object
from control_center.cli.options import add_actions
from control_center.cli.output import date
from control_center.cli.problems import FAILED, OK, UsageError
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


async def run(context: Context) -> int:
    given = context.given
    if given.action == "ls":
        _show(context, await context.link.firmware(), parse(given.selector))
        return OK
    if given.action == "stage":
        answer = await context.link.stage_firmware(given.selector, _read(given.image))
        _show(context, await context.link.firmware(), parse(given.selector))
        return FAILED if _told(context, answer) else OK
    if given.action == "activate":
        return await _change(context, context.link.activate_firmware(given.selector, given.version), given.version)
    return await _change(context, context.link.rollback_firmware(given.selector), None)


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


async def _change(context: Context, asked: Coroutine[Any, Any, Object], version: str | None) -> int:
    """Until the hosts have said how it went; prints how far it is meanwhile, and at the end what went wrong."""
    chosen, said = parse(context.given.selector), ""
    change = asyncio.ensure_future(asked)
    try:
        while True:
            done, _ = await asyncio.wait({change}, timeout=_POLL_S)
            answer = change.result() if done else None
            found = await context.link.firmware()
            pes = _chosen(found, chosen)
            progress = f"{sum(_is_settled(pe, version) for pe in pes)} of {len(pes)} elements"
            if progress != said and not context.out.as_json:
                context.out.note(progress)
            said = progress
            if answer is not None:
                break
    finally:
        change.cancel()
    _show(context, found, chosen)
    is_wrong = _told(context, answer)
    return FAILED if is_wrong or not all(_is_settled(pe, version) for pe in pes) else OK


def _told(context: Context, answer: Object) -> bool:
    """Says what went wrong; whether anything did."""
    problems = _problems(answer)
    for problem in problems:
        context.out.error(problem)
    return bool(problems)


def _problems(answer: Object) -> list[str]:
    """What went wrong, by place."""
    return failures(answer) + [
        f"{host}/{problem['vm']} element {problem['pe']}: {problem['text']}"
        for host, info in answer["hosts"].items()
        for problem in info.get("problems", [])
    ]


def _is_settled(pe: Object, version: str | None) -> bool:
    """Whether the element runs what it should; without `version`: anything, and tries nothing else."""
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
