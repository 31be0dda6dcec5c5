"""Clocks of a GPU before and after a measurement, read from NVIDIA's management library, for the row's record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.results import ClockRecord
from vhost_backend.engines.cuda.nvml import DEFAULT_LIBRARY, GpuClocks, Nvml
from vhost_backend.errors import EngineError


class ClockLog:
    """Readings of the clocks during the current row.

    :param nvml: the management library (default: the system's).
    """

    def __init__(self, stack: ExitStack, nvml: Path | None = None) -> None:
        self._stack = stack
        self._library = str(nvml or DEFAULT_LIBRARY)
        self._nvml: Nvml | EngineError | None = None
        self._readings: list[GpuClocks | str] = []
        self._not_raised = ""

    def begin_row(self) -> None:
        """Forgets the readings of the previous row."""
        self._readings, self._not_raised = [], ""

    def note(self, reason: str) -> None:
        """Records why the clocks could not be raised before this row."""
        self._not_raised = reason

    @contextmanager
    def around(self, uuid: str) -> Iterator[None]:
        """Reads the clocks of a GPU at the begin and the end of the block."""
        self._readings.append(self._read(uuid))
        yield
        self._readings.append(self._read(uuid))

    def record(self) -> ClockRecord | None:
        """Returns the clocks at the first and the latest reading of this row; None without readings."""
        if not self._readings:
            return None
        first, last = self._readings[0], self._readings[-1]
        if isinstance(first, str) or isinstance(last, str):
            unknown = first if isinstance(first, str) else str(last)
            return ClockRecord(unknown=unknown, not_raised=self._not_raised)
        return ClockRecord(first, last, not_raised=self._not_raised)

    def _read(self, uuid: str) -> GpuClocks | str:
        """Reads the clocks; returns the reason if that fails."""
        try:
            return self._library_in_use().clocks(uuid)
        except EngineError as error:
            return str(error)

    def _library_in_use(self) -> Nvml:
        """Initialises the library once. :raise EngineError: it is not installed, or does not work on this machine."""
        if self._nvml is None:
            try:
                self._nvml = self._stack.enter_context(Nvml(self._library))
            except EngineError as error:
                self._nvml = error
        if isinstance(self._nvml, EngineError):
            raise self._nvml
        return self._nvml
