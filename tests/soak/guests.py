"""Guests of a soak: VMs that come, compute, fault, flood and leave, one life after the other."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

import guest_driver as vgc
from tests.fakes.attached import AttachedLink
from tests.fakes.guest import open_device
from tests.limits import ANSWERS_WITHIN_S
from tests.soak.account import Account, End
from tests.soak.host import AGAIN_S, Operator, SoakHost

SOURCE: Final = r"""
#include <assert.h>
#include <vgc.h>
extern "C" __global__ void mix(int n, int k, const int *x, int *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 3 + (i ^ k);
}
extern "C" __global__ void add(int *total) { atomicAdd(total, 1); }
extern "C" __global__ void say(int lines) { for (int i = 0; i < lines; i++) vgc_log(VGC_INFO, "line %d", i); }
extern "C" __global__ void illegal(void) { *(volatile int *)8 = 1; }
extern "C" __global__ void wrong(void) { assert(blockIdx.x == 1); }
extern "C" __global__ void endless(void) { for (volatile int i = 0;; i = i + 1) ; }
"""
QUEUES: Final = 2
SETTINGS: Final = {"engine": "cpu", "pes": 2, "memory": "64M", "deadline": "1s"}
"""Settings of the VMs that come and go."""
ROUNDS: Final = (10, 40)
"""Fewest and most rounds of work in a life."""
NULL_REQUESTS: Final = 200
_T = TypeVar("_T")
_opening = threading.Lock()
"""Held while a device is opened, of which the binding learns by a variable of the process."""


class Guests(threading.Thread):
    """One place for a VM: when one has left, the next comes, under another name."""

    def __init__(self, host: SoakHost, account: Account, place: int, stop: threading.Event) -> None:
        super().__init__(name=f"guests {place}", daemon=True)
        self._host = host
        self._account = account
        self._place = place
        self._stop_wanted = stop
        self._random = random.Random(place)
        self._numbers = 0
        self.vm: str | None = None
        """The VM that computes now."""
        self.asked_at: float | None = None
        """Time of the request that is open now, by the monotonic clock; None: none is."""

    def run(self) -> None:
        number = 0
        try:
            with Operator(self._host.control) as operator:
                while not self._stop_wanted.is_set():
                    number += 1
                    self._live(operator, f"g{self._place}-{number}")
        except BaseException as error:  # noqa: BLE001  whatever it is, the run fails by it
            self._account.find(f"{self.name} ended by {type(error).__name__}: {error}")

    def next_number(self) -> int:
        """A number that no guest of the run has had."""
        self._numbers += 1
        return self._numbers * 1000 + self._place

    def _live(self, operator: Operator, vm: str) -> None:
        socket = self._host.folder / vm
        operator.add(vm, socket=str(socket), num_queues=QUEUES, **SETTINGS)
        with AttachedLink(socket, num_queues=QUEUES) as link:
            link.name = vm
            link.wait_ready()
            operator.ask("open", selector=f"vm={vm},fn=log")  # the recorder gets its lines, until the next takeover
            life = Life(self._host, self._account, link, vm, self)
            self.vm = vm
            try:
                for _ in range(self._random.randint(*ROUNDS)):
                    if self._stop_wanted.is_set():
                        break
                    life.round(self._random)
            finally:
                self.vm = None
                life.close()
        operator.drop()
        operator.remove(vm)
        self._host.forget(vm)
        self._account.forget(vm)
        self._account.happen("VMs that came and left")


class Life:
    """Life of one guest: its device, its programs, and what it knows of its results."""

    def __init__(self, host: SoakHost, account: Account, link: AttachedLink, vm: str, guests: Guests) -> None:
        self._account = account
        self._link = link
        self._vm = vm
        self._guests = guests
        with _opening:
            self._device = open_device(
                link, host.folder / f"{vm}-guest", request_timeout_s=ANSWERS_WITHIN_S, open_timeout_s=ANSWERS_WITHIN_S
            )
        self._program: vgc.Program | None = None

    def round(self, chance: random.Random) -> None:
        """Does one kind of work. If the worker was killed meanwhile, begins anew with the next one."""
        kinds: list[tuple[Callable[[random.Random], None], int]] = [
            (self._compute, 10),
            (self._talk, 4),
            (self._flood, 4),
            (self._compile, 3),
            (self._be_refused, 3),
            (self._fault, 1),
        ]
        (work,) = chance.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
        try:
            if self._program is None:
                self._program = self._ask(lambda: self._device.compile(SOURCE))
                self._total: Any = self._ask(lambda: self._device.zeros(1, "int32"))
                self._added = 0
            work(chance)
        except vgc.DeviceLost:
            self._begin_anew()

    def close(self) -> None:
        """Closes the device, and checks that no worker ended without a reason."""
        self._program = None
        self._total = None
        self._device.close()
        self._link.refresh()
        died, explained = self._link._space.generation - 1, self._account.deaths(self._vm)
        if died > explained:
            self._account.find(f"{self._vm}: {died} workers ended, of which the soak explains {explained}")

    # ---- requests --------------------------------------------------------------------------------

    def _ask(self, request: Callable[[], _T], bad: bool = False) -> _T | None:
        """Sends a request and counts how it ended. A `bad` one must be refused, any other must succeed.

        :raise vgc.DeviceLost: the worker has ended.
        """
        self._account.begin()
        self._guests.asked_at = time.monotonic()
        try:
            answer = request()
        except vgc.NoAnswer:
            raise  # it counts as open
        except vgc.DeviceLost:
            self._account.end(End.LOST)
            raise
        except vgc.VgcError as error:
            self._account.end(End.REFUSED if bad else End.FAILED)
            if not bad:
                self._account.find(f"{self._vm}: a request failed by {type(error).__name__}: {error}")
            return None
        finally:
            self._guests.asked_at = None
        self._account.end(End.FAILED if bad else End.DONE)
        if bad:
            self._account.find(f"{self._vm}: a bad request succeeded")
        return answer

    def _function(self, name: str) -> vgc.Function:
        assert self._program is not None
        return self._program[name]

    def _begin_anew(self) -> None:
        """Makes a context in the next worker. One that is killed at once is followed by the next one's."""
        self._program = None
        end = time.monotonic() + ANSWERS_WITHIN_S
        while True:
            self._link.wait_ready()
            try:
                self._device.reset()
                self._device.zeros(
                    1, "int32"
                )  # a dead worker whose end the daemon has yet to notice does not answer this
                return
            except vgc.DeviceLost:
                if time.monotonic() > end:
                    raise
                time.sleep(AGAIN_S)

    # ---- kinds of work ---------------------------------------------------------------------------

    def _compute(self, chance: random.Random) -> None:
        count, k = chance.randint(1, 1 << 16), chance.randint(0, 1 << 20)
        x = np.random.default_rng(k).integers(-1000, 1000, count, dtype=np.int32)
        there = self._ask(lambda: self._device.to_device(x))
        result = self._ask(lambda: self._device.zeros(count, "int32"))
        assert there is not None
        assert result is not None
        self._ask(lambda: self._function("mix")[-(-count // 256), 256](count, k, there, result))
        got = self._ask(result.get)
        if got is not None and not np.array_equal(got, x * 3 + (np.arange(count, dtype=np.int32) ^ k)):
            self._account.find(f"{self._vm}: wrong results of mix({count}, {k})")
        for _ in range(20):
            self._ask(lambda: self._function("add")[1, 1](self._total))
            self._added += 1
        total = self._ask(self._total.get)
        if total is not None and list(total) != [self._added]:
            self._account.find(f"{self._vm}: {self._added} launches of add, and the total is {list(total)}")

    def _talk(self, chance: random.Random) -> None:
        lines = chance.randint(1, 50)
        self._ask(lambda: self._function("say")[4, 1](lines))

    def _flood(self, _chance: random.Random) -> None:
        for _ in range(NULL_REQUESTS):
            self._ask(self._device.nop)

    def _compile(self, _chance: random.Random) -> None:
        """Compiles a source that was never seen before, and one that was."""
        number = self._guests.next_number()
        source = f'extern "C" __global__ void set(int *out) {{ *out = {number}; }}'
        for _ in range(2):
            program = self._ask(lambda: self._device.compile(source))
            out = self._ask(lambda: self._device.zeros(1, "int32"))
            assert program is not None
            assert out is not None
            self._ask(lambda: program["set"][1, 1](out))  # noqa: B023  called at once
            got = self._ask(out.get)
            if got is not None and list(got) != [number]:
                self._account.find(f"{self._vm}: a compiled {number} is {list(got)}")
            self._ask(program.unload)

    def _be_refused(self, _chance: random.Random) -> None:
        self._ask(lambda: self._device.compile("this is no program"), bad=True)
        self._ask(lambda: self._device.alloc(1 << 30), bad=True)
        self._ask(lambda: self._function("add")[1, 1 << 12](self._total), bad=True)

    def _fault(self, chance: random.Random) -> None:
        """Launches a kernel that ends its worker, which must be told by its own error."""
        expected: dict[str, type[vgc.VgcError]] = {
            "illegal": vgc.KernelFault,
            "wrong": vgc.KernelAssert,
            "endless": vgc.Timeout,
        }
        name = chance.choice(list(expected))
        function = self._function(name)
        self._account.expect_death(self._vm)
        self._account.begin()
        self._guests.asked_at = time.monotonic()
        try:
            function[1, 1]()
        except expected[name]:
            self._account.end(End.FAULTED)
            self._account.happen(f"faults: {name}")
        except vgc.DeviceLost:
            self._account.end(End.LOST)  # the worker was killed beforehand
        except vgc.VgcError as error:
            self._account.end(End.FAILED)
            self._account.find(f"{self._vm}: {name} ended by {type(error).__name__}: {error}")
        else:
            self._account.end(End.FAILED)
            self._account.find(f"{self._vm}: {name} ended without an error")
        finally:
            self._guests.asked_at = None
        self._begin_anew()
