import numpy as np
import pytest

from tickproof.generators.files import (
    write_chunks,
    write_keyed,
    write_market,
    write_numbers,
    write_orders,
    write_quotes,
)
from tickproof.generators.layouts import COUNT_IN, MESSAGE, NUMBER, ORDER, QUOTE, framed
from tickproof.generators.market import Market, MarketParams
from tickproof.generators.numbers import Keyed, KeyedParams, Numbers

PARAMS = MarketParams(messages=40_000, symbols=17)


@pytest.mark.parametrize(
    ("write", "layout", "expected"),
    [
        (write_market, MESSAGE, Market(PARAMS).messages),
        (write_quotes, QUOTE, Market(PARAMS).quotes),
        (write_orders, ORDER, Market(PARAMS).orders),
    ],
)
def test_market_files_hold_the_stream(tmp_path, write, layout, expected):
    seen = []
    path = tmp_path / "out.log"
    assert write(PARAMS, path, seen.append) == 40_000
    assert np.fromfile(path, framed(layout)).tobytes() == expected(0, 40_000).tobytes()
    assert seen == sorted(seen) and seen[-1] == 40_000 and len(seen) > 1


def test_number_files_hold_the_stream(tmp_path):
    path = tmp_path / "out.log"
    assert write_numbers(30_000, path, seed=4) == 30_000
    assert np.fromfile(path, framed(NUMBER)).tobytes() == Numbers(4).records(0, 30_000).tobytes()
    params = KeyedParams(seed=4)
    assert write_keyed(params, 30_000, path) == 30_000
    assert (
        np.fromfile(path, framed(COUNT_IN)).tobytes() == Keyed(params).records(0, 30_000).tobytes()
    )


def test_a_failure_leaves_the_old_file_and_no_part(tmp_path):
    path = tmp_path / "out.log"
    path.write_bytes(b"old")

    def broken():
        yield Numbers(1).records(0, 10)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_chunks(broken(), path, None)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
