"""Servers for tests of the page: simulated daemons and the real control centre, on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from aiohttp import web

from control_center.access import Access, Tokens
from control_center.address import UnixAddress
from control_center.app import make_app
from control_center.centre import Centre
from control_center.cluster import Cluster
from control_center.host import Ages, HostConfig
from control_center.recorder import Settings, StoreRecorder
from tests.fakes.control_daemon import FakeDaemon
from tests.fakes.control_records import FakeInstance
from tests.fakes.control_world import Shape
from tests.limits import ANSWERS_WITHIN_S
from virtio_proto.control import tokens

ADMIN_TOKEN: Final = "vgc_the-admin-of-the-tests"
VIEW_TOKEN: Final = "vgc_somebody-who-only-looks"
TICK_S: Final = 0.05
"""Seconds between two steps of the simulated work, unless a test slows it down."""
LOAD_S: Final = 0.3
"""Seconds between two load messages on streams."""
_LABELS: Final = {"h1": {"zone": "a"}, "h2": {"zone": "a"}, "h3": {"zone": "b"}}
_T = TypeVar("_T")


class Rig:
    """Three simulated hosts; a control centre at `url`, and at `guarded_url` one that wants a token."""

    def __init__(
        self,
        folder: Path,
        *,
        hosts: dict[str, dict[str, str]] = _LABELS,
        shape: Shape | None = None,
        tick_s: float = TICK_S,
        recordings: Path | None = None,
    ) -> None:
        """`recordings`: folder of the recording, if it is not `folder`."""
        self.folder = folder
        self.daemons = {name: FakeDaemon(name, folder / f"{name}.sock", shape=shape or Shape()) for name in hosts}
        self.url = ""
        self.guarded_url = ""
        self._recordings = recordings or folder
        self._labels = hosts
        self._phases = {
            (name, vm.name): vm.phase for name, daemon in self.daemons.items() for vm in daemon.world.vms.values()
        }
        self._dead: set[str] = set()
        self._tick_s = tick_s
        self._centres: list[Centre] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="centre")
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        self.do(self._start())
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.do(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Runs `work` on the loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWERS_WITHIN_S)

    def call(self, work: Callable[[], _T]) -> _T:
        """Calls `work` on the loop and returns its result."""
        done: Future[_T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001  raised where it is waited for
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(ANSWERS_WITHIN_S)

    # ---- running ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        for daemon in self.daemons.values():
            await daemon.start()
            self._stack.push_async_callback(daemon.stop)
        for work in (asyncio.create_task(self._work()), asyncio.create_task(self._load())):
            self._stack.callback(work.cancel)
        recorder = StoreRecorder(Settings(f"sqlite:///{self._recordings}/recording.db", flush_s=0.1))
        await recorder.start()
        self._stack.push_async_callback(recorder.close)
        hosts = [
            HostConfig(name, UnixAddress(self.folder / f"{name}.sock"), labels=labels)
            for name, labels in self._labels.items()
        ]
        cluster = await self._stack.enter_async_context(Cluster(hosts, ages=Ages(1.0, 3.0), poll_s=0.2))
        self.url = await self._serve(Centre(cluster, Access(), recorder))
        self.guarded_url = await self._serve(Centre(cluster, Access(Tokens(self._tokens()))))

    async def _serve(self, centre: Centre) -> str:
        self._centres.append(centre)
        runner = web.AppRunner(make_app(centre), access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}/"

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)  # noqa: TID251  the pace of the daemons' work
            for name, daemon in self.daemons.items():
                if name not in self._dead:
                    daemon.tick()

    async def _load(self) -> None:
        while True:
            await asyncio.sleep(LOAD_S)  # noqa: TID251  the pace of the centres' work
            for centre in self._centres:
                centre.tick()

    def _tokens(self) -> Path:
        path = self.folder / "tokens"
        known = ((ADMIN_TOKEN, "admin", "ann"), (VIEW_TOKEN, "view", "bob"))
        lines = [f"sha256:{tokens.digest(secret)} role={role} name={name}\n" for secret, role, name in known]
        path.write_text("".join(lines))
        return path

    # ---- events on the hosts ---------------------------------------------------------------------

    def kill(self, host: str) -> None:
        """Stops a daemon, as if it had died."""
        self._dead.add(host)
        self.do(self.daemons[host].stop())

    def shift_load(self, host: str, vm: str, phase: float) -> None:
        """Makes another part of the VM's elements busy, and a different number of them."""
        self.daemons[host].world.vms[vm].phase = phase

    def freeze(self, host: str, vm: str) -> None:
        """Makes the VM's kernels hang."""
        self.daemons[host].world.vms[vm].frozen = True

    def confine(self, host: str, vm: str, pes: list[int] | None) -> None:
        self.daemons[host].world.vms[vm].confined_to = pes

    def fault(self, host: str, vm: str, pe: int, **more: str) -> int:
        return self.call(lambda: self.daemons[host].fault(vm, pe, **more))

    def open_channels(self, host: str, selector: str, **more: Any) -> None:
        """Opens channels as another client."""
        fields = {"selector": selector, "owner": "somebody", "keep": True, "ttl_s": 600.0, **more}
        self.call(lambda: self.daemons[host].host.answer("open", fields, None))

    def lose(self, host: str, function: str, count: int) -> None:
        """Makes the channels of a function lose records."""
        for instance in self.instances(host):
            if instance.function.name.lower() == function:
                for channel in instance.channels:
                    channel.lost += count

    def instances(self, host: str) -> list[FakeInstance]:
        return self.call(lambda: list(self.daemons[host].host.instances.values()))

    def functions(self, host: str) -> list[str]:
        """Functions with open channels on a host."""
        return [instance.function.name.lower() for instance in self.instances(host)]

    def mend(self) -> None:
        """Restores the initial state for the next test."""
        for name in tuple(self._dead):
            self.do(self.daemons[name].start())
            self._dead.discard(name)
        self.call(self._reset)

    def _reset(self) -> None:
        for name, daemon in self.daemons.items():
            host = daemon.host
            for instance in list(host.instances.values()):
                host.close(instance)
            host.policies, host.migrations, host.images = [], [], []
            host.staged.clear()
            daemon.world.faults.clear()
            for number, vm in enumerate(daemon.world.vms.values()):
                vm.phase = self._phases[name, vm.name]
                vm.gpu = number // daemon.world.shape.vms_per_gpu
                vm.frozen, vm.confined_to, vm.state, vm.firmware = False, None, "ready", "1.0.0"
                vm.thresholds.clear()
