"""Routes about channels: lists the instances that a caller may see, and opens instances in the caller's name."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from control_center.host import Host
from control_center.rest.fanout import act, look, merged
from control_center.rest.route import Call
from virtio_proto.control.api import InstanceInfo
from virtio_proto.control.verbs.channels import HostedInstance, Ls, Open, OpenAnswer, hosted, totals_of, vms_of


async def channels(call: Call) -> list[HostedInstance]:
    """Lists instances. Daemons sum up channels if the caller asks for all of them, else the centre does, after filtering."""
    asked: Ls.Request = call.asked
    everything = _is_everything(call)
    found = await look(call, msgspec.structs.replace(asked, totals=asked.totals and everything))
    shown: list[HostedInstance] = []
    for name, answer in sorted(found.answers.items()):
        if everything:
            shown += [hosted(name, info) for info in answer["instances"]]
        else:
            shown += _visible(call, call.host(name), answer["instances"])
    return [{**instance, "channels": []} for instance in shown] if asked.totals else shown


def _is_everything(call: Call) -> bool:
    chosen = call.selector
    return call.scope.is_all and (chosen.gpu, chosen.vm, chosen.pe) == ("*", "*", None)


def _visible(call: Call, host: Host, infos: list[InstanceInfo]) -> Iterator[HostedInstance]:
    """Instances of VMs that the caller sees and has selected, with those VMs' channels.

    Selector and owner of an instance that also covers other VMs are hidden.
    """
    chosen = call.selector
    for info in infos:
        vms = vms_of(info, host.vms)
        seen = {vm for vm in vms if call.scope.sees(host.name, vm)}
        channels = [
            channel
            for channel in info["channels"]
            if channel["vm"] in seen
            and chosen.matches_vm(channel["vm"])
            and chosen.matches_gpu(*host.names_of_gpu(channel["gpu"]))
            and chosen.matches_pe(channel["pe"])
        ]
        if channels or (not info["channels"] and any(chosen.matches_vm(vm) for vm in seen)):
            shown = hosted(host.name, {**info, "channels": channels, "totals": totals_of(channels)})
            yield shown if seen == vms else {**shown, "selector": f"vm={'|'.join(sorted(seen))}", "owner": ""}


async def open_channels(call: Call) -> OpenAnswer:
    """Opens instances that belong to the caller; the stream has their records at once."""
    asked: Open.Request = call.asked
    found = await act(call, msgspec.structs.replace(asked, owner=call.caller.name))
    for name, info in found.answers.items():
        call.host(name).opened(info["instance"], info["selector"])
    answer: OpenAnswer = merged(call, found)
    return answer
