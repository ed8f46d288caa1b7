"""Holds the network of an engine's hosts: namespaces that nothing but its descriptors keeps.

Run as ``python -I -S switch.py SOCKET PORT NAME=ADDRESS...``. In a network namespace of its own
there is a bridge, and a cable from it to one more namespace for each name; the first is the host
of the kit's log server, which gets a socket that listens on its address and PORT. The namespaces
have no names and no mount points, and the machine's own gets no interface: with the end of SOCKET,
however the kit ends, this process leaves, and what it made is gone with the last process in it.

SOCKET carries JSON lines. First comes ``{"ok": true}`` with descriptors: the listening socket,
the user namespace where there is one, and the network namespaces by name. Then each request
``{"host": NAME, "run": [...], "input": TEXT}`` runs a tool on a host, or on the bridge where
NAME is "", and is answered with ``status``, ``out`` and ``error``.
"""

import array
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (-I drops it)
import sandbox

#: Ports of connections: each host has its own, so that one names the host, too.
FIRST_PORT, PORTS = 20_000, 44_000
_TOOL_S = 20.0


class Switch:
    """The namespaces by the names of hosts, and the one of the bridge, where this process is."""

    def __init__(self, hosts):
        self.user = sandbox.unshare(sandbox.NEWNET)
        if self.user:
            sandbox.pass_network_rights_on()
        self.here = _own("net")
        self.spaces = {}
        for number, name in enumerate(hosts):
            sandbox.unshare_again(sandbox.NEWNET)
            self.spaces[name] = _own("net")
            width = PORTS // len(hosts)
            first = FIRST_PORT + number * width
            with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as file:  # noqa: PTH123
                file.write(f"{first} {first + width - 1}")
            sandbox.enter(self.here, sandbox.NEWNET)
        self._cable(hosts)

    def _cable(self, hosts):
        lines = ["link add switch type bridge", "link set switch up"]
        for name, space in self.spaces.items():
            there = f"/proc/self/fd/{space}"
            lines.append(f"link add {name} type veth peer name net0 netns {there}")
            lines.append(f"link set {name} master switch up")
        self._expect("", lines)
        # Known beforehand, so that a fault meets what an engine sends, and no search for it.
        known = [
            f"neigh add {address} lladdr {_hardware(number)} dev net0 nud permanent"
            for number, address in enumerate(hosts.values())
        ]
        for number, (name, address) in enumerate(hosts.items()):
            self._expect(name, [
                "link set lo up", f"link set net0 address {_hardware(number)}",
                f"addr add {address}/24 dev net0", "link set net0 up",
                *known[:number], *known[number + 1:],
            ])  # fmt: skip

    def _expect(self, name, lines):
        done = self.run(name, ["ip", "-batch", "-"], "\n".join(lines) + "\n")
        if done["status"]:
            raise OSError(f"ip: {done['error'].strip()}")

    def run(self, name, command, text):
        """Run a tool on a host and return what came of it; raises OSError."""
        self._go(name)
        try:
            done = subprocess.run(
                command, input=text.encode(), capture_output=True, timeout=_TOOL_S,
                pass_fds=tuple(self.spaces.values()), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"status": 1, "out": "", "error": f"no end within {_TOOL_S:g} s"}
        finally:
            self._go("")
        out, error = (one.decode("utf-8", "replace") for one in (done.stdout, done.stderr))
        return {"status": done.returncode, "out": out, "error": error}

    def listen(self, name, address, port):
        """Return a socket that listens on a host."""
        self._go(name)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(128)
        self._go("")
        return sock

    def _go(self, name):
        sandbox.enter(self.spaces[name] if name else self.here, sandbox.NEWNET)


def _hardware(number):
    return f"02:00:00:00:00:{number:02x}"


def _own(kind):
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _answer(kit, answer, descriptors=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    line = json.dumps(answer).encode() + b"\n"
    with contextlib.suppress(BrokenPipeError):  # the kit is gone
        if rest := line[kit.sendmsg([line], rights if descriptors else []) :]:
            kit.sendall(rest)


def main(descriptor, port, hosts):
    """Lay the network out, hand it over, and serve until the kit is gone."""
    # The kit's death is the end of the socket: no signal of a terminal is.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    kit = socket.socket(fileno=descriptor)
    try:
        switch = Switch(hosts)
        name, address = next(iter(hosts.items()))
        listener = switch.listen(name, address, port)
    except OSError as error:
        return _answer(kit, {"ok": False, "error": str(error)})
    users = [_own("user")] if switch.user else []
    spaces = list(switch.spaces.values())
    _answer(kit, {"ok": True, "user": len(users)}, [listener.fileno(), *users, *spaces])
    listener.close()
    for line in kit.makefile("rb"):
        asked = json.loads(line)
        try:
            answer = switch.run(asked["host"], asked["run"], asked["input"])
        except OSError as error:
            answer = {"status": 127, "out": "", "error": str(error)}
        _answer(kit, answer)


if __name__ == "__main__":
    pairs = (word.partition("=") for word in sys.argv[3:])
    main(int(sys.argv[1]), int(sys.argv[2]), {name: address for name, _, address in pairs})
