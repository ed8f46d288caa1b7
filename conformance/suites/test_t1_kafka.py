"""Tier 1 over Kafka: what an engine calls its own on the broker."""

from __future__ import annotations

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.judge import Fail, decides
from tickproof.conformance.suites.require import require_completed
from tickproof.conformance.verdicts import Reason


@decides("KA-NAMES", "count")
def test_names_on_the_broker_are_of_the_run(history: History) -> None:
    expected = "names that contain TICKPROOF_GROUP or a UUID"
    for event in history.all(events.KafkaNames):
        for kind, names in (
            ("group", event.groups),
            ("transactional id", event.transactional_ids),
            ("topic", event.topics),
        ):
            if names:
                raise Fail(Reason.FOREIGN_NAME, expected, f"{kind} {', '.join(map(repr, names))}")
    require_completed(history)
