"""Who owns which partition, by who asked for it last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tickproof.conformance.kafka.exchange import Exchange
from tickproof.conformance.kafka.traffic import Traffic
from tickproof.conformance.log_server.connection_use import ConnectionUse


@pytest.mark.parametrize(
    ("owners", "gone", "workers", "shared"),
    [
        ([], (), 1, False),  # nobody has asked yet
        ([1, 1, 2, 2], (), 2, True),
        ([1, 1, 2, 2], (), 3, False),  # the third is on its way
        ([1, 2, 3, 4], (), 6, True),  # more workers than partitions
        ([1, 1, 2, 3], (3,), 2, False),  # what the third owned has no owner yet
        ([1, 1, 2, 2], (3,), 2, True),
    ],
)
def test_input_is_shared_once_each_partition_has_an_owner(
    owners: list[int], gone: tuple[int, ...], workers: int, shared: bool
) -> None:
    uses = {number: ConnectionUse(number, port=0, over=number in gone) for number in owners}
    askers = {(0, partition): uses[number] for partition, number in enumerate(owners)}
    exchange: Any = SimpleNamespace(traffic=Traffic(askers=askers), _width=4)
    assert Exchange.is_shared(exchange, workers, lambda number: (1000 + number,)) is shared
