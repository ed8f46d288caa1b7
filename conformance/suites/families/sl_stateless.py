"""Apps without state."""

from __future__ import annotations

import random
from typing import Final

from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.carriers import DOUBLE, PASSTHROUGH
from tickproof.conformance.suites.evidence import wrapping_inputs
from tickproof.conformance.suites.families.pr_protocol import passthrough, stdin_eof
from tickproof.conformance.suites.judge import Unknown
from tickproof.conformance.suites.require import require_correct
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scenarios import Context, carried, scenario, sized
from tickproof.conformance.verdicts import Reason

SL: Final = Family("SL", "Stateless apps", tier=0)


SL.requirement(
    "SL-PASSTHROUGH",
    "passthrough gives every payload back, once",
    """Without faults, the output holds exactly the input payloads, each as often as it came.
    If it fails, a batch was dropped or sent twice, or the end of the input was cut off: see the
    first offset that is missing.""",
    clauses="""app-passthrough app-order-free app-nothing-else app-fetched-first out-append
    log-fetch log-tail eut-reads-at-offsets kafka-passthrough kafka-json kafka-environment
    kafka-earliest kafka-topics kafka-producer""",
    needs=Needs(app=("passthrough",)),
    judges={passthrough: require_correct},
)


@scenario(PASSTHROUGH)
def tiny_payloads(context: Context, _rng: random.Random) -> Scenario:
    # An odd number in each partition, so that some FETCH and some APPEND has an odd length.
    return carried(context, 4 * 5_001, recipe={"size": 1})


@scenario(PASSTHROUGH)
def large_payloads(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, 64, recipe={"size": 1 << 20})


@scenario(PASSTHROUGH)
def short_payloads(context: Context, rng: random.Random) -> Scenario:
    return carried(context, 4 * 500, recipe={"size": sized(rng, 2, 2**15)})


@scenario(PASSTHROUGH)
def long_payloads(context: Context, rng: random.Random) -> Scenario:
    # A number of 16 bits with a sign does not hold these.
    return carried(context, 4 * 40, recipe={"size": sized(rng, 2**15, 2**16)})


@scenario(PASSTHROUGH)
def longer_payloads(context: Context, rng: random.Random) -> Scenario:
    return carried(context, 4 * 20, recipe={"size": sized(rng, 2**16, 2**20)})


SL.requirement(
    "SL-PAYLOAD-SIZES",
    "payloads from one byte to one MiB pass unchanged",
    """Payloads of 1 byte, of 1 MiB, and of any bytes in between come back byte for byte.
    If it fails, a buffer has a fixed size, a payload was treated as text, or an APPEND grew beyond
    the frame limit.""",
    clauses="""app-passthrough-sizes app-passthrough log-fetch-max-bytes log-frame-limit log-records
    log-one-size""",
    needs=Needs(app=("passthrough",)),
    judges=dict.fromkeys(
        (tiny_payloads, short_payloads, long_payloads, longer_payloads, large_payloads),
        require_correct,
    ),
)


SL.requirement(
    "SL-ONE-WORKER",
    "one worker serves all partitions",
    """Deployed with one worker, the engine reads every partition and answers drain.
    If it fails, partitions are tied to a fixed number of workers, and some had no owner.""",
    clauses="ctl-deploy-workers app-passthrough",
    judges={stdin_eof: require_correct},
)


@scenario(DOUBLE)
def double(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, context.records(50_000))


SL.requirement(
    "SL-DOUBLE",
    "double gives 2x for every x, once",
    """The output holds 2x for each input x, each as often as x came.
    If it fails, see whether values are lost, come twice, or were computed through a float or as an
    unsigned number.""",
    tier=1,
    clauses="app-double app-fixed-size log-little-endian kafka-double kafka-json",
    needs=Needs(app=("double",)),
    judges={double: require_correct},
)


def _double_wraps(history: History) -> None:
    require_correct(history)
    if not wrapping_inputs(history):
        raise Unknown(Reason.NOT_SEEN, "inputs whose double leaves 64 bits", "none")


SL.requirement(
    "SL-DOUBLE-WRAPS",
    "double wraps at 64 bits",
    """2x wraps in two's complement for every 64-bit x, the smallest and largest included.
    If it fails, the language raised an overflow, saturated, or changed to a float or a big
    integer.""",
    tier=1,
    clauses="app-wrap app-double",
    needs=Needs(app=("double",)),
    judges={double: _double_wraps},
)
