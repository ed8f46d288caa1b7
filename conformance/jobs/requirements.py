"""JB: what is asked of a user's own job.

Its output is held to an oracle, or to its own runs without faults.
"""

from __future__ import annotations

from typing import Final

from tickproof.conformance.suites.requirement import Needs, Requirement


def _requirement(id_: str, tier: int, title: str, promise: str) -> Requirement:
    clause = id_.lower().replace("jb-", "job-")
    return Requirement(id_, title, promise, "must", tier, (clause,), Needs())


CALM: Final = "JB-CALM"
#: Every schedule decides it.
SCHEDULE: Final = "JB-SCHEDULE"
JB: Final = {
    one.id: one
    for one in (
        _requirement(
            "JB-CALM",
            0,
            "without faults the job gives what is due",
            "The job starts, reads its input and gives output: what the oracle says, or in each "
            "run the same. If it fails, the job, job.toml or the oracle is wrong before any "
            "fault.",
        ),
        _requirement(
            "JB-LOST",
            3,
            "nothing is lost",
            "After faults the output holds all that is due. If it fails, offsets are committed "
            "before the effect of their records is durable.",
        ),
        _requirement(
            "JB-TWICE",
            3,
            "nothing is counted or given twice",
            "After faults nothing of the output is there more often than is due. If it fails, the "
            "effect of records is durable before their offsets are, and is no part of the same "
            "transaction.",
        ),
        _requirement(
            "JB-VALUES",
            3,
            "values are those that are due",
            "After faults every value is the one that is due. If it fails, the state that a "
            "restarted job goes on with is not the one at its offsets.",
        ),
        _requirement(
            "JB-ORDER",
            3,
            "the output of a key keeps its order",
            "After faults the output of each key comes in the order of runs without faults. If it "
            "fails, a job that was taken for dead still wrote, or requests were sent again behind "
            "later ones.",
        ),
        _requirement(
            "JB-RESTART",
            2,
            "a restart with SIGTERM changes nothing",
            "Every worker gets SIGTERM and is started again: as the job stands still, at work, "
            "and amid a transaction if it has some. If something is lost, the job's own shutdown "
            "commits offsets of records whose effect is not durable, what it holds in memory "
            "alone is not made again, or it begins behind the place where it ended. If something "
            "is there twice, its shutdown makes effects "
            "durable without their offsets, or it begins before the place where it ended. If "
            "values differ, state is not read at the start, or is not that of the place where it "
            "begins.",
        ),
        _requirement(
            "JB-COMMIT",
            3,
            "a kill at the commit changes nothing",
            "A worker is killed at moments of its commits: before the broker or the database has "
            "taken them, and before the job knows; and once as the job stands still. If something "
            "is lost, offsets, or the mark of a batch that is done, are durable before the "
            "effects of its records. If something is there twice, effects are durable before "
            "offsets, and what comes again is not known again: by a key, a batch or an offset "
            "that is the same in the next life. If values differ, state is not that of the place "
            "in the input where the next life goes on.",
        ),
        _requirement(
            "JB-REBALANCE",
            3,
            "a rebalance changes nothing",
            "One of several workers is killed with work under way, and comes back once others "
            "have taken over its partitions, twice. If something is lost, offsets were committed "
            "of a partition that was lost, or of records that were left out. If something is "
            "there twice, a partition was handled on after it was lost, or read from where an "
            "earlier share of it began. If values differ, the state of a partition was not read "
            "as it came, for the first time or again.",
        ),
        _requirement(
            "JB-ALL",
            3,
            "a kill of all workers at once changes nothing",
            "All workers are killed at the same time, with work under way. If it fails, what one "
            "of them had to restore was held by another alone.",
        ),
        _requirement(
            "JB-PAUSE",
            3,
            "a pause longer than the session changes nothing",
            "A worker stands still for longer than its session, then goes on. If something is "
            "lost, it committed offsets of partitions that were no longer its own, or what it had "
            "under way at the pause was taken for done. If something is there twice, it wrote "
            "with partitions or a transaction that were no longer its own, or read from where an "
            "earlier share began, or what comes again, in other batches, is not known again. If "
            "values differ, it went on with state that another worker had changed since.",
        ),
        _requirement(
            "JB-CUT",
            3,
            "connections that are reset change nothing",
            "All connections to the broker, and to a database that the kit has started, are "
            "reset, several times. If something is lost, what was under way on them was taken for "
            "done: an error was logged, and the next records were handled. If something is there "
            "twice, what had no answer was done, and done again. If it stands still, a call "
            "without a time limit waits for an answer that never comes, or a thread ended by an "
            "error and the process did not.",
        ),
        _requirement(
            "JB-REFUSE",
            3,
            "connections that are refused for seconds change nothing",
            "Connections to the broker, and to a database or server that the kit has started, are "
            "reset and none is taken, once for less and once for longer than a session; the "
            "second time those to Kafka stay, where there are others. If something is lost, what "
            "could not be written was given up: after so many attempts, or with an error that was "
            "only logged. If something is there twice, what had no answer was done, and done "
            "again. If it stands still, a thread ended by an error and the process did not, "
            "nothing connects anew, or the same transaction is tried for ever.",
        ),
        _requirement(
            "JB-SLOW",
            3,
            "answers that come late change nothing",
            "Each answer of the broker, and of a database or server that the kit has started, "
            "comes a second late, for some seconds. If something is lost, what was not answered "
            "in time was given up. If something is there twice, a time limit that was over is "
            "taken for an error, and what was done is done again.",
        ),
        _requirement(
            "JB-ERROR",
            3,
            "an error of the broker loses nothing",
            "The offsets of a transaction are answered ILLEGAL_GENERATION, twice, as after a "
            "rebalance; of a job without these, output is answered UNKNOWN_SERVER_ERROR, "
            "after which clients do not send again by themselves. The job aborts, sends again, or "
            "ends, and handles its records again. If something is "
            "lost, it goes on with the next records after an abort, which sets no consumer back, "
            "or nobody looks whether output was delivered. "
            "If something is there twice, state in memory keeps what the aborted batch had added, "
            "or output was sent outside of the transaction. If values differ, state in memory "
            "keeps what the aborted batch had added, or the next records were handled without "
            "those of the batch.",
        ),
        _requirement(
            "JB-RECOVERY",
            3,
            "the job goes on as soon as it claims",
            "After each death of the whole job, its next life has read and moved within the "
            "claimed time. If it fails, a session or a transaction of the dead life has to end "
            "first, or state takes long to be restored.",
        ),
        _requirement(
            "JB-BROKER",
            3,
            "a broker that dies and comes back changes nothing",
            "The broker is killed with work of the job under way, twice, and started again on its "
            "data. If something is lost, a request without an answer was taken for done. If "
            "something is there twice, what had no answer was done, and done again. If it stands "
            "still, a thread ended by an error and the process did not.",
        ),
        _requirement(
            "JB-LEADER",
            3,
            "nothing acknowledged is lost as another broker leads",
            "Of three brokers that keep each record three times, one dies, twice: with a commit "
            "under way, and as it alone has what it acknowledged to a client that does not wait "
            "for the others; and one ends in good order, as in a rolling restart, hands over what "
            "it leads, and leads again once it is back. If it fails, output was acknowledged by "
            "one broker only (acks=1), a topic of the job's own has one copy, or the job knows one "
            "broker only.",
        ),
        _requirement(
            "JB-POISON",
            3,
            "a record that cannot be read costs nothing but itself",
            "One record is bytes that the job cannot read. It is skipped, or written to the topic "
            "of dead letters, and the job goes on; or the job stops at it each time, and goes on "
            "without it, as claimed. If something is lost, records of the same batch were "
            "skipped, or the offset was committed before the dead letter was written or before "
            "the job stopped. If something is there twice or values differ, the record was "
            "handled as others are, or what stood before it in its batch was handled again. If it "
            "ends, it does so at a record that it claims to survive. If it stands still, records "
            "before or behind that one were left out, or its partition waits for it.",
        ),
        _requirement(
            "JB-WORKERS",
            0,
            "another number of workers gives the same",
            "The job runs with the number of workers that it claims to give the same with, and "
            "without faults. If it fails, a worker keeps or finds what belongs to all of them, or "
            "how many there are is part of what it writes.",
        ),
        _requirement(
            "JB-PARTITIONS",
            0,
            "another number of partitions gives the same",
            "Each input has the number of partitions that the job claims to give the same with, "
            "and nothing fails. If it fails, the job asks for partitions by number, or the place "
            "of a record is part of what it writes or how it knows the record again.",
        ),
        _requirement(
            "JB-AGAIN",
            0,
            "input that comes twice gives the same",
            "All input is sent, and then sent again, without faults. If it fails, what tells a "
            "record from its repetition is not kept, is not kept long enough, or is no part of "
            "the record.",
        ),
        _requirement(
            "JB-UPGRADE",
            3,
            "another version goes on with what is there",
            "The job is ended in mid-stream and the next version started on its state and "
            "offsets: of several workers one stands still until another has taken over, and all "
            "are killed at work; then the version before goes on, and the next one once more. If "
            "something is there twice, a version keeps its offsets in another place, or changes "
            "state in more than one transaction. If something is lost or values differ, a version "
            "does not read what the other has written, or keeps totals in memory. If it stands "
            "still or ends, a version cannot go on with what the other has written, or keeps "
            "totals in memory.",
        ),
        _requirement(
            SCHEDULE,
            3,
            "a schedule of faults changes nothing",
            "A schedule that you give, or that a search has found, is played. If it fails, play "
            "it with fewer faults to see which of them it takes.",
        ),
    )
}
