"""Output of kernels, written to a file of the guest."""

from __future__ import annotations

import codecs
import contextlib
import sys
import threading
from typing import Any, Final, TextIO

from guest_driver import errors
from guest_driver._lib import check, ffi, lib

ROOM_BYTES: Final = 4096


class Output:
    """Writer to `file`, or to the current ``sys.stdout``. Adds a line that counts bytes which the host did not keep."""

    def __init__(self, file: TextIO | None) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()

    def show(self, device: Any, *, asked: bool = False) -> None:
        """Fetches and writes all output; `asked`: also what no launch has told of. A lost device's output is lost; the next use of the device reports that."""
        file = self._file or sys.stdout
        with self._lock:
            lost = 0
            with contextlib.suppress(errors.DeviceLost):
                while asked or lib.vgc_output_waits(device):
                    asked = False
                    printed, lost_now = _read(device)
                    file.write(self._decoder.decode(printed))
                    lost += lost_now
            if lost:
                file.write(f"[{lost} bytes of kernels' output were lost]\n")
            file.flush()


def _read(device: Any) -> tuple[bytes, int]:
    text, length, lost = ffi.new("char[]", ROOM_BYTES), ffi.new("uint64_t *"), ffi.new("uint64_t *")
    check(lib.vgc_output_read(device, text, ROOM_BYTES, length, lost))
    return bytes(ffi.buffer(text, length[0])), int(lost[0])
