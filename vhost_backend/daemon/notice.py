"""Telling a guest that its configuration space has changed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from vhost_backend.log import Logger
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.fds import Fd
from vhost_backend.vhost_user.messages import BackendRequest

_DONT_WAIT: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


class GuestNotice:
    """Raises the guest's config interrupt [vhost-user: BACKEND_CONFIG_CHANGE_MSG], if it can be had.

    Only while a ring runs: QEMU 11.1 crashes on this message while the device is not started. What could not be said is
    said when a ring is enabled, which is the last thing that QEMU does to start a device.
    """

    def __init__(self, log: Logger, may_be_told: Callable[[], bool]) -> None:
        self._log = log
        self._may_be_told = may_be_told
        self._channel: socket.socket | None = None
        self._untold = False

    def set_channel(self, channel: Fd) -> None:
        """Takes over the socket on which the frontend is told."""
        self.drop_channel()
        self._channel = socket.socket(fileno=channel.detach())

    def drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def forget(self) -> None:
        """The frontend is gone."""
        self.drop_channel()
        self._untold = False

    def tell(self) -> None:
        """The configuration space has changed."""
        self._untold = not self._may_be_told()
        if self._channel is None or self._untold:
            return
        try:
            self._channel.send(messages.build(BackendRequest.CONFIG_CHANGE_MSG), _DONT_WAIT)
        except BlockingIOError:
            self._log.debug("config_change_pending", reason="the frontend reads none", guest=True)
        except OSError as error:
            self._log.info("backend_channel_lost", error=str(error))
            self.drop_channel()

    def tell_what_is_untold(self) -> None:
        """It may be told now."""
        if self._untold:
            self.tell()
