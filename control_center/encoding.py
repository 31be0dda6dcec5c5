"""JSON for clients. Bytes become base64: the load of thousands of processing elements stays one byte each."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from control_center.host import Host
from control_center.scope import Scope
from virtio_proto.control.api import LoadInfo
from virtio_proto.control.selector import Selector


def _other(value: object) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no JSON")


_encode = json.JSONEncoder(default=_other, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def dumps(value: Any) -> str:
    """`value` as JSON. Numbers that JSON lacks (infinities, NaN), which hosts may send, become null."""
    try:
        return _encode(value)
    except ValueError:
        return _encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


# ---- load ----------------------------------------------------------------------------------------


def load_of(host: Host, load: LoadInfo, scope: Scope, selector: Selector | None) -> LoadInfo:
    """Part of a host's load that `scope` allows and `selector` chooses.

    A caller who may not see the whole host gets the mean of their own VMs as the host's load, and no load of GPUs,
    which other VMs use, too.
    """
    if scope.is_all and (selector is None or (selector.vm, selector.gpu) == ("*", "*")):
        return load
    chosen = selector or Selector()
    there = [
        vm
        for vm in load["pes"]
        if scope.sees(host.name, vm) and chosen.matches_vm(vm) and chosen.matches_gpu(*host.names_of_gpu_of(vm))
    ]
    vms = {vm: load["vms"].get(vm, 0.0) for vm in there}
    whole = load["host"] if scope.is_all else sum(vms.values()) / max(len(vms), 1)
    gpus = {gpu: busy for gpu, busy in load["gpus"].items() if chosen.matches_gpu(*host.names_of_gpu(gpu))}
    return {
        "time_ns": load["time_ns"],
        "host": whole,
        "gpus": gpus if scope.is_all else {},
        "vms": vms,
        "gpu_pes_used": {gpu: load["gpu_pes_used"].get(gpu, 0.0) for gpu in gpus} if scope.is_all else {},
        "vm_pes_used": {vm: load["vm_pes_used"].get(vm, 0.0) for vm in there},
        "pes": {vm: load["pes"][vm] for vm in there},
    }


def load_json(hosts: Iterable[Host], time_ns: int, scope: Scope, selector: Selector | None) -> str:
    """``{"time_ns": ..., "hosts": {host: LoadInfo}}`` of the hosts whose load is known."""
    parts = []
    for host in hosts:
        if host.load is None or host.state == "down" or (selector is not None and not selector.matches_host(host.name)):
            continue
        parts.append(f"{_encode(host.name)}:{_load_text(host, host.load, scope, selector)}")
    return f'{{"time_ns":{time_ns},"hosts":{{{",".join(parts)}}}}}'


def _load_text(host: Host, load: LoadInfo, scope: Scope, selector: Selector | None) -> str:
    part = load_of(host, load, scope, selector)
    if part is not load:
        return dumps(part)
    if host.load_text is None:
        host.load_text = dumps(load)
    return host.load_text
