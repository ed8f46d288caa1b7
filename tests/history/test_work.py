"""Who did the work, from looks made by hand: named processes answer for what is below them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.history.event import ActiveProcess, NamedProcess, UsedConnection
from tickproof.conformance.history.events import Activity, Deployed, Started, Topology
from tickproof.conformance.history.work import answerable, lives, work

ARGV, FIRST, SECOND, BELOW = 10, 11, 12, 13
PARENTS = {ARGV: 1, FIRST: ARGV, SECOND: ARGV, BELOW: SECOND}


def look(t_ns, used, cpu=None, parents=PARENTS):
    running = (ActiveProcess(p, above, (cpu or {}).get(p, 0), "x") for p, above in parents.items())
    return Activity(
        t_ns=t_ns, running=tuple(running), used=tuple(UsedConnection(*row) for row in used)
    )


def test_records_count_for_the_named_process_above_the_one_that_holds_the_connection():
    looks = [
        look(1, [(1, (FIRST,), 5, 0), (2, (BELOW,), 0, 0)]),
        look(2, [(1, (FIRST,), 9, 1), (2, (BELOW,), 7, 3)]),
    ]
    found = work(looks, [ARGV, FIRST, SECOND])
    assert {pid: one.records for pid, one in found.items()} == {ARGV: 0, FIRST: 10, SECOND: 10}


def test_an_inherited_connection_counts_for_nobody():
    shared = look(1, [(1, (ARGV, FIRST), 50, 50)])
    assert not any(one.records for one in work([shared], [ARGV, FIRST]).values())


def test_a_connection_that_is_passed_on_counts_for_each_holder_in_its_time():
    looks = [
        look(1, [(1, (ARGV,), 5, 0)]),
        look(2, [(1, (FIRST,), 25, 0)]),
        look(3, [(1, (), 30, 0)]),
    ]
    found = work(looks, [ARGV, FIRST])
    assert (found[ARGV].records, found[FIRST].records) == (5, 25)


def test_processor_time_counts_from_the_first_look_on():
    looks = [
        look(1, [], {ARGV: 500_000, FIRST: 400_000}),
        look(2, [], {ARGV: 501_000, FIRST: 402_000, SECOND: 1_000}),
    ]
    found = work(looks, [ARGV, FIRST, SECOND])
    assert [(one.cpu_us, one.share) for one in found.values()] == [
        (1_000, 0.25),
        (2_000, 0.5),
        (1_000, 0.25),
    ]
    assert all(one.worked and not one.idled for one in found.values())


def test_between_work_and_idleness_nothing_is_said():
    def shares(first, second):
        looks = [look(1, []), look(2, [], {FIRST: first, SECOND: second})]
        return work(looks, [FIRST, SECOND])[FIRST]

    assert shares(10_000, 990_000).worked
    assert not shares(9_000, 991_000).worked and not shares(9_000, 991_000).idled
    assert shares(900, 999_100).idled
    # Little in all: to hand a hundred records on takes no millisecond.
    assert not shares(500, 500).worked and not shares(500, 500).idled
    assert shares(99, 1).idled


def test_a_circle_of_parents_comes_to_an_end():
    assert answerable(5, {5: 6, 6: 5}, {7}) is None


@given(st.lists(st.tuples(st.sampled_from([ARGV, FIRST, SECOND, BELOW]), st.integers(0, 99))))
def test_all_records_are_somebodys_where_one_process_holds_each_connection(moved):
    totals = {}
    looks = []
    for number, (pid, count) in enumerate(moved):
        totals[pid] = totals.get(pid, 0) + count
        looks.append(look(number, [(p, (p,), n, 0) for p, n in totals.items()]))
    found = work(looks, [ARGV, FIRST, SECOND])
    assert sum(one.records for one in found.values()) == sum(totals.values())
    assert found[SECOND].records == totals.get(SECOND, 0) + totals.get(BELOW, 0)


def test_lives_are_parted_by_deploy():
    named = (NamedProcess(ARGV, "engine", "x"),)
    events = [
        Started(t_ns=1, pid=ARGV),
        look(2, []),
        Deployed(t_ns=3, pid=ARGV),
        look(4, []),
        Topology(t_ns=5, processes=named),
        Started(t_ns=6, pid=99),
        Deployed(t_ns=7, pid=99),
        look(8, []),
        look(9, []),
    ]
    first, second = lives(events)
    assert (first.argv, [one.t_ns for one in first.looks], first.roles) == (
        ARGV,
        [4],
        {ARGV: "engine"},
    )
    assert (second.argv, [one.t_ns for one in second.until(8).looks]) == (99, [8])
