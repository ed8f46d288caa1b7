"""Stories of real mutants name key, offset, fault and relation; tampered runs name the change."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.long import LONG
from tests.suites import tampering
from tickproof.conformance.explain import count_values, story
from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging
from tickproof.conformance.suites.evidence import outputs
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.conformance.text import counted, error_line
from tickproof.conformance.verdicts import Outcome, Verdict
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT


def told(folder: Path, requirement: str):
    """Judge a run again; return its history, the outcome of a requirement, and the story."""
    if not History(folder).sealed:
        tampering.sealed(folder)
    (outcome,) = [o for o in judging.recheck(folder) if o.requirement == requirement]
    history = History(folder)
    return history, outcome, story(history, outcome)


#: Mutant -> the scenario in which it is seen, the requirement that fails.
SEEN = {
    "offset-not-state": ("count-engine-death", "EO-ENGINE-DEATH"),
    "state-not-offset": ("count-engine-death", "EO-ONE-CUT"),
    "release-before-durable": ("count-engine-death", "EO-RELEASED"),
    "restart-from-zero": ("count-engine-death", "EO-FROM-CHECKPOINT"),
    "no-have": ("count-engine-death", "EO-KEY-ORDER"),
    "resumes-at-the-end": ("passthrough-deaths", "EO-PASSTHROUGH-DEATH"),
    "worker-without-quotes": ("market-worker-death", "EO-MARKET-WORKER-DEATH"),
    "seq-not-in-cut": ("count-engine-death", "DL-NO-LOSS"),
}


def failed(mutant_run, id_: str):
    """As told, of a mutant's run that the requirement failed."""
    scenario, requirement = SEEN[id_]
    found = told(mutant_run(id_, scenario, requirement), requirement)
    assert found[1].verdict is Verdict.FAIL
    return found


def number(text: str) -> int:
    return int(text.replace(",", ""))


def restart_ns(history: History) -> int:
    return history.all(events.Started, resume=True)[0].t_ns


def bases(history: History, since: int) -> dict[int, int]:
    """Return partition -> lowest offset fetched since a time, a row at a time."""
    found: dict[int, int] = {}
    for t_ns, _, partition, base, _ in history.fetches.tolist():
        if t_ns >= since:
            found[partition] = min(base, found.get(partition, base))
    return found


