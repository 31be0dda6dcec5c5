"""KubeVirt's VirtualMachineInstance, as hook sidecars get it: JSON, of which few fields count here."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from vgc_kubernetes import terms
from vgc_kubernetes.errors import RequestError

Quantities: TypeAlias = dict[str, str | int]


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Resources(msgspec.Struct):
    limits: Quantities | None = None
    requests: Quantities | None = None


class _Domain(msgspec.Struct):
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Spec(msgspec.Struct):
    domain: _Domain


class _Vmi(msgspec.Struct):
    spec: _Spec
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def check(vmi: bytes) -> str:
    """Checks that a VirtualMachineInstance asks for a device; returns its namespace and name.

    :raise RequestError: it does not, or `vmi` is not one.
    """
    try:
        read = msgspec.json.decode(vmi, type=_Vmi)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the VMI cannot be read: {error}; allowed: a VirtualMachineInstance as JSON") from None
    name = f"{read.metadata.namespace}/{read.metadata.name}"
    resources = read.spec.domain.resources
    asked = {**(resources.requests or {}), **(resources.limits or {})}
    memory = f"{terms.DOMAIN}/memory-"
    missing = [
        wanted
        for wanted, is_there in (
            (terms.ELEMENTS, terms.ELEMENTS in asked),
            (f"{memory}UNIT", any(key.startswith(memory) for key in asked)),
        )
        if not is_there
    ]
    if missing:
        raise RequestError(
            f"VMI {name} asks for no {' and no '.join(missing)}; allowed: limits for {terms.ELEMENTS} and "
            f"{memory}UNIT (such as {terms.memory_resource(terms.MEMORY_UNIT_BYTES)}) in spec.domain.resources"
        )
    return name
