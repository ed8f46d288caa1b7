"""A session so far, from its events alone: what a terminal, a page and metrics show of it."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import SEVERITY, Verdict

#: Faults that are listed, and runs.
MOST: Final = 30
#: Seconds of rates that are kept, one value each.
SPAN_S: Final = 120
_NAME: Final = 60
_SIGNALS: Final = {"kill": "SIGKILL", "pause": "SIGSTOP", "resume": "SIGCONT"}
_COUNTS: Final = ("published", "served", "outputs", "released")
_TOP: Final = 2**62


@dataclass
class Run:
    """A run that goes on. rates: records a second over the last step; counts as of now."""

    name: str
    records: int
    at_s: float
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    rates: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0.0))
    memory: int = 0
    faults: int = 0
    newest_fault: str = ""

    @property
    def backlog(self) -> int:
        """Records that were published and are not fetched yet."""
        return max(self.counts["published"] - self.counts["served"], 0)

    @property
    def wait_s(self) -> float:
        """Seconds that a record waits before it is fetched: backlog by rate, after Little's law."""
        rate = self.rates["served"]
        return self.backlog / rate if rate > 0 else math.nan


class SessionState:
    """What the events of one session said so far; nothing in them is trusted."""

    def __init__(self) -> None:
        self.engine = ""
        self.facts: dict[str, str] = {}
        self.began_s = self.now_s = 0.0
        self.tier: int | None = None
        #: "" while it goes on.
        self.ended = ""
        self.runs: dict[str, Run] = {}
        self.runs_ended: Counter[str] = Counter()
        #: (what was done, to whom) -> how often.
        self.faults: Counter[tuple[str, str]] = Counter()
        self.newest_faults: deque[dict[str, Any]] = deque(maxlen=MOST)
        #: Id -> verdict, reason, what was seen; in the order in which they fell.
        self.verdicts: dict[str, dict[str, str]] = {}
        #: Records of all runs together.
        self.totals: Counter[str] = Counter()
        #: Second -> records in it.
        self._by_second: dict[int, Counter[str]] = {}

    @property
    def counts(self) -> Counter[Verdict]:
        """Requirements by verdict."""
        return Counter(Verdict(one["verdict"]) for one in self.verdicts.values())

    @property
    def worst(self) -> Verdict | None:
        """The worst verdict so far, None before the first."""
        return max(self.counts, key=SEVERITY.index, default=None)

    def take(self, row: Mapping[str, Any]) -> Run | None:
        """Take over one event, in brief (see `session_log`); return the run that it is about.

        An event that is not as it should be is passed over.
        """
        run = self.runs.get(_text(row.get("run"), 500))
        self.now_s = max(self.now_s, _number(row.get("t")))
        takers = {
            "session-started": self._session_started,
            "session-ended": self._session_ended,
            "tier-started": self._tier_started,
            "decided": self._decided,
            "run-started": self._run_started,
            "progress": self._progress,
            "fault": self._fault,
            "run-ended": self._run_ended,
        }
        if (take := takers.get(row["event"])) is not None:
            take(row)
        return run

    def seconds(self) -> list[dict[str, float]]:
        """Return records by second over the last SPAN_S seconds, the current one left out."""
        last = int(self.now_s)
        return [
            {key: self._by_second.get(second, Counter())[key] for key in _COUNTS}
            for second in range(max(last - SPAN_S, int(self.began_s)), last)
        ]

    def _session_started(self, row: Mapping[str, Any]) -> None:
        self.engine = _text(row.get("engine"))
        self.began_s = self.now_s
        self.facts = {key: _text(row.get(key)) for key in ("profile", "seed", "isolation")}

    def _session_ended(self, row: Mapping[str, Any]) -> None:
        self.ended = _text(row.get("verdict")) or "ended"
        self.runs.clear()

    def _tier_started(self, row: Mapping[str, Any]) -> None:
        self.tier = int(_number(row.get("tier")))

    def _decided(self, row: Mapping[str, Any]) -> None:
        id_, verdict = _text(row.get("requirement")), _text(row.get("verdict"))
        order = [one.value for one in SEVERITY]
        if verdict not in order:
            return
        earlier = self.verdicts.get(id_)
        if earlier and order.index(earlier["verdict"]) >= order.index(verdict):
            return
        said = {key: _text(row.get(key), 300) for key in ("reason", "scenario", "said")}
        self.verdicts[id_] = {"verdict": verdict, **said}

    def _run_started(self, row: Mapping[str, Any]) -> None:
        scenario, app = _text(row.get("scenario")), _text(row.get("app"))
        name = scenario if app in scenario else f"{scenario} {app}"
        self.runs[_text(row.get("run"), 500)] = Run(name, _count(row.get("records")), self.now_s)

    def _progress(self, row: Mapping[str, Any]) -> None:
        if (run := self._run(row)) is None:
            return
        self._advance(run, row)
        run.memory = _count(row.get("rss"))
        run.records = _count(row.get("records")) or run.records

    def _fault(self, row: Mapping[str, Any]) -> None:
        do, target = _text(row.get("do")), _text(row.get("target"))
        self.faults[do, target] += 1
        run = self._run(row)
        served = _count(row.get("served")) or (run.counts["served"] if run else 0)
        records = _count(row.get("records")) or (run.records if run else 0)
        words = [_SIGNALS.get(do, do), target, str(_count(row.get("pid")) or "")]
        words.append(f"at {served:,} of {records:,} records" if records else "")
        said = shown(" ".join(filter(None, words)), 100)
        at_s = self.now_s - self.began_s
        self.newest_faults.append({"at_s": at_s, "run": run.name if run else "", "said": said})
        if run is not None:
            run.faults += 1
            run.newest_fault = said

    def _run_ended(self, row: Mapping[str, Any]) -> None:
        if (run := self._run(row)) is not None:
            self._advance(run, {**row, "published": row.get("records")})
        self.runs.pop(_text(row.get("run"), 500), None)
        self.runs_ended[_text(row.get("ended"))] += 1

    def _run(self, row: Mapping[str, Any]) -> Run | None:
        return self.runs.get(_text(row.get("run"), 500))

    def _advance(self, run: Run, row: Mapping[str, Any]) -> None:
        """Take over how far a run is: it never goes back."""
        took_s = max(self.now_s - run.at_s, 1e-3)
        second = self._by_second.setdefault(int(self.now_s), Counter())
        for key in _COUNTS:
            more = max(_count(row.get(key)) - run.counts[key], 0)
            run.counts[key] += more
            run.rates[key] = more / took_s
            second[key] += more
            self.totals[key] += more
        run.at_s = self.now_s
        for old in [one for one in self._by_second if one < self.now_s - SPAN_S - 1]:
            del self._by_second[old]


def _number(value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and abs(value) < _TOP else 0.0  # type: ignore[arg-type]


def _count(value: object) -> int:
    return max(int(_number(value)), 0)


def _text(value: object, limit: int = _NAME) -> str:
    return shown(str(value), limit) if isinstance(value, str | int) else ""
