"""Lines and standard error within bounds, against slow obvious oracles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.engines.output_streams import (
    MASKED,
    QUOTED,
    LineSplitter,
    Mask,
    StderrLog,
)

CHUNKS = st.lists(st.lists(st.sampled_from([b"a", b"b", b"\n"]), max_size=12).map(b"".join))


@given(CHUNKS, st.integers(1, 6))
def test_lines_are_those_of_the_whole_stream(chunks, limit):
    splitter = LineSplitter(limit)
    got = [item for chunk in chunks for item in splitter.feed(chunk)]
    *whole, rest = b"".join(chunks).split(b"\n")
    assert [(line, False) for line in whole if len(line) <= limit] == [
        item for item in got if not item[1]
    ]
    overlong = [line for line in [*whole, rest] if len(line) > limit]
    starts = [line for line, long in got if long]
    assert len(starts) == len(overlong)
    assert all(line.startswith(start) for start, line in zip(starts, overlong, strict=True))
    assert all(len(start) > limit for start in starts)


def test_an_overlong_line_is_cut_and_not_held():
    splitter = LineSplitter(100_000)
    (item,) = list(splitter.feed(b"x" * 100_001))
    assert item == (b"x" * QUOTED, True)
    assert list(splitter.feed(b"y" * 100_001)) == []
    assert splitter._held == b""
    assert list(splitter.feed(b"\nnext\n")) == [(b"next", False)]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.integers(1, 100))
def test_stderr_is_kept_whole_up_to_the_limit(tmp_path_factory, chunks, limit):
    path = tmp_path_factory.mktemp("log") / "stderr.log"
    log = StderrLog(path, limit)
    for chunk in chunks:
        log.write(chunk)
    log.close()
    said, kept = b"".join(chunks), path.read_bytes()
    if len(said) < limit:
        assert kept == said
    else:
        notice = f"\n[the rest is dropped: more than {limit} bytes]\n".encode()
        assert kept == said[:limit] + notice


@given(st.lists(st.text("ab", max_size=6).map(str.encode), max_size=8), st.text("ab", min_size=1))
def test_a_secret_is_masked_wherever_chunks_cut_it(chunks, secret):
    mask = Mask(secret)
    shown = b"".join([*map(mask.feed, chunks), mask.rest()])
    assert shown == b"".join(chunks).replace(secret.encode(), MASKED)


def test_a_secret_is_neither_in_the_file_nor_in_the_tail(tmp_path):
    log = StderrLog(tmp_path / "stderr.log", secret="f00d")
    log.write(b"password=f0")
    log.write(b"0d, then f0")
    assert log.tail() == ("password=***, then ",)
    log.close()
    assert (tmp_path / "stderr.log").read_bytes() == b"password=***, then f0"


def test_a_full_file_stays_full_over_restarts(tmp_path):
    path = tmp_path / "stderr.log"
    for _ in range(3):
        log = StderrLog(path, 10)
        log.write(b"0123456789abc")
        log.close()
    assert path.read_text().count("dropped") == 1


def test_the_tail_is_the_last_32_lines(tmp_path):
    log = StderrLog(tmp_path / "stderr.log")
    log.write(b"".join(b"line %d\n" % number for number in range(100)) + b"bad \xff")
    assert log.tail() == (*(f"line {number}" for number in range(69, 100)), r"bad \xff")
    log.close()
