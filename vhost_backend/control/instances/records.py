"""Records of VMs' sides of the control system at the keeper.

Another daemon reads them, perhaps one of another version of this program: a change of any of them takes another
`vhost_backend.keeper.client.RECORD_VERSION`.
"""

from __future__ import annotations

from vhost_backend.keeper.record import U32, Record


class Confinement(Record, frozen=True):
    """Processing elements that a VM is confined to."""

    pes: tuple[U32, ...]
