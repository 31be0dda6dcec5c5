"""Firmware: the control code on the devices, staged, activated and taken back while work runs."""

from __future__ import annotations

from collections.abc import Mapping

from control_center.centre import told
from control_center.cluster import Gathered
from control_center.rest.channels import decoded
from control_center.rest.fanout import act, failures
from control_center.rest.model import ActivateRequest, FirmwareAnswer, RollbackRequest, StageRequest
from control_center.rest.route import SELECTOR, Call, Route
from virtio_proto.control.api import FirmwareInfo
from virtio_proto.control.selector import Selector

_FLASHING_S = 120.0
_MAX_STAGE_BYTES = 16 << 20
"""An image in base64."""


def _visible(call: Call, answers: Mapping[str, FirmwareInfo], chosen: Selector) -> dict[str, FirmwareInfo]:
    found: dict[str, FirmwareInfo] = {}
    for name, info in sorted(answers.items()):
        pes = [pe for pe in info["pes"] if call.scope.sees(name, pe.get("vm")) and chosen.matches_vm(str(pe.get("vm")))]
        found[name] = {"images": info["images"], "pes": pes}
        if "state" in info:
            found[name]["state"] = info["state"]
        if "problems" in info:
            found[name]["problems"] = [row for row in info["problems"] if call.scope.sees(name, row.get("vm"))]
    return found


def _answer(call: Call, found: Gathered[FirmwareInfo]) -> FirmwareAnswer:
    return {"hosts": _visible(call, found.answers, Selector()), "failed": failures(found)}


async def firmware(call: Call) -> FirmwareAnswer:
    """Images that hosts have, and what runs on which element."""
    hosts = [host for host in call.chosen(call.selector) if host.state != "down"]
    found = await call.centre.cluster.gather({host: {} for host in hosts}, "firmware", 5.0)
    found.failed = {name: told(call.scope, call.host(name), error) for name, error in found.failed.items()}
    return {"hosts": _visible(call, found.answers, call.selector), "failed": failures(found)}


async def stage(call: Call) -> FirmwareAnswer:
    """Brings a signed image to elements; what runs there goes on running."""
    request: StageRequest = call.body
    image = decoded(request["image"], "image")
    return _answer(call, await act(call, "stage_firmware", {"image": image}, call.body_selector, _FLASHING_S))


async def activate(call: Call) -> FirmwareAnswer:
    """Has elements change to a staged image at their next block, and back if it fails its test."""
    request: ActivateRequest = call.body
    fields = {"version": request["version"]}
    return _answer(call, await act(call, "activate_firmware", fields, call.body_selector, _FLASHING_S))


async def rollback(call: Call) -> FirmwareAnswer:
    """Has elements go back to the image before."""
    return _answer(call, await act(call, "rollback_firmware", {}, call.body_selector, _FLASHING_S))


ROUTES = (
    Route("GET", "/firmware", firmware, FirmwareAnswer, query=(SELECTOR,), tags=("firmware",)),
    Route(
        "POST",
        "/firmware/stage",
        stage,
        FirmwareAnswer,
        "admin",
        body=StageRequest,
        max_body=_MAX_STAGE_BYTES,
        tags=("firmware",),
    ),
    Route("POST", "/firmware/activate", activate, FirmwareAnswer, "admin", body=ActivateRequest, tags=("firmware",)),
    Route("POST", "/firmware/rollback", rollback, FirmwareAnswer, "admin", body=RollbackRequest, tags=("firmware",)),
)
