"""Choice of the control centre or daemon that a command asks, and the link to it.

The links' modules are imported when they are used: each needs a Python package that may be missing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import Final

from control_center import address
from control_center.cli.link import Link, Target
from control_center.cli.problems import MissingPackageError, NobodyThereError, UsageError, answers_of

DEFAULT_CENTRE: Final = "http://127.0.0.1:7070"


def choose(given: Target, environment: Mapping[str, str] = os.environ) -> Target:
    """Chooses a centre or a daemon: from the command line, the environment, or this host's default addresses.

    :raise UsageError: both a centre and a daemon are named.
    """
    token = given.token or environment.get("VGC_TOKEN")
    centre, daemon = given.centre, given.daemon
    if centre is None and daemon is None:
        centre, daemon = environment.get("VGC_CENTRE"), environment.get("VGC_DAEMON")
    if centre and daemon:
        raise UsageError("both a control centre and a daemon are named; allowed: one of --centre and --daemon")
    if not centre and not daemon:
        found = address.local_socket()
        centre, daemon = (DEFAULT_CENTRE, None) if found is None else (None, f"unix:{found}")
        return Target(centre, daemon, token, given.ca, given.certificate, given.key, is_guess=found is None)
    return Target(centre, daemon, token, given.ca, given.certificate, given.key)


@contextlib.asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Link]:
    """Opens a link to the chosen centre or daemon; closes it at the end of the block.

    :raise UsageError: the address is malformed.
    :raise RefusalError: the credentials are refused.
    :raise NobodyThereError: no centre or daemon answers.
    :raise MissingPackageError: the link needs a Python package that is not installed.
    """
    try:
        async with _link_to(target) as link:
            with answers_of(link.address):
                yield link
    except NobodyThereError as error:
        if not target.is_guess:
            raise
        missing = " or ".join(map(str, address.SOCKETS))
        raise NobodyThereError(f"{error}; nor is there {missing}; allowed: --daemon unix:/path, --centre URL") from None


def _link_to(target: Target) -> contextlib.AbstractAsyncContextManager[Link]:
    try:
        if target.daemon:
            from control_center.cli.daemon_side import daemon_link

            return daemon_link(target)
        from control_center.cli.rest_link import centre_link

        return centre_link(target)
    except ModuleNotFoundError as error:
        raise MissingPackageError(str(error.name)) from None
