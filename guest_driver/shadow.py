"""Shadow mode: runs one program on two devices, say a GPU and the software GPU, and compares the results.

with vgc.ShadowDevice(vgc.Device(0), vgc.Device(1)) as device:
    program = device.compile(SOURCE)
    x = device.to_device(np.arange(1000, dtype=np.float32))
    program.twice[4, 256](x)
    print(x.get())  # raises errors.ShadowMismatch if the devices disagree
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from guest_driver import errors
from guest_driver.comparison import ATOL, RTOL, Sides
from guest_driver.device import Device, DeviceInfo
from guest_driver.job import Timing
from guest_driver.memory import DeviceArray, DeviceMemory

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from guest_driver.arguments import Param
    from guest_driver.program import Extent, Function, Program, Unit


@dataclass(eq=False)
class ShadowArray:
    """Array on both devices. Error messages use its `name`."""

    sides: Sides
    name: str
    primary: DeviceArray
    shadow: DeviceArray
    launched: list[str] = field(default_factory=list)
    """Names of the kernels that got the array since both sides were last known to be equal."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.primary.shape

    @property
    def dtype(self) -> Any:
        return self.primary.dtype

    def get(self) -> NDArray[Any]:
        """Copies out the primary's contents.

        :raise errors.ShadowMismatch: the shadow's contents differ.
        """
        ours, theirs = self.sides.both(f"reading {self.name}", self.primary.get, self.shadow.get)
        kernels = ", ".join(dict.fromkeys(self.launched)) or "no kernel"
        self.sides.compare(f"{self.name}, after {kernels}", ours, theirs)
        self.launched.clear()
        return ours

    def set(self, array: NDArray[Any]) -> None:
        """Copies a numpy array of the same shape and type in, on both sides."""
        self.sides.both(f"writing {self.name}", lambda: self.primary.set(array), lambda: self.shadow.set(array))
        self.launched.clear()

    def fill(self, value: Any) -> None:
        """Sets every element, on both sides."""
        self.sides.both(f"filling {self.name}", lambda: self.primary.fill(value), lambda: self.shadow.fill(value))
        self.launched.clear()

    def free(self) -> None:
        """Frees the memory on both sides; a second call does nothing."""
        self.primary.free()
        self.shadow.free()


@dataclass(frozen=True, slots=True)
class ShadowFunction:
    """Kernel on both devices: ``function[grid, block](arguments...)`` runs both and waits; so does `launch`."""

    sides: Sides
    primary: Function
    shadow: Function

    @property
    def name(self) -> str:
        return self.primary.name

    @property
    def params(self) -> list[Param]:
        return self.primary.params

    def __getitem__(self, geometry: tuple[Any, ...]) -> Callable[..., Timing]:
        """Binds a geometry: ``[grid, block]`` or ``[grid, block, shared_bytes]``."""
        if not isinstance(geometry, tuple) or not 2 <= len(geometry) <= 3:
            raise TypeError(f"{self.name}[grid, block, shared_bytes=0]: two or three values; streams have no shadow")
        grid, block, shared_bytes = (*geometry, 0)[:3]
        return lambda *values: self.launch(grid, block, *values, shared_bytes=shared_bytes)

    def launch(
        self, grid: Extent, block: Extent, *values: Any, shared_bytes: int = 0, cooperative: bool = False
    ) -> Timing:
        """Runs the kernel on one device after the other; returns the primary's timing.

        :raise TypeError: an argument is memory of one device only, or does not fit its parameter.
        """
        arrays = [value for value in values if isinstance(value, ShadowArray)]
        if any(isinstance(value, DeviceMemory) for value in values):
            raise TypeError(f"{self.name}: memory of one device only; allowed: arrays of the ShadowDevice, and values")
        ours = [value.primary if isinstance(value, ShadowArray) else value for value in values]
        theirs = [value.shadow if isinstance(value, ShadowArray) else value for value in values]
        for array in arrays:
            array.launched.append(self.name)
        return self.sides.both(
            f"launch of {self.name}",
            lambda: self.primary.launch(grid, block, *ours, shared_bytes=shared_bytes, cooperative=cooperative),
            lambda: self.shadow.launch(grid, block, *theirs, shared_bytes=shared_bytes, cooperative=cooperative),
        )[0]


