"""Process of `tests.fakes.worker`: passes its connection to the test and runs until it is told to end.

Run as ``python worker_stub.py REPORT_PATH --fd N``. Standard library only, so that it starts fast.
"""

import os
import socket
import sys


def main() -> None:
    report_path, _, number = sys.argv[1:4]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as report:
        report.connect(report_path)
        socket.send_fds(report, [str(os.getpid()).encode()], [int(number)])
        os.close(int(number))
        order = report.recv(64).decode()
    if order == "abort":
        os.write(2, b"the stub was told to abort\n")
        os.abort()
    sys.exit(int(order or 0))


if __name__ == "__main__":
    main()
