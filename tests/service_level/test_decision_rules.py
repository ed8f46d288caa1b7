"""Rules that the verdict keeps for all figures: what is worse never helps, noise never fails."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import examples
from tests.service_level.made_figures import CI, FAST, NAMES, RECOVERY, run
from tickproof.conformance.performance import decision
from tickproof.conformance.verdicts import SEVERITY, Verdict

#: Factors on FAST: under every limit, over p99 only or over others too, over all.
FACTORS = (1.0, 2.0, 9.0, 11.0, 14.0, 100.0)
LATE = dict.fromkeys(NAMES, 60e3)


@st.composite
def figures(draw, noisy=(0.0, 0.1, 0.2, 0.5, 1.0)):
    """Return figures of up to 14 runs, alike in most so that verdicts differ."""
    usual = draw(st.sampled_from(FACTORS))
    count = draw(st.sampled_from((0, 1, 4, 5, 6, 8, 9, 9, 9, 10, 12, 14)))
    # Few draws a run: each of them takes longer than a decision.
    odd = draw(st.lists(st.integers(0, 2**32 - 1), min_size=count, max_size=count))
    return [made(number, usual, seed, noisy) for number, seed in enumerate(odd, 1)]


def made(number, usual, seed, noisy):
    """Return a run that a seed decides: each of its traits the usual one, or now and then odd."""
    rng = random.Random(seed)
    now_and_then = lambda often: rng.random() < often and seed != 0  # noqa: E731
    factor = lambda: rng.choice(FACTORS) if now_and_then(0.2) else usual  # noqa: E731
    behind = now_and_then(0.1)
    return run(
        number,
        {name: us * factor() for name, us in FAST.items()},
        noisy=rng.choice(noisy),
        quiet_percentiles={name: us * factor() for name, us in FAST.items()},
        quiet_samples=rng.choice((0, 299, 6_000, 6_000)),
        unanswered=rng.choice((0, 0, 0, 5, 70)),
        achieved=rng.choice((0.5, 0.95)) if behind else 1.0,
        backlog_growth=rng.choice((0.0, 1_000.0)) if behind else 0.0,
        floor={} if now_and_then(0.1) else dict.fromkeys(NAMES, 2e3),
        late=LATE if now_and_then(0.15) else dict.fromkeys(NAMES, 500.0),
        host_changed=["governor"] if now_and_then(0.05) else [],
        recovery_s=rng.choice((None, 3.0, 3.0, 3.0, 11.0, float("inf"))),
        quiet_recovery_s=rng.choice((None, 3.0, 11.0)),
        trend=rng.choice((0.0, 0.3)),
        trend_sure=now_and_then(0.5),
    )


@st.composite
def worse(draw, one):
    """Return a run whose figures are worse; its noise, lateness and host are the same."""
    kind = draw(
        st.sampled_from(
            (
                "all",
                "one",
                "quiet",
                "unanswered",
                "achieved",
                "growth",
                "recovery",
                "wrong",
                "failure",
            )
        )
    )
    times = draw(st.sampled_from((2.0, 12.0, 1000.0)))
    if kind in ("all", "one", "quiet"):
        names = NAMES if kind == "all" else draw(st.sets(st.sampled_from(NAMES), min_size=1))
        which = ("quiet_percentiles",) if kind == "quiet" else ("percentiles", "quiet_percentiles")
        which = which[: draw(st.integers(1, len(which)))]
        factors = {name: times if name in names else 1.0 for name in NAMES}
        tables = {key: getattr(one, key) for key in which}
        slower = {
            key: {name: us * factors[name] for name, us in table.items()}
            for key, table in tables.items()
        }
        return replace(one, **slower)
    if kind == "unanswered":
        lost = draw(st.sampled_from((1, 100, 3_000)))
        return replace(one, samples=one.samples - lost, unanswered=one.unanswered + lost)
    if kind == "achieved":
        return replace(one, achieved=min(one.achieved, draw(st.sampled_from((0.3, 0.95)))))
    if kind == "growth":
        return replace(one, backlog_growth=one.backlog_growth + 700)
    if kind == "recovery" and one.recovery_s is not None:
        quiet_s = one.quiet_recovery_s
        longer = {} if quiet_s is None else {"quiet_recovery_s": quiet_s * times}
        return replace(one, recovery_s=one.recovery_s * times, **longer)
    if kind == "failure":
        return replace(one, ended="engine-failure")
    return replace(one, wrong="lost: 1")


def verdict(profile, found):
    return decision.decide(profile, found).verdict


@settings(max_examples=examples(600), deadline=None)
@given(st.data(), st.sampled_from((CI, RECOVERY)), figures().filter(bool))
def test_worse_figures_never_make_the_verdict_better(data, profile, found):
    at = data.draw(st.integers(0, len(found) - 1))
    changed = [*found[:at], data.draw(worse(found[at])), *found[at + 1 :]]
    before, after = verdict(profile, found), verdict(profile, changed)
    assert SEVERITY.index(after) >= SEVERITY.index(before)


@st.composite
def disturbed(draw, one, rate):
    """Return a quiet run as a noisy host would have shown it: worse, but not in quiet seconds.

    Of its share of the time noise may take every record, and let the backlog grow.
    """
    share = draw(st.sampled_from((0.0, 0.05, 0.2, 0.3, 1.0)))
    if not share:
        return one
    up = st.sampled_from((1.0, 1.0, 12.0, 1000.0))
    longer = draw(up)
    return replace(
        one,
        noisy=share,
        percentiles={name: us * draw(up) for name, us in one.percentiles.items()},
        quiet_samples=draw(st.sampled_from((0, 2_000, one.quiet_samples))),
        achieved=one.achieved * (1 - draw(st.sampled_from((0, share)))),
        backlog_growth=one.backlog_growth + rate * draw(st.sampled_from((0, share))),
        recovery_s=None if one.recovery_s is None else one.recovery_s * longer,
        quiet_recovery_s=draw(st.sampled_from((None, one.recovery_s))),
    )


@settings(max_examples=examples(600), deadline=None)
@given(st.data(), st.sampled_from((CI, RECOVERY)), figures(noisy=(0.0,)))
def test_noise_never_makes_a_fail_nor_a_pass(data, profile, found):
    quiet = [
        replace(one, noisy=0.0, quiet_percentiles=one.percentiles, quiet_samples=6_000)
        for one in found
    ]
    noisy = [data.draw(disturbed(one, profile.load.rate)) for one in quiet]
    before, after = verdict(profile, quiet), verdict(profile, noisy)
    if before is not Verdict.FAIL:
        assert after is not Verdict.FAIL
    if before is not Verdict.PASS:
        assert after is not Verdict.PASS


@settings(max_examples=examples(200), deadline=None)
@given(st.data(), figures().filter(bool), st.booleans())
def test_a_wrong_answer_always_fails(data, found, attested):
    at = data.draw(st.integers(0, len(found) - 1))
    found[at] = replace(found[at], wrong="duplicate: order 7")
    problems = [] if attested else [Problem()]
    decided = decision.decide(CI, found, problems)
    assert decided.verdict is Verdict.FAIL
    assert decided.reasons[0].code == "WRONG_ANSWERS"
    assert decision.more_runs(CI, found) == 0


class Problem:
    probe, status, value, wanted = "governor", "UNOBSERVABLE", "no such file", "performance"


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from((CI, RECOVERY)), figures())
def test_the_order_of_the_runs_means_nothing_and_reasons_fit_the_verdict(profile, found):
    decided = decision.decide(profile, found)
    turned = decision.decide(profile, found[::-1])
    assert {one.code for one in turned.reasons} == {one.code for one in decided.reasons}
    verdicts = [one.verdict for one in decided.reasons]
    ranks = [SEVERITY.index(one) for one in verdicts]
    assert ranks == sorted(ranks, reverse=True)
    assert decided.verdict is (verdicts[0] if verdicts else Verdict.PASS)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from((CI, RECOVERY)), figures())
def test_asking_for_more_runs_comes_to_an_end(profile, found):
    most = profile.runs.most + profile.runs.void_most
    assert 0 <= decision.more_runs(profile, found) <= max(0, most - len(found))
    while wanted := decision.more_runs(profile, found):
        found = [*found, run(len(found) + 1, recovery_s=3.0)]
        assert decision.more_runs(profile, found) >= wanted - 1 or wanted == 0
    assert len(found) <= max(most, 14)
