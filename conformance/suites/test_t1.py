"""Tier 1: double and count without faults, delivery, back-pressure."""

from __future__ import annotations

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.evidence import (
    CHANGED,
    ENDS,
    LOSS,
    ORDER_KINDS,
    STATE,
    TWICE,
    end_keys,
    values,
    whole,
    wrapping_inputs,
)
from tickproof.conformance.suites.judge import Fail, Unknown, decides
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import (
    require_acknowledged,
    require_completed,
    require_correct,
    require_no,
)
from tickproof.conformance.verdicts import Reason

#: As many as 16 bits can tell.
MANY_KEYS = 1 << 16
#: A silence that an engine's idle time-out may notice.
SHORTEST_SILENCE_S = 1.0
#: Growth of resident memory that no bounded engine needs while the sink stands still.
UNBOUNDED_BYTES = 96 << 20


@decides("SL-DOUBLE", "double")
def test_double_doubles(history: History) -> None:
    require_correct(history)


@decides("SL-DOUBLE-WRAPS", "double")
def test_double_wraps(history: History) -> None:
    require_correct(history)
    if not wrapping_inputs(history):
        raise Unknown(Reason.NOT_SEEN, "inputs whose double leaves 64 bits", "none")


@decides("ST-TOTALS", "count")
def test_every_total_is_a_true_point(history: History) -> None:
    require_no(history, values(history), STATE)


@decides("ST-LAST-POINT", "count")
def test_the_last_point_of_each_key_is_there(history: History) -> None:
    require_no(history, values(history), LOSS)


@decides("ST-EVERY-POINT", "count")
def test_every_record_gives_its_point(history: History) -> None:
    require_no(history, values(history), (*LOSS, *forbidden_repeats(history)))


@decides("ST-KEY-ORDER", "count")
def test_points_of_a_key_come_in_order(history: History) -> None:
    require_no(history, values(history), ORDER_KINDS)


@decides("ST-ALL-KEYS", "count-edges")
def test_any_64_bit_key_is_a_key(history: History) -> None:
    require_correct(history)
    seen = end_keys(history)
    if not seen.issuperset(ENDS):
        others = values(history).facts["keys"] - len(seen)
        raise Unknown(Reason.NOT_SEEN, "keys at both ends of 64 bits", f"{others} other keys")


@decides("ST-MANY-KEYS", "count-many-keys")
def test_more_keys_than_16_bits_can_tell(history: History) -> None:
    require_correct(history)
    keys = values(history).facts["keys"]
    if keys <= MANY_KEYS:
        raise Unknown(Reason.NOT_SEEN, f"more than {MANY_KEYS:,} keys", f"{keys:,}")


@decides("ST-SILENCE", "count-silence")
def test_a_silence_changes_nothing(history: History) -> None:
    require_correct(history)
    gap_s = float(np.diff(history.publishes["t_ns"].astype(np.int64)).max(initial=0)) / 1e9
    if gap_s < SHORTEST_SILENCE_S:
        raise Unknown(
            Reason.NOT_SEEN, f"no record for {SHORTEST_SILENCE_S} s", f"for {gap_s:.1f} s"
        )


@decides("ST-WRAPS", "count-edges")
def test_totals_wrap(history: History) -> None:
    require_no(history, values(history), STATE)


@decides("ST-HOT-KEY", "count-hot-key")
def test_one_key_gets_nearly_all_records(history: History) -> None:
    require_correct(history)


@decides("ST-SOME", "count-some")
def test_some_points_are_enough(history: History) -> None:
    require_correct(history)


@decides("ST-LONG-RUN", "long-run")
def test_a_long_run_without_a_fault(history: History) -> None:
    require_correct(history)


@decides("DL-COMPLETE", "count")
def test_nothing_is_lost_or_repeated_without_faults(history: History) -> None:
    require_no(history, whole(history), (*LOSS, *TWICE))


@decides("DL-NO-CONFLICT", "count")
def test_a_number_names_one_record(history: History) -> None:
    require_no(history, whole(history), CHANGED)


@decides("DL-ACKNOWLEDGED", "count-slow-acks")
def test_drain_waits_for_the_last_acknowledgement(history: History) -> None:
    require_acknowledged(history)
    require_no(history, values(history), LOSS)


@decides("DL-STAGED", "count")
def test_nothing_is_left_staged(history: History) -> None:
    _nothing_staged(history)


@decides("DL-STAGED", "count-some")
def test_nothing_is_left_staged_under_some(history: History) -> None:
    _nothing_staged(history)


def _nothing_staged(history: History) -> None:
    for event in history.all(events.Drained):
        if event.staged_open:
            raise Fail(
                Reason.STAGED_AT_DRAIN,
                "every transaction settled when drain is answered",
                f"{event.staged_open} with records, neither committed nor aborted",
            )
    require_completed(history)


@decides("BP-SLOW-SINK", "slow-sink")
def test_a_sink_that_stands_still_holds_the_engine_back(history: History) -> None:
    require_correct(history)
    began, over = history.all(events.Stall), history.all(events.StallEnded)
    if not began or not over:
        raise Unknown(Reason.STALL_TOO_SHORT, "a stall from begin to end", "none")
    inside = [
        row for row in history.all(events.Progress) if began[0].t_ns <= row.t_ns <= over[0].t_ns
    ]
    if len(inside) < 3:
        raise Unknown(
            Reason.STALL_TOO_SHORT, "three looks at the engine in the stall", str(len(inside))
        )
    first, last = inside[0], inside[-1]
    grown = max(row.rss for row in inside) - first.rss
    evidence = {"fetched_in_stall": last.served, "rss_growth": grown}
    if grown > UNBOUNDED_BYTES:
        raise Fail(
            Reason.UNBOUNDED,
            f"memory that grows by less than {UNBOUNDED_BYTES >> 20} MiB in the stall",
            f"{grown >> 20} MiB more, {last.served:,} records fetched",
            **evidence,
        )
    if last.served >= history.input_records and not apps.of(history).any_size:
        raise Unknown(
            Reason.STALL_TOO_SHORT,
            "more input than the engine may hold",
            f"all {last.served:,} records fetched, which are small",
            **evidence,
        )
    if last.served >= history.input_records:
        raise Fail(
            Reason.UNBOUNDED,
            "FETCH to stop while nothing can be delivered",
            f"all {last.served:,} records fetched",
            **evidence,
        )
    if last.served != inside[len(inside) // 2].served:
        raise Unknown(Reason.STALL_TOO_SHORT, "FETCH to stop", "it went on to the end of the stall")


@decides("BP-FAST-SOURCE", "fast-source")
def test_a_fast_source_loses_nothing(history: History) -> None:
    require_correct(history)
