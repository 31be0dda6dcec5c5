"""Notices to the service manager [sd_notify(3)]."""

from __future__ import annotations

import os
import socket


def notify(text: str) -> bool:
    """Tells systemd something, if it has started this program; false: it could not be told."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.sendto(text.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
        except OSError:
            return False
    return True
