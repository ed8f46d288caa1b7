"""Histories of runs that were made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.bench.handmade import Moves
from tickproof.conformance.history.folder import History


@pytest.fixture(scope="session")
def opened(tmp_path_factory) -> Callable[[Moves], History]:
    """Open a run whose partitions moved in a given way."""
    return lambda moves: moves.run(tmp_path_factory.mktemp("made")).history()
