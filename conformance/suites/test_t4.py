"""Tier 4: workers are added and removed, by a restart and while the engine runs."""

from __future__ import annotations

from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.judge import decides
from tickproof.conformance.suites.require import require_correct, require_fired
from tickproof.conformance.suites.scales import require_meanwhile, require_numbers, require_scaled


def _exact(history: History) -> int:
    """Expect that all is right; return how many faults there are to be."""
    require_correct(history)
    return len(history.run["scenario"]["faults"])


def _rescaled(history: History) -> None:
    require_fired(history, _exact(history))


def _rescaled_while_cutting(history: History) -> None:
    # The first cut of a new number may come before it has fetched anything.
    require_fired(history, _exact(history), in_flight=False)
    require_fired(history)


@decides("EL-RESTART", "count-rescale")
def test_totals_with_other_workers(history: History) -> None:
    _rescaled(history)


@decides("EL-RESTART", "market-rescale")
def test_verdicts_with_other_workers(history: History) -> None:
    _rescaled(history)


@decides("EL-BACKLOG", "count-rescale-backlog")
def test_totals_with_other_workers_behind_a_backlog(history: History) -> None:
    _rescaled_while_cutting(history)


@decides("EL-STEADY", "count-rescale-steady")
def test_totals_with_other_workers_under_a_steady_load(history: History) -> None:
    _rescaled_while_cutting(history)


def _scaled(history: History) -> None:
    require_fired(history, _exact(history))
    require_scaled(history)


@decides("EL-LIVE", "count-scale")
def test_totals_while_workers_come_and_go(history: History) -> None:
    _scaled(history)


@decides("EL-LIVE", "market-scale")
def test_verdicts_while_workers_come_and_go(history: History) -> None:
    _scaled(history)


@decides("EL-MOVING", "count-scale-death")
def test_totals_after_deaths_while_keys_move(history: History) -> None:
    require_fired(history, _exact(history), in_flight=False)
    require_meanwhile(history)


@decides("EL-MOVING", "count-scale-trouble")
def test_totals_after_trouble_while_keys_move(history: History) -> None:
    require_fired(history, _exact(history), in_flight=False)
    require_meanwhile(history)


@decides("EL-AFTER", "count-scale-then-death")
def test_totals_after_a_death_that_follows_a_scale(history: History) -> None:
    due = _exact(history) - sum("no checkpoint op" in row.why for row in history.missed_faults)
    require_fired(history, due, in_flight=False)
    require_fired(history)


@decides("EL-AFTER", "market-scale-then-death")
def test_verdicts_after_a_death_that_follows_a_scale(history: History) -> None:
    require_fired(history, _exact(history))


@decides("EL-OVERLAP", "count-scale-twice")
def test_totals_after_scales_that_overlap(history: History) -> None:
    require_fired(history, _exact(history), in_flight=False)
    require_meanwhile(history)
    require_numbers(history)
