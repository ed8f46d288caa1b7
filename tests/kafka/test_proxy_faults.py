"""Faults of connections through the proxy: each fires, shows in an event, and is survived."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kafka.copier import WAIT_S, Copier, Reader, Stage, staged, wait_until
from tickproof.conformance.fault_steps import HalfOpenStep, LateStep, fault_step
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.scenario import SinkBehaviour

RECORDS = 60


class Play:
    """A copier that goes on while one fault after the other strikes it."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.reader = stage, Reader(stage)

    def copied(self) -> None:
        """Feed more, and see each record once in the output, in the end."""
        self.stage.feed(RECORDS)
        self.reader.wait_for(self.stage.fed)

    def strike(self, do: Any, target: Any, **fields: Any) -> dict[str, Any]:
        """Carry a fault out, feed what it can meet, and return its event when it is over."""
        self.copied()
        links, before = self.stage.proxy.links, len(self.stage.seen("link"))
        step = fault_step(do, target, "fetched", **fields)
        struck = links.aim(fault_of(step))()
        assert struck["connections"] and not struck["pids"]
        self.copied()
        wait_until(lambda: len(self.stage.seen("link")) > before, f"the end of {step}")
        (event,) = self.stage.seen("link")[before:]
        assert (event["do"], event["target"]) == (do, target) and event["count"] >= 1
        assert not links.busy
        self.copied()
        return event

    def reconnected(self, side: str) -> bool:
        return any(one["target"] == side for one in self.stage.seen("reconnected"))


@pytest.fixture(scope="module")
def play(broker: Broker) -> Iterator[Play]:
    with staged(broker) as stage, Copier(stage):
        playing = Play(stage)
        yield playing
        playing.reader.close()
        assert stage.proxy.failure is None and not stage.proxy.traffic.malformed


@pytest.mark.parametrize("side", ["source", "sink"])
def test_cut(play: Play, side: str) -> None:
    event = play.strike("cut", side)
    # The answer broke off in the middle, for certain: what was sent has arrived.
    assert 0 < event["sent"] < event["whole"]
    assert event["connection"] in event["connections"]
    wait_until(lambda: play.reconnected(side))


@pytest.mark.parametrize("side", ["source", "sink"])
def test_half_open(play: Play, side: str) -> None:
    event = play.strike("half-open", side, seconds=0.3)
    assert event["connections"] and event["from_ns"]
    wait_until(lambda: play.reconnected(side))


@pytest.mark.parametrize("side", ["source", "sink"])
@pytest.mark.parametrize(
    ("do", "fields"), [("delay", {"lag_s": 0.1}), ("throttle", {"rate": 20_000.0}), ("drip", {})]
)
def test_slow_answers(play: Play, side: str, do: str, fields: dict[str, float]) -> None:
    event = play.strike(do, side, seconds=0.3, **fields)
    assert event["bytes"] > 0


def test_refused_output_comes_again(play: Play) -> None:
    refused_before = play.stage.proxy.traffic.errors.copy()
    play.strike("refuse", "sink", seconds=0.3)
    # The broker has seen nothing of it: the answer was the proxy's.
    assert play.stage.proxy.traffic.errors[0, 19] == refused_before[0, 19]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ("EndTxn", "CONCURRENT_TRANSACTIONS"),
        ("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("Produce", "REQUEST_TIMED_OUT"),
    ],
)
def test_what_is_answered_with_an_error_is_sent_again(
    play: Play, request_: str, error: str
) -> None:
    commits = play.stage.proxy.traffic.commits
    play.strike("error", "sink", seconds=0.2, request=request_, error=error)
    assert play.stage.proxy.traffic.commits > commits


def test_silence_hides_what_is_there(play: Play) -> None:
    fetched = len(play.stage.fetches)
    event = play.strike("silence", "source", seconds=0.3)
    assert event["count"] >= 1
    assert len(play.stage.fetches) > fetched


def test_a_side_without_connections_cannot_be_struck(broker: Broker) -> None:
    with staged(broker) as stage:
        for side in ("source", "sink"):
            with pytest.raises(LookupError, match=f"no connection of the {side} was open"):
                stage.proxy.links.aim(fault_of(fault_step("cut", side, "fetched")))  # type: ignore[arg-type]


def test_a_sink_that_stands_still_takes_output_and_does_not_answer(broker: Broker) -> None:
    with staged(broker, slow=SinkBehaviour(stall_after=1, stall_s=WAIT_S)) as stage:
        with Copier(stage):
            stage.feed(RECORDS)
            wait_until(lambda: stage.seen("stall"))
            assert stage.proxy.traffic.taken  # the broker has it
            assert not any(moment == "stage-acked" for moment, _ in stage.moments)
            stage.proxy.release_waits(True)  # as an engine's death does
            reader = Reader(stage)
            reader.wait_for(RECORDS)
            reader.close()
        assert not stage.seen("stall-ended")


def test_output_is_acknowledged_late_until_the_budget_is_used_up(broker: Broker) -> None:
    slow = SinkBehaviour(ack_delay_s=0.05, stall_after=1, stall_s=0.1, budget_s=0.5)
    with staged(broker, slow=slow) as stage, Copier(stage):
        reader = Reader(stage)
        while stage.sink.spent_s < slow.budget_s:
            stage.feed(10)
            reader.wait_for(stage.fed)
        reader.close()
        assert len(stage.seen("stall-ended")) == 1
        assert stage.sink.spent_s == pytest.approx(slow.budget_s)


def test_output_cannot_be_late(play: Play) -> None:
    with pytest.raises(LookupError, match="meets the broker's fencing"):
        play.stage.proxy.links.aim(fault_of(LateStep("fetched")))
    assert not play.stage.proxy.links.busy


def test_a_dead_engine_is_waited_for_no_longer(broker: Broker) -> None:
    """What lasts ends when the engine is dead, and the proxy is idle soon."""
    with staged(broker) as stage:
        with Copier(stage):
            playing = Play(stage)
            playing.copied()
            stage.proxy.links.aim(fault_of(HalfOpenStep("fetched", target="source", seconds=60)))()
            wait_until(lambda: stage.proxy.links.busy)
            stage.proxy.release_waits(True)
            assert not stage.proxy.links.busy
            playing.copied()
            playing.reader.close()
            stage.proxy.release_waits(False)


def test_acknowledgements_count_when_they_leave(broker: Broker) -> None:
    slow = SinkBehaviour(ack_delay_s=0.3, budget_s=60.0)
    with staged(broker, slow=slow) as stage, Copier(stage):
        stage.feed(10)
        traffic = stage.proxy.traffic
        wait_until(lambda: traffic.taken)
        assert traffic.acknowledged < traffic.taken
        wait_until(lambda: traffic.acknowledged == traffic.taken == 10)


def test_answers_come_in_pieces(broker: Broker) -> None:
    with staged(broker, slow=SinkBehaviour(pieces=True, budget_s=0.5)) as stage, Copier(stage):
        reader = Reader(stage)
        stage.feed(RECORDS)
        reader.wait_for(RECORDS)
        reader.close()
        assert stage.sink.spent_s > 0
