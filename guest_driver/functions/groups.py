"""Groups of built-in functions, as attributes of a device. They are imported when they are first used: they take numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guest_driver.functions.blas import Blas
    from guest_driver.functions.convolution import Convolutions
    from guest_driver.functions.counting import Counting
    from guest_driver.functions.elementwise import Elementwise
    from guest_driver.functions.fft import Fourier
    from guest_driver.functions.host import Host
    from guest_driver.functions.random_numbers import RandomNumbers
    from guest_driver.functions.reductions import Reductions, Scans
    from guest_driver.functions.selection import Selection
    from guest_driver.functions.sorting import Sorting
    from guest_driver.functions.sparse import Sparse


class BuiltinFunctions(ABC):
    """Built-in functions of the host, by group."""

    @property
    @abstractmethod
    def _host(self) -> Host:
        """Place where the functions run."""

    @property
    def math(self) -> Elementwise:
        """Functions of single elements."""
        from guest_driver.functions.elementwise import Elementwise

        return Elementwise(self._host)

    @property
    def blas(self) -> Blas:
        """Dense linear algebra."""
        from guest_driver.functions.blas import Blas

        return Blas(self._host)

    @property
    def reduce(self) -> Reductions:
        """Reductions along axes."""
        from guest_driver.functions.reductions import Reductions

        return Reductions(self._host)

    @property
    def scan(self) -> Scans:
        """Running reductions."""
        from guest_driver.functions.reductions import Scans

        return Scans(self._host)

    @property
    def select(self) -> Selection:
        """Choosing elements."""
        from guest_driver.functions.selection import Selection

        return Selection(self._host)

    @property
    def sort(self) -> Sorting:
        """Sorting."""
        from guest_driver.functions.sorting import Sorting

        return Sorting(self._host)

    @property
    def count(self) -> Counting:
        """Histograms."""
        from guest_driver.functions.counting import Counting

        return Counting(self._host)

    @property
    def fft(self) -> Fourier:
        """Fourier transforms."""
        from guest_driver.functions.fft import Fourier

        return Fourier(self._host)

    @property
    def conv(self) -> Convolutions:
        """Convolutions."""
        from guest_driver.functions.convolution import Convolutions

        return Convolutions(self._host)

    @property
    def random(self) -> RandomNumbers:
        """Random numbers."""
        from guest_driver.functions.random_numbers import RandomNumbers

        return RandomNumbers(self._host)

    @property
    def sparse(self) -> Sparse:
        """Sparse linear algebra."""
        from guest_driver.functions.sparse import Sparse

        return Sparse(self._host)
