from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.bench import kit, kit_peer
from tickproof.conformance.checkers.findings import Finding, Findings
from tickproof.conformance.reports import style
from tickproof.generators.layouts import MESSAGE, ORDER, QUOTE
from tickproof.generators.market import Market, MarketParams

MESSAGES = 20_000


def slow_verdicts(messages):
    """Answer a merged market one message at a time."""
    latest, answers = {}, []
    for raw in messages:
        data = raw.tobytes()
        if data[0] == 2:
            quote = np.frombuffer(data, QUOTE)[0]
            latest[data[4:12]] = tuple(int(quote[n]) for n in ("quote_id", "bid", "offer"))
            continue
        quote_id, bid, offer = latest.get(data[4:12], (0, 0, 0))
        reject = quote_id == 0 or offer - bid >= 500 or 40 * (offer - bid) >= bid + offer
        order_id = int(np.frombuffer(data, ORDER)[0]["order_id"])
        answers.append(
            struct.pack("<Q8sQqqB7x", order_id, data[4:12], quote_id, bid, offer, reject)
        )
    return b"".join(answers)


@given(st.lists(st.integers(0, 600), max_size=6), st.integers(1, 20), st.integers(0, 3))
def test_the_peer_answers_like_a_slow_engine_whatever_the_pieces(cuts, symbols, one_in):
    params = MarketParams(messages=600, symbols=symbols, reject_one_in=one_in, seed=len(cuts))
    messages = Market(params).messages(0, 600)["payload"].copy()
    engine = kit_peer.Market()
    pieces = np.split(messages, sorted(cuts))

    answers = b"".join(engine.verdicts(piece).tobytes() for piece in pieces if len(piece))
    assert answers == slow_verdicts(messages)


def test_orders_before_any_quote_are_rejected():
    order = np.zeros(1, ORDER)
    order["kind"], order["symbol"], order["order_id"] = 1, b"A       ", 5
    answer = kit_peer.Market().verdicts(order.view(MESSAGE))

    assert (answer["quote_id"][0], answer["verdict"][0]) == (0, 1)


def test_a_whole_run_is_served_recorded_and_checked():
    run = kit.whole_run(MESSAGES)

    assert run["events"] == MESSAGES
    assert run["seconds"] > 0
    assert run["peak_bytes"] > 2**20


def test_a_checker_that_finds_fault_stops_the_bench(monkeypatch):
    found = Findings(checked=1)
    found.add(Finding("lost", "an order without an answer", "one", "none"))
    monkeypatch.setattr(kit, "check_merged", lambda *_: found)

    with pytest.raises(RuntimeError, match="an order without an answer"):
        kit.whole_run(MESSAGES)


def test_every_figure_is_measured_and_reported(monkeypatch, capsys):
    measure = kit.measure
    monkeypatch.setattr(kit, "ROUNDS", 1)
    monkeypatch.setattr(kit, "measure", lambda: measure(MESSAGES, MESSAGES))
    kit.report(style.console(), as_json=True)

    document = json.loads(capsys.readouterr().out)
    assert {f["unit"] for f in document["figures"]} == {
        "messages/s", "records/s", "outputs/s", "events/s", "MiB"
    }  # fmt: skip
    assert all(figure["value"] > 0 for figure in document["figures"])
    assert {"cpu", "cpus", "python"} <= document["machine"].keys()


def test_a_missed_target_shows():
    assert not kit.Figure("x", 1, "y", 2).met
    assert kit.Figure("x", 1, "y", 2, at_most=True).met
    assert not kit.Figure("x", 3, "y", 2, at_most=True).met
