"""Worker that is ready: passes its guest's region and rings on to it, and compiles programs for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from vhost_backend.daemon import worker_messages
from vhost_backend.daemon.compile_relay import CompileRelay
from vhost_backend.daemon.config_space import ChangeNotice, ConfigSpace
from vhost_backend.daemon.guest_region import GuestRegion
from vhost_backend.daemon.registrations import RegisteredProgram, RegistrationError, Registrations
from vhost_backend.daemon.restoring import Restoring
from vhost_backend.daemon.rings import Rings, numbers
from vhost_backend.log import Logger
from vhost_backend.vhost_user.session import Session
from vhost_backend.vhost_user.vring import Vring
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.link import Answer, Build, WorkerLink
from vhost_backend.worker_protocol.protocol import Compile, HostProgram
from vhost_backend.worker_protocol.registration_messages import Register, Registered

STOP_WAIT_S: Final = 0.07
"""Time that a worker has to stop a ring; then it is killed, and GET_VRING_BASE is answered without it."""
ACK_WAIT_S: Final = 0.07
"""Longest time that the frontend waits for a worker's ack."""


class ServingWorker:
    """Passes on to one worker of `generation` what its guest's frontend sets up, from when it is ready to its end.

    When a method returns, the frontend may rely on its effect (and unmap memory, say). So the methods wait for the
    worker's ack, but not for long, and not for a worker that is late already.
    """

    def __init__(
        self,
        link: WorkerLink,
        generation: int,
        *,
        session: Session,
        rings: Rings,
        region: GuestRegion,
        space: ConfigSpace,
        notice: ChangeNotice,
        compilations: CompileRelay,
        registrations: Registrations,
        on_change: Callable[[], None],
        log: Logger,
    ) -> None:
        """`on_change` is called when the worker is told of a ring or of memory."""
        self.link = link
        self._generation = generation
        self._session = session
        self._rings = rings
        self._region = region
        self._space = space
        self._notice = notice
        self._compilations = compilations
        self._registrations = registrations
        self._restoring: Restoring | None = None
        self._registering: asyncio.Task[None] | None = None
        self._on_change = on_change
        self._log = log
        self._late: Answer | None = None
        """Latest ack that was waited for."""

    def close(self) -> None:
        """Abandons the worker's compilations."""
        if self._restoring is not None:
            self._restoring.close()
        self._compilations.close()

    @property
    def compiling(self) -> int:
        """Number of the VM's programs that compile, or wait for a compiler."""
        return self._compilations.pending

    def compile(self, request: Compile | HostProgram) -> None:
        """Has a program compiled; the worker gets it."""
        if isinstance(request, Compile):
            self._compilations.submit(request)
        else:
            self._compilations.submit_host(request)

    def restore(self, done: Callable[[], None]) -> None:
        """Gives a new worker the VM's registered programs; then, or after a bounded time, calls `done`."""
        if not len(self._registrations):
            done()
            return
        self._restoring = Restoring(self._registrations, self._compilations, self.link, self._log, done)

    def register(self, request: Register) -> None:
        """Registers a program that the worker has loaded, and answers it.

        A worker that asks before it is answered is condemned: only a forged request does that.
        """
        if self._registering is not None and not self._registering.done():
            self.link.condemn("asked to register two programs at a time")
            return
        program = RegisteredProgram.of(
            request.program_kind,
            request.options,
            self._compilations.source(request.source),
            request.num_functions,
            request.signatures,
        )
        self._registering = asyncio.get_running_loop().create_task(self._register(request, program))

    async def _register(self, request: Register, program: RegisteredProgram) -> None:
        number, why = 0, ""
        try:
            number = await self._registrations.add(program, keep=request.keep)
        except RegistrationError as error:
            why = str(error)
        self.link.tell(lambda seq: Registered(seq, request.request, number, why))

    def unregister(self, number: int) -> None:
        """Forgets a program that the guest has unregistered."""
        self._registrations.remove(number)

    def replay(self) -> None:
        """Sends a new worker the whole state of the session: the guest's region and rings."""
        if self._region.entry is not None:
            self._post_memory()
        for vring in self._session.vrings:
            if vring.running:
                self._start(vring)

    def go_on(self) -> Sequence[Answer]:
        """Has the worker serve the rings from where another worker of its generation has stopped; returns its acks."""
        return [
            self._watched(self._rings.go_on(self.link, vring, self._session.acked_features, self._generation), vring)
            for vring in self._session.vrings
            if vring.running
        ]

    async def map_memory(self) -> None:
        """Passes on the guest's region; without one the worker gets an empty table."""
        await self._settled(self._post_memory())

    async def start(self, vring: Vring) -> None:
        """Has the worker serve a ring."""
        await self._settled(self._start(vring))

    async def enable(self, vring: Vring) -> None:
        """Has the worker serve a started ring, or not, as it is enabled."""
        index, enabled = vring.index, vring.enabled and not self._rings.quiesced
        await self._tell(vring, lambda seq: protocol.VringEnable(seq, index, enabled))

    async def swap(self, vring: Vring, name: str) -> None:
        """Passes on the ring's new "kick" or "call" descriptor."""
        message = protocol.VringKick if name == "kick" else protocol.VringCall
        index, fds = vring.index, numbers(vring.kick if name == "kick" else vring.call)
        await self._tell(vring, lambda seq: message(seq, index, bool(fds)), fds)

    async def stop(self, vring: Vring) -> Answer:
        """Has the worker stop a ring. The ack is not done if the worker did not answer in time."""
        index = vring.index
        answer = self.link.post(lambda seq: protocol.VringStop(seq, index))
        await asyncio.wait([answer], timeout=STOP_WAIT_S)
        return answer

    # ----------------------------------------------------------------------------------------------

    def _start(self, vring: Vring) -> Answer:
        answer = self._rings.start(self.link, vring, self._session.acked_features, self._generation)
        return self._watched(answer, vring)

    async def _tell(self, vring: Vring, build: Build, fds: tuple[int, ...] = ()) -> None:
        await self._settled(self._watched(self.link.post(build, fds), vring))

    async def _settled(self, answer: Answer) -> None:
        self._on_change()
        if self._late is None or self._late.done():
            await asyncio.wait([answer], timeout=ACK_WAIT_S)
            self._late = answer

    def _watched(self, answer: Answer, vring: Vring) -> Answer:
        """Logs a refusal when the answer comes."""
        what = f"vring {vring.index}"
        answer.add_done_callback(lambda done: self._on_ring_answered(what, done))
        return answer

    def _on_ring_answered(self, what: str, answer: Answer) -> None:
        ack = answer.result()
        if ack is not None and not ack.ok:
            self._log.warning("worker_refused", what=what, error=ack.error, guest=True)

    def _post_memory(self) -> Answer:
        answer = worker_messages.post_memory(self.link, self._region.entry)
        answer.add_done_callback(self._on_memory_answered)
        return answer

    def _on_memory_answered(self, answer: Answer) -> None:
        ack = answer.result()
        if ack is None:
            return
        if not ack.ok:
            self._log.warning("memory_refused", error=ack.error, guest=True)
        if ack.region_device_address != self._space.region_device_address:
            self._space.region_device_address = ack.region_device_address
            self._notice.send()
