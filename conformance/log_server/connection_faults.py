"""Faults of connections: what is done to the links of source and sink, and the proof of it.

A link is one connection of the engine. It belongs to the source once it sent FETCH, to the
sink once it sent APPEND, STAGE, COMMIT or HAVE, and may belong to both. Each fault that was
carried out, or is over, is an event "link" with what it met; nothing here judges.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.log_server.frames import Code, Op
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Refused
from tickproof.conformance.log_server.timed_faults import Lasting, Link, pieces
from tickproof.conformance.scenario import FaultStep

#: Where the first frame of an op makes its connection belong to.
_SIDES: Final = {
    Op.FETCH: "source", Op.APPEND: "sink", Op.STAGE: "sink", Op.COMMIT: "sink", Op.HAVE: "sink",
}  # fmt: skip
_SLOW: Final = ("delay", "throttle", "drip")
#: So long a fault that lasts waits for something that it can meet: a batch engine reads rarely.
MEET_S: Final = 30.0
#: A late frame waits so long for the engine to come back at all, ...
LATE_S: Final = 10.0
#: ... and so long for its own writer, once the engine has sent other output again.
LATE_MORE_S: Final = 0.5
#: How long the first request of a writer that is back waits for the late frame of it.
_HANDLED_S: Final = 5.0
#: How long a part of a reply may take to reach the peer.
_REACHED_S: Final = 1.0
_RESET: Final = struct.pack("ii", 1, 0)

Send = Callable[[bytes], object]


class Broken(TickproofError):
    """A fault broke this connection: what it still holds counts as never sent."""


@dataclass(eq=False)
class Late:
    """A frame of a reset connection, kept until its writer is back."""

    address: tuple[int, int]
    connection: int
    deadline: float
    connections: list[int] = field(default_factory=list)
    #: The connection on which the writer came back.
    back: int | None = None
    dropped: bool = False


class Links:
    """The links of one run, and the faults that they meet. Thread-safe.

    ``spent_s``: seconds of faults that the engine had to bear so far: deadlines grow by
    them. ``touched_at``: when the last fault struck or ended (time.monotonic), 0 before.
    """

    def __init__(self, log: InputLog, on_event: Callable[..., None]) -> None:
        self._log, self._event = log, on_event
        self._changed = threading.Condition()
        self._links: set[Link] = set()
        self._armed: list[FaultStep] = []
        self._lasting: list[Lasting] = []
        self._late: list[Late] = []
        self._threads: list[threading.Thread] = []
        self._hurried = self._closed = False
        #: Sides whose links were broken and that no new link belongs to yet.
        self._away: set[str] = set()
        self.spent_s = self.touched_at = 0.0

    # -- the life of a link ----------------------------------------------------------

    def opened(self, number: int, sock: socket.socket) -> Link:
        """Know a new connection."""
        link = Link(number, sock)
        with self._changed:
            self._links.add(link)
        return link

    def closed(self, link: Link) -> None:
        """Close a connection; one that was broken is reset."""
        with self._changed:
            self._links.discard(link)
            link.sock.close()

    def arrived(self, link: Link, op: int) -> None:
        """Hear of a frame that was read; raises Broken where it must not be handled."""
        side = _SIDES.get(op)  # type: ignore[call-overload]
        if side and side not in link.sides:
            with self._changed:
                link.sides.add(side)
                back = side in self._away and not link.deaf
                self._away -= {side} if back else set()
            if back:
                self._event("reconnected", target=side, connection=link.number)
        self._pass(link)

    def _pass(self, link: Link) -> None:
        """Wait as long as a link is half open; raises Broken after it."""
        if not link.deaf:
            return
        with self._changed:
            for fault in self._lasting:
                if fault.step.do == "half-open" and link in fault.links:
                    fault.meet()
            # The thread of the fault breaks it in time.
            self._changed.wait_for(lambda: link.broken)
        raise Broken

    # -- striking ------------------------------------------------------------------------

    def lasting(self, step: FaultStep) -> bool:
        """Say whether a step for connections has to wait, because another fault lasts."""
        return step.target in ("source", "sink") and bool(self._lasting or self._late)

    def ready(self, step: FaultStep) -> bool:
        """Say whether the fault before a step has met something, and the engine is back."""
        if self._armed or self.lasting(step):
            return False
        with self._changed:
            return step.target not in self._away or bool(self._found(step.target))

    def aim(self, step: FaultStep) -> Callable[[], dict[str, Any]]:
        """Return what strikes; both raise LookupError where the side has no connection."""
        with self._changed:
            self._present(step.target)
        return partial(self._strike, step)

    def _present(self, side: str) -> list[Link]:
        if found := self._found(side):
            return sorted(found, key=lambda link: link.number)
        raise LookupError(f"no connection of the {side} was open")

    def _found(self, side: str) -> list[Link]:
        return [link for link in self._links if side in link.sides and not link.deaf]

    def _strike(self, step: FaultStep) -> dict[str, Any]:
        with self._changed:
            met = self._present(step.target)
            self.touched_at = time.monotonic()
            if step.do in ("cut", "late"):
                # It takes the next frame that it can break in the middle.
                self._armed.append(step)
            else:
                self._begin(step, met)
        return {"pids": [], "connections": [link.number for link in met]}

    def _begin(self, step: FaultStep, met: list[Link]) -> None:
        fault = Lasting(step, met)
        self._lasting.append(fault)
        self.spent_s += step.seconds
        if step.do == "half-open":
            for link in met:
                link.frozen = True
            self._log.wake()
        if step.do == "silence":
            self._log.hush(fault.meet)
        thread = threading.Thread(target=self._expire, args=(fault,), name="fault", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _expire(self, fault: Lasting) -> None:
        fault.met.wait(MEET_S)
        fault.rest(fault.step.seconds)
        step = fault.step
        with self._changed:
            self._lasting.remove(fault)
            fault.over.set()
            if step.do == "half-open":
                self._break(fault.links, step.target)
            if step.do == "silence":
                others = [other for other in self._lasting if other.step.do == "silence"]
                self._log.hush(others[0].meet if others else None)
            self.touched_at = time.monotonic()
            self._changed.notify_all()
        self._event(
            "link", do=step.do, target=step.target, from_ns=fault.from_ns, count=fault.count,
            bytes=fault.bytes, connections=[link.number for link in fault.links],
        )  # fmt: skip

    def _break(self, links: Iterable[Link], side: str) -> None:
        """Reset connections: each thread closes its own, which must not be waiting then."""
        for link in links:
            link.broken = True
            # It may have ended by itself.
            with contextlib.suppress(OSError):
                link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                link.sock.shutdown(socket.SHUT_RDWR if link.sending else socket.SHUT_RD)
        self._away.add(side)
        self._log.wake()
        self._changed.notify_all()

    # -- cut ---------------------------------------------------------------------------

    def takes(self, link: Link, do: str, side: str) -> bool:
        """Say whether a fault that waits for such a frame takes this one: once."""
        if not self._armed:
            return False
        with self._changed:
            waiting = [s for s in self._armed if (s.do, s.target) == (do, side)]
            if not waiting or link.deaf:
                return False
            self._armed.remove(waiting[0])
        return True

    def cut(self, link: Link, side: str, reply: bytes, at: int) -> None:
        """Send ``at`` bytes of a reply, reset all connections of the side; raises Broken."""
        link.sending = True
        link.sock.sendall(memoryview(reply)[:at])
        link.sending = False
        left = self._settled(link)
        met = self._break_all(side)
        self._event(
            "link", do="cut", target=side, connections=met, connection=link.number,
            count=1, sent=at - left, whole=len(reply),
        )  # fmt: skip
        raise Broken

    @staticmethod
    def _settled(link: Link) -> int:
        """Wait until all that was sent has reached the peer: a reset discards the rest of it."""
        queue, tick = bytearray(4), threading.Event()
        deadline = time.monotonic() + _REACHED_S
        while True:
            fcntl.ioctl(link.sock, termios.TIOCOUTQ, queue)
            left = int.from_bytes(queue, sys.byteorder)
            if not left or link.broken or time.monotonic() > deadline:
                return left
            tick.wait(0.001)

    def _break_all(self, side: str) -> list[int]:
        with self._changed:
            links = [link for link in self._links if side in link.sides and not link.broken]
            self._break(links, side)
            self.touched_at = time.monotonic()
        return sorted(link.number for link in links)

    # -- late ---------------------------------------------------------------------------

    def hold(self, link: Link, address: tuple[int, int]) -> Late:
        """Reset the sink, and wait until the writer at ``address`` (stream, writer) is back.

        The caller handles its frame then, unless it is ``dropped``, and must call `settle`.
        """
        late = Late(address, link.number, time.monotonic() + LATE_S)
        with self._changed:
            self._late.append(late)
        late.connections = self._break_all("sink")
        self.closed(link)  # its thread lives on, for the frame
        with self._changed:
            while late.back is None and not self._hurried:
                left = late.deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            late.dropped = self._closed
        return late

    def settle(self, late: Late, outcome: str) -> None:
        """Note what became of a late frame; whoever waits for it goes on."""
        self._event(
            "link", do="late", target="sink", connections=late.connections,
            connection=late.connection, writer=late.address[1], back=late.back, count=1,
            outcome=outcome,
        )  # fmt: skip
        with self._changed:
            self._late.remove(late)
            self._changed.notify_all()

    def back(self, link: Link, address: tuple[int, int]) -> None:
        """Hear that a writer's frame or HAVE was handled: what is late for it comes now."""
        if not self._late or link.broken:
            return
        with self._changed:
            mine = [late for late in self._late if late.address == address]
            for late in self._late:
                if late in mine:
                    late.back = late.back or link.number
                else:
                    late.deadline = min(late.deadline, time.monotonic() + LATE_MORE_S)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not set(mine) & set(self._late), _HANDLED_S)

    # -- slow replies, refusals ----------------------------------------------------------

    def refuse(self) -> None:
        """Raise Refused where the sink takes no output now."""
        for fault in tuple(self._lasting):
            if fault.step.do == "refuse":
                fault.meet()
                raise Refused(Code.NOT_ALLOWED, "no output is taken now: send it again later")

    def slow(self, link: Link) -> bool:
        """Say whether a fault makes the replies of this link slow now."""
        return any(True for _ in self._slowing(link))

    def _slowing(self, link: Link) -> Iterator[Lasting]:
        for fault in tuple(self._lasting):
            if fault.step.do in _SLOW and fault.step.target in link.sides:
                yield fault

    def send(self, link: Link, data: bytes, send: Send) -> None:
        """Send replies as the faults of their sides have it; raises Broken, OSError."""
        faults = list(self._slowing(link)) if self._lasting else []
        for fault in faults:
            fault.meet()
            fault.bytes += len(data)
            if fault.step.do == "delay":
                fault.rest(fault.step.lag_s)
        self._pass(link)
        link.sending = True
        try:
            for piece in pieces(memoryview(data), faults):
                send(piece)
        finally:
            link.sending = False
        # What was sent into a link that broke meanwhile did not arrive for certain.
        self._pass(link)

    # -- the end -----------------------------------------------------------------------

    def hurry(self, on: bool) -> None:
        """End all faults (or allow new ones again): the engine is dead, read what it left."""
        with self._changed:
            self._hurried = on
            missed, self._armed = self._armed, []
            threads, self._threads = self._threads, []
            for fault in self._lasting:
                fault.end()
            self._changed.notify_all()
        for step in missed:
            self._event("link-missed", step=step.to_json(), why="nothing came that it could meet")
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """The run is over: end all faults, drop what is late."""
        self._closed = True
        self.hurry(True)
