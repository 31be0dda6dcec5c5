"""The daemon between a frontend and a worker: what each is told, and when."""

from __future__ import annotations

from tests.fakes.frontend import RingSetup, SharedFile
from tests.protocol.conftest import GPA, REGION_BYTES, UVA, Stage
from vhost_backend.worker import protocol


def test_worker_gets_everything_that_the_frontend_sets_up(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = stage.attach()
    frontend.start([ring], [memory])
    assert worker.expect(protocol.MemTable).regions == (protocol.MemRegion(GPA, UVA, REGION_BYTES, 0),)
    start = worker.expect(protocol.VringStart)
    assert (start.index, start.size, start.base) == (0, 64, 0)
    assert (start.desc_uva, start.avail_uva, start.used_uva) == (ring.desc, ring.avail, ring.used)
    assert (start.event_idx, start.indirect, start.enabled, start.recover) == (True, True, False, False)
    assert (start.has_kick, start.has_call, start.has_err) == (True, True, True)
    assert worker.expect(protocol.VringCall).has_fd
    assert worker.expect(protocol.VringEnable).enabled
    assert worker.expect(protocol.VringCall).has_fd
