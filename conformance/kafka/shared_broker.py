"""One broker for all runs of a command, in whichever of its processes they are played."""

from __future__ import annotations

import atexit
import json
import os
import signal
import threading
from dataclasses import asdict
from typing import Final

from tickproof.conformance.engines.launcher import BROKER_VARIABLE
from tickproof.conformance.kafka.broker import Broker, BrokerAddress

#: Says to the processes that this one starts where its broker is.
VARIABLE: Final = BROKER_VARIABLE
_lock = threading.Lock()
_broker: Broker | None = None


def address() -> BrokerAddress:
    """Return where the broker is; starts one where there is none. Raises KafkaUnavailable.

    It ends with the process that started it. One that has died is not replaced: what it held
    is gone, and the runs that used it end with that reason.
    """
    global _broker
    with _lock:
        if VARIABLE not in os.environ:
            _broker = Broker()
            atexit.register(_close, _broker)
            os.environ[VARIABLE] = json.dumps(asdict(_broker.address))
        return BrokerAddress(**json.loads(os.environ[VARIABLE]))


def use(existing: BrokerAddress) -> None:
    """Have this process, and those that it starts, use a broker that is there."""
    with _lock:
        os.environ[VARIABLE] = json.dumps(asdict(existing))


def _close(broker: Broker) -> None:
    """End the broker; a signal that comes meanwhile is too late, and would leave its folder."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    broker.close()
