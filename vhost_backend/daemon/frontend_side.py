"""Frontend side of a VM: serves one vhost-user connection and passes its messages on to the worker."""

from __future__ import annotations

from collections.abc import Callable

from vhost_backend.daemon.config_space import ChangeNotice
from vhost_backend.daemon.keeping import Told
from vhost_backend.daemon.serving_worker import ServingWorker
from vhost_backend.daemon.vm_parts import VmParts
from vhost_backend.daemon.worker_slot import WorkerSlot
from vhost_backend.errors import FrontendError
from vhost_backend.fds import Fd, HasFileno
from vhost_backend.vhost_user.connection import Connection
from vhost_backend.vhost_user.memory import MemoryTable
from vhost_backend.vhost_user.messages import VringAddr
from vhost_backend.vhost_user.records import SessionRecord
from vhost_backend.vhost_user.session import Session
from vhost_backend.vhost_user.vring import Vring


class FrontendSide:
    """Serves one frontend, from its connection to its end. The `Device` of the vhost-user session."""

    def __init__(
        self, connection: Connection, vm: VmParts, make_slot: Callable[[Session, ChangeNotice], WorkerSlot]
    ) -> None:
        """`make_slot` makes the slot of the guest's worker, which reads the session's memory table and rings."""
        self._vm = vm
        self._session = Session(connection, self)
        self._session.refused = self._log_refused
        self._notice = ChangeNotice(vm.log, self._may_send_notice)
        self.slot = make_slot(self._session, self._notice)

    async def run(self) -> None:
        """Serves until the connection ends, normally or by an error."""
        log = self._vm.log
        try:
            await self._session.run()
        except FrontendError as error:
            log.warning("frontend_dropped", error=str(error), guest=True)
        except OSError as error:
            log.warning("frontend_lost", error=str(error), guest=True)
        except Exception:
            log.exception("session_failed")

    def close(self) -> None:
        """Closes the connection and every descriptor that came over it."""
        self._vm.region.forget()
        self._session.close()
        self._notice.close()

    # ---- for a daemon that takes over ---------------------------------------------

    def told(self) -> Told:
        """The session and the channel for notices, for the next daemon."""
        record, fds = self._session.record()
        told: dict[str, HasFileno] = dict(fds)
        if self._notice.channel is not None:
            told["notice"] = self._notice.channel
        return record, told

    def restore(self, record: SessionRecord, fds: dict[str, Fd], *, has_notice: bool) -> None:
        """Goes on where another daemon's frontend side was. To be called before `run`."""
        self._notice.restore(fds.pop("notice", None), pending=has_notice)
        self._session.restore(record, fds)
        self._vm.region.choose(self._session.memory, self._running_rings())

    @property
    def has_notice(self) -> bool:
        """True if the guest has yet to be told that the configuration space has changed."""
        return self._notice.is_pending

    async def pass_on_quiesced(self) -> None:
        """Has the worker serve the running rings, or not, depending on whether the VM is quiesced now."""
        for vring in self._session.vrings:
            if vring.running:
                await self.vring_enabled(vring)

    # ---- the session's Device --------------------------------------------------------------------

    @property
    def num_queues(self) -> int:
        return self._vm.config.num_queues

    def config_read(self) -> bytes:
        return self._vm.space.read()

    def config_write(self, offset_bytes: int, data: bytes) -> None:
        self._vm.space.write(offset_bytes, data)

    def backend_channel_set(self, channel: Fd) -> None:
        self._notice.set_channel(channel)

    async def memory_changed(self, _table: MemoryTable) -> None:
        await self._share_region()

    async def vring_started(self, vring: Vring) -> None:
        """Has the worker serve a ring. Without the region it reports the ring on its err descriptor, if it has one."""
        await self._share_region()
        if problem := self._vm.region.problem:
            self._vm.log.warning("vring_not_served", vring=vring.index, problem=problem, guest=True)
        if worker := await self._worker_for(vring):
            await worker.start(vring)

    async def vring_enabled(self, vring: Vring) -> None:
        if worker := await self._worker_for(vring):
            await worker.enable(vring)
        self._notice.send_pending()

    async def vring_fd_changed(self, vring: Vring, name: str) -> None:
        if worker := await self._worker_for(vring):
            await worker.swap(vring, name)

    async def vring_stopped(self, vring: Vring) -> int:
        """Asks the worker to stop a ring. If it does not answer at once it is killed, and the in-flight memory has the
        ring's position.
        """
        if worker := await self._worker_for(vring):
            answer = await worker.stop(vring)
            if not answer.done():
                await self.slot.replace(f"it did not stop vring {vring.index} in time")
            elif (ack := answer.result()) is not None and ack.ok:
                return ack.base
        return self._vm.rings.next_of(vring)

    async def reset(self) -> None:
        """Replaces a worker that has run a ring: it may hold the guest's data."""
        reason = "the guest reset the device"
        self.slot.abort_migration(f"{reason} meanwhile")
        self._vm.allotment.forget_acknowledgement()
        self.slot.guest_restarts()
        if self._vm.rings.any_started:
            await self.slot.start_over(reason)

    # ----------------------------------------------------------------------------------------------

    async def _share_region(self) -> None:
        """Chooses the guest's region anew, and has the worker map it if it is another."""
        if not self._vm.region.choose(self._session.memory, self._running_rings()):
            return
        self.slot.abort_migration("the frontend changed the guest's region meanwhile")
        if self.slot.serving is not None:
            await self.slot.serving.map_memory()

    def _running_rings(self) -> list[VringAddr]:
        return [vring.address for vring in self._session.vrings if vring.running and vring.address is not None]

    async def _worker_for(self, vring: Vring) -> ServingWorker | None:
        """Worker to pass a change of a ring on to; None: the next worker gets the change when it is ready."""
        await self.slot.make_way(f"the frontend changed vring {vring.index} meanwhile")
        return self.slot.serving

    def _may_send_notice(self) -> bool:
        return any(vring.running and vring.enabled for vring in self._session.vrings)

    def _log_refused(self, error: FrontendError) -> None:
        self._vm.log.warning("message_refused", error=str(error), guest=True)
