"""Programs that a VM's guest has registered: what is needed to give them to its next worker.

They belong to the VM until its guest restarts; kept ones until they are unregistered or the VM is removed: these lie as
files in the folder of the daemon's state, too.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from vhost_backend.daemon.records import ProgramNumbers
from vhost_backend.daemon.state_files import replace_file
from vhost_backend.fds import Fd, HasFileno
from vhost_backend.log import Logger
from vhost_backend.sandbox import memfd
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.registration_messages import Signatures, digest_of
from virtio_proto.schema import LIMITS

MAX_PROGRAMS: Final = 1024
MAX_BYTES: Final = 16 << 20
"""Most bytes of sources and options of a VM's registered programs, which this process keeps in memory."""
_VERSION: Final = 1
_SUFFIX: Final = ".program"
_MAX_FILE_BYTES: Final = LIMITS["MAX_SOURCE_BYTES"] + (1 << 20)


class RegistrationError(Exception):
    """A program cannot be registered; the text goes to the guest."""


class RegisteredProgram(codec.Part, frozen=True):
    """Content of a program, and what people want to know of it."""

    version: Annotated[int, Meta(ge=_VERSION, le=_VERSION)]
    kind: codec.U32
    options: tuple[str, ...]
    source: bytes
    num_functions: codec.U32
    signatures: Signatures
    """Names and parameters of the first functions."""

    @classmethod
    def of(
        cls, kind: int, options: tuple[str, ...], source: bytes, num_functions: int, signatures: tuple[str, ...]
    ) -> RegisteredProgram:
        return cls(_VERSION, kind, options, source, num_functions, signatures)

    @property
    def digest(self) -> bytes:
        return digest_of(self.kind, self.options, self.source)

    @property
    def size_bytes(self) -> int:
        return len(self.source) + sum(len(option.encode()) for option in self.options)


