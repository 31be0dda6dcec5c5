"""Subset of OpenCL's host API that runs a kernel on PoCL: the ICD loader through cffi, without headers.

PoCL reads its number of threads, ``POCL_MAX_PTHREAD_COUNT``, once, when its platform is first queried.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import cffi
import numpy as np
import numpy.typing as npt

from bench.results import SkipRow

_HINT: Final = "install pocl-opencl-icd and ocl-icd-libopencl1"

_DECLARATIONS: Final = """
typedef struct id *handle;
int clGetPlatformIDs(unsigned count, handle *platforms, unsigned *found);
int clGetPlatformInfo(handle platform, unsigned name, size_t size, void *value, size_t *needed);
int clGetDeviceIDs(handle platform, uint64_t type, unsigned count, handle *devices, unsigned *found);
handle clCreateContext(void *properties, unsigned count, handle *devices, void *notify, void *user, int *error);
handle clCreateCommandQueue(handle context, handle device, uint64_t properties, int *error);
handle clCreateProgramWithSource(handle context, unsigned count, const char **texts, size_t *lengths, int *error);
int clBuildProgram(handle program, unsigned count, handle *devices, const char *options, void *notify, void *user);
int clGetProgramBuildInfo(handle program, handle device, unsigned name, size_t size, void *value, size_t *needed);
handle clCreateKernel(handle program, const char *name, int *error);
int clSetKernelArg(handle kernel, unsigned index, size_t size, const void *value);
handle clCreateBuffer(handle context, uint64_t flags, size_t size, void *host, int *error);
int clReleaseMemObject(handle buffer);
int clEnqueueReadBuffer(handle queue, handle buffer, unsigned blocking, size_t offset, size_t size, void *to,
                        unsigned num_events, void *events, handle *event);
int clEnqueueWriteBuffer(handle queue, handle buffer, unsigned blocking, size_t offset, size_t size, const void *from,
                         unsigned num_events, void *events, handle *event);
int clEnqueueNDRangeKernel(handle queue, handle kernel, unsigned dimensions, size_t *offset, size_t *global_size,
                           size_t *local_size, unsigned num_events, void *events, handle *event);
