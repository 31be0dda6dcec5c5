"""Checks the control system from here: the server, your token, the hosts, their versions and clocks. Says how to get
what is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from control_center import health
from control_center.cli.connect import choose, connected
from control_center.cli.link import Link, Object, Target
from control_center.cli.output import Output, duration, over
from control_center.cli.problems import (
    FAILED,
    OK,
    CommandError,
    MissingPackageError,
    NobodyThereError,
    RefusalError,
)

EXAMPLES: Final = """\
  vgcctl doctor
  vgcctl doctor --centre https://gpus.example:7070
"""
_MARKS: Final = {"ok": ("ok     ", "green"), "warning": ("warning", "yellow"), "missing": ("missing", "red")}
_PACKAGES: Final = {
    "aiohttp": "to ask a control centre: pip install 'virtio-gpu-compute[control]'",
    "msgpack": "to ask a daemon: pip install msgpack",
    "msgspec": "to ask either: pip install msgspec",
}


@dataclass(frozen=True, slots=True)
class Finding:
    state: Literal["ok", "warning", "missing"]
    what: str
    advice: str = ""


def add(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: doctor has only the options that all verbs have."""
    parser.set_defaults()


async def run_alone(given: argparse.Namespace, out: Output, asked: Target) -> int:  # noqa: ARG001
    findings = list(_packages())
    target = choose(asked)
    try:
        async with connected(target) as link:
            findings += await examine(link)
    except NobodyThereError as error:
        advice = "is it running? vgc-control-center, or `control:` with a socket in vgcd's configuration"
        findings.append(Finding("missing", str(error), advice))
    except MissingPackageError:
        findings.append(Finding("warning", "no server was asked: a package is missing"))
    except RefusalError as error:
        findings.append(
            Finding("missing", str(error), "a token: VGC_TOKEN in the environment; vgcctl token new makes one")
        )
    _show(out, findings)
    return FAILED if any(finding.state == "missing" for finding in findings) else OK


def _packages() -> Iterator[Finding]:
    for name, advice in _PACKAGES.items():
        there = importlib.util.find_spec(name) is not None
        yield Finding("ok" if there else "missing", f"Python package {name}", "" if there else advice)


async def examine(link: Link) -> list[Finding]:
    """Findings about the server and its hosts."""
    from virtio_proto.control.verbs.hosts import Topology  # takes a package that may be missing

    before_ns = time.time_ns()
    hosts = await link.ask(Topology.Request())
    took_ns = time.time_ns() - before_ns
    findings = [Finding("ok", f"{link.address} answers within {duration(took_ns)}; hosts: {len(hosts)}")]
    if not hosts:
        findings.append(Finding("warning", "no hosts are registered", "hosts: in the control centre's configuration"))
    for host in hosts:
        findings += _host(host)
    versions = {host["daemon"] for host in hosts if host["daemon"]}
    if len(versions) > 1:
        text = f"daemons of several versions: {', '.join(sorted(versions))}"
        findings.append(Finding("warning", text, "update the older ones"))
    findings += await _recorder(link)
    findings += await _control_system(link)
    return findings


def _host(host: Object) -> Iterator[Finding]:
    name = f"host {host['host']} ({host['url']})"
    if host["state"] != "up":
        since = duration(time.time_ns() - host["since_ns"])
        advice = f"is vgcd running there, with `control:` configured? {host.get('problem') or ''}".strip()
        yield Finding(
            "missing" if host["state"] == "down" else "warning", f"{name} has been {host['state']} for {since}", advice
        )
        return
    role = f", role {host['role']}" if host.get("role") else ""
    yield Finding("ok", f"{name}: vgcd {host['daemon']}{role}, GPUs: {len(host['gpus'])}, VMs: {len(host['vms'])}")
    for problem in health.of_link(host):
        yield Finding("warning", f"{name}: {problem.what}", problem.remedy)
    for vm in host["vms"]:
        if vm["state"] == "failed":
            yield Finding("warning", f"VM {host['host']}/{vm['vm']} is failed", "see vgcd's log, and vgcctl fault")


async def _recorder(link: Link) -> list[Finding]:
    if link.recordings is None:
        return [Finding("ok", "no recording: a daemon keeps none, a control centre does")]
    try:
        state = await link.recordings.recorder()
    except CommandError as error:
        advice = "recorder: with a url in the control centre's configuration"
        return [Finding("warning", f"no recording: {error}", advice)]
    if state is None:
        return [Finding("ok", "the recording that is of your VMs may be read: vgcctl replay --list")]
    problems = list(health.of_recorder(state))
    if problems:
        return [Finding("warning", f"recording at {state['url']}: {one.what}", one.remedy) for one in problems]
    return [Finding("ok", f"recording at {state['url']}: {state['records']} records{over(state)}")]


async def _control_system(link: Link) -> list[Finding]:
    """Findings about streams and daemons, which tell callers that may see all VMs."""
    from virtio_proto.control.verbs.hosts import Self

    own = await link.ask(Self.Request())
    problems = [problem for host, info in own["hosts"].items() for problem in health.of_daemon(host, info)]
    if "centre" in own:
        problems += health.of_streams(own["centre"])
    found = [Finding("warning", f"{one.where}: {one.what}", one.remedy) for one in problems]
    delays = [info["loop_delay_ns"] for info in own["hosts"].values()]
    if delays and not found:
        found.append(Finding("ok", f"daemons' loops were held for {duration(max(delays))} at most"))
    return found


def _show(out: Output, findings: list[Finding]) -> None:
    if out.as_json:
        out.json([asdict(finding) for finding in findings])
        return
    for finding in findings:
        mark, colour = _MARKS[finding.state]
        out.line(f"{out.paint(mark, colour)}  {finding.what}")
        if finding.advice:
            out.line(f"         {finding.advice}")
