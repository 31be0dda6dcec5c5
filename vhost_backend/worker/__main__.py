"""Entry point of the process that the daemon starts for each VM: ``python -m vhost_backend.worker --fd N``."""

from __future__ import annotations

import argparse
import os
import socket
import sys

from vhost_backend.worker.life import work


def main() -> int:
    """Serves until the daemon hangs up.

    N is this process's end of the ``SOCK_SEQPACKET`` pair on which `vhost_backend.worker_protocol.protocol` is spoken.
    """
    parser = argparse.ArgumentParser(prog="vhost_backend.worker", description=main.__doc__)
    parser.add_argument("--fd", type=int, required=True, help="the socket to the daemon")
    arguments = parser.parse_args()
    return work(socket.socket(fileno=arguments.fd))


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # skips waiting for threads: one may be in a kernel that never ends
