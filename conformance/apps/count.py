"""App count: a running total of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tickproof.conformance.apps.app import App, Lane, Leeway, Messages, placed
from tickproof.conformance.checkers import count, recount
from tickproof.conformance.checkers.arrivals import nth_arrivals
from tickproof.conformance.checkers.expected import Groups
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.checkers.matching import Matching, match_count
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT
from tickproof.generators.spread_rule import FIVE_CENTS

#: Kinds of findings about what is counted. The others, about what is visible twice and in which
#: order, are judged by the output as it came.
_OF_STATE: Final = frozenset(("unknown-key", "beyond-input", "wrong-total", "lost", "gap"))


class Count(App):
    """For a record (key, value): the key, its number n among those of the key, and their sum."""

    name = "count"
    about = (
        "count keeps a running total of each key: for a record (key, value) it gives "
        "(key, n, total), where n counts the records of the key and total is their sum."
    )
    choices = {"emit": ("every", "some")}
    kind = "keyed"
    numbered = True
    members = {"k": ("uint64", "key"), "n": ("uint64", "n"), "total": ("int64", "total")}

    def input_layouts(self, size: int) -> tuple[np.dtype, ...]:
        """Return the layout of records with a key."""
        return (COUNT_IN,)

    def output_layout(self, size: int) -> np.dtype:
        """Return the layout of points."""
        return COUNT_OUT

    def check(self, history: History, log: OutputLog, leeway: Leeway) -> Findings:
        """Judge each total; state by the log in which records count once."""
        found = self._check(history, log, leeway)
        if leeway.once is log:
            return found
        of_state = self._check(history, leeway.once, leeway).only(_OF_STATE)
        return found.only(found.counts.keys() - _OF_STATE).merge(of_state)

    def _check(self, history: History, log: OutputLog, leeway: Leeway) -> Findings:
        return count.check_count(
            history.inputs(COUNT_IN),
            log,
            self.params["emit"],
            step_back_after=leeway.replay_after_ns,
            fetches=leeway.first_fetches[0],
        )

    def expected(self, inputs: Sequence[np.ndarray], limit: int = FIVE_CENTS) -> np.ndarray | None:
        """Return each point; with emit "some" the last one of each key."""
        records = np.concatenate(inputs)
        groups = Groups.of(records["key"])
        points = np.empty(len(records), COUNT_OUT)
        points["key"] = np.repeat(groups.keys, groups.count)
        points["n"] = np.arange(len(records)) - np.repeat(groups.start, groups.count) + 1
        points["total"] = groups.totals(records["value"])
        return points if self.one_each else points[groups.start + groups.count - 1]

    def match(self, history: History, log: OutputLog) -> Matching | None:
        """Match outputs by key and n."""
        return match_count(placed(history, COUNT_IN), log, self.one_each)

    def counted_once(self, history: History, log: OutputLog, since_ns: int) -> OutputLog:
        """Return the points that count each record once."""
        again = recount.rewinds(history.fetches, len(history.partitions), since_ns)
        return recount.without_repeats(history.inputs(COUNT_IN), log, again, since_ns)

    def processed(self, history: History, payloads: np.ndarray) -> int:
        """Add up the highest n of each key."""
        points = np.array(payloads[["key", "n"]])
        points = points[np.lexsort((points["n"], points["key"]))]
        last = np.ones(len(points), bool)
        last[:-1] = points["key"][1:] != points["key"][:-1]
        # A wrong n is for other requirements to find.
        return int(np.minimum(points["n"][last], history.input_records).sum())

    def words(self, output: np.void) -> str:
        """Return a point in words."""
        return f"key {int(output['key'])}, n={int(output['n'])}, total={int(output['total'])}"

    def lanes(self, history: History) -> Iterator[Lane]:
        """Measure each record, known by its key."""
        for column, part in enumerate(history.inputs(COUNT_IN)):
            tagged = np.zeros(len(part), bool)
            yield Lane(column, np.arange(len(part)), np.array(part["key"]), tagged)

    def arrivals(self, words: np.ndarray, log: OutputLog) -> np.ndarray:
        """Take the first output of the key with its n or, with emit "some", a higher one."""
        keys, n = np.array(log.payloads["key"]), np.array(log.payloads["n"])
        return nth_arrivals(words, keys, n, log.times, every=self.one_each)

    def messages(self, payloads: np.ndarray) -> Messages:
        """Return records as JSON, by their keys."""
        keys, values = payloads["key"].tolist(), payloads["value"].tolist()
        return Messages(
            [b"%d" % key for key in keys],
            [b'{"k":%d,"v":%d}' % pair for pair in zip(keys, values, strict=True)],
        )
