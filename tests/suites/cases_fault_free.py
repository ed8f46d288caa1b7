"""What the tests of tiers 0 to 2 must reject, or call unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tests.suites import tampering as t
from tests.suites.cases import (
    BEYOND,
    BROKEN_OFF,
    CONFLICT,
    FAILED,
    GAP,
    LOST,
    NOT_CORRECT_0,
    NOT_CORRECT_COUNT,
    NOT_CORRECT_MERGED,
    NOT_CORRECT_SOME,
    NOT_SEEN,
    ODD,
    STEP_BACK,
    TWICE,
    UNKNOWN_KEY,
    WRONG_TOTAL,
    WRONG_VERDICT,
    Cases,
    unknown_quote,
)
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import UNNUMBERED
from tickproof.conformance.history.rows import PUBLISH
from tickproof.conformance.suites.families.ms_market_spread import BOUNDARIES
from tickproof.generators.layouts import ORDER, QUOTE, VERDICT, in_frames


def before_all_quotes(folder: Path) -> None:
    """Let all verdicts arrive before anything was published."""
    log, arrivals = t.read_output(folder)
    arrivals["t_ns"] = 1
    t.write_output(folder, log, arrivals)


def by_no_quote(folder: Path) -> None:
    """Let every order be rejected at the end, as if no quote had ever been seen."""
    _, arrivals = t.read_output(folder)
    history = History(folder)
    orders = np.concatenate(history.inputs(ORDER, 1))
    verdicts = np.zeros(len(orders), VERDICT)
    verdicts["order_id"], verdicts["symbol"] = orders["order_id"], orders["symbol"]
    verdicts["verdict"] = 1
    last = arrivals[-1:].copy()
    last["index"], last["count"], last["first_seq"] = 0, len(orders), UNNUMBERED
    last["t_ns"] = history.fetches["t_ns"].max()
    t.write_output(folder, in_frames(verdicts), last)


def stale(folder: Path) -> None:
    """Let the last order of a symbol see the symbol's first quote."""
    history = History(folder)
    last = history.inputs(ORDER, 1)[0][-1]
    quotes = history.inputs(QUOTE, 0)[0]
    quote = quotes[quotes["symbol"] == last["symbol"]][0]
    log, arrivals = t.read_output(folder)
    verdicts = t.records(log, VERDICT)
    at = np.flatnonzero(verdicts["order_id"] == last["order_id"])[0]
    for name in ("quote_id", "bid", "offer"):
        verdicts[name][at] = quote[name]
    bid, offer = int(quote["bid"]), int(quote["offer"])
    verdicts["verdict"][at] = offer - bid >= 500 or 40 * (offer - bid) >= bid + offer
    t.write_output(folder, log, arrivals)


def _of_groups(verdicts: np.ndarray, groups: Sequence[str]) -> np.ndarray:
    """Return a mask: the verdicts of groups of boundary symbols, or of a letter of drawn ones."""
    names = np.char.rstrip(verdicts["symbol"]).astype(str)
    in_groups = [np.isin(names, [*BOUNDARIES.get(one, ())]) for one in groups]
    drawn = [np.char.startswith(names, one) for one in groups if one not in BOUNDARIES]
    return np.logical_or.reduce([*in_groups, *drawn])


def wrong_in(*groups: str) -> t.Tamper:
    """Give every order of some groups of boundary symbols the opposite verdict."""

    def change(folder: Path) -> None:
        log, arrivals = t.read_output(folder)
        verdicts = t.records(log, VERDICT)
        wrong = _of_groups(verdicts, groups)
        assert wrong.any()
        verdicts["verdict"][wrong] ^= 1
        t.write_output(folder, log, arrivals)

    return change


def _lost_in(group: str) -> t.Tamper:
    """Lose the outputs of a group of boundary symbols."""

    def change(folder: Path) -> None:
        log, arrivals = t.read_output(folder)
        lost = _of_groups(t.records(log, VERDICT), (group,))
        row = np.repeat(np.arange(len(arrivals)), arrivals["count"])
        arrivals["count"] = np.bincount(row[~lost], minlength=len(arrivals))
        arrivals["index"] = np.cumsum(arrivals["count"]) - arrivals["count"]
        t.write_output(folder, log[~lost].copy(), arrivals[arrivals["count"] > 0])

    return change


