"""A bad cable: relays frames between a host and the bridge, late, out of order, twice or damaged.

Run by the switch as ``python -I -S cable.py NEAR FAR FAULT``, with the descriptors of two packet
sockets: one sees what the host sends, the other what it is sent. FAULT is a JSON object: ``do`` as
in schedules, ``lag_s``, ``share`` of the packets, ``ways`` ("out", "in"), and ``peer``, the
hardware address of the other side as hex digits, "" for any. All that is not meant passes at once.
It ends with stdin: what it still holds is passed on, and on stdout it says how many packets of TCP
it delayed, let be overtaken, sent twice or damaged. Only the standard library.
"""

import contextlib
import heapq
import json
import random
import select
import socket
import sys
import time

_LONGEST = 1 << 16
#: Frames read from one side before the other one is looked at.
_AT_ONCE = 64
#: Where things stand in a frame of Ethernet and IPv4.
_KIND, _IPV4 = slice(12, 14), b"\x08\x00"
_TARGET, _SOURCE = slice(0, 6), slice(6, 12)
_HEADER, _PROTOCOL, _TCP = 14, 23, 6
#: Where the flags stand in the header of TCP.
_FLAGS, _RESET = 13, 4


class Cable:
    """Two packet sockets, and what is held between them."""

    def __init__(self, near, far, fault):
        self._fault = fault
        self._from = {near: "out", far: "in"}
        self._to = {"out": far, "in": near}
        self._peer = bytes.fromhex(fault["peer"])
        #: (due, number, way, passed that way before it, frame), the one that is due next first.
        self._held = []
        self._number = 0
        self._passed = {"out": 0, "in": 0}
        #: Packets of TCP to which something was done.
        self.met = 0

    def run(self, until):
        """Relay frames until a file ends, then pass on what is held."""
        while True:
            wait = max(0.0, self._held[0][0] - time.monotonic()) if self._held else None
            ready, _, _ = select.select([*self._from, until], [], [], wait)
            for source in ready:
                if source is until:
                    return self._pass_due(float("inf"))
                self._take(source)
            self._pass_due(time.monotonic())

    def _take(self, source):
        way = self._from[source]
        for _ in range(_AT_ONCE):
            try:
                frame, (_, _, kind, *_) = source.recvfrom(_LONGEST)
            except BlockingIOError:
                return
            if kind == socket.PACKET_OUTGOING:
                continue  # one that this process has sent
            if self._meant(way, frame):
                self._impair(way, frame)
            else:
                self._pass(way, frame)

    def _meant(self, way, frame):
        peer = frame[_TARGET if way == "out" else _SOURCE]
        if way not in self._fault["ways"] or (self._peer and peer != self._peer):
            return False
        if self._fault["do"] == "garble" and is_reset(frame):
            return False  # TCP does not send it again
        return self._fault["do"] == "delay" or random.random() < self._fault["share"]

    def _impair(self, way, frame):
        do, passed = self._fault["do"], self._passed[way]
        if do in ("delay", "reorder"):
            self._number += 1
            due = time.monotonic() + self._fault["lag_s"]
            heapq.heappush(self._held, (due, self._number, way, passed, frame))
        elif do == "duplicate":
            self._pass(way, frame)
            self._pass(way, frame)
        else:
            frame = damaged(frame)
            self._pass(way, frame)
        self.met += do != "reorder" and is_tcp(frame)

    def _pass_due(self, now):
        while self._held and self._held[0][0] <= now:
            _, _, way, passed, frame = heapq.heappop(self._held)
            overtaken = self._passed[way] > passed
            self.met += self._fault["do"] == "reorder" and overtaken and is_tcp(frame)
            self._pass(way, frame)

    def _pass(self, way, frame):
        self._passed[way] += 1
        # Where there is no room it is lost, as on any network.
        with contextlib.suppress(OSError):
            self._to[way].send(frame)


def is_tcp(frame):
    """Tell whether a frame carries TCP over IPv4."""
    return frame[_KIND] == _IPV4 and frame[_PROTOCOL : _PROTOCOL + 1] == bytes([_TCP])


def is_reset(frame):
    """Tell whether a frame of TCP resets a connection."""
    place = _HEADER + (frame[_HEADER] & 15) * 4 + _FLAGS if len(frame) > _HEADER else 0
    return is_tcp(frame) and len(frame) > place and bool(frame[place] & _RESET)


def damaged(frame):
    """Return a frame with one bit of what its IPv4 header is followed by flipped."""
    if frame[_KIND] != _IPV4:
        return frame
    first = _HEADER + (frame[_HEADER] & 15) * 4
    end = _HEADER + int.from_bytes(frame[_HEADER + 2 : _HEADER + 4], "big")
    if not first < end <= len(frame):
        return frame
    changed = bytearray(frame)
    changed[random.randrange(first, end)] ^= 1 << random.randrange(8)
    return bytes(changed)


def main(near, far, fault):
    """Relay until stdin ends; print how many packets were met."""
    sockets = [socket.socket(fileno=descriptor) for descriptor in (near, far)]
    for one in sockets:
        one.setblocking(False)
    cable = Cable(*sockets, fault)
    cable.run(sys.stdin)
    print(cable.met, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
