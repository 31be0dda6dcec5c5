"""Test agent in the guest: runs commands and copies files for the host, over one virtio-serial port.

Each message, in both directions, is a line of JSON followed by ``size`` raw bytes. Requests:

    {"id", "op": "run", "command", "timeout", "size": 0}    -> {"id", "exit", "timed_out", "out", "size"} stdout + stderr
    {"id", "op": "put", "path", "mode", "size"} contents    -> {"id", "size": 0}
    {"id", "op": "get", "path", "size": 0}                  -> {"id", "size"} contents

Commands run concurrently; a failed request is answered with ``error``.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

Answer = tuple[dict[str, Any], bytes]
TIMED_OUT_EXIT = 124
"""Exit code of a command that ran past its time, like that of timeout(1)."""


def run(request: dict[str, Any], _contents: bytes) -> Answer:
    """Runs a shell command in a new session; all processes of the session are killed when its time is up."""
    command = subprocess.Popen(
        ["/bin/sh", "-c", request["command"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timed_out = False
    try:
        out, err = command.communicate(timeout=request["timeout"])
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(command.pid, signal.SIGKILL)
        out, err = command.communicate()
    code = TIMED_OUT_EXIT if timed_out else command.returncode
    return {"exit": code, "timed_out": timed_out, "out": len(out)}, out + err


def put(request: dict[str, Any], contents: bytes) -> Answer:
    path = Path(request["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
    path.chmod(request["mode"])
    return {}, b""


def get(request: dict[str, Any], _contents: bytes) -> Answer:
    return {}, Path(request["path"]).read_bytes()


OPERATIONS = {"run": run, "put": put, "get": get}


class Agent:
    """Reads requests until the host closes the port, and answers each on a new thread."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._writing = threading.Lock()

    def serve(self) -> None:
        self._send({"id": 0}, b"")
        while line := self._incoming.readline():
            request = json.loads(line)
            contents = self._incoming.read(request["size"])
            threading.Thread(target=self._answer, args=(request, contents), daemon=True).start()

    def _answer(self, request: dict[str, Any], contents: bytes) -> None:
        try:
            header, body = OPERATIONS[request["op"]](request, contents)
        except Exception as error:  # noqa: BLE001 - the host's test decides what an error means; the agent must live on
            header, body = {"error": f"{type(error).__name__}: {error}"}, b""
        self._send(header | {"id": request["id"]}, body)

    def _send(self, header: dict[str, Any], body: bytes) -> None:
        message = json.dumps(header | {"size": len(body)}).encode() + b"\n" + body
        with self._writing:
            self._outgoing.write(message)
            self._outgoing.flush()


if __name__ == "__main__":
    with Path(sys.argv[1]).open("r+b", buffering=0) as port:  # the port can be open only once
        Agent(io.BufferedReader(port), io.BufferedWriter(port)).serve()
