"""Names that an engine uses on the broker: groups, transactional ids and topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from tickproof.conformance.kafka.fields import Fields
from tickproof.conformance.kafka.wire import Api, Header, request_fields

#: The longest name of a topic; of a longer name of anything else so much is kept.
LONGEST: Final = 249
#: A UUID (RFC 9562) of a time or of random bits, not one that is made of a name; or 32 digits.
_UNIQUE: Final = re.compile(
    r"""(?<![0-9a-f])(
        [0-9a-f]{8}-[0-9a-f]{4}-[1467][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12} | [0-9a-f]{32}
    )(?![0-9a-f])""",
    re.IGNORECASE | re.VERBOSE,
)


class NameKind(StrEnum):
    """Kinds of things that have a name."""

    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    TOPIC = "topic"


class Name(NamedTuple):
    """A name that a request makes, or joins, on the broker."""

    kind: NameKind
    text: str


#: Requests whose first field is the name.
_FIRST: Final = {
    Api.JOIN_GROUP: NameKind.GROUP,
    Api.CONSUMER_GROUP_HEARTBEAT: NameKind.GROUP,
    Api.STREAMS_GROUP_HEARTBEAT: NameKind.GROUP,
    Api.OFFSET_COMMIT: NameKind.GROUP,
    Api.INIT_PRODUCER_ID: NameKind.TRANSACTIONAL_ID,
}


def collides(text: str, group: str) -> bool:
    """Tell whether another run may use the name, too: it holds neither ``group`` nor a UUID.

    One run cannot show that a UUID was drawn anew for it.
    """
    return group not in text and not _UNIQUE.search(text)


def names(frame: memoryview, head: Header) -> list[Name]:
    """Return the names in a request whose version is read; none for a request without."""
    if head.key == Api.CREATE_TOPICS:
        return [Name(NameKind.TOPIC, text) for text in _topics(request_fields(frame, head))]
    kind = _FIRST.get(head.key)  # type: ignore[call-overload]
    text = request_fields(frame, head).text() if kind else None
    return [Name(kind, text[:LONGEST])] if kind and text else []


def _topics(fields: Fields) -> Iterator[str]:
    for _ in fields.items():
        yield (fields.text() or "")[:LONGEST]
        fields.skip(4 + 2)
        for _ in fields.items():
            fields.i32()
            fields.skip(4 * len(fields.items()))
            fields.tags()
        for _ in fields.items():
            fields.text()
            fields.text()
            fields.tags()
        fields.tags()
