"""The null engine: does nothing, in order. A template for engines; the data path is tested with it.

Its programs are texts, one declaration a line; a ``#`` starts a comment::

    kernel NAME [PARAM ...] [shared=N] [max_threads=N] [workspace=N] [behaviour=done|later|hold|release|assert|fault|spoil]
    global NAME SIZE
    bytes N            bytes that the program is charged to the memory quota

A PARAM is the parameter's size, with a letter in front if its kind is known: ``i4`` is an integer of 4 bytes, ``f4`` a
float, ``p8`` a pointer, ``o12`` something else; a plain ``4`` is of unknown kind.

Behaviours are those of ``enum vgc_null_behaviour`` in ``vgc_engine.h``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from vhost_backend._dataplane import ffi, lib
from vhost_backend.compiler.job import INSIDE
from vhost_backend.engines.base import (
    Buffer,
    CompileJob,
    Engine,
    EngineOptions,
    FunctionInfo,
    GlobalInfo,
    LoadedProgram,
    ProgramError,
    ProgramPlace,
)
from vhost_backend.errors import EngineError
from vhost_backend.sandbox.terms import Bind
from virtio_proto.schema import ParamKind

BEHAVIOURS: Final[dict[str, int]] = {
    name: getattr(lib, f"VGC_NULL_{name.upper()}")
    for name in ("done", "later", "hold", "release", "assert", "fault", "spoil")
}
_KINDS: Final[dict[str, ParamKind]] = {
    "i": ParamKind.INTEGER,
    "f": ParamKind.FLOAT,
    "p": ParamKind.POINTER,
    "o": ParamKind.OTHER,
}
_SIZES: Final[dict[ParamKind, tuple[int, ...]]] = {ParamKind.FLOAT: (2, 4, 8), ParamKind.POINTER: (8,)}
"""Allowed sizes of a kind in bytes; a kind that is not named allows all."""
_COPY: Final = Path("/bin/cp")
_GLOBALS_BASE: Final = 1 << 60
_MOST_BYTES: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _Private:
    """Address of a loaded program's variables, and its text."""

    base: int
    image: bytes


class NullEngine(Engine):
    """Engine that finishes every operation at once; its memory consists of addresses only. Takes no options."""

    kind: ClassVar[str] = "null"

    def __init__(self, pes: int) -> None:
        self.name = "null"
        self.num_pes = pes
        self.features = lib.VGC_F_CALL | lib.VGC_F_EVENTS | lib.VGC_F_TEXTURES | lib.VGC_F_GRAPHS
        self.handle = lib.vgc_null_engine_new(pes)
        if self.handle == ffi.NULL:
            raise EngineError("no memory for the null engine")
        self._next_global = _GLOBALS_BASE

    @classmethod
    def open(cls, options: EngineOptions, pes: int, memory_bytes: int, deadline_ns: int) -> Self:  # noqa: ARG003  the engine has no memory and no clock
        if options:
            raise EngineError(f"the null engine has no options, but got {', '.join(sorted(options))}")
        return cls(pes)

    def image_bytes(self, image_fd: int, size: int) -> int:
        return self.migrated_bytes(os.pread(image_fd, size, 0))

    def migrated_bytes(self, image: bytes) -> int:
        lines = (line.partition("#")[0].split() for line in image.decode(errors="replace").splitlines())
        charges = [words[1] for words in lines if words[:1] == ["bytes"] and _is_charge(words)]
        return min(int(charges[-1]), _MOST_BYTES) if charges else 0

    def load_program(self, image_fd: int, size: int, context: int) -> LoadedProgram:
        return self._load(os.pread(image_fd, size, 0), context)

    def _load(self, image: bytes, context: int) -> LoadedProgram:
        text = image.decode(errors="replace")
        base = self._next_global
        functions: list[FunctionInfo] = []
        variables: list[GlobalInfo] = []
        for number, line in enumerate(text.splitlines(), 1):
            match line.partition("#")[0].split():
                case []:
                    pass
                case ["kernel", name, *words]:
                    functions.append(_function(name, words, number, context))
                case ["global", name, words]:
                    variables.append(self._global(name, _number(words, number)))
                case ["bytes", *_] as words if _is_charge(words):
                    pass
                case _:
                    raise ProgramError(
                        f"line {number}: {line!r:.80}; allowed: kernel NAME ..., global NAME SIZE, bytes N"
                    )
        return LoadedProgram(tuple(functions), tuple(variables), _Private(base, image), self.migrated_bytes(image))

    def unload_program(self, program: LoadedProgram) -> None:
        """Does nothing: kernels are freed with their last reference."""

    def program_place(self, program: LoadedProgram) -> ProgramPlace:
        return ProgramPlace(program.private.base, ())

    def program_image(self, program: LoadedProgram) -> Buffer:
        image: bytes = program.private.image
        return image

    def load_program_at(self, image: bytes, context: int, base: int) -> LoadedProgram:
        if base < _GLOBALS_BASE:
            raise ProgramError(f"variables at {base:#x}; allowed: {_GLOBALS_BASE:#x} and above")
        furthest, self._next_global = self._next_global, base
        try:
            return self._load(image, context)
        finally:
            self._next_global = max(furthest, self._next_global)

    def close(self) -> None:
        if self.handle != ffi.NULL:
            self.handle.ops.close(self.handle)
            self.handle = ffi.NULL

    @staticmethod
    def compile_job(
        kind: str,
        source: bytes,  # noqa: ARG004  the text is the image
        options: tuple[str, ...],
        settings: Mapping[str, str],  # noqa: ARG004  the engine has no settings
    ) -> CompileJob:
        if kind != "CUDA_SOURCE" or options:
            raise ValueError(f"{kind} with options {options!r}; the null engine takes CUDA_SOURCE without options")
        visible = (Bind(_COPY, INSIDE / "bin" / "cp"),)
        return CompileJob((_COPY, "source", "image"), "source", "image", visible, "null engine 1")

    def _global(self, name: str, size: int) -> GlobalInfo:
        address = self._next_global
        self._next_global += size + 4096
        return GlobalInfo(name, address, size)