def reached(history: History, before: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for t_ns, _, partition, _, end in history.fetches.tolist():
        if t_ns < before:
            found[partition] = max(end, found.get(partition, 0))
    return found


def test_each_story_says_what_ran_and_what_was_done(mutant_run):
    history, _, made = failed(mutant_run, "offset-not-state")
    fault = history.faults[0]
    assert "App count (emit every) on 30,000 records in 4 partitions" in made.lines[0]
    assert "2 workers" in made.lines[0]
    for part in (
        "SIGKILL of the engine",
        ", ".join(map(str, fault.pids)),
        f"{fault.fetched:,} records were fetched",
        f"{fault.released:,} released",
        f"{fault.outputs:,} outputs",
    ):
        assert part in made.lines[1]
    again = sum(
        max(0, end - bases(history, restart_ns(history))[partition])
        for partition, end in reached(history, restart_ns(history)).items()
    )
    second = counted(again, "record") if again else "no record was fetched"
    assert f"{second} a second time" in made.lines[2]


def test_offset_without_state(mutant_run):
    history, _, made = failed(mutant_run, "offset-not-state")
    text = " ".join(made.lines)
    found = re.search(
        r"After the kill it resumed partition (\d) at offset ([\d,]+), with totals that began "
        r"at zero(?:, and likewise in (\d) other partitions?)?: the offset was restored",
        text,
    )
    assert found, text
    assert bases(history, restart_ns(history))[int(found[1])] == number(found[2])
    log = history.outputs(COUNT_OUT)
    restarted = int(np.searchsorted(log.arrivals["t_ns"], restart_ns(history)))
    assert made.wrong.t_ns in log.arrivals["t_ns"][restarted:]
    assert "none of them before the kill" in text


def test_state_without_offset_names_the_stretch_that_counts_twice(mutant_run):
    history, _, made = failed(mutant_run, "state-not-offset")
    text = " ".join(made.lines)
    found = re.search(
        r"it resumed partition (\d) at offset ([\d,]+) with the totals of offset ([\d,]+): "
        r"offsets ([\d,]+) to ([\d,]+) went into the totals twice",
        text,
    )
    assert found, text
    base, state = number(found[2]), number(found[3])
    assert bases(history, restart_ns(history))[int(found[1])] == base
    assert number(found[4]) == base < state == number(found[5]) + 1
    # The cut before the newest is where the offset comes from: a RELEASE stands at each.
    released = history.releases["offset"][history.releases["partition"] == int(found[1])]
    assert base in released


def test_a_release_without_a_cut(mutant_run):
    history, _, made = failed(mutant_run, "release-before-durable")
    row = history.all(events.Refused)[0]
    asked, upto = map(int, re.findall(r"\d+", row.text))
    text = " ".join(made.lines)
    assert re.search(
        rf"asked for offset {asked:,} of partition \d, though it had released everything below "
        rf"{upto:,}:",
        text,
    )
    # It releases before it cuts: on a busy machine the kill may come before the first cut.
    assert ("older than its RELEASE" if asked else "at the very beginning") in text
    assert made.wrong.t_ns == row.t_ns


def test_from_zero(mutant_run):
    _, _, made = failed(mutant_run, "restart-from-zero")
    text = " ".join(made.lines)
    assert "after the kill it asked for offset 0 of partition" in text
    assert "at the very beginning" in text


def test_output_that_is_sent_again(mutant_run):
    history, _, made = failed(mutant_run, "no-have")
    text = " ".join(made.lines)
    seen, repeats = set(), 0
    for row in history.outputs(COUNT_OUT).payloads.tolist():
        repeats += row in seen
        seen.add(row)
    assert f"{repeats:,} outputs came a second time, each under the writer and number" in text
    assert "whose output had come before it: the restarted engine did not skip" in text


@LONG
def test_records_that_a_restart_left_behind(mutant_run):
    history, _, made = failed(mutant_run, "resumes-at-the-end")
    text = " ".join(made.lines)
    missing = history.input_records - len(outputs(history))
    assert f"{missing:,} records that must give an output gave none" in text
    if not bases(history, restart_ns(history)):  # all input had come before it was back
        assert "nothing was fetched after it" in text
        assert re.search(r"All of them were not fetched after the kill, [\d,]+ of them at no", text)
        return
    # What HAVE says was sent is skipped too, of records that were fetched after the restart.
    assert re.search("the engine went on behind|were first fetched after it", text), text


def test_state_that_a_replaced_worker_lacks(mutant_run):
    _, _, made = failed(mutant_run, "worker-without-quotes")
    text = " ".join(made.lines)
    assert re.search(r"All wrong verdicts \([\d,]+\) name (no|an earlier) quote", text)
    assert "the quotes from before it were not restored" in text
    assert re.search(r"Quote \d+, which was due, is offset [\d,]+ of partition \d: fetched", text)


def test_numbers_that_began_again(mutant_run):
    history, _, made = failed(mutant_run, "seq-not-in-cut")
    text = " ".join(made.lines)
    if "no output of that writer followed" in text:
        return  # the stream ended before the numbers had caught up
    found = re.search(r"outputs of partition (\d) have numbers ([\d,]+) lower than", text)
    assert found, text
    # A writer numbers one partition from 0: what is missing is what the numbers fell by.
    assert bases(history, restart_ns(history))[int(found[1])] == number(found[2])


# -- tampered runs of the sound engine -------------------------------------------------------


def test_a_lost_record_is_named(copy_of):
    folder = copy_of("count-engine-death")
    log, _ = tampering.read_output(folder)
    key, n, _ = tampering.records(log, COUNT_OUT)[-1].tolist()
    tampering.drop_last(folder)

    history, _, made = told(folder, "DL-NO-LOSS")

    for partition, records in enumerate(history.inputs(COUNT_IN)):
        offsets = np.flatnonzero(records["key"] == key)
        if len(offsets):
            place = f"offset {int(offsets[n - 1]):,} of partition {partition}"
    text = " ".join(made.lines)
    assert f"One record that must give an output gave none: {place}." in text
    assert f"The record at {place} was fetched" in text


def test_a_partition_without_any_output_is_named(copy_of):
    folder = copy_of("count-engine-death")
    tampering.drop_writer(folder)

    _, _, made = told(folder, "DL-NO-LOSS")

    assert re.search(r"all of the records of partition \d: no other", made.headline)
    assert "last records" not in " ".join(made.lines)
    assert "nothing more was fetched" not in " ".join(made.lines)  # it was


def test_an_output_from_the_future_is_named_with_its_record(copy_of):
    folder = copy_of("count-engine-death")
    tampering.ahead(folder)
    history, outcome, made = told(folder, "EO-ENGINE-DEATH")
    assert outcome.reason == "ahead-of-fetch"
    first = int(outputs(history).arrivals["count"][0])
    assert made.headline.startswith("By then 0 records had been fetched, and 1 output had arrived.")
    assert f"The run shows this {first:,} times (ahead-of-fetch)." in made.headline
    assert re.search(r"It answers offset \d+ of partition \d, fetched at [\d.]+ s", made.lines[-3])


def test_a_repeated_output_is_named_with_both_places(copy_of):
    folder = copy_of("count-engine-death-backlog")
    tampering.again(folder)
    history, _, made = told(folder, "DL-EXACTLY-ONCE")
    last = len(history.outputs(COUNT_OUT)) - 1
    text = " ".join(made.lines)
    assert re.search(rf"Output {last:,} \(writer \d, seq [\d,]+\), [\d.]+ s after the kill", text)
    assert f"repeats output {last - 1:,} " in text
    assert "1 output came a second time, each under the writer and number" in text


def test_a_wrong_total_is_named_with_what_was_due(copy_of):
    folder = copy_of("count-engine-death")
    log, _ = tampering.read_output(folder)
    key, n, total = tampering.records(log, COUNT_OUT)[-1].tolist()
    tampering.alter()(folder)

    history, _, made = told(folder, "EO-ENGINE-DEATH")

    wrong = int(history.outputs(COUNT_OUT).payloads[-1]["total"])
    text = " ".join(made.lines)
    assert f"key {key}, n={n}, total={wrong}; the total due is {total}" in text
    assert "1 output of" in text
    assert made.wrong.t_ns == int(history.outputs(COUNT_OUT).arrivals["t_ns"][-1])


def test_points_out_of_order_are_named(copy_of):
    folder = copy_of("count-engine-death")
    tampering.swap_points(folder)
    _, outcome, made = told(folder, "EO-KEY-ORDER")
    text = " ".join(made.lines)
    assert "The first output out of order came" in text
    assert f"seq {outcome.evidence['where']['seq']:,}" in text
    assert outcome.expected in text
    assert "are wrong" not in text


def test_a_wrong_verdict_is_named_with_what_was_due(copy_of):
    folder = copy_of("market-worker-death")
    tampering.alter(where=-8)(folder)
    _, outcome, made = told(folder, "EO-MARKET-WORKER-DEATH")
    text = " ".join(made.lines)
    assert f"due was {outcome.expected}" in text
    assert "All wrong verdicts name the quote that was due, with its prices" in text


def test_an_answer_that_came_too_early(copy_of):
    folder = copy_of("passthrough-drain-first")
    tampering.edited("drained", open_acknowledgements=3)(folder)
    history = History(folder)
    made = story(history, Outcome("DL-ACKNOWLEDGED", Verdict.FAIL, reason="EARLY_DRAIN"))
    assert "3 frames had no answer yet" in " ".join(made.lines)
    assert made.wrong.t_ns == history.all(events.Drained)[0].t_ns


def test_a_request_that_was_never_answered(copy_of):
    folder = copy_of("passthrough")
    rows = [json.loads(row) for row in (folder / "control.jsonl").read_text("utf-8").splitlines()]
    asked = next(row for row in rows if json.loads(row["line"]).get("op") == "drain")
    number_ = json.loads(asked["line"])["id"]
    kept = [
        row
        for row in rows
        if row["direction"] == "to" or json.loads(row["line"]).get("id") != number_
    ]
    text = "".join(json.dumps(row) + "\n" for row in kept)
    tampering.fresh(folder / "control.jsonl").write_text(text, "utf-8")
    run = json.loads((folder / "run.json").read_text("utf-8"))
    run["ended"] |= {"how": "engine-failure", "code": "NO_ANSWER", "message": "no answer to drain"}
    run["ended_ns"] = asked["t_ns"] + 30_000_000_000
    tampering.fresh(folder / "run.json").write_text(json.dumps(run), "utf-8")

    history = History(folder)
    made = story(history, Outcome("PR-STOP", Verdict.FAIL, reason="NO_ANSWER"))

    assert "drain was asked at" in " ".join(made.lines)
    assert "not answered until the run ended, 30.000 s later" in " ".join(made.lines)
    assert made.wrong.t_ns == asked["t_ns"]


def test_outputs_that_were_left_out_are_counted_and_no_cause_is_named(copy_of):
    folder = copy_of("count-engine-death")
    text = "writer 0: first_seq 20838, but 8060 is next"
    tampering.added("refused", connection=77, code=6, text=text, op="APPEND")(folder)
    failed = Outcome(
        "EO-ENGINE-DEATH",
        Verdict.FAIL,
        reason="EXITED",
        actual="exit status 1",
        general="EO-ENGINE-DEATH",
    )

    made = story(History(folder), failed)

    assert text in made.headline
    (why,) = made.why
    assert "Writer 0 numbered its next output 20,838 where 8,060 was due: 12,778 numbers" in why


def test_an_unknown_says_in_one_sentence_what_is_missing(copy_of):
    folder = copy_of("count-engine-death")
    tampering.nothing_in_flight(folder)
    _, outcome, made = told(folder, "EO-ENGINE-DEATH")
    assert outcome.verdict is Verdict.UNKNOWN
    assert len(made.lines) == 1
    assert outcome.expected in made.lines[0]
    assert "SIGKILL of the engine" in made.lines[0]
    assert made.wrong is None


def test_a_fault_that_missed_is_told(copy_of):
    folder = copy_of("count-engine-death")
    tampering.no_fault(folder)
    step = KillEngineStep("fetched").to_json()
    tampering.added("fault-missed", step=step, why="too late")(folder)
    tampering.alter()(folder)
    _, _, made = told(folder, "EO-ENGINE-DEATH")
    assert any("kill of engine missed: too late" in line for line in made.lines)


def test_sound_runs_have_no_story(recorded):
    history = History(recorded.run("count-engine-death"))
    made = story(history, Outcome("EO-TAIL", Verdict.PASS))
    assert (made.lines, made.brief, made.wrong) == ((), (), None)


@pytest.mark.parametrize("reason", ["lost", "duplicate", "wrong-total", "RELEASED", "EXITED", "x"])
@pytest.mark.parametrize(
    "tamper",
    [tampering.drop_all, tampering.empty_input, tampering.no_fault, tampering.engine_failure],
)
def test_histories_that_hold_little_have_a_story(copy_of, tamper, reason):
    folder = copy_of("count-engine-death")
    tamper(folder)
    made = story(History(folder), Outcome("EO-TAIL", Verdict.FAIL, reason=reason))
    assert len(made.lines) >= 2


def test_text_of_the_engine_is_escaped_and_cut(copy_of):
    folder = copy_of("count-engine-death")
    hostile = "\x1b[31mred\x1b[0m [bold]x[/bold] \u202e" + "long " * 500
    tampering.in_run(
        ended={"how": "engine-failure", "code": "EXITED", "message": hostile, "stderr": []}
    )(folder)
    made = story(
        History(folder),
        Outcome("EO-TAIL", Verdict.FAIL, reason=hostile, expected=hostile, actual=hostile),
    )
    for line in (*made.lines, *made.brief):
        assert line.isprintable()
        assert len(line) <= 700
    assert any("\\x1b[31mred" in line for line in made.lines)


def test_an_engine_that_died_at_its_start_has_a_story(tmp_path):
    ended = {"how": "engine-failure", "code": "NOT_FOUND", "message": "no such file", "stderr": []}
    recipe = {"kind": "keyed", "records": 12_000, "keys": 5, "seed": 1}
    run = RunFolder(tmp_path, Scenario("count-pause", "count", {}, recipe), ended=ended)

    made = story(run.history(), Outcome("PR-HELLO", Verdict.FAIL, reason="NOT_FOUND"))

    text = " ".join(made.lines)
    assert "0 records had been fetched when the run ended, 12,000 were left" in text
    assert "no such file" in text


def test_an_engine_that_never_read_its_input_is_said_to_be_so(tmp_path):
    recipe = {"kind": "keyed", "seed": 1, "records": 1_000, "partitions": 2}
    run = RunFolder(tmp_path, Scenario("count", "count", {"emit": "every"}, recipe))
    lost = Outcome("DL-COMPLETE", Verdict.FAIL, reason="lost")
    made = story(run.history(), lost)
    assert "1,000 records that must give an output gave none." in made.headline
    assert "Nothing was fetched: no process of the engine ever read its input." in made.headline


def points(records: np.ndarray) -> np.ndarray:
    """Return the running totals that are due for records of count."""
    found = np.zeros(len(records), COUNT_OUT)
    totals: dict[int, tuple[int, int]] = {}
    for row, record in enumerate(records):
        key = int(record["key"])
        n, total = totals.get(key, (0, 0))
        totals[key] = n + 1, total + int(record["value"])
        found[row] = (key, *totals[key])
    return found


@pytest.mark.parametrize(
    ("silence_ns", "said"),
    [
        (2_500_000_000, "each partition was silent for 2.500 s or more before the first of them"),
        (10_000_000, "None of them was ever fetched."),
    ],
)
def test_what_was_never_read_is_said_to_be_so(tmp_path, silence_ns, said):
    """Half of each partition was fetched and answered, and nothing after a silence."""
    recipe = {"kind": "keyed", "seed": 1, "records": 1_000, "partitions": 2}
    run = RunFolder(tmp_path, Scenario("count-silence", "count", {"emit": "every"}, recipe))
    inputs = [np.array(records) for records in run.history().inputs(COUNT_IN)]
    whole = [len(records) for records in inputs]
    half = [size // 2 for size in whole]
    run.tables(
        publishes=[
            (t, 0, p, end[p]) for t, end in ((1, half), (1 + silence_ns, whole)) for p in (0, 1)
        ],
        fetches=[(2, 0, p, 0, half[p]) for p in (0, 1)],
    )
    run.outputs(output_log(np.concatenate([points(inputs[p][: half[p]]) for p in (0, 1)])))
    made = story(run.history(), Outcome("ST-SILENCE", Verdict.FAIL, reason="lost"))
    assert said in made.headline


def test_what_was_read_beyond_a_hole_is_not_called_unread(tmp_path):
    recipe = {"kind": "keyed", "seed": 1, "records": 1_000, "partitions": 1}
    run = RunFolder(tmp_path, Scenario("count", "count", {"emit": "every"}, recipe))
    run.tables(publishes=[(1, 0, 0, 1_000)], fetches=[(2, 0, 0, 0, 400), (3, 0, 0, 600, 1_000)])
    (records,) = [np.array(one) for one in run.history().inputs(COUNT_IN)]
    run.outputs(output_log(points(records[:400])))
    made = story(run.history(), Outcome("DL-COMPLETE", Verdict.FAIL, reason="lost"))
    assert "600 records that must give an output gave none." in made.headline
    assert "None of them was ever fetched" not in " ".join(made.lines)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["ValueError: a.cut: 0 bytes", "", "worker 0 ended: 70"], "ValueError: a.cut: 0 bytes"),
        (["panic: no state", "goroutine 1 [running]:"], "panic: no state"),
        (['Exception in thread "a" b.C: d', "\tat b.C.main"], 'Exception in thread "a" b.C: d'),
        (["ready", "error: none so far"], ""),
    ],
)
def test_an_exit_is_told_with_the_error_that_was_not_caught(lines, said):
    assert error_line(lines) == said


