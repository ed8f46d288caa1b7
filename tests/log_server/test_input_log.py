"""The input log: when each partition ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tickproof.conformance.history.event import EventKind
from tickproof.conformance.log_server.frames import Code, Fetch, Release, Tail
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Refused


def made(folder, ended_early, records=(2, 0, 3)):
    """Return a log with partitions of so many records of a byte, and its events."""
    sources = []
    for number, count in enumerate(records):
        path = folder / f"p{number}"
        path.write_bytes(b"\1\0\0\0x" * count)
        sources.append(
            SimpleNamespace(stream=0, partition=number, path=path, record_size=1, records=count)
        )
    events = []
    log = InputLog(sources, folder, lambda kind, **facts: events.append((kind, facts)), ended_early)
    return log, events


def ends(log):
    """Return whether a TAIL and a FETCH of each partition tell END; they must agree."""
    told = [log.tail(Tail(0, number))[2] for number in range(3)]
    fetched = [log.fetch(Fetch(0, number, 0, 100, 0), 1_000).ended for number in range(3)]
    assert told == fetched
    return told


def test_partitions_end_together_unless_asked_otherwise(tmp_path):
    log, events = made(tmp_path, ())
    log.publish([2, 0, 2])
    assert ends(log) == [False, False, False]
    log.publish([2, 0, 3])
    assert ends(log) == [False, False, False]
    log.end()
    assert ends(log) == [True, True, True]
    assert [kind for kind, _ in events] == [EventKind.END_PUBLISHED]
    log.close()


def test_a_partition_that_ends_early_tells_it_with_its_last_record(tmp_path):
    log, events = made(tmp_path, {(0, 0), (0, 1)})
    log.publish([1, 0, 0])
    assert ends(log) == [False, True, False]  # the empty one has nothing to wait for
    log.publish([2, 0, 1])
    assert ends(log) == [True, True, False]
    log.publish([2, 0, 3])
    assert ends(log) == [True, True, False]
    log.end()
    assert ends(log) == [True, True, True]
    assert events[:2] == [
        (EventKind.PARTITION_ENDED, {"stream": 0, "partition": p, "records": n})
        for p, n in ((1, 0), (0, 2))
    ]
    assert [kind for kind, _ in events[2:]] == [EventKind.END_PUBLISHED]
    log.close()


def test_a_silent_source_tells_no_end_that_comes_meanwhile(tmp_path):
    log, _ = made(tmp_path, {(0, 0)})
    log.publish([1, 0, 0])
    log.withhold_records(lambda: None)
    log.publish([2, 0, 0])
    assert ends(log) == [False, False, False]
    log.withhold_records(None)
    assert ends(log) == [True, False, False]
    log.close()


def test_what_a_silent_source_does_not_tell_is_beyond_the_end(tmp_path):
    log, _ = made(tmp_path, ())
    log.publish([1, 0, 0])
    log.withhold_records(lambda: None)
    log.publish([2, 0, 0])
    for ask in (
        lambda: log.fetch(Fetch(0, 0, 2, 100, 0), 1_000),
        lambda: log.release(Release(0, 0, 2)),
    ):
        with pytest.raises(Refused) as refused:
            ask()
        assert refused.value.code is Code.BEYOND_END
    log.withhold_records(None)
    assert log.fetch(Fetch(0, 0, 1, 100, 0), 1_000).count == 1
    log.close()


def test_what_is_sent_again_is_counted(tmp_path):
    log, _ = made(tmp_path, (), records=(9, 0, 9))
    sent = [(0, 0, 4), (2, 0, 6), (0, 4, 5), (0, 3, 6), (0, 0, 9)]
    assert [log.fetched_elsewhere(0, *one) for one in sent] == [0, 0, 0, 2, 6]
    log.close()
