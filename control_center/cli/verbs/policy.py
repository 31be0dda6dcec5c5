"""Policies: automatic actions on faults. An action alerts, quiesces or resets the worker, or migrates the VM."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from control_center.cli.context import Context, positive, selector
from control_center.cli.link import Object
from control_center.cli.options import add_actions
from control_center.cli.problems import OK, RefusalError, UsageError
from control_center.cli.times import length_s
from virtio_proto.control.api import FAULT_KINDS, POLICY_ACTIONS, TRIGGERS
from virtio_proto.control.shapes import ShapeError, checked
from virtio_proto.control.verbs.base import Request
from virtio_proto.control.verbs.faults import Policies, SetPolicies
from virtio_proto.control.verbs.hosts import Topology

EXAMPLES: Final = """\
  vgcctl policy ls
  vgcctl policy add hang --kinds hung --action reset vm=web*
  vgcctl policy add flood --kinds kernel assert --trigger sustained --count 10 --window 60s --action quiesce
  vgcctl policy set policies.yaml --host h1      replace all policies by those of a file
  vgcctl policy rm hang
"""


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    listing = action("ls", "list policies")
    setting = action("set", "replace all policies by those of a YAML file")
    setting.add_argument("file", type=Path, metavar="FILE", help="a list of policies, or `policies:` with a list")
    one = action("add", "add a policy, or change the policy with that name")
    one.add_argument("name")
    one.add_argument("selector", type=selector, nargs="?", default="", metavar="SELECTOR")
    one.add_argument(
        "--kinds",
        nargs="+",
        choices=FAULT_KINDS,
        default=list(FAULT_KINDS),
        metavar="KIND",
        help=", ".join(FAULT_KINDS),
    )
    one.add_argument("--trigger", choices=TRIGGERS, default="edge")
    one.add_argument("--count", type=positive, default=1, metavar="N", help="faults that trigger it (default: 1)")
    one.add_argument("--window", type=length_s, default=60.0, metavar="TIME", help="time for them (default: 60s)")
    one.add_argument("--action", dest="what", choices=POLICY_ACTIONS, default="alert")
    one.add_argument("--target", help="migrate: PEs as pes:0-3 (default: as many as the VM has)")
    remove = action("rm", "remove a policy")
    remove.add_argument("name")
    for each in (listing, setting, one, remove):
        each.add_argument("--host", help="on this host (default: on all)")


async def run(context: Context) -> int:
    given = context.given
    hosts = await _hosts(context)
    result: list[Object] = []
    for host in hosts:
        before = await context.link.ask(Policies.Request(), host)
        after = before if given.action == "ls" else await context.link.ask(_wanted(given, before), host)
        result += [{"host": host, **policy} for policy in after]
    context.out.rows(("host", "name", "selector", "kinds", "trigger", "count", "window_s", "action", "target"), result)
    return OK


async def _hosts(context: Context) -> list[str]:
    names = [host["host"] for host in await context.link.ask(Topology.Request()) if host["state"] == "up"]
    wanted = context.given.host
    if wanted is None:
        return names
    if wanted not in names:
        raise RefusalError(f"no host {wanted!r} is up; known: {', '.join(names)}", "unknown")
    return [wanted]


def _wanted(given: argparse.Namespace, before: Sequence[Object]) -> Request:
    """All policies that a host is to have.

    :raise UsageError: a policy is wrong.
    """
    try:
        request: Request = checked({"policies": _all(given, before)}, SetPolicies.Request, "policy: ")
    except ShapeError as error:
        raise UsageError(str(error)) from None
    return request


def _all(given: argparse.Namespace, before: Sequence[Object]) -> list[Object]:
    match given.action:
        case "set":
            return _read(given.file)
        case "add":
            made = {
                "name": given.name,
                "selector": given.selector,
                "kinds": given.kinds,
                "trigger": given.trigger,
                "count": given.count,
                "window_s": given.window,
                "action": given.what,
            }
            target = {"target": given.target} if given.target else {}
            return [*(policy for policy in before if policy["name"] != given.name), {**made, **target}]
    rest = [policy for policy in before if policy["name"] != given.name]
    if len(rest) == len(before):
        names = ", ".join(policy["name"] for policy in before) or "none"
        raise RefusalError(f"no policy {given.name!r}; known: {names}", "unknown")
    return rest


def _read(path: Path) -> list[Object]:
    """:raise UsageError: the file does not hold a list of policies."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: {error}") from None
    policies = found.get("policies") if isinstance(found, dict) else found
    if not isinstance(policies, list) or not all(isinstance(policy, dict) for policy in policies):
        raise UsageError(f"{path} holds no list of policies; allowed: '- name: ...' entries, or policies: with them")
    return policies