@pytest.mark.parametrize(
    ("n", "most", "said"),
    [
        (67_108_867, 3, ": n is 3 but for one bit, 2^26"),
        (5, 4, ""),
        (8, 3, ""),
        (7, 3, ": n is 3 but for one bit, 2^2"),
        (0, 3, ""),
    ],
)
def test_a_count_that_one_bit_made_is_told_as_that(n, most, said):
    assert count_values._one_bit(n, most) == said


@pytest.mark.parametrize(
    ("came", "due", "said"),
    [
        (-144_115_188_088_128_371, -12_272_499, ", which differs in one bit, 2^57"),
        (5 - 2**63, 5, ", which differs in one bit, 2^63"),
        (5 + 2**10, 5, ""),
        (5 + 2**40 + 2**41, 5, ""),
        (5, 5, ""),
    ],
)
def test_a_total_that_one_bit_changed_is_told_as_that(came, due, said):
    assert count_values._other_bit(came, due) == said


@pytest.mark.parametrize(
    ("releases", "said"),
    [
        ([(1, 0, 2, 391), (1, 0, 3, 299)], ", which partition 2 had released before and this one "),
        ([(1, 0, 2, 391), (1, 0, 3, 391)], ""),
        ([(1, 0, 2, 391), (1, 0, 1, 391)], ""),
        ([(9, 0, 2, 391), (1, 0, 3, 299)], ""),
    ],
)
def test_an_offset_of_another_partition_is_told_where_one_alone_had_it(tmp_path, releases, said):
    """Two workers that write one temporary file restore each other's cut."""
    recipe = {"kind": "keyed", "seed": 1, "records": 2_000, "partitions": 4}
    run = RunFolder(tmp_path, Scenario("count", "count", {"emit": "every"}, recipe))
    run.tables(releases=releases)
    near = SimpleNamespace(fault=SimpleNamespace(t_ns=5))
    place = SimpleNamespace(stream=0, partition=3, base=391)
    assert count_values._of_another(Facts(run.history()), near, place)[: len(said) or 1] == said


def test_a_frame_that_could_not_be_read_has_no_question_mark_for_a_name(tmp_path):
    recipe = {"kind": "keyed", "seed": 1, "records": 100}
    run = RunFolder(tmp_path, Scenario("count", "count", {"emit": "every"}, recipe))
    run.events(events.Refused(t_ns=1, connection=1, code=2, text="a frame of 9 bytes", op="?"))
    outcome = Outcome("PR-FRAMES", Verdict.FAIL, reason="TOO_LARGE", actual="a frame of 9 bytes")
    assert story(run.history(), outcome).headline.startswith("The log refused a frame ")


def test_a_fault_is_numbered_among_those_that_are_called_alike(copy_of):
    """A kill beside a delay is "the kill", and not "kill 2"."""
    facts = Facts.of(History(copy_of("count-links-slow")))
    nouns = [fault_of(one.fault.step).noun or one.fault.step.do for one in facts.aftermaths]
    assert len({*nouns}) > 1
    seen: Counter[str] = Counter()
    for noun, one in zip(nouns, facts.aftermaths, strict=True):
        seen[noun] += 1
        alone = nouns.count(noun) == 1
        assert facts.name(one) == (f"the {noun}" if alone else f"{noun} {seen[noun]}")
