"""While no operation ends, the engine asks the driver whether the context is lost."""

from __future__ import annotations

from typing import Final

from tests.unit.cuda_rig import gpu
from tests.waiting import until

STREAMS: Final = 3


def test_every_stream_is_asked_in_turn() -> None:
    """On a GPU, possibly only the stream of the kernel at fault reports the error."""
    with gpu() as made:
        hanging = [made.launch("hang", stream=stream) for stream in range(1, STREAMS + 1)]
        made.driver.await_hanging(STREAMS)
        until(lambda: len(set(made.driver.calls("cuStreamQuery"))) == STREAMS)
        made.driver.release()
        for pending in hanging:
            made.wait(pending)
