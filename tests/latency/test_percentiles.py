"""Histograms filled by whole arrays equal scalar ones; what the package gets wrong stays out."""

from __future__ import annotations

import base64
import re
import struct
import zlib

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader, HistogramLogWriter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import examples
from tickproof.conformance.latency.percentiles import (
    DIGITS,
    HIGHEST_NS,
    LOWEST_NS,
    PERCENTILES,
    Interval,
    histogram,
    percentiles_us,
    write_hlog,
)

#: Around every power of two, where buckets change, and anywhere.
VALUES = st.one_of(
    st.integers(0, HIGHEST_NS),
    st.integers(0, 5000),
    st.builds(
        lambda power, more: min(max(2**power + more, 0), HIGHEST_NS),
        st.integers(0, 42),
        st.integers(-3, 3),
    ),
)
SECOND = 1_000_000_000


def empty() -> HdrHistogram:
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)


def scalar(values) -> HdrHistogram:
    made = empty()
    for value in values:
        assert made.record_value(int(value))
    return made


def facts(made: HdrHistogram) -> tuple:
    return (
        list(made.counts),
        made.total_count,
        made.min_value,
        made.max_value,
        made.get_min_value(),
        made.get_max_value(),
        made.encode(),
    )


# -- what the package does, which is why this module exists --------------------


def test_the_package_drops_values_out_of_range_silently():
    made = empty()
    assert made.record_value(-1) is False
    assert made.record_value(2**60) is False
    assert made.total_count == 0


def test_the_package_takes_values_beyond_its_highest():
    # Up to the end of its last bucket: so the limit has to be looked at here.
    assert empty().record_value(HIGHEST_NS + 1) is True


def test_the_package_gives_zero_as_percentile_of_nothing():
    assert empty().get_value_at_percentile(99.9) == 0


def test_the_package_corrects_otherwise_than_java():
    """Java adds value - interval, value - 2 intervals ... while they are at least an interval.

    The package goes on below it. An open loop has nothing to correct.
    """
    made = empty()
    made.record_corrected_value(1000, 300)
    assert [made.get_count_at_value(value) for value in (1000, 700, 400, 100)] == [1, 1, 1, 1]


def test_the_package_rounds_ranks_so_that_a_percentile_may_be_too_low():
    values = range(1, 161)  # 99 % of 160 are 158.4: so 159 values have to be at or below
    assert scalar(values).get_value_at_percentile(99) == 158
    assert percentiles_us(np.array(values))["p99"] == 0.159


def test_the_package_counts_an_empty_histogram_as_a_minimum_of_zero():
    made = scalar([5])
    made.add(empty())
    assert made.min_value == 0


def test_the_package_writes_no_tags_and_cuts_the_maximum(tmp_path):
    made = scalar([1_900_000])
    made.set_tag("steady")
    with (tmp_path / "by.hlog").open("w") as file:
        writer = HistogramLogWriter(file)
        writer.output_interval_histogram(made, 1.0, 2.0)
        with pytest.raises((AttributeError, ValueError)):
            writer.output_start_time(1000)
    assert (tmp_path / "by.hlog").read_text().startswith("1.000000,1.000000,1.000000,HIST")


# -- filling -------------------------------------------------------------------


@given(st.lists(VALUES, min_size=1, max_size=300))
@settings(max_examples=examples(300), deadline=None)
def test_filled_by_arrays_equals_recorded_one_by_one(values):
    assert facts(histogram(np.array(values, np.int64))) == facts(scalar(values))


def test_every_bucket_edge_is_counted_where_the_package_counts_it():
    edges = [2**power + more for power in range(1, 42) for more in (-1, 0, 1)]
    values = np.array([value for value in edges if value <= HIGHEST_NS])
    assert len(values) > 100
    assert facts(histogram(values)) == facts(scalar(values))


def test_more_values_than_a_piece():
    values = np.random.default_rng(3).exponential(2e6, 150_000).astype(np.int64)
    made = histogram(values)
    assert made.total_count == 150_000
    again = histogram(values[:70_000])
    again.add(histogram(values[70_000:]))
    assert list(again.counts) == list(made.counts)


def test_an_empty_one_equals_an_empty_one():
    assert facts(histogram(np.empty(0, np.int64))) == facts(empty())


@pytest.mark.parametrize("wrong", [-1, HIGHEST_NS + 1, -(2**63), 2**63 - 1])
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=f"latency of {wrong} ns: expected 0 to {HIGHEST_NS} ns"):
        histogram(np.array([5, wrong, 7]))


# -- percentiles ---------------------------------------------------------------


