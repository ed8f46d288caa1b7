"""A FETCH below a RELEASE: every partition is told, and what lies above the offset asked for."""

from __future__ import annotations

import pytest

from tests.suites import tampering
from tickproof.conformance.explain import story
from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.explain.protocol_breaches import fetches_below_release
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.session import judging
from tickproof.conformance.verdicts import Outcome, Verdict

FAILED = Outcome("EO-TWO-DEATHS", Verdict.FAIL, reason="EXITED", actual="x")


def refused_below(folder, per_partition):
    """Let the log refuse FETCHes at the end; partition -> offset asked for. Returns the tops."""
    history = History(folder)
    tops = {}
    for partition, offset in per_partition.items():
        rows = history.releases
        tops[partition] = int(rows["offset"][rows["partition"] == partition].max())
        text = f"offset {offset} was released (up to {tops[partition]})"
        tampering.added("refused", connection=77, code=3, text=text, op="FETCH")(folder)
    return tops


def test_all_partitions_and_the_releases_of_each_life_are_told(copy_of):
    folder = copy_of("count-engine-death")
    history = History(folder)
    restart = history.all(events.Started, resume=True)[0].t_ns
    rows = [r for r in history.releases.tolist() if r[2] in (0, 2)]
    last = {p: max((r[3] for r in rows if r[2] == p and r[0] < restart), default=0) for p in (0, 2)}
    later = {p: sum(r[2] == p and r[3] > last[p] for r in rows) for p in (0, 2)}
    assert min(last.values()) > 0, "the run has a cut before its fault"
    tops = refused_below(folder, last)

    text = " ".join(story(History(folder), FAILED).lines)

    assert f"asked for offset {last[0]:,} of partition 0, though it had released everything" in text
    assert (
        f"The same goes for offset {last[2]:,} of partition 2 (released up to {tops[2]:,}; " in text
    )
    assert "connection 77" in text
    for partition in (0, 2):
        start = text.index(f"In partition {partition}, it went back to the last RELEASE of life 1")
        noun = "RELEASE" if later[partition] == 1 else "RELEASEs"
        assert f"{later[partition]} {noun} of life 2 lie" in text[start:]


def test_what_the_judge_saw_stands_in_the_story(copy_of):
    folder = copy_of("count-engine-death")
    refused_below(folder, {1: 0, 3: 0})
    lines = story(History(folder), FAILED).lines
    tampering.sealed(folder)
    for outcome in judging.recheck(folder):
        if "was released" in outcome.actual:
            upto = outcome.actual.rpartition("(up to ")[2].rstrip(")")
            assert f"{int(upto):,}" in " ".join(lines)
    assert [one.place for one in fetches_below_release(Facts.of(History(folder)))] == [
        (0, 1),
        (0, 3),
    ]
    assert "It began at the very beginning" in " ".join(lines)


def test_no_partition_is_named_where_two_could_be_meant(copy_of):
    folder = copy_of("count-engine-death")
    tops = refused_below(folder, {0: 0})
    tampering.fresh(folder / "releases.bin")
    rows = History(folder).releases.copy()
    rows["offset"][rows["partition"] == 1] = tops[0]
    (folder / "releases.bin").write_bytes(rows.tobytes())

    (one,) = fetches_below_release(Facts.of(History(folder)))
    assert one.place is None
    text = " ".join(story(History(folder), FAILED).lines)
    assert "asked for offset 0, though it had released everything" in text


def test_a_fault_after_the_end_reads_as_one_that_never_came(copy_of):
    folder = copy_of("count-engine-death")
    tampering.engine_failure(folder)
    step = KillEngineStep("fetched").to_json()
    tampering.added("fault-missed", step=step, why="gone")(folder)
    tampering.events(
        folder, lambda rows: [*rows[:-1], rows[-1] | {"t_ns": rows[-1]["t_ns"] + 10**9}]
    )

    facts = Facts.of(History(folder))
    lines = story(History(folder), FAILED).lines
    at = facts.at(facts.ended)
    assert facts.ended < facts.end
    assert f"A further fault, kill of engine, never came: the engine had ended at {at}" in str(
        lines
    )
    assert lines[-1].startswith(f"The run ended at {at}")


@pytest.mark.parametrize(("missing", "said"), [(1 << 16, True), ((1 << 16) - 1, False)])
def test_an_offset_that_was_cut_to_16_bits_is_named(copy_of, missing, said):
    folder = copy_of("count-engine-death")
    history = History(folder)
    rows = history.releases.copy()
    rows["offset"] += 1 << 17
    tampering.fresh(folder / "releases.bin")
    (folder / "releases.bin").write_bytes(rows.tobytes())
    top = int(rows["offset"][rows["partition"] == 0].max())
    refused_below(folder, {0: top - missing})

    text = " ".join(story(History(folder), FAILED).lines)
    assert ("as when an offset is kept in 16 bits" in text) == said
    assert "the cut that it went back to is older than its RELEASE" in text
