"""Recorder: keeps what happened on all hosts in a store, finds it, replays it and exports it.

The store holds batches of records (as they came, with the texts that their formats need), events, commands (with the
standard input that was sent), snapshots and load. `entry` declares what is kept, `writer` puts it into the store behind
a bounded queue, `account` counts what becomes of each VM's records, `store_reader` and `lookup` find it again, `player`
replays it at a chosen speed, `feed` sends recorded input to a new run, `perfetto` and `table` export it. `open_recorder`
makes a recorder; `control_center.recording_port` is the interface that the control centre uses.
"""

from __future__ import annotations

from control_center.recorder.store_reader import StoreReader
from control_center.recorder.store_recorder import StoreRecorder
from control_center.recorder.writer import Settings

__all__ = ["Settings", "StoreReader", "StoreRecorder", "open_recorder"]


def open_recorder(url: str, *, retention_s: float | None = None, size_bytes: int | None = None) -> StoreRecorder:
    """Makes a recorder whose store is at `url`; `StoreRecorder.start` opens the store.

    `url` is ``sqlite:///var/lib/vgc/recording.db`` (three slashes and an absolute path; ``sqlite:name.db`` is relative)
    or ``postgresql://user:password@host/database``. Entries older than `retention_s` are deleted, and the oldest ones
    while all together exceed `size_bytes`; None: no such bound.

    :raise ValueError: the URL does not name a store; the text says what is allowed.
    """
    return StoreRecorder(Settings(url=url, retention_s=retention_s, size_bytes=size_bytes))
