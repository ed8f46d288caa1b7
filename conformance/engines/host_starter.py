"""Starts an engine's processes on another host than its first, as a remote shell does.

``host_starter.py serve``, with a listening socket as stdin, runs on that host. On the first host
``host_starter.py on ADDRESS COMMAND...`` has it start COMMAND there, in the folder and with the
environment of the caller; it ends with the status of the command (128 + N by signal N), and with
255 where the other host did not answer or is lost. To kill it does not kill the command. stdout
and stderr of the command are the engine's stderr, stdin is empty. Only the standard library.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

PORT = 10_022
LOST, NOT_FOUND = 255, 127
_STDERR = 2


def listen():
    """Return a socket that takes requests, on the host that this process is on."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", PORT))
    listener.listen(128)
    return listener


def serve(listener):
    """Start what is asked for, for ever."""
    while True:
        caller, _ = listener.accept()
        threading.Thread(target=_serve_one, args=(caller,), daemon=True).start()


def _serve_one(caller):
    with contextlib.suppress(OSError, ValueError), caller, caller.makefile("rb") as lines:
        asked = json.loads(lines.readline())
        try:
            process = subprocess.Popen(
                asked["command"], env=asked["environment"], cwd=asked["folder"],
                stdin=subprocess.DEVNULL, stdout=_STDERR, stderr=_STDERR, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            caller.sendall(f"{NOT_FOUND} {error}\n".encode())
            return
        status = process.wait()
        caller.sendall(f"{128 - status if status < 0 else status}\n".encode())


def start(address, command):
    """Have a command started on another host, and return its status once it has ended."""
    asked = {"command": command, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109
    try:
        with socket.create_connection((address, PORT)) as starter, starter.makefile("rb") as lines:
            starter.sendall(json.dumps(asked).encode() + b"\n")
            status, _, why = lines.readline().decode("utf-8", "replace").partition(" ")
    except OSError as error:
        sys.stderr.write(f"{address}: {error}\n")
        return LOST
    if why:
        sys.stderr.write(f"{address}: {why}")
    return int(status) if status else LOST


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(socket.socket(fileno=0))
    sys.exit(start(sys.argv[2], sys.argv[3:]))
