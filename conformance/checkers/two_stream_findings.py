"""Findings of the two-stream checker in words."""

from __future__ import annotations

from typing import Any

from tickproof.conformance.checkers.delivery import place
from tickproof.conformance.checkers.findings import Finding
from tickproof.conformance.checkers.market_rule import ANSWER, content, show_answer, symbol_text
from tickproof.conformance.history.outputs import OutputLog


def explain_two(
    outputs: OutputLog, partitions: int, kind: str, at: int, row: dict[str, Any]
) -> Finding:
    """Make a finding of a sighting; ``at``: an output, or offset * partitions + partition."""
    if kind in ("lost", "must-reject"):
        return _of_order(partitions, kind, at, row)
    answer = row["answer"]
    actual = show_answer(answer)
    where = place(outputs, at) | {
        "order_id": int(answer["order_id"]),
        "symbol": symbol_text(answer["symbol"]),
    }
    if "order_at" in row:
        where["offset"], where["partition"] = divmod(int(row["order_at"]), partitions)
    if "first" in row:
        index = int(row["first"])
        first = outputs.payloads[index : index + 1].copy().view(ANSWER)[0]
        text = f"order {answer['order_id']}: output {index}, and again output {at}"
        where["first_index"] = index
        return Finding(kind, text, f"{show_answer(first)}, once", actual, where)
    text, expected = _words(kind, row)
    return Finding(kind, f"output {at}: {text}", expected, actual, where)


def _words(kind: str, row: dict[str, Any]) -> tuple[str, str]:
    """Return (summary, expected) of a finding about one output."""
    answer, right = row["answer"], row.get("right")
    named = f"quote {answer['quote_id']}"
    if kind == "malformed":
        tail = int(answer["tail"]).to_bytes(8, "little")[1:].hex()
        return f"the 7 bytes after the verdict are {tail}", "7 zero bytes"
    if kind == "unknown-quote":
        symbol = symbol_text(right["symbol"])
        return f"{named} is no quote of {symbol}", f"a quote of {symbol}"
    if kind == "from-the-future":
        late = int(row["published"]) - int(row["arrived"])
        return (
            f"{named} was published {late} ns after the verdict arrived",
            f"a quote published by {row['arrived']} ns",
        )
    if kind == "stale-quote":
        return (
            f"{named} is {row['behind']} quotes behind: quote {right['quote_id']} was fetched "
            "long enough before the order was published",
            f"quote {right['quote_id']} or a later one",
        )
    if kind == "went-back":
        after = row["after"]
        return (
            f"{named} stands before quote {after['quote_id']}, which the earlier order "
            f"{after['order_id']} of the symbol saw",
            f"quote {after['quote_id']} or a later one",
        )
    if right is None:
        return (
            f"answers order {answer['order_id']}, which is not in the input",
            "an order of the input",
        )
    if answer["symbol"] != right["symbol"]:
        wanted = symbol_text(right["symbol"])
        return f"symbol {symbol_text(answer['symbol'])} for an order of {wanted}", wanted
    if kind == "invented":
        return "an accepted order gives no output under emit rejects", "no output"
    return content(right, answer), show_answer(right)


def _of_order(partitions: int, kind: str, at: int, row: dict[str, Any]) -> Finding:
    """Make a finding about an order without output."""
    offset, partition = divmod(at, partitions)
    order, symbol = int(row["order_id"]), symbol_text(row["symbol"])
    where: dict[str, int | str] = {
        "order_id": order,
        "symbol": symbol,
        "partition": partition,
        "offset": offset,
    }
    if kind == "lost":
        text = f"order {order} of {symbol} has no verdict"
        return Finding(kind, text, "a verdict", "no output", where)
    before = row["before"]
    if int(before["order_id"]):
        limit = f"up to quote {before['quote_id']}, which the later order {before['order_id']} saw,"
    else:
        limit = "to the end of the stream"
    text = f"order {order} of {symbol}: no quote that it may have seen {limit} accepts it"
    return Finding(kind, text, "a reject", "no output, as if accepted", where)