def _short_and_refused(folder: Path) -> None:
    """Lose output after a number that was too high: here the refusal is the cause."""
    t.drop_last(folder)
    t.refused(6, "APPEND")(folder)


def _control(folder: Path, change: Callable[[list[dict]], list[dict]]) -> None:
    path = folder / "control.jsonl"
    rows = change([json.loads(line) for line in path.read_text("utf-8").splitlines()])
    t.fresh(path).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _nothing_from_engine(folder: Path) -> None:
    _control(folder, lambda rows: [row for row in rows if row["direction"] == "to"])


def _no_answer_while_draining(folder: Path) -> None:
    _nothing_from_engine(folder)
    t.engine_failure(folder)


def _drain_answered_early(folder: Path) -> None:
    _drain_answered_first(folder)
    t.edited("drained", ended=False)(folder)


def _drain_answered_first(folder: Path) -> None:
    """Let every other answer wait until drain was answered."""

    def change(rows: list[dict]) -> list[dict]:
        requests = [json.loads(row["line"]) for row in rows if row["direction"] == "to"]
        drain = next(request["id"] for request in requests if request["op"] == "drain")
        asked = [request["id"] for request in requests]
        later = asked[asked.index(drain) + 1 :]  # ids may rise or fall
        answers = {json.loads(row["line"])["id"]: row for row in rows if row["direction"] == "from"}
        for number, row in answers.items():
            if number in later:
                row["t_ns"] = max(row["t_ns"], answers[drain]["t_ns"] + 1)
        return rows

    _control(folder, change)


def _published_at_once(folder: Path) -> None:
    """Let all input have been published at the beginning: no quote is old enough."""
    path = folder / "publishes.bin"
    rows = np.fromfile(path, PUBLISH)
    rows["t_ns"] = rows["t_ns"].min()
    rows.tofile(t.fresh(path))


def _asked_at_end(folder: Path) -> None:
    records = History(folder).input_records
    t.edited("drain-asked", published=records)(folder)


def _looks(change, keep: slice = slice(None)) -> t.Tamper:
    """Change the looks at the engine in the stall: (number, row, input) -> fields."""

    def edit(folder: Path) -> None:
        records = History(folder).input_records
        number = 0

        def rows_of(rows: list[dict]) -> list[dict]:
            nonlocal number
            began = next(row["t_ns"] for row in rows if row["event"] == "stall")
            over = next(row["t_ns"] for row in rows if row["event"] == "stall-ended")
            inside = [
                row for row in rows if row["event"] == "progress" and began <= row["t_ns"] <= over
            ]
            for number, row in enumerate(inside):
                row |= change(number, row, records)
            gone = [row for row in inside if row not in inside[keep]]
            return [row for row in rows if row not in gone]

        t.events(folder, rows_of)

    return edit


NOT_FRAMES: Cases = [
    (t.added("truncated", text="cut"), "TRUNCATED"),
    (t.refused(1, "?"), "BAD_FRAME"),
    (t.refused(5, "?"), "TOO_LARGE"),
    FAILED,
]

