"""Messages that commit offsets, or are part of a transaction; see `wire`."""

from __future__ import annotations

from dataclasses import dataclass

from tickproof.conformance.kafka.fields import Fields
from tickproof.conformance.kafka.wire import (
    Api,
    Header,
    Position,
    answer_fields,
    request_fields,
    topic_field,
)


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of a group, committed by themselves or (``producer_id``) in a transaction."""

    group: str
    offsets: tuple[Position, ...]
    producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class GroupAdded:
    """A group whose offsets become part of a transaction (AddOffsetsToTxn)."""

    group: str
    producer_id: int


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction, by commit or abort (EndTxn)."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool


def transaction_request(
    frame: memoryview, head: Header
) -> Offsets | GroupAdded | TransactionEnd | None:
    """Read what commits offsets or is part of a transaction; None for any other request."""
    match head.key:
        case Api.OFFSET_COMMIT:
            return _offset_commit(frame, head)
        case Api.TXN_OFFSET_COMMIT:
            return _txn_offset_commit(frame, head)
        case Api.ADD_OFFSETS_TO_TXN:
            fields = request_fields(frame, head)
            fields.text()
            producer_id = fields.i64()
            fields.i16()
            return GroupAdded(fields.text() or "", producer_id)
        case Api.END_TXN:
            fields = request_fields(frame, head)
            transactional_id = fields.text() or ""
            return TransactionEnd(
                transactional_id, fields.i64(), fields.i16(), commit=bool(fields.i8())
            )
    return None


def _offset_commit(frame: memoryview, head: Header) -> Offsets:
    fields, version = request_fields(frame, head), head.version
    group = fields.text() or ""
    fields.i32()
    fields.text()
    if version >= 7:
        fields.text()
    if version <= 4:
        fields.i64()
    return Offsets(group, _offsets(fields, head, with_epoch=version >= 6))


def _txn_offset_commit(frame: memoryview, head: Header) -> Offsets:
    fields = request_fields(frame, head)
    fields.text()
    group, producer_id = fields.text() or "", fields.i64()
    fields.i16()
    if head.version >= 3:
        fields.i32()
        fields.text()
        fields.text()
    return Offsets(group, _offsets(fields, head, with_epoch=head.version >= 2), producer_id)


def _offsets(fields: Fields, head: Header, with_epoch: bool) -> tuple[Position, ...]:
    found = []
    for _ in fields.items():
        topic = topic_field(fields, head)
        for _ in fields.items():
            found.append(Position(topic, fields.i32(), fields.i64()))
            if with_epoch:
                fields.i32()
            fields.text()
            fields.tags()
        fields.tags()
    return tuple(found)


def transaction_error(frame: memoryview, head: Header) -> int:
    """Read the answer to one of these requests: the first error that is none 0, or 0."""
    fields = answer_fields(frame, head)
    if head.key != Api.OFFSET_COMMIT or head.version >= 3:
        fields.i32()
    if head.key in (Api.END_TXN, Api.ADD_OFFSETS_TO_TXN):
        return fields.i16()
    errors = []
    for _ in fields.items():
        topic_field(fields, head)
        for _ in fields.items():
            fields.i32()
            errors.append(fields.i16())
            fields.tags()
        fields.tags()
    return next((error for error in errors if error), 0)
