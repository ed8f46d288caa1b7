"""What each test of the suites must reject, and what it must call unknown.

Keys are names of test functions; values are (change to the run folder, expected code).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from tests.suites import tampering as t
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import PUBLISH
from tickproof.conformance.suites.catalog.fault_free import BOUNDARIES
from tickproof.generators.layouts import COUNT_OUT, ORDER, QUOTE, VERDICT

Cases = list[tuple[t.Tamper, str]]

LOST = (t.drop_last, "lost")
TWICE = (t.again, "duplicate")
GAP = (t.gap, "gap")
CONFLICT = (t.changed_again, "conflict")
FAILED = (t.engine_failure, "TIMEOUT")
ODD = (t.odd_size, "wrong-size")
WRONG_TOTAL = (t.alter(), "wrong-total")
STEP_BACK = (t.swap_points, "step-back")
#: The verdict byte stands before 7 zeros.
WRONG_VERDICT = (t.alter(where=-8), "wrong-verdict")
MALFORMED = (t.alter(), "malformed")


def _count_field(name: str, value: int) -> t.Tamper:
    def change(folder: Path) -> None:
        log, arrivals = t.read_output(folder)
        t.records(log, COUNT_OUT)[name][-1] = value
        t.write_output(folder, log, arrivals)

    return change


UNKNOWN_KEY = (_count_field("key", 0x1234_5678_9ABC_DEF0), "unknown-key")
BEYOND = (_count_field("n", 2**40), "beyond-input")


def _unknown_quote(folder: Path) -> None:
    log, arrivals = t.read_output(folder)
    t.records(log, VERDICT)["quote_id"][-1] = 2**40
    t.write_output(folder, log, arrivals)


def _before_all_quotes(folder: Path) -> None:
    """Let all verdicts arrive before anything was published."""
    log, arrivals = t.read_output(folder)
    arrivals["t_ns"] = 1
    t.write_output(folder, log, arrivals)


def _stale(folder: Path) -> None:
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


def _wrong_in(*groups: str) -> t.Tamper:
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
                row for row in rows
                if row["event"] == "progress" and began <= row["t_ns"] <= over
            ]  # fmt: skip
            for number, row in enumerate(inside):
                row |= change(number, row, records)
            gone = [row for row in inside if row not in inside[keep]]
            return [row for row in rows if row not in gone]

        t.events(folder, rows_of)

    return edit


NOT_CORRECT_0: Cases = [LOST, TWICE, (t.alter(), "invented"), ODD, FAILED]
NOT_CORRECT_COUNT: Cases = [LOST, TWICE, WRONG_TOTAL, STEP_BACK, ODD, FAILED]
NOT_CORRECT_SOME: Cases = [LOST, TWICE, WRONG_TOTAL, GAP, FAILED]
NOT_CORRECT_MERGED: Cases = [LOST, TWICE, WRONG_VERDICT, MALFORMED, GAP, FAILED]
NOT_STATE: Cases = [LOST, WRONG_TOTAL, UNKNOWN_KEY, BEYOND, ODD, FAILED]
NOT_ONCE: Cases = [LOST, TWICE, (t.gap, "gap"), FAILED]
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
        (_unknown_quote, "unknown-quote"),
        (_before_all_quotes, "from-the-future"),
        FAILED,
    ],
    "test_old_quotes_are_seen": [(_stale, "stale-quote"), LOST, FAILED],
    "test_a_few_old_quotes_are_seen": [(_stale, "stale-quote"), LOST, FAILED],
    "test_hidden_orders_of_two_streams_were_acceptable": [
        (t.drop_all, "must-reject"),
        TWICE,
        (_unknown_quote, "unknown-quote"),
        FAILED,
    ],
    # tier 3
    "test_totals_after_a_worker_death": NOT_STATE,
    "test_totals_after_a_worker_death_in_a_backlog": NOT_STATE,
    "test_totals_after_an_engine_death": NOT_STATE,
    "test_totals_after_an_engine_death_in_a_backlog": NOT_STATE,
    "test_totals_after_two_engine_deaths": NOT_STATE,
    "test_totals_after_two_worker_deaths": NOT_STATE,
    "test_totals_after_many_deaths_of_one_worker": NOT_STATE,
    "test_deaths_of_several_kinds": [*NOT_STATE, TWICE, STEP_BACK],
    "test_first_point": [FAILED],
    "test_totals_after_a_death_in_recovery": NOT_STATE,
    "test_all_is_right_after_a_death_before_the_first_cut": [*NOT_STATE, TWICE],
    "test_all_is_right_after_a_death_among_uneven_partitions": [*NOT_STATE, TWICE],
    "test_totals_after_a_pause": NOT_STATE,
    "test_nothing_is_done_while_all_workers_stand_still": [
        (t.all_at_once, "WORKERS_NOT_NEEDED"),
        FAILED,
    ],
    "test_some_points_after_two_deaths": NOT_STATE,
    "test_last_points_of_keys_that_never_come_again": NOT_STATE,
    "test_passthrough_after_a_death": [LOST, (t.alter(), "invented"), FAILED],
    "test_state_and_offsets_are_of_one_cut": [WRONG_TOTAL, UNKNOWN_KEY, BEYOND, FAILED],
    "test_released_records_are_not_needed_again": [(t.refused(3), "RELEASED"), FAILED],
    "test_recovery_begins_at_the_checkpoint": [
        (t.fetched_again("fault"), "FROM_ZERO"),
        (t.refused(3, text="offset 0 was released"), "FROM_ZERO"),
        FAILED,
    ],
    "test_recovery_after_drain_is_not_from_zero": [
        (t.fetched_again("fault"), "FROM_ZERO"),
        FAILED,
    ],
    "test_the_end_of_the_stream_arrives": NOT_STATE,
    "test_nothing_changes_after_a_drain_without_output": [
        (t.fetched_again("drained"), "FETCHED_AGAIN"),
        (t.refused(3), "FETCHED_AGAIN"),
        FAILED,
    ],
    "test_nothing_changes_after_drain": [
        (t.fetched_again("drained"), "FETCHED_AGAIN"),
        (t.refused(3), "FETCHED_AGAIN"),
        LOST,
        TWICE,
        WRONG_TOTAL,
        FAILED,
    ],
    "test_a_checkpoint_answer_is_durable": [
        (t.fetched_again("checkpointed"), "FETCHED_AGAIN"),
        (t.refused(3), "FETCHED_AGAIN"),
        *NOT_STATE,
    ],
    "test_order_of_a_key_is_kept_over_a_death": [STEP_BACK, FAILED],
    "test_order_of_a_key_is_kept_over_a_pause": [STEP_BACK, FAILED],
    "test_nothing_visible_is_changed": [CONFLICT, FAILED],
    "test_verdicts_after_a_worker_death": [LOST, WRONG_VERDICT, MALFORMED, FAILED],
    "test_verdicts_after_an_engine_death": [LOST, WRONG_VERDICT, MALFORMED, FAILED],
    "test_rejects_of_two_streams_after_two_deaths": [(t.drop_all, "must-reject"), FAILED],
    "test_two_streams_after_two_deaths": [
        LOST,
        WRONG_VERDICT,
        (_unknown_quote, "unknown-quote"),
        FAILED,
    ],
    "test_nothing_is_lost_over_a_death": [LOST, GAP, FAILED],
    "test_nothing_comes_twice_after_an_engine_death": [*NOT_ONCE, CONFLICT],
    "test_nothing_comes_twice_after_a_worker_death": [*NOT_ONCE, CONFLICT],
    "test_nothing_comes_twice_where_replay_differs": [*NOT_ONCE, CONFLICT],
    "test_no_verdict_comes_twice": NOT_ONCE,
    "test_kills_after_an_acknowledged_append": [*NOT_ONCE, CONFLICT],
    "test_kills_after_an_acknowledged_stage": NOT_ONCE,
    "test_kills_between_append_and_its_reply": [*NOT_ONCE, CONFLICT],
    "test_a_kill_between_commit_and_its_reply": NOT_ONCE,
    "test_an_append_that_is_lost_with_the_engine": NOT_ONCE,
    "test_a_commit_that_is_lost_with_the_engine": NOT_ONCE,
    "test_nothing_is_lost_over_a_death_in_mid_stream": [LOST, FAILED],
    "test_nothing_is_lost_over_a_death_at_the_end": [LOST, FAILED],
    "test_state_and_offsets_are_of_one_cut_after_two_deaths": [WRONG_TOTAL, FAILED],
    "test_a_kill_while_the_last_acknowledgements_are_late": [LOST, TWICE, GAP, CONFLICT, FAILED],
    "test_two_transactions_are_left_open": [LOST, TWICE, WRONG_TOTAL, FAILED],
    "test_a_downtime_within_the_time_out_of_a_transaction": [LOST, TWICE, WRONG_TOTAL, FAILED],
    "test_a_downtime_beyond_the_time_out_of_a_transaction": [LOST, TWICE, WRONG_TOTAL, FAILED],
    "test_partitions_go_to_another_worker_and_come_back": [LOST, TWICE, WRONG_TOTAL, FAILED],
    "test_a_worker_comes_back_into_its_transaction": [LOST, TWICE, WRONG_TOTAL, FAILED],
    "test_a_worker_comes_back_after_its_transaction": [LOST, TWICE, WRONG_TOTAL, FAILED],
    "test_workers_die_while_a_commit_is_under_way": [LOST, TWICE, WRONG_TOTAL, FAILED],
    "test_readers_are_held_up_no_longer_than_claimed": [LOST, FAILED],
    "test_a_fenced_process_is_silent_after_a_death": [
        (t.added("have-after-fence", stream=0, writer=1), "AFTER_FENCE"),
        (t.added("output-after-fence", stream=0, writer=1), "AFTER_FENCE"),
        FAILED,
    ],
    "test_a_fenced_process_is_silent_after_a_pause": [
        (t.added("have-after-fence", stream=0, writer=1), "AFTER_FENCE"),
        (t.added("output-after-fence", stream=0, writer=1), "AFTER_FENCE"),
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
        (_wrong_in(_group), "wrong-verdict"),
        (_lost_in(_group), "lost"),
        # So many others are wrong that the checker keeps none of this group as an example.
        (_wrong_in(*BOUNDARIES), "wrong-verdict"),
        (partial(t.invent), "invented"),
        FAILED,
    ]


def _nothing_published(folder: Path) -> None:
    t.fresh(folder / "publishes.bin").write_bytes(b"")


MISSED = (t.no_fault, "KILL_MISSED")
NOTHING = (t.nothing_in_flight, "NOTHING_IN_FLIGHT")
NOT_SEEN = "NOT_SEEN"

UNKNOWNS: dict[str, Cases] = {
    **{name: [MISSED] for name in [
        "test_two_transactions_are_left_open",
        "test_a_downtime_within_the_time_out_of_a_transaction",
        "test_a_downtime_beyond_the_time_out_of_a_transaction",
        "test_partitions_go_to_another_worker_and_come_back",
        "test_a_worker_comes_back_into_its_transaction",
        "test_a_worker_comes_back_after_its_transaction",
        "test_workers_die_while_a_commit_is_under_way",
        "test_readers_are_held_up_no_longer_than_claimed",
    ]},
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
    # tier 3
    "test_first_point": [MISSED],
    **{name: [MISSED, NOTHING] for name in [
        "test_totals_after_a_worker_death",
        "test_totals_after_an_engine_death",
        "test_totals_after_two_engine_deaths",
        "test_totals_after_two_worker_deaths",
        "test_deaths_of_several_kinds",
        "test_some_points_after_two_deaths",
        "test_last_points_of_keys_that_never_come_again",
        "test_passthrough_after_a_death",
        "test_order_of_a_key_is_kept_over_a_death",
        "test_order_of_a_key_is_kept_over_a_pause",
        "test_nothing_visible_is_changed",
        "test_verdicts_after_a_worker_death",
        "test_verdicts_after_an_engine_death",
        "test_two_streams_after_two_deaths",
        "test_rejects_of_two_streams_after_two_deaths",
        "test_nothing_is_lost_over_a_death",
        "test_nothing_comes_twice_after_an_engine_death",
        "test_nothing_comes_twice_after_a_worker_death",
        "test_nothing_comes_twice_where_replay_differs",
        "test_no_verdict_comes_twice",
        "test_kills_after_an_acknowledged_append",
        "test_kills_after_an_acknowledged_stage",
        "test_kills_between_append_and_its_reply",
        "test_a_kill_between_commit_and_its_reply",
        "test_an_append_that_is_lost_with_the_engine",
        "test_a_commit_that_is_lost_with_the_engine",
        "test_nothing_is_lost_over_a_death_in_mid_stream",
        "test_nothing_is_lost_over_a_death_at_the_end",
        "test_state_and_offsets_are_of_one_cut_after_two_deaths",
        "test_a_kill_while_the_last_acknowledgements_are_late",
        "test_a_fenced_process_is_silent_after_a_death",
        "test_a_fenced_process_is_silent_after_a_pause",
    ]},
    **{name: [MISSED, NOTHING, (t.no_cut, "NO_CUT_BEFORE_KILL")] for name in [
        "test_state_and_offsets_are_of_one_cut",
        "test_released_records_are_not_needed_again",
        "test_recovery_begins_at_the_checkpoint",
    ]},
    **{name: [MISSED, NOTHING, (t.no_backlog, "NOTHING_IN_FLIGHT")] for name in [
        "test_totals_after_a_worker_death_in_a_backlog",
        "test_totals_after_an_engine_death_in_a_backlog",
    ]},
    "test_totals_after_many_deaths_of_one_worker": [
        MISSED, (t.without_last("fault"), "KILL_MISSED"), NOTHING,
    ],
    "test_totals_after_a_death_in_recovery": [
        MISSED, (t.without_last("fault"), "KILL_MISSED"), NOTHING,
    ],
    "test_all_is_right_after_a_death_before_the_first_cut": [
        MISSED, (t.nothing_in_flight, "KILL_MISSED"),
    ],
    "test_all_is_right_after_a_death_among_uneven_partitions": [MISSED, NOTHING],
    "test_totals_after_a_pause": [
        MISSED, NOTHING, (t.without("resumed"), "KILL_MISSED"), (t.all_idle, "NOT_AT_WORK"),
    ],
    "test_nothing_is_done_while_all_workers_stand_still": [
        MISSED, (t.without("resumed"), "KILL_MISSED"),
    ],
    "test_the_end_of_the_stream_arrives": [MISSED, NOTHING, (t.one_left, "KILL_MISSED")],
    "test_nothing_changes_after_a_drain_without_output": [
        MISSED, (t.without_last("drained"), "NO_RECOVERY_SEEN"),
    ],
    "test_nothing_changes_after_drain": [
        MISSED, (t.without_last("drained"), "NO_RECOVERY_SEEN"),
    ],
    "test_a_checkpoint_answer_is_durable": [MISSED],
}  # fmt: skip
