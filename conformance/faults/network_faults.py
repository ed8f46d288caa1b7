"""Faults of the network between an engine's hosts, and of a whole host."""

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
from tickproof.conformance.faults import network_rules as rules
from tickproof.conformance.faults.host_fault import HostFault
from tickproof.conformance.faults.injector import Injection
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.event_log import EventLog

#: For all processes of a host to end after SIGKILL.
_KILL_S: Final = 10.0


@dataclass(frozen=True)
class _Lasting:
    """A fault in force. table: the name of its rules."""

    fault: HostFault
    host: str
    table: str
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
        """True if a fault is in force."""
        return bool(self._lasting)

    def aim(self, fault: HostFault, host_of_worker: Callable[[], str]) -> Injection:
        """Find the host that a fault is meant for; raises LookupError where there is none.

        ``host_of_worker`` is asked where its step names no host.
        """
        network = self._network
        if network is None:
            raise LookupError("the engine runs on no hosts: it needs --hosts")
        host = fault.step.host or host_of_worker()
        for name in (host, fault.peer):
            if name and not network.knows(name):
                raise LookupError(f"there is no host {name}")
        fault.check(network, host)
        return partial(self._begin, network, fault, host)

    def _begin(self, network: Network, fault: HostFault, host: str) -> dict[str, Any]:
        with self._lock:
            self._number += 1
            made = _Lasting(fault, host, rules.table(self._number), time.monotonic_ns())
            self.touched_at = time.monotonic()
            for one in [one for one in self._lasting if one.host == host]:
                if fault.alone and one.fault.alone == fault.alone:
                    self._end(one)
            fault.begin(network, host, made.table)
            self._lasting.append(made)
        # First cut off: the end of its processes is not told to anybody.
        pids = self._kill(network, host) if fault.kills else []
        timer = threading.Timer(fault.in_force_s, self._end_one, (made,))
        timer.daemon = True
        timer.start()
        return {"pids": pids, "host": host}

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
        network, host = self._network, fault.host
        assert network is not None
        count = fault.fault.end(network, host, fault.table)
        if fault.fault.kills:
            self._engine().start_host(network.names.index(host))
        self._lasting.remove(fault)
        self.touched_at = time.monotonic()
        self._events.add(
            EventKind.NETWORK,
            do=fault.fault.do,
            host=host,
            peer=fault.fault.peer,
            way=fault.fault.way,
            from_ns=fault.from_ns,
            packets=count,
        )

    def end(self) -> None:
        """End what is still in force."""
        with self._lock:
            for fault in list(self._lasting):
                self._end_one(fault)