class Registrations:
    """Registered programs of one VM, by number, in the order of registering."""

    def __init__(self, log: Logger, folder: Path | None) -> None:
        """`folder`: of the kept programs, which are read; None: the daemon keeps no state."""
        self._log = log
        self._folder = folder
        self._programs: dict[int, RegisteredProgram] = {}
        self._kept: dict[int, Path] = {}
        self._problems: dict[int, str] = {}
        """Reasons why the present worker has no functions of programs, by number."""
        self._numbers: dict[bytes, int] = {}
        self._last = 0
        self._bytes = 0
        self.on_change: Callable[[], None] = lambda: None
        """Called when programs have been registered or forgotten."""
        self._files: dict[int, Fd] = {}
        """Files with programs that are not kept, for the next daemon."""
        for file in () if folder is None else _files_of(folder):
            self._read(file)

    def __len__(self) -> int:
        return len(self._programs)

    def __iter__(self) -> Iterator[tuple[int, RegisteredProgram]]:
        return iter(list(self._programs.items()))

    def is_kept(self, number: int) -> bool:
        """True if the program outlasts restarts of the guest and of the daemon."""
        return number in self._kept

    def problem_of(self, number: int) -> str:
        """Reason why the present worker has no functions of the program; "" if it has."""
        return self._problems.get(number, "")

    def note_problem(self, number: int, problem: str) -> None:
        """Notes whether a new worker has got the program: "", or the reason why not."""
        self._problems.pop(number, None)
        if problem and number in self._programs:
            self._problems[number] = problem

    async def add(self, program: RegisteredProgram, *, keep: bool) -> int:
        """Registers a program, or finds the same one; returns its number. One call at a time.

        :raise RegistrationError: the VM has too many, or it cannot be kept; nothing has changed.
        """
        digest = program.digest
        number = self._numbers.get(digest)
        if number is None:
            self._check_room(program)
        else:
            self.note_problem(number, "")
        if not keep or number in self._kept:
            number = number if number is not None else self._enter(program, digest)
            self.on_change()
            return number
        file = await asyncio.to_thread(self._write, program)  # which waits for the disk
        number = self._numbers.get(digest)  # the guest may have been restarted meanwhile
        number = number if number is not None else self._enter(program, digest)
        self._kept[number] = file
        self.on_change()
        return number

    def remove(self, number: int) -> None:
        """Forgets a program; nothing happens if no program has that number."""
        program = self._programs.pop(number, None)
        if program is None:
            return
        del self._numbers[program.digest]
        self._problems.pop(number, None)
        self._bytes -= program.size_bytes
        file = self._kept.pop(number, None)
        if file is not None:
            self._delete(file)
        self.on_change()

    def told(self) -> tuple[ProgramNumbers, dict[str, HasFileno]]:
        """Numbers of the programs, and files with those that are not kept in the folder."""
        for number in [number for number in self._files if number not in self._programs or number in self._kept]:
            self._files.pop(number).close()
        for number, program in self._programs.items():
            if number not in self._kept and number not in self._files:
                self._files[number] = Fd(memfd.create("vgc-registered", codec.pack(program)))
        digests = {number: digest for digest, number in self._numbers.items()}
        record = ProgramNumbers(self._last, {number: digests[number] for number in self._programs})
        return record, {str(number): fd for number, fd in self._files.items()}

    def restore(self, record: ProgramNumbers, fds: dict[str, Fd]) -> None:
        """Goes on with the programs and the numbers of another daemon's."""
        kept = {program.digest: (program, self._kept[number]) for number, program in self._programs.items()}
        self._programs.clear()
        self._kept.clear()
        self._numbers.clear()
        self._bytes, self._last = 0, 0
        for number, digest in record.programs.items():
            file = fds.pop(str(number), None)
            if file is not None:
                program = codec.unpack(memfd.read(file.fileno(), _MAX_FILE_BYTES), RegisteredProgram, "a program")
                self._files[number] = file
            elif digest in kept:
                program, self._kept[number] = kept[digest]
            else:
                continue
            self._last = number - 1
            self._enter(program, digest)
        self._last = record.last

    def keep_only(self, numbers: Collection[int]) -> None:
        """Forgets programs that the guest has unregistered, as its worker says, without this daemon having heard of it."""
        for number in [number for number in self._programs if number not in numbers]:
            self.remove(number)

    def guest_restarts(self) -> None:
        """Forgets programs that are not kept."""
        for number in [number for number in self._programs if number not in self._kept]:
            self.remove(number)

    def forget(self) -> None:
        """Forgets all programs, for good: the VM is removed."""
        for number in list(self._programs):
            self.remove(number)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # ----------------------------------------------------------------------------------------------

    def _enter(self, program: RegisteredProgram, digest: bytes) -> int:
        self._last += 1
        self._programs[self._last] = program
        self._numbers[digest] = self._last
        self._bytes += program.size_bytes
        return self._last

    def _check_room(self, program: RegisteredProgram) -> None:
        if len(self._programs) >= MAX_PROGRAMS:
            raise RegistrationError(
                f"the VM has registered {len(self._programs)} programs, which is the limit; unregister some, or register "
                "several functions with one program"
            )
        if self._bytes + program.size_bytes > MAX_BYTES:
            raise RegistrationError(
                f"the source has {program.size_bytes} bytes, and the VM's registered programs have {self._bytes} of at most "
                f"{MAX_BYTES}; unregister some"
            )

    def _write(self, program: RegisteredProgram) -> Path:
        """Writes a program's file.

        :raise RegistrationError: it cannot be written.
        """
        if self._folder is None:
            raise RegistrationError(
                "this host keeps no programs through restarts: its vgcd has no folder for its state"
            )
        file = self._folder / f"{program.digest.hex()}{_SUFFIX}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(file, codec.pack(program))
        except OSError as error:
            self._log.error("program_not_kept", file=str(file), error=str(error))
            raise RegistrationError(
                "the host cannot keep programs through restarts at present; its operator finds the reason in vgcd's log"
            ) from error
        return file

    def _read(self, file: Path) -> None:
        try:
            program = codec.unpack(_bytes_of(file), RegisteredProgram, file.name)
        except (OSError, codec.ProtocolError) as error:
            self._log.error("kept_program_unreadable", file=str(file), error=str(error)[:500])
            return
        if len(self._programs) < MAX_PROGRAMS and self._bytes + program.size_bytes <= MAX_BYTES:
            self._kept[self._enter(program, program.digest)] = file

    def _delete(self, file: Path) -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            self._log.error("kept_program_not_deleted", file=str(file), error=str(error))


def _files_of(folder: Path) -> list[Path]:
    """Files of kept programs, the oldest first."""
    try:
        return sorted(folder.glob(f"*{_SUFFIX}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    except OSError:
        return []


def _bytes_of(file: Path) -> bytes:
    """Content of a file.

    :raise OSError: it cannot be read, or is no file of this kind.
    """
    with open(file, "rb") as opened:
        content = opened.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise OSError(f"it has more than {_MAX_FILE_BYTES} bytes")
    return content