@given(st.lists(VALUES, min_size=1, max_size=400))
@settings(max_examples=300, deadline=None)
def test_percentiles_hold_at_least_their_share_and_are_exact_to_a_thousandth(values):
    found = percentiles_us(np.array(values, np.int64))
    assert list(found) == ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"]
    for name, share in PERCENTILES.items():
        at_most = sum(value <= found[name] * 1000 + 0.01 for value in values)
        assert at_most * 10_000 >= share * len(values), name
        exact = sorted(values)[-(-len(values) * share // 10_000) - 1]
        assert exact <= found[name] * 1000 + 0.01 <= exact * 1.001 + 1, name
    figures = list(found.values())
    assert figures == sorted(figures)


def test_the_ranks_of_round_numbers_are_exact():
    found = percentiles_us(np.arange(1, 1001))
    assert [found[name] for name in ("p50", "p90", "p99", "p99.9", "p99.99", "max")] == [
        0.5,
        0.9,
        0.99,
        0.999,
        1.0,
        1.0,
    ]


@pytest.mark.parametrize("nothing", [np.empty(0, np.int64), histogram(np.empty(0, np.int64))])
def test_nothing_has_no_percentiles(nothing):
    with pytest.raises(ValueError, match="percentiles of no values"):
        percentiles_us(nothing)


def test_a_decoded_histogram_has_the_same_percentiles():
    values = np.random.default_rng(5).exponential(3e6, 5000).astype(np.int64)
    made = histogram(values)
    assert percentiles_us(HdrHistogram.decode(made.encode())) == percentiles_us(values)


# -- logs ----------------------------------------------------------------------


def intervals() -> list[Interval]:
    draw = np.random.default_rng(9)
    return [
        Interval(
            5 * SECOND + second * SECOND,
            SECOND,
            tag,
            histogram(draw.exponential(4e6, 400).astype(np.int64)),
        )
        for second, tag in enumerate(["warm-up", "steady", "steady", "recovering", "steady"])
    ]


def read(path) -> list[HdrHistogram]:
    reader = HistogramLogReader(str(path), empty())
    found = []
    while (one := reader.get_next_interval_histogram()) is not None:
        found.append(one)
    reader.input_file.close()
    return found


def test_a_log_reads_back_with_counts_tags_times_and_percentiles(tmp_path):
    rows = intervals()
    epoch_ns = 1_700_000_000 * SECOND
    write_hlog(tmp_path / "run.hlog", reversed(rows), epoch_ns=epoch_ns)
    back = read(tmp_path / "run.hlog")
    assert [one.tag for one in back] == [row.tag for row in rows]
    for one, row in zip(back, rows, strict=True):
        assert list(one.counts) == list(row.histogram.counts)
        assert percentiles_us(one) == percentiles_us(row.histogram)
        assert one.get_start_time_stamp() == (epoch_ns + row.start_ns) / 1e6
        assert one.get_end_time_stamp() - one.get_start_time_stamp() == 1000


def test_the_intervals_of_a_phase_add_up_to_it(tmp_path):
    values = np.random.default_rng(2).exponential(1e6, 9000).astype(np.int64)
    rows = [
        Interval(i * SECOND, SECOND, "steady", histogram(part))
        for i, part in enumerate(np.array_split(values, 7))
    ]
    write_hlog(tmp_path / "run.hlog", rows, epoch_ns=0)
    total = empty()
    for one in read(tmp_path / "run.hlog"):
        total.add(one)
    assert list(total.counts) == list(histogram(values).counts)
    assert percentiles_us(total) == percentiles_us(values)


def test_a_log_has_the_lines_that_other_tools_read(tmp_path):
    """The grammar of HistogramLogProcessor, format 1.3, and payloads of encoding V2."""
    write_hlog(tmp_path / "run.hlog", intervals(), epoch_ns=1_700_000_000 * SECOND)
    lines = (tmp_path / "run.hlog").read_text().splitlines()
    assert lines[:4] == [
        "#[Histogram log format version 1.3]",
        "#[BaseTime: 1700000005.000 (seconds since epoch)]",
        "#[StartTime: 1700000005.000 (seconds since epoch), 2023-11-14 22:13:25.000+00:00]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    pattern = re.compile(r"Tag=([a-z-]+),(\d+\.\d{3}),(\d+\.\d{3}),(\d+\.\d{3}),([A-Za-z0-9+/=]+)")
    for line, row in zip(lines[4:], intervals(), strict=True):
        tag, start, length, highest, payload = pattern.fullmatch(line).groups()
        assert (tag, float(start), float(length)) == (row.tag, row.start_ns / SECOND - 5, 1.0)
        assert float(highest) == pytest.approx(percentiles_us(row.histogram)["max"] / 1e3, abs=1e-3)
        raw = base64.b64decode(payload, validate=True)
        cookie, size = struct.unpack_from(">II", raw)
        assert (cookie, size) == (0x1C849304 | 0x10, len(raw) - 8)
        inner = zlib.decompress(raw[8:])
        fields = struct.unpack_from(">IIIIQQd", inner)
        assert fields[0] == 0x1C849303 | 0x10 and fields[1] == len(inner) - 40
        assert fields[2:] == (0, DIGITS, LOWEST_NS, HIGHEST_NS, 1.0)


def test_a_log_of_nothing_is_a_log(tmp_path):
    write_hlog(tmp_path / "run.hlog", [], epoch_ns=0)
    assert read(tmp_path / "run.hlog") == []
