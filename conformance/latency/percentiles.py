"""HdrHistograms filled by whole arrays, percentiles that are never too low, and .hlog files.

Three ways of package hdrhistogram 0.10.8 are kept out of figures: a value out of range is
dropped without an error, a percentile of nothing is 0, and the rank behind a percentile is
rounded, so that fewer values than promised may lie under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from hdrh.histogram import HdrHistogram

LOWEST_NS: Final = 1
HIGHEST_NS: Final = 3_600_000_000_000
DIGITS: Final = 3
#: Name of a percentile -> its share of the values, in ten-thousandths.
PERCENTILES: Final[Mapping[str, int]] = MappingProxyType({
    "p50": 5_000, "p90": 9_000, "p95": 9_500, "p99": 9_900, "p99.9": 9_990, "p99.99": 9_999,
    "max": 10_000,
})  # fmt: skip
_WHOLE: Final = 10_000
#: Values that are counted at once: their intermediate arrays fit into a cache.
_PIECE: Final = 1 << 16
_FORMAT: Final = "1.3"


@dataclass(frozen=True)
class Interval:
    """The values of one interval and one phase. Times: monotonic nanoseconds.

    tag: without commas and spaces.
    """

    start_ns: int
    length_ns: int
    tag: str
    histogram: HdrHistogram


def histogram(values_ns: np.ndarray) -> HdrHistogram:
    """Return the histogram of latencies in nanoseconds: 1 ns to 1 h, 3 digits.

    It equals one filled by ``record_value``. Raises ValueError for a value below 0 or
    beyond an hour.
    """
    made = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    values = np.asarray(values_ns, np.int64)
    if not len(values):
        return made
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > HIGHEST_NS:
        wrong = low if low < 0 else high
        raise ValueError(f"latency of {wrong} ns: expected 0 to {HIGHEST_NS} ns")
    counts = _counts(made)
    for start in range(0, len(values), _PIECE):
        index = _indexes(made, values[start : start + _PIECE])
        found = np.bincount(index)
        counts[: len(found)] += found.astype(np.uint64)
    made.total_count, made.min_value, made.max_value = len(values), low, high
    return made


def _counts(made: HdrHistogram) -> np.ndarray:
    """Return the counters of a histogram (u8), not a copy of them."""
    return np.frombuffer(made.counts, np.uint64)


def _indexes(made: HdrHistogram, values: np.ndarray) -> np.ndarray:
    """Return the counter of each value: its highest bits, as many as the precision asks for."""
    # Exact: a float holds every integer below 2^53, and an hour has 3.6e12 nanoseconds.
    _, bits = np.frexp((values | made.sub_bucket_mask).astype(np.float64))
    half = made.sub_bucket_half_count_magnitude
    bucket = bits.astype(np.int64) - (made.unit_magnitude + half + 1)
    base = (bucket + 1) << half
    return base + (values >> (bucket + made.unit_magnitude)) - made.sub_bucket_half_count


def percentiles_us(values: np.ndarray | HdrHistogram) -> dict[str, float]:
    """Return PERCENTILES in microseconds, of latencies in nanoseconds or their histogram.

    A percentile is the smallest recorded value with at least its share of the values at or
    below it, rounded up by the histogram's precision (a thousandth). Raises ValueError
    where there are no values.
    """
    made = values if isinstance(values, HdrHistogram) else histogram(values)
    # A decoded histogram has as many counters as it needs; the others are 0.
    totals = np.cumsum(_counts(made), dtype=np.int64)
    count = int(totals[-1])
    if not count:
        raise ValueError("percentiles of no values")
    shares = np.array(list(PERCENTILES.values()))
    at = np.searchsorted(totals, -(-count * shares // _WHOLE))
    return {
        name: made.get_highest_equivalent_value(made.get_value_from_index(int(index))) / 1_000
        for name, index in zip(PERCENTILES, at, strict=True)
    }


def write_hlog(path: Path, intervals: Iterable[Interval], *, epoch_ns: int) -> None:
    """Write intervals in the log format of HdrHistogram (1.3), in order of time.

    ``epoch_ns``: nanoseconds from 1970 to the zero of the monotonic clock. Values are in
    nanoseconds, the column Interval_Max in milliseconds as is the custom. Raises OSError.
    """
    rows = sorted(intervals, key=lambda row: row.start_ns)
    start_ns = rows[0].start_ns if rows else 0
    start_s = (epoch_ns + start_ns) / 1e9
    date = datetime.fromtimestamp(start_s, UTC).isoformat(" ", "milliseconds")
    lines = [
        f"#[Histogram log format version {_FORMAT}]",
        f"#[BaseTime: {start_s:.3f} (seconds since epoch)]",
        f"#[StartTime: {start_s:.3f} (seconds since epoch), {date}]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    # By hand: the package's writer knows no tags, cuts the maximum to whole milliseconds,
    # and fails on a start time.
    for row in rows:
        made = row.histogram
        lines.append(
            f"Tag={row.tag},{(row.start_ns - start_ns) / 1e9:.3f},{row.length_ns / 1e9:.3f},"
            f"{made.get_max_value() / 1e6:.3f},{made.encode().decode('ascii')}"
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