def _is_charge(words: list[str]) -> bool:
    return len(words) == 2 and words[1].isascii() and words[1].isdigit()


def _number(text: str, line: int, most: int = lib.VGC_MAX_PARAM_BYTES) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise ProgramError(f"line {line}: {text!r:.40}; allowed: a number of 0..{most}")
    return int(text)


def _param(text: str, line: int) -> tuple[ParamKind, int]:
    """Kind and size of a declared parameter."""
    kind = _KINDS.get(text[0], ParamKind.UNKNOWN)
    size = _number(text[1:] if kind else text, line)
    if size not in _SIZES.get(kind, (size,)):
        raise ProgramError(f"line {line}: {text!r:.40}; allowed: {kind.name} of {_SIZES[kind]} bytes")
    return kind, size


def _layout(sizes: list[int]) -> tuple[tuple[tuple[int, int], ...], int]:
    """Offsets and sizes in C's layout, and the end of the last parameter."""
    params = []
    end = 0
    for size in sizes:
        align = max(1, min(size & -size, 16))
        offset = -(-end // align) * align
        params.append((offset, size))
        end = offset + size
    return tuple(params), end


def _function(name: str, words: list[str], line: int, context: int) -> FunctionInfo:
    options = {"shared": "0", "max_threads": "1024", "workspace": "0", "behaviour": "done"}
    kinds, sizes = [], []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            kind, size = _param(word, line)
            kinds.append(kind)
            sizes.append(size)
        elif key in options:
            options[key] = value
        else:
            raise ProgramError(f"line {line}: option {key!r:.40}; allowed: {', '.join(options)}")
    if options["behaviour"] not in BEHAVIOURS:
        raise ProgramError(f"line {line}: behaviour {options['behaviour']!r:.40}; allowed: {', '.join(BEHAVIOURS)}")
    params, param_bytes = _layout(sizes)
    shared, max_threads = _number(options["shared"], line), _number(options["max_threads"], line)
    behaviour = BEHAVIOURS[options["behaviour"]]
    kernel = make_kernel(
        name,
        params,
        param_bytes,
        context,
        param_kinds=tuple(kinds),
        shared_bytes=shared,
        max_threads=max_threads,
        behaviour=behaviour,
        workspace_bytes=_number(options["workspace"], line, most=_MOST_BYTES),
    )
    return FunctionInfo(f"_null_{name}", name, params, param_bytes, shared, max_threads, kernel, tuple(kinds))


def make_kernel(
    name: str,
    params: tuple[tuple[int, int], ...],
    param_bytes: int,
    context: int,
    *,
    param_kinds: tuple[int, ...] = (),
    shared_bytes: int = 0,
    max_threads: int = 1024,
    behaviour: int = 0,
    workspace_bytes: int = 0,
) -> Any:
    """Makes a ``struct vgc_kernel *`` that owns the memory it points to."""
    text = ffi.new("char[]", name.encode())
    kinds = param_kinds or (ParamKind.UNKNOWN,) * len(params)
    entries = ffi.new(
        "struct vgc_param_entry[]",
        [{"offset": offset, "size": size, "kind": kind} for (offset, size), kind in zip(params, kinds, strict=True)],
    )
    private = ffi.new("struct vgc_null_kernel *", {"behaviour": behaviour, "workspace_bytes": workspace_bytes})
    kernel = ffi.new("struct vgc_kernel *")
    kernel.name = text
    kernel.param_bytes, kernel.shared_bytes, kernel.max_threads = param_bytes, shared_bytes, max_threads
    kernel.context = context
    kernel.num_params, kernel.params = len(params), entries
    kernel.engine_private = private
    keep_alive: Callable[[Any], tuple[Any, ...]] = lambda _: (text, entries, private)  # noqa: E731
    return ffi.gc(kernel, keep_alive)