@dataclass(frozen=True, slots=True)
class ShadowProgram:
    """Program on both devices. Its kernels: ``program["name"]`` or ``program.name``."""

    sides: Sides
    primary: Program
    shadow: Program

    @property
    def log(self) -> str:
        """Warnings of the primary's compiler."""
        return self.primary.log

    def __iter__(self) -> Iterator[str]:
        return iter(self.primary)

    def __getitem__(self, name: str) -> ShadowFunction:
        """Finds a kernel by name.

        :raise errors.NotFound: the program has no such kernel.
        """
        pair = self.sides.both(f"kernel {name}", lambda: self.primary[name], lambda: self.shadow[name])
        return ShadowFunction(self.sides, *pair)

    def __getattr__(self, name: str) -> ShadowFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except errors.NotFound as error:
            raise AttributeError(str(error)) from None

    def unload(self) -> None:
        """Unloads the program on both sides."""
        self.primary.unload()
        self.shadow.unload()


class ShadowDevice:
    """Pair of devices that perform the same operations; it owns both. Reads return the contents of `primary`.

    :param rtol: floats may be ``atol + rtol * abs(primary's)`` apart; other types must be equal.
    """

    def __init__(self, primary: Device, shadow: Device, *, rtol: float = RTOL, atol: float = ATOL) -> None:
        self.primary, self.shadow = primary, shadow
        ours, theirs = primary.info(), shadow.info()
        self.sides = Sides((_side_name(ours), _side_name(theirs)), rtol, atol)
        self._arrays: list[weakref.ref[ShadowArray]] = []
        self._num_arrays = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes both devices without comparing arrays (see `check`)."""
        try:
            self.primary.close()
        finally:
            self.shadow.close()

    def info(self) -> DeviceInfo:
        """Reads the primary's properties."""
        return self.primary.info()

    def compile(self, source: str | bytes, options: Sequence[str] = (), kind: str = "cuda") -> ShadowProgram:
        """Compiles a program on both devices, as `Device.compile`."""
        pair = self.sides.both(
            "compilation",
            lambda: self.primary.compile(source, options, kind),
            lambda: self.shadow.compile(source, options, kind),
        )
        return ShadowProgram(self.sides, *pair)

    def link(self, units: Sequence[Unit], options: Sequence[str] = ()) -> ShadowProgram:
        """Links a program on both devices, as `Device.link`."""
        pair = self.sides.both(
            "compilation",
            lambda: self.primary.link(units, options),
            lambda: self.shadow.link(units, options),
        )
        return ShadowProgram(self.sides, *pair)

    def zeros(self, shape: int | Sequence[int], dtype: DTypeLike = "float32", name: str = "") -> ShadowArray:
        """Allocates an array of zeros on both devices."""
        self._num_arrays += 1
        name = name or f"array {self._num_arrays}"
        pair = self.sides.both(
            f"allocation of {name}", lambda: self.primary.zeros(shape, dtype), lambda: self.shadow.zeros(shape, dtype)
        )
        array = ShadowArray(self.sides, name, *pair)
        self._arrays = [*(known for known in self._arrays if known() is not None), weakref.ref(array)]
        return array

    empty = zeros
    """Allocates an array of zeros: contents are defined, unlike a `Device`'s, as unwritten elements are compared."""

    def to_device(self, array: NDArray[Any], name: str = "") -> ShadowArray:
        """Copies a numpy array to a new array on both devices."""
        copy = self.zeros(array.shape, array.dtype, name)
        copy.set(array)
        return copy

    def synchronize(self) -> None:
        """Waits for all work of this process on both."""
        self.sides.both("synchronization", self.primary.synchronize, self.shadow.synchronize)

    def check(self) -> None:
        """Compares all existing arrays.

        :raise errors.ShadowMismatch: arrays differ; the text has a line for each of them.
        """
        found = []
        for reference in self._arrays:
            array = reference()
            if array is not None and array.primary.address != 0:
                try:
                    array.get()
                except errors.ShadowMismatch as mismatch:
                    found.append(str(mismatch))
        if found:
            raise errors.ShadowMismatch("\n".join(found))


def _side_name(info: DeviceInfo) -> str:
    return f"{info.engine_name} ({info.engine}, {info.address})"
