"""Precompiles the headers of this host's CUB and Thrust: programs that include them then compile about 1.5 s sooner.

``make build`` runs it in the source tree. On a host with an installed package, or after CCCL has changed:
``python -m vhost_backend.engines.cpu.precompile``. The files take 150 MB beside the compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from vhost_backend.engines.cpu import cccl, preludes, toolchain
from vhost_backend.errors import HostError

DONE: Final = "done"
"""File that is there when nothing is left to do; its text is the release of the libraries, empty if the host has none."""


def precompile(folder: Path) -> str:
    """Makes `folder` anew, with the preludes of the libraries that this host has. Returns their release, empty: none.

    :raise HostError: the compiler does not read them, or cannot write.
    """
    libraries = cccl.cccl()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as made:
        if libraries is not None:
            argv = toolchain.precompile_argv(libraries, Path(made))
            done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
            if done.returncode != 0:
                text = done.stderr.strip() or f"exit status {done.returncode}"
                raise HostError(f"the headers of {libraries.folder} cannot be precompiled: {text}")
        release = (libraries.version or "found") if libraries else ""
        Path(made, DONE).write_text(release)
        Path(made).chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
    return release


def main() -> int:
    """Returns 0, also if there is nothing to precompile, or 1 after an error."""
    folder = toolchain.COMPILER.parent / preludes.CCCL_FOLDER
    try:
        release = precompile(folder)
    except (HostError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"CCCL {release}: {folder}" if release else f"no CUB and Thrust on this host ({cccl.HINT}): nothing to do")
    return 0


if __name__ == "__main__":
    sys.exit(main())
