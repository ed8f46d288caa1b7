"""Brokers that serve one run alone, and die in it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from tickproof.conformance.errors import KitStopped
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.broker_settings import REPLICAS
from tickproof.conformance.kafka.proxy import Proxy

#: What others had got of a broker when it was left alone has been answered after so long.
SETTLED_S: Final = 0.1
#: So many times a broker is left alone until clients send it something.
ALONE_TIMES: Final = 5


class OwnBrokers:
    """Kills brokers, and starts them again. For one thread, but for `close`.

    ``away`` is told that no broker takes requests, and when one does again that did not lead
    before: clients of the kit have to learn of it.
    """

    def __init__(self, broker: Broker, proxy: Proxy, away: Callable[[bool], None]) -> None:
        self._broker, self._proxy, self._away = broker, proxy, away
        #: Set at the end of the run.
        self._over = threading.Event()
        self._on_its_way: threading.Thread | None = None
        self._failure: Exception | None = None

    def restart(self) -> None:
        """Kill every broker, and start them again on their data; raises KafkaUnavailable."""
        self._await_return()
        self._away(True)
        for number in self._broker.numbers:
            self._proxy.kill_broker(self._broker, number)
        self._return(*self._broker.numbers)
        self._away(False)

    @property
    def returning(self) -> bool:
        """True while a broker is on its way back, and has not all that others have."""
        return self._on_its_way is not None and self._on_its_way.is_alive()

    def kill_leader(
        self,
        connection: int,
        alone_s: float = 0.0,
        grace_s: float = 0.0,
        wait: Callable[[float], object] | None = None,
    ) -> dict[str, int]:
        """End the broker that a connection leads to, and wait until others lead in its place.

        For ``alone_s`` before it dies, no other gets what it takes; it is one then that leads
        output and coordinates nothing, if there is one. It is left alone up to `ALONE_TIMES`, until
        it is sent something. With ``grace_s`` it is asked to end, and
        hands over. Returns as "alone" how many records of output it acknowledged while it was
        alone, which nobody else has; as "waiting" how many requests that change something it had
        not answered; as "moved" how many partitions others lead instead. It comes back by itself,
        and then leads again what it led; a second death waits for that, see `returning`. wait:
        lets so many seconds pass, in which input goes on. Raises KafkaUnavailable; LookupError
        where no others have all that it has.
        """
        wait = wait or self._over.wait
        number = self._struck(connection)
        number = self._fit_to_be_alone(number) if alone_s else number
        leads = self._leads(number)
        with contextlib.ExitStack() as until_dead:
            alone = self._left_alone(number, alone_s, wait, until_dead) if alone_s else 0
            waiting = self._proxy.unanswered(number)
            self._proxy.kill_broker(self._broker, number, grace_s)
        lead = self._broker.led_by_others(number)
        self._let_it_return(number, dead=True)
        if not lead:  # a machine too busy for them to keep up
            raise LookupError("no other broker had all that it led")
        return {"alone": alone, "waiting": waiting, "moved": leads}

    def _left_alone(
        self,
        number: int,
        alone_s: float,
        wait: Callable[[float], object],
        until_dead: contextlib.ExitStack,
    ) -> int:
        """Leave a broker alone, for as long as ``until_dead`` is open.

        Returns how many records of output it acknowledged meanwhile. A client whose transaction
        is just ending sends nothing: its end has to reach the broker's followers first.
        """
        taken, alone = self._proxy.traffic.by_broker, 0
        for again in reversed(range(ALONE_TIMES)):
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._broker.alone(number))
                wait(min(alone_s, SETTLED_S))
                before = taken[number]
                wait(max(0.0, alone_s - SETTLED_S))
                alone = taken[number] - before
                if alone or self._proxy.unanswered(number) or not again:
                    until_dead.push(stack.pop_all())
                    return alone
            wait(alone_s)
        return alone

    def pause_leader(self, connection: int, seconds: float) -> dict[str, int]:
        """Have the broker that a connection leads to stand still, and others lead meanwhile.

        It wakes in the belief that it leads. Returns as `kill_leader`, and raises LookupError if
        it woke before others led.
        """
        number = self._struck(connection)
        leads = self._leads(number)
        with self._broker.paused(number):
            until = time.monotonic() + seconds
            waiting = self._proxy.unanswered(number)
            lead = self._broker.led_by_others(number, seconds)
            self._over.wait(max(0.0, until - time.monotonic()))
        self._let_it_return(number, dead=False)
        if not lead:
            raise LookupError("no other broker led before it woke")
        return {"waiting": waiting, "moved": leads}

    def _struck(self, connection: int) -> int:
        """Return the number of the broker that a connection leads to, once all are there."""
        if len(self._broker.numbers) < REPLICAS:
            raise LookupError("no other broker could lead")
        number = self._proxy.broker_of(connection)
        self._await_return()
        return number

    def _leads(self, number: int) -> int:
        return sum(one.leader == number for one in self._broker.led())

    def _let_it_return(self, number: int, *, dead: bool) -> None:
        self._away(False)
        self._on_its_way = threading.Thread(
            target=self._come_back, args=(number, dead), name="kafka-return", daemon=True
        )
        self._on_its_way.start()

    def _fit_to_be_alone(self, otherwise: int) -> int:
        """Return a broker that leads output and is no coordinator.

        A coordinator would wait for its followers, and clients for it, before they send more.
        """
        led = self._broker.led()
        coordinators = {one.leader for one in led if one.topic.startswith("__")}
        leads = Counter(one.leader for one in led if one.topic in self._proxy.outputs)
        fit = [one for one, _ in leads.most_common() if one not in coordinators]
        return fit[0] if fit else otherwise

    def close(self) -> None:
        """Wait for a broker that is coming back; raises KitStopped for one that does not."""
        self._over.set()
        self._await_return()

    def _await_return(self) -> None:
        if self._on_its_way is not None:
            self._on_its_way.join()
        if self._failure is not None:
            raise KitStopped(str(self._failure)) from self._failure

    def _come_back(self, number: int, dead: bool) -> None:
        try:
            if dead:
                self._return(number)
            self._broker.lead_as_at_first()
            self._broker.in_sync()
        except Exception as error:
            self._failure = error

    def _return(self, *numbers: int) -> None:
        self._broker.start_again(*numbers)
        for number in numbers:
            self._proxy.broker_is_back(number)
