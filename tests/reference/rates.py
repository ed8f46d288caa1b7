"""The reference beside others on one market: `python -m tests.reference.rates [MESSAGES]`.

It prints the tables of reference/README.md and docs/figures.md. The reference is measured by
`tickproof bench engines`: it reads from the log, keeps checkpoints, and is judged. The others have
all records in memory, or in Parquet, keep nothing on disk, and have to find as many rejects as a
loop in Python does. bytewax comes with the extra `engines`, csp by `pip install csp`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.conformance.resources import fixtures
from tickproof.generators.market import Market, MarketParams
from tickproof.reference.apps.market_spread import MESSAGE, ORDER_KIND, QUOTE_KIND

MESSAGES: Final = 20_000_000
SYMBOLS: Final = 350
CHUNK: Final = 100_000
#: Records a second where batches and a death are timed.
PACE: Final = 50_000
RULE: Final = "q is null or q.offer - q.bid >= 500 or 40 * (q.offer - q.bid) >= q.bid + q.offer"
SQL: Final = f"""
select count(*) from (
    select kind, last_value(if(kind = {QUOTE_KIND}, struct(bid, offer), null), true)
        over (partition by symbol order by at) as q
    from market
) where kind = {ORDER_KIND} and ({RULE})
"""

Quote = tuple[int, int] | None
Message = tuple[int, int, int, int]  #: kind, symbol, bid, offer


def rejected(quote: Quote) -> bool:
    """Apply the rule of Market Spread to the newest quote of a symbol."""
    if quote is None:
        return True
    bid, offer = quote
    return offer - bid >= 500 or 40 * (offer - bid) >= bid + offer


def columns(messages: int) -> dict[str, np.ndarray]:
    """Return the fields of a market that the rule reads."""
    market = Market(MarketParams(messages, symbols=SYMBOLS)).messages(0, messages).view(MESSAGE)
    fields = ("kind", "symbol", "bid", "offer")
    return {name: market[name].astype(np.int64) for name in fields}


def objects(market: dict[str, np.ndarray]) -> list[Message]:
    """Return the messages as Python has them."""
    return list(zip(*(column.tolist() for column in market.values()), strict=True))


# -- each returns (rejects, seconds) ---------------------------------------------------


def loop(market: dict[str, np.ndarray]) -> tuple[int, float]:
    """Run the rule as a loop in Python: no engine, what the others are checked by."""
    messages, quotes, found = objects(market), dict[int, Quote](), 0
    began = time.perf_counter()
    for kind, symbol, bid, offer in messages:
        if kind == QUOTE_KIND:
            quotes[symbol] = bid, offer
        else:
            found += rejected(quotes.get(symbol))
    return found, time.perf_counter() - began


def bytewax(market: dict[str, np.ndarray]) -> tuple[int, float]:
    """Run a stateful map by symbol; chunks come in one item, as from a batching source."""
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    def judge(quote: Quote, message: Message) -> tuple[Quote, list[Message]]:
        kind, _, bid, offer = message
        if kind == QUOTE_KIND:
            return (bid, offer), []
        return quote, [message] if rejected(quote) else []

    messages, out = objects(market), list[Any]()
    chunks = [messages[at : at + CHUNK] for at in range(0, len(messages), CHUNK)]
    flow = Dataflow("market-spread")
    many = op.input("in", flow, TestingSource(chunks))
    keyed = op.flat_map("key", many, lambda chunk: [(str(one[1]), one) for one in chunk])
    op.output("out", op.stateful_flat_map("judge", keyed, judge), TestingSink(out))
    began = time.perf_counter()
    run_main(flow)
    return len(out), time.perf_counter() - began


def csp(market: dict[str, np.ndarray]) -> tuple[int, float]:
    """Run a node of csp over four series that tick together."""
    import csp
    from csp import ts

    @csp.node
    def judged(kind: ts[int], symbol: ts[int], bid: ts[int], offer: ts[int]) -> ts[int]:
        with csp.state():
            s_quotes = {}
        if csp.ticked(kind):
            if kind == QUOTE_KIND:
                s_quotes[symbol] = (bid, offer)
            elif rejected(s_quotes.get(symbol)):
                return symbol

    start, count = datetime(2024, 1, 2), len(market["kind"])
    times = np.datetime64(start, "ns") + np.arange(count).astype("timedelta64[us]")
    series = [(times, column) for column in market.values()]

    def graph() -> None:
        csp.add_graph_output("rejects", judged(*(csp.curve(int, one) for one in series)))

    began = time.perf_counter()
    made = csp.run(graph, starttime=start, endtime=start + timedelta(microseconds=count))
    return len(made["rejects"]), time.perf_counter() - began


def sql(market: dict[str, np.ndarray]) -> tuple[int, float]:
    """Run a window of Spark's SQL over Parquet, in batch; the second of two runs."""
    import pyarrow as pa
    from pyarrow import parquet
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/market.parquet"
        table = pa.table({"at": np.arange(len(market["kind"])), **market})
        parquet.write_table(table, path, row_group_size=10 * CHUNK)
        del table
        settings = {"ui.enabled": "false", "driver.memory": "4g", "log.level": "ERROR"}
        builder = SparkSession.builder.master("local[2]")
        for key, value in settings.items():
            builder = builder.config(f"spark.{key}", value)
        with builder.getOrCreate() as spark:
            spark.read.parquet(path).createOrReplaceTempView("market")
            for _ in range(2):
                began = time.perf_counter()
                found = spark.sql(SQL).first()
                took = time.perf_counter() - began
    assert found is not None
    return found[0], took


