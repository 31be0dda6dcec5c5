"""The guest's thin cuDNN, without a host: descriptors that programs make wrong."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S

LIB64: Final = REPOSITORY / "guest_driver/cuda/build/toolkit/lib64"
SOURCE: Final = REPOSITORY / "tests/cuda_libraries/cudnn_misuse.c"


def test_wrong_descriptors_are_refused(tmp_path: Path) -> None:
    program = tmp_path / "misuse"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-rdynamic", f"-L{LIB64}", f"-Wl,-rpath,{LIB64}"]
    subprocess.run(["cc", SOURCE, *flags, "-l:libcudnn.so.9", "-o", program], check=True, timeout=HANGS_AFTER_S)
    done = subprocess.run([program], check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr
