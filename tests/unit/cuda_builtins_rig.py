"""Calls of built-in functions as the CUDA engine plans them, launched on the software GPU.

Tests of the CPU engine's built-in functions run on this side, too: a test file that uses the fixture `cuda_builtins`
names them again.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import cffi
import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit import builtins_rig, cpu_rig
from vhost_backend._dataplane import ffi as dataplane_ffi
from vhost_backend.engines.base import FunctionInfo
from vhost_backend.engines.cpu.toolchain import COMPILER
from vhost_backend.engines.cuda.builtins import sources
from virtio_proto import codegen
from virtio_proto.schema import Status

FOLDER: Final = sources.HERE
TABLE: Final = builtins_rig.ROOT / "vhost_backend/builtins"
CACHE: Final = builtins_rig.ROOT / "build/cuda-builtins"
MOST_LAUNCHES: Final = 64
MOST_PARAMS: Final = 256
GUARD: Final = 1 << 16
"""Bytes of a canary before and behind the workspace."""

_ffi: Final = cffi.FFI()
_ffi.cdef(codegen.declarations(FOLDER / "cuda_builtins.h"))
_ffi.cdef(codegen.declarations(FOLDER / "calls.h"))


def _kept(name: str, inputs: Iterable[bytes], make: Callable[[Path], None]) -> Path:
    """A file that `make` makes from inputs, kept until these change."""
    digest = hashlib.sha256()
    for content in inputs:
        digest.update(content)
    kept = CACHE / f"{digest.hexdigest()[:16]}-{name}"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = kept.with_suffix(f".{os.getpid()}")
        make(made)
        made.rename(kept)
    return kept


@cache
def planner() -> Any:
    """The planner's functions."""
    code = [*sorted(FOLDER.glob("*.c")), *sorted(TABLE.glob("*.c"))]
    headers = [*FOLDER.glob("*.h"), *TABLE.glob("*.h")]
    flags = ["-std=c11", "-O1", "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wshadow"]

    def make(path: Path) -> None:
        argv: list[str | Path] = ["gcc", *flags, f"-I{builtins_rig.ROOT}", "-o", path, *code]
        subprocess.run(argv, check=True, timeout=HANGS_AFTER_S)

    inputs = (path.read_bytes() for path in (*code, *sorted(headers)))
    return _ffi.dlopen(str(_kept("planner.so", inputs, make)))


def image(module: str, *options: str) -> bytes:
    """A module's image for the software GPU."""
    source = sources.source(module)

    def make(path: Path) -> None:
        path.write_bytes(cpu_rig.compile_image(source, options)[0])

    inputs = (source.encode(), " ".join(options).encode(), COMPILER.read_bytes())
    return _kept(f"{module}.image", inputs, make).read_bytes()


class Side:
    """Software GPU with the modules that calls have needed so far; `make` makes a module's image."""

    def __init__(self, engine: cpu_rig.Rig, make: Callable[[str], bytes] = image) -> None:
        self._engine = engine
        self._make = make
        self._modules: dict[str, dict[str, FunctionInfo]] = {}

    def kernels(self, module: str) -> dict[str, FunctionInfo]:
        """Kernels of a module, by name."""
        if module not in self._modules:
            program = self._engine.load_image(self._make(module))
            self._modules[module] = {function.name: function for function in program.functions}
        return self._modules[module]

    def launch(self, launch: Any) -> None:
        """Runs a planned launch."""
        params = bytes(_ffi.buffer(launch.params, launch.param_bytes))
        self.launch_kernel(text(launch.kernel), launch.blocks, launch.threads, launch.shared_bytes, params)

    def launch_kernel(self, kernel: str, blocks: int, threads: int, shared_bytes: int, params: bytes) -> None:
        """Runs a kernel, whose name begins with its module's, to its end."""
        module = kernel.partition("_")[0]
        function = self.kernels(module)[kernel]
        op, _keep = cpu_rig.make_launch(function, blocks, threads, [params], shared_bytes)
        size = self._engine.engine.handle.ops.launch_bytes(self._engine.engine.handle, op)
        workspace = builtins_rig.Buffer(bytes(size))
        op.workspace = workspace.address
        status = self._engine.submit(op)
        assert status == Status.OK, f"{kernel}: {Status(status).name}: {dataplane_ffi.string(op.error)!r}"

    def run(
        self, builtin: Any, block: Any, pes: int = 3, seed: int = 0, *, after_step: Callable[[int], None] | None = None
    ) -> None:
        """Plans a checked call for `pes` SMs, launches it, and reads its status; like `builtins_rig.run`."""
        size, _ = plan(builtin, block, pes, 0)
        content = random.Random(seed).randbytes(min(size, 4096)) + bytes(max(size - 4096, 0))
        workspace = builtins_rig.Buffer(content, guard=GUARD)
        for i, launch in enumerate(plan(builtin, block, pes, workspace.address)[1]):
            self.launch(launch)
            if after_step is not None:
                after_step(i)
        workspace.check(written=True)
        if size > 0 and planner().cuda_builtin_may_fail(_of_the_planner(builtin)):
            failed = planner().cuda_builtin_failed(int.from_bytes(workspace.content()[:4], "little"))
            if failed != _ffi.NULL:
                raise builtins_rig.FailedError(text(failed))


def _of_the_planner(builtin: Any) -> Any:
    return _ffi.cast("struct vgc_builtin *", int(builtins_rig.ffi.cast("uintptr_t", builtin)))


def plan(builtin: Any, block: Any, num_sms: int, workspace: int) -> tuple[int, list[Any]]:
    """Bytes of a call's workspace, and its launches for one at that address."""
    params = _ffi.cast("void *", int(builtins_rig.ffi.cast("uintptr_t", block)))
    known, launches = _of_the_planner(builtin), _ffi.new("struct cuda_builtin_launch[]", MOST_LAUNCHES)
    count = planner().cuda_builtin_plan(known, params, num_sms, workspace, launches)
    copies = [_ffi.new("struct cuda_builtin_launch *", launches[i]) for i in range(count)]
    return planner().cuda_builtin_workspace(known, params, num_sms), copies


def sort_call(launch: Any) -> Any:
    """Parameters of a launch of a sorting kernel, which may be changed."""
    return _ffi.cast("struct sort_call *", launch.params)


def text(value: Any) -> str:
    found = _ffi.string(value)
    assert isinstance(found, bytes)
    return found.decode()


@pytest.fixture(scope="module")
def cuda_builtins() -> Iterator[Side]:
    """Calls of `builtins_rig` run on the software GPU, as the CUDA engine plans them."""
    with cpu_rig.rig(2) as engine, pytest.MonkeyPatch.context() as patch:
        side = Side(engine)
        patch.setattr(builtins_rig, "run", side.run)
        yield side


def with_values(test: Callable[..., None], **values: Sequence[Any]) -> Callable[..., None]:
    """A test with other values for some of its parameters, those that are parametrized one by one."""
    copy = FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)
    copy.__kwdefaults__ = test.__kwdefaults__
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.args[0] not in values]
    copy.pytestmark = marks + [pytest.mark.parametrize(*item).mark for item in values.items()]  # type: ignore[attr-defined]
    return copy
