"""Every reason of the verdict on a profile, each by runs that lead to it and to no other."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.service_level.made_documents import latency_session
from tests.service_level.made_figures import CI, FAST, NAMES, RECOVERY, SLOW, run, runs
from tickproof.conformance.latency import profiles
from tickproof.conformance.performance import decision
from tickproof.conformance.performance.latency_document import LatencySession
from tickproof.conformance.verdicts import Verdict

VERDICTS_PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"


@dataclass(frozen=True)
class Probe:
    probe: str
    status: str
    value: str = "powersave"
    wanted: str = "performance"


def decided(figures, profile=CI, **given):
    """Return (verdict, codes of the reasons, runs that are still wanted)."""
    found = decision.decide(profile, figures, **given)
    wanted = decision.more_runs(profile, figures)
    return str(found.verdict), [one.code for one in found.reasons], wanted


def limit(figures, percentile, profile=CI):
    rows = decision.decide(profile, figures).limits
    return next(row for row in rows if row.percentile == percentile)


def test_five_runs_all_under_pass():
    assert decided(runs(5)) == ("pass", [], 0)
    assert decided(runs(4)) == ("unknown", ["TOO_FEW_RUNS"], 1)
    assert decided([]) == ("unknown", ["TOO_FEW_RUNS"], 5)


def test_at_the_limit_is_not_over_it():
    edge = FAST | {name: CI.limits[name] for name in CI.limits}
    assert decided(runs(5, edge)) == ("pass", [], 0)
    assert decided(runs(9, edge | {"p50": CI.limits["p50"] + 1}))[:2] == ("fail", ["OVER_LIMIT"])


def test_once_a_run_is_over_all_runs_are_played():
    assert decided(runs(1, SLOW)) == ("unknown", ["TOO_FEW_RUNS"], 8)
    assert decided([*runs(4), run(5, SLOW)]) == ("unknown", ["TOO_FEW_RUNS"], 4)
    assert decided([*runs(8), run(9, SLOW)]) == ("pass", [], 0)


def test_all_first_runs_over_are_no_fail_before_the_last_run():
    assert decided(runs(8, SLOW)) == ("unknown", ["TOO_FEW_RUNS"], 1)
    assert decided([*runs(8, SLOW), run(9)]) == ("fail", ["OVER_LIMIT"], 0)


@pytest.mark.parametrize("over", range(2, 8))
def test_runs_on_both_sides_straddle(over):
    figures = [*runs(over, SLOW), *runs(9 - over, first=over + 1)]
    assert decided(figures) == ("unknown", ["CI_STRADDLES"], 0)


def test_the_limits_are_judged_one_by_one():
    found = {row.percentile: row for row in decision.decide(CI, runs(9, SLOW)).limits}
    assert {name: str(row.verdict) for name, row in found.items()} == {
        "p50": "pass",
        "p99": "fail",
        "p99.9": "pass",
    }
    row = found["p99"]
    assert (row.limit_us, row.values_us, row.floor_us) == (250e3, (300e3,) * 9, 2e3)
    assert row.interval_us == (300e3, 300e3)
    assert row.text == "p99: 9 of 9 runs over 250 ms, median 300 ms"


def test_wrong_answers_fail_whatever_the_noise_and_at_once():
    wrong = run(2, wrong="lost: 3 records", noisy=1.0, late=dict.fromkeys(NAMES, 9e9))
    assert decided([run(1), wrong]) == ("fail", ["WRONG_ANSWERS"], 0)
    found = decision.decide(CI, [run(1), wrong], [Probe("governor", "NOT_OK")])
    assert found.verdict is Verdict.FAIL
    assert found.reasons[0].text == "run-2: lost: 3 records"


def test_a_failure_of_the_engine_fails_and_one_of_the_kit_is_the_kit_s():
    failed = run(2, ended="engine-failure", wrong="EXITED: status 1")
    assert decided([run(1), failed]) == ("fail", ["ENGINE_FAILURE"], 0)
    broke = run(3, ended="kit-error")
    assert decided([run(1), failed, broke])[:2] == ("kit-error", ["KIT_ERROR", "ENGINE_FAILURE"])


def test_text_of_an_engine_is_made_safe():
    found = decision.decide(CI, [run(1, wrong="lost: \x1b[31m\u202e")])
    assert found.reasons[0].text == "run-1: lost: \\x1b[31m\\u202e"


def test_a_host_that_is_not_as_asked_is_unknown_whatever_the_figures():
    probes = [Probe("governor", "NOT_OK"), Probe("turbo", "UNOBSERVABLE", "no such file", "off")]
    for figures in ([], runs(5), runs(9, SLOW), runs(9, achieved=0.5)):
        found = decision.decide(CI, figures, probes, floor=dict.fromkeys(NAMES, 7.0))
        assert found.verdict is Verdict.UNKNOWN
        assert [one.code for one in found.reasons] == ["HOST_NOT_OK", "UNOBSERVABLE_HOST"]
        assert {row.verdict for row in found.limits} == {Verdict.UNKNOWN}
    assert found.reasons[0].text == "governor: powersave, wanted performance"
    assert (
        decision.decide(CI, [], probes, floor=dict.fromkeys(NAMES, 7.0)).limits[0].floor_us == 7.0
    )


def test_a_floor_that_is_too_high_is_named_beside_a_host_that_is_not_as_asked():
    probes = [Probe("governor", "NOT_OK")]
    high = dict.fromkeys(NAMES, 7.0) | {"p99": 130e3}
    found = decision.decide(CI, [], probes, floor=high)
    assert [one.code for one in found.reasons] == ["HOST_NOT_OK", "KIT_FLOOR"]
    assert found.reasons[1].text == "p99: limit 250 ms, below twice the kit's own 130 ms"
    assert [row.reason for row in found.limits] == ["HOST_NOT_OK", "KIT_FLOOR", "HOST_NOT_OK"]
    fell_behind = decision.decide(CI, [], probes, floor={})
    assert {row.reason for row in fell_behind.limits} == {"KIT_FLOOR"}
    assert {row.floor_us for row in decision.decide(CI, [], probes).limits} == {None}


def test_a_late_generator_makes_a_run_void_and_void_runs_are_repeated_so_many_times():
    late = dict.fromkeys(NAMES, 60e3)
    assert decided([*runs(4), run(5, late=late)]) == ("unknown", ["GENERATOR_LATE"], 1)
    assert decided([*runs(5), run(6, late=late)]) == ("pass", [], 0)
    assert decided(runs(5, late=late)) == ("unknown", ["GENERATOR_LATE"], 5)
    assert decided(runs(10, late=late)) == ("unknown", ["GENERATOR_LATE"], 0)
    found = decision.decide(CI, runs(10, late=late))
    assert found.void == dict.fromkeys(range(1, 11), "GENERATOR_LATE")
    assert found.reasons[0].text == (
        "at p99 the generator was late by up to 60 ms, its bound is 50 ms; 10 of 10 runs void"
    )


def test_a_lateness_that_was_not_recorded_is_no_punctuality():
    assert decided(runs(5, late={}))[1] == ["GENERATOR_LATE"]


def test_void_runs_over_the_limit_stand_against_a_pass():
    # Else an engine that makes the generator late whenever it is slow passes by repetition.
    late = dict.fromkeys(NAMES, 60e3)
    figures = [*runs(5), *runs(3, SLOW, first=6, late=late)]
    assert decided(figures) == ("unknown", ["GENERATOR_LATE"], 4)
    more = [*figures, *runs(4, first=9)]
    assert decided(more) == ("unknown", ["GENERATOR_LATE"], 0)
    assert decided([*runs(9), run(10, SLOW, late=late)]) == ("pass", [], 0)


def test_void_runs_under_the_limit_stand_against_a_fail():
    late = dict.fromkeys(NAMES, 60e3)
    assert decided([*runs(9, SLOW), *runs(3, first=10, late=late)])[:2] == (
        "unknown",
        ["GENERATOR_LATE"],
    )
    assert decided([*runs(9, SLOW), *runs(3, SLOW, first=10, late=late)])[0] == "fail"


def test_a_host_that_changed_makes_a_run_void():
    figures = [*runs(4), run(5, host_changed=["governor"])]
    assert decided(figures) == ("unknown", ["HOST_CHANGED"], 1)
    assert "governor" in decision.decide(CI, figures).reasons[0].text


def test_noise_excuses_what_quiet_seconds_do_not_show():
    noisy = run(1, SLOW, noisy=0.5, quiet_percentiles=FAST)
    assert decided([noisy]) == ("unknown", ["TOO_FEW_RUNS"], 9)
    assert decision.decide(CI, [noisy]).void == {1: "HOST_NOISE"}
    assert decided([noisy, *runs(9, first=2)]) == ("pass", [], 0)
    every = [replace(noisy, number=n) for n in range(1, 15)]
    assert decided(every) == ("unknown", ["HOST_NOISE"], 0)


def test_noise_excuses_nothing_that_quiet_seconds_show():
    assert decided(runs(9, SLOW, noisy=0.5)) == ("fail", ["OVER_LIMIT"], 0)
    few = runs(14, SLOW, noisy=0.5, quiet_samples=298)
    assert decided(few) == ("unknown", ["HOST_NOISE"], 0)


def test_a_little_noise_is_no_fail_either_and_is_not_repeated():
    little = runs(9, SLOW, noisy=0.1, quiet_percentiles=FAST)
    assert decided(little) == ("unknown", ["HOST_NOISE"], 0)


def test_under_all_limits_counts_however_noisy():
    assert decided(runs(5, noisy=0.9, quiet_samples=0, quiet_percentiles={})) == ("pass", [], 0)


def test_quiet_seconds_that_happen_to_be_the_slower_ones_change_nothing():
    assert decided(runs(9, noisy=0.5, quiet_percentiles=SLOW)) == ("pass", [], 0)


def test_nobody_looks_at_the_interval_before_the_last_run():
    longer = profiles.Profile.from_json(CI.to_json() | {"runs": {"least": 5, "most": 12}})
    one_over = [run(1, SLOW), *runs(8, first=2)]
    assert decided(one_over, longer) == ("unknown", ["TOO_FEW_RUNS"], 3)
    assert decided([*one_over, *runs(3, first=10)], longer) == ("pass", [], 0)


def test_a_rate_that_no_run_kept_fails_without_a_percentile():
    found = decision.decide(CI, runs(5, achieved=0.97))
    assert decided(runs(5, achieved=0.97)) == ("fail", ["UNSUSTAINABLE"], 0)
    assert {row.values_us for row in found.limits} == {(None,) * 5}
    assert {row.reason for row in found.limits} == {"UNSUSTAINABLE"}
    assert found.unsustained == (1, 2, 3, 4, 5)
    assert decided(runs(5, backlog_growth=10.0)) == ("fail", ["UNSUSTAINABLE"], 0)
    assert decided(runs(5, {}, achieved=0.97, samples=0))[0] == "fail"


def test_a_backlog_that_grew_does_not_say_that_all_was_done():
    found = decision.decide(CI, [run(1, backlog_growth=0.25), run(2, backlog_growth=1_200.0)])
    (said,) = (one.text for one in found.reasons if "did not keep" in one.text)
    assert "records a second: the backlog grew by 1,200 a second; p50" in said
    (said,) = (one.text for one in decision.decide(CI, [run(1, backlog_growth=0.25)]).reasons)
    assert "the backlog grew by 0.25 a second" in said
    (said,) = (one.text for one in decision.decide(CI, [run(1, achieved=0.97)]).reasons)
    assert "at worst 97.00% were done" in said and "backlog" not in said


def test_99_9_percent_of_the_rate_is_the_rate():
    assert decided(runs(5, achieved=0.999)) == ("pass", [], 0)


def test_one_run_that_fell_behind_is_neither_a_fail_nor_a_pass():
    one = run(1, achieved=0.97)
    assert decided([one]) == ("unknown", ["TOO_FEW_RUNS"], 4)
    assert decided([one, run(2)]) == ("unknown", ["TOO_FEW_RUNS"], 7)
    assert decided([one, *runs(8, first=2)]) == ("unknown", ["CI_STRADDLES"], 0)


def test_noise_excuses_its_share_of_the_rate_and_no_more():
    assert decided(runs(14, achieved=0.9, noisy=0.15))[1] == ["HOST_NOISE"]
    assert decided(runs(5, achieved=0.5, noisy=0.15)) == ("fail", ["UNSUSTAINABLE"], 0)
    assert decided(runs(9, backlog_growth=1_000.0, noisy=0.1))[1] == ["HOST_NOISE"]
    assert decided(runs(5, backlog_growth=5_000.0, noisy=0.1))[1] == ["UNSUSTAINABLE"]


def test_a_rate_that_the_null_engine_did_not_keep_is_the_floor_of_the_kit():
    assert decided(runs(5, achieved=0.5, floor={})) == ("unknown", ["KIT_FLOOR"], 0)


def test_a_limit_close_to_the_floor_is_judged_by_nobody():
    floor = dict.fromkeys(NAMES, 2e3) | {"p50": 26e3}
    for figures in (runs(5, floor=floor), runs(9, FAST | {"p50": 90e3}, floor=floor)):
        assert decided(figures) == ("unknown", ["KIT_FLOOR"], 0)
        row = limit(figures, "p50")
        assert row.text == "p50: limit 50 ms, below twice the kit's own 26 ms"
    assert decided(runs(5, floor=floor | {"p50": 25e3})) == ("pass", [], 0)


def test_the_floor_is_that_of_the_median_run():
    high = dict.fromkeys(NAMES, 1e9)
    assert decided([*runs(2, floor=high), *runs(3, first=3)]) == ("pass", [], 0)


def test_a_percentile_needs_its_samples():
    assert decided([*runs(4), run(5, samples=2_994)]) == ("unknown", ["TOO_FEW_SAMPLES"], 0)
    assert decided([*runs(4), run(5, samples=2_995)])[0] == "pass"
    assert limit([run(1, samples=2_994)], "p99").reason != "TOO_FEW_SAMPLES"


def test_what_is_never_answered_takes_for_ever():
    # 6,000 samples: of 61 and more without an answer p99 is never reached.
    assert decided(runs(9, unanswered=70)) == ("fail", ["OVER_LIMIT"], 0)
    assert limit(runs(9, unanswered=70), "p50").verdict is Verdict.PASS
    # With fewer p99 lies in the tail of those that were answered: below p99.9.
    slow_tail = FAST | {"p99.9": 300e3}
    assert limit(runs(9, slow_tail, unanswered=5), "p99").verdict is Verdict.UNKNOWN
    assert limit(runs(9, FAST, unanswered=5), "p99").verdict is Verdict.PASS


def test_a_figure_that_is_missing_is_not_under():
    assert decided(runs(5, {}))[0] == "unknown"


def test_a_median_that_moves_in_most_runs_is_unknown():
    moved = {"trend": 0.3, "trend_sure": True}
    assert decided([*runs(2), *runs(3, first=3, **moved)])[:2] == ("unknown", ["NONSTATIONARY"])
    assert decided([*runs(3), *runs(2, first=4, **moved)])[0] == "pass"
    assert decided(runs(5, trend=0.3))[0] == "pass"
    assert decided(runs(5, trend=0.2, trend_sure=True))[0] == "pass"
    assert decided(runs(5, trend=-0.3, trend_sure=True))[0] == "unknown"
    assert decided(runs(9, SLOW, **moved))[:2] == ("fail", ["OVER_LIMIT", "NONSTATIONARY"])


def test_recovery_is_a_limit_of_its_own():
    def recovering(count, seconds, **given):
        return runs(count, recovery_s=seconds, **given)

    assert decided(recovering(5, 3.0), RECOVERY) == ("pass", [], 0)
    assert decided(recovering(9, 11.0), RECOVERY) == ("fail", ["SLOW_RECOVERY"], 0)
    assert decided(recovering(9, math.inf), RECOVERY)[1] == ["SLOW_RECOVERY"]
    assert decided(recovering(1, 11.0), RECOVERY)[2] == 8
    row = limit(recovering(9, 11.0), "recovery", RECOVERY)
    assert (row.limit_us, row.values_us[0], row.floor_us) == (10e6, 11e6, None)
    # Noise may have kept p99 up: unless it was reckoned without the noisy seconds.
    assert decided(recovering(9, 11.0, noisy=0.1), RECOVERY)[1] == ["HOST_NOISE"]
    assert decided(recovering(9, 11.0, noisy=0.1, quiet_recovery_s=10.5), RECOVERY)[0] == "fail"


def test_a_kill_that_did_not_come_is_unknown():
    assert decided(runs(5), RECOVERY) == ("unknown", ["KILL_MISSED"], 5)
    assert decided([*runs(5, recovery_s=1.0), run(6)], RECOVERY) == ("pass", [], 0)


def test_a_decision_is_json():
    figures = runs(9, SLOW, floor={}, recovery_s=math.inf)
    for profile in (CI, RECOVERY):
        session = latency_session(figures)
        decided = decision.decide(profile, figures)
        whole = session.model_copy(update={"decision": decided})
        text = whole.text()
        assert LatencySession.model_validate_json(text) == whole
        found = json.loads(text, parse_constant=pytest.fail)["decision"]
        assert found["verdict"] in list(Verdict)
        assert {row["floor_us"] for row in found["limits"]} <= {"inf", None}
        assert all(one["verdict"] == decision.REASONS[one["code"]] for one in found["reasons"])


def test_every_reason_stands_on_the_page_of_verdicts_with_its_verdict():
    text = VERDICTS_PAGE.read_text("utf-8")
    section = text[text.index("## Latency\n") :].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    shown = {row[0].strip(): row[1].strip() for row in rows[1:]}
    assert shown == {code: str(verdict) for code, verdict in decision.REASONS.items()}
