"""Names on the broker that no other run has: those of the run, and UUIDs drawn for it."""

from __future__ import annotations

import uuid

import pytest

from tickproof.conformance.kafka.names import collides

GROUP = "tickproof-3f9c"
DRAWN = uuid.UUID("6f0c6f0e-8d0b-4e0c-9d5a-0b1f3c2d4e5f")


@pytest.mark.parametrize(
    "text",
    [
        GROUP,
        f"app-{GROUP}-worker-0",
        str(DRAWN),
        f"mine-{DRAWN}-0",
        f"mine_{str(DRAWN).upper()}",
        f"mine-{DRAWN.hex}",
        "mine-8a3f1c2e-ab12-11f0-8de9-0242ac120002",
    ],
)
def test_a_name_of_the_run_or_with_a_uuid_collides_with_none(text: str) -> None:
    assert not collides(text, GROUP)


@pytest.mark.parametrize(
    "text",
    [
        "mine",
        "miniature-0",
        "tickproof-3f9d",
        "mine-20261126-163000-4711",
        f"mine-{uuid.uuid5(uuid.NAMESPACE_DNS, 'mine')}",
        f"mine-{uuid.uuid3(uuid.NAMESPACE_DNS, 'mine')}",
        str(uuid.UUID(int=0)),
        "mine-" + 31 * "a",
        "mine-" + 33 * "a",
        f"mine-{str(DRAWN)[:-1]}",
        f"a{DRAWN}f",
    ],
)
def test_a_name_that_may_be_the_same_in_another_run_collides(text: str) -> None:
    assert collides(text, GROUP)
