"""A record that makes no sense is refused by place, or buried by name; never skipped."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.reference.api.layouts import new
from tickproof.reference.apps import count, double, market_spread
from tickproof.reference.compiler.steps import RecordError, decoded
from tickproof.reference.compiler.streaming import rows_of
from tickproof.reference.connectors.wire import Chunk

MARKET = market_spread.merged("verdicts").pipelines[0].source
SYMBOL = int.from_bytes(b"ABC     ", "little")


def messages(number: int) -> np.ndarray:
    """Return quotes with ids from 1."""
    records = new(number, market_spread.MESSAGE)
    records["kind"], records["symbol"] = 2, SYMBOL
    records["id"] = np.arange(1, number + 1)
    return records


def chunk(records: np.ndarray, base: int = 100) -> Chunk:
    return Chunk(base, len(records), records.tobytes())


def symbol(text: bytes) -> int:
    return int.from_bytes(text, "little")


KIND = "expected kind 1 (order) or 2 (quote), got "
LETTERS = "expected a symbol of eight ASCII letters, got "
WRONG = {
    "kind 0": ("kind", 0, KIND + "0"),
    "kind 3": ("kind", 3, KIND + "3"),
    "no symbol": ("symbol", symbol(b" " * 8), LETTERS + repr(b" " * 8)),
    "zeros": ("symbol", 0, LETTERS + repr(bytes(8))),
    "not ASCII": ("symbol", symbol(b"ABC\xc3\xa9   "), LETTERS + repr(b"ABC\xc3\xa9   ")),
}


@pytest.mark.parametrize(("name", "value", "text"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("place", [0, 6, 9])
def test_a_wrong_message_is_refused_by_its_place(name, value, text, place):
    records = messages(10)
    records[name][place:] = value  # the first wrong one is named
    text = f"stream 0, partition 3, offset {100 + place}: {text}"
    with pytest.raises(RecordError, match=f"^{re.escape(text)}$"):
        decoded(MARKET, 3, chunk(records))


@pytest.mark.parametrize(
    ("application", "size", "text"),
    [
        (double.application(), 9, "expected a payload of 8 bytes, got 9"),
        (count.application("every"), 8, "expected a payload of 16 bytes, got 8"),
        (market_spread.merged("rejects"), 51, "expected a payload of 52 bytes, got 51"),
        (market_spread.merged("rejects"), 0, "expected a payload of 52 bytes, got 0"),
    ],
)
def test_a_record_of_another_size_is_refused_by_its_place(application, size, text):
    wrong = Chunk(7, 1, size.to_bytes(4, "little") + bytes(size))
    text = f"stream 0, partition 2, offset 7: {text}"
    with pytest.raises(RecordError, match=f"^{re.escape(text)}$"):
        list(rows_of(application, 0, 2, [wrong]))


def test_orders_are_checked_in_a_stream_of_their_own():
    orders = market_spread.two_streams("rejects").pipelines[1].source
    with pytest.raises(RecordError, match=r"^stream 1, partition 0, offset 100: expected kind"):
        decoded(orders, 0, chunk(new(1, market_spread.MESSAGE)))


@settings(deadline=None)
@given(st.integers(1, 30), st.data())
def test_wrong_records_are_buried_and_all_others_go_on(tmp_path_factory, number, data):
    folder = tmp_path_factory.mktemp("dead")
    source = replace(MARKET, dead_letters=str(folder / "letters"))
    records = messages(number)
    wrong = data.draw(st.sets(st.integers(0, number - 1)))
    for place in wrong:
        name, value, _ = data.draw(st.sampled_from(list(WRONG.values())))
        records[name][place] = value
    expected = {f"0-3-{100 + place}.bin": records[place].tobytes() for place in wrong}
    good = [place + 1 for place in range(number) if place not in wrong]
    for _ in range(2):  # a replay makes the same files
        assert decoded(source, 3, chunk(records))[0]["id"].tolist() == good
        assert {p.name: p.read_bytes() for p in folder.glob("letters/*")} == expected


def test_a_record_of_another_size_is_buried(tmp_path):
    source = replace(MARKET, dead_letters=str(tmp_path))
    wrong = (51).to_bytes(4, "little") + bytes(range(51))
    for _ in range(2):
        assert len(decoded(source, 0, Chunk(5, 1, wrong))[0]) == 0
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"0-0-5.bin": wrong}


def test_without_wrong_records_no_folder_is_made(tmp_path):
    source = replace(MARKET, dead_letters=str(tmp_path / "letters"))
    assert len(decoded(source, 0, chunk(messages(4)))[0]) == 4
    assert not (tmp_path / "letters").exists()