int clFinish(handle queue);
"""

_PLATFORM_NAME: Final = 0x0902
_DEVICE_TYPE_CPU: Final = 1 << 1
_MEM_READ_WRITE_COPY: Final = (1 << 0) | (1 << 5)
_BUILD_LOG: Final = 0x1183


class OpenClError(Exception):
    """An OpenCL call failed; the text names it, the error code and, for a build, the log."""


def _loader(ffi: cffi.FFI) -> Any:
    """Opens the ICD loader. :raise SkipRow: it is not installed."""
    try:
        return ffi.dlopen("libOpenCL.so.1")
    except OSError as error:
        raise SkipRow(f"no OpenCL loader ({error}); {_HINT}") from error


class Buffer:
    """Device memory, initially a copy of an array. Freed by :meth:`OpenCl.free`."""

    def __init__(self, handle: Any, size_bytes: int) -> None:
        self.handle = handle
        self.size_bytes = size_bytes


Argument = Buffer | np.generic


@dataclass(frozen=True, slots=True)
class Launch:
    """Kernel object with its arguments set, and its sizes as OpenCL takes them."""

    kernel: Any
    dimensions: int
    global_size: Any
    local_size: Any


class OpenCl:
    """PoCL's CPU device with one in-order queue.

    :raise SkipRow: there is no OpenCL loader, or no PoCL behind it.
    """

    def __init__(self, threads: int) -> None:
        os.environ["POCL_MAX_PTHREAD_COUNT"] = str(threads)
        self._ffi: Any = cffi.FFI()
        self._ffi.cdef(_DECLARATIONS)
        self._cl = _loader(self._ffi)
        device = self._ffi.new("handle *")
        self._check(
            "clGetDeviceIDs", self._cl.clGetDeviceIDs(self._platform(), _DEVICE_TYPE_CPU, 1, device, self._null)
        )
        self._device = device
        self._context = self._made("clCreateContext", self._null, 1, device, self._null, self._null)
        self._queue = self._made("clCreateCommandQueue", self._context, device[0], 0)

    @property
    def _null(self) -> Any:
        return self._ffi.NULL

    def _check(self, call: str, code: int, log: str = "") -> None:
        if code != 0:
            raise OpenClError(f"{call} failed with error {code}. {log}".rstrip())

    def _made(self, call: str, *arguments: Any) -> Any:
        """Calls a creating function, whose last parameter is the error; returns the handle."""
        error = self._ffi.new("int *")
        made = getattr(self._cl, call)(*arguments, error)
        self._check(call, error[0])
        return made

    def _platform(self) -> Any:
        found = self._ffi.new("unsigned *")
        platforms = self._ffi.new("handle[]", 16)
        if self._cl.clGetPlatformIDs(16, platforms, found) != 0:
            raise SkipRow(f"the OpenCL loader knows no platform; {_HINT}")
        for platform in platforms[0 : min(found[0], 16)]:
            name = self._ffi.new("char[]", 256)
            self._check(
                "clGetPlatformInfo", self._cl.clGetPlatformInfo(platform, _PLATFORM_NAME, 256, name, self._null)
            )
            if self._ffi.string(name) == b"Portable Computing Language":
                return platform
        raise SkipRow(f"PoCL is not among the OpenCL platforms; {_HINT}")

    def kernels(self, source: str, names: Sequence[str]) -> list[Any]:
        """Compiles `source`. :raise OpenClError: it does not compile; with the build log."""
        text = self._ffi.new("char[]", source.encode())
        texts = self._ffi.new("const char *[]", [text])
        program = self._made("clCreateProgramWithSource", self._context, 1, texts, self._null)
        code = self._cl.clBuildProgram(program, 1, self._device, b"", self._null, self._null)
        self._check("clBuildProgram", code, self._build_log(program) if code else "")
        return [self._made("clCreateKernel", program, name.encode()) for name in names]

    def _build_log(self, program: Any) -> str:
        log = self._ffi.new("char[]", 1 << 16)
        self._cl.clGetProgramBuildInfo(program, self._device[0], _BUILD_LOG, 1 << 16, log, self._null)
        text = self._ffi.string(log)
        return text.decode(errors="replace") if isinstance(text, bytes) else str(text)

    def buffer(self, array: npt.NDArray[Any]) -> Buffer:
        contents = self._ffi.from_buffer(np.ascontiguousarray(array))
        made = self._made("clCreateBuffer", self._context, _MEM_READ_WRITE_COPY, array.nbytes, contents)
        return Buffer(made, array.nbytes)

    def free(self, buffer: Buffer) -> None:
        self._check("clReleaseMemObject", self._cl.clReleaseMemObject(buffer.handle))

    def read(self, buffer: Buffer, into: npt.NDArray[Any]) -> None:
        target = self._ffi.from_buffer(into)
        code = self._cl.clEnqueueReadBuffer(
            self._queue, buffer.handle, 1, 0, into.nbytes, target, 0, self._null, self._null
        )
        self._check("clEnqueueReadBuffer", code)

    def write(self, buffer: Buffer, contents: npt.NDArray[Any]) -> None:
        source = self._ffi.from_buffer(contents)
        code = self._cl.clEnqueueWriteBuffer(
            self._queue, buffer.handle, 1, 0, contents.nbytes, source, 0, self._null, self._null
        )
        self._check("clEnqueueWriteBuffer", code)

    def prepare(
        self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *arguments: Argument
    ) -> Launch:
        """Sets a kernel's arguments; it must have no others while the launch is used."""
        for index, argument in enumerate(arguments):
            if isinstance(argument, Buffer):
                value: Any = self._ffi.new("handle *", argument.handle)
                size = self._ffi.sizeof("handle")
            else:
                value, size = self._ffi.from_buffer(argument.tobytes()), argument.nbytes
            self._check("clSetKernelArg", self._cl.clSetKernelArg(kernel, index, size, value))
        sizes = [self._ffi.new("size_t[]", list(counts)) for counts in (global_size, local_size)]
        return Launch(kernel, len(global_size), *sizes)

    def run_all(self, launches: Sequence[Launch]) -> None:
        """Enqueues launches in order and waits for them."""
        for launch in launches:
            code = self._cl.clEnqueueNDRangeKernel(
                self._queue,
                launch.kernel,
                launch.dimensions,
                self._null,
                launch.global_size,
                launch.local_size,
                0,
                self._null,
                self._null,
            )
            self._check("clEnqueueNDRangeKernel", code)
        self._check("clFinish", self._cl.clFinish(self._queue))

    def run(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *arguments: Argument) -> None:
        """Runs `kernel` over `global_size` work-items and waits for it."""
        self.run_all([self.prepare(kernel, global_size, local_size, *arguments)])
