"""What the tests of tiers 0 to 2 must reject, or call unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.suites import tampering as t
from tests.suites.cases import (
    BEYOND,
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
from tickproof.conformance.history.rows import PUBLISH
from tickproof.conformance.suites.catalog.fault_free import BOUNDARIES
from tickproof.generators.layouts import ORDER, QUOTE, VERDICT


def before_all_quotes(folder: Path) -> None:
    """Let all verdicts arrive before anything was published."""
    log, arrivals = t.read_output(folder)
    arrivals["t_ns"] = 1
    t.write_output(folder, log, arrivals)


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


def wrong_in(*groups: str) -> t.Tamper:
    """Give every order of some groups of boundary symbols the opposite verdict."""

    def change(folder: Path) -> None:
        log, arrivals = t.read_output(folder)
        verdicts = t.records(log, VERDICT)
        symbols = [name.encode() for group in groups for name in BOUNDARIES[group]]
        wrong = np.isin(np.char.rstrip(verdicts["symbol"]), symbols)
        assert wrong.any()
        verdicts["verdict"][wrong] ^= 1
        t.write_output(folder, log, arrivals)

    return change


def _lost_in(group: str) -> t.Tamper:
    """Lose the outputs of a group of boundary symbols."""

    def change(folder: Path) -> None:
        log, arrivals = t.read_output(folder)
        symbols = [name.encode() for name in BOUNDARIES[group]]
        lost = np.isin(np.char.rstrip(t.records(log, VERDICT)["symbol"]), symbols)
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


def _drain_answered_first(folder: Path) -> None:
    """Let every other answer wait until drain was answered."""

    def change(rows: list[dict]) -> list[dict]:
        requests = [json.loads(row["line"]) for row in rows if row["direction"] == "to"]
        drain = next(request["id"] for request in requests if request["op"] == "drain")
        answers = {json.loads(row["line"])["id"]: row for row in rows if row["direction"] == "from"}
        for number, row in answers.items():
            if number > drain:
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
    "test_hello_is_answered": [
        (t.in_run(hello=None), "NO_ANSWER"),
        (t.in_run(hello={"name": "x", "version": "1", "protocol": 2}), "BAD_ANSWER"),
    ],
    "test_deploy_is_answered": [(t.without("deployed"), "NO_ANSWER")],
    "test_stdout_holds_answers_only": [FAILED],
    "test_topology_names_its_own_processes": [
        (t.edited("topology", processes=[]), "BAD_ANSWER"),
        (t.unnamed, "UNNAMED"),
        (t.workers_as("coordinator"), "IDLE_WORKERS"),
        FAILED,
    ],
    "test_every_connection_shows_the_token": [
        (t.added("not-greeted", text="HELLO with a wrong token"), "NOT_GREETED"),
        (t.refused(8, "HELLO"), "NOT_ALLOWED"),
        FAILED,
    ],
    "test_names_on_the_broker_are_of_the_run": [
        (
            t.added("kafka-names", seen=1, groups=["mine"], transactional_ids=[], topics=[]),
            "FOREIGN_NAME",
        ),
        FAILED,
    ],
    "test_frames_are_well_formed": NOT_FRAMES,
    "test_only_known_streams_and_offsets_are_asked_for": [
        (t.refused(2), "UNKNOWN_STREAM"),
        (t.refused(4), "BEYOND_END"),
        FAILED,
    ],
    "test_an_unknown_op_is_refused_definitely": [
        (t.edited("probe-refused", definite=False), "BAD_ANSWER"),
        (t.edited("probe-refused", event="probe-accepted"), "BAD_ANSWER"),
    ],
    "test_requests_are_answered_while_a_drain_is_pending": [
        (_drain_answered_first, "HELD_BACK"),
        (_no_answer_while_draining, "TIMEOUT"),
    ],
    "test_drain_waits_for_end_and_for_all_output": [
        (t.edited("drained", ended=False), "EARLY_DRAIN"),
        (t.edited("drained", outputs=3), "EARLY_DRAIN"),
        FAILED,
    ],
    "test_drain_is_answered": [FAILED],
    "test_the_engine_ends_only_when_asked": [FAILED],
    "test_stop_ends_with_status_zero": [(t.edited("exited", returncode=3), "BAD_EXIT"), FAILED],
    "test_end_of_stdin_ends_the_engine": [FAILED],
    "test_no_process_is_left_after_stop": [
        (t.in_run(left_over=[{"pid": 1234, "name": "worker"}]), "LEFT_OVER"),
        FAILED,
    ],
    "test_no_process_is_left_after_the_end_of_stdin": [
        (t.in_run(left_over=[{"pid": 1234, "name": "worker"}]), "LEFT_OVER"),
        FAILED,
    ],
    "test_released_records_are_not_asked_for": [(t.refused(3), "RELEASED"), FAILED],
    "test_writers_number_without_gaps": [
        GAP,
        CONFLICT,
        (t.refused(8, "APPEND"), "NOT_ALLOWED"),
        (_short_and_refused, "SEQUENCE_GAP"),
        FAILED,
    ],
    "test_replies_in_pieces_are_understood": NOT_CORRECT_0,
    "test_an_empty_input_drains": [(t.invent, "invented"), FAILED],
    "test_empty_partitions_drain": [
        *NOT_CORRECT_0,
        (t.edited("drained", ended=False), "EARLY_DRAIN"),
    ],
    "test_passthrough_gives_what_it_got": [*NOT_CORRECT_0, (t.drop_all, "lost")],
    # Every byte occurs, so a wrong one shows as what is missing.
    "test_payloads_of_one_byte": [
        (tamper, "lost" if code == "invented" else code) for tamper, code in NOT_CORRECT_0
    ],
    "test_payloads_of_a_mebibyte": NOT_CORRECT_0,
    "test_one_worker_does_all_partitions": NOT_CORRECT_0,
    # tier 1
    "test_double_doubles": NOT_CORRECT_0,
    "test_double_wraps": NOT_CORRECT_0,
    "test_every_total_is_a_true_point": [WRONG_TOTAL, UNKNOWN_KEY, BEYOND, ODD, FAILED],
    "test_the_last_point_of_each_key_is_there": [LOST, (t.drop_all, "lost"), FAILED],
    "test_every_record_gives_its_point": [LOST, TWICE, FAILED],
    "test_points_of_a_key_come_in_order": [STEP_BACK, FAILED],
    "test_any_64_bit_key_is_a_key": NOT_CORRECT_COUNT,
    "test_more_keys_than_16_bits_can_tell": NOT_CORRECT_COUNT,
    "test_a_silence_changes_nothing": NOT_CORRECT_COUNT,
    "test_totals_wrap": [WRONG_TOTAL, FAILED],
    "test_one_key_gets_nearly_all_records": NOT_CORRECT_COUNT,
    "test_some_points_are_enough": NOT_CORRECT_SOME,
    "test_a_long_run_without_a_fault": NOT_CORRECT_COUNT,
    "test_nothing_is_lost_or_repeated_without_faults": [LOST, TWICE, GAP, FAILED],
    "test_a_number_names_one_record": [CONFLICT, FAILED],
    "test_drain_waits_for_the_last_acknowledgement": [
        (t.edited("drained", open_acknowledgements=2), "EARLY_DRAIN"),
        (t.late, "EARLY_DRAIN"),
        LOST,
        FAILED,
    ],
    "test_nothing_is_left_staged": [(t.edited("drained", staged_open=1), "STAGED_AT_DRAIN")],
    "test_nothing_is_left_staged_under_some": [
        (t.edited("drained", staged_open=1), "STAGED_AT_DRAIN"),
        FAILED,
    ],
    "test_a_sink_that_stands_still_holds_the_engine_back": [
        (_looks(lambda i, row, _: {"rss": row["rss"] + (i << 27)}), "UNBOUNDED"),
        (_looks(lambda _i, _row, records: {"served": records}), "UNBOUNDED"),
        LOST,
        FAILED,
    ],
    "test_a_fast_source_loses_nothing": NOT_CORRECT_COUNT,
    # tier 2
    "test_each_order_meets_the_latest_quote": NOT_CORRECT_MERGED,
    "test_only_rejected_orders_come_out": [LOST, TWICE, WRONG_VERDICT, (t.drop_all, "lost")],
    "test_one_order_in_seventy_thousand": [(t.invent, "invented"), FAILED],
    "test_some_interleaving_explains_two_streams": [
        LOST,
        WRONG_VERDICT,
        (unknown_quote, "unknown-quote"),
        (before_all_quotes, "from-the-future"),
        FAILED,
    ],
    "test_old_quotes_are_seen": [(stale, "stale-quote"), LOST, FAILED],
    "test_a_few_old_quotes_are_seen": [(stale, "stale-quote"), LOST, FAILED],
    "test_hidden_orders_of_two_streams_were_acceptable": [
        (t.drop_all, "must-reject"),
        TWICE,
        (unknown_quote, "unknown-quote"),
        FAILED,
    ],
}
for _group in BOUNDARIES:
    _name = {
        "absolute": "test_five_cents_reject",
        "ratio": "test_five_per_cent_reject",
        "no-quote": "test_no_quote_rejects",
        "odd": "test_zero_crossed_and_huge_quotes",
        "alike": "test_symbols_that_are_nearly_equal_are_not_mixed_up",
    }[_group]
    REJECTS[_name] = [
        (wrong_in(_group), "wrong-verdict"),
        (_lost_in(_group), "lost"),
        # So many others are wrong that the checker keeps none of this group as an example.
        (wrong_in(*BOUNDARIES), "wrong-verdict"),
        (t.invent, "invented"),
        FAILED,
    ]


def _nothing_published(folder: Path) -> None:
    t.fresh(folder / "publishes.bin").write_bytes(b"")


UNKNOWNS: dict[str, Cases] = {
    "test_stdout_holds_answers_only": [(_nothing_from_engine, NOT_SEEN)],
    "test_drain_is_answered": [(t.without("drained"), NOT_SEEN)],
    "test_the_engine_ends_only_when_asked": [(t.without("exited"), NOT_SEEN)],
    "test_every_connection_shows_the_token": [(t.without("connected"), NOT_SEEN)],
    "test_frames_are_well_formed": [(t.without("connected"), NOT_SEEN)],
    "test_only_known_streams_and_offsets_are_asked_for": [(t.without("connected"), NOT_SEEN)],
    "test_an_unknown_op_is_refused_definitely": [(t.without("probe-refused"), NOT_SEEN)],
    "test_requests_are_answered_while_a_drain_is_pending": [
        (_nothing_from_engine, NOT_SEEN)
    ],
    "test_drain_waits_for_end_and_for_all_output": [(_asked_at_end, NOT_SEEN)],
    "test_end_of_stdin_ends_the_engine": [(t.without("exited"), NOT_SEEN)],
    "test_released_records_are_not_asked_for": [(t.without("connected"), NOT_SEEN)],
    "test_writers_number_without_gaps": [(t.without("connected"), NOT_SEEN)],
    "test_double_wraps": [(t.empty_input, NOT_SEEN)],
    "test_any_64_bit_key_is_a_key": [(t.empty_input, NOT_SEEN)],
    "test_more_keys_than_16_bits_can_tell": [(t.empty_input, NOT_SEEN)],
    "test_a_silence_changes_nothing": [(_nothing_published, NOT_SEEN)],
    "test_a_sink_that_stands_still_holds_the_engine_back": [
        (t.without("stall-ended"), "STALL_TOO_SHORT"),
        (_looks(lambda *_: {}, slice(2)), "STALL_TOO_SHORT"),
        (_looks(lambda i, *_: {"served": i}), "STALL_TOO_SHORT"),
    ],
    "test_only_rejected_orders_come_out": [(t.empty_input, NOT_SEEN)],
    "test_old_quotes_are_seen": [(_published_at_once, NOT_SEEN)],
    "test_a_few_old_quotes_are_seen": [(_published_at_once, NOT_SEEN)],
}  # fmt: skip
