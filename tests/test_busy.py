"""The load beside which sound engines are played lasts as long as it is asked for."""

from __future__ import annotations

import os
from itertools import islice

import psutil
import pytest

from tests import busy
from tests.conftest import wait_until
from tests.long import LONG


def below_us() -> list[psutil.Process]:
    return psutil.Process(os.getpid()).children()


def test_a_load_lasts_as_long_as_it_is_asked_for() -> None:
    before = {process.pid for process in below_us()}
    with busy.load(loops=1, disk=True, memory_gib=0) as programs:
        started = [process for process in below_us() if process.pid not in before]
        assert programs == len(started) == 2
        assert wait_until(lambda: all(sum(one.cpu_times()[:2]) > 0 for one in started))
    assert not any(process.is_running() for process in started)


def test_more_memory_than_there_is_is_refused() -> None:
    with pytest.raises(MemoryError, match="to be available, got"):
        with busy.load(0, False, memory_gib=int(busy.available_gib()) + 1):
            pass


def test_a_load_that_did_not_last_is_no_load(monkeypatch) -> None:
    monkeypatch.setattr(busy, "LOOP", "pass")
    before = {process.pid for process in below_us()}
    with pytest.raises(RuntimeError, match="1 of 1 ended early"):
        with busy.load(1, False, 0):
            (process,) = (one for one in below_us() if one.pid not in before)
            assert wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE)


def test_a_part_without_a_report_is_no_part(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="ended with status 2"):
        next(busy.played(1, tmp_path, 5, ["--only", "minimal"]))


@LONG
def test_each_part_has_a_seed_of_its_own(tmp_path) -> None:
    parts = list(islice(busy.played(1_000, tmp_path, 5, ["--engine", "miniature"]), 2))
    assert [part.seed for part in parts] == [5, 6]
    assert all(part.runs > 0 and not part.accused for part in parts)
    assert len(list(busy.played(1, tmp_path, 7, ["--engine", "miniature"]))) == 1
