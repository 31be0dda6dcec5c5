"""Functions that a device's handle can call by name: of the programs of this process, then of the VM and the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from guest_driver import errors
from guest_driver.program import FoundFunction, Function, Program

if TYPE_CHECKING:
    from guest_driver.handle import Handle


class KnownFunctions:
    """Programs of a device, and functions that were looked up.

    A function of the VM may be registered anew, by any process: what is known of one is good for packing arguments, until
    a call fails.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._programs: list[Program] = []
        self._found: dict[str, Function] = {}
        """Functions of the VM and the host, by name."""
        self._missing: set[str] = set()
        """Names that nothing had."""

    def add(self, program: Program) -> None:
        """Keeps a program loaded, also without references."""
        self._missing.clear()
        self._programs = [*(known for known in self._programs if known.is_loaded), program]

    def unload(self) -> None:
        """Unloads all programs."""
        for program in self._programs:
            program.unload()

    def clear(self) -> None:
        """Forgets everything."""
        self._programs.clear()
        self.forget()

    def forget(self) -> None:
        """Forgets all but the programs."""
        self._found.clear()
        self._missing.clear()

    def find(self, name: str) -> Function:
        """Finds a function, as it is now.

        :raise errors.NotFound: nothing has this name.
        :raise errors.CompileError: its registered program does not compile any more.
        """
        return self._own(name) or FoundFunction(self._handle, name).function

    def of_call(self, name: str) -> Function:
        """Function whose parameters tell how a call's arguments are packed.

        :raise errors.VgcError: as `find`.
        """
        own = self._own(name)
        if own is not None:
            return own
        if name not in self._found:
            self._found[name] = FoundFunction(self._handle, name).function
        return self._found[name]

    def if_known(self, name: str) -> Function | None:
        """Function as for `of_call`; None, without asking again, if nothing had this name.

        :raise errors.VgcError: the device cannot answer.
        """
        if name in self._missing:
            return None
        try:
            return self.of_call(name)
        except (errors.NotFound, errors.CompileError):
            self._missing.add(name)
            return None

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Has the function looked up anew at the next call if this one says that it is not what it was."""
        try:
            yield
        except (errors.NotFound, errors.InvalidArgument):
            self._found.pop(name, None)
            raise

    def _own(self, name: str) -> Function | None:
        for program in reversed(self._programs):
            if program.is_loaded:
                try:
                    return program[name]
                except errors.NotFound:
                    continue
        return None
