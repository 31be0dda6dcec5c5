"""Module that Python imports as it starts: child processes inherit the link to the host, as processes of a VM have it.

Runs in a framework's Python. Outside a VM the link is a few descriptors, which `subprocess` and `multiprocessing` would close.
"""

import _posixsubprocess
import os
import re
from typing import Any

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
