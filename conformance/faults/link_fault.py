"""Faults of the connections of source (those that FETCH) or sink (those that send output)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tickproof.conformance.faults.fault import Fault
from tickproof.conformance.history.events import Event, FiredFault, Link
from tickproof.conformance.history.folder import History
from tickproof.conformance.log_server.timed_faults import LinkEffect


class LinkFault(Fault, LinkEffect):
    """A fault of connections; those that last begin with the first thing that they meet."""

    meets_records = False

    @property
    def of_source(self) -> bool:
        """True if it meets connections of the source."""
        return self.step.target == "source"

    @property
    def whom(self) -> str:
        """The side that the connections belong to, as a sentence says it."""
        return f"the {self.step.target}"

    @property
    def lane(self) -> tuple[str, str]:
        return self.do, self.step.target

    def proofs(self, history: History) -> Sequence[Event]:
        seen = history.all(Link, do=self.do, target=self.step.target)
        return [row for row in seen if row.count and row.outcome != "dropped"]

    def ends(self, history: History, fired: FiredFault) -> Iterable[int]:
        if not self.lasts:
            return ()
        seen = history.all(Link, do=self.do, target=self.step.target)
        return (one.t_ns for one in seen if one.t_ns > fired.t_ns)