REJECTS: dict[str, Cases] = {
    # tier 0
    "PR-HELLO:passthrough": [
        (t.in_run(hello=None), "NO_ANSWER"),
        (t.in_run(hello={"name": "x", "version": "1", "protocol": 2}), "BAD_ANSWER"),
    ],
    "PR-DEPLOY:passthrough": [(t.without("deployed"), "NO_ANSWER")],
    "PR-CONTROL-LINES:passthrough": [FAILED],
    "PR-CONTROL-LINES:passthrough-extra-members": [FAILED],
    "PR-TOPOLOGY:passthrough": [
        (t.edited("topology", processes=[]), "BAD_ANSWER"),
        (t.unnamed, "UNNAMED"),
        (t.workers_as("coordinator"), "IDLE_WORKERS"),
        FAILED,
    ],
    "PR-TOKEN:passthrough": [
        (t.added("not-greeted", text="HELLO with a wrong token"), "NOT_GREETED"),
        (t.refused(8, "HELLO"), "NOT_ALLOWED"),
        FAILED,
    ],
    "KA-NAMES:count": [
        (
            t.added("kafka-names", seen=1, groups=["mine"], transactional_ids=[], topics=[]),
            "FOREIGN_NAME",
        ),
        FAILED,
    ],
    "PR-FRAMES:passthrough": NOT_FRAMES,
    "PR-ADDRESSES:passthrough": [
        (t.refused(2), "UNKNOWN_STREAM"),
        (t.refused(4), "BEYOND_END"),
        FAILED,
    ],
    "PR-OPTIONAL-OPS:passthrough": [
        (t.edited("probe-refused", definite=False), "BAD_ANSWER"),
        (t.edited("probe-refused", event="probe-accepted"), "BAD_ANSWER"),
    ],
    "PR-CONCURRENT-ANSWERS:passthrough-drain-first": [
        (_drain_answered_first, "HELD_BACK"),
        (_no_answer_while_draining, "TIMEOUT"),
    ],
    "PR-DRAIN-WAITS:passthrough-drain-first": [
        (t.edited("drained", ended=False), "EARLY_DRAIN"),
        (t.edited("drained", outputs=3), "EARLY_DRAIN"),
        FAILED,
    ],
    "PR-DRAIN:passthrough": [FAILED],
    "PR-DRAIN:idle-worker": [FAILED],
    "PR-STAYS-UP:passthrough": [FAILED],
    "PR-STOP:passthrough": [(t.edited("exited", returncode=3), "BAD_EXIT"), FAILED],
    "PR-STOP:stop-in-drain": [(t.edited("exited", returncode=3), "BAD_EXIT"), FAILED],
    "PR-STDIN-EOF:stdin-eof": [FAILED],
    "PR-NO-LEFTOVERS:passthrough": [
        (t.in_run(left_over=[{"pid": 1234, "name": "worker"}]), "LEFT_OVER"),
        FAILED,
    ],
    "PR-NO-LEFTOVERS:stdin-eof": [
        (t.in_run(left_over=[{"pid": 1234, "name": "worker"}]), "LEFT_OVER"),
        FAILED,
    ],
    "PR-RELEASE:passthrough-drain-first": [(t.refused(3), "RELEASED"), FAILED],
    "PR-SEQUENCE:passthrough-drain-first": [
        GAP,
        CONFLICT,
        (t.refused(8, "APPEND"), "NOT_ALLOWED"),
        (_short_and_refused, "SEQUENCE_GAP"),
        FAILED,
    ],
    "PR-PIECES:passthrough-pieces": NOT_CORRECT_0,
    "PR-EMPTY-INPUT:empty-input": [(t.invent, "invented"), FAILED],
    "PR-EMPTY-PARTITION:empty-partitions": [
        *NOT_CORRECT_0,
        (t.edited("drained", ended=False), "EARLY_DRAIN"),
    ],
    "SL-PASSTHROUGH:passthrough": [*NOT_CORRECT_0, (t.drop_all, "lost")],
    # Every byte occurs, so a wrong one shows as what is missing.
    "SL-PAYLOAD-SIZES:tiny-payloads": [
        (tamper, "lost" if code == "invented" else code) for tamper, code in NOT_CORRECT_0
    ],
    "SL-PAYLOAD-SIZES:short-payloads": NOT_CORRECT_0,
    "SL-PAYLOAD-SIZES:long-payloads": NOT_CORRECT_0,
    "SL-PAYLOAD-SIZES:longer-payloads": NOT_CORRECT_0,
    "SL-PAYLOAD-SIZES:large-payloads": NOT_CORRECT_0,
    "SL-ONE-WORKER:stdin-eof": NOT_CORRECT_0,
    # tier 1
    "SL-DOUBLE:double": NOT_CORRECT_0,
    "SL-DOUBLE-WRAPS:double": NOT_CORRECT_0,
    "ST-TOTALS:count": [WRONG_TOTAL, UNKNOWN_KEY, BEYOND, ODD, FAILED],
    "ST-LAST-POINT:count": [LOST, (t.drop_all, "lost"), FAILED],
    "ST-EVERY-POINT:count": [LOST, TWICE, FAILED],
    "ST-KEY-ORDER:count": [STEP_BACK, FAILED],
    "ST-ALL-KEYS:count-edges": NOT_CORRECT_COUNT,
    "ST-MANY-KEYS:count-many-keys": NOT_CORRECT_COUNT,
    "ST-SILENCE:count-silence": NOT_CORRECT_COUNT,
    "ST-WRAPS:count-edges": [WRONG_TOTAL, FAILED],
    "ST-HOT-KEY:count-hot-key": NOT_CORRECT_COUNT,
    "ST-SOME:count-some": NOT_CORRECT_SOME,
    "ST-LONG-RUN:long-run": NOT_CORRECT_COUNT,
    "DL-COMPLETE:count": [LOST, TWICE, GAP, FAILED],
    "DL-NO-CONFLICT:count": [CONFLICT, FAILED],
    "DL-ACKNOWLEDGED:count-slow-acks": [
        (t.edited("drained", open_acknowledgements=2), "EARLY_DRAIN"),
        (t.late, "EARLY_DRAIN"),
        LOST,
        FAILED,
    ],
    "DL-STAGED:count": [(t.edited("drained", staged_open=1), "STAGED_AT_DRAIN")],
    "DL-STAGED:count-some": [(t.edited("drained", staged_open=1), "STAGED_AT_DRAIN"), FAILED],
    "BP-SLOW-SINK:slow-sink": [
        (_looks(lambda i, row, _: {"rss": row["rss"] + (i << 27)}), "UNBOUNDED"),
        (_looks(lambda _i, _row, records: {"served": records}), "UNBOUNDED"),
        LOST,
        FAILED,
    ],
    "BP-SLOW-SINK:market-two-slow-sink": [
        (_looks(lambda i, row, _: {"rss": row["rss"] + (i << 27)}), "UNBOUNDED"),
        (t.refused(5), "TOO_LARGE"),
        LOST,
        WRONG_VERDICT,
        FAILED,
    ],
    "BP-FAST-SOURCE:fast-source": NOT_CORRECT_COUNT,
    # tier 2
    "MS-MERGED:market-merged-verdicts": NOT_CORRECT_MERGED,
    "MS-MERGED:market-realistic": NOT_CORRECT_MERGED,
    "MS-REJECTS:market-merged-rejects": [LOST, TWICE, WRONG_VERDICT, (t.drop_all, "lost")],
    "MS-STANDARD-MIX:market-standard-mix": [(t.invent, "invented"), FAILED],
    "MS-TWO-STREAMS:market-two-verdicts": [
        LOST,
        WRONG_VERDICT,
        (unknown_quote, "unknown-quote"),
        (before_all_quotes, "from-the-future"),
        FAILED,
    ],
    "MS-TWO-STREAMS:market-two-ends": [
        LOST,
        WRONG_VERDICT,
        (unknown_quote, "unknown-quote"),
        (before_all_quotes, "from-the-future"),
        (partial(t.events, change=t.unread), "EARLY_DRAIN"),
        FAILED,
    ],
    "MS-FRESHNESS:market-two-fresh": [(stale, "stale-quote"), LOST, FAILED],
    "MS-FRESHNESS:market-two-sparse": [(stale, "stale-quote"), LOST, FAILED],
    "MS-TWO-REJECTS:market-two-rejects": [
        (t.drop_all, "must-reject"),
        BROKEN_OFF,
        TWICE,
        (unknown_quote, "unknown-quote"),
        FAILED,
    ],
}
for _group, _name in {
    "absolute": "MS-ABSOLUTE-LIMIT:market-boundaries",
    "ratio": "MS-RATIO-LIMIT:market-boundaries",
    "no-quote": "MS-NO-QUOTE:market-boundaries",
    "odd": "MS-ODD-QUOTES:market-boundaries",
    "alike": "MS-MERGED:market-boundaries",
    "A": "MS-ABSOLUTE-LIMIT:market-drawn-boundaries",
    "R": "MS-RATIO-LIMIT:market-drawn-boundaries",
}.items():
    REJECTS[_name] = [
        (wrong_in(_group), "wrong-verdict"),
        (_lost_in(_group), "lost"),
        # So many others are wrong that the checker keeps none of this group as an example.
        (wrong_in(*BOUNDARIES, "A", "R"), "wrong-verdict"),
        (t.invent, "invented"),
        FAILED,
    ]


