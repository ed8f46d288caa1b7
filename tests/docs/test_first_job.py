"""The way of a newcomer, walked: own records, a job, a log, a kill, the same result as batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import wait_until
from tests.docs.blocks import ROOT, blocks
from tests.docs.walking import DEADLINE_S, Walk
from tests.long import LONG

BLOCKS = blocks(ROOT / "docs" / "first-job.md")
RECORD = [("size", "<u4"), ("account", "<u4")]
BOOKING = np.dtype([*RECORD, ("cents", "<i8")])
CHANGE = np.dtype([*RECORD, ("before", "<i8"), ("after", "<i8")])


def expected(folder: Path) -> Iterator[tuple[int, int, int]]:
    """Yield what each booking of an account changes, by plain arithmetic."""
    balances: Counter[int] = Counter()
    for number in range(2):
        for _, account, cents in np.fromfile(folder / f"s0p{number}.log", BOOKING).tolist():
            before = balances[account]
            balances[account] += cents
            yield account, before, before + cents


def recorded(folder: Path, stream: int, layout: np.dtype) -> list[tuple]:
    """Return the records of an output stream, without their sizes."""
    path = folder / "output" / f"s{stream}.log"
    return [record[1:] for record in np.fromfile(path, layout).tolist()] if path.exists() else []


@LONG
def test_who_follows_the_page_gets_each_booking_once(tmp_path):
    for package in ("pyspark", "pandas", "google.protobuf"):
        pytest.importorskip(package)
    log = tmp_path / "in"

    def some_are_booked() -> None:
        wait_until(lambda: recorded(log, 0, CHANGE), DEADLINE_S)
        assert 0 < len(recorded(log, 0, CHANGE)) < 20_000

    with Walk(tmp_path, some_are_booked) as walk:
        for block in BLOCKS:
            walk.follow(block)
    assert walk.kills == 1
    programs = {block.file for block in BLOCKS if block.file} - {
        "records.py",
        "accounts.py",
        "test_accounts.py",
    }
    assert set(walk.ran) == programs and walk.ran.count("stream.py") == 2

    changes = list(expected(log))
    assert Counter(recorded(log, 0, CHANGE)) == Counter(changes)
    warnings = [(account, after) for account, before, after in changes if after < 0 <= before]
    assert Counter(recorded(log, 1, BOOKING)) == Counter(warnings)


def test_what_is_no_file_and_no_command_is_not_on_the_page():
    assert [str(block) for block in BLOCKS if not block.file and block.kind != "console"] == []
