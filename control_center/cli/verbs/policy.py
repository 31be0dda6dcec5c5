"""Policies: automatic actions on faults. An action alerts, quiesces or resets the worker, or migrates the VM."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from control_center.cli.context import Context, positive, selector
from control_center.cli.link import Object
from control_center.cli.options import add_actions
from control_center.cli.problems import FAILED, OK, RefusalError, UsageError
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
    hosts, failed = await _hosts(context)
    policies: dict[str, list[Object]] = {}
    for host in hosts:
        try:
            policies[host] = await context.link.ask(Policies.Request(), host)
        except RefusalError as error:
            failed[host] = str(error)
    if given.action != "ls":
        failed |= await _change(context, policies)
    result = [{"host": host, **policy} for host, known in policies.items() for policy in known]
    context.out.rows(("host", "name", "selector", "kinds", "trigger", "count", "window_s", "action", "target"), result)
    for host, why in sorted(failed.items()):
        context.out.error(f"{host}: {'not listed' if given.action == 'ls' else 'nothing has changed'}: {why}")
    return FAILED if failed else OK


async def _change(context: Context, policies: dict[str, list[Object]]) -> dict[str, str]:
    """Changes the policies of hosts; returns the hosts where that failed, with the reason.

    :raise UsageError: a policy is wrong.
    :raise RefusalError: no host has the policy that is to be removed, or all hosts refuse.
    """
    if context.given.action == "rm":
        policies_with = {host: known for host, known in policies.items() if _has(known, context.given.name)}
        if not policies_with and policies:
            names = sorted({policy["name"] for known in policies.values() for policy in known})
            raise RefusalError(f"no policy {context.given.name!r}; known: {', '.join(names) or 'none'}", "unknown")
    else:
        policies_with = policies
    refused: dict[str, RefusalError] = {}
    for host, before in policies_with.items():
        try:
            policies[host] = await context.link.ask(_wanted(context.given, before), host)
        except RefusalError as error:
            refused[host] = error
    if refused and len(refused) == len(policies_with):
        raise next(iter(refused.values()))
    return {host: str(error) for host, error in refused.items()}


def _has(policies: Sequence[Object], name: str) -> bool:
    return any(policy["name"] == name for policy in policies)


async def _hosts(context: Context) -> tuple[list[str], dict[str, str]]:
    """Hosts that are meant and up, and those that are meant and not up, with the reason.

    :raise RefusalError: the host that the command names is not up.
    """
    known = await context.link.ask(Topology.Request())
    names = [host["host"] for host in known if host["state"] == "up"]
    wanted = context.given.host
    if wanted is None:
        away = {host["host"]: host for host in known if host["state"] != "up"}
        return names, {name: f"it is {host['state']}: {host['reason']}" for name, host in away.items()}
    if wanted not in names:
        raise RefusalError(f"no host {wanted!r} is up; known: {', '.join(names)}", "unknown")
    return [wanted], {}


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
    return [policy for policy in before if policy["name"] != given.name]


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
