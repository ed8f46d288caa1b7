"""Slow, obvious oracles for the tests of the generators."""

import os
from pathlib import Path

import numpy as np
import pytest

from tickproof.generators.layouts import ORDER, QUOTE, QUOTE_KIND, framed


def _judge(records: np.ndarray) -> list[tuple[int, bytes, bool]]:
    """Return (order_id, symbol, rejected) of each order of a merged stream."""
    quotes = records.view(framed(QUOTE))["payload"].tolist()
    orders = records.view(framed(ORDER))["payload"].tolist()
    latest, verdicts = {}, []
    for quote, order in zip(quotes, orders, strict=True):
        if quote[0] == QUOTE_KIND:
            latest[quote[2]] = (quote[5], quote[6])
            continue
        bid, offer = latest.get(order[3], (0, 0))
        rejected = offer - bid >= 500 or 40 * (offer - bid) >= bid + offer
        verdicts.append((order[4], order[3], rejected))
    return verdicts


@pytest.fixture(scope="session")
def judge():
    return _judge


@pytest.fixture(scope="session")
def sample() -> Path:
    """The folder of the recorded market: see TICKPROOF_SAMPLE in CONTRIBUTING.md."""
    folder = os.environ.get("TICKPROOF_SAMPLE")
    if not folder:
        pytest.skip("TICKPROOF_SAMPLE does not name the folder of the recorded market")
    return Path(folder)
