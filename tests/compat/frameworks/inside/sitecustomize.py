"""Module that Python imports as it starts, in a framework's Python: packages for tests behind its own, and the link to the host.

Packages are those of the folders in ``$VGC_BESIDE``. Child processes inherit the link, as processes of a VM have it: outside a
VM the link is a few descriptors, which `subprocess` and `multiprocessing` would close.
"""

import _posixsubprocess
import os
import re
import sys
from typing import Any

sys.path += filter(None, os.environ.get("VGC_BESIDE", "").split(":"))

_LINK = {
    int(number)
    for group in re.findall(r"(?:region|config|kick|call)=([\d:]+)", os.environ.get("VGC_MEMFD", ""))
    for number in group.split(":")
}
_fork_exec: Any = _posixsubprocess.fork_exec


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _with_link(args: Any, executables: Any, close_fds: Any, pass_fds: Any, *rest: Any) -> Any:
    kept = sorted({*pass_fds, *filter(_is_open, _LINK)})
    return _fork_exec(args, executables, close_fds, tuple(kept), *rest)


if _LINK:
    _posixsubprocess.fork_exec = _with_link
