"""Host's C++ compiler, with which nvcc preprocesses: the files that it needs, for the sandbox.

Compiler and headers keep their own paths, which are compiled into it: with a compiler of the system's, those of every
Linux (``/usr/include``).
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path
from typing import Final

from vhost_backend.errors import HostError
from vhost_backend.sandbox.terms import Bind

_SHELL: Final = Path("/bin/sh")
"""nvcc starts its tools by a shell."""
_HEADERS: Final = re.compile(r"<\.\.\.> search starts here:\n(.*?)End of search list", re.DOTALL)
_OF_THE_SITE: Final = Path("/usr/local")
"""Folder whose headers do not belong to the compiler."""


@functools.cache
def visible(compiler: Path | None) -> tuple[Bind, ...]:
    """Files of `compiler`, and a shell; nothing without a compiler. Takes some 20 ms the first time.

    :raise HostError: the compiler does not start.
    """
    if compiler is None:
        return ()
    front_end = Path(_asked(compiler, "-print-prog-name=cc1plus").strip())
    found = _HEADERS.findall(_asked(compiler, "-E", "-v", "-x", "c++", "/dev/null"))
    headers = [Path(line.strip()).resolve() for folders in found for line in folders.splitlines()]
    kept = [path for path in headers if path.is_dir() and not path.is_relative_to(_OF_THE_SITE)]
    outermost = [path for path in dict.fromkeys(kept) if not any(other in path.parents for other in kept)]
    programs = (path for path in (_SHELL, compiler, front_end) if path.is_absolute())
    return tuple(Bind(path, path) for path in (*programs, *outermost))


def _asked(compiler: Path, *options: str) -> str:
    """Text that the compiler prints.

    :raise HostError: the compiler fails.
    """
    argv = [str(compiler), *options]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostError(f"{compiler} cannot be used: {error}") from error
    return done.stdout + done.stderr
