"""Compiles CUDA source and runs it on a CPU engine, without daemon, sandbox or data plane."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.fakes.units import Unit, pack
from tests.limits import HANGS_AFTER_S
from vhost_backend._dataplane import ffi, lib
from vhost_backend.engines.base import FunctionInfo, LoadedProgram
from vhost_backend.engines.cpu import CpuEngine
from virtio_proto.schema import Status

Shape = int | tuple[int, ...]


class CompileError(Exception):
    """The compiler's log."""


class LaunchError(Exception):
    """A launch did not end with OK."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        super().__init__(text)


def compile_image(
    source: str, options: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> tuple[bytes, str]:
    """The image and the compiler's log.

    :raise CompileError: it does not compile.
    """
    return _compiled("CUDA_SOURCE", source.encode(), options, settings or {})


def compile_ptx(text: str, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """The image of a PTX module, and the compiler's log.

    :raise CompileError: it does not compile.
    """
    return _compiled("PTX", text.encode(), options, {})


def link_image(*units: Unit, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """The image of several sources, and the compiler's log.

    :raise CompileError: they do not compile, or do not fit together.
    """
    return _compiled("CUDA_UNITS", pack(units), options, {})


def link_bytes(program: bytes, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """Like `link_image`, for a program that may be forged."""
    return _compiled("CUDA_UNITS", program, options, {})


def compile_bytes(kind: str, program: bytes, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """The image of a program of any kind, and the compiler's log.

    :raise CompileError: it does not compile.
    """
    return _compiled(kind, program, options, {})


def _compiled(kind: str, source: bytes, options: Sequence[str], settings: Mapping[str, str]) -> tuple[bytes, str]:
    job = CpuEngine.compile_job(kind, source, tuple(options), settings)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / job.input_name).write_bytes(source)
        done = subprocess.run(job.argv, cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
        log = done.stdout + done.stderr
        if done.returncode != 0:
            raise CompileError(log)
        return (Path(folder) / job.output_name).read_bytes(), log


@dataclass
class Rig:
    """An engine with loaded programs and memory, all freed at the end only."""

    engine: CpuEngine
    programs: list[LoadedProgram] = field(default_factory=list)
    functions: dict[str, FunctionInfo] = field(default_factory=dict)
    allocations: list[tuple[int, int]] = field(default_factory=list)

    def load(self, source: str, options: Sequence[str] = ()) -> LoadedProgram:
        image, _ = compile_image(source, options)
        return self.load_image(image)

    def load_ptx(self, text: str, options: Sequence[str] = ()) -> LoadedProgram:
        image, _ = compile_ptx(text, options)
        return self.load_image(image)

    def link(self, *units: Unit, options: Sequence[str] = ()) -> LoadedProgram:
        image, _ = link_image(*units, options=options)
        return self.load_image(image)

    def load_image(self, image: bytes) -> LoadedProgram:
        fd = os.memfd_create("image")
        try:
            os.write(fd, image)
            program = self.engine.load_program(fd, len(image), 1)
        finally:
            os.close(fd)
        self.programs.append(program)
        for function in program.functions:
            self.functions[function.name] = self.functions[function.short_name] = function
        return program

    def alloc(self, size: int) -> int:
        address = ffi.new("uint64_t *")
        assert self.engine.handle.ops.alloc(self.engine.handle, size, address) == 0
        self.allocations.append((address[0], size))
        return int(address[0])

    def array(self, shape: Shape, dtype: Any, values: Any = 0) -> np.ndarray[Any, Any]:
        """Allocates device memory, as an array that kernels and tests share."""
        count = int(np.prod(shape))
        size = count * np.dtype(dtype).itemsize
        view = np.frombuffer(ffi.buffer(ffi.cast("char *", self.alloc(size)), size), dtype).reshape(shape)
        view[...] = values
        return view

    def submit(self, op: Any) -> int:
        return int(lib.vgc_cpu_run(self.engine.handle, op))

    def launch(self, name: str, grid: Shape, block: Shape, *args: Any, shared: int = 0) -> None:
        """Runs a kernel to its end. Arguments: arrays of `array`, numpy scalars, bytes.

        :raise LaunchError: the launch failed.
        """
        function = self.functions[name]
        op, _keep = make_launch(function, grid, block, args, shared)
        workspace_bytes = self.engine.handle.ops.launch_bytes(self.engine.handle, op)
        if workspace_bytes > 0:
            op.workspace = self.alloc(workspace_bytes)
        status = self.submit(op)
        if status != Status.OK:
            raise LaunchError(Status(status), ffi.string(op.error).decode())

    def take_output(self, room: int = 1 << 17, context: int = 1) -> tuple[str, int, int]:
        """Takes printed text: the text, bytes of text that remain, and bytes that were lost."""
        text, left, lost = ffi.new("char[]", room), ffi.new("uint32_t *"), ffi.new("uint64_t *")
        size = self.engine.handle.ops.take_output(self.engine.handle, context, text, room, left, lost)
        return ffi.buffer(text, size)[:].decode(), int(left[0]), int(lost[0])

    def variable(self, name: str) -> np.ndarray[Any, Any]:
        """A `__device__` or `__constant__` variable, as bytes."""
        for program in self.programs:
            for variable in program.globals:
                if variable.name == name:
                    return np.frombuffer(ffi.buffer(ffi.cast("char *", variable.address), variable.size), np.uint8)
        raise KeyError(name)


def _dims(shape: Shape) -> list[int]:
    dims = [shape] if isinstance(shape, int) else list(shape)
    return dims + [1] * (3 - len(dims))


def _bytes_of(arg: Any) -> bytes:
    if isinstance(arg, bytes):
        return arg
    if isinstance(arg, np.ndarray):
        return int(arg.ctypes.data).to_bytes(8, "little")
    return bytes(arg.tobytes())


def make_launch(
    function: FunctionInfo, grid: Shape, block: Shape, args: Sequence[Any], shared: int = 0
) -> tuple[Any, Any]:
    """Makes a ``struct vgc_op *``; returns it with the objects that must outlive it."""
    assert len(args) == len(function.params), f"{function.name} takes {len(function.params)} arguments"
    params = ffi.new("uint64_t[]", function.param_bytes // 8 + 2)
    view = ffi.buffer(params)
    for (offset, size), arg in zip(function.params, args, strict=True):
        raw = _bytes_of(arg)
        assert len(raw) == size, f"argument at {offset} has {len(raw)} bytes, the kernel takes {size}"
        view[offset : offset + size] = raw
    op = ffi.new("struct vgc_op *")
    op.kind, op.context = lib.VGC_OPK_LAUNCH, 1
    op.kernel, op.grid, op.block = function.kernel, _dims(grid), _dims(block)
    op.shared_bytes, op.param_len = shared, function.param_bytes
    op.params = ffi.cast("uint8_t *", params)
    return op, params


@contextmanager
def rig(pes: int = 2, *, guard_pages: bool = True) -> Iterator[Rig]:
    """A started engine; everything is freed at the end. By default, code that reaches beyond an allocation faults."""
    engine = CpuEngine.open({"guard_pages": guard_pages}, pes, 1 << 30, 10**9)
    engine.start()
    made = Rig(engine)
    try:
        yield made
    finally:
        for program in made.programs:
            engine.unload_program(program)
        for address, size in made.allocations:
            engine.handle.ops.free(engine.handle, address, size)
        engine.close()
