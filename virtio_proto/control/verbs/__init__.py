"""Verbs of the control API, a class each. To add a verb, add a subclass of `base.Verb` to one of these modules."""

from __future__ import annotations

from typing import Final

from virtio_proto.control.verbs import channels, faults, firmware, functions, hosts, migrations, session, status, vms
from virtio_proto.control.verbs.base import Verb

VERBS: Final[dict[str, type[Verb]]] = {
    verb.name: verb
    for module in (session, hosts, status, functions, vms, channels, faults, migrations, firmware)
    for verb in vars(module).values()
    if isinstance(verb, type) and issubclass(verb, Verb) and verb is not Verb
}
"""Verbs by name."""
