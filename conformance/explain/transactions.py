"""Transactions that went wrong: each step of one of them, from STAGE to the last COMMIT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tickproof.conformance.explain.aftermath import offsets_in
from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.history.events import Abort, Commit, Drained, Refused, Stage, Started
from tickproof.conformance.history.outputs import UNNUMBERED
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.text import counted, shown

#: Outcomes of COMMIT, in words.
OUTCOMES: Final = {
    1: "outcome 1: committed now",
    2: "outcome 2: committed already, nothing is recorded",
    3: "outcome 3: unknown, nothing is recorded",
}
#: Most steps of one transaction that are told; the first and the last ones.
_STEPS: Final = 8


@dataclass(frozen=True)
class Step:
    """One request about a transaction, as it was answered.

    do: "stage", "commit" or "abort". count, writer: of a STAGE. outcome: of a COMMIT.
    committed: whether the transaction was committed before it. held: how many outputs of
    that writer it held before it. later: the transaction by which that writer's output was
    committed last, where that is another one.
    """

    t_ns: int
    do: str
    connection: int
    count: int
    writer: int
    outcome: int
    committed: bool
    held: int
    later: int | None = None

    @property
    def idle(self) -> bool:
        """Whether it was a STAGE of other output than the committed transaction holds.

        The same once more is in order: that is how a batch is repeated, before another one.
        """
        other = self.count > self.held or (self.count > 0 and self.later is not None)
        return self.do == "stage" and self.committed and other


def steps(facts: Facts) -> dict[int, list[Step]]:
    """Return the steps of each transaction of the run, in order of time."""
    found: dict[int, list[Step]] = {}
    committed: set[int] = set()
    held: dict[tuple[int, int], int] = {}
    last: dict[int, int] = {}  # of each writer
    recorded: list[Stage | Commit | Abort] = facts.history.all(Stage, Commit, Abort)
    for event in recorded:
        txn, count, writer, outcome = event.txn, 0, 0, 0
        if isinstance(event, Stage):
            count, writer = event.count, event.writer
        elif isinstance(event, Commit):
            outcome = event.outcome
        found.setdefault(txn, []).append(
            Step(
                event.t_ns,
                event.KIND,
                event.connection,
                count,
                writer,
                outcome,
                txn in committed,
                held.get((txn, writer), 0),
                last.get(writer) if event.KIND == "stage" and last.get(writer) != txn else None,
            )
        )
        if isinstance(event, Stage) and txn not in committed:
            held[txn, writer] = count
        if outcome in (1, 2):
            committed.add(txn)
        if outcome == 1:
            last |= {one: txn for other, one in held if other == txn}
    return found


def tell(facts: Facts) -> list[str]:
    """Tell of the first transaction that lost output: used again when committed, or unknown."""
    chains = steps(facts)
    reused = [(step.t_ns, txn) for txn, chain in chains.items() for step in chain if step.idle]
    if reused:
        _, txn = min(reused)
        return [chain(facts, txn, chains[txn]), *_reused(facts, txn, chains, len(reused))]
    unknown = [
        (later.t_ns, txn)
        for txn, chain in chains.items()
        if (later := chain[-1]).outcome == 3 and any(step.count for step in chain)
    ]
    if unknown:
        _, txn = min(unknown)
        held = [step for step in chains[txn] if step.count][-1]
        said = f"So the {counted(held.count, 'output')} staged under it never came out."
        return [chain(facts, txn, chains[txn]), said]
    return _open(facts, chains)


def unrecorded(facts: Facts) -> int:
    """Return how many outputs were staged in the run and never recorded under their number."""
    lost = 0
    for taken in steps(facts).values():
        lost += sum(step.count for step in taken if step.idle)
        if taken[-1].do != "abort" and not any(step.outcome in (1, 2) for step in taken):
            lost += sum({step.writer: step.count for step in taken}.values())
    return lost


def chain(facts: Facts, txn: int, taken: Sequence[Step]) -> str:
    """Tell the steps of one transaction in a sentence."""
    told = [_step(facts, step) for step in taken]
    if len(told) > _STEPS:
        half = _STEPS // 2
        told = [*told[:half], f"{len(told) - _STEPS} more steps", *told[-half:]]
    return f"Transaction {txn}: {'; '.join(told)}."


def _step(facts: Facts, step: Step) -> str:
    when = facts.since(step.t_ns, facts.around(step.t_ns))
    if step.do == "commit":
        return f"COMMIT {when}, {OUTCOMES.get(step.outcome, f'outcome {step.outcome}')}"
    idle = ", without effect, as it is committed" if step.committed else ""
    if step.do == "abort":
        return f"ABORT {when}{idle}"
    return f"STAGE of {counted(step.count, 'output')} (writer {step.writer}) {when}{idle}"


def _reused(facts: Facts, txn: int, chains: dict[int, list[Step]], times: int) -> list[str]:
    """Say how it came that a committed number was used again, and what that cost."""
    idle = next(step for step in chains[txn] if step.idle)
    held = f" that {counted(idle.held, 'output')} had used up" if idle.held else ""
    again = f", and transaction {idle.later} had been committed since" * (idle.later is not None)
    said = [
        f"The {counted(idle.count, 'output')} of writer {idle.writer} were staged under a "
        f"number{held or ' that was used up'}{again}: none of them was recorded under it"
        f"{_gap(facts, idle)}." + (f" The run shows this {times} times." if times > 1 else "")
    ]
    return [*said, *_given_up(facts, idle), *_settled(facts, txn, idle, chains)]


def _settled(facts: Facts, txn: int, idle: Step, chains: dict[int, list[Step]]) -> list[str]:
    """Name the transaction that the restarted engine took for its last committed one."""
    near = facts.before(idle.t_ns)
    if near is None:
        return []
    aborts = [s for s in chains[txn] if s.do == "abort" and near.since_ns <= s.t_ns < idle.t_ns]
    if not aborts:
        return []
    earlier = [
        (step.t_ns, other)
        for other, chain in chains.items()
        for step in chain
        if step.do == "commit"
        and step.outcome == 2
        and step.connection == aborts[-1].connection
        and near.since_ns <= step.t_ns < aborts[-1].t_ns
        and other != txn
    ]
    if not earlier:
        return []
    return [
        f"Before that ABORT it had sent COMMIT of transaction {max(earlier)[1]} again (outcome 2): "
        f"it went on as if that were the last one committed, and {txn} were not."
    ]


def _gap(facts: Facts, idle: Step) -> str:
    """Say how many numbers of the writer are missing, where a later frame was refused for it."""
    for row in facts.history.all(Refused, code=6):
        found = gap_numbers(row.text)
        if found and found[0] == idle.writer and row.t_ns > idle.t_ns:
            _, came, due = found
            never = "never came" if _next(facts, idle.writer) < came else "were missing then"
            return (
                f". When it went on with number {came:,}, the sink had {due:,} outputs of that "
                f"writer: "
                f"{counted(came - due, 'output')} {never}"
            )
    return ""


def _next(facts: Facts, writer: int) -> int:
    """Return the next number of a writer at the end of the run."""
    rows = facts.log.arrivals
    rows = rows[(rows["writer"] == writer) & (rows["first_seq"] != UNNUMBERED)]
    return int((rows["first_seq"] + rows["count"]).max(initial=0))


def gap_numbers(text: str) -> tuple[int, int, int] | None:
    """Read writer, number sent and next number from the refusal of a gap."""
    words = text.replace(":", " ").replace(",", " ").split()
    numbers = [int(word) for word in words if word.isdecimal()]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def _given_up(facts: Facts, idle: Step) -> list[str]:
    """Say whether the input of outputs that never came was released all the same."""
    m = facts.matching
    if m is None or not len(missing := m.missing):
        return []
    served = facts.served(idle.writer)
    if len(served) != 1:
        return []
    stream, partition = served[0]
    offset = offsets_in(m.places(missing), stream, partition)
    freed = of_partition(facts.history.releases, stream, partition)
    upto = int(freed["offset"].max(initial=0))
    lost = int((offset < upto).sum())
    if not lost:
        return []
    gave = f"{counted(lost, 'record')} that must give an output had given none"
    name = facts.partition(stream, partition)
    return [f"Yet it released {name} up to offset {upto:,}, where {gave}."]


def _open(facts: Facts, chains: dict[int, list[Step]]) -> list[str]:
    """Tell of a transaction that held output to the end and was never settled."""
    held = _unsettled(chains)
    if not held or not facts.history.all(Drained):
        return []
    txn = held[0]
    more = f" (so too {counted(len(held) - 1, 'other transaction')})" if len(held) > 1 else ""
    said = (
        f"Transaction {txn} was never committed{more}: what is staged and not committed counts as "
        "missing."
    )
    return [chain(facts, txn, chains[txn]), f"{_refused(facts, chains[txn][-1])}{said}"]


def _unsettled(chains: dict[int, list[Step]]) -> list[int]:
    """Return the transactions that hold output and were neither committed nor aborted."""
    held = [
        (chain[-1].t_ns, txn)
        for txn, chain in chains.items()
        if chain[-1].do == "stage" and chain[-1].count and not chain[-1].committed
    ]
    return [txn for _, txn in sorted(held)]


def left_behind(facts: Facts) -> str:
    """Say which transaction a dead engine left staged, and the next one never settled.

    "" where none is, or where no other engine came.
    """
    chains = steps(facts)
    started = max((row.t_ns for row in facts.history.all(Started, resume=True)), default=0)
    left = [txn for txn in _unsettled(chains) if chains[txn][-1].t_ns < started]
    if not left:
        return ""
    txn, step = left[0], chains[left[0]][-1]
    when = facts.since(step.t_ns, facts.around(step.t_ns))
    return (
        f"Transaction {txn}, of {counted(step.count, 'output')} of writer {step.writer}, was "
        f"staged {when}, and neither committed nor aborted after the restart."
    )


def _refused(facts: Facts, staged: Step) -> str:
    """Say that the last COMMIT of a connection was refused, where that was not sent again."""
    refused = [
        row
        for row in facts.history.all(Refused, op="COMMIT", connection=staged.connection)
        if row.t_ns > staged.t_ns
    ]
    if not refused:
        return ""
    again = [
        row
        for row in facts.history.all(Commit, connection=staged.connection)
        if row.t_ns > refused[-1].t_ns
    ]
    if again:
        return ""
    when = facts.since(refused[-1].t_ns, facts.around(refused[-1].t_ns))
    why = shown(refused[-1].text, 100)
    return f"COMMIT was refused {when} (error {refused[-1].code}: {why}) and not sent again. "


def repeated(facts: Facts, rows: Sequence[Any]) -> list[str]:
    """Tell of the transactions by which the two of a pair of outputs came, ARRIVAL rows each."""
    txns = {int(row["txn"]) for row in rows if row["transactional"]}
    chains = steps(facts) if len(txns) == len(rows) else {}
    return [chain(facts, txn, chains[txn]) for txn in sorted(txns) if txn in chains]
