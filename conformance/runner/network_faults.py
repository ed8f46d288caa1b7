"""What a schedule does to the network between an engine's hosts, and to a whole host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.network import Network, NetworkError
from tickproof.conformance.engines.process import Engine
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.runner import network_rules as rules
from tickproof.conformance.runner.process_faults import Injection
from tickproof.conformance.scenario import OF_CABLE, FaultStep

#: For all processes of a host to end after SIGKILL.
_KILL_S: Final = 10.0
#: The device of a host; that of the switch has the host's name.
_DEVICE: Final = "net0"


@dataclass(frozen=True)
class _Lasting:
    """A fault in force. number: its table's."""

    step: FaultStep
    host: str
    number: int
    from_ns: int


class NetworkFaults:
    """Injects faults into the network of one run, and ends those that last. Thread-safe.

    ``network``: None where the engine runs on this machine alone.
    """

    def __init__(
        self, network: Network | None, events: EventLog, engine: Callable[[], Engine]
    ) -> None:
        self._network, self._events, self._engine = network, events, engine
        self._lock = threading.RLock()
        self._lasting: list[_Lasting] = []
        self._number = 0
        #: When the last fault began or ended (time.monotonic), 0 before the first.
        self.touched_at = 0.0
        #: What went wrong in a timer.
        self.failure: BaseException | None = None

    @property
    def lasting(self) -> bool:
        """Whether a fault is in force."""
        return bool(self._lasting)

    def aim(self, step: FaultStep, host_of_worker: Callable[[], str]) -> Injection:
        """Find the host that a step is meant for; raises LookupError where there is none.

        ``host_of_worker`` is asked where the step names no host.
        """
        network = self._network
        if network is None:
            raise LookupError("the engine runs on no hosts: it needs --hosts")
        host = step.host or host_of_worker()
        for name in (host, step.peer):
            if name and not network.knows(name):
                raise LookupError(f"there is no host {name}")
        if step.do == "kill" and host == network.names[0]:
            raise LookupError(f"{host} has argv's process, and the kit's hold on it")
        return partial(self._begin, network, step, host)

    def _begin(self, network: Network, step: FaultStep, host: str) -> dict[str, Any]:
        with self._lock:
            self._number += 1
            fault = _Lasting(step, host, self._number, time.monotonic_ns())
            self.touched_at = time.monotonic()
            self._make_way(step, host)
            if step.do == "throttle":
                network.run("", rules.slow(host, step.rate))
                network.run(host, rules.slow(_DEVICE, step.rate))
            elif step.do in OF_CABLE:
                network.spoil(host, rules.cable(step))
            else:
                text = rules.drop(rules.table(fault.number), step, host)
                network.run("", ["nft", "-f", "-"], text)
            self._lasting.append(fault)
        # First cut off: the end of its processes is not told to anybody.
        pids = self._kill(network, host) if step.do == "kill" else []
        timer = threading.Timer(step.seconds or step.down_s, self._end_one, (fault,))
        timer.daemon = True
        timer.start()
        return {"pids": pids, "host": host}

    def _make_way(self, step: FaultStep, host: str) -> None:
        """End what cannot last beside another fault: a host has one cable, and one rate."""
        for kind in (OF_CABLE, frozenset(("throttle",))):
            for one in [one for one in self._lasting if one.host == host]:
                if step.do in kind and one.step.do in kind:
                    self._end(one)

    def _kill(self, network: Network, host: str) -> list[int]:
        found: set[int] = set()

        def there() -> list[process_table.Proc]:
            living = [one for one in self._engine().living() if network.host_of(one.pid) == host]
            found.update(one.pid for one in living)
            return living

        process_table.kill_all(there, lambda: True, _KILL_S)
        if not found:
            raise LookupError(f"nothing ran on {host}")
        return sorted(found)

    def _end_one(self, fault: _Lasting) -> None:
        try:
            with self._lock:
                if fault in self._lasting:
                    self._end(fault)
        except (NetworkError, ValueError) as error:
            self.failure = error

    def _end(self, fault: _Lasting) -> None:
        network, step, host = self._network, fault.step, fault.host
        assert network is not None
        if step.do == "throttle":
            devices = (("", host), (host, _DEVICE))
            show = ["tc", "-s", "-j", "qdisc", "show", "dev"]
            count = rules.held_up(network.run(where, [*show, one]) for where, one in devices)
            for where, one in devices:
                network.run(where, ["tc", "qdisc", "del", "dev", one, "root"])
        elif step.do in OF_CABLE:
            count = network.mend(host)
        else:
            name = ["bridge", rules.table(fault.number)]
            count = rules.dropped(network.run("", ["nft", "-j", "list", "table", *name]))
            network.run("", ["nft", "delete", "table", *name])
        if step.do == "kill":
            self._engine().start_host(network.names.index(host))
        self._lasting.remove(fault)
        self.touched_at = time.monotonic()
        self._events.add(
            EventKind.NETWORK,
            do=step.do,
            host=host,
            peer=step.peer,
            way=step.way,
            from_ns=fault.from_ns,
            packets=count,
        )

    def end(self) -> None:
        """End what is still in force."""
        with self._lock:
            for fault in list(self._lasting):
                self._end_one(fault)