def _nothing_published(folder: Path) -> None:
    t.fresh(folder / "publishes.bin").write_bytes(b"")


UNKNOWNS: dict[str, Cases] = {
    "MS-TWO-STREAMS:market-two-verdicts": [(by_no_quote, NOT_SEEN)],
    "MS-TWO-STREAMS:market-two-ends": [(by_no_quote, NOT_SEEN)],
    "MS-TWO-REJECTS:market-two-rejects": [(by_no_quote, NOT_SEEN)],
    "PR-CONTROL-LINES:passthrough": [(_nothing_from_engine, NOT_SEEN)],
    "PR-CONTROL-LINES:passthrough-extra-members": [(_nothing_from_engine, NOT_SEEN)],
    "PR-DRAIN:passthrough": [(t.without("drained"), NOT_SEEN)],
    "PR-DRAIN:idle-worker": [(t.without("drained"), NOT_SEEN)],
    "PR-STAYS-UP:passthrough": [(t.without("exited"), NOT_SEEN)],
    "PR-TOKEN:passthrough": [(t.without("connected"), NOT_SEEN)],
    "PR-FRAMES:passthrough": [(t.without("connected"), NOT_SEEN)],
    "PR-ADDRESSES:passthrough": [(t.without("connected"), NOT_SEEN)],
    "PR-OPTIONAL-OPS:passthrough": [(t.without("probe-refused"), NOT_SEEN)],
    "PR-CONCURRENT-ANSWERS:passthrough-drain-first": [
        (_nothing_from_engine, NOT_SEEN), (_drain_answered_early, NOT_SEEN)
    ],
    "PR-DRAIN-WAITS:passthrough-drain-first": [(_asked_at_end, NOT_SEEN)],
    "PR-STDIN-EOF:stdin-eof": [(t.without("exited"), NOT_SEEN)],
    "PR-STOP:stop-in-drain": [(t.without("drain-asked"), NOT_SEEN)],
    "PR-RELEASE:passthrough-drain-first": [(t.without("connected"), NOT_SEEN)],
    "PR-SEQUENCE:passthrough-drain-first": [(t.without("connected"), NOT_SEEN)],
    "SL-DOUBLE-WRAPS:double": [(t.empty_input, NOT_SEEN)],
    "ST-ALL-KEYS:count-edges": [(t.empty_input, NOT_SEEN)],
    "ST-MANY-KEYS:count-many-keys": [(t.empty_input, NOT_SEEN)],
    "ST-SILENCE:count-silence": [(_nothing_published, NOT_SEEN)],
    "BP-SLOW-SINK:slow-sink": [
        (t.without("stall-ended"), "STALL_TOO_SHORT"),
        (_looks(lambda *_: {}, slice(2)), "STALL_TOO_SHORT"),
        (_looks(lambda i, *_: {"served": i}), "STALL_TOO_SHORT"),
    ],
    "BP-SLOW-SINK:market-two-slow-sink": [
        (t.without("stall-ended"), "STALL_TOO_SHORT"),
        (_looks(lambda *_: {}, slice(2)), "STALL_TOO_SHORT"),
    ],
    "MS-REJECTS:market-merged-rejects": [(t.empty_input, NOT_SEEN)],
    "MS-FRESHNESS:market-two-fresh": [(_published_at_once, NOT_SEEN)],
    "MS-FRESHNESS:market-two-sparse": [(_published_at_once, NOT_SEEN)],
}  # fmt: skip
