"""Records as messages and back: each value survives, and what is none is kept apart."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.apps.count import Count
from tickproof.conformance.apps.double import Double
from tickproof.conformance.apps.market_spread import MarketSpread
from tickproof.conformance.apps.passthrough import Passthrough
from tickproof.conformance.kafka import payloads
from tickproof.generators.layouts import (
    COUNT_IN,
    COUNT_OUT,
    MESSAGE,
    NUMBER,
    ORDER,
    QUOTE,
    VERDICT,
    opaque,
)

U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
SYMBOL = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)


def array(rows: list[tuple], dtype: np.dtype, names: tuple[str, ...]) -> np.ndarray:
    found = np.zeros(len(rows), dtype)
    for number, row in enumerate(rows):
        for name, value in zip(names, row, strict=True):
            found[name][number] = value
    return found


@given(st.lists(st.tuples(U64, I64), max_size=20))
def test_count_goes_in_as_it_is(rows: list[tuple[int, int]]) -> None:
    made = Count({}).messages(array(rows, COUNT_IN, ("key", "value")))
    assert list(made.keys) == [str(key).encode() for key, _ in rows]
    assert [json.loads(value) for value in made.values] == [{"k": k, "v": v} for k, v in rows]


@given(st.lists(st.tuples(U64, U64, I64), max_size=20))
def test_count_comes_out_as_it_is(rows: list[tuple[int, int, int]]) -> None:
    said = [json.dumps({"total": t, "n": n, "k": k, "more": [1]}).encode() for k, n, t in rows]
    found = payloads.outputs(Count({}), COUNT_OUT.itemsize, said)
    assert not found.odd
    assert (found.payloads["payload"] == array(rows, COUNT_OUT, ("key", "n", "total"))).all()
    assert (found.payloads["size"] == COUNT_OUT.itemsize).all()


@given(st.lists(I64, max_size=20))
def test_double(values: list[int]) -> None:
    records = array([(value,) for value in values], NUMBER, ("x",))
    made = Double({}).messages(records)
    assert set(made.keys) <= {None}
    found = payloads.outputs(Double({}), NUMBER.itemsize, made.values)
    assert (found.payloads["payload"] == records).all()


@given(st.integers(0, 40), st.lists(st.binary(min_size=40, max_size=40), max_size=8))
def test_passthrough_of_any_size(size: int, values: list[bytes]) -> None:
    records = np.array([value[:size] for value in values], opaque(size)["bytes"])
    records = records.view(opaque(size)) if size else np.zeros(len(values), opaque(0))
    made = Passthrough({}).messages(records)
    found = payloads.outputs(Passthrough({}), size, made.values)
    assert len(found.payloads) == len(values)
    assert found.payloads["payload"].tobytes() == records.tobytes()


@given(st.lists(st.tuples(st.booleans(), SYMBOL, U64, U64, I64), max_size=12))
def test_market_messages(rows: list[tuple[bool, str, int, int, int]]) -> None:
    records = np.zeros(len(rows), MESSAGE)
    for number, (is_quote, symbol, id_, event_ns, price) in enumerate(rows):
        one = records[number : number + 1].view(QUOTE if is_quote else ORDER)
        one["kind"], one["symbol"] = (2 if is_quote else 1), symbol.ljust(8).encode()
        one["event_ns"] = event_ns
        one["quote_id" if is_quote else "order_id"] = id_
        one["bid" if is_quote else "price"] = price
        if not is_quote:
            one["side"] = 1
    made = MarketSpread({}).messages(records)
    for (is_quote, symbol, id_, event_ns, price), key, value in zip(
        rows, made.keys, made.values, strict=True
    ):
        said = json.loads(value)
        assert key == symbol.encode()
        assert (said["symbol"], said["event_ns"]) == (symbol, event_ns)
        if is_quote:
            assert (said["kind"], said["quote_id"], said["bid"]) == ("quote", id_, price)
        else:
            assert (said["kind"], said["order_id"], said["price"]) == ("order", id_, price)
            assert said["side"] == "buy"


@given(st.lists(st.tuples(U64, SYMBOL, U64, I64, I64, st.integers(0, 255)), max_size=12))
def test_verdicts(rows: list[tuple]) -> None:
    names = ("order_id", "symbol", "quote_id", "bid", "offer", "verdict")
    said = [json.dumps(dict(zip(names, row, strict=True))).encode() for row in rows]
    found = payloads.outputs(MarketSpread({}), VERDICT.itemsize, said)
    padded = [(row[0], row[1].ljust(8).encode(), *row[2:]) for row in rows]
    assert not found.odd
    assert found.payloads["payload"].tobytes() == array(padded, VERDICT, names).tobytes()


GOOD = b'{"k":1,"n":2,"total":3}'


@pytest.mark.parametrize(
    "odd",
    [
        b"", b"hello", b"[1]", b'{"k":1,"n":2}', b'{"k":1,"n":2,"total":null}',
        b'{"k":1.5,"n":2,"total":3}', b'{"k":-1,"n":2,"total":3}', b'{"k":"1","n":2,"total":3}',
        b'{"k":18446744073709551616,"n":2,"total":3}', GOOD + GOOD, GOOD + b"\n" + GOOD,
        GOOD[:-1], b'\xff{"k":1,"n":2,"total":3}', b'{"k":1,"n":2,"total":9223372036854775808}',
    ],
)  # fmt: skip
def test_what_is_no_point_is_kept_apart_and_nothing_else(odd: bytes) -> None:
    found = payloads.outputs(Count({}), COUNT_OUT.itemsize, [GOOD, odd, GOOD])
    assert found.odd == (odd,)
    assert found.payloads["payload"]["total"].tolist() == [3, 3]


@pytest.mark.parametrize("odd", ['{"data":"0a"}', '{"data":"zz"}', '{"data":"0a0"}', '{"data":1}'])
def test_data_of_another_size_is_odd(odd: str) -> None:
    found = payloads.outputs(Passthrough({}), 2, [b'{"data":"0a0b"}', odd.encode()])
    assert len(found.payloads) == 1
    assert found.odd == (odd.encode(),)


def test_white_space_in_a_message_is_none() -> None:
    said = [GOOD, b'{\n "k": 1,\n"n":2,"total":3\n}']
    found = payloads.outputs(Count({}), COUNT_OUT.itemsize, said)
    assert len(found.payloads) == 2


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_no_message_is_lost_whatever_it_holds(values: list[bytes]) -> None:
    found = payloads.outputs(Count({}), COUNT_OUT.itemsize, values)
    assert len(found.payloads) + len(found.odd) == len(values)


def test_the_first_output_waits_for_no_library() -> None:
    """What pyarrow makes numbers with imports pandas: seconds in which nothing is recorded."""
    program = (
        "import sys\n"
        "from tickproof.conformance.apps.count import Count\n"
        "from tickproof.conformance.kafka import payloads\n"
        "before = set(sys.modules)\n"
        'found = payloads.outputs(Count({}), 24, [b\'{"k":1,"n":2,"total":-3}\'])\n'
        "assert found.payloads['payload'].tolist() == [(1, 2, -3)], found\n"
        "print(len({one.partition('.')[0] for one in set(sys.modules) - before}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