#: Name -> what is measured, and which part of the messages it gets: a tenth where each record is an
#: object of Python.
OTHERS: Final[dict[str, tuple[Callable[[dict[str, np.ndarray]], tuple[int, float]], int]]] = {
    "loop": (loop, 10), "bytewax": (bytewax, 10), "csp": (csp, 10), "sql": (sql, 4),
}  # fmt: skip


def beside(name: str, messages: int) -> None:
    """Measure one of OTHERS, in a process of its own, and print it."""
    market = columns(messages)
    measured, _ = OTHERS[name]
    found, took = measured(market)
    expected, _ = loop(market)
    assert found == expected, f"{name}: expected {expected} rejects, got {found}"
    print(messages / took / 1e6)


# -- the reference ---------------------------------------------------------------------


def benched(engine: str, folder: Path, *options: object) -> dict[str, Any]:
    """Return bench.json of the kit's own bench; raises if a run was not measured."""
    command: list[object] = [sys.executable, "-m", "tickproof", "bench", "engines", engine]
    command += ["--out", folder, "--symbols", SYMBOLS, *options]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    (path,) = folder.rglob("bench.json")
    return json.loads(path.read_text())["engines"][0]


def nothing_ahead(folder: Path) -> str:
    """Write engine.toml of the reference that decides nothing where records are read."""
    here = fixtures() / "engines" / "spark"
    text = (here / "engine.toml").read_text().replace("{here}", str(here))
    changed = text.replace('adapter.py"]', 'adapter.py", "--no-combine"]')
    assert changed != text
    (folder / "engine.toml").write_text(changed)
    return str(folder / "engine.toml")


def rate(bench: dict[str, Any], app: str) -> float:
    """Return millions of records a second."""
    (row,) = (row for row in bench["apps"] if row["app"] == app)
    return row["rate"]["median"] / 1e6


def main(messages: int) -> None:
    """Print both tables."""
    with tempfile.TemporaryDirectory(prefix="tickproof-rates-") as name:
        folder = Path(name)
        steady = ("--messages", messages, "--no-latency", "--kill", "none", "--keys", SYMBOLS)
        apps = ("--app", "passthrough,count,market-spread")
        whole = benched("spark", folder / "whole", *steady, *apps)
        plain = benched(nothing_ahead(folder), folder / "plain", *steady, "--app", "market-spread")
        paced = ("--messages", messages // 10, "--kill", "engine", "--pace", PACE, "--app", "count")
        (death,) = benched("spark", folder / "killed", *paced, "--keys", SYMBOLS)["kills"]
    rates = {
        "the reference": rate(whole, "market-spread"),
        "the same, nothing decided ahead": rate(plain, "market-spread"),
    }
    for other, (_, share) in OTHERS.items():
        command = [sys.executable, "-m", "tests.reference.rates"]
        command += [other, str(messages // share)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rates[other] = float(done.stdout.split()[-1])
    print("| Market Spread | million messages/s | to the reference |\n|---|---|---|")
    for name, found in rates.items():
        print(f"| {name} | {found:.2f} | {found / rates['the reference']:.2f} |")
    print("\n| the reference, otherwise | |\n|---|---|")
    for app in ("passthrough", "count"):
        print(f"| {app}, million records/s | {rate(whole, app):.2f} |")
    batch, silent = death["usual_release_s"]["median"], death["output_s"]["median"]
    print(f"| count, longest batch at {PACE:,} records/s, ms | {1000 * batch:.0f} |")
    print(f"| count, output again after the driver's death, s | {silent:.1f} |")


if __name__ == "__main__":
    *other, count = sys.argv[1:] or [str(MESSAGES)]
    if other:
        beside(other[0], int(count))
    else:
        main(int(count))
