"""Holds the network of an engine's hosts: namespaces that nothing but its descriptors keeps.

Run as ``python -I -S switch.py SOCKET PORT NAME=ADDRESS...``. In a network namespace of its own
there is a bridge, and a cable from it to one more namespace for each name; the first is the host
of the kit's log server, which gets a socket that listens on its address and PORT. The namespaces
have no names and no mount points, and the machine's own gets no interface: with the end of SOCKET,
however the kit ends, this process leaves, and what it made is gone with the last process in it.

SOCKET carries JSON lines. First comes ``{"ok": true}`` with descriptors: the listening socket,
the user namespace where there is one, and the network namespaces by name. Each request is answered
with ``status``, ``out`` and ``error``:

- ``{"host": NAME, "run": [...], "input": TEXT}`` runs a tool on a host, or on the bridge where NAME
  is "".
- ``{"host": NAME, "cable": {...}}`` has what passes between a host and the bridge go over a bad
  cable, until ``null`` comes in its place: ``out`` is then how many packets that met. cable.py says
  what is in the object; ``peer`` is the name of a host here. ``port`` takes the host's place on the
  bridge.
"""

import array
import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (-I drops it)
import sandbox

#: Ports of connections: each host has its own, so that one names the host, too.
FIRST_PORT, PORTS = 20_000, 44_000
_TOOL_S = 20.0
_CABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cable.py")  # noqa: PTH100, PTH118, PTH120
_ETH_P_ALL, _SO_RCVBUFFORCE = 3, 33
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17
#: Bytes of frames that may wait for a bad cable.
_WAITING = 1 << 22


class Switch:
    """The namespaces by the names of hosts, and the one of the bridge, where this process is.

    hosts: name -> addresses.
    """

    def __init__(self, hosts):
        self.user = sandbox.unshare(sandbox.NEWNET)
        if self.user:
            sandbox.pass_network_rights_on()
        self.here = _own("net")
        self.spaces = {}
        self._hardware = {name: f"02:00:00:00:00:{n:02x}" for n, name in enumerate(hosts)}
        self._cables = {}
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
        known = {
            name: [
                f"neigh add {address} lladdr {self._hardware[name]} dev net0 nud permanent"
                for address in addresses
            ]
            for name, addresses in hosts.items()
        }
        for name, addresses in hosts.items():
            self._expect(
                name,
                [
                    "link set lo up",
                    f"link set net0 address {self._hardware[name]}",
                    *(f"addr add {address}/24 dev net0" for address in addresses),
                    "link set net0 up",
                    *(line for other in known if other != name for line in known[other]),
                ],
            )

    def _expect(self, name, lines):
        done = self.run(name, ["ip", "-batch", "-"], "\n".join(lines) + "\n")
        if done["status"]:
            raise OSError(f"ip: {done['error'].strip()}")

    def run(self, name, command, text):
        """Run a tool on a host and return what came of it; raises OSError."""
        self._go(name)
        try:
            done = subprocess.run(
                command,
                input=text.encode(),
                capture_output=True,
                timeout=_TOOL_S,
                pass_fds=tuple(self.spaces.values()),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"status": 1, "out": "", "error": f"no end within {_TOOL_S:g} s"}
        finally:
            self._go("")
        out, error = (one.decode("utf-8", "replace") for one in (done.stdout, done.stderr))
        return {"status": done.returncode, "out": out, "error": error}

    def listen(self, name, port):
        """Return a socket that listens on all addresses of a host."""
        self._go(name)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", port))  # this network has nothing but the hosts
        sock.listen(128)
        self._go("")
        return sock

    def answer(self, asked):
        """Do what a request asks for; raises OSError."""
        name = asked["host"]
        if "run" in asked:
            return self.run(name, asked["run"], asked["input"])
        out = self._spoil(name, asked["cable"]) if asked["cable"] else self._mend(name)
        return {"status": 0, "out": out, "error": ""}

    def _spoil(self, name, fault):
        """Take a host's cable out of the bridge, and put a process between the two."""
        far, port = _far(name), fault["port"]
        self._expect(
            "",
            [
                f"link add {far} type veth peer name {port}",
                f"link set {far} up",
                f"link set {port} up",
            ],
        )
        # What is to be relayed are whole packets: of the size that the wire has, with checksums.
        self._let_hardware_finish(name, "net0", False)
        self._let_hardware_finish("", port, False)
        # First out of the bridge: a frame goes one of the two ways, and none goes both.
        self._expect("", [f"link set {name} nomaster", f"link set {port} master switch"])
        fault["peer"] = self._hardware.get(fault["peer"], "").replace(":", "")
        with _packets(name) as near, _packets(far) as beyond:
            sockets = [near.fileno(), beyond.fileno()]
            self._cables[name] = subprocess.Popen(
                [sys.executable, "-I", "-S", _CABLE, *map(str, sockets), json.dumps(fault)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=sockets,
                text=True,
            )
        return ""

    def _mend(self, name):
        """Put a host's cable back into the bridge, and return how many packets the bad one met."""
        out, _ = self._cables.pop(name).communicate(timeout=_TOOL_S)
        self._expect("", [f"link del {_far(name)}", f"link set {name} master switch"])
        self._let_hardware_finish(name, "net0", True)
        if not out:
            raise OSError("a bad cable broke")
        return out.strip()

    def _let_hardware_finish(self, name, device, so):
        """Say whether a device takes packets that are to be cut, and to get checksums, later on."""
        self._go(name)
        value = ctypes.create_string_buffer(struct.pack("II", _ETHTOOL_STXCSUM, so))
        asked = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
        try:
            with socket.socket() as any_socket:
                fcntl.ioctl(any_socket, _SIOCETHTOOL, asked)
        finally:
            self._go("")

    def _go(self, name):
        sandbox.enter(self.spaces[name] if name else self.here, sandbox.NEWNET)


def _far(name):
    """Return the end of a bad cable that the bridge is behind."""
    return f"{name}-far"


def _packets(device):
    """Return a socket that sees all frames that come in over a device of the bridge's namespace."""
    # Of no protocol as long as it is of all devices.
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with contextlib.suppress(PermissionError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _WAITING)
    sock.bind((device, _ETH_P_ALL))
    return sock


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
        listener = switch.listen(next(iter(hosts)), port)
    except OSError as error:
        return _answer(kit, {"ok": False, "error": str(error)})
    users = [_own("user")] if switch.user else []
    spaces = list(switch.spaces.values())
    _answer(kit, {"ok": True, "user": len(users)}, [listener.fileno(), *users, *spaces])
    listener.close()
    for line in kit.makefile("rb"):
        asked = json.loads(line)
        try:
            answer = switch.answer(asked)
        except (OSError, subprocess.TimeoutExpired) as error:
            answer = {"status": 127, "out": "", "error": str(error)}
        _answer(kit, answer)


if __name__ == "__main__":
    pairs = (word.partition("=") for word in sys.argv[3:])
    main(int(sys.argv[1]), int(sys.argv[2]), {name: of.split(",") for name, _, of in pairs})
