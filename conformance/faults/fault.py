"""The base class of faults: their action, limits, evidence and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from tickproof.conformance.fault_steps import Do, FaultStep, LastingStep, ToWorkersStep
from tickproof.conformance.faults.moments import moment_of
from tickproof.conformance.history.events import Event, FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.text import counted


@dataclass(frozen=True)
class Fault:
    """A step of a schedule, by what it does; each kind is a class, in the file of its word.

    The type of ``step`` says which steps a class is for.
    """

    step: FaultStep

    #: What is done and to whom, as a sentence says it; it may name ``self`` and ``step``.
    words: ClassVar[str]
    #: What a sentence calls it; "" for the word of its schedule.
    noun: ClassVar[str] = ""
    #: Its letter in the picture of a run.
    mark: ClassVar[str] = "F"
    #: Whether processes of the engine die by it.
    kills: ClassVar[bool] = False
    #: Whether every process of the engine ends by it.
    ends_engine: ClassVar[bool] = False
    #: Whether a worker dies by it, or may be taken for dead.
    takes_worker: ClassVar[bool] = False
    #: What an engine must claim to survive; None: nothing, any engine must bear it.
    needs: ClassVar[str | None] = None
    #: Claims of rescale that an engine has to make one of; empty: it needs none.
    rescale_claims: ClassVar[frozenset[str]] = frozenset()
    #: Whether it only makes the engine wait: nothing may come twice because of it.
    only_slows: ClassVar[bool] = False
    #: Whether it has to meet records that were fetched and not released.
    meets_records: ClassVar[bool] = True

    @property
    def do(self) -> Do:
        """The word of its schedule."""
        return self.step.do

    @property
    def lasts(self) -> bool:
        """True if it lasts, for ``seconds``."""
        return isinstance(self.step, LastingStep)

    @property
    def holds(self) -> bool:
        """True if the connection that came to the moment stands still while it is carried out."""
        return True

    @property
    def removes_file(self) -> bool:
        """True if it removes a file of the state: nobody can be seen to read that."""
        return False

    @property
    def may_be_unread(self) -> bool:
        """True if it may damage a file that nobody needs any more: nothing shows that it met."""
        return False

    @property
    def scales_to(self) -> int:
        """The workers that the engine has from then on, 0: as before."""
        return self.step.workers if isinstance(self.step, ToWorkersStep) else 0

    # -- limits

    def misfit(self) -> tuple[str, str] | None:
        """Return (what was expected, key) for a value that makes no sense here; None: all do."""
        for one in fields(self.step):
            if one.default is MISSING and getattr(self.step, one.name) == 0:
                return f"a number above 0 for {self.do}", one.name
        return None

    # -- evidence

    @property
    def lane(self) -> tuple[str, str]:
        """Faults with the same lane share their proofs: each of them needs one."""
        return self.do, ""

    def proofs(self, history: History) -> Sequence[Event] | None:
        """Return what shows that faults of its lane met something and ended.

        None: nothing but `FiredFault` shows it, so that it may pass without any effect.
        """
        return None

    def ends(self, history: History, fired: FiredFault) -> Iterable[int]:
        """Return the times (monotonic ns) at which it may have ended, if it lasts."""
        return ()

    def found(self, facts: Mapping[str, Any]) -> Fault:
        """Return the fault as it was carried out, by the facts of its event."""
        return self

    # -- words

    @property
    def of_engine(self) -> bool:
        """True if it is done to the engine as a whole."""
        return self.step.target == "engine"

    @property
    def what(self) -> str:
        """The action and its target, as a sentence says them."""
        return self.words.format(self=self, step=self.step)

    @property
    def deed(self) -> str:
        """The fault in two or three words, as its schedule says it: "kill of engine"."""
        return f"{self.step.do} of {self.step.target}"

    @property
    def workers(self) -> str:
        """For how many workers: "3 workers"."""
        return counted(self.scales_to, "worker")

    @property
    def length(self) -> str:
        """Its length in words: "for 2 s"."""
        return f"for {self.step.lasts_s:g} s"

    def __str__(self) -> str:
        burst = self.step.burst
        backlog = f", with {burst} records of backlog" if burst else ""
        return f"{self.what} {moment_of(self.step).when(self.step)}{backlog}"
