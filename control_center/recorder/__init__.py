"""The recorder: what happened on all hosts, kept, looked up, played again and exported.

The patent asks for "a record of the whole system's run" from which a problem is traced back after the event; here it
is a store of batches of channels (raw, with the texts that their formats need), events, commands (with the standard
input that was sent), snapshots and load. `entry` says what is kept, `writer` puts it into the store behind a bounded
queue, `reader` finds it again, `player` plays it on a time line, `feed` sends recorded input to a new run, `perfetto`
and `table` export it. `open_recorder` is the way in; `control_center.recording_port` says what may be asked.
"""

from __future__ import annotations

from control_center.recorder.settings import Settings
from control_center.recorder.store_reader import StoreReader
from control_center.recorder.store_recorder import StoreRecorder

__all__ = ["Settings", "StoreReader", "StoreRecorder", "open_recorder"]


def open_recorder(url: str, *, retention_s: float | None = None, size_bytes: int | None = None) -> StoreRecorder:
    """A recorder with its store at `url`; nothing is opened before `StoreRecorder.start`.

    `url` is ``sqlite:///var/lib/vgc/recording.db`` (three slashes and an absolute path; ``sqlite:name.db`` is relative)
    or ``postgresql://user:password@host/database``. What is older than `retention_s` is deleted, and the oldest of
    what is more than `size_bytes`; None: never.

    :raise ValueError: the URL is of another kind; the text says what is allowed.
    """
    return StoreRecorder(Settings(url=url, retention_s=retention_s, size_bytes=size_bytes))
