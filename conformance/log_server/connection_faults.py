"""Faults of connections: what is done to the links of source and sink, and the proof of it.

A link is one connection of the engine. It belongs to the source once it sent FETCH, to the
sink once it sent APPEND, STAGE, COMMIT or HAVE, and may belong to both. Each fault that was
carried out, or is over, is an event "link" with what it met; nothing here judges.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.log_server.frames import Code, Op
from tickproof.conformance.log_server.recorder import Refused
from tickproof.conformance.log_server.timed_faults import Lasting, Link, LinkEffect

#: Where the first frame of an op makes its connection belong to.
_SIDES: Final = {
    Op.FETCH: "source", Op.APPEND: "sink", Op.STAGE: "sink", Op.COMMIT: "sink", Op.HAVE: "sink",
}  # fmt: skip
#: A late frame waits so long for the engine to come back at all, ...
LATE_S: Final = 10.0
#: ... and so long for its own writer, once the engine has sent other output again.
LATE_MORE_S: Final = 0.5
_RESET: Final = struct.pack("ii", 1, 0)
_Result = TypeVar("_Result")


class Loop(Protocol):
    """The thread in which all links live; server.LogServer is one."""

    def call(self, work: Callable[[], _Result]) -> _Result:
        """Do something in that thread."""

    def at(self, due: float, work: Callable[[], None]) -> None:
        """Call ``work`` there at a time (time.monotonic)."""

    def look_again(self) -> None:
        """Let those that wait see what has changed."""

    def end_broken(self) -> None:
        """End the connections whose links were broken."""


class Withholds(Protocol):
    """The input as faults see it; input_log.InputLog is one."""

    def withhold_records(self, on_withheld: Callable[[], None] | None) -> None:
        """Answer as if nothing new existed, and call this for each such answer; None: no more."""


class Broken(TickproofError):
    """A fault broke this connection: what it still holds counts as never sent."""


@dataclass(eq=False)
class Late:
    """A frame of a reset connection, kept until its writer is back; ``take`` records it."""

    address: tuple[int, int]
    connection: int
    deadline: float
    take: Callable[[], object]
    connections: list[int] = field(default_factory=list)
    #: The connection on which the writer came back.
    back: int | None = None


class Links:
    """The links of one run, and the faults that they meet.

    Used in the thread of the server alone, but for `aim` and what it returns.
    ``spent_s``: seconds of faults that the engine had to bear so far: deadlines grow by
    them. ``touched_at``: when the last fault struck or ended (time.monotonic), 0 before.
    ``never_late``: why no frame can be late here, "" where it can. ``never_errs``: why no request
    is answered with an error of Kafka.
    """

    def __init__(
        self,
        log: Withholds,
        on_event: Callable[..., None],
        loop: Loop,
        never_late: str = "",
        never_errs: str = "only Kafka has requests that are answered with such an error",
    ) -> None:
        self._log, self._event, self._loop = log, on_event, loop
        self._never_late, self._never_errs = never_late, never_errs
        self._links: set[Link] = set()
        self._armed: list[LinkEffect] = []
        #: Whose reply is being cut in the middle.
        self._breaking: Link | None = None
        self._lasting: list[Lasting] = []
        self._late: list[Late] = []
        self._released = False
        #: Sides whose links were broken and that no new link belongs to yet.
        self._away: set[str] = set()
        self.spent_s = self.touched_at = 0.0

    @property
    def busy(self) -> bool:
        """True if a fault is armed, lasts, or keeps a late frame."""
        return bool(self._armed or self._lasting or self._late)

    # -- the life of a link ----------------------------------------------------------

    def opened(self, number: int, sock: socket.socket) -> Link:
        """Know a new connection."""
        link = Link(number, sock)
        self._links.add(link)
        return link

    def closed(self, link: Link) -> None:
        """Forget a connection that is closed."""
        self._links.discard(link)

    def arrived(self, link: Link, op: int) -> None:
        """Hear of the first frame of an op on a connection."""
        link.ops.add(op)
        if side := _SIDES.get(op):  # type: ignore[call-overload]
            self.joined(link, side)

    def joined(self, link: Link, side: str) -> None:
        """Hear of a frame that makes a connection belong to a side."""
        if side in link.sides:
            return
        link.sides.add(side)
        if side in self._away and not link.deaf:
            self._away.remove(side)
            self._event(EventKind.RECONNECTED, target=side, connection=link.number)

    def met_half_open(self, link: Link) -> None:
        """Hear of a frame or reply that stands still."""
        for fault in self._lasting:
            if fault.fault.half_open and link in fault.links:
                self._meet(fault)

    # -- carrying faults out ----------------------------------------------------------------------

    def lasting(self, fault: object) -> bool:
        """Say whether a fault of connections has to wait, because another one lasts."""
        return isinstance(fault, LinkEffect) and bool(self._lasting or self._late)

    def ready(self, fault: object) -> bool:
        """Say whether the fault before another has met something, and that one can, too."""
        if self._armed or self.lasting(fault) or self._breaking in self._links:
            return False
        return not isinstance(fault, LinkEffect) or bool(self._found(fault.step.target))

    def aim(self, fault: LinkEffect) -> Callable[[], dict[str, Any]]:
        """Return what strikes; both raise LookupError where the side has no connection.

        So does a late frame, or an error of Kafka, where there can be none.
        """
        if fault.errs and self._never_errs:
            raise LookupError(self._never_errs)
        if fault.keeps_frame and self._never_late:
            raise LookupError(self._never_late)
        self._loop.call(partial(self._present, fault.step.target))
        return partial(self._loop.call, partial(self._strike, fault))

    def _present(self, side: str) -> list[Link]:
        if found := self._found(side):
            return sorted(found, key=lambda link: link.number)
        raise LookupError(f"no connection of the {side} was open")

    def _found(self, side: str) -> list[Link]:
        return [link for link in self._links if side in link.sides and not link.deaf]

    def _strike(self, effect: LinkEffect) -> dict[str, Any]:
        met = self._present(effect.step.target)
        self.touched_at = time.monotonic()
        if effect.breaks_reply or effect.keeps_frame:
            # It takes the next frame that it can break in the middle.
            self._armed.append(effect)
        else:
            self._begin(effect, met)
        return {"pids": [], "connections": [link.number for link in met]}

    def _begin(self, effect: LinkEffect, met: list[Link]) -> None:
        fault = Lasting(effect, met)
        self._lasting.append(fault)
        self.spent_s += effect.step.lasts_s
        if effect.half_open:
            for link in met:
                link.deaf = True
        if effect.withholds:
            self._log.withhold_records(partial(self._meet, fault))
        self._loop.at(fault.until, partial(self._expire, fault))
        self._loop.look_again()

    def _meet(self, fault: Lasting) -> None:
        """Count what a fault meets; the first starts its time."""
        if not fault.count:
            fault.meet()
            self._loop.at(fault.until, partial(self._expire, fault))
        else:
            fault.meet()

    def _expire(self, fault: Lasting) -> None:
        """End a fault, if its time has come and it has not ended before."""
        if fault.over or time.monotonic() < fault.until:
            return
        self._end(fault)

    def _end(self, fault: Lasting) -> None:
        step = fault.fault.step
        self._lasting.remove(fault)
        fault.over = True
        if fault.fault.half_open:
            self._break(fault.links, step.target)
        if fault.fault.withholds:
            others = [other for other in self._lasting if other.fault.withholds]
            self._log.withhold_records(partial(self._meet, others[0]) if others else None)
        self.touched_at = time.monotonic()
        self._loop.look_again()
        self._event(
            EventKind.LINK,
            do=step.do,
            target=step.target,
            from_ns=fault.from_ns,
            count=fault.count,
            bytes=fault.bytes,
            connections=[link.number for link in fault.links],
        )

    def _break(self, links: Iterable[Link], side: str) -> None:
        """Reset connections."""
        for link in links:
            link.deaf = link.broken = True
            # It may have ended by itself.
            with contextlib.suppress(OSError):
                link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._away.add(side)
        self._loop.end_broken()

    def _break_all(self, side: str) -> list[int]:
        links = [link for link in self._links if side in link.sides and not link.broken]
        self._break(links, side)
        self.touched_at = time.monotonic()
        return sorted(link.number for link in links)

    # -- cut ---------------------------------------------------------------------------

    def takes(self, link: Link, side: str, *, frame: bool = False) -> bool:
        """Say whether a fault that waits for a reply, or a frame, of a side takes this: once."""
        if not self._armed or link.deaf:
            return False
        waiting = [
            one for one in self._armed if one.step.target == side and one.keeps_frame is frame
        ]
        if not waiting:
            return False
        self._armed.remove(waiting[0])
        self._breaking = link
        return True

    def cut(self, link: Link, side: str, sent: int, whole: int) -> None:
        """Reset all connections of the side: ``sent`` of ``whole`` bytes of a reply arrived."""
        met, self._breaking = self._break_all(side), None
        self._event(
            EventKind.LINK,
            do="cut",
            target=side,
            connections=met,
            connection=link.number,
            count=1,
            sent=sent,
            whole=whole,
        )

    # -- late ---------------------------------------------------------------------------

    def hold(self, link: Link, address: tuple[int, int], take: Callable[[], object]) -> None:
        """Reset the sink; ``take`` a frame of it when the writer at ``address`` is back.

        The address is (stream, writer).
        """
        late = Late(address, link.number, time.monotonic() + LATE_S, take)
        self._late.append(late)
        late.connections, self._breaking = self._break_all("sink"), None
        if self._released:
            self._settle(late)
        else:
            self._loop.at(late.deadline, partial(self._overdue, late))

    def _overdue(self, late: Late) -> None:
        if late in self._late and time.monotonic() >= late.deadline:
            self._settle(late)

    def _settle(self, late: Late, dropped: bool = False) -> None:
        """Take a late frame, or drop it, and note what became of it."""
        self._late.remove(late)
        outcome = "dropped"
        # Where it cannot be recorded, the run ends with the recorder's reason.
        with contextlib.suppress(OSError):
            try:
                if not dropped:
                    late.take()
                    outcome = "taken"
            except Refused as refused:
                outcome = f"error {int(refused.code)}"
        self._event(
            EventKind.LINK,
            do="late",
            target="sink",
            connections=late.connections,
            connection=late.connection,
            writer=late.address[1],
            back=late.back,
            count=1,
            outcome=outcome,
        )

    def back(self, link: Link, address: tuple[int, int]) -> None:
        """Hear that a writer's frame or HAVE was handled: what is late for it comes now."""
        soon = time.monotonic() + LATE_MORE_S
        for late in tuple(self._late):
            if late.address == address:
                late.back = link.number
                self._settle(late)
            elif soon < late.deadline:
                late.deadline = soon
                self._loop.at(late.deadline, partial(self._overdue, late))

    # -- slow replies, refusals ----------------------------------------------------------

    def refuse(self) -> None:
        """Raise Refused where the sink takes no output now."""
        if self.refuses():
            raise Refused(Code.NOT_ALLOWED, "no output is taken now: send it again later")

    def refuses(self) -> bool:
        """Say whether output that has come is refused, and note that it met the fault."""
        for fault in self._lasting:
            if fault.fault.refuses:
                self._meet(fault)
                return True
        return False

    def error_for(self, request: str) -> Lasting | None:
        """Return the fault that answers a request of Kafka with an error now, if one does."""
        found = (one for one in self._lasting if one.fault.error_for(request))
        return next(found, None)

    def answered(self, fault: Lasting) -> None:
        """Hear that the answer of a fault was sent."""
        self._meet(fault)

    def slowing(self, link: Link) -> list[Lasting]:
        """Return the faults that make the replies of this link slow now."""
        if not self._lasting:
            return []
        return [f for f in self._lasting if f.fault.slows and f.fault.step.target in link.sides]

    def slowed(self, fault: Lasting, size: int) -> None:
        """Hear of replies that a fault slows down."""
        self._meet(fault)
        fault.bytes += size

    # -- the end -----------------------------------------------------------------------

    def release_waits(self, on: bool) -> None:
        """End all faults (or allow new ones again): the engine is dead, read what it left."""
        self._released = on
        self._end_all(dropped=False)

    def close(self) -> None:
        """The run is over: end all faults, drop what is late."""
        self._released = True
        self._loop.call(partial(self._end_all, dropped=True))

    def _end_all(self, dropped: bool) -> None:
        missed, self._armed = self._armed, []
        for fault in tuple(self._lasting):
            self._end(fault)
        for late in tuple(self._late):
            self._settle(late, dropped)
        for effect in missed:
            why = "nothing came that it could meet"
            self._event(EventKind.LINK_MISSED, step=effect.step.to_json(), why=why)
