"""Control centre: watches and steers the GPUs of many hosts in one place, and keeps a recording that can be replayed."""

from __future__ import annotations

from virtio_proto.version import VERSION

__version__ = VERSION
