"""Starts an engine's processes on another host than its first, as a remote shell does.

``host_starter.py serve``, with a listening socket as stdin, runs on that host. On the first host
``host_starter.py on ADDRESS COMMAND...`` has it start COMMAND there, in the folder and with the
environment of the caller; it ends with the status of the command (128 + N by signal N), and with
255 where the other host did not answer or is lost. To kill it does not kill the command. stdout
and stderr of the command are the engine's stderr, stdin is empty. With ``tell`` in place of ``on``
it writes the pid of the command, as a line, when that has been started. Only the standard library.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

PORT = 10_022
LOST, NOT_FOUND, BY_SIGNAL = 255, 127, 128
_STDERR = 2
#: A host is lost when it says that it knows of nothing, or was silent for two minutes.
_PROBE_EACH_S, _PROBES = 1, 120


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
                asked["command"],
                env=asked["environment"],
                cwd=asked["folder"],
                stdin=subprocess.DEVNULL,
                stdout=_STDERR,
                stderr=_STDERR,
                start_new_session=True,
            )
        except OSError as error:
            caller.sendall(f"0\n{NOT_FOUND} {error}\n".encode())
            return
        caller.sendall(f"{process.pid}\n".encode())
        status = process.wait()
        caller.sendall(f"{BY_SIGNAL - status if status < 0 else status}\n".encode())


def start(address, command, tell=lambda _: None):
    """Have a command started on another host, and return its status once it has ended.

    ``tell`` hears its pid.
    """
    asked = {"command": command, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109
    try:
        with socket.create_connection((address, PORT)) as starter, starter.makefile("rb") as lines:
            _probe(starter)
            starter.sendall(json.dumps(asked).encode() + b"\n")
            if pid := int(lines.readline() or 0):
                tell(pid)
            status, _, why = lines.readline().decode("utf-8", "replace").partition(" ")
    except OSError as error:
        sys.stderr.write(f"{address}: {error}\n")
        return LOST
    if why:
        sys.stderr.write(f"{address}: {why}")
    return int(status) if status else LOST


def _probe(starter):
    """Have a host asked now and then, which may have died without a word, and be back."""
    starter.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    starter.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_EACH_S)
    starter.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EACH_S)
    starter.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


def _say(pid):
    sys.stdout.write(f"{pid}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(socket.socket(fileno=0))
    heard = {"on": [], "tell": [_say]}[sys.argv[1]]
    sys.exit(start(sys.argv[2], sys.argv[3:], *heard))
